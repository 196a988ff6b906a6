/*
 * loop.c - the network thread.
 *
 * The HTTP library could run a thread itself. This thread batches per round: responses that are
 * ready are sent after one wake-up, appends are passed on together and share a commit, and reads of
 * views share a reader (ef_view_reader), whose snapshot is released before the thread sleeps.
 *
 * `lock` guards the list of ready responses. The thread sleeps on the library's descriptors and on
 * `wake`, which is written once per wake-up: `woken` is set until the thread has read it.
 */
#include "http_priv.h"
#include "request.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TIMEOUT_MS_MAX 60000 /* of one sleep; any finite limit will do */

struct ef__loop {
    ef__server *server;
    struct MHD_Daemon *daemon, *local; /* local: of the Unix socket; may be NULL */
    int library, local_library, wake;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    pthread_mutex_t lock;
    ef__request *first, **last; /* answers that are ready */
    bool ending;
    atomic_bool woken;
};

void ef__loop_wake(struct ef__loop *loop)
{
    uint64_t one = 1;

    if (!atomic_exchange(&loop->woken, true))
        (void)!write(loop->wake, &one, sizeof one);
}

void ef__http_ready(ef__request *r)
{
    struct ef__loop *loop = r->server->loop;

    r->next_ready = NULL;
    pthread_mutex_lock(&loop->lock);
    *loop->last = r;
    loop->last = &r->next_ready;
    pthread_mutex_unlock(&loop->lock);
    ef__loop_wake(loop);
}

/* Resumes the ready requests. False: the loop ends. */
static bool go_on(struct ef__loop *loop)
{
    ef__request *r, *next;
    uint64_t count;
    bool ending;

    /* Before the list is read: a later request wakes the thread again. */
    (void)!read(loop->wake, &count, sizeof count);
    atomic_store(&loop->woken, false);
    pthread_mutex_lock(&loop->lock);
    r = loop->first;
    ending = loop->ending;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    for (; r; r = next) {
        next = r->next_ready; /* the library may free it once it is resumed */
        MHD_resume_connection(r->connection);
    }
    return !ending;
}

static int timeout_ms(struct MHD_Daemon *daemon)
{
    unsigned long long ms = 0;

    if (!daemon || MHD_get_timeout(daemon, &ms) != MHD_YES || ms > TIMEOUT_MS_MAX)
        return TIMEOUT_MS_MAX;
    return (int)ms;
}

/* The longest sleep: connections in their clients' turn are checked meanwhile. */
static int sleep_ms(const struct ef__loop *loop)
{
    int first_ms = timeout_ms(loop->daemon), second_ms = timeout_ms(loop->local);
    int ms = first_ms < second_ms ? first_ms : second_ms;

    return !ef__connections_settled(loop->server) && ms > EF__CONNECTIONS_CHECK_MS
               ? EF__CONNECTIONS_CHECK_MS
               : ms;
}

/* One round of the library; and another if a connection has ended, because a library at its
 * connection limit accepts new ones only at the start of the next round. */
static void serve_requests(const struct ef__loop *loop)
{
    const int64_t *open = &loop->server->counts.connections;
    int64_t before = __atomic_load_n(open, __ATOMIC_RELAXED);

    (void)MHD_run(loop->daemon);
    if (__atomic_load_n(open, __ATOMIC_RELAXED) < before)
        (void)MHD_run(loop->daemon);
}

/* Skips rounds without bytes and without resumed connections, which most are. */
static void serve_local(const struct ef__loop *loop, bool has_work)
{
    if (loop->local && (has_work || timeout_ms(loop->local) == 0))
        (void)MHD_run(loop->local);
}

static void *loop_run(void *context)
{
    struct ef__loop *loop = context;
    ef__server *server = loop->server;
    bool more = true;

    (void)pthread_setname_np(pthread_self(), "network");
    while (more) {
        struct pollfd fds[] = {{.fd = loop->library, .events = POLLIN},
                               {.fd = loop->wake, .events = POLLIN},
                               {.fd = loop->local_library, .events = POLLIN},
                               {.fd = ef__connections_descriptor(server), .events = POLLIN}};
        (void)poll(fds, 4, sleep_ms(loop));
        server->round_us = ef__server_mono(server);
        if (fds[1].revents)
            more = go_on(loop);
        if (fds[0].revents || fds[1].revents || timeout_ms(loop->daemon) == 0)
            serve_requests(loop);
        serve_local(loop, fds[1].revents || fds[2].revents);
        ef__connections_check(server, fds[3].revents != 0);
        ef_view_reader_idle(server->reader);
        ef__committer_go(server->committer);
    }
    return NULL;
}

/* Becomes readable when the library has something to do; -1: never. */
static int descriptor_of(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;

    return info ? info->epoll_fd : -1;
}

ef_status ef__loop_start(ef__server *server, struct MHD_Daemon *daemon, struct MHD_Daemon *local,
                         ef_error *err)
{
    struct ef__loop *loop = calloc(1, sizeof *loop);
    ef_status st;

    if (!loop)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    server->loop = loop;
    loop->server = server;
    loop->daemon = daemon;
    loop->local = local;
    loop->library = descriptor_of(daemon);
    loop->local_library = descriptor_of(local);
    loop->last = &loop->first;
    pthread_mutex_init(&loop->lock, NULL);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake < 0)
        return ef_fail(err, EF_IO, "no descriptor for the network: %s", strerror(errno));
    server->round_us = ef__server_mono(server);
    st = ef_view_reader_open(server->options.engine, &server->reader, err);
    if (st != EF_OK)
        return st;
    loop->running = pthread_create(&loop->thread, NULL, loop_run, loop) == 0;
    return loop->running ? EF_OK : ef_fail(err, EF_NO_MEMORY, "no thread for the network");
}

void ef__loop_stop(ef__server *server)
{
    struct ef__loop *loop = server->loop;

    if (!loop)
        return;
    pthread_mutex_lock(&loop->lock);
    loop->ending = true;
    pthread_mutex_unlock(&loop->lock);
    if (loop->running) {
        ef__loop_wake(loop);
        (void)pthread_join(loop->thread, NULL);
        (void)go_on(loop); /* its last round: the library stops with no suspended connection */
    }
    ef_view_reader_close(server->reader);
    EF_RELEASE(&server->found);
    if (loop->wake >= 0)
        (void)close(loop->wake);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
    server->loop = NULL;
}
