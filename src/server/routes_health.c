/*
 * routes_health.c - liveness, readiness, version, the status of the store, and the overview.
 *
 * Alive: this process responds. Ready: the stores can be read, every event is accounted for, the
 * tasks of this process make progress, and the disk has space. A worker that runs without progress
 * is not ready.
 */
#include "request.h"
#include "token.h"

#include "../shape/operation_table.h"
#include "../shape/overview.h"

#include <everfold/outbox.h>
#include <everfold/run.h>
#include <everfold/version.h>
#include <everfold/worker.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define CHECKS 5
#define LOOKS_MAX 5
#define LOOK_AGAIN_NS (20 * 1000000)
#define STALLED_US (30 * 1000000ll)

static ef_status livez(ef__request *r, ef_error *err)
{
    (void)err;
    r->type = "text/plain";
    ef__buf_add_text(&r->out, "ok\n");
    return EF_OK;
}

/* --- readiness ----------------------------------------------------------------------------------
 *
 * No token is needed, so messages of a store, which may name paths and streams, are only logged.
 */

typedef struct check {
    const char *name;
    bool ok;
    char detail[EF_ERROR_TEXT_MAX];
} check;

__attribute__((format(printf, 2, 3))) static void describe(check *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(out->detail, sizeof(out->detail), format, arguments);
    va_end(arguments);
}

static void check_journal(const ef__server *server, check *out)
{
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};

    out->name = "journal";
    out->ok = ef_journal_head(server->options.journal, &head, &err) == EF_OK;
    if (out->ok)
        describe(out, "at position %" PRId64, head.position);
    else
        describe(out, "%s", ef_status_describe(err.status)->message);
}

/* Counts several times, because workers write meanwhile: only a lasting difference is an error. */
static ef_status count_unaccounted(const ef__server *server, size_t *out_generations, int64_t *out,
                                   ef_error *err)
{
    struct timespec slice = {.tv_nsec = LOOK_AGAIN_NS};
    ef_status st = EF_OK;

    *out = 1;
    for (int i = 0; st == EF_OK && *out != 0 && i < LOOKS_MAX; i++) {
        ef_projection_list list = {0};
        if (i > 0)
            (void)nanosleep(&slice, NULL);
        st = ef_projection_ls(server->options.engine, EF_STR(""), &list, err);
        *out = 0;
        *out_generations = list.count;
        for (size_t g = 0; g < list.count; g++)
            *out += list.items[g].unaccounted;
        EF_RELEASE(&list);
    }
    return st;
}

size_t ef__server_tasks(const ef__server *server, ef_task tasks[EF__TASKS_MAX])
{
    size_t count = server->options.supervisor
                       ? ef_supervisor_tasks(server->options.supervisor, tasks, EF__TASKS_MAX)
                       : 0;

    return count < EF__TASKS_MAX ? count : EF__TASKS_MAX;
}

/* Every read compares hashes, so damage is detected by the tasks of this process, or by the count
 * that returned `st`. Reading the whole store here would take too long. */
static void check_integrity(const ef__server *server, ef_status st, int64_t unaccounted, check *out)
{
    ef_task tasks[EF__TASKS_MAX];
    size_t count = ef__server_tasks(server, tasks);
    ef_store_facts facts = {0};
    bool damaged = st == EF_DAMAGED;

    if (ef_journal_facts(server->options.journal, &facts, NULL) == EF_OK)
        damaged = damaged || facts.damaged;

    for (size_t i = 0; i < count; i++)
        damaged = damaged || tasks[i].last_error.status == EF_DAMAGED;
    out->name = "integrity";
    out->ok = !damaged && unaccounted == 0;
    if (damaged)
        describe(out, "%s: everfold doctor --deep", ef_status_describe(EF_DAMAGED)->message);
    else if (unaccounted != 0)
        describe(out, "%" PRId64 " events are unaccounted for: everfold gaps detect", unaccounted);
    else if (st != EF_OK)
        describe(out, "nothing is known to be wrong");
    else
        describe(out, "every event is accounted for");
}

static void check_views(const ef__server *server, check *out, check *integrity)
{
    ef_error err = EF_ERROR_INIT;
    size_t generations = 0;
    int64_t unaccounted = 0;
    ef_status st = count_unaccounted(server, &generations, &unaccounted, &err);

    out->name = "views";
    out->ok = st == EF_OK;
    if (st == EF_OK)
        describe(out, "%zu generations", generations);
    else
        describe(out, "%s", ef_status_describe(err.status)->message);
    check_integrity(server, st, st == EF_OK ? unaccounted : 0, integrity);
}

