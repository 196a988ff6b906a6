/*
 * metrics.c - what the server counts, and /metrics in the text format of Prometheus.
 *
 * Counters start at 0 with the process; values from the stores are current. A projection is shown
 * by its active generation only, so that its series continue after a switch.
 */
#include "request.h"

#include "../shape/operation_table.h"

#include <everfold/worker.h>
#include <everfold/outbox.h>
#include <everfold/publisher.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX 100
#define PROJECTIONS_MAX 200 /* with series of their own; everfold_projections counts all */
#define LANES_MAX 200
#define PUBLISHERS_MAX 64

/* --- counting --------------------------------------------------------------------------------- */

/* Upper bounds. */
static const int64_t bucket_us[EF__BUCKETS] = {100,     250,     500,     1000,    2500,
                                               5000,    10000,   25000,   100000,  250000,
                                               1000000, 2500000, 5000000, 10000000};

static void counter_add(int64_t *to, int64_t n)
{
    __atomic_add_fetch(to, n, __ATOMIC_RELAXED);
}

static void histogram_observe(ef__histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < EF__BUCKETS && us > bucket_us[i])
        i++;
    counter_add(&h->counts[i], 1);
    counter_add(&h->sum_us, us);
}

void ef__meter_append(ef__server *server, ef_status status, const ef_place *places, size_t count,
                      int64_t us)
{
    ef__server_meter *m = &server->meter;
    int64_t duplicates = 0;

    histogram_observe(&m->append, us);
    if (status != EF_OK) {
        bool conflict = ef_status_describe(status)->http == 409;
        counter_add(&m->appended[conflict ? 2 : 3], (int64_t)count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        duplicates += places[i].duplicate;
    counter_add(&m->appended[0], (int64_t)count - duplicates);
    counter_add(&m->appended[1], duplicates);
}

void ef__meter_wait(ef__server *server, ef_status status, int64_t us)
{
    if (status == EF_OK || status == EF_NOT_FOUND || status == EF_TIMEOUT)
        histogram_observe(&server->meter.waits[status == EF_TIMEOUT], us);
}

void ef__meter_request(const ef__request *r)
{
    ef__server_meter *m = &r->server->meter;
    int status = r->status ? r->status : 200;

    if (status >= 100 && status < 600)
        counter_add(&m->requests[ef__route_number(r->route)][status / 100 - 1], 1);
    if (!r->route || !(r->route->flags & EF__ROUTE_STREAM))
        histogram_observe(&m->request, ef__server_mono(r->server) - r->began_us);
}

static int64_t counter_load(const int64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

/* --- the format ------------------------------------------------------------------------------- */

static void write_family(ef__buf *out, const char *name, const char *type, const char *help)
{
    ef__buf_printf(out, "# HELP everfold_%s %s\n# TYPE everfold_%s %s\n", name, help, name, type);
}

/* A family of one value. */
static void write_metric(ef__buf *out, const char *name, const char *type, const char *help,
                         int64_t value)
{
    write_family(out, name, type, help);
    ef__buf_printf(out, "everfold_%s %" PRId64 "\n", name, value);
}

/* {key="value": quotes, backslashes and line breaks are escaped */
static void write_label(ef__buf *out, const char *name, const char *key, ef_str value)
{
    ef__buf_printf(out, "everfold_%s{%s=\"", name, key);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n')
            ef__buf_add_text(out, "\\n");
        else if (c == '"' || c == '\\')
            ef__buf_printf(out, "\\%c", c);
        else
            ef__buf_add_char(out, c);
    }
    ef__buf_add_char(out, '"');
}

static void write_labelled(ef__buf *out, const char *name, const char *key, ef_str value, int64_t n)
{
    write_label(out, name, key, value);
    ef__buf_printf(out, "} %" PRId64 "\n", n);
}

static void write_seconds(ef__buf *out, int64_t us)
{
    ef__buf_printf(out, "%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);
}

/* `outcome` NULL: without that label. */
static void write_buckets(ef__buf *out, const char *name, const char *outcome,
                          const ef__histogram *h)
{
    char within[48] = "", alone[48] = "";
    int64_t total = 0;

    if (outcome) {
        (void)snprintf(within, sizeof(within), "outcome=\"%s\",", outcome);
        (void)snprintf(alone, sizeof(alone), "{outcome=\"%s\"}", outcome);
    }
    for (size_t i = 0; i < EF__BUCKETS; i++) {
        total += counter_load(&h->counts[i]);
        ef__buf_printf(out, "everfold_%s_bucket{%sle=\"", name, within);
        write_seconds(out, bucket_us[i]);
        ef__buf_printf(out, "\"} %" PRId64 "\n", total);
    }
    total += counter_load(&h->counts[EF__BUCKETS]);
    ef__buf_printf(out, "everfold_%s_bucket{%sle=\"+Inf\"} %" PRId64 "\neverfold_%s_sum%s ", name,
                   within, total, name, alone);
    write_seconds(out, counter_load(&h->sum_us));
    ef__buf_printf(out, "\neverfold_%s_count%s %" PRId64 "\n", name, alone, total);
}

static void write_histogram(ef__buf *out, const char *name, const char *help,
                            const ef__histogram *h)
{
    write_family(out, name, "histogram", help);
    write_buckets(out, name, NULL, h);
}

/* --- the server ------------------------------------------------------------------------------- */

static void write_requests_of(ef__buf *out, const char *operation, const int64_t counts[5])
{
    for (int class = 0; class < 5; class ++)
        if (counter_load(&counts[class]) > 0) {
            write_label(out, "http_requests_total", "operation", ef_str_from(operation));
            ef__buf_printf(out, ",code=\"%dxx\"} %" PRId64 "\n", class + 1,
                           counter_load(&counts[class]));
        }
}

static void write_requests(ef__buf *out, const ef__server_meter *m)
{
    const ef__http_route *route;

    write_family(out, "http_requests_total", "counter",
                 "Requests answered, by operation and status.");
    for (size_t i = 0; (route = ef__route_at(i)) != NULL; i++)
        write_requests_of(out, route->operation->id, m->requests[i]);
    write_requests_of(out, "none", m->requests[EF__ROUTES_MAX]);
}

static void write_server(ef__buf *out, const ef__server *server)
{
    static const char *const outcomes[] = {"ok", "duplicate", "conflict", "error"};
    const ef__server_meter *m = &server->meter;

    write_family(out, "build_info", "gauge", "1, with the version that runs.");
    write_labelled(out, "build_info", "version", ef_str_from(ef_version()), 1);
    write_family(out, "start_timestamp_seconds", "gauge", "When the server was started.");
    ef__buf_add_text(out, "everfold_start_timestamp_seconds ");
    write_seconds(out, server->started_us);
    ef__buf_add_char(out, '\n');
    write_family(out, "events_appended_total", "counter",
                 "Events that came in over HTTP, by outcome.");
    for (size_t i = 0; i < 4; i++)
        write_labelled(out, "events_appended_total", "outcome", ef_str_from(outcomes[i]),
                       counter_load(&m->appended[i]));
    write_histogram(out, "append_duration_seconds", "Time an append took, durable.", &m->append);
    write_requests(out, m);
    write_histogram(out, "http_request_duration_seconds",
                    "From the request line to the answer; subscriptions left out.", &m->request);
    write_metric(out, "http_requests_in_flight", "gauge", "Requests that wait for their answer.",
                 counter_load(&server->counts.in_flight));
    write_metric(out, "http_connections", "gauge", "Open connections.",
                 counter_load(&server->counts.connections));
    write_metric(out, "http_slow_closed_total", "counter",
                 "Connections closed because they were slow.",
                 counter_load(&server->counts.refused));
    write_metric(out, "subscribers", "gauge", "Open subscriptions.",
                 counter_load(&server->counts.followers));
}

static void write_tasks(ef__buf *out, const ef__server *server)
{
    ef_task tasks[EF__TASKS_MAX];
    size_t count = ef__server_tasks(server, tasks);

    write_family(out, "task_steps_total", "counter", "Steps of the tasks of this process.");
    for (size_t i = 0; i < count; i++)
        write_labelled(out, "task_steps_total", "task", ef_str_from(tasks[i].name), tasks[i].steps);
    write_family(out, "task_stalled_seconds", "gauge",
                 "Seconds since a task last made progress; 0 if it is not stalled.");
    for (size_t i = 0; i < count; i++)
        write_labelled(out, "task_stalled_seconds", "task", ef_str_from(tasks[i].name),
                       tasks[i].stalled_us / 1000000);
}

/* The publishers of this process, at most 64. */
static void write_publishers(ef__buf *out, ef_engine *engine)
{
    ef_publisher_health *is = calloc(PUBLISHERS_MAX, sizeof(*is));
    size_t count = is && engine ? ef_engine_publishers(engine, is, PUBLISHERS_MAX) : 0;

    count = count < PUBLISHERS_MAX ? count : PUBLISHERS_MAX;
    write_family(out, "publisher_published_total", "counter", "Messages that sinks have taken.");
    for (size_t i = 0; i < count; i++)
        write_labelled(out, "publisher_published_total", "publisher", ef_str_from(is[i].name),
                       is[i].published);
    write_family(out, "publisher_failed_total", "counter", "Messages that sinks have rejected.");
    for (size_t i = 0; i < count; i++)
        write_labelled(out, "publisher_failed_total", "publisher", ef_str_from(is[i].name),
                       is[i].failed);
    write_family(
        out, "publisher_sink_failures", "gauge",
        "Consecutive attempts at which the sink was unavailable; 0: the last one succeeded.");
    for (size_t i = 0; i < count; i++)
        write_labelled(out, "publisher_sink_failures", "publisher", ef_str_from(is[i].name),
                       is[i].failures_in_a_row);
    free(is);
}

/* `per` units of the counter are one unit of the metric: 1,000,000 for microseconds. */
static void write_counted(ef__buf *out, const char *name, const char *help, const ef_histogram *h,
                          int64_t per)
{
    int64_t total = 0;

    write_family(out, name, "histogram", help);
    for (size_t i = 0; i <= EF_COUNTED_BOUNDS; i++) {
        total += h->counts[i];
        if (i < EF_COUNTED_BOUNDS)
            ef__buf_printf(out, "everfold_%s_bucket{le=\"%g\"} %" PRId64 "\n", name,
                           (double)h->bounds[i] / (double)per, total);
        else
            ef__buf_printf(out, "everfold_%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, total);
    }
    ef__buf_printf(out, "everfold_%s_sum %.6f\neverfold_%s_count %" PRId64 "\n", name,
                   (double)h->sum / (double)per, name, total);
}

/* Counters of the workers of this process. */
static ef_status write_engine(ef__buf *out, ef_engine *engine, ef_error *err)
{
    ef_engine_counts c;
    ef_status st = ef_engine_counts_read(engine, &c, err);

    if (st != EF_OK)
        return st;
    write_counted(out, "projection_batch_events", "Events that were applied together.",
                  &c.batch_events, 1);
    write_counted(out, "projection_batch_duration_seconds", "Time a batch took, with its commit.",
                  &c.batch_us, 1000000);
    write_counted(out, "handler_duration_seconds", "Time of a batch that the programs took.",
                  &c.fold_us, 1000000);
    write_family(
        out, "projection_retries_total", "counter",
        "Retries: of events that failed (permanent) and of batches while a store was unavailable.");
    write_labelled(out, "projection_retries_total", "class", EF_STR("permanent"), c.retries);
    write_labelled(out, "projection_retries_total", "class", EF_STR("store"), c.store_retries);
    write_metric(out, "quarantine_total", "counter", "Events that failed for the last time.",
                 c.quarantined);
    write_metric(out, "large_views_total", "counter",
                 "Views that came to half of the size that a view may have, or more.",
                 c.large_views);
    write_counted(out, "tick_duration_seconds", "Time a tick took that had something to do.",
                  &c.tick_us, 1000000);
    write_family(out, "ticks_total", "counter", "Ticks of workers and publishers.");
    write_labelled(out, "ticks_total", "outcome", EF_STR("done"), c.ticks);
    write_labelled(out, "ticks_total", "outcome", EF_STR("empty"), c.ticks_empty);
    write_labelled(out, "ticks_total", "outcome", EF_STR("failed"), c.ticks_failed);
    write_metric(out, "outbox_claimed_total", "counter", "Rows that were taken from the outbox.",
                 c.claimed);
    write_metric(out, "run_events_total", "counter",
                 "Events that replays and other runs have read.", c.run_events);
    write_family(out, "lease_transfers_total", "counter",
                 "Leases of partitions that came or went.");
    write_labelled(out, "lease_transfers_total", "reason", EF_STR("taken"), c.leases_taken);
    write_labelled(out, "lease_transfers_total", "reason", EF_STR("released"), c.leases_released);
    write_labelled(out, "lease_transfers_total", "reason", EF_STR("lost"), c.leases_lost);
    return EF_OK;
}

/* --- the stores ------------------------------------------------------------------------------- */

static void write_broker(ef__buf *out, const ef_store_facts *facts)
{
    write_metric(out, "jetstream_redelivered_total", "counter",
                 "Messages that the broker delivered again, and that were dropped.",
                 facts->redelivered);
    write_metric(out, "jetstream_unreadable_total", "counter",
                 "Messages that were read and are no events.", facts->unreadable);
    write_metric(out, "jetstream_holes_total", "counter",
                 "Positions that were passed: deleted, or left out by the filter.", facts->holes);
    write_metric(out, "jetstream_connects_total", "counter",
                 "Connections to the broker that were made.", facts->connects);
}

static ef_status write_journal(ef__buf *out, ef_journal *journal, ef_error *err)
{
    ef_head head = {0};
    ef_store_facts facts = {0};
    ef_status st = ef_journal_head(journal, &head, err);

    if (st == EF_OK)
        st = ef_journal_facts(journal, &facts, err);
    if (st != EF_OK)
        return st;
    write_metric(out, "store_head_position", "gauge", "Position of the last event.", head.position);
    if (facts.streams >= 0) {
        write_metric(out, "streams", "gauge", "Streams in the journal.", facts.streams);
    }
    if (facts.store_bytes >= 0 || facts.wal_bytes >= 0)
        write_family(out, "storage_bytes", "gauge", "Size of the journal's files.");
    if (facts.store_bytes >= 0)
        write_labelled(out, "storage_bytes", "kind", EF_STR("journal"), facts.store_bytes);
    if (facts.wal_bytes >= 0)
        write_labelled(out, "storage_bytes", "kind", EF_STR("wal"), facts.wal_bytes);
    if (facts.free_bytes >= 0) {
        write_metric(out, "storage_free_bytes", "gauge", "Free on the journal's file system.",
                     facts.free_bytes);
    }
    write_metric(out, "stale_writes_refused_total", "counter",
                 "Writes under a lease that had passed on.", facts.stale_refused);
    if (facts.connects > 0)
        write_broker(out, &facts);
    return EF_OK;
}

static ef_status write_leases(ef__buf *out, ef_journal *journal, ef_error *err)
{
    EF__AUTO(ef_lease_list) leases = {0};
    int64_t live[EF_LEASE_RUN + 1] = {0};
    ef_status st = ef_lease_ls(journal, NULL, &leases, err);

    for (size_t i = 0; i < leases.count; i++)
        live[leases.items[i].key.kind] += leases.items[i].live;
    write_family(out, "leases_held", "gauge", "Live leases, by kind.");
    for (ef_lease_kind kind = 0; st == EF_OK && kind <= EF_LEASE_RUN; kind++)
        write_labelled(out, "leases_held", "kind",
                       ef_str_from(ef_name_of(EF_NAMES_LEASE_KIND, kind)), live[kind]);
    return st;
}

/* Lanes of publishers, and "*" for all projections; failed rows by status. */
static ef_status write_outbox(ef__buf *out, ef_journal *journal, ef_error *err)
{
    ef_outbox_query all = {.any_tenant = true};
    ef_outbox_summary s = {0};
    EF__AUTO(ef_lane_list) lanes = {0};
    ef_status st = ef_outbox_summarise(journal, &all, &s, err);

    if (st == EF_OK)
        st = ef_lane_ls(journal, &lanes, err);
    write_family(out, "outbox_rows", "gauge",
                 "Rows of the outbox by status; blocked ones are pending too.");
    write_labelled(out, "outbox_rows", "status", EF_STR("pending"), s.pending);
    write_labelled(out, "outbox_rows", "status", EF_STR("processing"), s.processing);
    write_labelled(out, "outbox_rows", "status", EF_STR("failed"), s.failed);
    write_labelled(out, "outbox_rows", "status", EF_STR("dead"), s.dead);
    write_labelled(out, "outbox_rows", "status", EF_STR("blocked"), s.blocked);
    write_family(out, "outbox_oldest_timestamp_seconds", "gauge",
                 "When the oldest row that waits was written; absent when none waits.");
    if (s.oldest.count > 0) {
        ef__buf_add_text(out, "everfold_outbox_oldest_timestamp_seconds ");
        write_seconds(out, s.oldest.items[0].enqueued_us);
        ef__buf_add_char(out, '\n');
    }
    EF_RELEASE(&s.oldest);
    write_family(out, "outbox_pending", "gauge",
                 "Rows that wait, by destination; *: all projections.");
    for (size_t i = 0; st == EF_OK && i < lanes.count && i < LANES_MAX; i++) {
        if (lanes.items[i].kind == EF_LANE_KIND_PROJECTION)
            continue;
        all.lane = lanes.items[i].name;
        s = (ef_outbox_summary){0};
        st = ef_outbox_summarise(journal, &all, &s, err);
        write_labelled(out, "outbox_pending", "destination", all.lane, s.pending + s.processing);
        EF_RELEASE(&s.oldest);
    }
    return st;
}

/* --- projections ------------------------------------------------------------------------------ */

typedef struct gauge {
    const char *name, *help;
    size_t offset; /* of an int64_t */
} gauge;

static const gauge gauges[] = {
    {"projection_position", "How far it is.", offsetof(ef_projection, position)},
    {"projection_lag_events", "Events that are not applied yet and are not blocked.",
     offsetof(ef_projection, lag_events)},
    {"projection_blocked_streams",
     "Streams behind a failed event; tenants in the order of the log.",
     offsetof(ef_projection, blocked_streams)},
    {"projection_blocked_events", "Events that are not applied because their stream is blocked.",
     offsetof(ef_projection, blocked_events)},
    {"projection_views", "Views it has.", offsetof(ef_projection, views)},
    {"projection_unaccounted_events", "Events neither done nor waiting: must be 0.",
     offsetof(ef_projection, unaccounted)},
    {"projection_failures", "Failures that are open.", offsetof(ef_projection, failures)},
    {"quarantine_events", "Dead rows in its lane.", offsetof(ef_projection, quarantined)},
};

/* Microseconds, shown as seconds; not below 0. */
static const gauge ages[] = {
    {"projection_lag_seconds",
     "Age of the oldest event that is not applied yet and is not blocked.",
     offsetof(ef_projection, lag_us)},
    {"projection_blocked_seconds", "Age of the oldest event that is blocked.",
     offsetof(ef_projection, blocked_us)},
};

static const gauge outcomes[] = {
    {"applied", "", offsetof(ef_projection, applied)},
    {"ignored", "", offsetof(ef_projection, ignored)},
    {"skipped", "", offsetof(ef_projection, skipped)},
};

static int64_t value_of(const ef_projection *p, const gauge *g)
{
    return *(const int64_t *)(const void *)((const char *)p + g->offset);
}

/* The active generation is the first of its name. */
static bool is_shown(const ef_projection_list *list, size_t i)
{
    return i < PROJECTIONS_MAX &&
           (i == 0 || !ef_str_equal(list->items[i].name, list->items[i - 1].name));
}

static void write_states(ef__buf *out, const ef_projection_list *list)
{
    static const char *const states[] = {"catching_up", "migrating", "live",
                                         "paused",      "failed",    "retired"};

    write_family(out, "projection_state", "gauge", "1 for the state it is in, 0 for the others.");
    for (size_t i = 0; i < list->count; i++)
        for (size_t s = 0; is_shown(list, i) && s < sizeof states / sizeof states[0]; s++) {
            write_label(out, "projection_state", "projection", list->items[i].name);
            ef__buf_printf(out, ",state=\"%s\"} %d\n", states[s],
                           ef_str_equal(list->items[i].state, ef_str_from(states[s])));
        }
}

static void write_outcomes(ef__buf *out, const ef_projection_list *list)
{
    write_family(out, "projection_events_total", "counter",
                 "Processed events of the active generation, by outcome; reset when the generation "
                 "changes.");
    for (size_t i = 0; i < list->count; i++)
        for (size_t o = 0; is_shown(list, i) && o < sizeof(outcomes) / sizeof(outcomes[0]); o++) {
            write_label(out, "projection_events_total", "projection", list->items[i].name);
            ef__buf_printf(out, ",outcome=\"%s\"} %" PRId64 "\n", outcomes[o].name,
                           value_of(&list->items[i], &outcomes[o]));
        }
}

static void write_gauge(ef__buf *out, const ef_projection_list *list, const gauge *g,
                        bool in_seconds)
{
    write_family(out, g->name, "gauge", g->help);
    for (size_t i = 0; i < list->count; i++) {
        int64_t value = value_of(&list->items[i], g);
        if (!is_shown(list, i))
            continue;
        write_label(out, g->name, "projection", list->items[i].name);
        ef__buf_add_text(out, "} ");
        if (in_seconds)
            write_seconds(out, value > 0 ? value : 0);
        else
            ef__buf_printf(out, "%" PRId64, value);
        ef__buf_add_char(out, '\n');
    }
}

static ef_status write_projections(ef__buf *out, ef_engine *engine, ef_error *err)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = ef_projection_ls(engine, EF_STR(""), &list, err);
    int64_t names = 0;

    for (size_t i = 0; i < list.count; i++)
        names += i == 0 || !ef_str_equal(list.items[i].name, list.items[i - 1].name);
    write_metric(out, "projections", "gauge", "Projections that are deployed.", names);
    for (size_t g = 0; g < sizeof(gauges) / sizeof(gauges[0]); g++)
        write_gauge(out, &list, &gauges[g], false);
    for (size_t g = 0; g < sizeof(ages) / sizeof(ages[0]); g++)
        write_gauge(out, &list, &ages[g], true);
    write_states(out, &list);
    write_outcomes(out, &list);
    return st;
}

static void write_waits(ef__buf *out, const ef__server_meter *m)
{
    static const char name[] = "wait_duration_seconds";

    write_family(out, name, "histogram", "Reads that asked for at_least or current.");
    write_buckets(out, name, "ok", &m->waits[0]);
    write_buckets(out, name, "timeout", &m->waits[1]);
}

/* The newest rebuild of each projection; only one runs at a time. */
static ef_status write_rebuilds(ef__buf *out, ef_journal *journal, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_status st =
        ef_run_ls(journal, &(ef_run_query){.open_only = true, .limit = RUNS_MAX}, &runs, err);

    write_family(out, "rebuild_progress_ratio", "gauge", "How much of an open rebuild is done.");
    for (size_t i = 0; st == EF_OK && i < runs.count; i++) {
        const ef_run *run = &runs.items[i];
        double total = run->total > 0 ? (double)run->total : 1;
        if (run->mode != EF_RUN_REBUILD || run->total < 0)
            continue;
        write_label(out, "rebuild_progress_ratio", "projection", run->projection);
        ef__buf_printf(out, "} %.4f\n",
                       run->processed < run->total ? (double)run->processed / total : 1.0);
    }
    return st;
}

/* Only if tracing is on. */
static void write_traces(ef__buf *out, const ef__server *server)
{
    ef__trace_counts counts = ef__tracer_counts(server);

    if (!server->tracer)
        return;
    write_family(out, "trace_spans_total", "counter", "Spans of requests, by what became of them.");
    write_labelled(out, "trace_spans_total", "outcome", EF_STR("sent"), counts.sent);
    write_labelled(out, "trace_spans_total", "outcome", EF_STR("failed"), counts.failed);
    write_labelled(out, "trace_spans_total", "outcome", EF_STR("dropped"), counts.dropped);
}

static ef_status get_metrics(ef__request *r, ef_error *err)
{
    const ef__server *server = r->server;
    ef_status st;

    r->type = "text/plain; version=0.0.4; charset=utf-8";
    write_server(&r->out, server);
    write_waits(&r->out, &server->meter);
    write_traces(&r->out, server);
    write_tasks(&r->out, server);
    write_publishers(&r->out, server->options.engine);
    st = write_engine(&r->out, server->options.engine, err);
    if (st == EF_OK)
        st = write_journal(&r->out, server->options.journal, err);
    if (st == EF_OK)
        st = write_leases(&r->out, server->options.journal, err);
    if (st == EF_OK)
        st = write_outbox(&r->out, server->options.journal, err);
    if (st == EF_OK)
        st = write_rebuilds(&r->out, server->options.journal, err);
    return st == EF_OK ? write_projections(&r->out, server->options.engine, err) : st;
}

const ef__http_route ef__routes_metrics[] = {
    EF__RUN_OPERATION(get_metrics, GET, "/metrics", EF__SCOPE_READ, EF__TENANCY_UNBOUND,
                      EF__ROUTE_LOCAL | EF__ROUTE_PROBE | EF__ROUTE_WORKER, "metrics",
                      "metrics, for Prometheus", ANSWER("Text")),
    {0},
};
