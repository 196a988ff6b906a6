/*
 * run.h - output of runs, and driving one to its end.
 */
#ifndef EF_CLI_RUN_H
#define EF_CLI_RUN_H

#include "cli.h"

/* Prints one run in the format of -o. */
void cli_print_run(cli *c, const ef_run *run);
void cli_table_runs(cli *c, const ef_run *runs, size_t count);

/* Drives the run in `list` to its end, with a progress bar; `list` then has its result. 0 if it
 * completed, else the exit code. */
int cli_run_drive(cli *c, ef_run_list *list);
/* As above, but only polls the run. */
int cli_run_watch(cli *c, ef_run_list *list);

/* Reads --version or --generation; one of them is required. 0, or the exit code. */
int cli_generation_option(cli *c, ef_generation_choice *out);

/* The columns of gaps, for `mode` "gap-detect" or "gap-repair". */
void cli_print_gaps(cli *c, const char *mode, const ef_gap_list *gaps);

#endif
