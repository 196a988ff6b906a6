/*
 * read.c - the read calls: the log, a stream, and sequential readers.
 */
#include "jet.h"

#include "../refusal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types ------------------------------------------------------------------------------------ */

/* Replaces a type that is an alias by its canonical type. */
static ef_status resolve_aliases(jet_store *store, ef_event *events, size_t count, ef__arena *arena,
                                 ef_error *err)
{
    EF__AUTO(ef_type_list) types = {0};
    ef_status st = ef_type_ls(store->base.control, NULL, &types, err);

    for (size_t type = 0; st == EF_OK && type < types.count; type++) {
        ef_str name = (ef_str){0};
        if (types.items[type].alias_of.len == 0)
            continue;
        name = ef__arena_copy(arena, types.items[type].alias_of);
        if (!name.ptr)
            st = ef__no_memory(err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            if (ef_str_equal(events[i].type, types.items[type].name))
                events[i].type = name;
    }
    return st;
}

static ef_status read_events(jet_store *store, jet_reader *reader, int64_t after, size_t limit,
                             ef_batch *out, int64_t *out_reached, ef_error *err)
{
    ef_status st = jet_reader_read(store, reader, after, limit, out, out_reached, err);

    if (st == EF_OK && out->count)
        st = resolve_aliases(store, (ef_event *)out->events, out->count, &out->room->arena, err);
    return st;
}

/* Reads through a consumer that lives for this call. */
static ef_status read_once(jet_store *store, const char *filter, int64_t after, size_t limit,
                           ef_batch *out, int64_t *out_reached, ef_error *err)
{
    jet_reader reader;
    ef_status st;

    jet_reader_init(&reader, "", filter);
    st = read_events(store, &reader, after, limit, out, out_reached, err);
    jet_reader_release(store, &reader);
    return st;
}

/* --- the log ---------------------------------------------------------------------------------- */

static void filter_by_type(ef_batch *out, ef_str type)
{
    ef_event *events = (ef_event *)out->events;
    size_t kept = 0;

    for (size_t i = 0; i < out->count; i++)
        if (ef__type_matches(events[i].type, type))
            events[kept++] = events[i];
    out->count = kept;
}

ef_status jet_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    char filter[JET_SUBJECT_MAX];
    ef_status st;

    *query->out_reached = query->after;
    (void)snprintf(filter, sizeof filter, "%s", store->address.filter);
    if (!query->any_tenant && !jet_filter_tenant(store->address.filter, query->tenant, filter))
        return EF_OK;
    st = read_once(store, filter, query->after, query->limit, out, query->out_reached, err);
    if (st == EF_OK && query->type.len)
        filter_by_type(out, query->type);
    return st;
}

/* --- a stream --------------------------------------------------------------------------------- */

static ef_status make_subject(ef_str tenant, ef_str stream, char out[JET_SUBJECT_MAX],
                              ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(JET_SUBJECT_MAX - 1);
    bool made = jet_subject_make(tenant, stream, &text);

    if (made)
        memcpy(out, text.ptr, text.len + 1);
    return made ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out for a subject");
}

/* The broker of Debian 12 does not find the last message of a subject when the message after it was
 * deleted: then the subject is read to its end. */
static ef_status find_last_message(jet_store *store, const char *subject, int64_t *out,
                                   ef_error *err)
{
    int64_t reached = 0;
    ef_status st = EF_OK;
    bool more = true;

    *out = 0;
    while (st == EF_OK && more) {
        ef_batch batch = EF_BATCH_INIT;
        st = ef__memory_prepare(&batch.room, err);
        if (st == EF_OK)
            st = read_once(store, subject, reached, EF_READ_LIMIT_MAX, &batch, &reached, err);
        more = st == EF_OK && batch.more;
        if (st == EF_OK && batch.count)
            *out = batch.events[batch.count - 1].position;
        EF_RELEASE(&batch);
    }
    return st;
}

