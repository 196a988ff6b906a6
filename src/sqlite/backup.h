/*
 * backup.h - a copy of a database file, taken while others write to it.
 *
 * The copy is of one moment: a read transaction stays open on the source from the first page to the
 * last. Appends go on meanwhile, and checkpoints too; the log only cannot start over before the
 * copy ends, so it grows by what is committed in that time. Because of the read transaction no
 * commit can wrap the log under the copy (see checkpoint.h for why that matters).
 */
#ifndef EF_SQLITE_BACKUP_H
#define EF_SQLITE_BACKUP_H

#include "conn.h"

typedef struct ef__sq_backup {
    const char *source;
    const char *target;         /* must not exist */
    const char *const *changes; /* SQL that is run in the copy, in one transaction; ends in NULL */
    bool (*progress)(void *context, int64_t done, int64_t total); /* bytes; may be NULL */
    void *context;
    int64_t busy_ms;
} ef__sq_backup;

/* The target has no log beside it and is synced. On failure nothing is left of it. EF_EXISTS,
 * EF_FULL; EF_TIMEOUT: `progress` returned false. */
ef_status ef__sq_backup_write(const ef__sq_backup *backup, ef_error *err);

/* Removes the empty log that a connection which only read leaves beside a copy. */
void ef__sq_backup_tidy(const char *path);

#endif
