/*
 * demo.h - a demo shop (examples/shop) with simulated traffic and an occasional poison event.
 */
#ifndef EF_CLI_DEMO_H
#define EF_CLI_DEMO_H

#include "cli.h"

typedef struct cli_demo cli_demo;

/* Creates a data directory below TMPDIR and returns its path in `out`. */
ef_status cli_demo_directory(char out[PATH_MAX], ef_error *err);

/* Deploys the programs, appends the initial events to an empty journal, and starts a thread that
 * appends `rate` events per second until the demo is closed. */
ef_status cli_demo_open(cli *c, int64_t rate, cli_demo **out, ef_error *err);
void cli_demo_close(cli_demo *demo); /* accepts NULL */

/* Prints commands to try, on stderr. */
void cli_demo_say(const cli *c, const char *url);

#endif