/* A quota refuses writes even if the file system has space. */
static ef__disk read_disk(const ef__server *server)
{
    ef__disk disk = ef__disk_of(server->options.url, server->options.views_url);
    ef_task tasks[EF__TASKS_MAX];
    size_t count = ef__server_tasks(server, tasks);

    for (size_t i = 0; i < count; i++)
        disk.refused = disk.refused || (tasks[i].state == EF_TASK_RETRYING &&
                                        tasks[i].last_error.status == EF_FULL);
    return disk;
}

static void check_disk(const ef__server *server, check *out)
{
    ef__disk disk = read_disk(server);

    out->name = "disk";
    out->ok = !ef__disk_is_low(&disk);
    if (disk.free_bytes < 0)
        describe(out, "%s",
                 out->ok ? "not known for this store" : ef_status_describe(EF_FULL)->message);
    else
        describe(out, "%s%" PRId64 " bytes free%s",
                 ef__disk_is_full(&disk) ? "the disk is full: "
                 : out->ok               ? ""
                                         : "the disk is almost full: ",
                 disk.free_bytes, out->ok ? "" : "; free disk space");
}

static void check_tasks(const ef__server *server, check *out)
{
    ef_task tasks[EF__TASKS_MAX];
    size_t count = ef__server_tasks(server, tasks);

    out->name = "progress";
    out->ok = true;
    if (count > 0)
        describe(out, "%zu tasks make progress", count);
    else
        describe(out, "this process runs no tasks");
    for (size_t i = 0; i < count; i++)
        if (tasks[i].stalled_us > STALLED_US) {
            out->ok = false;
            describe(out, "%.15s has got nowhere for %" PRId64 " s: %s", tasks[i].name,
                     tasks[i].stalled_us / 1000000,
                     ef_status_describe(tasks[i].last_error.status)->message);
        }
}

/* Without details for another host name: it may be a page served under an attacker's name. */
static void write_check(ef__request *r, const check *c)
{
    bool details = r->host_kind != EF__HOST_OTHER;

    ef__buf_printf(&r->out, "[%c] %s%s%s\n", c->ok ? '+' : '-', c->name, details ? ": " : "",
                   details ? c->detail : "");
}

typedef struct readyz_request {
    bool verbose;
} readyz_request;

static ef_status readyz(ef__request *r, void *request, ef_error *err)
{
    const readyz_request *asked = request;
    check checks[CHECKS];
    bool ready = true;

    (void)err;
    check_journal(r->server, &checks[0]);
    check_views(r->server, &checks[1], &checks[2]);
    check_tasks(r->server, &checks[3]);
    check_disk(r->server, &checks[4]);
    r->type = "text/plain; charset=utf-8";
    for (size_t i = 0; i < CHECKS; i++) {
        ready = ready && checks[i].ok;
        if (asked->verbose)
            write_check(r, &checks[i]);
    }
    if (__atomic_load_n(&r->server->stopping, __ATOMIC_ACQUIRE)) {
        ready = false;
        ef__buf_add_text(&r->out, "stopping\n");
    }
    ef__buf_add_text(&r->out, ready ? "ok\n" : "not ready\n");
    r->status = ready ? 200 : 503;
    return EF_OK;
}

static ef_status version(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_store_facts facts = {0};
    ef_status st = ef_journal_facts(r->server->options.journal, &facts, err);

    if (st != EF_OK)
        return st;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "version", ef_version());
    ef__json_member_text(&w, "mode", r->server->options.mode);
    ef__json_member_text(&w, "journal", facts.backend);
    ef__json_member_text(&w, "journal_id", facts.journal_id);
    ef__json_member_time(&w, "started_at", r->server->started_us);
    ef__json_close(&w, '}');
    return EF_OK;
}

/* --- the store -------------------------------------------------------------------------------- */

/* A request of one tenant gets no totals over all tenants. It knows positions from its events. */
static void narrow_facts(ef_head *head, ef_store_facts *facts)
{
    head->recorded_us = 0;
    facts->streams = facts->store_bytes = facts->wal_bytes = facts->free_bytes = -1;
}

