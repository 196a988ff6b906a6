/*
 * bench_http.c - load on a server: appends, reads of a view, subscribers; and the floor for reads.
 *
 * Connections are plain sockets that stay open, with one request at a time each. `fixed` measures
 * the HTTP library with a prepared response: it runs the library in this process as the server does
 * (one network thread, same memory per connection, same headers) and takes the same requests from
 * the same clients.
 */
#include "bench_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define USAGE                                                                                      \
    "usage: bench_http append port=P [clients=64] [batch=1] [secs=4] [streams=1000]\n"             \
    "       bench_http get port=P path=/v1/views/… [clients=64] [secs=4] [awake=0]\n"            \
    "       bench_http fixed [bytes=400] [path=/] [clients=64] [secs=4] [awake=0]\n"               \
    "       bench_http follow port=P path=/v1/subscribe/… [followers=200] [rate=200] [secs=5]\n" \
    "follow: with rate=0 the subscribers only wait. awake=1: the clients never sleep. views=N: "   \
    "the\n"                                                                                        \
    "path is a projection's, and each request is for one of its first N views, at random.\n"
#define REQUEST_MAX (1 << 20)
#define ANSWER_MAX (1 << 20)
#define CONNECTION_BYTES 16384 /* EF__HTTP_HEAD_BYTES of the server */

typedef struct load {
    int64_t port, clients, batch, secs, streams, bytes, followers, rate, awake, views;
    const char *path;
} load;

/* --- one connection ------------------------------------------------------------------------------
 */

static int dial(int64_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        bench_die("127.0.0.1:%" PRId64 ": %s", port, strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n <= 0)
            bench_die("send: %s", strerror(errno));
        bytes += n;
        length -= (size_t)n;
    }
}

/* State of a response. It is complete when Content-Length bytes of body were received. */
typedef struct answer {
    char room[ANSWER_MAX];
    size_t have, whole; /* expected size; 0 until the headers are complete */
} answer;

/* Receives available bytes, blocking or not; true once the response is complete. */
static bool receive_some(int fd, answer *a)
{
    ssize_t n = recv(fd, a->room + a->have, ANSWER_MAX - 1 - a->have, 0);
    char *end, *length;

    if (n <= 0)
        bench_die("the server closed the connection");
    a->have += (size_t)n;
    a->room[a->have] = '\0';
    end = a->whole ? NULL : strstr(a->room, "\r\n\r\n");
    length = end ? strcasestr(a->room, "\r\nContent-Length:") : NULL;
    if (end && !length)
        bench_die("a response without Content-Length");
    if (end)
        a->whole = (size_t)(end + 4 - a->room) + strtoul(length + 17, NULL, 10);
    return a->whole > 0 && a->have >= a->whole;
}

/* Returns the status of a complete response and resets the buffer. */
static int take_status(answer *a)
{
    a->have = a->whole = 0;
    return atoi(a->room + 9);
}

/* --- appends and reads ---------------------------------------------------------------------------
 *
 * One thread has all connections, as a proxy does: one waiting thread per connection would cost
 * the machine more than the server does, and it is the server that is measured.
 */

typedef struct caller {
    int fd;
    uint64_t sent_ns;
    bench_rng rng;
    answer *answer;
} caller;

/* Writes the next request into `room` and returns its length. */
typedef size_t write_request(const load *l, bench_rng *rng, char *room);

static size_t write_event(char *out, uint64_t stream, uint64_t number)
{
    char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
    size_t length = bench_payload(data, stream, number);

    (void)bench_stream_name(name, stream);
    return (size_t)sprintf(out,
                           "{\"stream\":\"%s\",\"type\":\"" BENCH_TYPE
                           "\",\"data\":%.*s,\"meta\":" BENCH_META "}",
                           name, (int)length, data);
}

static size_t write_task(char *room, const char *body, size_t length)
{
    size_t head = (size_t)sprintf(room,
                                  "POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                                  length);

    memmove(room + head, body, length);
    return head + length;
}

static size_t write_append(const load *l, bench_rng *rng, char *room)
{
    char *body = room + 256;
    size_t length = 0;

    body[length++] = '[';
    for (int64_t i = 0; i < l->batch; i++) {
        if (i > 0)
            body[length++] = ',';
        length += write_event(body + length, bench_random_below(rng, (uint64_t)l->streams),
                              bench_random(rng) >> 40);
    }
    body[length++] = ']';
    return write_task(room, body, length);
}

static size_t write_get(const load *l, bench_rng *rng, char *room)
{
    char name[BENCH_STREAM_BYTES + 1] = "/";

    if (l->views > 0)
        (void)bench_stream_name(name + 1, bench_random_below(rng, (uint64_t)l->views));
    return (size_t)snprintf(room, 4096, "GET %s%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", l->path,
                            l->views > 0 ? name : "");
}

static void call(const load *l, caller *c, write_request *write, char *room)
{
    size_t length = write(l, &c->rng, room);

    c->sent_ns = bench_now_ns();
    send_all(c->fd, room, length);
}

static int open_callers(const load *l, caller *callers)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    for (int64_t i = 0; i < l->clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &callers[i]};
        callers[i] = (caller){.fd = dial(l->port),
                              .rng = {(uint64_t)i + 1},
                              .answer = bench_alloc(1, sizeof(answer))};
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, callers[i].fd, &event) != 0)
            bench_die("epoll: %s", strerror(errno));
    }
    return epoll;
}

