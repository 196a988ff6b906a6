/*
 * overview.h - the overview as `status`, `top` and the panel of `work` read it.
 */
#ifndef EF_CLI_OVERVIEW_H
#define EF_CLI_OVERVIEW_H

#include "cli.h"

#include "../shape/overview.h"

/* Adds an error in order of time; the oldest is dropped. An equal text replaces the older entry. */
void cli_troubles_add(ef__troubles *troubles, int64_t at_us, const char *text);

/* Reads the overview; `all` includes lanes and partitions, which counts every queued row. The
 * journal is open; the views are opened read-only if they are not. */
ef_status cli_overview_read(cli *c, bool all, ef__overview *out, ef_error *err);

/* Number of partitions with a live lease of `holder`; "" counts those of all holders. */
int64_t cli_overview_owned(const ef__overview *overview, ef_str holder);

#endif
