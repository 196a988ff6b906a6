/*
 * view_names.h - queries that name a field which no view has.
 */
#ifndef EF_ENGINE_VIEW_NAMES_H
#define EF_ENGINE_VIEW_NAMES_H

#include "engine_priv.h"

#include "../views/query.h"

/* EF_BAD_INPUT: the filter, the sort order or the field list of the query uses a field that the
 * generation's program does not write and that no view of the result has. The message shows the
 * place and the most similar name. */
ef_status ef__view_names_check(ef_engine *engine, const ef__generation *generation,
                               const ef__query *query, ef_error *err);

#endif
