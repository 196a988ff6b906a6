/*
 * change.c - the list of changes, and the three that there are: set, insert, remove.
 *
 * An entry points at the array or object it changed, which lives at least as long as the entry: if
 * it was replaced later, a later entry owns it. Entries are undone in reverse order, so that every
 * index is valid again when its entry is undone.
 */
#include "change.h"

#include <stdlib.h>

typedef enum change_kind { CHANGE_SET, CHANGE_INSERT, CHANGE_REMOVE, CHANGE_HOLD } change_kind;

typedef struct ef__change {
    change_kind kind;
    uint32_t index;
    ef__value in; /* not counted. MISSING: a root */
    ef__value *root;
    ef__value key; /* REMOVE of a member: owned */
    ef__value old; /* SET, REMOVE, HOLD: owned */
} change;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "no memory for the changes of an event");
}

/* Makes space for one more entry, so that writing it after the change cannot fail. */
static bool reserve_entry(ef__changes *changes)
{
    if (changes->count < changes->cap)
        return true;
    size_t cap = changes->cap ? 2 * changes->cap : 64;
    change *entries = realloc(changes->entries, cap * sizeof(*entries));
    if (!entries)
        return false;
    changes->entries = entries;
    changes->cap = cap;
    return true;
}

void ef__changes_release(ef__changes *changes)
{
    free(changes->entries);
    *changes = (ef__changes){.heap = changes->heap};
}

void ef__changes_keep(ef__changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        change *entry = &changes->entries[i];
        ef__value_release(changes->heap, entry->key);
        ef__value_release(changes->heap, entry->old);
    }
    changes->count = 0;
}

ef_status ef__changes_hold(ef__changes *changes, ef__value v, ef_error *err)
{
    if (v.home == EF__HOME_JSON || v.kind < EF__VALUE_ARRAY)
        return EF_OK;
    if (v.home == EF__HOME_FREE) {
        ef__value_walk walk = ef__value_walk_of(v);
        ef_status st = EF_OK;
        while (st == EF_OK && ef__value_next(&walk))
            st = ef__changes_hold(changes, walk.value, err);
        return st;
    }
    if (!reserve_entry(changes))
        return no_memory(err);
    ef__value_retain(v);
    changes->entries[changes->count++] = (change){.kind = CHANGE_HOLD, .old = v};
    return EF_OK;
}

/* --- arrays and objects, without a note ------------------------------------------------------- */

/* Makes space for one more item at the end. Space of items removed at the front is used first. */
static bool reserve_item(ef__heap *heap, ef__array *array)
{
    if (array->start + array->count < array->cap)
        return true;
    if (array->start > array->cap / 4) {
        memmove(array->items, array->items + array->start, array->count * sizeof(ef__value));
        array->start = 0;
        return true;
    }
    uint32_t cap = array->cap < 8 ? 8 : array->cap * 2;
    ef__value *items = ef__heap_alloc(heap, cap * sizeof(*items));
    if (!items)
        return false;
    memcpy(items, array->items + array->start, array->count * sizeof(*items));
    ef__heap_free(heap, array->items, array->cap * sizeof(*items));
    array->items = items;
    array->cap = cap;
    array->start = 0;
    return true;
}

static bool reserve_member(ef__heap *heap, ef__object *object)
{
    if (object->count < object->cap)
        return true;
    uint32_t cap = object->cap < 4 ? 4 : object->cap * 2;
    ef__member *members = ef__heap_alloc(heap, cap * sizeof(*members));
    if (!members)
        return false;
    if (object->count)
        memcpy(members, object->members, object->count * sizeof(*members));
    ef__object_free_members(heap, object);
    object->members = members;
    object->cap = cap;
    return true;
}

/* The array has space. */
static void insert_item(ef__array *array, size_t index, ef__value value)
{
    if (index == 0 && array->start > 0) {
        array->start--;
        array->count++;
        array->items[array->start] = value;
        return;
    }
    ef__value *at = array->items + array->start + index;
    memmove(at + 1, at, (array->count - index) * sizeof(*at));
    *at = value;
    array->count++;
}

static void insert_member(ef__object *object, size_t index, ef__member member)
{
    ef__member *at = object->members + index;

    memmove(at + 1, at, (object->count - index) * sizeof(*at));
    *at = member;
    object->count++;
}

