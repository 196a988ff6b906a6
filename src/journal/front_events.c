/*
 * front_events.c - the door for events: appending, reading, streams and types.
 */
#include "front_priv.h"

#include "../base/hash.h"
#include "../base/json.h"
#include "../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_EVENTS 16    /* an append of so many does not allocate */
#define PREFIX_NAME_MAX 80 /* bytes of a stream's name in a message */

/* --- what an event must be -------------------------------------------------------------------- */

/* Put words before what a check has said: which event, which field. */
static ef_status put_before(ef_error *err, ef_status st, const char *prefix)
{
    char said[EF_ERROR_TEXT_MAX];
    int n;

    if (!err)
        return st;
    memcpy(said, err->text, sizeof said);
    said[sizeof said - 1] = '\0';
    n = snprintf(err->text, sizeof err->text, "%s", prefix);
    if (n >= 0 && (size_t)n < sizeof err->text)
        (void)snprintf(err->text + n, sizeof err->text - (size_t)n, "%s", said);
    return st;
}

static ef_status name_event(ef_error *err, ef_status st, const ef_new_event *event, size_t index,
                            size_t count)
{
    char prefix[PREFIX_NAME_MAX + 64];
    ef_str stream = event->stream;

    /* A name that is not valid itself is not shown: the check has said what is wrong with it. */
    if (ef__name_take("stream", stream, 1, false, NULL) != EF_OK) {
        if (count == 1)
            return st;
        (void)snprintf(prefix, sizeof prefix, "event %zu: ", index + 1);
        return put_before(err, st, prefix);
    }
    stream = ef__utf8_cut(stream, PREFIX_NAME_MAX);
    if (count == 1)
        (void)snprintf(prefix, sizeof prefix, "stream \"%.*s\": ", EF_STR_ARG(stream));
    else
        (void)snprintf(prefix, sizeof prefix, "event %zu (stream \"%.*s\"): ", index + 1,
                       EF_STR_ARG(stream));
    return put_before(err, st, prefix);
}

static ef_status check_names(const ef_new_event *event, ef_error *err)
{
    ef_status st = ef__name_take("tenant", event->tenant, 0, false, err);

    if (st == EF_OK)
        st = ef__name_take("stream", event->stream, 1, false, err);
    if (st == EF_OK)
        st = ef__name_take("type", event->type, 1, true, err);
    if (st == EF_OK)
        st = ef__name_take("id", event->id, 0, false, err);
    return st;
}

static ef_status check_json(const char *what, ef_str text, size_t max_bytes, bool object,
                            ef_error *err)
{
    ef__json_kind kind;
    ef_status st = ef__str_check(what, text, err);
    char prefix[16];

    if (st != EF_OK || text.len == 0)
        return st;
    st = ef__json_check(text, max_bytes, &kind, err);
    if (st != EF_OK) {
        (void)snprintf(prefix, sizeof prefix, "%s: ", what);
        return put_before(err, st, prefix);
    }
    if (object && kind != EF__JSON_OBJECT)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a JSON object", what);
    return EF_OK;
}

static ef_status check_expected_seq(const ef_new_event *event, ef_error *err)
{
    if (event->expected_seq.plus_one >= 0)
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT,
                   "expected_seq is out of range: it is 0 for a new stream or the seq of the "
                   "stream's last event");
}

