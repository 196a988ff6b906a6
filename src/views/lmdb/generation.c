/*
 * generation.c - builds of projections: adding, listing, states, routes, removing.
 *
 * What commits change is a row of its own; the texts, which they leave alone, are another one.
 */
#include "store.h"

#include <stdlib.h>

#define PROGRAM_MAX (64 * 1024 * 1024) /* far above any program's own limit */

/* --- rows ------------------------------------------------------------------------------------- */

ef_status vl_generation_get(vl_txn *txn, int64_t id, vl_generation *out, bool *out_found,
                            ef_error *err)
{
    ef_str row;
    ef_status st = vl_get(txn, VL_STATE, vl_key_number(VL_GENERATION, id), &row, out_found, err);

    return st == EF_OK && *out_found && !vl_generation_read(row, out)
               ? vl_row_damaged(txn, "a generation", err)
               : st;
}

ef_status vl_generation_put(vl_txn *txn, int64_t id, vl_generation *generation, int64_t now_us,
                            ef_error *err)
{
    generation->updated_us = now_us;
    return vl_put(txn, VL_STATE, vl_key_number(VL_GENERATION, id),
                  vl_bytes(generation, sizeof *generation), err);
}

typedef struct texts {
    ef_str name, program, index_paths;
} texts;

static ef_status texts_get(vl_txn *txn, int64_t id, texts *out, ef_error *err)
{
    vl_program head;
    ef_str row;
    bool found;
    ef_status st = vl_get(txn, VL_STATE, vl_key_number(VL_PROGRAM, id), &row, &found, err);

    if (st != EF_OK)
        return st;
    if (!found || !vl_row_read(row, &head, sizeof head) ||
        row.len - sizeof head !=
            (uint64_t)head.name_bytes + head.program_bytes + head.index_paths_bytes)
        return vl_row_damaged(txn, "a program", err);
    out->name = (ef_str){row.ptr + sizeof head, head.name_bytes};
    out->program = (ef_str){out->name.ptr + head.name_bytes, head.program_bytes};
    out->index_paths = (ef_str){out->program.ptr + head.program_bytes, head.index_paths_bytes};
    return EF_OK;
}

static ef_status texts_put(vl_txn *txn, int64_t id, const texts *t, ef_error *err)
{
    vl_program head = {.name_bytes = (uint32_t)t->name.len,
                       .program_bytes = (uint32_t)t->program.len,
                       .index_paths_bytes = (uint32_t)t->index_paths.len};
    ef__buf row = EF__BUF_INIT(PROGRAM_MAX);
    ef_status st;

    ef__buf_add(&row, &head, sizeof head);
    ef__buf_add_str(&row, t->name);
    ef__buf_add_str(&row, t->program);
    ef__buf_add_str(&row, t->index_paths);
    st = row.failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a generation")
                    : vl_put(txn, VL_STATE, vl_key_number(VL_PROGRAM, id), ef__buf_str(&row), err);
    ef__buf_release(&row);
    return st;
}

/* Call `each` for every generation until it fails. */
typedef ef_status each_generation(vl_txn *txn, int64_t id, const vl_generation *g, const texts *t,
                                  void *context, ef_error *err);

static ef_status for_all(vl_txn *txn, each_generation *each, void *context, ef_error *err)
{
    vl_key prefix = vl_key_of(VL_GENERATION);
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    if (st == EF_OK)
        st = vl_walk_from(&walk, &prefix, err);
    while (st == EF_OK && walk.found && vl_has_prefix(walk.key, &prefix)) {
        int64_t id = (int64_t)vl_number_at(walk.key, 1);
        vl_generation g;
        texts t;
        if (!vl_generation_read(walk.value, &g))
            st = vl_row_damaged(txn, "a generation", err);
        if (st == EF_OK)
            st = texts_get(txn, id, &t, err);
        if (st == EF_OK)
            st = each(txn, id, &g, &t, context, err);
        if (st == EF_OK)
            st = vl_walk_on(&walk, false, err);
    }
    vl_walk_close(&walk);
    return st;
}

/* --- adding and routing ----------------------------------------------------------------------- */

/* Generations of one name. */
typedef struct namesakes {
    ef_str name;
    int32_t highest;
    int64_t active; /* the one that is; 0: none */
    uint8_t on_error;
} namesakes;

static ef_status note_namesake(vl_txn *txn, int64_t id, const vl_generation *g, const texts *t,
                               void *context, ef_error *err)
{
    namesakes *n = context;

    (void)txn, (void)err;
    if (!ef_str_equal(n->name, t->name))
        return EF_OK;
    if (g->number > n->highest)
        n->highest = g->number;
    n->on_error = g->on_error;
    if (g->active)
        n->active = id;
    return EF_OK;
}

