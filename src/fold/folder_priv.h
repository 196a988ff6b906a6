/*
 * folder_priv.h - the folder as its own files see it.
 */
#ifndef EF_FOLD_FOLDER_PRIV_H
#define EF_FOLD_FOLDER_PRIV_H

#include "eval.h"
#include "folder.h"

/* A decoded view. It stays where it is until the folder is reset. */
typedef struct ef__view {
    ef__target target; /* first, so that a target is its view */
    uint64_t hash;
    uint64_t touched_by; /* the event that last touched it */
    int64_t position;
    int64_t seq;
    bool existed;
    bool changed;
    uint8_t tenant_len;
    uint8_t id_len;
    char names[]; /* tenant, then view id */
} ef__view;

/* A view that the event at hand has touched, and its size before. */
typedef struct ef__touched {
    ef__view *view;
    int64_t bytes;
} ef__touched;

/* What is known of an event type: looked up once. */
typedef struct ef__known_type {
    ef_str stored;                /* ptr NULL: free */
    ef_str type;                  /* after aliases */
    bool upcasts;                 /* the program has some for it */
    const ef__handler **handlers; /* ends in NULL */
} ef__known_type;

enum { EF__KNOWN_TYPES = 256 };

struct ef__folder {
    ef__eval ev; /* first, so that an ef__eval is its folder */
    ef__folder_options options;
    const ef__program *program;
    ef__heap heap;       /* views and their values */
    ef__changes changes; /* of the event at hand */
    ef__changes loading; /* of a view that is being migrated */
    ef__arena arena;     /* of the event at hand */
    ef__arena load_arena;
    ef__buf text; /* of ef__folder_next */

    ef__view **map; /* open addressing, by hash */
    size_t map_cap; /* a power of two */
    size_t view_count;
    ef__view **changed;
    size_t changed_count;
    size_t changed_cap;
    ef__touched *touched;
    size_t touched_count;
    size_t touched_cap;

    ef__arena types_arena;
    ef__known_type *last_type;
    ef__known_type *types; /* EF__KNOWN_TYPES, open addressing */
    size_t type_count;

    ef__value *memos;
    const char *where; /* for messages: what was being run */
    ef_str where_name;
    bool ignored; /* a C handler said so */
};

/* Budgets and places are those of a new event. */
void ef__folder_begin(ef__folder *folder, const ef_event *event, ef_error *err);
/* The view of that tenant and id, loaded if need be. */
ef_status ef__folder_view(ef__folder *folder, ef_str tenant, ef_str view_id, ef__view **out);
/* The same for the event at hand: noted, so that it can be undone. */
ef_status ef__folder_touch(ef__folder *folder, ef_str view_id, ef__view **out);
/* NULL when memory ran out. */
const ef__known_type *ef__folder_type(ef__folder *folder, ef_str stored);

#endif
