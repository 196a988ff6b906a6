/*
 * outbox.h - marks, as taking and marking see them.
 *
 * Per lane and partition: rows are all above the mark; `hand` is above it while a batch is in hand,
 * else 0. What was in hand under an older token is suspect until the mark has passed it.
 */
#ifndef EF_JOURNAL_POSTGRES_OUTBOX_H
#define EF_JOURNAL_POSTGRES_OUTBOX_H

#include "store.h"

typedef struct pg_mark_row {
    int64_t position, hand, hand_token, suspect;
} pg_mark_row;

/* Which holding a partition is of: index + 1, 0 where it is not held. */
typedef struct pg_held_map {
    uint16_t of[EF_LIMIT_PARTITIONS];
} pg_held_map;

void pg_held_map_init(pg_held_map *map, const ef_holding *held, size_t count);
/* The index of the holding, or -1. */
int pg_held_find(const pg_held_map *map, int32_t partition);

/* Send the question for the marks of partitions, locked … */
ef_status pg_marks_send(ef__pg_conn *conn, int32_t lane, const ef_holding *held, size_t count,
                        ef_error *err);
/* … and take them: all zero where nothing was ever taken. */
ef_status pg_marks_take(ef__pg_conn *conn, const pg_held_map *map, pg_mark_row *out, ef_error *err);
/* Send the marks that are others than they were. */
ef_status pg_marks_put(pg_store *store, ef__pg_conn *conn, int32_t lane, const ef_holding *held,
                       size_t count, const pg_mark_row *before, const pg_mark_row *now,
                       ef_error *err);

/* --- rows (outbox_row.c) ---------------------------------------------------------------------- */

/* Up to `limit` rows of a result, with the cursor behind the last where there are more. */
ef_status pg_rows_list(const PGresult *result, size_t limit, ef_row_list *out, ef_error *err);
ef_status pg_clock_now(pg_store *store, int64_t *out, ef_error *err);

#endif
