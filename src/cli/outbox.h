/*
 * outbox.h - how outbox rows are printed; shared by the outbox commands.
 */
#ifndef EF_CLI_OUTBOX_H
#define EF_CLI_OUTBOX_H

#include "cli.h"

/* One line a row, and an indented one for its last error. */
void cli_text_row(cli *c, const ef_row *row);

/* {"mode":MODE,COUNT_KEY:N,"rows":[…]}, or a line and the rows. */
void cli_print_acted(cli *c, const char *mode, const char *count_key, const ef_row_list *rows);

/* STREAM SEQ and who acts, out of the arguments: 0, or the exit code. */
int cli_outbox_act(cli *c, ef_outbox_act *act);

#endif
