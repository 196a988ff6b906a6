/*
 * type.h - event types.
 */
#ifndef EF_JOURNAL_SQLITE_TYPE_H
#define EF_JOURNAL_SQLITE_TYPE_H

#include "store.h"

ef_status sq_type_set(ef_journal *journal, const ef_type *type, ef_error *err);
ef_status sq_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                     ef_error *err);

#endif
