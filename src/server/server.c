/*
 * server.c - starts and stops the parts of the server in order.
 *
 * Order of stopping: refuse new connections, end the subscriptions, answer requests in flight, end
 * the network thread.
 */
#include "server.h"

#include "request.h"

#include "../base/deadline.h"

#include <string.h>
#include <time.h>

int64_t ef__server_now(const ef__server *server)
{
    return server->options.clock->wall_us(server->options.clock->context);
}

int64_t ef__server_mono(const ef__server *server)
{
    return server->options.clock->mono_us(server->options.clock->context);
}

static void fill_in(ef__server_options *o)
{
    o->listen = o->listen ? o->listen : "127.0.0.1:7450";
    o->clock = o->clock ? o->clock : ef_clock_system();
    o->threads_max = o->threads_max ? o->threads_max : 64;
    o->connections_max = o->connections_max ? o->connections_max : 4096;
    o->body_bytes_max = o->body_bytes_max ? o->body_bytes_max : 16 << 20;
    o->request_ms = o->request_ms ? o->request_ms : 60000;
    o->heartbeat_ms = o->heartbeat_ms ? o->heartbeat_ms : 15000;
    o->mode = o->mode ? o->mode : "";
    o->url = o->url ? o->url : "";
    o->path = o->path ? o->path : "";
}

static bool is_path_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-._~/", c) != NULL;
}

ef_status ef__server_path_check(ef_str path, ef_error *err)
{
    bool good =
        path.len == 0 || (path.ptr[0] == '/' && path.ptr[path.len - 1] != '/' && path.len <= 255);

    for (size_t i = 0; good && i < path.len; i++)
        good = path.ptr[i] && is_path_character(path.ptr[i]) &&
               !(i > 0 && path.ptr[i] == '/' && path.ptr[i - 1] == '/') &&
               !(i > 0 && path.ptr[i] == '.' && path.ptr[i - 1] == '.');
    if (good)
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT,
                   "server.path is '%.*s'; it begins with a slash and does not end in one, as "
                   "/everfold, with letters, digits and -._~ between slashes",
                   (int)(path.len < 255 ? path.len : 255), path.ptr);
}

void *ef__service_new(size_t bytes, ef_error *err)
{
    ef__service *service = calloc(1, bytes);

    if (!service) {
        (void)ef_fail(err, EF_NO_MEMORY, "memory ran out");
        return NULL;
    }
    pthread_mutex_init(&service->lock, NULL);
    ef__cond_init(&service->changed);
    return service;
}

ef_status ef__service_start(ef__service *service, void *(*run)(void *), void *context,
                            const char *purpose, ef_error *err)
{
    service->running = pthread_create(&service->thread, NULL, run, context) == 0;
    return service->running ? EF_OK : ef_fail(err, EF_NO_MEMORY, "no thread for %s", purpose);
}

void ef__service_stop(void *object)
{
    ef__service *service = object;

    if (!service || !service->running)
        return;
    pthread_mutex_lock(&service->lock);
    service->ending = true;
    pthread_cond_signal(&service->changed);
    pthread_mutex_unlock(&service->lock);
    (void)pthread_join(service->thread, NULL);
    service->running = false;
}

void ef__service_free(void *object)
{
    ef__service *service = object;

    if (!service)
        return;
    ef__service_stop(service);
    pthread_cond_destroy(&service->changed);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

static ef_status start_pools(ef__server *server, ef_error *err)
{
    server->pool = ef__pool_new(server->options.threads_max);
    server->probes = ef__pool_new(1);
    return server->pool && server->probes ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}

/* In the order of their start. */
static const struct part {
    ef_status (*start)(ef__server *server, ef_error *err);
    bool for_probes; /* a worker that only serves probes has it too */
} parts[] = {
    {ef__tokens_open, true},    {ef__tls_open, true},        {start_pools, true},
    {ef__waiters_start, false}, {ef__committer_start, true}, {ef__hub_start, false},
    {ef__tracer_start, true},   {ef__history_start, false},  {ef__http_start, true},
};

ef_status ef__server_start(const ef__server_options *options, ef__server **out, ef_error *err)
{
    ef__server *server = calloc(1, sizeof *server);
    ef_status st = server ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    *out = NULL;
    if (st != EF_OK)
        return st;
    server->options = *options;
    fill_in(&server->options);
    server->reads_at_once = !ef_view_is_remote(options->engine);
    server->started_us = ef__server_now(server);
    st = ef__routes_check(NULL, err);
    if (st == EF_OK)
        st = ef__server_path_check(ef_str_from(server->options.path), err);
    for (const struct part *p = parts; st == EF_OK && p < parts + sizeof parts / sizeof *parts; p++)
        if (p->for_probes || !options->probes_only)
            st = p->start(server, err);
    if (st != EF_OK) {
        ef__server_stop(server, 0);
        return st;
    }
    *out = server;
    return EF_OK;
}

const char *ef__server_url(const ef__server *server)
{
    return server->url;
}

const char *ef__server_socket(const ef__server *server)
{
    return server->socket.path[0] ? server->socket.path : NULL;
}

void ef__server_log_access(ef__server *server, bool wanted)
{
    __atomic_store_n(&server->options.access_log, wanted, __ATOMIC_RELAXED);
}

/* The certificate first: if it cannot be loaded, nothing has changed. */
ef_status ef__server_reload(ef__server *server, ef_error *err)
{
    ef_status st = ef__tls_reload(server, err);

    return st == EF_OK ? ef__tokens_reload(server, err) : st;
}

/* Waits for requests in flight, for `drain_ms` at most. */
static void drain_requests(ef__server *server, int64_t drain_ms)
{
    struct timespec slice = {.tv_nsec = 5 * 1000000};
    int64_t until_us = ef__server_mono(server) + drain_ms * 1000;

    while (__atomic_load_n(&server->counts.in_flight, __ATOMIC_ACQUIRE) > 0 &&
           ef__server_mono(server) < until_us)
        (void)nanosleep(&slice, NULL);
}

void ef__server_stop(ef__server *server, int64_t drain_ms)
{
    if (!server)
        return;
    __atomic_store_n(&server->stopping, true, __ATOMIC_RELEASE);
    ef__http_quiesce(server);
    ef__hub_stop(server);
    ef__waiters_stop(server);
    drain_requests(server, drain_ms);
    ef__service_stop(server->committer);
    ef__pool_stop(server->pool);
    ef__pool_stop(server->probes);
    ef__http_stop(server);
    ef__service_free(server->committer);
    ef__pool_free(server->pool);
    ef__pool_free(server->probes);
    ef__service_free(server->event_waiters);
    ef__service_free(server->view_waiters);
    ef__tracer_stop(server);
    ef__service_free(server->history);
    ef__service_free(server->hub);
    ef__tls_close(server);
    ef__tokens_close(server);
    free(server);
}
