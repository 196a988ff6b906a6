/*
 * switchover.h - deploys a version and switches queries to it.
 */
#ifndef EF_CLI_SWITCHOVER_H
#define EF_CLI_SWITCHOVER_H

#include "cli.h"

/* Waits until the generation has applied every event that is not blocked, compares it with the
 * active one, switches queries to it unless more of its events are blocked, and prints it. 0, or
 * the exit code. */
int cli_switchover(cli *c, ef_str name, int32_t generation);

#endif
