/*
 * routes_runs.c - runs, replays and gaps.
 */
#include "request.h"

#include <everfold/clock.h>
#include <everfold/replay.h>
#include <everfold/run.h>

static ef_status list_runs(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;

    return EF__ANSWER(r, ef_run_list, runs,
                      ef_run_ls(ef__request_journal(r),
                                &(ef_run_query){.tenant = r->who.bound ? &r->tenant : NULL,
                                                .open_only = asked->flag,
                                                .limit = (size_t)asked->limit},
                                &runs, err));
}

/* To a bound token, a run of another tenant does not exist. */
static ef_status find_run(ef__request *r, ef_str id, ef_run_list *out, ef_error *err)
{
    ef_run_query query = {.id = &id, .tenant = r->who.bound ? &r->tenant : NULL};

    return ef_run_ls(ef__request_journal(r), &query, out, err);
}

static ef_status show_run(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;

    return EF__ANSWER(r, ef_run_list, runs, find_run(r, asked->name, &runs, err));
}

static ef_status cancel_run(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    EF__AUTO(ef_run_list) runs = {0};
    ef_status st = find_run(r, asked->name, &runs, err);

    if (st == EF_OK)
        st = ef_run_cancel(ef__request_journal(r), asked->name, err);
    if (st == EF_OK)
        st = ef__request_note(r, "cancel", runs.items[0].projection, asked->reason, err);
    return st == EF_OK ? show_run(r, request, err) : st;
}

/* --- gaps ------------------------------------------------------------------------------------- */

static ef_status answer_gaps(ef__request *r, ef_status st, const char *mode, ef_gap_list *gaps)
{
    ef__json_writer w = ef__request_writer(r);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_member_text(&w, "mode", mode);
        ef__json_member_open(&w, "gaps", '[');
        for (size_t i = 0; i < gaps->count; i++)
            if (r->any_tenant || ef_str_equal(gaps->items[i].tenant, r->tenant))
                ef__shape_write(&w, &ef__shape_gap, &gaps->items[i]);
        ef__json_close(&w, ']');
        ef__json_close(&w, '}');
    }
    EF_RELEASE(gaps);
    return st;
}

static ef_status list_gaps(ef__request *r, ef_error *err)
{
    ef_gap_list gaps = {0};

    return answer_gaps(r, ef_gap_ls(ef__request_engine(r), false, &gaps, err), "gap-detect", &gaps);
}

static ef_status repair_gaps(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef_gap_list gaps = {0};
    ef_status st =
        answer_gaps(r, ef_gap_ls(ef__request_engine(r), true, &gaps, err), "gap-repair", &gaps);

    return st == EF_OK ? ef__request_note(r, "gap_repair", EF_STR(""), asked->reason, err) : st;
}

/* --- replays ---------------------------------------------------------------------------------- */

static const ef_replay *replay_of(ef__replay_request *asked)
{
    asked->replay.any_tenant = asked->replay.any_tenant && asked->replay.stream.len == 0;
    return &asked->replay;
}

static ef_status request_replay(ef__request *r, void *request, ef_error *err)
{
    return EF__ANSWER(r, ef_run_list, runs,
                      ef_replay_request(ef__request_engine(r), replay_of(request), &runs, err));
}

typedef struct warning_writer {
    ef__json_writer writer;
    int64_t limit, count;
} warning_writer;

static void write_warning(void *context, ef_str projection, const ef_event *event, ef_str message)
{
    warning_writer *warnings = context;

    if (warnings->count++ < warnings->limit)
        ef__replay_warning_write(&warnings->writer, projection, event, message);
}

/* Changes nothing. With `validate`, the events are folded in memory, which takes long. */
static ef_status preview_replay(ef__request *r, void *request, ef_error *err)
{
    ef__replay_request *asked = request;
    warning_writer warnings = {.writer = ef__request_writer(r), .limit = asked->limit};
    ef__json_writer *w = &warnings.writer;
    ef_replay_result counts = {0};
    ef_status st;

    ef__json_open(w, '{');
    ef__json_member_open(w, "warnings", '[');
    st = ef_replay_dry_run(ef__request_engine(r), replay_of(asked), asked->validate, write_warning,
                           &warnings, &counts, err);
    ef__json_close(w, ']');
    ef__shape_members(w, &ef__shape_replay_result, &counts);
    ef__json_close(w, '}');
    return st;
}

const ef__http_route ef__routes_runs[] = {
    EF__SERVE(look_at_replay, preview_replay),
    EF__SERVE(replay, request_replay),
    EF__SERVE(repair_gaps, repair_gaps),
    EF__SERVE(list_runs, list_runs),
    EF__SERVE(cancel_run, cancel_run),
    EF__SERVE(show_run, show_run),
    EF__RUN(list_gaps, list_gaps),
    {0},
};