static ef_status make_active(vl_txn *txn, int64_t id, vl_generation *g, ef_str name, int64_t now_us,
                             ef_error *err)
{
    namesakes others = {.name = name};
    vl_generation old;
    bool found = false;
    ef_status st = for_all(txn, note_namesake, &others, err);

    if (st == EF_OK && others.active)
        st = vl_generation_get(txn, others.active, &old, &found, err);
    if (st == EF_OK && found) {
        old.active = false;
        old.superseded_us = now_us;
        old.era++;
        st = vl_generation_put(txn, others.active, &old, now_us, err);
    }
    g->active = true;
    g->superseded_us = 0;
    g->era++;
    if (st == EF_OK)
        st = vl_generation_put(txn, id, g, now_us, err);
    return st == EF_OK ? vl_live_set_grow(txn, err) : st;
}

typedef struct adding {
    vl_store *store;
    const ef__generation *from;
    int64_t id;
} adding;

static ef_status take_id(vl_txn *txn, int64_t *out, ef_error *err)
{
    vl_state state;
    ef_status st = vl_state_get(txn, &state, err);

    *out = ++state.last_generation;
    return st == EF_OK ? vl_state_put(txn, &state, err) : st;
}

static ef_status add_generation(vl_txn *txn, void *context, ef_error *err)
{
    adding *a = context;
    const ef__generation *from = a->from;
    namesakes others = {.name = from->name, .on_error = (uint8_t)from->on_error};
    int64_t now_us = vl_now_us(a->store);
    vl_generation g = {.era = 1,
                       .position = from->position,
                       .seam = from->seam,
                       .created_us = from->created_us ? from->created_us : now_us,
                       .program_hash = from->program_hash,
                       .version = from->version,
                       .schema = from->schema,
                       .state = (int32_t)from->state,
                       .by_log = from->by_log,
                       .indexed = from->index_paths.len > 0};
    ef_status st = for_all(txn, note_namesake, &others, err);

    g.number = others.highest + 1;
    g.on_error = others.on_error;
    if (st == EF_OK && from->number && from->number != g.number)
        st = ef__generation_number_exists(from->name, from->number, err);
    if (st == EF_OK)
        st = take_id(txn, &a->id, err);
    if (st == EF_OK)
        st = texts_put(txn, a->id, &(texts){from->name, from->program, from->index_paths}, err);
    if (st == EF_OK)
        st = vl_generation_put(txn, a->id, &g, now_us, err);
    if (st == EF_OK && from->state == EF__GENERATION_LIVE)
        st = vl_live_set_grow(txn, err);
    if (st == EF_OK && from->active)
        st = make_active(txn, a->id, &g, from->name, now_us, err);
    return st;
}

ef_status vl_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err)
{
    adding a = {.store = vl_store_of(views), .from = generation};
    ef_status st = vl_change(views, false, add_generation, &a, err);

    *out_id = st == EF_OK ? a.id : 0;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct listing {
    ef_str only_name;
    ef__generation_list *out;
    ef__generation *items;
    size_t cap;
} listing;

static ef_status add_to_list(vl_txn *txn, int64_t id, const vl_generation *g, const texts *t,
                             void *context, ef_error *err)
{
    listing *l = context;
    ef__arena *arena = &l->out->room->arena;
    ef__generation *to;

    if (l->only_name.len && !ef_str_equal(l->only_name, t->name))
        return EF_OK;
    l->items = ef__arena_grow(arena, l->items, l->out->count, sizeof *l->items, &l->cap);
    if (!l->items)
        return ef__no_memory(err);
    to = &l->items[l->out->count];
    *to = (ef__generation){.id = id,
                           .name = ef__arena_copy(arena, t->name),
                           .version = g->version,
                           .number = g->number,
                           .by_log = g->by_log,
                           .program = ef__arena_copy(arena, t->program),
                           .program_hash = g->program_hash,
                           .index_paths = ef__arena_copy(arena, t->index_paths),
                           .schema = g->schema,
                           .state = (ef__generation_state)g->state,
                           .active = g->active,
                           .era = g->era,
                           .position = g->position,
                           .seam = g->seam,
                           .created_us = g->created_us,
                           .updated_us = g->updated_us,
                           .views = g->views,
                           .applied = g->applied,
                           .ignored = g->ignored,
                           .skipped = g->skipped,
                           .on_error = (ef_on_error)g->on_error,
                           .replaced = g->replaced,
                           .superseded_us = g->superseded_us};
    ef__digest_bytes(g->digest, to->digest);
    l->out->items = l->items;
    l->out->count++;
    return to->name.ptr && to->program.ptr && to->index_paths.ptr ? vl_cursors_sum(txn, to, err)
                                                                  : ef__no_memory(err);
}

static int by_name(const void *a, const void *b)
{
    const ef__generation *x = a, *y = b;
    int order = ef__str_compare(x->name, y->name);

    return order ? order : (x->number > y->number) - (x->number < y->number);
}

ef_status vl_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                           ef_error *err)
{
    listing l = {.only_name = only_name, .out = out};
    vl_txn txn;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vl_begin(views, &txn, err);
    if (st != EF_OK)
        return st;
    st = for_all(&txn, add_to_list, &l, err);
    vl_read_end(&txn);
    if (out->count)
        qsort(l.items, out->count, sizeof *l.items, by_name);
    return st;
}

