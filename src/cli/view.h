/*
 * view.h - how views are printed; shared by the view commands.
 */
#ifndef EF_CLI_VIEW_H
#define EF_CLI_VIEW_H

#include "cli.h"

/* {"view_type","version","tenant","view_id","last_event_sequence","data","as_of"} */
/* Prints one view, as `view get` and `view at` do. */
void cli_print_view(cli *c, const ef_view *view, int64_t as_of);
void cli_print_found(cli *c, const ef_view_list *found, bool current); /* the first of a list */
/* Prints view_id and the fields of the data, as many columns as fit. */
ef_status cli_table_views(cli *c, const ef_view *items, size_t count, ef_error *err);

/* --at-least, --current and --timeout. */
ef_status cli_freshness(const cli *c, ef_freshness *out, ef_error *err);
/* Hint for a read that failed, or NULL. */
const char *cli_view_hint(ef_status status);

#define CLI_FRESHNESS_OPTIONS                                                                      \
    {"at-least", 0, "TOKEN", NULL, NULL, "wait until the append with this TOKEN is applied"},      \
        {"current", 0,    NULL,                                                                    \
         NULL,      NULL, "wait until all events up to the current head are applied"},             \
    {                                                                                              \
        "timeout", 0, "D", NULL, NULL, "timeout of the wait: 500ms, 10s (default 5s)"              \
    }

#endif
