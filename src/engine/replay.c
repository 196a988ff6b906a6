/*
 * replay.c - events that fit go through the apply once more: see replay.h.
 *
 * How far a replay is stands in its record, so whoever goes on starts behind the last batch that
 * was written; one that was applied and not written comes again, and is a duplicate then.
 */
#include "run.h"

#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Which events, and how far we are in them. */
typedef struct reading {
    ef_engine *engine;
    ef_str tenant;
    bool any_tenant;
    ef_str stream, type;
    int64_t from, to; /* positions; to is never 0 */
    int64_t from_us, to_us, after_seq, until_seq;
    int64_t position, seq; /* done up to here */
    bool over;
    bool fits_only; /* of what is read, give only what fits */
} reading;

static bool fits(const reading *r, const ef_event *event)
{
    return event->position >= r->from && event->position <= r->to &&
           (r->from_us == 0 || event->time_us >= r->from_us) &&
           (r->to_us == 0 || event->time_us <= r->to_us) && event->seq > r->after_seq &&
           (r->until_seq == 0 || event->seq <= r->until_seq) &&
           ef__type_matches(event->type, r->type);
}

static ef_status read_stream(reading *r, ef_batch *batch, ef_error *err)
{
    int64_t from = r->seq + 1;
    ef_status st;

    if (r->fits_only && from <= r->after_seq)
        from = r->after_seq + 1;
    st = ef_journal_read_stream(r->engine->journal, r->tenant, r->stream, from,
                                r->engine->run_batch, batch, err);
    if (st == EF_NOT_FOUND) /* no events is an answer */
        st = EF_OK;
    r->over = !batch->more;
    if (st == EF_OK && batch->count) {
        const ef_event *last = &batch->events[batch->count - 1];
        r->seq = last->seq;
        r->position = last->position;
        r->over =
            r->over || last->position >= r->to || (r->until_seq != 0 && last->seq >= r->until_seq);
    }
    return st;
}

static ef_status read_log(reading *r, ef_batch *batch, ef_error *err)
{
    int64_t after = r->position, reached;
    ef_status st;

    if (r->fits_only && after < r->from - 1)
        after = r->from - 1;
    reached = after;
    st = ef_journal_read_log(r->engine->journal,
                             &(ef_log_query){.tenant = r->tenant,
                                             .any_tenant = r->any_tenant,
                                             .after = after,
                                             .type = r->fits_only ? r->type : (ef_str){0},
                                             .limit = r->engine->run_batch,
                                             .out_reached = &reached},
                             batch, err);
    if (st == EF_OK) {
        r->over = !batch->more || reached >= r->to;
        r->position = reached < r->to ? reached : r->to;
    }
    return st;
}

/* The next events up to the upper bounds; `out` has room for a batch of a run. */
static ef_status read_next(reading *r, ef_batch *batch, ef__apply_event *out, size_t *out_count,
                           ef_error *err)
{
    ef_status st = r->stream.len ? read_stream(r, batch, err) : read_log(r, batch, err);

    *out_count = 0;
    for (size_t i = 0; st == EF_OK && i < batch->count; i++)
        if (r->fits_only ? fits(r, &batch->events[i]) : batch->events[i].position <= r->to)
            out[(*out_count)++] = (ef__apply_event){&batch->events[i], false};
    return st;
}

/* --- applying --------------------------------------------------------------------------------- */

static void count_results(const ef__apply *apply, ef__detail *detail)
{
    for (size_t i = 0; i < apply->generation_count * apply->event_count; i++) {
        ef__verdict verdict = apply->results[i].verdict;
        detail->applied += verdict == EF__VERDICT_APPLIED;
        detail->ignored += verdict == EF__VERDICT_IGNORED || verdict == EF__VERDICT_SKIPPED;
        detail->duplicates += verdict == EF__VERDICT_DUPLICATE;
        detail->failed += verdict == EF__VERDICT_FAILED;
        detail->deferred += verdict == EF__VERDICT_DEFERRED;
    }
}

