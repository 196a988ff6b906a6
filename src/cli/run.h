/*
 * run.h - runs, for people and for programs; and driving one to its end.
 */
#ifndef EF_CLI_RUN_H
#define EF_CLI_RUN_H

#include "cli.h"

/* One run in the form that -o asks for. */
void cli_print_run(cli *c, const ef_run *run);
void cli_table_runs(cli *c, const ef_run *runs, size_t count);

/* Drive the run in `list` to its end, with a progress bar; `list` then has what became of it. 0
 * when it was completed, else the exit code. */
int cli_run_drive(cli *c, ef_run_list *list);
/* The same, but only watch. */
int cli_run_watch(cli *c, ef_run_list *list);

/* The options --version and --generation, of which one is needed. 0, or the exit code. */
int cli_route(cli *c, ef_route *out);

/* The columns of gaps, for `mode` "gap-detect" or "gap-repair". */
void cli_print_gaps(cli *c, const char *mode, const ef_gap_list *gaps);

#endif
