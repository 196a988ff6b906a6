/*
 * changes.h - following a projection: what changes.c and changes_place.c share.
 */
#ifndef EF_ENGINE_CHANGES_H
#define EF_ENGINE_CHANGES_H

#include "engine_priv.h"

/* Names of streams that something waits in. */
typedef struct ef__streams {
    ef_str names[EF_VIEW_WAITING_MAX];
    size_t count;
    ef__arena arena;
} ef__streams;

#define EF__STREAMS_INIT                                                                           \
    {                                                                                              \
        .arena = EF__ARENA_INIT(EF_VIEW_WAITING_MAX * 1024)                                        \
    }

bool ef__streams_have(const ef__streams *set, ef_str stream);
bool ef__streams_add(ef__streams *set, ef_str stream); /* false: there is no room */

/* Note that a stream waits from `position` on. False: there is no room. */
bool ef__place_add(ef_view_place *place, int64_t position);

/* The generation that queries go to, and up to where it was given everything of the tenant; -1: it
 * was changed just now, look again. `list` owns it. */
ef_status ef__place_bound(ef_engine *engine, ef_str projection, ef_str tenant,
                          ef__generation_list *list, const ef__generation **out, int64_t *out_taken,
                          ef_error *err);

/* Rows of a projection's own lane, of one tenant, from a position on. */
ef_status ef__lane_rows(ef_engine *engine, ef_str lane, ef_str tenant, int64_t from, size_t limit,
                        ef_row_list *out, ef_error *err);

#endif