/* What failed, and what waits behind it, gets rows in the projections' own lanes: nothing else
 * would bring it. */
static ef_status file_rest(ef_engine *e, const ef__apply *apply, ef_error *err)
{
    size_t most = apply->event_count * apply->generation_count;
    ef_exception *rows = malloc((most + 1) * sizeof *rows);
    ef_status st = rows ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out in a replay");

    if (st == EF_OK)
        st = ef_outbox_file(e->journal, rows, ef__exceptions_collect(e, apply, rows), err);
    free(rows);
    return st;
}

/* Only what the queue feeds: one that follows the log has everything up to its cursor, and what is
 * above must come in order. */
static void keep_projection(ef__live_set *set, ef_str name)
{
    size_t kept = 0;

    for (size_t i = 0; i < set->count; i++)
        if (name.len == 0 || ef_str_equal(set->items[i].generation->name, name))
            set->items[kept++] = set->items[i];
    set->count = kept;
}

static ef_status apply_events(ef__driven *d, const ef__apply_event *events, size_t count,
                              ef_error *err)
{
    ef_status st = EF_CONFLICT;

    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_START_OVER; tries++) {
        ef__live_set set;
        st = ef__live_set_read(d->engine, true, &set, err);
        if (st != EF_OK)
            break;
        keep_projection(&set, d->run.projection);
        ef__apply apply = {.generations = set.items,
                           .generation_count = set.count,
                           .events = events,
                           .event_count = count,
                           .live_set = set.number,
                           .looks_back = true,
                           .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
        if (set.count)
            st = ef__apply_run(d->engine, &apply, err);
        if (set.count && st == EF_OK)
            st = file_rest(d->engine, &apply, err);
        if (set.count && st == EF_OK)
            count_results(&apply, &d->detail);
        ef__apply_release(&apply);
        ef__live_set_release(&set);
    }
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

static bool is_whole(const ef__detail *detail)
{
    return !detail->stream.len && !detail->type.len && !detail->from_us && !detail->to_us &&
           detail->all_tenants;
}

/* The upper bound is the head as it is when the replay begins: what comes later, comes by itself.
 */
static ef_status begin(ef__driven *d, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(d->engine->journal, &head, err);
    int64_t from = d->run.from ? d->run.from : 1;

    if (st != EF_OK)
        return st;
    d->detail.upper = d->run.to && d->run.to < head.position ? d->run.to : head.position;
    if (is_whole(&d->detail))
        d->run.total = d->detail.upper >= from ? d->detail.upper - from + 1 : 0;
    if (d->detail.upper == 0)
        d->run.state = EF_RUN_COMPLETED;
    return EF_OK;
}

static reading reading_of(const ef__driven *d)
{
    return (reading){.engine = d->engine,
                     .tenant = d->run.tenant,
                     .any_tenant = d->detail.all_tenants,
                     .stream = d->detail.stream,
                     .type = d->detail.type,
                     .from = d->run.from,
                     .to = d->detail.upper,
                     .from_us = d->detail.from_us,
                     .to_us = d->detail.to_us,
                     .after_seq = d->detail.after_seq,
                     .until_seq = d->detail.until_seq,
                     .position = d->run.last_position,
                     .seq = d->detail.last_seq,
                     .fits_only = true};
}

ef_status ef__replay_step(ef__driven *d, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__apply_event *events;
    size_t count = 0;
    reading r;
    ef_status st;

    if (d->detail.upper == 0)
        return begin(d, err);
    events = malloc(d->engine->run_batch * sizeof *events);
    if (!events)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in a replay");
    r = reading_of(d);
    st = read_next(&r, &batch, events, &count, err);
    if (st == EF_OK && count)
        st = apply_events(d, events, count, err);
    if (st == EF_OK) {
        d->run.processed += (int64_t)count;
        d->run.last_position = r.position;
        d->detail.last_seq = r.seq;
        d->tick->run_events += (int64_t)count;
        if (r.over)
            d->run.state = EF_RUN_COMPLETED;
    }
    ef_batch_release(&batch);
    free(events);
    return st;
}

/* --- asking for one --------------------------------------------------------------------------- */

static ef_status check_pair(const char *what, int64_t lower, int64_t upper, ef_error *err)
{
    if (lower < 0 || upper < 0)
        return ef_fail(err, EF_BAD_INPUT, "a bound of the %s is below 0", what);
    if (upper && lower > upper)
        return ef_fail_numbers(err, EF_BAD_INPUT, lower, upper,
                               "the lower bound of the %s (%" PRId64
                               ") is above the upper one (%" PRId64 ")",
                               what, lower, upper);
    return EF_OK;
}

/* A projection that follows the log has everything up to its cursor: there is nothing to replay. */
static ef_status check_projection(ef_engine *e, ef_str name, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st;

    if (name.len == 0)
        return EF_OK;
    st = ef__generations_read(e, name, &list, err);
    if (st == EF_OK && list.items[0].by_log)
        st =
            ef_fail(err, EF_BAD_INPUT,
                    "\"%.*s\" follows the log and lacks nothing below its cursor; to fold it anew: "
                    "everfold projection rebuild %.*s",
                    EF_STR_ARG(name), EF_STR_ARG(name));
    ef__generation_list_release(&list);
    return st;
}

static ef_status check_replay(ef_engine *e, const ef_replay *r, ef_error *err)
{
    ef_status st;

    if (!e || !r)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "replay" : "engine");
    st = check_pair("positions", r->from, r->to, err);
    if (st == EF_OK)
        st = check_pair("dates", r->from_us, r->to_us, err);
    if (st == EF_OK)
        st = check_pair("seqs", r->until_seq ? r->after_seq + 1 : r->after_seq, r->until_seq, err);
    if (st == EF_OK && (r->after_seq || r->until_seq) && r->stream.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "bounds of seqs are for one stream: name it");
    if (st == EF_OK && r->stream.len && r->any_tenant)
        st = ef_fail(err, EF_BAD_INPUT, "a stream belongs to one tenant");
    return st == EF_OK ? check_projection(e, r->projection, err) : st;
}

