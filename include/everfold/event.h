/*
 * event.h - events: the struct to append, and the struct that reads return.
 *
 * An event belongs to a tenant and a stream. `data` and `meta` are JSON. They are validated when
 * they are appended, and stored and returned byte for byte.
 */
#pragma once

#include <everfold/status.h>
#include <everfold/str.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

EF_C_BEGIN

/*
 * The seq that the stream must have just before an event is appended. Zero-initialised: any seq.
 *
 * A type of its own, because 0 is a seq, the one of a stream without events, and must not mean
 * "any". The meaning is the same over HTTP, in SQL, on the command line and in import files: 0 for
 * a new stream, and nothing (null) for any seq.
 *
 * - event.expected_seq = ef_expect_seq(0): the stream must be new
 * - event.expected_seq = ef_expect_seq(seq): the last event of the stream must be `seq`
 */
typedef struct ef_expected_seq {
    int64_t plus_one; /* the seq plus one; 0 means any seq */
} ef_expected_seq;

/* A seq that is negative or INT64_MAX is refused by the append. */
static inline ef_expected_seq ef_expect_seq(int64_t seq)
{
    ef_expected_seq expected = {0};

    expected.plus_one = seq < 0 || seq == INT64_MAX ? -1 : seq + 1;
    return expected;
}

#define EF_EVENT_ID_TEXT_MAX 37 /* bytes: a generated UUID and its NUL */
#define EF_HASH_BYTES 32        /* SHA-256 */

/* An event to append. Zero means the default: {.stream = …, .type = …, .data = …} is enough. */
typedef struct ef_new_event {
    ef_str tenant; /* "" when tenancy is not used; at most 255 bytes of UTF-8, no NUL */
    ef_str stream; /* 1 to 255 bytes of UTF-8, no NUL */
    ef_str type;   /* 1 to 255 bytes of UTF-8, no NUL, no white space or control character */
    ef_str id;     /* unique per tenant, forever; empty: a UUIDv7 is generated */
    ef_expected_seq expected_seq; /* the seq of the stream before this event; zero means any */
    int32_t schema;               /* version of the type's schema; 0 means 1 */
    int64_t time_us;              /* when it happened; 0: now */
    ef_str data;                  /* JSON, at most 1 MiB; empty means {} */
    ef_str meta; /* a JSON object (correlation, causation, traceparent); empty means {} */
} ef_new_event;

/* The seq and position of an appended event; of a duplicate, those of the first append. */
typedef struct ef_place {
    int64_t seq;
    int64_t position;
    bool duplicate;                /* it existed, with the same content */
    char id[EF_EVENT_ID_TEXT_MAX]; /* the generated id; "" when the caller gave one */
} ef_place;

typedef struct ef_event {
    ef_str tenant;
    ef_str stream;
    int64_t seq;      /* number in the stream: 1, 2, 3 … */
    int64_t position; /* number in the journal: dense, in commit order */
    ef_str id;
    ef_str type; /* the canonical name where the type of the append is an alias */
    int32_t schema;
    int64_t time_us;
    int64_t recorded_us;
    ef_str data;
    ef_str meta;
    uint8_t hash[EF_HASH_BYTES]; /* SHA-256 over the event and the hash of the previous event */
} ef_event;

struct ef__batch_memory;
/* Frees the memory of a result; `*room` may be NULL. For callers that cannot use EF_RELEASE. */
void ef_memory_release(struct ef__batch_memory **room);
/* Frees and empties a result that has `room`: EF_RELEASE(&batch). Evaluates it twice. */
#define EF_RELEASE(result)                                                                         \
    (ef_memory_release(&(result)->room), (void)memset((result), 0, sizeof *(result)))

/*
 * Events that were read. They live in the batch until it is released; a call that reads into a
 * batch empties it first. Start with ef_batch batch = EF_BATCH_INIT;
 */
typedef struct ef_batch {
    const ef_event *events;
    size_t count;
    bool more; /* the limit was reached: there are more events */
    struct ef__batch_memory *room;
} ef_batch;

#define EF_BATCH_INIT                                                                              \
    {                                                                                              \
        NULL, 0, false, NULL                                                                       \
    }

/* What events of a type are used for. */
typedef enum ef_intent {
    EF_INTENT_PROJECTION_AND_REPLAY, /* folded live and in replays */
    EF_INTENT_REPLAY_ONLY,           /* not folded live */
    EF_INTENT_AUDIT_ONLY             /* stored and listed, never folded */
} ef_intent;

typedef struct ef_type {
    ef_str name;
    ef_intent intent;
    bool publish;    /* publishers may publish it */
    ef_str alias_of; /* the canonical type that reads return instead; "": not an alias */
} ef_type;

EF_C_END
