/*
 * front_events.c - the public API of events and streams: checks, appends and reads.
 */
#include "front_priv.h"

#include "../base/hash.h"
#include "../base/json.h"
#include "../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_EVENTS 16    /* events of an append that does not allocate: some 3 KiB of stack */
#define PREFIX_NAME_MAX 80 /* bytes of a stream name in a message, which has 512 */

/* --- checks ----------------------------------------------------------------------------------- */

/* Inserts text before the message of a check: the event or the field. */
static ef_status prefix_message(ef_error *err, ef_status st, const char *prefix)
{
    char message[EF_ERROR_TEXT_MAX];
    int n;

    if (!err)
        return st;
    memcpy(message, err->text, sizeof message);
    message[sizeof message - 1] = '\0';
    n = snprintf(err->text, sizeof err->text, "%s", prefix);
    if (n >= 0 && (size_t)n < sizeof err->text)
        (void)snprintf(err->text + n, sizeof err->text - (size_t)n, "%s", message);
    return st;
}

static ef_status prefix_event(ef_error *err, ef_status st, const ef_new_event *event, size_t index,
                              size_t count)
{
    char prefix[PREFIX_NAME_MAX + 64];
    ef_str stream = event->stream;

    /* An invalid stream name is not repeated: the message of the check is about it. */
    if (ef__name_parse("stream", stream, 1, false, NULL) != EF_OK) {
        if (count == 1)
            return st;
        (void)snprintf(prefix, sizeof prefix, "event %zu: ", index + 1);
        return prefix_message(err, st, prefix);
    }
    stream = ef__utf8_cut(stream, PREFIX_NAME_MAX);
    if (count == 1)
        (void)snprintf(prefix, sizeof prefix, "stream \"%.*s\": ", EF_STR_ARG(stream));
    else
        (void)snprintf(prefix, sizeof prefix, "event %zu (stream \"%.*s\"): ", index + 1,
                       EF_STR_ARG(stream));
    return prefix_message(err, st, prefix);
}

