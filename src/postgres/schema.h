/*
 * schema.h - statements for the schemas that were chosen.
 *
 * The .sql files are written for the schemas `everfold` (the journal, and what both parts share)
 * and `everfold_views`. These two words are replaced by the chosen names, wherever they stand as a
 * word: in qualified names, in the names of locks and of the channel. So two journals in one
 * database share neither. The setting everfold.tenant has its name in all of them.
 */
#ifndef EF_POSTGRES_SCHEMA_H
#define EF_POSTGRES_SCHEMA_H

#include "../base/buf.h"
#include "../base/schema_name.h"
#include "conn.h"

/* Add the text with the names of `names`. False: memory ran out. */
bool ef__pg_schema_add(ef__buf *out, const ef__schema_names *names, const char *sql);

/* All statements of a back end. The copy owns its texts, and shares the statements' names. */
ef_status ef__pg_texts_copy(ef__pg_texts *out, const ef__pg_texts *from,
                            const ef__schema_names *names, ef_error *err);
void ef__pg_texts_release(ef__pg_texts *texts);

#endif
