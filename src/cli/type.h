/*
 * type.h - how an event type is printed; shared by `type ls` and `type set`.
 */
#ifndef EF_CLI_TYPE_H
#define EF_CLI_TYPE_H

#include "cli.h"

/* {"name","intent","publish","alias_of"} */
void cli_table_types(cli *c, const ef_type *types, size_t count);

#endif
