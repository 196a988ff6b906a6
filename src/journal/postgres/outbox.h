/*
 * outbox.h - lane offsets, for claims and acks.
 *
 * Per lane and partition: all queued rows are above `position`, the offset. `in_flight` is the last
 * row of a claimed batch, or 0. Rows that were in flight under an older token are suspect until
 * they are acknowledged.
 */
#ifndef EF_JOURNAL_POSTGRES_OUTBOX_H
#define EF_JOURNAL_POSTGRES_OUTBOX_H

#include "store.h"

typedef struct pg_offset_row {
    int64_t position, in_flight, in_flight_token, suspect;
} pg_offset_row;

/* The index of a partition in the array of held leases, plus 1; 0: not held. */
typedef struct pg_held_map {
    uint16_t of[EF_LIMIT_PARTITIONS];
} pg_held_map;

void pg_held_map_init(pg_held_map *map, const ef_partition_lease *held, size_t count);
/* The index of the lease, or -1. */
int pg_held_find(const pg_held_map *map, int32_t partition);

/* Sends the statement that reads and locks the offsets of partitions … */
ef_status pg_offsets_send(ef__pg_conn *conn, int32_t lane, const ef_partition_lease *held,
                          size_t count, ef_error *err);
/* … and receives them: all zero where nothing was ever claimed. */
ef_status pg_offsets_receive(ef__pg_conn *conn, const pg_held_map *map, pg_offset_row *out,
                             ef_error *err);
/* Sends the offsets that have changed. */
ef_status pg_offsets_put(pg_store *store, ef__pg_conn *conn, int32_t lane,
                         const ef_partition_lease *held, size_t count, const pg_offset_row *before,
                         const pg_offset_row *now, ef_error *err);

/* --- rows (outbox_row.c) ---------------------------------------------------------------------- */

/* Up to `limit` rows of a result, with a cursor if there are more. */
ef_status pg_rows_list(const PGresult *result, size_t limit, ef_row_list *out, ef_error *err);
ef_status pg_clock_now(pg_store *store, int64_t *out, ef_error *err);

#endif
