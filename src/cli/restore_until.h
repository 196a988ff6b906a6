/*
 * restore_until.h - restoring a backup up to a position.
 *
 * Events are never deleted. Therefore a new journal is written with the prefix: same positions,
 * seqs, ids, times and hashes.
 */
#ifndef EF_CLI_RESTORE_UNTIL_H
#define EF_CLI_RESTORE_UNTIL_H

#include "backup.h"

/* Resolves `until`: a position, or the last event recorded up to a time. EF_BAD_INPUT: it is
 * neither, or the backup ends before it. */
ef_status cli_until_find(cli *c, const char *from, const backup *b, const char *until,
                         int64_t *out_position, ef_error *err);
/* Writes journal and views of the backup up to `position` to the data directory. */
ef_status cli_restore_until(cli *c, const backup *b, const char *from, const char *data,
                            int64_t position, ef_error *err);

#endif
