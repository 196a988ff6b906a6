/*
 * workers.h - how the commands about leases, workers and partitions print the time that is left.
 */
#ifndef EF_CLI_WORKERS_H
#define EF_CLI_WORKERS_H

#include "cli.h"

/* A lease: holder and expiry. Not live with a holder: it has expired. */
typedef struct cli_hold {
    ef_str holder; /* "" if it is free */
    int64_t until_us;
    bool live;
} cli_hold;

/* "9.8 s", "expired" or "-". */
void cli_table_ttl(cli_table *table, const cli_hold *hold);

#endif
