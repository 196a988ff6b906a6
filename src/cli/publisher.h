/*
 * publisher.h - output of publishers, shared by the publisher commands.
 */
#ifndef EF_CLI_PUBLISHER_H
#define EF_CLI_PUBLISHER_H

#include "cli.h"

#include <everfold/publisher.h>

/* Prints the publisher with the backlog of its lane: 0, or the exit code. */
int cli_show_publisher(cli *c, ef_str name);
/* Prints a list; with `one`, -o json prints an object instead of an array. */
int cli_show_publishers(cli *c, const ef_publisher_list *list, bool one);

#endif
