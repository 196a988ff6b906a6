/*
 * projection.h - how projections are printed; shared by the projection commands and `status`.
 */
#ifndef EF_CLI_PROJECTION_H
#define EF_CLI_PROJECTION_H

#include "cli.h"

void cli_json_projection(ef__json_writer *w, const ef_projection *projection);
void cli_table_projections(cli *c, const ef_projection *items, size_t count);
/* One of them as `deploy`, `show` and `wait` answer: an object, or a table of one row. */
void cli_print_projection(cli *c, const ef_projection *projection);
/* Read it again and print it: 0, or the exit code. */
int cli_show_projection(cli *c, ef_str name);

#endif
