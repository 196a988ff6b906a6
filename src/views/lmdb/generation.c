/*
 * generation.c - builds of projections: adding, listing, states, routes, removing.
 *
 * What commits change is a row of its own; the texts, which they leave alone, are another one.
 */
#include "store.h"

#include <stdlib.h>

/* --- rows ------------------------------------------------------------------------------------- */

bool vl_generation_get(vl_txn *txn, int64_t id, vl_generation *out)
{
    ef_str row;
    bool found = vl_get(txn, VL_STATE, vl_key_number(VL_GENERATION, id), &row);

    *out = (vl_generation){0};
    if (found && !vl_generation_read(row, out))
        vl_row_damaged(txn, "a generation");
    return found;
}

void vl_generation_put(vl_txn *txn, int64_t id, vl_generation *generation, int64_t now_us)
{
    generation->updated_us = now_us;
    vl_put(txn, vl_key_number(VL_GENERATION, id), vl_bytes(generation, sizeof *generation));
}

/* The texts of a generation. */
static void program_get(vl_txn *txn, int64_t id, ef__generation *out)
{
    vl_program head = {{0}, 0};

    if (!vl_texts_get(txn, vl_key_number(VL_PROGRAM, id), &head, sizeof head, head.text_bytes,
                      &ef__generation_texts, out))
        vl_row_damaged(txn, "a program");
}

static void program_put(vl_txn *txn, int64_t id, const ef__generation *generation)
{
    vl_program head = {{0}, 0};

    vl_texts_put(txn, vl_key_number(VL_PROGRAM, id), &head, sizeof head, head.text_bytes,
                 &ef__generation_texts, generation);
}

/* Without its own cursors. */
static void read_generation(vl_txn *txn, int64_t id, ef_str row, ef__generation *out)
{
    vl_generation g = {0};

    if (!vl_generation_read(row, &g))
        vl_row_damaged(txn, "a generation");
    *out = (ef__generation){.id = id,
                            .version = g.version,
                            .number = g.number,
                            .by_log = g.by_log,
                            .program_hash = g.program_hash,
                            .schema = g.schema,
                            .state = (ef__generation_state)g.state,
                            .active = g.active,
                            .era = g.era,
                            .position = g.position,
                            .seam = g.seam,
                            .created_us = g.created_us,
                            .updated_us = g.updated_us,
                            .views = g.views,
                            .applied = g.applied,
                            .ignored = g.ignored,
                            .skipped = g.skipped,
                            .on_error = (ef_on_error)g.on_error,
                            .replaced = g.replaced,
                            .superseded_us = g.superseded_us};
    ef__digest_bytes(g.digest, out->digest);
    program_get(txn, id, out);
}

/* Calls `each` for every generation. */
typedef void each_generation(vl_txn *txn, const ef__generation *g, void *context);

static void for_all(vl_txn *txn, each_generation *each, void *context)
{
    vl_walk walk = vl_walk_first(txn, VL_STATE, vl_key_of(VL_GENERATION));

    for (; walk.found; vl_walk_on(&walk, false)) {
        ef__generation g;
        read_generation(txn, (int64_t)vl_number_at(walk.key, 1), walk.value, &g);
        if (txn->st == EF_OK)
            each(txn, &g, context);
    }
    vl_walk_close(&walk);
}

/* --- adding and routing ----------------------------------------------------------------------- */

/* Generations of one name. */
typedef struct namesakes {
    ef_str name;
    int32_t highest;
    int64_t active; /* the one that is; 0: none */
    uint8_t on_error;
} namesakes;

static void note_namesake(vl_txn *txn, const ef__generation *g, void *context)
{
    namesakes *n = context;

    (void)txn;
    if (!ef_str_equal(n->name, g->name))
        return;
    if (g->number > n->highest)
        n->highest = g->number;
    n->on_error = (uint8_t)g->on_error;
    if (g->active)
        n->active = g->id;
}

static void make_active(vl_txn *txn, int64_t id, vl_generation *g, ef_str name, int64_t now_us)
{
    namesakes others = {.name = name};
    vl_generation old;

    for_all(txn, note_namesake, &others);
    if (others.active && vl_generation_get(txn, others.active, &old)) {
        old.active = false;
        old.superseded_us = now_us;
        old.era++;
        vl_generation_put(txn, others.active, &old, now_us);
    }
    g->active = true;
    g->superseded_us = 0;
    g->era++;
    vl_generation_put(txn, id, g, now_us);
    vl_live_set_grow(txn);
}

