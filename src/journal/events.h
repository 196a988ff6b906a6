/*
 * events.h - the event source of a journal: append, read, follow and wait.
 *
 * JetStream implements this interface only; a control journal serves the others (journal.h).
 */
#pragma once

#include "../base/buf.h"

#include <everfold/everfold.h>

#include <stdatomic.h>

/* A checked event: every field of `event` is filled in. */
typedef struct ef__arrival {
    ef_new_event event;
    bool id_made;    /* the id was generated: it cannot exist in the journal */
    bool time_given; /* the caller set the time: it is part of the content */
    /* An event of another journal, with the type of its append: it keeps its position, seq,
     * recording time and hash, or the append is refused. NULL: an ordinary append. */
    const ef_event *sealed;
} ef__arrival;

/* A checked append: `of` has its count, places, err and status. */
typedef struct ef__append {
    const ef__arrival *events;
    ef_append *of;
} ef__append;

/* The request of a sequential reader. */
typedef struct ef__follow {
    ef_str reader; /* identifies it to stores that keep per-reader state; "": none */
    int64_t after;
    size_t limit;
    /* Once it is true the caller waits for the result, and the read may return as soon as it has
     * `least` events. NULL: read up to `limit`. A store may ignore it. */
    const atomic_bool *wanted;
    size_t least;
} ef__follow;

typedef struct ef__events_ops {
    /* One transaction: events, new streams and types, outbox rows of the lanes that want them. It
     * also decides the partition of an event, by the number of partitions at that time: so no row
     * gets into a partition that another process has removed. */
    ef_status (*append)(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                        ef_error *err);
    /* Several appends, in this order, each a transaction of its own to any observer; sets the
     * status of each. NULL: the caller uses `append` for each. */
    void (*append_each)(ef_journal *journal, const ef__append *appends, size_t count);
    ef_status (*read_stream)(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err);
    ef_status (*read_log)(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err); /* query->out_reached is not NULL */
    /* NULL, here and for stream_ls and verify: EF_UNSUPPORTED. */
    ef_status (*read_id)(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err);
    /* As ef__journal_follow. NULL: the caller uses read_log. */
    ef_status (*follow)(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                        int64_t *out_reached, ef_error *err);
    /* As ef__journal_followed; required by EF__JOURNAL_ACKNOWLEDGED. */
    void (*followed)(ef_journal *journal, ef_str reader, int64_t upto);
    /* As ef__journal_unfollow. NULL: the store has no per-reader state. */
    void (*unfollow)(ef_journal *journal, ef_str reader);
    /* `wake` is NULL, or as in ef__journal_wait. */
    ef_status (*wait)(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                      ef_error *err);
    ef_status (*head)(ef_journal *journal, ef_head *out, ef_error *err);
    ef_status (*stream_head)(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                             int64_t *out_position, ef_error *err);
    ef_status (*stream_ls)(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                           size_t limit, ef_stream_list *out, ef_error *err);
    ef_status (*verify)(ef_journal *journal, int64_t from,
                        bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                        ef_verify_result *out, ef_error *err);
} ef__events_ops;

/*
 * As ef_journal_wait; also returns EF_OK when any process has called ef__journal_wake since `*wake`
 * was set: by the last call, or 0. So a wake-up that arrives while the caller is busy is not
 * missed. `after` EF__NO_APPENDS: waits for wake-ups only.
 */
#define EF__NO_APPENDS INT64_MAX
ef_status ef__journal_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                           ef_error *err);
/* Reads events of all tenants above a position. *out_reached: the position read up to. */
ef_status ef__journal_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                             int64_t *out_reached, ef_error *err);
/* Acknowledges what `reader` has read up to `upto`: it is committed, and synced where the journal
 * is EF__JOURNAL_ACKNOWLEDGED. Best effort. */
void ef__journal_followed(ef_journal *journal, ef_str reader, int64_t upto);
/* `reader` will not read again: the store may delete its state. Best effort. */
void ef__journal_unfollow(ef_journal *journal, ef_str reader);

/* --- shared by back ends (event.c) ------------------------------------------------------------ */

/* The bytes of an event for its hash: every text has its length before it, so that no two events
 * have the same bytes. */
bool ef__event_encode(const ef_event *event, ef__buf *out);
/* hash = SHA-256(previous hash, encoded event). `sum` (may be NULL) = XXH3 of the encoded event. */
bool ef__event_seal(const uint8_t before[EF_HASH_BYTES], const ef_event *event, ef__buf *scratch,
                    uint8_t out_hash[EF_HASH_BYTES], uint64_t *out_sum);
/* EF_CONFLICT: a sealed event would get another position, or is a duplicate. */
ef_status ef__sealed_place_check(const ef_event *sealed, int64_t position, bool duplicate,
                                 ef_error *err);
/* EF_DAMAGED: a sealed event would get another hash. */
ef_status ef__sealed_hash_check(const ef_event *sealed, const uint8_t hash[EF_HASH_BYTES],
                                ef_error *err);
/* The event of an arrival, with its seq; it has no position, recording time and hash yet. */
ef_event ef__arrival_event(const ef__arrival *arrival, int64_t seq);
/* Is `arrival` the same event as `stored`, so that appending it again is a duplicate? */
bool ef__event_same(const ef__arrival *arrival, const ef_event *stored);
/* EF_CONFLICT: the event expects another seq than `seq`. */
ef_status ef__seq_check(const ef_new_event *event, int64_t seq, ef_error *err);
/* EF_ID_CONFLICT: the id belongs to the event at `position`, which has other content. */
ef_status ef__id_conflict(ef_str id, int64_t position, ef_error *err);
/* Does `type` match NAME or PREFIX*, or a comma list of them? "" matches all. */
bool ef__type_matches(ef_str type, ef_str patterns);