static ef_status check_event(const ef_new_event *event, ef_error *err)
{
    ef_status st = check_names(event, err);

    if (st == EF_OK)
        st = check_expected_seq(event, err);
    if (st == EF_OK)
        st = ef__range_check("schema", event->schema, 0, INT32_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("time_us", event->time_us, 0, EF__TIME_US_MAX, err);
    if (st == EF_OK)
        st = check_json("data", event->data, EF_LIMIT_DATA_BYTES, false, err);
    if (st == EF_OK)
        st = check_json("meta", event->meta, EF_LIMIT_META_BYTES, true, err);
    return st;
}

static size_t event_bytes(const ef_new_event *event)
{
    return event->tenant.len + event->stream.len + event->type.len + event->id.len +
           event->data.len + event->meta.len;
}

ef_status ef_event_check(const ef_new_event *events, size_t count, size_t *out_index, ef_error *err)
{
    size_t bytes = 0;
    ef_status st;

    if (out_index)
        *out_index = 0;
    if (count == 0)
        return EF_OK;
    if ((st = ef__need(events, "events", err)) != EF_OK)
        return st;
    if (count > EF_LIMIT_APPEND_EVENTS)
        return ef_fail_numbers(err, EF_TOO_LARGE, EF_LIMIT_APPEND_EVENTS, (int64_t)count,
                               "an append of %zu events, at most %d are allowed", count,
                               EF_LIMIT_APPEND_EVENTS);
    for (size_t i = 0; i < count; i++) {
        if (out_index)
            *out_index = i;
        if ((st = check_event(&events[i], err)) != EF_OK)
            return name_event(err, st, &events[i], i, count);
        bytes += event_bytes(&events[i]);
        if (bytes > EF_LIMIT_APPEND_BYTES)
            return ef_fail_numbers(err, EF_TOO_LARGE, EF_LIMIT_APPEND_BYTES, (int64_t)bytes,
                                   "event %zu: the append has more than %d bytes", i + 1,
                                   EF_LIMIT_APPEND_BYTES);
    }
    return EF_OK;
}

/* --- appending -------------------------------------------------------------------------------- */

static ef_status make_arrival(const ef_new_event *given, int64_t now_us, ef__arrival *out,
                              ef__made_id *id, ef_error *err)
{
    ef_new_event *event = &out->event;

    *event = *given;
    out->id_made = given->id.len == 0;
    out->time_given = given->time_us != 0;
    out->sealed = NULL;
    id->text[0] = '\0';
    if (out->id_made) {
        if (!ef__uuid7(now_us, id->text))
            return ef_fail(err, EF_IO, "the system gives no randomness for an event id");
        event->id = ef_str_from(id->text);
    }
    if (event->schema == 0)
        event->schema = 1;
    if (!out->time_given)
        event->time_us = now_us;
    if (event->data.len == 0)
        event->data = EF_STR("{}");
    if (event->meta.len == 0)
        event->meta = EF_STR("{}");
    return EF_OK;
}

ef_status ef__arrivals_make(const ef_new_event *events, size_t count, int64_t now_us,
                            ef__arrival *arrivals, ef__made_id *ids, ef_error *err)
{
    ef_status st = ef_event_check(events, count, NULL, err);

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = make_arrival(&events[i], now_us, &arrivals[i], &ids[i], err);
    return st;
}

void ef__ids_give(const ef__arrival *arrivals, const ef__made_id *ids, size_t count,
                  ef_place *places)
{
    for (size_t i = 0; i < count; i++) {
        if (arrivals[i].id_made)
            memcpy(places[i].id, ids[i].text, sizeof places[i].id);
        else
            places[i].id[0] = '\0';
    }
}

static ef_status append_arrivals(ef_journal *journal, const ef_new_event *events, size_t count,
                                 ef__arrival *arrivals, ef__made_id *ids, ef_place *out_places,
                                 ef_error *err)
{
    const ef_clock *clock = journal->options.clock;
    ef_status st =
        ef__arrivals_make(events, count, clock->wall_us(clock->context), arrivals, ids, err);

    if (st == EF_OK)
        st = ef__damage_refuse(journal, err);
    if (st == EF_OK)
        st = ef__damage_note(journal,
                             journal->ops->append(journal, arrivals, count, out_places, err), err);
    if (st == EF_OK)
        ef__ids_give(arrivals, ids, count, out_places);
    return st;
}

ef_status ef_journal_append(ef_journal *journal, const ef_new_event *events, size_t count,
                            ef_place *out_places, ef_error *err)
{
    ef__arrival few[STACK_EVENTS], *many = NULL;
    ef__made_id few_ids[STACK_EVENTS], *many_ids = NULL;
    ef_status st = ef__need_writable(journal, "ef_journal_append", err);

    if (st != EF_OK || count == 0)
        return st;
    if ((st = ef__need(out_places, "out_places", err)) != EF_OK)
        return st;
    if (count <= STACK_EVENTS)
        return append_arrivals(journal, events, count, few, few_ids, out_places, err);

    /* Too many are refused before memory is asked for them. */
    if (count > EF_LIMIT_APPEND_EVENTS)
        return ef_event_check(events, count, NULL, err);
    many = malloc(count * sizeof *many);
    many_ids = malloc(count * sizeof *many_ids);
    if (many && many_ids)
        st = append_arrivals(journal, events, count, many, many_ids, out_places, err);
    else
        st = ef_fail(err, EF_NO_MEMORY, "no memory to append %zu events", count);
    free(many);
    free(many_ids);
    return st;
}

/* What the appends of one call have in memory. */
typedef struct crowd {
    ef__arrival *arrivals;
    ef__made_id *ids;
    ef__append *passed; /* those that are let in */
    size_t count;
} crowd;

/* Whether it may be looked at; too many events are refused before memory is asked for them. */
static ef_status greet(ef_journal *journal, const ef_append *append)
{
    ef_status st = ef__need_writable(journal, "ef_journal_append_each", append->err);

    if (st == EF_OK && append->count > 0)
        st = ef__need(append->out_places, "out_places", append->err);
    if (st == EF_OK && append->count > EF_LIMIT_APPEND_EVENTS)
        st = ef_event_check(append->events, append->count, NULL, append->err);
    return st;
}

static bool crowd_init(crowd *c, size_t appends, size_t events)
{
    c->arrivals = malloc(events * sizeof *c->arrivals);
    c->ids = malloc(events * sizeof *c->ids);
    c->passed = malloc(appends * sizeof *c->passed);
    return c->arrivals && c->ids && c->passed;
}

static void crowd_release(crowd *c)
{
    free(c->arrivals);
    free(c->ids);
    free(c->passed);
}

static void let_in(ef_journal *journal, ef_append *appends, size_t count, crowd *c)
{
    const ef_clock *clock = journal->options.clock;
    int64_t now_us = clock->wall_us(clock->context);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        ef_append *a = &appends[i];
        if (a->status != EF_OK || a->count == 0)
            continue;
        a->status = ef__arrivals_make(a->events, a->count, now_us, c->arrivals + used,
                                      c->ids + used, a->err);
        if (a->status == EF_OK)
            c->passed[c->count++] = (ef__append){.events = c->arrivals + used, .of = a};
        used += a->count;
    }
}

