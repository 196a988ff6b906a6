/*
 * checkpoint.h - moving the log into the database, off the commit path.
 *
 * The danger (SQLite before 3.51.3): a checkpoint that runs while a commit wraps the log forgets
 * pages. A commit wraps the log only when all of it has been moved and nobody reads from it. So:
 *
 *   1. alone      no commit anywhere for an instant: make a small commit of our own, so the log has
 *                 frames that were not moved, and open a read transaction (the pin) on it. While
 * the pin is held no commit of any process can wrap the log.
 *   2. together   checkpoint up to the pin while commits go on behind it. This is the long part.
 *   3. alone      drop the pin, move the little that came since. The next commit wraps the log.
 * This is the moment that others notice, so it is left out until the log is long.
 *
 * "Alone" is the lock file's (guard.h), for all processes, and is as short as one commit. Every
 * result is checked. One process checkpoints at a time.
 */
#ifndef EF_JOURNAL_SQLITE_CHECKPOINT_H
#define EF_JOURNAL_SQLITE_CHECKPOINT_H

#include "store.h"

/* Pages of log that start a checkpoint: 2 MB, so that its sync is short. */
#define SQ_WAL_STEP 512
/* Pages of log that make it a whole one, with step 3: 8 MB, so that it is rare. */
#define SQ_WAL_WHOLE 2048

/* After a commit: wake the checkpointer when the log is long enough. */
void sq_checkpoint_look(sq_store *store);

void sq_checkpoint_stop(sq_store *store);

#endif