ef_status ef_replay_request(ef_engine *e, const ef_replay *r, ef_run_list *out, ef_error *err)
{
    ef_status st = check_replay(e, r, err);

    if (st != EF_OK)
        return st;
    return ef__run_file(e,
                        &(ef_run){.mode = EF_RUN_REPLAY,
                                  .projection = r->projection,
                                  .tenant = r->any_tenant ? (ef_str){0} : r->tenant,
                                  .from = r->from,
                                  .to = r->to,
                                  .total = -1,
                                  .reason = r->reason,
                                  .requester = r->who},
                        &(ef__detail){.stream = r->stream,
                                      .type = r->type,
                                      .all_tenants = r->any_tenant,
                                      .from_us = r->from_us,
                                      .to_us = r->to_us,
                                      .after_seq = r->after_seq,
                                      .until_seq = r->until_seq},
                        out, err);
}

/* --- looking only ------------------------------------------------------------------------------
 */

typedef struct looking {
    reading reading;
    ef_engine *ghost; /* folds in memory; NULL: only count */
    void (*failed)(void *context, ef_str projection, const ef_event *event, ef_str message);
    void *context;
    ef_replayed *out;
} looking;

/* A generation of the ghost's for each that queries go to. */
static ef_status copy_programs(ef_engine *e, ef_engine *ghost, ef_str projection, ef_error *err)
{
    ef__live_set set;
    ef_status st = ef__live_set_read(e, false, &set, err);

    if (st != EF_OK)
        return st;
    keep_projection(&set, projection);
    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        ef__generation copy = *set.items[i].generation;
        int64_t id;
        if (!copy.routed || copy.program.len == 0)
            continue; /* one written in C belongs to its process */
        copy.number = 0;
        copy.state = EF__GENERATION_CATCHING_UP;
        st = ghost->views->ops->generation_add(ghost->views, &copy, &id, err);
    }
    ef__live_set_release(&set);
    return st;
}

