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

void cli_json_field_str(ef__json_writer *w, const char *key, ef_str value); /* "" is null */
void cli_json_field_int(ef__json_writer *w, const char *key, int64_t value);
void cli_json_field_time(ef__json_writer *w, const char *key, int64_t time_us); /* 0 is null */
void cli_json_field_bool(ef__json_writer *w, const char *key, bool value);

#endif
