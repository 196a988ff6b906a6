/*
 * routes_runs.c - runs, and gaps.
 */
#include "request.h"

#include <everfold/replay.h>
#include <everfold/run.h>

static bool may_see(const ef__request *r, const ef_run *run)
{
    return !r->who.bound || ef_str_equal(run->tenant, r->tenant);
}

static ef_status list_runs(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_run_list runs = {0};
    int64_t limit = 100;
    bool open = false;
    ef_status st = ef__request_int(r, "limit", 1, 10000, &limit, err);

    if (st == EF_OK)
        st = ef__request_bool(r, "open", &open, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_run_ls(r->server->options.journal, open, (size_t)limit, &runs, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < runs.count; i++)
            if (may_see(r, &runs.items[i]))
                ef__shape_write(&w, &ef__shape_run, &runs.items[i]);
        ef__json_close(&w, ']');
    }
    ef_run_list_release(&runs);
    return st;
}

/* A run of another tenant looks like none. */
static ef_status find_run(ef__request *r, ef_run_list *out, ef_error *err)
{
    ef_status st = ef_run_get(r->server->options.journal, r->parts[0], out, err);

    if (st == EF_OK && !may_see(r, &out->items[0]))
        st = ef_fail(err, EF_NOT_FOUND, "there is no run '%.*s'", EF_STR_ARG(r->parts[0]));
    return st;
}

static ef_status show_run(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_run_list runs = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = find_run(r, &runs, err);
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_run, &runs.items[0]);
    ef_run_list_release(&runs);
    return st;
}

static ef_status cancel_run(ef__request *r, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = find_run(r, &runs, err);
    if (st == EF_OK)
        st = ef_run_cancel(r->server->options.journal, r->parts[0], err);
    ef_run_list_release(&runs);
    return st == EF_OK ? show_run(r, err) : st;
}

static ef_status list_gaps(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_gap_list gaps = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_gap_ls(r->server->options.engine, &gaps, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "mode");
        ef__json_str(&w, EF_STR("gap-detect"));
        ef__json_key(&w, "gaps");
        ef__json_open(&w, '[');
        for (size_t i = 0; i < gaps.count; i++)
            if (r->any_tenant || ef_str_equal(gaps.items[i].tenant, r->tenant))
                ef__shape_write(&w, &ef__shape_gap, &gaps.items[i]);
        ef__json_close(&w, ']');
        ef__json_close(&w, '}');
    }
    ef_gap_list_release(&gaps);
    return st;
}

const ef__route ef__routes_runs[] = {
    {"GET", "/v1/runs", EF__SCOPE_READ, 0, list_runs, "listRuns", "runs, newest first",
     "limit:integer open:boolean", NULL, "Runs", 0},
    {"POST", "/v1/runs/{id}:cancel", EF__SCOPE_OPERATE, EF__ROUTE_BODY, cancel_run, "cancelRun",
     "end a run", NULL, NULL, "Run", 0},
    {"GET", "/v1/runs/{id}", EF__SCOPE_READ, 0, show_run, "showRun", "one run", NULL, NULL, "Run",
     0},
    {"GET", "/v1/gaps", EF__SCOPE_READ, 0, list_gaps, "listGaps",
     "streams whose watermark lacks events", NULL, NULL, "Gaps", 0},
    {0},
};