typedef struct adding {
    const ef_views *views;
    const ef__generation *from;
    int64_t id;
} adding;

static void add_generation(vl_txn *txn, void *context)
{
    adding *a = context;
    const ef__generation *from = a->from;
    namesakes others = {.name = from->name, .on_error = (uint8_t)from->on_error};
    int64_t now_us = ef__views_now_us(a->views);
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
    vl_state state;

    for_all(txn, note_namesake, &others);
    g.number = others.highest + 1;
    g.on_error = others.on_error;
    if (from->number && from->number != g.number)
        vl_try(txn, ef__generation_number_exists(from->name, from->number, txn->err));
    state = vl_state_get(txn);
    a->id = ++state.last_generation;
    vl_state_put(txn, &state);
    program_put(txn, a->id, from);
    vl_generation_put(txn, a->id, &g, now_us);
    if (from->state == EF__GENERATION_LIVE)
        vl_live_set_grow(txn);
    if (from->active)
        make_active(txn, a->id, &g, from->name, now_us);
}

ef_status vl_generation_add(ef_views *views, const ef__generation *generation, int64_t *out_id,
                            ef_error *err)
{
    adding a = {.views = views, .from = generation};
    ef_status st = vl_change(views, false, add_generation, &a, err);

    *out_id = st == EF_OK ? a.id : 0;
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct listing {
    ef_str only_name;
    ef__generation_list *out;
} listing;

static void add_to_list(vl_txn *txn, const ef__generation *g, void *context)
{
    const listing *l = context;
    ef__generation item = *g;

    if (l->only_name.len && !ef_str_equal(l->only_name, g->name))
        return;
    vl_cursors_sum(txn, &item);
    vl_try(txn, ef__list_add(l->out, &item, &ef__generation_texts, txn->err));
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
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    txn = vl_begin(views, err);
    out->live_set = vl_state_get(&txn).live_set;
    for_all(&txn, add_to_list, &l);
    if (txn.st == EF_OK && out->count)
        qsort((void *)out->items, out->count, sizeof *out->items, by_name);
    return vl_end(views, &txn);
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
    void (*run)(vl_txn *txn, act *act, vl_generation *g);
};

static void run_act(vl_txn *txn, void *context)
{
    act *a = context;
    vl_generation g;

    if (!vl_generation_get(txn, a->id, &g))
        vl_try(txn, ef__generation_missing(a->id, txn->err));
    if (a->era && a->era != g.era)
        vl_try(txn, ef__generation_moved(a->id, a->era, g.era, txn->err));
    if (txn->st == EF_OK)
        a->run(txn, a, &g);
}

static ef_status do_act(ef_views *views, act *a, ef_error *err)
{
    a->now_us = ef__views_now_us(views);
    return vl_change(views, false, run_act, a, err);
}

/* Sets the state, and the program if there is one. The row of the texts is built before it replaces
 * the one that some of them are in. */
static void change_generation(vl_txn *txn, act *a, vl_generation *g)
{
    bool live_changes =
        a->with || (g->state == EF__GENERATION_LIVE) != (a->state == EF__GENERATION_LIVE);
    ef__generation texts = {0};

    if (a->with) {
        program_get(txn, a->id, &texts);
        texts.program = a->with->program;
        program_put(txn, a->id, &texts);
        g->version = a->with->version;
        g->program_hash = a->with->program_hash;
        g->schema = a->with->schema;
        g->replaced = a->with->replaced;
        g->superseded_us = a->with->superseded_us;
    }
    g->state = (int32_t)a->state;
    g->era++;
    vl_generation_put(txn, a->id, g, a->now_us);
    if (live_changes)
        vl_live_set_grow(txn);
}

ef_status vl_generation_change(ef_views *views, int64_t id, int64_t era, ef__generation_state state,
                               const ef__generation *with, ef_error *err)
{
    act a = {.id = id, .era = era, .state = state, .with = with, .run = change_generation};

    return do_act(views, &a, err);
}

static void activate_it(vl_txn *txn, act *a, vl_generation *g)
{
    ef__generation texts = {0};

    if (g->active)
        return;
    program_get(txn, a->id, &texts);
    g->replaced = a->replaced;
    make_active(txn, a->id, g, texts.name, a->now_us);
}

ef_status vl_generation_activate(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                 ef_error *err)
{
    act a = {.id = id, .era = era, .replaced = replaced, .run = activate_it};

    return do_act(views, &a, err);
}

/* --- projections ------------------------------------------------------------------------------ */

typedef struct on_error_change {
    ef_str name;
    uint8_t on_error;
} on_error_change;

/* LMDB keeps the cursor of the walk valid when the row that it is at is replaced. */
static void put_on_error(vl_txn *txn, const ef__generation *g, void *context)
{
    const on_error_change *change = context;
    vl_generation row;

    if (!ef_str_equal(change->name, g->name) || !vl_generation_get(txn, g->id, &row))
        return;
    row.on_error = change->on_error;
    vl_generation_put(txn, g->id, &row, g->updated_us);
}

static void set_on_error(vl_txn *txn, void *context)
{
    for_all(txn, put_on_error, context);
}

ef_status vl_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    on_error_change change = {name, (uint8_t)on_error};

    return vl_change(views, false, set_on_error, &change, err);
}