static ef__value remove_item(ef__array *array, size_t index)
{
    ef__value *at = array->items + array->start + index;
    ef__value removed = *at;

    array->count--;
    if (index == 0)
        array->start++;
    else
        memmove(at, at + 1, (array->count - index) * sizeof(*at));
    return removed;
}

static ef__member remove_member(ef__object *object, size_t index)
{
    ef__member *at = object->members + index;
    ef__member removed = *at;

    object->count--;
    memmove(at, at + 1, (object->count - index) * sizeof(*at));
    return removed;
}

/* --- undo ------------------------------------------------------------------------------------- */

static void undo_set(ef__heap *heap, const change *entry)
{
    ef__slot spot = {.root = entry->root, .in = entry->in, .index = entry->index};
    ef__value *slot = ef__slot_index(&spot);

    ef__value_release(heap, *slot);
    *slot = entry->old;
}

static void undo_insert(ef__heap *heap, const change *entry)
{
    if (entry->in.kind == EF__VALUE_ARRAY) {
        ef__value_release(heap, remove_item(entry->in.as.array, entry->index));
        return;
    }
    ef__member removed = remove_member(entry->in.as.object, entry->index);
    ef__value_release(heap, removed.key);
    ef__value_release(heap, removed.value);
}

/* There is space without an allocation: every allocation since then was undone, and a removed item
 * left its place. An array that was moved to the start of its memory has its space at the end. */
static void undo_remove(const change *entry)
{
    if (entry->in.kind == EF__VALUE_ARRAY)
        insert_item(entry->in.as.array, entry->index, entry->old);
    else
        insert_member(entry->in.as.object, entry->index, (ef__member){entry->key, entry->old});
}

void ef__changes_undo(ef__changes *changes, size_t down_to)
{
    while (changes->count > down_to) {
        const change *entry = &changes->entries[--changes->count];
        switch (entry->kind) {
        case CHANGE_SET:
            undo_set(changes->heap, entry);
            break;
        case CHANGE_INSERT:
            undo_insert(changes->heap, entry);
            break;
        case CHANGE_REMOVE:
            undo_remove(entry);
            break;
        case CHANGE_HOLD:
            ef__value_release(changes->heap, entry->old);
        }
    }
}

/* --- spots ------------------------------------------------------------------------------------ */

static ef_status insert_at(ef__changes *changes, ef__slot *spot, ef__value owned, ef_error *err)
{
    ef__heap *heap = changes->heap;
    ef__member member = {.value = owned};

    if (spot->in.kind == EF__VALUE_ARRAY) {
        if (!reserve_item(heap, spot->in.as.array))
            return no_memory(err);
        insert_item(spot->in.as.array, spot->index, owned);
        return EF_OK;
    }
    if (!reserve_member(heap, spot->in.as.object))
        return no_memory(err);
    ef_status st = ef__value_store(heap, ef__value_string(spot->key), &member.key, err);
    if (st == EF_OK)
        insert_member(spot->in.as.object, spot->index, member);
    return st;
}

/* The bytes that an item or member adds to the text besides its value: comma, key, colon. */
static int64_t frame_bytes(const ef__slot *spot, size_t count)
{
    int64_t comma = count > 1;

    if (spot->in.kind == EF__VALUE_ARRAY)
        return comma;
    return (int64_t)ef__value_size(ef__value_string(spot->key)) + 1 + comma;
}

static int64_t value_bytes(ef__value v)
{
    return v.kind == EF__VALUE_MISSING ? 0 : (int64_t)ef__value_size(v);
}

/* Adds an entry for a change; there is space. Field by field, because an entry is long and this
 * runs several times per event. */
static change *add_entry(ef__changes *changes, change_kind kind, const ef__slot *spot)
{
    change *entry = &changes->entries[changes->count++];

    entry->kind = kind;
    entry->index = (uint32_t)spot->index;
    entry->in = spot->in;
    entry->root = spot->root;
    entry->key = EF__MISSING;
    entry->old = EF__MISSING;
    return entry;
}

static void replace_value(ef__changes *changes, const ef__slot *spot, ef__value owned)
{
    ef__value *slot = ef__slot_index(spot);

    add_entry(changes, CHANGE_SET, spot)->old = *slot;
    *slot = owned;
}