static ef_status check_names(const ef_new_event *event, ef_error *err)
{
    ef_status st = ef__name_parse("tenant", event->tenant, 0, false, err);

    if (st == EF_OK)
        st = ef__name_parse("stream", event->stream, 1, false, err);
    if (st == EF_OK)
        st = ef__name_parse("type", event->type, 1, true, err);
    if (st == EF_OK)
        st = ef__name_parse("id", event->id, 0, false, err);
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
        return prefix_message(err, st, prefix);
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
            return prefix_event(err, st, &events[i], i, count);
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
            return ef_fail(err, EF_IO,
                           "cannot create an event id: no random numbers from the system");
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

void ef__ids_return(const ef__arrival *arrivals, const ef__made_id *ids, size_t count,
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
        st = ef__damage_note(
            journal, journal->events->append(journal, arrivals, count, out_places, err), err);
    if (st == EF_OK)
        ef__ids_return(arrivals, ids, count, out_places);
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

    /* Too many events are refused before memory is allocated for them. */
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

/* The memory of one ef_journal_append_each. */
typedef struct append_batch {
    ef__arrival *arrivals;
    ef__made_id *ids;
    ef__append *valid; /* the appends that passed the checks */
    size_t count;
} append_batch;

/* The checks that need no memory; too many events are refused before it is allocated. */
static ef_status check_append(ef_journal *journal, const ef_append *append)
{
    ef_status st = ef__need_writable(journal, "ef_journal_append_each", append->err);

    if (st == EF_OK && append->count > 0)
        st = ef__need(append->out_places, "out_places", append->err);
    if (st == EF_OK && append->count > EF_LIMIT_APPEND_EVENTS)
        st = ef_event_check(append->events, append->count, NULL, append->err);
    return st;
}

static bool init_append_batch(append_batch *batch, size_t appends, size_t events)
{
    batch->arrivals = malloc(events * sizeof *batch->arrivals);
    batch->ids = malloc(events * sizeof *batch->ids);
    batch->valid = malloc(appends * sizeof *batch->valid);
    return batch->arrivals && batch->ids && batch->valid;
}

static void release_append_batch(append_batch *batch)
{
    free(batch->arrivals);
    free(batch->ids);
    free(batch->valid);
}

static void make_valid_appends(ef_journal *journal, ef_append *appends, size_t count,
                               append_batch *batch)
{
    const ef_clock *clock = journal->options.clock;
    int64_t now_us = clock->wall_us(clock->context);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        ef_append *append = &appends[i];
        if (append->status != EF_OK || append->count == 0)
            continue;
        append->status = ef__arrivals_make(append->events, append->count, now_us,
                                           batch->arrivals + used, batch->ids + used, append->err);
        if (append->status == EF_OK)
            batch->valid[batch->count++] =
                (ef__append){.events = batch->arrivals + used, .of = append};
        used += append->count;
    }
}

static void refuse_appends(const append_batch *batch, const ef_error *why)
{
    for (size_t i = 0; i < batch->count; i++) {
        ef_append *of = batch->valid[i].of;
        of->status = why->status;
        if (of->err)
            *of->err = *why;
    }
}

static void append_valid(ef_journal *journal, const append_batch *batch)
{
    ef_error why = EF_ERROR_INIT;

    if (ef__damage_refuse(journal, &why) != EF_OK) {
        refuse_appends(batch, &why);
        return;
    }
    if (journal->events->append_each && batch->count > 0)
        journal->events->append_each(journal, batch->valid, batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        const ef__arrival *events = batch->valid[i].events;
        ef_append *of = batch->valid[i].of;
        if (!journal->events->append_each)
            of->status =
                journal->events->append(journal, events, of->count, of->out_places, of->err);
        (void)ef__damage_note(journal, of->status, of->err);
        if (of->status == EF_OK)
            ef__ids_return(events, batch->ids + (events - batch->arrivals), of->count,
                           of->out_places);
    }
}

void ef_journal_append_each(ef_journal *journal, ef_append *appends, size_t count)
{
    append_batch batch = {0};
    size_t events = 0;

    for (size_t i = 0; i < count; i++) {
        appends[i].status = check_append(journal, &appends[i]);
        events += appends[i].status == EF_OK ? appends[i].count : 0;
    }
    if (events == 0)
        return;
    if (init_append_batch(&batch, count, events)) {
        make_valid_appends(journal, appends, count, &batch);
        append_valid(journal, &batch);
    } else {
        for (size_t i = 0; i < count; i++)
            if (appends[i].status == EF_OK)
                appends[i].status =
                    ef_fail(appends[i].err, EF_NO_MEMORY, "no memory to append %zu events", events);
    }
    release_append_batch(&batch);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status prepare_batch(ef_batch *batch, ef_error *err)
{
    ef_status st = ef__need(batch, "out", err);

    if (st != EF_OK)
        return st;
    batch->events = NULL;
    batch->count = 0;
    batch->more = false;
    return ef__memory_prepare(&batch->room, err);
}

static ef_status finish_batch(ef_batch *batch, ef_status st)
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
        st = prepare_batch(out, err);
    if (st == EF_OK)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("stream", stream, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("from_seq", from_seq, 1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&limit, err);
    if (st != EF_OK)
        return st;
    st = journal->events->read_stream(journal, tenant, stream, from_seq, limit, out, err);
    return finish_batch(out, ef__damage_note(journal, st, err));
}

ef_status ef_journal_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                              ef_error *err)
{
    int64_t reached = 0;
    ef_log_query resolved;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = prepare_batch(out, err);
    if (st == EF_OK)
        st = ef__need(query, "query", err);
    if (st != EF_OK)
        return st;
    resolved = *query;
    resolved.out_reached = &reached;
    if (!resolved.any_tenant)
        st = ef__name_parse("tenant", resolved.tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("type", resolved.type, 0, true, err);
    if (st == EF_OK)
        st = ef__range_check("after", resolved.after, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&resolved.limit, err);
    if (st == EF_OK)
        st = journal->events->read_log(journal, &resolved, out, err);
    if (st == EF_OK && query->out_reached)
        *query->out_reached = reached;
    return finish_batch(out, ef__damage_note(journal, st, err));
}

ef_status ef__journal_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                             int64_t *out_reached, ef_error *err)
{
    ef_log_query query = {.any_tenant = true,
                          .after = follow->after,
                          .limit = follow->limit,
                          .out_reached = out_reached};
    ef_status st = prepare_batch(out, err);

    *out_reached = follow->after;
    if (st == EF_OK && journal->events->follow)
        st = journal->events->follow(journal, follow, out, out_reached, err);
    else if (st == EF_OK)
        st = journal->events->read_log(journal, &query, out, err);
    return finish_batch(out, ef__damage_note(journal, st, err));
}

void ef__journal_followed(ef_journal *journal, ef_str reader, int64_t upto)
{
    if (ef__journal_is_acknowledged(journal))
        journal->events->followed(journal, reader, upto);
}

void ef__journal_unfollow(ef_journal *journal, ef_str reader)
{
    if (journal->events->unfollow && reader.len)
        journal->events->unfollow(journal, reader);
}

ef_status ef_journal_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                             ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = prepare_batch(out, err);
    if (st == EF_OK)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("id", id, 1, false, err);
    if (st != EF_OK)
        return st;
    st =
        journal->events->read_id
            ? journal->events->read_id(journal, tenant, id, out, err)
            : ef_fail(err, EF_UNSUPPORTED,
                      "event \"%.*s\": a journal on %s does not find events by id; read the stream "
                      "or the log",
                      EF_STR_ARG(id), journal->store->name);
    return finish_batch(out, ef__damage_note(journal, st, err));
}

/* --- streams ---------------------------------------------------------------------------------- */

ef_status ef_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err)
{
    int64_t seq = 0, position = 0;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("stream", stream, 1, false, err);
    if (st == EF_OK)
        st = journal->events->stream_head(journal, tenant, stream, &seq, &position, err);
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
    st = ef__list_prepare(out, err);
    if (st == EF_OK && !any_tenant)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__str_check("after", after, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&limit, err);
    if (st == EF_OK)
        st = journal->events->stream_ls
                 ? journal->events->stream_ls(journal, tenant, any_tenant, after, limit, out, err)
                 : ef_fail(
                       err, EF_UNSUPPORTED,
                       "a journal on %s does not list its streams: list the subjects of the broker",
                       journal->store->name);
    (void)ef__damage_note(journal, st, err);
    return EF__LIST_FINISH(out, st);
}