static void retire_version(vl_txn *txn, void *context)
{
    vl_put(txn, *(const vl_key *)context, (ef_str){"", 0});
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
    vl_txn txn = vl_begin(views, err);

    *out = vl_get(&txn, VL_STATE, vl_key_name(VL_RETIRED, version, name), &nothing);
    return vl_end(views, &txn);
}

/* --- removing -------------------------------------------------------------------- */

static void cut_shelf(vl_txn *txn, int64_t shelf, int64_t *limit)
{
    static const vl_tree TREES[] = {VL_VIEW, VL_INDEX, VL_WATERMARK};

    for (size_t i = 0; i < sizeof TREES / sizeof TREES[0]; i++)
        vl_cut(txn, TREES[i], vl_shelf_key(shelf, (ef_str){0}), limit);
    vl_cut(txn, VL_STATE, vl_key_number(VL_FAILURE_AT, shelf), limit);
    vl_cut(txn, VL_STATE, vl_key_number(VL_CHANGE, shelf), limit);
}

/* A shelf goes when nothing is left on it. */
static void cut_shelves(vl_txn *txn, int64_t id, int64_t *limit)
{
    vl_key prefix = vl_key_number(VL_SHELF, id);
    vl_walk walk = vl_walk_first(txn, VL_STATE, prefix);

    for (; *limit > 0 && walk.found; vl_walk_from(&walk, &prefix)) {
        int64_t shelf, one = 1;
        vl_row_take(txn, walk.value, &shelf, sizeof shelf, "a shelf");
        cut_shelf(txn, shelf, limit);
        if (*limit > 0)
            vl_cut(txn, VL_STATE, prefix, &one);
    }
    vl_walk_close(&walk);
}

/* Up to *limit rows of all that is its own. */
static void cut_contents(vl_txn *txn, int64_t id, int64_t *limit)
{
    static const vl_kind KINDS[] = {VL_CURSOR, VL_DUE,        VL_FAILURE,     VL_FAILURE_OPEN,
                                    VL_FOLLOW, VL_FOLLOW_END, VL_FOLLOW_FLOOR};

    cut_shelves(txn, id, limit);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        vl_cut(txn, VL_STATE, vl_key_number(KINDS[i], id), limit);
}

static void remove_some(vl_txn *txn, act *a, vl_generation *g)
{
    int64_t left = a->limit;

    if (g->active)
        vl_try(txn, ef__generation_is_active(a->id, txn->err));
    cut_contents(txn, a->id, &left);
    a->more = left <= 0;
    if (a->more)
        return;
    vl_delete(txn, vl_key_number(VL_GENERATION, a->id));
    vl_delete(txn, vl_key_number(VL_PROGRAM, a->id));
    if (g->state == EF__GENERATION_LIVE)
        vl_live_set_grow(txn);
}

ef_status vl_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                               bool *out_more, ef_error *err)
{
    act a = {.id = id, .era = era, .limit = limit, .run = remove_some};
    ef_status st = do_act(views, &a, err);

    *out_more = st == EF_OK && a.more;
    return st;
}