static void refuse_passed(const ef_journal *journal, const crowd *c)
{
    for (size_t i = 0; i < c->count; i++)
        c->passed[i].of->status = ef__damage_refuse(journal, c->passed[i].of->err);
}

static void append_passed(ef_journal *journal, const crowd *c)
{
    if (ef__damage_known(journal)) {
        refuse_passed(journal, c);
        return;
    }
    if (journal->ops->append_each && c->count > 0)
        journal->ops->append_each(journal, c->passed, c->count);
    for (size_t i = 0; i < c->count; i++) {
        const ef__arrival *events = c->passed[i].events;
        ef_append *of = c->passed[i].of;
        if (!journal->ops->append_each)
            of->status = journal->ops->append(journal, events, of->count, of->out_places, of->err);
        (void)ef__damage_note(journal, of->status, of->err);
        if (of->status == EF_OK)
            ef__ids_give(events, c->ids + (events - c->arrivals), of->count, of->out_places);
    }
}

void ef_journal_append_each(ef_journal *journal, ef_append *appends, size_t count)
{
    crowd c = {0};
    size_t events = 0;

    for (size_t i = 0; i < count; i++) {
        appends[i].status = greet(journal, &appends[i]);
        events += appends[i].status == EF_OK ? appends[i].count : 0;
    }
    if (events == 0)
        return;
    if (crowd_init(&c, count, events)) {
        let_in(journal, appends, count, &c);
        append_passed(journal, &c);
    } else {
        for (size_t i = 0; i < count; i++)
            if (appends[i].status == EF_OK)
                appends[i].status =
                    ef_fail(appends[i].err, EF_NO_MEMORY, "no memory to append %zu events", events);
    }
    crowd_release(&c);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status batch_ready(ef_batch *batch, ef_error *err)
{
    ef_status st = ef__need(batch, "out", err);

    if (st != EF_OK)
        return st;
    batch->events = NULL;
    batch->count = 0;
    batch->more = false;
    return ef__room_ready(&batch->room, err);
}

static ef_status batch_answer(ef_batch *batch, ef_status st)
{
    if (st != EF_OK) {
        batch->events = NULL;
        batch->count = 0;
        batch->more = false;
    }
    return st;
}

ef_status ef_journal_read_stream(ef_journal *journal, ef_str tenant, ef_str stream,
                                 int64_t from_seq, size_t limit, ef_batch *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = batch_ready(out, err);
    if (st == EF_OK)
        st = ef__name_take("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("stream", stream, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("from_seq", from_seq, 1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__limit_take(&limit, err);
    if (st != EF_OK)
        return st;
    st = journal->ops->read_stream(journal, tenant, stream, from_seq, limit, out, err);
    return batch_answer(out, ef__damage_note(journal, st, err));
}

ef_status ef_journal_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                              ef_error *err)
{
    int64_t reached = 0;
    ef_log_query taken;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = batch_ready(out, err);
    if (st == EF_OK)
        st = ef__need(query, "query", err);
    if (st != EF_OK)
        return st;
    taken = *query;
    taken.out_reached = &reached;
    if (!taken.any_tenant)
        st = ef__name_take("tenant", taken.tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("type", taken.type, 0, true, err);
    if (st == EF_OK)
        st = ef__range_check("after", taken.after, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__limit_take(&taken.limit, err);
    if (st == EF_OK)
        st = journal->ops->read_log(journal, &taken, out, err);
    if (st == EF_OK && query->out_reached)
        *query->out_reached = reached;
    return batch_answer(out, ef__damage_note(journal, st, err));
}

ef_status ef__journal_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                             int64_t *out_reached, ef_error *err)
{
    ef_log_query query = {.any_tenant = true,
                          .after = follow->after,
                          .limit = follow->limit,
                          .out_reached = out_reached};
    ef_status st = batch_ready(out, err);

    if (st == EF_OK && journal->ops->follow)
        st = journal->ops->follow(journal, follow, out, out_reached, err);
    else if (st == EF_OK)
        st = journal->ops->read_log(journal, &query, out, err);
    return batch_answer(out, ef__damage_note(journal, st, err));
}

void ef__journal_followed(ef_journal *journal, ef_str reader, int64_t upto)
{
    if (ef__journal_is_acknowledged(journal))
        journal->ops->followed(journal, reader, upto);
}

void ef__journal_unfollow(ef_journal *journal, ef_str reader)
{
    if (journal->ops->unfollow && reader.len)
        journal->ops->unfollow(journal, reader);
}

ef_status ef_journal_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                             ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = batch_ready(out, err);
    if (st == EF_OK)
        st = ef__name_take("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("id", id, 1, false, err);
    if (st != EF_OK)
        return st;
    st = journal->ops->read_id(journal, tenant, id, out, err);
    return batch_answer(out, ef__damage_note(journal, st, err));
}

/* --- streams ---------------------------------------------------------------------------------- */

ef_status ef_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err)
{
    int64_t seq = 0, position = 0;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_take("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("stream", stream, 1, false, err);
    if (st == EF_OK)
        st = journal->ops->stream_head(journal, tenant, stream, &seq, &position, err);
    (void)ef__damage_note(journal, st, err);
    if (st != EF_OK)
        return st;
    if (out_seq)
        *out_seq = seq;
    if (out_position)
        *out_position = position;
    return EF_OK;
}

ef_status ef_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st != EF_OK)
        return st;
    out->next[0] = '\0';
    st = EF__LIST_READY(out, err);
    if (st == EF_OK && !any_tenant)
        st = ef__name_take("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__str_check("after", after, err);
    if (st == EF_OK)
        st = ef__limit_take(&limit, err);
    if (st == EF_OK)
        st = journal->ops->stream_ls(journal, tenant, any_tenant, after, limit, out, err);
    return EF__LIST_ANSWER(out, st);
}

void ef_stream_list_release(ef_stream_list *list)
{
    EF__LIST_RELEASE(list);
}

/* --- types ------------------------------------------------------------------------------------ */

ef_status ef_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_type_set", err);

    if (st == EF_OK)
        st = ef__need(type, "type", err);
    if (st == EF_OK)
        st = ef__name_take("type", type->name, 1, true, err);
    if (st == EF_OK)
        st = ef__name_take("alias_of", type->alias_of, 0, true, err);
    if (st == EF_OK)
        st = ef__range_check("intent", type->intent, 0, EF_INTENT_AUDIT_ONLY, err);
    if (st != EF_OK)
        return st;
    if (memchr(type->name.ptr, '*', type->name.len))
        return ef_fail(err, EF_BAD_INPUT,
                       "type is \"%.*s\": a pattern is not the name of an event type",
                       EF_STR_ARG(type->name));
    if (type->alias_of.len && ef_str_equal(type->name, type->alias_of))
        return ef_fail(err, EF_BAD_INPUT, "type \"%.*s\" cannot be an alias of itself",
                       EF_STR_ARG(type->name));
    return journal->ops->type_set(journal, type, err);
}

