/*
 * routes_overview.c - what is going on, in one object, and who asks.
 */
#include "request.h"
#include "token.h"

#include "../shape/health.h"
#include "../shape/operation_table.h"
#include "../shape/overview.h"

#include <everfold/outbox.h>
#include <everfold/run.h>
#include <everfold/version.h>
#include <everfold/worker.h>

#include <inttypes.h>
#include <stdio.h>

#define RUNS_MAX 1000

/* The journal, its outbox, the projections and who is at work, as read at one time. */
typedef struct overview {
    int64_t read_us;
    ef_head head;
    ef_store_facts facts;
    ef_outbox_summary outbox;
    int64_t oldest_ms;  /* age of the oldest row that is not blocked; -1 when there is none … */
    int64_t blocked_ms; /* … and of the oldest that is */
    ef_worker_list workers;
    size_t workers_live, workers_idle; /* those that are idle are live */
    bool shadow_only;                  /* the mode of this server */
    int64_t runs_queued, runs_running;
    ef_projection_list projections;
    int64_t unaccounted;  /* of all of them */
    ef_error views_error; /* the view store cannot be read: all else is told */
    char publisher_down[EF__HEALTH_NAME];
    ef__disk disk;
} overview;

/* --- reading ------------------------------------------------------------------------------------
 */

static int64_t age_ms(int64_t now_us, int64_t then_us)
{
    if (then_us == 0)
        return -1;
    return now_us > then_us ? (now_us - then_us) / 1000 : 0;
}

static ef_status read_runs(ef_journal *journal, overview *o, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(journal, true, RUNS_MAX, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++) {
        o->runs_queued += runs.items[i].state == EF_RUN_QUEUED ? 1 : 0;
        o->runs_running += runs.items[i].state == EF_RUN_RUNNING ? 1 : 0;
    }
    ef_run_list_release(&runs);
    return st;
}

static ef_status read_journal(ef_journal *journal, overview *o, ef_error *err)
{
    ef_status st = ef_journal_head(journal, &o->head, err);

    if (st == EF_OK)
        st = ef_journal_facts(journal, &o->facts, err);
    if (st == EF_OK)
        st = ef_outbox_summarise(journal, &(ef_outbox_query){.any_tenant = true}, &o->outbox, err);
    if (st == EF_OK)
        st = ef_worker_ls(journal, &o->workers, err);
    return st == EF_OK ? read_runs(journal, o, err) : st;
}

static void read_projections(ef_engine *engine, overview *o)
{
    ef_status st = ef_projection_ls(engine, EF_STR(""), &o->projections, &o->views_error);

    for (size_t i = 0; st == EF_OK && i < o->projections.count; i++)
        o->unaccounted += o->projections.items[i].unaccounted;
    if (st == EF_OK || st == EF_NOT_FOUND)
        o->views_error = (ef_error)EF_ERROR_INIT;
}

static ef_status read_overview(const ef__server *server, overview *o, ef_error *err)
{
    ef_status st = read_journal(server->options.journal, o, err);

    if (st != EF_OK)
        return st;
    read_projections(server->options.engine, o);
    ef__health_publisher_down(server->options.engine, o->publisher_down);
    o->disk = ef__server_disk(server);
    o->shadow_only = strcmp(server->options.mode, "shadow_only") == 0;
    o->read_us = ef__server_now(server);
    o->workers_idle = ef__workers_in_state(&o->workers, EF_WORKER_IDLE);
    o->workers_live = o->workers_idle + ef__workers_in_state(&o->workers, EF_WORKER_WORKING);
    o->oldest_ms =
        age_ms(o->read_us, o->outbox.oldest.count > 0 ? o->outbox.oldest.items[0].enqueued_us : 0);
    o->blocked_ms = age_ms(o->read_us, o->outbox.blocked_oldest_us);
    return EF_OK;
}

static void release_overview(overview *o)
{
    ef_row_list_release(&o->outbox.oldest);
    ef_worker_list_release(&o->workers);
    ef_projection_list_release(&o->projections);
}

/* --- writing ------------------------------------------------------------------------------------
 */

static void write_health(ef__json_writer *w, const overview *o)
{
    char text[EF__HEALTH_TEXT];
    ef__health health =
        ef__health_of(&(ef__health_facts){.outbox = &o->outbox,
                                          .projections = &o->projections,
                                          .workers_live = o->workers_live,
                                          .shadow_only = o->shadow_only,
                                          .unaccounted = o->unaccounted,
                                          .disk = o->disk,
                                          .damaged = o->facts.damaged,
                                          .views_unreadable = o->views_error.status != EF_OK,
                                          .publisher_down = ef_str_from(o->publisher_down)},
                      text);

    ef__health_write(w, health, text);
}

static void write_overview(ef__json_writer *w, const overview *o, const char *url, const char *mode)
{
    ef__json_open(w, '{');
    ef__overview_write(w, &(ef__overview){.mode = mode,
                                          .url = url,
                                          .head = &o->head,
                                          .facts = &o->facts,
                                          .outbox = &o->outbox,
                                          .oldest_ms = o->oldest_ms,
                                          .blocked_ms = o->blocked_ms,
                                          .workers_live = o->workers_live,
                                          .workers_known = o->workers.count,
                                          .workers_idle = o->workers_idle,
                                          .runs_queued = o->runs_queued,
                                          .runs_running = o->runs_running,
                                          .projections = &o->projections,
                                          .unaccounted = o->unaccounted,
                                          .views_error = &o->views_error});
    write_health(w, o);
    ef__json_close(w, '}');
}

static ef_status show_overview(ef__request *r, ef_error *err)
{
    const ef__server_options *options = &r->server->options;
    ef__json_writer w = ef__request_writer(r);
    overview o = {.views_error = EF_ERROR_INIT};
    ef_status st = read_overview(r->server, &o, err);

    if (st == EF_OK)
        write_overview(&w, &o, options->url, options->mode);
    release_overview(&o);
    return st;
}

/* What the token allows, so that a page need not offer the rest. */
static ef_status whoami(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);

    (void)err;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "name", r->who.name);
    ef__json_member_open(&w, "scopes", '[');
    for (unsigned bit = EF__SCOPE_APPEND; bit <= EF__SCOPE_ADMIN; bit *= 2)
        if (r->who.scopes & (bit | EF__SCOPE_ADMIN))
            ef__json_str(&w, ef_str_from(ef__token_scope(bit)));
    ef__json_close(&w, ']');
    ef__json_key(&w, "tenant");
    if (r->who.bound)
        ef__json_str(&w, r->tenant);
    else
        ef__json_null(&w);
    ef__json_close(&w, '}');
    return EF_OK;
}

/* The overview has numbers over all tenants and no names of tenants; a bound token is refused. */
const ef__http_route ef__routes_overview[] = {
    EF__RUN_OPERATION(show_overview, GET, "/v1/overview", READS(UNBOUND), "overview",
                      "journal, outbox, projections and workers", ANSWER("Overview")),
    EF__RUN_OPERATION(whoami, GET, "/v1/whoami", EF__SCOPE_READ, EF__TENANCY_NONE, EF__ROUTE_QUICK,
                      "whoami", "what the token allows", ANSWER("Who")),
    {0},
};