static ef_status show_status(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_store_facts facts = {0};
    ef_head head = {0};
    ef_status st = ef_journal_head(r->server->options.journal, &head, err);

    if (st == EF_OK)
        st = ef_journal_facts(r->server->options.journal, &facts, err);
    if (st != EF_OK)
        return st;
    if (!r->any_tenant)
        narrow_facts(&head, &facts);
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "version", ef_version());
    ef__json_member_text(&w, "mode", r->server->options.mode);
    ef__json_key(&w, "head");
    ef__shape_write(&w, &ef__shape_head, &head);
    ef__json_key(&w, "store");
    ef__shape_write(&w, &ef__shape_facts, &facts);
    ef__json_close(&w, '}');
    return EF_OK;
}

static ef_status read_journal(ef_journal *journal, ef__overview *o, ef_error *err)
{
    ef_status st = ef_journal_head(journal, &o->head, err);

    if (st == EF_OK)
        st = ef_journal_facts(journal, &o->facts, err);
    if (st == EF_OK)
        st = ef_outbox_summarise(journal, &(ef_outbox_query){.any_tenant = true}, &o->outbox, err);
    if (st == EF_OK)
        st = ef_worker_ls(journal, &o->workers, err);
    if (st == EF_OK)
        st = ef_run_ls(journal, &(ef_run_query){.open_only = true, .limit = EF__OVERVIEW_RUNS_MAX},
                       &o->runs, err);
    return st;
}

static ef_status read_overview(const ef__server *server, ef__overview *o, ef_error *err)
{
    const ef__server_options *options = &server->options;
    ef_status st = read_journal(options->journal, o, err);

    if (st != EF_OK)
        return st;
    st = ef_projection_ls(options->engine, EF_STR(""), &o->projections, &o->views_error);
    if (st == EF_OK || st == EF_NOT_FOUND)
        o->views_error = (ef_error)EF_ERROR_INIT;
    ef__health_publisher_down(options->engine, o->publisher_down);
    o->disk = read_disk(server);
    (void)snprintf(o->mode, sizeof(o->mode), "%s", options->mode);
    o->read_us = ef__server_now(server);
    ef__overview_derive(o);
    return EF_OK;
}

static ef_status show_overview(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef__overview o = EF__OVERVIEW_INIT;
    ef_status st = read_overview(r->server, &o, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__overview_write(&w, &o, r->server->options.url);
        ef__overview_write_health(&w, &o);
        ef__json_close(&w, '}');
    }
    ef__overview_release(&o);
    return st;
}

/* What the token allows, so that the monitor can hide the rest. */
static ef_status whoami(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);

    (void)err;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "name", r->who.name);
    ef__scopes_write(&w, r->who.scopes & EF__SCOPE_ADMIN ? EF__SCOPE_ALL : r->who.scopes,
                     r->who.bound ? r->who.tenant : NULL);
    ef__json_close(&w, '}');
    return EF_OK;
}

static const ef__input readyz_inputs[] = {BOOL(readyz_request, verbose, "verbose", QUERY), END};
#define PROBE(flags) EF__SCOPE_OPEN, EF__TENANCY_NONE, EF__ROUTE_PROBE | (flags)

const ef__http_route ef__routes_health[] = {
    EF__RUN_OPERATION(livez, GET, "/livez",
                      PROBE(EF__ROUTE_QUICK | EF__ROUTE_WORKER | EF__ROUTE_ANY_QUERY), "livez",
                      "alive", ANSWER("Text")),
    EF__SERVE_OPERATION(readyz, GET, "/readyz", PROBE(EF__ROUTE_WORKER | EF__ROUTE_RESERVED),
                        "readyz", "ready for work", .inputs = readyz_inputs,
                        .size = sizeof(readyz_request), ANSWER("Text")),
    EF__SERVE_OPERATION(readyz, GET, "/healthz", PROBE(EF__ROUTE_WORKER | EF__ROUTE_RESERVED),
                        "healthz", "the same as /readyz", .inputs = readyz_inputs,
                        .size = sizeof(readyz_request), ANSWER("Text")),
    EF__RUN_OPERATION(version, GET, "/version", PROBE(EF__ROUTE_RESERVED), "version",
                      "version, mode and journal", ANSWER("Version")),
    EF__RUN(status, show_status),
    /* Numbers over all tenants and no names of tenants; a bound token is refused. */
    EF__RUN_OPERATION(show_overview, GET, "/v1/overview", READS(UNBOUND), "overview",
                      "journal, outbox, projections and workers", ANSWER("Overview")),
    EF__RUN_OPERATION(whoami, GET, "/v1/whoami", EF__SCOPE_READ, EF__TENANCY_NONE, EF__ROUTE_QUICK,
                      "whoami", "what the token allows", ANSWER("Who")),
    {0},
};