/* --- one generation --------------------------------------------------------------------------- */

/* What is to be done to a generation that is in the era that was read. */
typedef struct act act;

struct act {
    int64_t id, era;
    int64_t now_us;
    ef__generation_state state;
    int32_t replaced;
    const ef__generation *with;
    int64_t limit;
    bool more;
    ef_status (*run)(vl_txn *txn, act *act, vl_generation *g, ef_error *err);
};

static ef_status run_act(vl_txn *txn, void *context, ef_error *err)
{
    act *a = context;
    vl_generation g;
    bool found;
    ef_status st = vl_generation_get(txn, a->id, &g, &found, err);

    if (st != EF_OK)
        return st;
    if (!found)
        return ef__generation_missing(a->id, err);
    if (a->era && a->era != g.era)
        return ef__generation_moved(a->id, a->era, g.era, err);
    return a->run(txn, a, &g, err);
}

static ef_status do_act(ef_views *views, act *a, ef_error *err)
{
    a->now_us = vl_now_us(vl_store_of(views));
    return vl_change(views, false, run_act, a, err);
}

static ef_status set_state(vl_txn *txn, act *a, vl_generation *g, ef_error *err)
{
    bool was_live = g->state == EF__GENERATION_LIVE;
    ef_status st;

    g->state = (int32_t)a->state;
    g->era++;
    st = vl_generation_put(txn, a->id, g, a->now_us, err);
    return st == EF_OK && was_live != (a->state == EF__GENERATION_LIVE) ? vl_live_set_grow(txn, err)
                                                                        : st;
}

ef_status vl_generation_set_state(ef_views *views, int64_t id, int64_t era,
                                  ef__generation_state state, ef_error *err)
{
    act a = {.id = id, .era = era, .state = state, .run = set_state};

    return do_act(views, &a, err);
}

static ef_status activate_it(vl_txn *txn, act *a, vl_generation *g, ef_error *err)
{
    texts t;
    ef_status st = texts_get(txn, a->id, &t, err);

    if (st != EF_OK || g->active)
        return st;
    g->replaced = a->replaced;
    return make_active(txn, a->id, g, t.name, a->now_us, err);
}

ef_status vl_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err)
{
    act a = {.id = id, .era = era, .replaced = replaced, .run = activate_it};

    return do_act(views, &a, err);
}

/* The old texts are in the page that is about to be written: they are copied first. */
static ef_status replace_program(vl_txn *txn, act *a, vl_generation *g, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(PROGRAM_MAX);
    texts t;
    ef_status st = texts_get(txn, a->id, &t, err);

    if (st != EF_OK)
        return st;
    t = (texts){ef__arena_copy(&arena, t.name), a->with->program,
                ef__arena_copy(&arena, t.index_paths)};
    if (!t.name.ptr || !t.index_paths.ptr)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a generation");
    g->version = a->with->version;
    g->program_hash = a->with->program_hash;
    g->schema = a->with->schema;
    g->replaced = a->with->replaced;
    g->superseded_us = a->with->superseded_us;
    g->state = (int32_t)a->with->state;
    g->era++;
    if (st == EF_OK)
        st = texts_put(txn, a->id, &t, err);
    ef__arena_release(&arena);
    if (st == EF_OK)
        st = vl_generation_put(txn, a->id, g, a->now_us, err);
    return st == EF_OK ? vl_live_set_grow(txn, err) : st;
}

ef_status vl_generation_replace(ef_views *views, int64_t id, int64_t era,
                                const ef__generation *with, ef_error *err)
{
    act a = {.id = id, .era = era, .with = with, .run = replace_program};

    return do_act(views, &a, err);
}

/* --- projections ------------------------------------------------------------------------------ */

typedef struct on_error_change {
    ef_str name;
    uint8_t on_error;
} on_error_change;

