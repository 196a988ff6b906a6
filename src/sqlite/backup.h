/*
 * backup.h - a copy of a database file, made while other connections write to it.
 *
 * The copy is a snapshot: a read transaction stays open on the source from the first page to the
 * last. Commits and checkpoints continue; only the WAL cannot restart before the copy ends, so it
 * grows by what is committed in that time. Because of the read transaction no commit can restart
 * the WAL during the copy (checkpoint.h explains why that matters).
 */
#pragma once

#include "conn.h"

typedef struct ef__sq_backup {
    const char *source;
    const char *target;         /* must not exist */
    const char *const *changes; /* SQL to run in the copy, in one transaction; ends in NULL */
    bool (*progress)(void *context, int64_t done, int64_t total); /* bytes; may be NULL */
    void *context;
    int64_t busy_ms;
} ef__sq_backup;

/* Writes the copy, synced, without a WAL beside it. On failure the target is removed. EF_EXISTS,
 * EF_FULL; EF_TIMEOUT: `progress` returned false. */
ef_status ef__sq_backup_write(const ef__sq_backup *backup, ef_error *err);

/* Removes the empty WAL and its index, which a connection that only read leaves beside a copy. */
void ef__sq_backup_remove_logs(const char *path);
