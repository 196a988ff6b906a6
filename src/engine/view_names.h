/*
 * view_names.h - queries that name a field which no view has.
 */
#ifndef EF_ENGINE_VIEW_NAMES_H
#define EF_ENGINE_VIEW_NAMES_H

#include "engine_priv.h"

#include "../views/query.h"

/* EF_BAD_INPUT: the filter, an order or a field of the query reads a field that the generation's
 * program does not write and no view of the query has. The message shows where, and the nearest
 * name. */
ef_status ef__view_names_check(ef_engine *e, const ef__generation *generation,
                               const ef__query *query, ef_error *err);

#endif
