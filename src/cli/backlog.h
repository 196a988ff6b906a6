/*
 * backlog.h - what `work --drain` leaves: the last line of its output and its exit code.
 */
#ifndef EF_CLI_BACKLOG_H
#define EF_CLI_BACKLOG_H

#include "cli.h"

/* Is anything left that workers can do now: queued rows, projections that lag, open runs? */
bool cli_backlog_is_open(const ef_backlog *left);

/* Reports the backlog, as JSON unless `silent`, and on stderr. Returns the exit code: 0 if nothing
 * is left, 5 if other workers hold the rest, 6 if events failed or are blocked. */
int cli_backlog_report(cli *c, const ef_backlog *left, bool silent);

#endif
