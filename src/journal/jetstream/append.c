/*
 * append.c - appends one event: publishes a message and waits for the broker's acknowledgement.
 *
 * The message id is the event id, so that the stream drops duplicates within its window. The
 * expected seq is the last sequence of the subject; the broker compares it.
 */
#include "jet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXPECTED "Nats-Expected-Last-Subject-Sequence"
#define ID_MAX (2 * EF_LIMIT_NAME_BYTES + 2) /* tenant/id, both names */

typedef struct jet_message {
    jet_store *store;
    const ef__arrival *arrival;
    ef__buf subject, text;
    char id[ID_MAX];
    char expected[24];
} jet_message;

/* A header cannot hold control characters: such an event has no message id, and the broker does not
 * detect its duplicates. */
static const char *make_message_id(jet_message *message)
{
    const ef_new_event *event = &message->arrival->event;

    (void)snprintf(message->id, sizeof message->id, "%.*s/%.*s", EF_STR_ARG(event->tenant),
                   EF_STR_ARG(event->id));
    for (const char *c = message->id; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return NULL;
    return message->id;
}

static natsStatus publish_message(jet_message *message, jet_link *link, jsPubAck **out,
                                  jsErrCode *code)
{
    ef_expected_seq expected = message->arrival->event.expected_seq;
    jsPubOptions options;
    natsMsg *msg = NULL;
    natsStatus result =
        natsMsg_Create(&msg, message->subject.ptr, NULL, message->text.ptr, (int)message->text.len);

    (void)jsPubOptions_Init(&options);
    options.MaxWait = JET_TIMEOUT_MS;
    options.ExpectStream = message->store->address.stream;
    options.MsgId = make_message_id(message);
    /* Set as a header, because the library's option does not send an expected sequence of 0. */
    if (result == NATS_OK && expected.plus_one != 0) {
        (void)snprintf(message->expected, sizeof message->expected, "%" PRId64,
                       expected.plus_one - 1);
        result = natsMsgHeader_Set(msg, EXPECTED, message->expected);
    }
    if (result == NATS_OK)
        result = js_PublishMsg(out, link->stream, msg, &options, code);
    natsMsg_Destroy(msg);
    return result;
}

static ef_status report_seq_conflict(jet_message *message, ef_error *err)
{
    const ef_new_event *event = &message->arrival->event;
    int64_t seq = 0, position;
    ef_status st =
        jet_stream_head(&message->store->base, event->tenant, event->stream, &seq, &position, err);

    if (st == EF_OK)
        st = ef__seq_check(event, seq, err);
    return st == EF_OK ? ef_fail(err, EF_CONFLICT, "the stream was at another seq") : st;
}

/* EF_UNSURE: the response was lost, and the message may be stored. */
static ef_status report_refusal(jet_message *message, natsStatus result, jsErrCode code,
                                ef_error *err)
{
    const char *shown = message->store->address.shown;

    if (code == JSStreamWrongLastSequenceErr)
        return report_seq_conflict(message, err);
    if (result == NATS_TIMEOUT || result == NATS_CONNECTION_CLOSED ||
        result == NATS_CONNECTION_DISCONNECTED)
        return ef_fail(err, EF_UNSURE, "%s: %s; append again with the same id", shown,
                       natsStatus_GetText(result));
    if (result == NATS_NO_RESPONDERS)
        return ef_fail(err, EF_BUSY, "%s: no stream has the subject %s", shown,
                       message->subject.ptr);
    if (result == NATS_MAX_PAYLOAD)
        return ef_fail(err, EF_TOO_LARGE, "%s: the broker refuses a message of %zu bytes", shown,
                       message->text.len);
    return ef_fail(err, EF_BUSY, "%s: %s (%d)", shown, natsStatus_GetText(result), (int)code);
}

/* The broker reported a duplicate id: compares the stored event with this one. It is read as it was
 * appended, because its type may have become an alias since. */
static ef_status compare_duplicate(jet_message *message, int64_t position, ef_error *err)
{
    const ef_new_event *event = &message->arrival->event;
    jet_store *store = message->store;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    jet_reader reader;
    int64_t seq = 0, reached;
    bool is_same = true; /* unless it is found and differs: an expired event cannot be compared */
    ef_status st = ef__memory_prepare(&batch.room, err);

    jet_reader_init(&reader, "", message->subject.ptr);
    if (st == EF_OK)
        st = jet_reader_read(store, &reader, position - 1, 1, &batch, &reached, err);
    jet_reader_release(store, &reader);
    if (st == EF_OK && batch.count)
        is_same = batch.events[0].position == position &&
                  ef__event_same(message->arrival, &batch.events[0]);
    else if (st == EF_OK) {
        st = jet_stream_head(&store->base, event->tenant, event->stream, &seq, &reached, err);
        is_same = seq > 0;
    }
    if (st == EF_OK && !is_same)
        st = ef_fail(err, EF_ID_CONFLICT,
                     "id \"%.*s\" belongs to another event, at position %" PRId64,
                     EF_STR_ARG(event->id), position);
    return st;
}

static ef_status prepare_message(jet_message *message, ef_error *err)
{
    const ef_new_event *event = &message->arrival->event;

    if (!jet_subject_make(event->tenant, event->stream, &message->subject) ||
        !jet_event_write(message->arrival, &message->text))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while appending");
    if (!jet_filter_has(message->store->address.filter, message->subject.ptr))
        return ef_fail(
            err, EF_BAD_INPUT, "stream \"%.*s\" has the subject %s, and this journal reads only %s",
            EF_STR_ARG(event->stream), message->subject.ptr, message->store->address.filter);
    return EF_OK;
}

static ef_status append_one(jet_message *message, ef_place *out, ef_error *err)
{
    jsPubAck *ack = NULL;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus result;
    ef_status st = prepare_message(message, err);

    if (st == EF_OK)
        st = jet_link_get(message->store, &link, err);
    if (st != EF_OK)
        return st;
    result = publish_message(message, link, &ack, &code);
    if (result != NATS_OK)
        st = report_refusal(message, result, code, err);
    else
        out->seq = out->position = (int64_t)ack->Sequence, out->duplicate = ack->Duplicate;
    if (st == EF_OK && out->duplicate)
        st = compare_duplicate(message, out->position, err);
    jsPubAck_Destroy(ack);
    jet_link_put(link);
    return st;
}

ef_status jet_append(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                     ef_error *err)
{
    jet_message message = {.store = jet_store_of(journal),
                           .arrival = &events[0],
                           .subject = EF__BUF_INIT(JET_SUBJECT_MAX),
                           .text = EF__BUF_INIT(EF_LIMIT_APPEND_BYTES)};
    ef_status st;

    if (count > 1)
        return ef_fail(err, EF_UNSUPPORTED,
                       "an append of %zu events: JetStream cannot store several messages "
                       "atomically; append them one by one",
                       count);
    st = append_one(&message, out, err);
    if (st == EF_OK && !out->duplicate)
        atomic_fetch_add(&message.store->counts.appended, 1);
    ef__buf_release(&message.subject);
    ef__buf_release(&message.text);
    return st;
}
