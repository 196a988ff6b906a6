/*
 * outbox.h - how outbox rows are printed; shared by the outbox commands.
 */
#ifndef EF_CLI_OUTBOX_H
#define EF_CLI_OUTBOX_H

#include "cli.h"

/* One line a row, and an indented one for its last error. */
void cli_text_row(cli *c, const ef_row *row);

/* {"mode":MODE,COUNT_KEY:N,"rows":[…]}, or a line and the rows. */
void cli_print_acted(cli *c, const char *mode, const char *count_key, int64_t count,
                     const ef_row_list *rows);

/* STREAM SEQ and who acts, out of the arguments: 0, or the exit code. */
int cli_outbox_act(cli *c, ef_outbox_act *act);

/* The options of an operation on many dead rows. */
#define CLI_BULK_OPTIONS(lane_text, reason_text)                                                   \
    {"lane", 0, "LANE", NULL, NULL, lane_text},                                                    \
        {"stream", 0, "STREAM", NULL, NULL, "only rows of this stream, of --tenant"},              \
        {"types", 0,    "LIST",                                                                    \
         NULL,    NULL, "only these types: NAME or PREFIX*, with commas between them"},            \
        {"error", 0, "TEXT", NULL, NULL, "only rows whose error has this in it"},                  \
        {"older", 0, "TIME", NULL, NULL, "only rows that have waited for longer, as 10m"},         \
        {"limit", 0, "N", NULL, NULL, "at most so many, oldest first (default 100)"},              \
        {"all", 0, NULL, NULL, NULL, "all of them, however many"},                                 \
        {"dry-run", 0, NULL, NULL, NULL, "count and show them, and change nothing"},               \
    {                                                                                              \
        "reason", 0, "TEXT", NULL, NULL, reason_text                                               \
    }

/* What they say: 0, or the exit code. */
int cli_outbox_bulk(cli *c, ef_outbox_bulk *bulk);
/* As cli_print_acted, with what was not done or shown. */
void cli_print_bulk(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                    int64_t count, const ef_row_list *rows);

#endif
