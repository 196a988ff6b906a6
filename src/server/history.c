/*
 * history.c - samples of the last hour, and throughput of the last day: appended, applied and
 * published events, and the outbox.
 *
 * A thread samples the totals every ten seconds into a ring of one hour, which starts empty with
 * the process. The throughput of the last day, per minute, is in the store: the workers of all
 * processes add to it, and it survives restarts.
 */
#include "request.h"

#include "../shape/operation_table.h"

#include <everfold/outbox.h>
#include <everfold/worker.h>

#define STEP_S 10
#define SAMPLES_MAX 361 /* an hour, including its start */

struct ef__history {
    ef__service service;
    ef__sample ring[SAMPLES_MAX];
    size_t first, count;
};

/* --- sampling --------------------------------------------------------------------------------- */

static void add_projections(const ef_projection_list *list, ef__sample *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const ef_projection *p = &list->items[i];
        if (!p->active)
            continue;
        out->folded += p->applied + p->ignored + p->skipped;
        out->lag_events = p->lag_events > out->lag_events ? p->lag_events : out->lag_events;
        out->lag_us = p->lag_us > out->lag_us ? p->lag_us : out->lag_us;
    }
}

static ef_status read_sample(const ef__server *server, ef__sample *out, ef_error *err)
{
    EF__AUTO(ef_outbox_summary) rows = {0};
    EF__AUTO(ef_projection_list) projections = {0};
    ef_head head = {0};
    ef_status st = ef_journal_head(server->options.journal, &head, err);

    *out = (ef__sample){.at_us = ef__server_now(server), .position = head.position};
    if (st == EF_OK)
        st = ef_outbox_summarise(server->options.journal, &(ef_outbox_query){.any_tenant = true},
                                 &rows, err);
    if (st == EF_OK)
        st = ef_projection_ls(server->options.engine, EF_STR(""), &projections, err);
    if (st == EF_OK)
        add_projections(&projections, out);
    out->waiting = rows.pending + rows.processing;
    out->failed = rows.failed;
    out->dead = rows.dead;
    return st;
}

/* There is no sample while the store is unavailable. */
static void keep_sample(struct ef__history *h, const ef__sample *sample)
{
    h->ring[(h->first + h->count) % SAMPLES_MAX] = *sample;
    if (h->count < SAMPLES_MAX)
        h->count++;
    else
        h->first = (h->first + 1) % SAMPLES_MAX;
}

static void *history_run(void *context)
{
    ef__server *server = context;
    struct ef__history *h = server->history;
    struct timespec next;

    (void)clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&h->service.lock);
    while (!h->service.ending) {
        ef__sample sample;
        ef_error err = EF_ERROR_INIT;
        ef_status st;
        pthread_mutex_unlock(&h->service.lock);
        st = read_sample(server, &sample, &err);
        pthread_mutex_lock(&h->service.lock);
        if (st == EF_OK)
            keep_sample(h, &sample);
        next.tv_sec += STEP_S;
        while (!h->service.ending &&
               pthread_cond_timedwait(&h->service.changed, &h->service.lock, &next) == 0)
            ;
    }
    pthread_mutex_unlock(&h->service.lock);
    return NULL;
}

ef_status ef__history_start(ef__server *server, ef_error *err)
{
    struct ef__history *h = server->history = ef__service_new(sizeof *h, err);

    return h ? ef__service_start(&h->service, history_run, server, "the history", err)
             : EF_NO_MEMORY;
}

/* --- the route -------------------------------------------------------------------------------- */

static ef_status write_minutes(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_throughput_list) list = {0};
    int64_t day_us = EF_THROUGHPUT_MINUTES * INT64_C(60000000);
    ef_status st = ef_throughput_ls(r->server->options.journal, ef__server_now(r->server) - day_us,
                                    &list, err);

    if (st == EF_OK)
        ef__shape_write_array(&w, &ef__shape_minute, NULL, list.items, list.count);
    return st;
}

static ef_status get_history(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    struct ef__history *h = r->server->history;
    ef_str by = ef__request_text(r, "by");

    if (by.len && !ef_str_equal(by, EF_STR("minute")))
        return ef_fail(err, EF_BAD_INPUT, "by is '%.*s'; it is minute, or left out",
                       EF_STR_ARG(by));
    if (by.len)
        return write_minutes(r, err);
    ef__json_open(&w, '[');
    pthread_mutex_lock(&h->service.lock);
    for (size_t i = 0; i < h->count; i++)
        ef__shape_write(&w, &ef__shape_sample, &h->ring[(h->first + i) % SAMPLES_MAX]);
    pthread_mutex_unlock(&h->service.lock);
    ef__json_close(&w, ']');
    return EF_OK;
}

const ef__http_route ef__routes_history[] = {
    EF__RUN_OPERATION(
        get_history, GET, "/v1/history", READS(UNBOUND), "history",
        "the last hour, a sample per ten seconds; by=minute: the last day, a row per minute",
        INPUTS(EF__INPUT_ONLY("by", QUERY, TEXT)), ANSWER("Samples")),
    {0},
};
