/*
 * projection.h - how projections are printed; shared by the projection commands and `status`.
 */
#ifndef EF_CLI_PROJECTION_H
#define EF_CLI_PROJECTION_H

#include "cli.h"

void cli_table_projections(cli *c, const ef_projection *items, size_t count);
/* Prints one projection, as `deploy`, `show` and `wait` do: an object, or a table with one row. */
void cli_print_projection(cli *c, const ef_projection *projection);
/* Prints a failure as text: event, attempts and time, then the reason. `indent` precedes each line.
 */
void cli_show_failure(cli *c, const ef_failure *failure, const char *indent);
/* Prints a scope as text: name and state, then the error. */
void cli_show_scope(cli *c, const ef_scope *scope, const char *indent);
/* Reads the projection and prints it: 0, or the exit code. */
int cli_show_projection(cli *c, ef_str name);
/* The hint after a call about a projection failed; NULL if there is none. */
const char *cli_projection_hint(ef_status status);

#endif
