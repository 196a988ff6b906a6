/*
 * append.c - one event, published and acknowledged.
 *
 * The message's id is the event's, so that the stream drops what comes twice within its window. An
 * expected seq is the last sequence of the subject, which the broker compares itself.
 */
#include "jet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXPECTED "Nats-Expected-Last-Subject-Sequence"
#define ID_MAX (2 * EF_LIMIT_NAME_BYTES + 2)

typedef struct publication {
    jet_store *store;
    const ef__arrival *arrival;
    ef__buf subject, text;
    char id[ID_MAX];
    char expected[24];
} publication;

/* A header holds no control characters; what has some goes without an id against doubles. */
static const char *make_id(publication *p)
{
    const ef_new_event *e = &p->arrival->event;

    (void)snprintf(p->id, sizeof p->id, "%.*s/%.*s", EF_STR_ARG(e->tenant), EF_STR_ARG(e->id));
    for (const char *c = p->id; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return NULL;
    return p->id;
}

static natsStatus publish(publication *p, jet_link *link, jsPubAck **out, jsErrCode *code)
{
    ef_expected_seq expected = p->arrival->event.expected_seq;
    jsPubOptions options;
    natsMsg *msg = NULL;
    natsStatus s = natsMsg_Create(&msg, p->subject.ptr, NULL, p->text.ptr, (int)p->text.len);

    (void)jsPubOptions_Init(&options);
    options.MaxWait = JET_TIMEOUT_MS;
    options.ExpectStream = p->store->address.stream;
    options.MsgId = make_id(p);
    /* By hand, for the library does not send a 0. */
    if (s == NATS_OK && ef_seq_is_expected(expected)) {
        (void)snprintf(p->expected, sizeof p->expected, "%" PRId64, expected.plus_one - 1);
        s = natsMsgHeader_Set(msg, EXPECTED, p->expected);
    }
    if (s == NATS_OK)
        s = js_PublishMsg(out, link->stream, msg, &options, code);
    natsMsg_Destroy(msg);
    return s;
}

static ef_status conflict(publication *p, ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;
    int64_t seq = 0, position;
    ef_status st = jet_stream_head(&p->store->base, e->tenant, e->stream, &seq, &position, err);

    if (st == EF_OK)
        st = ef__seq_check(e, seq, err);
    return st == EF_OK ? ef_fail(err, EF_CONFLICT, "the stream was at another seq") : st;
}

/* EF_UNSURE: the answer did not come, and the message may be there. */
static ef_status refused(publication *p, natsStatus s, jsErrCode code, ef_error *err)
{
    const char *shown = p->store->address.shown;

    if (code == JSStreamWrongLastSequenceErr)
        return conflict(p, err);
    if (s == NATS_TIMEOUT || s == NATS_CONNECTION_CLOSED || s == NATS_CONNECTION_DISCONNECTED)
        return ef_fail(err, EF_UNSURE, "%s: %s; append again with the same id", shown,
                       natsStatus_GetText(s));
    if (s == NATS_NO_RESPONDERS)
        return ef_fail(err, EF_BUSY, "%s: no stream takes subject %s", shown, p->subject.ptr);
    if (s == NATS_MAX_PAYLOAD)
        return ef_fail(err, EF_TOO_LARGE, "%s: the broker takes no message of %zu bytes", shown,
                       p->text.len);
    return ef_fail(err, EF_BUSY, "%s: %s (%d)", shown, natsStatus_GetText(s), (int)code);
}

/* The broker knows the id: is it the same event? */
static ef_status compare(publication *p, int64_t position, ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(&p->store->base, e->tenant, e->stream, position, 1, &batch, err);

    if (st == EF_NOT_FOUND ||
        (st == EF_OK && batch.count &&
         (batch.events[0].position != position || !ef__event_same(p->arrival, &batch.events[0]))))
        st = ef_fail(err, EF_ID_CONFLICT,
                     "id \"%.*s\" belongs to another event, at position %" PRId64,
                     EF_STR_ARG(e->id), position);
    ef_batch_release(&batch);
    return st;
}

static ef_status prepare(publication *p, ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;

    if (!jet_subject_make(e->tenant, e->stream, &p->subject) ||
        !jet_event_write(p->arrival, &p->text))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while appending");
    if (!jet_filter_has(p->store->address.filter, p->subject.ptr))
        return ef_fail(err, EF_BAD_INPUT,
                       "stream \"%.*s\" has the subject %s, and this journal reads only %s",
                       EF_STR_ARG(e->stream), p->subject.ptr, p->store->address.filter);
    return EF_OK;
}

static ef_status append_one(publication *p, ef_place *out, ef_error *err)
{
    jsPubAck *ack = NULL;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus s;
    ef_status st = prepare(p, err);

    if (st == EF_OK)
        st = jet_link_get(p->store, &link, err);
    if (st != EF_OK)
        return st;
    s = publish(p, link, &ack, &code);
    if (s != NATS_OK)
        st = refused(p, s, code, err);
    else
        out->seq = out->position = (int64_t)ack->Sequence, out->duplicate = ack->Duplicate;
    if (st == EF_OK && out->duplicate)
        st = compare(p, out->position, err);
    jsPubAck_Destroy(ack);
    jet_link_put(link);
    return st;
}

ef_status jet_append(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                     ef_error *err)
{
    publication p = {.store = jet_store_of(journal),
                     .arrival = &events[0],
                     .subject = EF__BUF_INIT(JET_SUBJECT_MAX),
                     .text = EF__BUF_INIT(EF_LIMIT_APPEND_BYTES)};
    ef_status st;

    if (count > 1)
        return ef_fail(err, EF_UNSUPPORTED,
                       "an append of %zu events: a JetStream stream takes one message at a time, "
                       "and cannot take all or none; append them one by one",
                       count);
    st = append_one(&p, out, err);
    if (st == EF_OK && !out->duplicate)
        atomic_fetch_add(&p.store->counts.appended, 1);
    ef__buf_release(&p.subject);
    ef__buf_release(&p.text);
    return st;
}