ef_status jet_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                          int64_t *out_position, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    char subject[JET_SUBJECT_MAX];
    natsMsg *msg = NULL;
    jet_link *link = NULL;
    natsStatus result;
    ef_status st = make_subject(tenant, stream, subject, err);

    if (st == EF_OK)
        st = jet_link_get(store, &link, err);
    if (st != EF_OK)
        return st;
    result = js_GetLastMsg(&msg, link->stream, store->address.stream, subject, NULL, NULL);
    *out_seq = result == NATS_OK ? (int64_t)natsMsg_GetSequence(msg) : 0;
    if (result == NATS_NOT_FOUND)
        st = find_last_message(store, subject, out_seq, err);
    else if (result != NATS_OK)
        st = jet_broker_fail(store, result, err);
    *out_position = *out_seq;
    natsMsg_Destroy(msg);
    jet_link_put(link);
    return st;
}

ef_status jet_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                          size_t limit, ef_batch *out, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    char subject[JET_SUBJECT_MAX];
    int64_t reached, seq = 0, position;
    ef_status st = make_subject(tenant, stream, subject, err);

    if (st == EF_OK)
        st = read_once(store, subject, from_seq - 1, limit, out, &reached, err);
    if (st != EF_OK || out->count)
        return st;
    st = jet_stream_head(journal, tenant, stream, &seq, &position, err);
    if (st == EF_OK && seq == 0)
        st = ef__refuse_unknown("stream", stream, err);
    return st;
}

/* --- following -------------------------------------------------------------------------------- */

/* everfold-ID-NAME, with characters that a consumer name cannot hold as _XX. */
static void durable_name(const jet_store *store, ef_str reader, char out[JET_NAME_MAX])
{
    size_t at = (size_t)snprintf(out, JET_NAME_MAX, "everfold-%s-", store->id);

    for (size_t i = 0; i < reader.len && at + 4 < JET_NAME_MAX; i++) {
        unsigned char c = (unsigned char)reader.ptr[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
        at += (size_t)snprintf(out + at, JET_NAME_MAX - at, plain ? "%c" : "_%02X", c);
    }
}

/* A reader lives until the journal is closed: there is one per generation. NULL: memory ran out. */
static jet_reader *find_reader(jet_store *store, ef_str name, bool make)
{
    char durable[JET_NAME_MAX];
    jet_reader *reader;

    durable_name(store, name, durable);
    (void)pthread_mutex_lock(&store->lock);
    for (reader = store->readers; reader && strcmp(reader->name, durable) != 0;
         reader = reader->next)
        ;
    if (!reader && make && (reader = malloc(sizeof *reader)) != NULL) {
        jet_reader_init(reader, durable, store->address.filter);
        reader->next = store->readers;
        store->readers = reader;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return reader;
}

ef_status jet_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                     int64_t *out_reached, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_reader *reader;
    ef_status st;

    *out_reached = follow->after;
    if (follow->reader.len == 0)
        return read_once(store, store->address.filter, follow->after, follow->limit, out,
                         out_reached, err);
    reader = find_reader(store, follow->reader, true);
    if (!reader)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    (void)pthread_mutex_lock(&reader->lock);
    st = read_events(store, reader, follow->after, follow->limit, out, out_reached, err);
    (void)pthread_mutex_unlock(&reader->lock);
    return st;
}

void jet_followed(ef_journal *journal, ef_str name, int64_t upto)
{
    jet_store *store = jet_store_of(journal);
    jet_reader *reader = name.len ? find_reader(store, name, false) : NULL;

    if (reader)
        jet_reader_ack(store, reader, upto);
}

/* By name, because the process that removes a generation may not have read for it. A missing
 * consumer or an unavailable broker is ignored: the consumer expires by itself. */
void jet_unfollow(ef_journal *journal, ef_str name)
{
    jet_store *store = jet_store_of(journal);
    jet_link *link = NULL;
    jsErrCode code = 0;
    char durable[JET_NAME_MAX];

    durable_name(store, name, durable);
    if (jet_link_get(store, &link, NULL) != EF_OK)
        return;
    (void)js_DeleteConsumer(link->stream, store->address.stream, durable, NULL, &code);
    jet_link_put(link);
}
