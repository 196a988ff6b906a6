/*
 * switch_over.h - from the deployment of a version to queries that read it, in one step.
 */
#ifndef EF_CLI_SWITCH_OVER_H
#define EF_CLI_SWITCH_OVER_H

#include "cli.h"

/* Wait until the generation has every event that is not blocked, compare it with the active one,
 * switch queries to it unless more of its events are blocked, and print it. 0, or the exit code. */
int cli_switch_over(cli *c, ef_str name, int32_t generation);

#endif