static void close_callers(const load *l, caller *callers, int epoll)
{
    for (int64_t i = 0; i < l->clients; i++) {
        (void)close(callers[i].fd);
        free(callers[i].answer);
    }
    (void)close(epoll);
    free(callers);
}

/* Waits for readable connections. A sleeping client is woken by the response, at the cost of the
 * server, more often the slower the server is; `awake` polls instead, once per microsecond, so as
 * not to disturb the server. */
static int wait_callers(const load *l, int epoll, struct epoll_event *ready, int max)
{
    uint64_t start = bench_now_ns(), looked = start;
    int n = epoll_wait(epoll, ready, max, l->awake ? 0 : 10000);

    while (n == 0 && l->awake && looked - start < UINT64_C(10000000000)) {
        uint64_t now = bench_now_ns();
        if (now - looked < 1000)
            continue;
        looked = now;
        n = epoll_wait(epoll, ready, max, 0);
    }
    if (n == 0)
        bench_die("no response for ten seconds");
    return n;
}

static void run_callers(load *l, const char *what, write_request *write, int wanted, int64_t each)
{
    caller *callers = bench_alloc((size_t)l->clients, sizeof *callers);
    char *room = bench_alloc(1, REQUEST_MAX), name[128];
    int epoll = open_callers(l, callers);
    int64_t waiting = l->clients;
    bench_latency latency = {0};
    struct sched_param unused = {0};
    uint64_t start = bench_now_ns();

    /* The client thread runs at low priority and does not preempt the server for each response. */
    (void)sched_setscheduler(0, SCHED_BATCH, &unused);
    for (int64_t i = 0; i < l->clients; i++)
        call(l, &callers[i], write, room);
    while (waiting > 0) {
        struct epoll_event ready[64];
        int n = wait_callers(l, epoll, ready, 64), status;
        for (int i = 0; i < n; i++) {
            caller *c = ready[i].data.ptr;
            if (!receive_some(c->fd, c->answer))
                continue;
            bench_latency_add(&latency, bench_now_ns() - c->sent_ns);
            status = take_status(c->answer);
            if (status != wanted)
                bench_die("%s returned %d: %.300s", what, status, c->answer->room);
            if (bench_secs_since(start) < (double)l->secs)
                call(l, c, write, room);
            else
                waiting--;
        }
    }
    (void)snprintf(name, sizeof name, "http %s clients=%" PRId64 " batch=%" PRId64, what,
                   l->clients, each);
    bench_report("http", name, latency.count * (uint64_t)each, bench_secs_since(start), &latency);
    bench_latency_release(&latency);
    close_callers(l, callers, epoll);
    free(room);
}

/* --- floor of reads --------------------------------------------------------------------------
 */

static enum MHD_Result answer_fixed(void *cls, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_size, void **context)
{
    (void)url;
    (void)method;
    (void)version;
    (void)upload;
    (void)upload_size;
    if (!*context) { /* a response at the first call would close the connection */
        *context = connection;
        return MHD_YES;
    }
    return MHD_queue_response(connection, 200, cls);
}

static void bench_fixed(load *l)
{
    char *body = bench_alloc(1, (size_t)l->bytes + 1);
    struct MHD_Response *response;
    struct MHD_Daemon *daemon;

    memset(body, 'x', (size_t)l->bytes);
    response = MHD_create_response_from_buffer((size_t)l->bytes, body, MHD_RESPMEM_PERSISTENT);
    daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer_fixed, response,
                              MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                              MHD_OPTION_END);
    if (!response || !daemon)
        bench_die("the HTTP library could not be started");
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    l->port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    l->path = l->path ? l->path : "/";
    run_callers(l, "fixed", write_get, 200, 1);
    MHD_stop_daemon(daemon);
    MHD_destroy_response(response);
    free(body);
}

/* --- subscribers
 * -----------------------------------------------------------------------------------
 *
 * Each event creates its own view, so that no two changes are merged into one message.
 */

typedef struct following {
    const load *l;
    struct pollfd *fds;
    int64_t *frames; /* per subscriber */
    size_t *seen;    /* matched prefix of the next frame */
    int64_t appended;
} following;

