/*
 * view.h - how views are printed; shared by the view commands.
 */
#ifndef EF_CLI_VIEW_H
#define EF_CLI_VIEW_H

#include "cli.h"

/* {"view_type","version","tenant","view_id","last_event_sequence","data","as_of"} */
/* One view as `view get` and `view at` answer. */
void cli_print_view(cli *c, const ef_view *view, int64_t as_of);
void cli_print_found(cli *c, const ef_view_list *found, bool current); /* the first of a list */
/* view_id and the fields of the data, as many columns as the terminal has room for. */
ef_status cli_table_views(cli *c, const ef_view *items, size_t count, ef_error *err);

/* --at-least, --current and --timeout. */
ef_status cli_freshness(const cli *c, ef_freshness *out, ef_error *err);
/* What to do about a read that failed, or NULL. */
const char *cli_view_hint(ef_status status);

#define CLI_FRESHNESS_OPTIONS                                                                      \
    {"at-least", 0, "TOKEN", NULL, NULL, "wait until the append that gave TOKEN is in"},           \
        {"current", 0, NULL, NULL, NULL, "wait until it is as new as the journal is now"},         \
    {                                                                                              \
        "timeout", 0, "D", NULL, NULL, "how long to wait, as 500ms or 10s (default 5s)"            \
    }

#endif
