/*
 * sq.h - the statements of the journal (.sql files), and the options of its connections. The prefix
 * is sq_.
 */
#ifndef EF_JOURNAL_SQLITE_SQ_H
#define EF_JOURNAL_SQLITE_SQ_H

#include "../journal.h"

#include "../../core/lease_rule.h"
#include "../../sqlite/conn.h"

/* --- rows that the generated functions read and write ----------------------------------------- */

typedef struct sq_offset_row {
    int64_t position, in_flight, in_flight_token, suspect;
} sq_offset_row;

/* A dead row is never flagged to be skipped: see outbox.sql. */
typedef struct sq_retry_row {
    bool found;
    int32_t partition;
    int64_t stream, seq;
    ef_row_status status;
    bool skip;
    int32_t attempts;
    int64_t due_us;
    ef_str error; /* in the arena; "" without one */
    int64_t updated_us;
    int64_t filed; /* kept by an update */
    bool trying;   /* an attempt is under way */
} sq_retry_row;

/* The state row. */
typedef struct sq_progress {
    int64_t settled, target, heads_after, ids_after, next_run, types_version, lanes_version;
    int32_t partitions;
} sq_progress;

/* A sorted run of the index of ids (ids.h). */
typedef struct sq_run {
    int64_t run, level, into;
} sq_run;

#include "journal_sqlite_sql.h"

/* --- connections ------------------------------------------------------------------------------ */

/* Options of every connection of the journal: a commit is on disk when it returns. */
ef__sq_options sq_options(bool read_only, int64_t busy_ms);

#endif
