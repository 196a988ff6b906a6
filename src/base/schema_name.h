/*
 * schema_name.h - names of PostgreSQL schemas that an operator chooses.
 *
 * A name is inserted into SQL statements unquoted, so only a name that needs no quotes is accepted:
 * lower-case letters, digits and "_", and no reserved word of SQL.
 */
#pragma once

#include <everfold/status.h>
#include <everfold/str.h>

enum { EF__SCHEMA_NAME_MAX = 63 }; /* bytes; PostgreSQL cuts longer names */

typedef struct ef__schema_names {
    char journal[EF__SCHEMA_NAME_MAX + 1];
    char views[EF__SCHEMA_NAME_MAX + 1];
} ef__schema_names;

/*
 * The names to use: "" for `journal` is "everfold", and "" for `views` is the journal's name and
 * "_views". EF_BAD_INPUT: one of them cannot be used, or they are the same.
 */
ef_status ef__schema_names_init(ef__schema_names *names, ef_str journal, ef_str views,
                                ef_error *err);
