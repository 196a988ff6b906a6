/*
 * wait.h - waiting for the journal to grow, and ending such waits.
 */
#ifndef EF_JOURNAL_SQLITE_WAIT_H
#define EF_JOURNAL_SQLITE_WAIT_H

#include "store.h"

ef_status sq_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                  ef_error *err);
ef_status sq_wake(ef_journal *journal, ef_error *err);
void sq_watches_release(sq_watches *watches); /* after the last wait has ended */

#endif
