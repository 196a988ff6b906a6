/*
 * state_type.c - the event types of the cached state (state.h): by name, by id, and how many each
 * tenant has created.
 */
#include "state.h"

#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while reading the event types");
}

/* Types are added in the order of their ids, which have no gaps unless a row was deleted by hand.
 */
const sq_type *sq_state_type_by_id(const sq_state *state, int64_t id)
{
    size_t low = 0, high = state->type_count;

    if (id >= 1 && id <= (int64_t)high && state->types[id - 1].id == id)
        return &state->types[id - 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->types[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < state->type_count && state->types[low].id == id ? &state->types[low] : NULL;
}

const sq_type *sq_state_type(sq_state *state, ef_str name)
{
    const int32_t *index;

    if (state->type_memo >= 0 && ef_str_equal(state->types[state->type_memo].name, name))
        return &state->types[state->type_memo];
    index = ef__pair_map_find(&state->type_names, (ef_str){0}, name);
    if (!index)
        return NULL;
    state->type_memo = *index;
    return &state->types[*index];
}

static ef_status grow_types(sq_state *state, ef_error *err)
{
    size_t cap = state->type_cap ? state->type_cap * 2 : 32;
    void *types;

    if (state->type_count < state->type_cap)
        return EF_OK;
    types = realloc(state->types, cap * sizeof *state->types);
    if (!types)
        return no_memory(err);
    state->types = types;
    state->type_cap = cap;
    return EF_OK;
}

ef_status sq_state_type_add(sq_state *state, int64_t id, ef_str name, const ef_str *tenant,
                            ef_error *err)
{
    ef_str kept = ef__arena_copy(&state->names, name);
    bool is_new;
    int32_t *index = ef__pair_map_at(&state->type_names, (ef_str){0}, name, &is_new);
    int64_t *created =
        tenant ? ef__pair_map_at(&state->type_tenants, *tenant, (ef_str){0}, &is_new) : NULL;

    if (!kept.ptr || !index || (tenant && !created))
        return no_memory(err);
    if (grow_types(state, err) != EF_OK)
        return EF_NO_MEMORY;
    *index = (int32_t)state->type_count;
    state->types[state->type_count++] = (sq_type){.id = id, .canonical = *index, .name = kept};
    if (created)
        ++*created;
    return EF_OK;
}

int64_t sq_state_types_of(const sq_state *state, ef_str tenant)
{
    const int64_t *created = ef__pair_map_find(&state->type_tenants, tenant, (ef_str){0});

    return created ? *created : 0;
}

/* Adds the type of a row. An alias has the id of its canonical type until resolve_aliases. */
static ef_status load_type(sq_state *state, const struct sq_type_all_row *row, ef_error *err)
{
    ef_status st =
        sq_state_type_add(state, row->id, row->name, row->has_tenant ? &row->tenant : NULL, err);
    sq_type *type = st == EF_OK ? &state->types[state->type_count - 1] : NULL;

    if (!type)
        return st;
    type->intent = (ef_intent)row->intent;
    type->publish = row->publish;
    type->alias_of = row->alias_of;
    state->types_not_folded += type->intent != EF_INTENT_PROJECTION_AND_REPLAY;
    return EF_OK;
}

static void resolve_aliases(sq_state *state)
{
    for (size_t i = 0; i < state->type_count; i++) {
        sq_type *type = &state->types[i];
        const sq_type *canonical =
            type->alias_of ? sq_state_type_by_id(state, type->alias_of) : NULL;
        if (canonical)
            type->canonical = (int32_t)(canonical - state->types);
    }
}

ef_status sq_state_load_types(sq_state *state, ef__sq_conn *conn, ef_error *err)
{
    ef__sq_rows rows = sq_each_type_all(conn, NULL, err);
    struct sq_type_all_row row;
    ef_status st;

    state->type_count = 0;
    state->type_memo = -1;
    state->types_not_folded = 0;
    ef__pair_map_reset(&state->type_names);
    ef__pair_map_reset(&state->type_tenants);
    while (sq_next_type_all(&rows, &row))
        rows.status = load_type(state, &row, err);
    st = ef__sq_rows_end(&rows);
    if (st == EF_OK)
        resolve_aliases(state);
    return st;
}
