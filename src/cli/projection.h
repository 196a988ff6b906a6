/*
 * projection.h - how projections are printed; shared by the projection commands and `status`.
 */
#ifndef EF_CLI_PROJECTION_H
#define EF_CLI_PROJECTION_H

#include "cli.h"

void cli_table_projections(cli *c, const ef_projection *items, size_t count);
/* One of them as `deploy`, `show` and `wait` answer: an object, or a table of one row. */
void cli_print_projection(cli *c, const ef_projection *projection);
/* What failed, for people: where, how often and since when, and below it why. `indent` is what
 * stands before each line. */
void cli_show_failure(cli *c, const ef_failure *failure, const char *indent);
/* A scope, for people: its name and how it is doing, and below it why it fails. */
void cli_show_scope(cli *c, const ef_scope *scope, const char *indent);
/* Read it again and print it: 0, or the exit code. */
int cli_show_projection(cli *c, ef_str name);

#endif