/* LMDB keeps the cursor of the walk valid when the row that it is at is replaced. */
static ef_status put_on_error(vl_txn *txn, int64_t id, const vl_generation *g, const texts *t,
                              void *context, ef_error *err)
{
    const on_error_change *change = context;
    vl_generation changed = *g;

    changed.on_error = change->on_error;
    return ef_str_equal(change->name, t->name)
               ? vl_generation_put(txn, id, &changed, g->updated_us, err)
               : EF_OK;
}

static ef_status set_on_error(vl_txn *txn, void *context, ef_error *err)
{
    return for_all(txn, put_on_error, context, err);
}

ef_status vl_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    on_error_change change = {name, (uint8_t)on_error};

    return vl_change(views, false, set_on_error, &change, err);
}

static ef_status retire_version(vl_txn *txn, void *context, ef_error *err)
{
    return vl_put(txn, VL_STATE, *(const vl_key *)context, (ef_str){"", 0}, err);
}

ef_status vl_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    vl_key key = vl_key_name(VL_RETIRED, version, name);

    return vl_change(views, false, retire_version, &key, err);
}

ef_status vl_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    ef_str nothing;
    vl_txn txn;
    ef_status st = vl_begin(views, &txn, err);

    *out = false;
    if (st != EF_OK)
        return st;
    st = vl_get(&txn, VL_STATE, vl_key_name(VL_RETIRED, version, name), &nothing, out, err);
    vl_read_end(&txn);
    return st;
}

/* --- removing -------------------------------------------------------------------- */

static ef_status cut_shelf(vl_txn *txn, int64_t shelf, int64_t *limit, ef_error *err)
{
    static const vl_tree TREES[] = {VL_VIEW, VL_INDEX, VL_WATERMARK};
    vl_key prefix = vl_shelf_key(shelf, (ef_str){0});
    vl_key failures = vl_key_number(VL_FAILURE_AT, shelf);
    vl_key records = vl_key_number(VL_CHANGE, shelf);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < sizeof TREES / sizeof TREES[0]; i++)
        st = vl_cut(txn, TREES[i], &prefix, limit, err);
    if (st == EF_OK)
        st = vl_cut(txn, VL_STATE, &failures, limit, err);
    return st == EF_OK ? vl_cut(txn, VL_STATE, &records, limit, err) : st;
}

/* A shelf goes when nothing is left on it. */
static ef_status cut_shelves(vl_txn *txn, int64_t id, int64_t *limit, ef_error *err)
{
    vl_key prefix = vl_key_number(VL_SHELF, id);
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    while (st == EF_OK && *limit > 0) {
        int64_t shelf = 0, one = 1;
        st = vl_walk_from(&walk, &prefix, err);
        if (st != EF_OK || !walk.found || !vl_has_prefix(walk.key, &prefix))
            break;
        if (!vl_row_read(walk.value, &shelf, sizeof shelf))
            st = vl_row_damaged(txn, "a shelf", err);
        if (st == EF_OK)
            st = cut_shelf(txn, shelf, limit, err);
        if (st == EF_OK && *limit > 0)
            st = vl_cut(txn, VL_STATE, &prefix, &one, err);
    }
    vl_walk_close(&walk);
    return st;
}

/* Up to *limit rows of all that is its own. */
static ef_status cut_contents(vl_txn *txn, int64_t id, int64_t *limit, ef_error *err)
{
    static const vl_kind KINDS[] = {VL_CURSOR, VL_DUE,        VL_FAILURE,     VL_FAILURE_OPEN,
                                    VL_FOLLOW, VL_FOLLOW_END, VL_FOLLOW_FLOOR};
    ef_status st = cut_shelves(txn, id, limit, err);

    for (size_t i = 0; st == EF_OK && i < sizeof KINDS / sizeof KINDS[0]; i++) {
        vl_key prefix = vl_key_number(KINDS[i], id);
        st = vl_cut(txn, VL_STATE, &prefix, limit, err);
    }
    return st;
}

static ef_status remove_some(vl_txn *txn, act *a, vl_generation *g, ef_error *err)
{
    int64_t left = a->limit;
    ef_status st;

    if (g->active)
        return ef__generation_is_active(a->id, err);
    st = cut_contents(txn, a->id, &left, err);
    a->more = left <= 0;
    if (st != EF_OK || a->more)
        return st;
    st = vl_delete(txn, VL_STATE, vl_key_number(VL_GENERATION, a->id), err);
    if (st == EF_OK)
        st = vl_delete(txn, VL_STATE, vl_key_number(VL_PROGRAM, a->id), err);
    return st == EF_OK && g->state == EF__GENERATION_LIVE ? vl_live_set_grow(txn, err) : st;
}

ef_status vl_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err)
{
    act a = {.id = id, .era = era, .limit = limit, .run = remove_some};
    ef_status st = do_act(views, &a, err);

    *out_more = st == EF_OK && a.more;
    return st;
}
