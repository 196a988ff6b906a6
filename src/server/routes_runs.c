/*
 * routes_runs.c - runs, and gaps.
 */
#include "request.h"

#include <everfold/clock.h>
#include <everfold/replay.h>
#include <everfold/run.h>

#define WARNINGS_DEFAULT 25

static bool may_see(const ef__request *r, const ef_run *run)
{
    return !r->who.bound || ef_run_is_of(run, r->tenant);
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
        st = ef_run_ls_of(r->server->options.journal, r->who.bound ? &r->tenant : NULL, open,
                          (size_t)limit, &runs, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < runs.count; i++)
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
    const ef__json *body = NULL;
    ef_run_list runs = {0};
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = find_run(r, &runs, err);
    if (st == EF_OK)
        st = ef_run_cancel(r->server->options.journal, r->parts[0], err);
    if (st == EF_OK)
        st = ef__request_note(r, "cancel", runs.items[0].projection, reason, err);
    ef_run_list_release(&runs);
    return st == EF_OK ? show_run(r, err) : st;
}

typedef ef_status gap_call(ef_engine *engine, ef_gap_list *out, ef_error *err);

static ef_status answer_gaps(ef__request *r, const char *mode, gap_call *call, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_gap_list gaps = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = call(r->server->options.engine, &gaps, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "mode");
        ef__json_str(&w, ef_str_from(mode));
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

static ef_status list_gaps(ef__request *r, ef_error *err)
{
    return answer_gaps(r, "gap-detect", ef_gap_ls, err);
}

static ef_status repair_gaps(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str reason = {NULL, 0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = answer_gaps(r, "gap-repair", ef_gap_repair, err);
    return st == EF_OK ? ef__request_note(r, "gap_repair", EF_STR(""), reason, err) : st;
}

/* --- replays -------------------------------------------------------------------------------------
 */

static ef_status read_time(const ef__json *body, const char *key, int64_t *out, ef_error *err)
{
    ef_str text = {NULL, 0};
    ef_status st = ef__member_text(body, key, false, &text, err);

    if (st == EF_OK && text.len > 0 && ef_time_parse(text.ptr, text.len, out) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "%s is '%.*s'; an RFC 3339 time is needed", key,
                     EF_STR_ARG(text));
    return st;
}

/* Which events: members of the body, as the options of `everfold replay`. */
static ef_status read_replay(ef__request *r, const ef__json *body, ef_replay *out, ef_error *err)
{
    static const char *const texts[] = {"projection", "stream", "type", "reason"};
    static const char *const numbers[] = {"from", "to", "after_seq", "until_seq"};
    ef_str *const text_to[] = {&out->projection, &out->stream, &out->type, &out->reason};
    int64_t *const number_to[] = {&out->from, &out->to, &out->after_seq, &out->until_seq};
    ef_status st = EF_OK;

    *out = (ef_replay){.tenant = r->tenant, .actor = ef_str_from(r->who.name)};
    for (size_t i = 0; st == EF_OK && i < 4; i++)
        st = ef__member_text(body, texts[i], false, text_to[i], err);
    for (size_t i = 0; st == EF_OK && i < 4; i++)
        st = ef__member_int(body, numbers[i], false, 0, INT64_MAX, number_to[i], err);
    if (st == EF_OK)
        st = read_time(body, "from_time", &out->from_us, err);
    if (st == EF_OK)
        st = read_time(body, "to_time", &out->to_us, err);
    out->any_tenant = r->any_tenant && out->stream.len == 0;
    return st;
}

#define REPLAY_MEMBERS "projection,stream,type,reason,from,to,from_time,to_time,after_seq,until_seq"

static ef_status replay(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef__json_writer w = ef__request_writer(r);
    ef_run_list runs = {0};
    ef_replay asked;
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__members_only(body, REPLAY_MEMBERS, err);
    if (st == EF_OK)
        st = read_replay(r, body, &asked, err);
    if (st == EF_OK)
        st = ef_replay_request(r->server->options.engine, &asked, &runs, err);
    if (st == EF_OK) {
        ef__shape_write(&w, &ef__shape_run, &runs.items[0]);
        r->status = 202;
    }
    ef_run_list_release(&runs);
    return st;
}

typedef struct looking {
    ef__json_writer writer;
    int64_t limit, shown;
} looking;

static void write_warning(void *context, ef_str projection, const ef_event *event, ef_str message)
{
    looking *l = context;

    if (l->shown++ < l->limit)
        ef__replay_warning_write(&l->writer, projection, event, message);
}

/* Nothing is changed; with validate all is folded in memory, which takes its time. */
static ef_status look_at_replay(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    looking l = {.writer = ef__request_writer(r), .limit = WARNINGS_DEFAULT};
    ef_replay_result counts = {0};
    ef_replay asked;
    bool validate = false;
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__members_only(body, REPLAY_MEMBERS ",validate,limit", err);
    if (st == EF_OK)
        st = read_replay(r, body, &asked, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "validate", &validate, err);
    if (st == EF_OK)
        st = ef__member_int(body, "limit", false, 0, 10000, &l.limit, err);
    if (st != EF_OK)
        return st;
    ef__json_open(&l.writer, '{');
    ef__json_key(&l.writer, "warnings");
    ef__json_open(&l.writer, '[');
    st = ef_replay_dry_run(r->server->options.engine, &asked, validate, write_warning, &l, &counts,
                           err);
    ef__json_close(&l.writer, ']');
    ef__shape_members(&l.writer, &ef__shape_replay_result, &counts);
    ef__json_close(&l.writer, '}');
    return st;
}

const ef__http_route ef__routes_runs[] = {
    {"POST", "/v1/replay:look", EF__SCOPE_READ, EF__TENANCY_QUERY, EF__ROUTE_BODY, look_at_replay,
     "lookAtReplay", "what a replay would bring: nothing is changed", NULL, "ReplayLook",
     "ReplayLooked", 0},
    {"POST", "/v1/replay", EF__SCOPE_OPERATE, EF__TENANCY_QUERY, EF__ROUTE_BODY, replay, "replay",
     "bring projections events that they lack", NULL, "Replay", "Run", 202},
    {"POST", "/v1/gaps:repair", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY, repair_gaps,
     "repairGaps", "bring what the gaps lack", NULL, "Note", "Gaps", 0},
    {"GET", "/v1/runs", EF__SCOPE_READ, EF__TENANCY_PART, 0, list_runs, "listRuns",
     "runs, newest first", "limit:integer open:boolean", NULL, "Runs", 0},
    {"POST", "/v1/runs/{id}:cancel", EF__SCOPE_OPERATE, EF__TENANCY_PART, EF__ROUTE_BODY,
     cancel_run, "cancelRun", "end a run", NULL, "Note", "Run", 0},
    {"GET", "/v1/runs/{id}", EF__SCOPE_READ, EF__TENANCY_PART, 0, show_run, "showRun", "one run",
     NULL, NULL, "Run", 0},
    {"GET", "/v1/gaps", EF__SCOPE_READ, EF__TENANCY_PART, 0, list_gaps, "listGaps",
     "streams whose watermark lacks events", NULL, NULL, "Gaps", 0},
    {0},
};
