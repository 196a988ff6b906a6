/*
 * throughput.h - the work of all processes per minute, for the last day.
 *
 * A worker counts its work and adds it to the minute's row in the store: once a minute, in the
 * commit of a heartbeat, and when it becomes idle or stops. The last minute of a killed worker is
 * missing.
 */
#ifndef EVERFOLD_THROUGHPUT_H
#define EVERFOLD_THROUGHPUT_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_THROUGHPUT_MINUTES 1440 /* rows that are stored */

typedef struct ef_throughput {
    int64_t at_us;     /* when the minute began */
    int64_t position;  /* of the journal's head when the row was last written */
    int64_t appended;  /* events since the row that was written before; the store counts them */
    int64_t applied;   /* by projections: an event counts once for each that applied it */
    int64_t published; /* messages that sinks have accepted */
    int64_t failed;    /* attempts that failed, of projections and publishers */
    int64_t dead;      /* rows that have become dead */
} ef_throughput;

typedef struct ef_throughput_list {
    const ef_throughput *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_throughput_list;

/* The minutes from `from_us` on, oldest first. A minute without a row is one without work. */
ef_status ef_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
