/*
 * change.h - changes to the values of views that can be undone.
 *
 * Every change of an event to arrays, objects and roots is recorded in an ef__changes, with the old
 * value. When the event succeeds, the old values are released; when it fails, the changes are
 * undone, last one first.
 *
 * Old values stay alive until then. So a value that was read from a view earlier in the same event
 * can be used until its end, except that an array or object that is used across a statement
 * must be held (ef__changes_hold); a change of it then changes a copy.
 */
#pragma once

#include "value.h"

typedef struct ef__changes {
    ef__heap *heap;
    struct ef__change *entries;
    size_t count;
    size_t cap;
    int64_t *bytes; /* canonical size of the changed view: kept up to date, but not undone */
} ef__changes;

void ef__changes_release(ef__changes *changes); /* frees the list, which must be empty */

/* The event succeeded: releases the old values. */
void ef__changes_keep(ef__changes *changes);
/* The event failed: undoes the changes, including roots, down to entry `count`; 0: all. */
void ef__changes_undo(ef__changes *changes, size_t down_to);

/* Holds arrays and objects of the heap unchanged until the end of the event: this one, or those
 * within a value of the arena. */
ef_status ef__changes_hold(ef__changes *changes, ef__value v, ef_error *err);

/*
 * The location of a value: a root, an item or a member. The evaluator finds it from the root down;
 * each array and object on the way is made the view's own first (copied when it is shared).
 */
typedef struct ef__slot {
    ef__value *root; /* when `in` is MISSING */
    ef__value in;    /* the array or object */
    size_t index;    /* of the item or member; where it would be inserted */
    ef_str key;      /* of a member */
    bool there;      /* there is something */
} ef__slot;

static inline ef__value *ef__slot_index(const ef__slot *spot)
{
    if (spot->in.kind == EF__VALUE_ARRAY)
        return &spot->in.as.array->items[spot->in.as.array->start + spot->index];
    if (spot->in.kind == EF__VALUE_OBJECT)
        return &spot->in.as.object->members[spot->index].value;
    return spot->root;
}

/* The value there; MISSING: none. */
static inline ef__value ef__slot_value(const ef__slot *spot)
{
    return spot->there ? *ef__slot_index(spot) : EF__MISSING;
}

/* Stores an owned value there (the reference is consumed, also on failure). EF_NO_MEMORY */
ef_status ef__slot_put(ef__changes *changes, ef__slot *spot, ef__value owned, ef_error *err);
/* Removes the value; later items move up. */
ef_status ef__slot_move(ef__changes *changes, ef__slot *spot, ef_error *err);
/* Makes the array or object there exclusive, so that it can be changed. EF_NO_MEMORY */
ef_status ef__slot_own(ef__changes *changes, ef__slot *spot, ef_error *err);
/* The same for an object of the heap that is exclusive already, which is the common case: its
 * location. NULL: another case, and nothing was done. */
static inline ef__value *ef__slot_own_object(const ef__slot *spot)
{
    ef__value *slot = spot->there ? ef__slot_index(spot) : NULL;

    if (!slot || slot->kind != EF__VALUE_OBJECT || slot->home != EF__HOME_HEAP ||
        slot->as.object->refs != 1)
        return NULL;
    slot->len = 0;
    return slot;
}
