/*
 * demo.h - the shop of examples/shop, open for business: programs, a month of its past, and traffic
 * for as long as it runs, with an order now and then that no program can digest.
 */
#ifndef EF_CLI_DEMO_H
#define EF_CLI_DEMO_H

#include "cli.h"

typedef struct cli_demo cli_demo;

/* A fresh data directory for it, made in the temporary folder, in `out`. */
ef_status cli_demo_directory(char out[PATH_MAX], ef_error *err);

/* Deploy the programs, append the past if there is none, and let customers in until it is closed:
 * `rate` events a second. */
ef_status cli_demo_open(cli *c, int64_t rate, cli_demo **out, ef_error *err);
void cli_demo_close(cli_demo *demo); /* NULL is fine */

/* What to look at and what to try, on stderr. */
void cli_demo_say(const cli *c, const char *url);

#endif