static void *append_steadily(void *context)
{
    following *f = context;
    uint64_t start = bench_now_ns();
    int64_t total = f->l->rate * f->l->secs;
    char *room = bench_alloc(1, REQUEST_MAX);
    answer *got = bench_alloc(1, sizeof *got);
    int fd = dial(f->l->port);

    for (int64_t i = 0; i < total; i++) {
        char body[1024];
        bench_sleep_until(start + (uint64_t)i * 1000000000u / (uint64_t)f->l->rate);
        send_all(fd, room, write_task(room, body, write_event(body, (uint64_t)i, (uint64_t)i)));
        while (!receive_some(fd, got))
            ;
        if (take_status(got) != 201)
            bench_die("append refused");
        f->appended++;
    }
    free(got);
    free(room);
    (void)close(fd);
    return NULL;
}

/* Counts frames: "event:" at the start of a line. The matched prefix is kept between pieces. */
static void count_frames(following *f, size_t i)
{
    static const char mark[] = "\nevent:";
    char buffer[65536];
    ssize_t n = recv(f->fds[i].fd, buffer, sizeof buffer, MSG_DONTWAIT);

    if (n == 0)
        bench_die("subscriber %zu was disconnected", i);
    for (ssize_t at = 0; at < n; at++) {
        f->seen[i] = buffer[at] == mark[f->seen[i]] ? f->seen[i] + 1 : buffer[at] == '\n';
        if (f->seen[i] < sizeof mark - 1)
            continue;
        f->seen[i] = 0;
        f->frames[i]++;
    }
}

static void open_followers(following *f)
{
    struct rlimit files;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    f->fds = bench_alloc((size_t)f->l->followers, sizeof *f->fds);
    f->frames = bench_alloc((size_t)f->l->followers, sizeof *f->frames);
    f->seen = bench_alloc((size_t)f->l->followers, sizeof *f->seen);
    for (int64_t i = 0; i < f->l->followers; i++) {
        char request[1024];
        int length = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
                              f->l->path);
        /* A subscription to views begins with a frame that reports no change. */
        f->frames[i] = strstr(f->l->path, "/subscribe/views/") ? -1 : 0;
        f->fds[i] = (struct pollfd){.fd = dial(f->l->port), .events = POLLIN};
        send_all(f->fds[i].fd, request, (size_t)length);
    }
}

static bool all_have(const following *f, int64_t wanted)
{
    for (int64_t i = 0; i < f->l->followers; i++)
        if (f->frames[i] < wanted)
            return false;
    return true;
}

static void bench_follow(load *l)
{
    following f = {.l = l};
    bench_latency latency = {0};
    int64_t wanted = l->rate * l->secs, least = wanted;
    pthread_t appender;
    uint64_t start;
    char name[128];

    open_followers(&f);
    usleep(500000); /* all subscriptions are open */
    start = bench_now_ns();
    if (l->rate > 0 && pthread_create(&appender, NULL, append_steadily, &f) != 0)
        bench_die("the appending thread could not be started");
    while (bench_secs_since(start) < (double)(l->rate ? 3 * l->secs : l->secs) &&
           !(l->rate && all_have(&f, wanted))) {
        if (poll(f.fds, (nfds_t)l->followers, 100) <= 0)
            continue;
        for (int64_t i = 0; i < l->followers; i++)
            if (f.fds[i].revents)
                count_frames(&f, (size_t)i);
    }
    if (l->rate > 0)
        (void)pthread_join(appender, NULL);
    for (int64_t i = 0; i < l->followers; i++)
        least = f.frames[i] < least ? f.frames[i] : least;
    bench_latency_add(&latency, bench_now_ns() - start);
    (void)snprintf(name, sizeof name,
                   "http follow followers=%" PRId64 " least=%" PRId64 " of=%" PRId64, l->followers,
                   least, wanted);
    bench_report("http", name, (uint64_t)(l->followers * (wanted ? wanted : 1)),
                 bench_secs_since(start), &latency);
    if (least < wanted)
        bench_die("a subscriber received %" PRId64 " of %" PRId64 " changes", least, wanted);
}

int main(int argc, char **argv)
{
    load l = {.clients = 64,
              .batch = 1,
              .secs = 4,
              .streams = 1000,
              .bytes = 400,
              .followers = 200,
              .rate = 200};
    const bench_setting settings[] = {
        {"port", &l.port, NULL},           {"clients", &l.clients, NULL}, {"batch", &l.batch, NULL},
        {"secs", &l.secs, NULL},           {"streams", &l.streams, NULL}, {"bytes", &l.bytes, NULL},
        {"followers", &l.followers, NULL}, {"rate", &l.rate, NULL},       {"path", NULL, &l.path},
        {"awake", &l.awake, NULL},         {"views", &l.views, NULL},
    };

    if (argc < 2)
        bench_die(USAGE);
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof settings[0]);
    if (strcmp(argv[1], "append") == 0)
        run_callers(&l, "append", write_append, 201, l.batch);
    else if (strcmp(argv[1], "get") == 0 && l.path)
        run_callers(&l, "get", write_get, 200, 1);
    else if (strcmp(argv[1], "fixed") == 0)
        bench_fixed(&l);
    else if (strcmp(argv[1], "follow") == 0 && l.path)
        bench_follow(&l);
    else
        bench_die(USAGE);
    return 0;
}
