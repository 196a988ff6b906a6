/*
 * outbox.h - how outbox rows are printed; shared by the outbox commands.
 */
#ifndef EF_CLI_OUTBOX_H
#define EF_CLI_OUTBOX_H

#include "cli.h"

/* Prints one line per row, and an indented line for its last error. */
void cli_text_row(cli *c, const ef_row *row);

/* {"mode":MODE,COUNT_KEY:N,"rows":[…]}, or a line and the rows. */
void cli_print_acted(cli *c, const char *mode, const char *count_key, int64_t count,
                     const ef_row_list *rows);

/* Reads STREAM, SEQ and the actor: 0, or the exit code. */
int cli_outbox_action(cli *c, ef_outbox_action *act);

/* Options of an operation on many dead rows. */
#define CLI_BULK_OPTIONS(lane_text, reason_text)                                                   \
    {"lane", 0, "LANE", NULL, NULL, lane_text},                                                    \
        {"stream", 0, "STREAM", NULL, NULL, "only rows of this stream of --tenant"},               \
        {"types", 0,    "LIST",                                                                    \
         NULL,    NULL, "only rows of these types: comma-separated NAME or PREFIX*"},              \
        {"error", 0, "TEXT", NULL, NULL, "only rows whose last error contains this text"},         \
        {"older", 0, "TIME", NULL, NULL, "only rows enqueued longer ago than this: 10m"},          \
        {"limit", 0, "N", NULL, NULL, "at most N rows, oldest first (default 100)"},               \
        {"all", 0, NULL, NULL, NULL, "all matching rows"},                                         \
        {"dry-run", 0, NULL, NULL, NULL, "count and list them without changing anything"},         \
    {                                                                                              \
        "reason", 0, "TEXT", NULL, NULL, reason_text                                               \
    }

/* Reads these options: 0, or the exit code. */
int cli_outbox_bulk(cli *c, ef_outbox_bulk *bulk);
/* As cli_print_acted, with hints about a dry run and rows that are not listed. */
void cli_print_bulk(cli *c, const char *mode, const char *key, const ef_outbox_bulk *bulk,
                    int64_t count, const ef_row_list *rows);

#endif