static ef_status open_ghost(ef_engine *e, ef_str projection, ef_engine **out, ef_error *err)
{
    ef_status st = ef__ghost_open(e, EF_STR("validate"), out, err);

    return st == EF_OK ? copy_programs(e, *out, projection, err) : st;
}

static void tell_failures(looking *l, const ef__apply *apply)
{
    for (size_t g = 0; g < apply->generation_count; g++)
        for (size_t i = 0; i < apply->event_count; i++) {
            const ef__applied *result = &apply->results[g * apply->event_count + i];
            const ef_event *event = apply->events[i].event;
            if (!fits(&l->reading, event))
                continue;
            l->out->applied += result->verdict == EF__VERDICT_APPLIED;
            l->out->ignored +=
                result->verdict == EF__VERDICT_IGNORED || result->verdict == EF__VERDICT_SKIPPED;
            l->out->failed += result->verdict == EF__VERDICT_FAILED;
            l->out->deferred += result->verdict == EF__VERDICT_DEFERRED;
            if (result->verdict == EF__VERDICT_FAILED && l->failed)
                l->failed(l->context, apply->generations[g].generation->name, event,
                          result->message);
        }
}

static ef_status fold_events(looking *l, const ef__apply_event *events, size_t count, ef_error *err)
{
    ef__live_set set;
    ef_status st = ef__live_set_read(l->ghost, false, &set, err);

    if (st != EF_OK)
        return st;
    ef__apply apply = {.generations = set.items,
                       .generation_count = set.count,
                       .events = events,
                       .event_count = count,
                       .looks_back = true,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    if (set.count && count)
        st = ef__apply_run(l->ghost, &apply, err);
    if (set.count && count && st == EF_OK)
        tell_failures(l, &apply);
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    return st;
}

static ef_status look_step(looking *l, ef__apply_event *events, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    size_t count = 0;
    ef_status st = read_next(&l->reading, &batch, events, &count, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        l->out->events += fits(&l->reading, events[i].event);
    if (st == EF_OK && l->ghost)
        st = fold_events(l, events, count, err);
    ef_batch_release(&batch);
    return st;
}

ef_status ef_replay_look(ef_engine *e, const ef_replay *r, bool validate,
                         void (*failed)(void *context, ef_str projection, const ef_event *event,
                                        ef_str message),
                         void *context, ef_replayed *out, ef_error *err)
{
    looking l = {.failed = failed, .context = context, .out = out};
    ef__apply_event *events = NULL;
    ef_head head = {0};
    ef_status st = out ? check_replay(e, r, err) : ef_fail(err, EF_BAD_INPUT, "out is NULL");

    if (st == EF_OK)
        st = ef_journal_head(e->journal, &head, err);
    if (st == EF_OK && validate)
        st = open_ghost(e, r->projection, &l.ghost, err);
    if (st == EF_OK) {
        *out = (ef_replayed){0};
        l.reading = (reading){.engine = e,
                              .tenant = r->tenant,
                              .any_tenant = r->any_tenant,
                              .stream = r->stream,
                              .type = r->type,
                              .from = r->from,
                              .to = r->to ? r->to : head.position,
                              .from_us = r->from_us,
                              .to_us = r->to_us,
                              .after_seq = r->after_seq,
                              .until_seq = r->until_seq,
                              .fits_only = !validate};
        events = malloc(e->run_batch * sizeof *events);
        st = events ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out in a replay");
    }
    while (st == EF_OK && !l.reading.over)
        st = look_step(&l, events, err);
    if (l.ghost)
        ef__engine_abandon(l.ghost); /* it holds nothing and leaves nothing */
    free(events);
    return st;
}
