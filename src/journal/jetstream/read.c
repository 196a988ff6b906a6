/*
 * read.c - the calls that read: the log, a stream, and those who follow.
 */
#include "jet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types ------------------------------------------------------------------------------------ */

/* A type that is an alias is read as what it stands for. */
static ef_status put_aliases(jet_store *store, ef_event *events, size_t count, ef__arena *arena,
                             ef_error *err)
{
    ef_type_list types = {0};
    ef_status st = ef_type_ls(store->control, &types, err);

    for (size_t t = 0; st == EF_OK && t < types.count; t++) {
        ef_str name = (ef_str){0};
        if (types.items[t].alias_of.len == 0)
            continue;
        name = ef__arena_copy(arena, types.items[t].alias_of);
        if (!name.ptr)
            st = ef__room_full(err);
        for (size_t i = 0; st == EF_OK && i < count; i++)
            if (ef_str_equal(events[i].type, types.items[t].name))
                events[i].type = name;
    }
    ef_type_list_release(&types);
    return st;
}

static ef_status read_by(jet_store *store, jet_reader *reader, int64_t after, size_t limit,
                         ef_batch *out, int64_t *out_reached, ef_error *err)
{
    ef_status st = jet_reader_read(store, reader, after, limit, out, out_reached, err);

    if (st == EF_OK && out->count)
        st = put_aliases(store, (ef_event *)out->events, out->count, &out->room->arena, err);
    return st;
}

/* By a consumer that lives for this call. */
static ef_status read_once(jet_store *store, const char *filter, int64_t after, size_t limit,
                           ef_batch *out, int64_t *out_reached, ef_error *err)
{
    jet_reader reader;
    ef_status st;

    jet_reader_init(&reader, "", filter);
    st = read_by(store, &reader, after, limit, out, out_reached, err);
    jet_reader_release(store, &reader);
    return st;
}

/* --- the log ---------------------------------------------------------------------------------- */

static void keep_type(ef_batch *out, ef_str type)
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
        keep_type(out, query->type);
    return st;
}

/* --- a stream --------------------------------------------------------------------------------- */

static ef_status make_subject(ef_str tenant, ef_str stream, char out[JET_SUBJECT_MAX],
                              ef_error *err)
{
    ef__buf text = EF__BUF_INIT(JET_SUBJECT_MAX - 1);
    bool made = jet_subject_make(tenant, stream, &text);

    if (made)
        memcpy(out, text.ptr, text.len + 1);
    ef__buf_release(&text);
    return made ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out for a subject");
}

/* Debian's broker does not find the last message of a subject when the one behind it was deleted:
 * then the stream is read to its end. */
static ef_status find_last(jet_store *store, const char *subject, int64_t *out, ef_error *err)
{
    int64_t reached = 0;
    ef_status st = EF_OK;
    bool more = true;

    *out = 0;
    while (st == EF_OK && more) {
        ef_batch batch = EF_BATCH_INIT;
        st = ef__room_ready(&batch.room, err);
        if (st == EF_OK)
            st = read_once(store, subject, reached, EF_READ_LIMIT_MAX, &batch, &reached, err);
        more = st == EF_OK && batch.more;
        if (st == EF_OK && batch.count)
            *out = batch.events[batch.count - 1].position;
        ef_batch_release(&batch);
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
    natsStatus s;
    ef_status st = make_subject(tenant, stream, subject, err);

    if (st == EF_OK)
        st = jet_link_get(store, &link, err);
    if (st != EF_OK)
        return st;
    s = js_GetLastMsg(&msg, link->stream, store->address.stream, subject, NULL, NULL);
    *out_seq = s == NATS_OK ? (int64_t)natsMsg_GetSequence(msg) : 0;
    if (s == NATS_NOT_FOUND)
        st = find_last(store, subject, out_seq, err);
    else if (s != NATS_OK)
        st = jet_broker_fail(store, s, err);
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
        st = ef_fail(err, EF_NOT_FOUND, "there is no stream \"%.*s\"", EF_STR_ARG(stream));
    return st;
}

/* --- following -------------------------------------------------------------------------------- */

/* everfold-ID-NAME, with what a consumer's name cannot hold as _XX. */
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

/* It stays for as long as the journal is open: there are as many as generations. NULL: no memory.
 */
static jet_reader *reader_of(jet_store *store, ef_str name, bool make)
{
    char durable[JET_NAME_MAX];
    jet_reader *r;

    durable_name(store, name, durable);
    (void)pthread_mutex_lock(&store->lock);
    for (r = store->readers; r && strcmp(r->name, durable) != 0; r = r->next)
        ;
    if (!r && make && (r = malloc(sizeof *r)) != NULL) {
        jet_reader_init(r, durable, store->address.filter);
        r->next = store->readers;
        store->readers = r;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return r;
}

ef_status jet_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                     int64_t *out_reached, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_reader *r;
    ef_status st;

    *out_reached = follow->after;
    if (follow->reader.len == 0)
        return read_once(store, store->address.filter, follow->after, follow->limit, out,
                         out_reached, err);
    r = reader_of(store, follow->reader, true);
    if (!r)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    (void)pthread_mutex_lock(&r->lock);
    st = read_by(store, r, follow->after, follow->limit, out, out_reached, err);
    (void)pthread_mutex_unlock(&r->lock);
    return st;
}

void jet_followed(ef_journal *journal, ef_str name, int64_t upto)
{
    jet_store *store = jet_store_of(journal);
    jet_reader *r = name.len ? reader_of(store, name, false) : NULL;

    if (r)
        jet_reader_ack(store, r, upto);
}

/* By name: the process that removes a generation need not be one that has read for it. A consumer
 * that is not there, or a broker that is unavailable, changes nothing: it expires by itself. */
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
