/*
 * schema.h - statements with the configured schema names.
 *
 * The .sql files use the schemas `everfold` (the journal, and objects that both parts share) and
 * `everfold_views`. Both words are replaced by the configured names wherever they are a whole word:
 * in qualified names and in the name of the channel. So two journals in one database share neither.
 * The setting everfold.tenant keeps its name.
 */
#ifndef EF_POSTGRES_SCHEMA_H
#define EF_POSTGRES_SCHEMA_H

#include "../base/buf.h"
#include "../base/schema_name.h"
#include "conn.h"

/* Appends `sql` with the schemas of `names`. False: out of memory. */
bool ef__pg_schema_add(ef__buf *out, const ef__schema_names *names, const char *sql);

/* Copies all statements of a back end. The copy owns its SQL and shares the statement names. */
ef_status ef__pg_statements_copy(ef__pg_statements *out, const ef__pg_statements *from,
                                 const ef__schema_names *names, ef_error *err);
void ef__pg_statements_release(ef__pg_statements *statements);

#endif
