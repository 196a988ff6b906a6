/*
 * folder_priv.h - declarations private to the folder's files.
 */
#pragma once

#include "eval.h"
#include "folder.h"

/* A decoded view. Its address is stable until the folder is reset. */
typedef struct ef__decoded_view {
    ef__target target; /* first: an ef__target * is cast to ef__decoded_view * */
    uint64_t hash;
    uint64_t touched_by; /* the event that last touched it */
    int64_t position;
    int64_t seq;
    bool existed;
    bool changed;
    uint8_t tenant_len;
    uint8_t id_len;
    char names[]; /* tenant, then view id */
} ef__decoded_view;

/* A view that the current event has touched, and its size before. */
typedef struct ef__touched {
    ef__decoded_view *view;
    int64_t bytes;
} ef__touched;

struct ef__folder {
    ef__eval ev; /* first: an ef__eval * is cast to ef__folder * */
    ef__folder_options options;
    const ef__program *program;
    ef__heap heap;       /* views and their values */
    ef__changes changes; /* of the current event */
    ef__changes loading; /* of a view that is being migrated */
    ef__arena arena;     /* of the current event */
    ef__arena load_arena;
    ef__buf text; /* of ef__folder_next */

    ef__decoded_view **map; /* open addressing, by hash */
    size_t map_cap;         /* a power of two */
    size_t view_count;
    ef__decoded_view **changed;
    size_t changed_count;
    size_t changed_cap;
    ef__touched *touched;
    size_t touched_count;
    size_t touched_cap;

    const ef__type_route *route; /* of the last event: most have the type of the one before */
    ef__value *memos;
    const char *where; /* for messages: the block that runs */
    ef_str where_name;
    bool ignored; /* a C handler returned that it ignores the event */
};

/* Resets budgets and locations for a new event. */
void ef__folder_begin(ef__folder *folder, const ef_event *event, ef_error *err);
/* The view of that tenant and id, loaded if necessary. */
ef_status ef__folder_view(ef__folder *folder, ef_str tenant, ef_str view_id,
                          ef__decoded_view **out);
/* The same for the current event: recorded, so that it can be undone. */
ef_status ef__folder_touch(ef__folder *folder, ef_str view_id, ef__decoded_view **out);