static ef_status put_value(ef__changes *changes, ef__slot *spot, ef__value owned, ef_error *err)
{
    bool set = spot->there || spot->in.kind == EF__VALUE_MISSING;
    ef_status st = reserve_entry(changes) ? EF_OK : no_memory(err);

    if (st == EF_OK && !set)
        st = insert_at(changes, spot, owned, err);
    if (st != EF_OK) {
        ef__value_release(changes->heap, owned);
        return st;
    }
    if (set)
        replace_value(changes, spot, owned);
    else
        (void)add_entry(changes, CHANGE_INSERT, spot);
    spot->there = owned.kind != EF__VALUE_MISSING;
    return EF_OK;
}

/* The general case: values of any kind, new and old. */
static EF__SELDOM ef_status put_general(ef__changes *changes, ef__slot *spot, ef__value owned,
                                        ef_error *err)
{
    int64_t before = spot->there ? value_bytes(*ef__slot_index(spot)) : 0;
    int64_t after = value_bytes(owned);
    bool insert = !spot->there && spot->in.kind != EF__VALUE_MISSING;

    if (owned.home == EF__HOME_HEAP && owned.kind >= EF__VALUE_ARRAY)
        owned.len = after <= UINT32_MAX ? (uint32_t)after : 0;
    ef_status st = put_value(changes, spot, owned, err);
    if (st == EF_OK) {
        *changes->bytes += after - before;
        if (insert)
            *changes->bytes += frame_bytes(spot, ef__value_count(spot->in));
    }
    return st;
}

ef_status ef__slot_put(ef__changes *changes, ef__slot *spot, ef__value owned, ef_error *err)
{
    bool scalar = owned.kind > EF__VALUE_MISSING && owned.kind < EF__VALUE_ARRAY;

    /* The common case: a number or text replaces a value, and there is space for the entry. */
    if (!spot->there || !scalar || changes->count == changes->cap)
        return put_general(changes, spot, owned, err);
    int64_t before = (int64_t)ef__value_size(*ef__slot_index(spot));
    *changes->bytes += (int64_t)ef__value_size(owned) - before;
    replace_value(changes, spot, owned);
    return EF_OK;
}

ef_status ef__slot_move(ef__changes *changes, ef__slot *spot, ef_error *err)
{
    change entry = {.kind = CHANGE_REMOVE, .index = (uint32_t)spot->index, .in = spot->in};

    if (!spot->there)
        return EF_OK;
    if (spot->in.kind == EF__VALUE_MISSING)
        return ef__slot_put(changes, spot, EF__MISSING, err);
    if (!reserve_entry(changes))
        return no_memory(err);
    *changes->bytes -= value_bytes(*ef__slot_index(spot));
    *changes->bytes -= frame_bytes(spot, ef__value_count(spot->in));
    if (spot->in.kind == EF__VALUE_ARRAY) {
        entry.old = remove_item(spot->in.as.array, spot->index);
    } else {
        ef__member removed = remove_member(spot->in.as.object, spot->index);
        entry.key = removed.key;
        entry.old = removed.value;
    }
    changes->entries[changes->count++] = entry;
    spot->there = false;
    return EF_OK;
}

/* A copy that shares the items with the original. */
static ef_status copy_shallow(ef__heap *heap, ef__value v, ef__value *out, ef_error *err)
{
    ef__value walk_over = v;

    /* Seen as the arena's, its items are stored one by one: each is shared, none is copied. */
    walk_over.home = EF__HOME_FREE;
    return ef__value_store(heap, walk_over, out, err);
}

ef_status ef__slot_own(ef__changes *changes, ef__slot *spot, ef_error *err)
{
    ef__value v = ef__slot_value(spot);
    ef__value copy;

    if (v.home != EF__HOME_HEAP || v.kind < EF__VALUE_ARRAY)
        return EF_OK;
    if ((v.kind == EF__VALUE_ARRAY ? v.as.array->refs : v.as.object->refs) == 1) {
        if (v.len) /* the caller changes it: the next read computes the size again */
            ef__slot_index(spot)->len = 0;
        return EF_OK;
    }
    ef_status st = copy_shallow(changes->heap, v, &copy, err);
    return st == EF_OK ? put_value(changes, spot, copy, err) : st;
}
