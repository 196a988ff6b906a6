/*
 * change.h - changing the values of views, so that it can be undone.
 *
 * Everything an event does to arrays, objects and roots goes through an ef__changes, which notes
 * what was there before. In the end the event succeeded, and what it replaced is given back; or it
 * failed, and is undone, last change first, until all is as it was.
 *
 * What was replaced stays alive until that end. So a value that was read from a view earlier in the
 * same event may be used throughout it, with one care: an array or object that is kept across a
 * statement is held (ef__changes_hold), and whoever changes it then changes a copy.
 */
#ifndef EF_FOLD_CHANGE_H
#define EF_FOLD_CHANGE_H

#include "value.h"

typedef struct ef__changes {
    ef__heap *heap;
    struct ef__change *entries;
    size_t count;
    size_t cap;
    int64_t *bytes; /* canonical size of what is being changed: kept up to date, but not undone */
} ef__changes;

void ef__changes_release(ef__changes *changes); /* frees the list; what it holds must be settled */

/* The event is done: what was replaced goes. */
void ef__changes_keep(ef__changes *changes);
/* It failed: everything is as before, including roots, down to what `count` was then; 0 is all. */
void ef__changes_undo(ef__changes *changes, size_t down_to);

/* Keep arrays and objects of the heap as they are until the end of the event: this one, or those
 * within one of the arena. */
ef_status ef__changes_hold(ef__changes *changes, ef__value v, ef_error *err);

/*
 * A place where a value stands: a root, an item, a member. Found by the evaluator from the root
 * down; each array and object on the way is made the view's own first (copied when it is shared).
 */
typedef struct ef__spot {
    ef__value *root; /* when `in` is MISSING */
    ef__value in;    /* the array or object */
    size_t index;    /* of the item or member; where it would be inserted */
    ef_str key;      /* of a member */
    bool there;      /* there is something */
} ef__spot;

static inline ef__value *ef__spot_slot(const ef__spot *spot)
{
    if (spot->in.kind == EF__VALUE_ARRAY)
        return &spot->in.as.array->items[spot->in.as.array->start + spot->index];
    if (spot->in.kind == EF__VALUE_OBJECT)
        return &spot->in.as.object->members[spot->index].value;
    return spot->root;
}

/* What stands there; MISSING when nothing does. */
static inline ef__value ef__spot_value(const ef__spot *spot)
{
    return spot->there ? *ef__spot_slot(spot) : EF__MISSING;
}

/* Put an owned value there (the reference is taken over, also on failure). EF_NO_MEMORY */
ef_status ef__spot_put(ef__changes *changes, ef__spot *spot, ef__value owned, ef_error *err);
/* Take out what is there: an item moves up the ones behind it. */
ef_status ef__spot_take(ef__changes *changes, ef__spot *spot, ef_error *err);
/* An array or object that stands there becomes one that nobody else sees, to be changed.
 * EF_NO_MEMORY */
ef_status ef__spot_own(ef__changes *changes, ef__spot *spot, ef_error *err);
/* The same of an object of the heap that nobody else sees already, as most are: where it stands.
 * NULL: it is none of these, and nothing was done. */
static inline ef__value *ef__spot_own_object(const ef__spot *spot)
{
    ef__value *slot = spot->there ? ef__spot_slot(spot) : NULL;

    if (!slot || slot->kind != EF__VALUE_OBJECT || slot->home != EF__HOME_HEAP ||
        slot->as.object->refs != 1)
        return NULL;
    slot->len = 0;
    return slot;
}

#endif