static ef_status list_types(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st == EF_OK)
        st = EF__LIST_READY(out, err);
    return st == EF_OK ? journal->ops->type_ls(journal, query, out, err) : st;
}

ef_status ef_type_get(ef_journal *journal, ef_str name, ef_type_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_take("type", name, 1, true, err);
    if (st != EF_OK)
        return st;
    st = list_types(journal, &(ef__type_query){.name = name}, out, err);
    if (st == EF_OK && out->count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no type \"%.*s\"", EF_STR_ARG(name));
    return st;
}

ef_status ef_type_ls(ef_journal *journal, ef_type_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    return st == EF_OK ? list_types(journal, &(ef__type_query){0}, out, err) : st;
}

ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err)
{
    return list_types(journal, &(ef__type_query){.not_folded = true}, out, err);
}

ef_status ef__type_create_check(const ef_journal_options *options, ef_str tenant, ef_str type,
                                int64_t created, int64_t all, ef_error *err)
{
    int64_t most = options->types_max ? options->types_max : EF_TYPES_MAX;

    if (created >= most)
        return ef_fail_numbers(err, EF_UNKNOWN_TYPE, created, most,
                               "event type \"%.*s\" is not registered, and appends of tenant "
                               "\"%.*s\" have created %" PRId64 " types, which is the limit "
                               "(types.max): register the type, or raise the limit",
                               EF_STR_ARG(type), EF_STR_ARG(tenant), created);
    if (all >= EF_LIMIT_TYPES)
        return ef_fail_numbers(err, EF_UNKNOWN_TYPE, all, EF_LIMIT_TYPES,
                               "event type \"%.*s\" is not registered, and the journal has %" PRId64
                               " types, which is the limit",
                               EF_STR_ARG(type), all);
    return EF_OK;
}

void ef_type_list_release(ef_type_list *list)
{
    EF__LIST_RELEASE(list);
}
