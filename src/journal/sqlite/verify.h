/*
 * verify.h - recomputing the chain.
 */
#ifndef EF_JOURNAL_SQLITE_VERIFY_H
#define EF_JOURNAL_SQLITE_VERIFY_H

#include "store.h"

#define SQ_VERIFY_AT_OPEN 50000 /* events: a fraction of a second; the rest at the next open */

/* At open: verifies from `from` on, up to a number of events. *out_verified: the last verified
 * position. */
ef_status sq_verify_tail(sq_writer *writer, int64_t from, int64_t *out_verified, ef_error *err);

ef_status sq_verify(ef_journal *journal, int64_t from,
                    bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                    ef_verify_result *out, ef_error *err);

#endif
