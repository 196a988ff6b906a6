/*
 * publisher.h - how the commands about publishers show one.
 */
#ifndef EF_CLI_PUBLISHER_H
#define EF_CLI_PUBLISHER_H

#include "cli.h"

#include <everfold/publisher.h>

/* Show the publisher of that name with what waits in its lane: 0, or the exit code. */
int cli_show_publisher(cli *c, ef_str name);
/* The same of a list; `one`: -o json gives the object and no array. */
int cli_show_publishers(cli *c, const ef_publisher_list *list, bool one);
/* Pause it or let it go on, and show it: 0, or the exit code. */
int cli_pause_publisher(cli *c, bool paused);

#endif
