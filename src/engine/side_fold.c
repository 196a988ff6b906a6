/*
 * side_fold.c - folds events without writing: see apply.h.
 */
#include "apply.h"

ef_status ef__side_fold_open(ef__side_fold *fold, ef_engine *engine, ef_str name, ef_error *err)
{
    const ef_engine_options *options = &engine->options;
    ef_views *views = NULL;
    ef_status st = ef__views_open(
        &(ef__views_options){
            .url = "memory:", .create = true, .clock = options->clock, .log = options->log},
        &views, err);

    *fold = (ef__side_fold){.engine = engine, .apply.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    if (st == EF_OK)
        st = ef__engine_open_on(&(ef_engine_options){.journal = engine->journal,
                                                     .views_url = "memory:",
                                                     .worker = name,
                                                     .clock = options->clock,
                                                     .log = options->log},
                                views, &fold->side, err);
    if (st == EF_OK)
        fold->side->is_side_engine = true;
    return st;
}

void ef__side_fold_close(ef__side_fold *fold)
{
    if (!fold->side)
        return;
    ef__apply_release(&fold->apply);
    ef__engine_abandon(fold->side);
    fold->side = NULL;
}

static bool has_copy(const ef__generation_list *copies, const ef__generation *generation)
{
    for (size_t i = 0; i < copies->count; i++)
        if (ef_str_equal(copies->items[i].name, generation->name) &&
            copies->items[i].version == generation->version)
            return true;
    return false;
}

ef_status ef__side_fold_add_active(ef__side_fold *fold, const ef__live_choice *choice,
                                   bool *out_added, ef_error *err)
{
    ef_views *views = fold->side->views;
    EF__AUTO(ef__generation_list) copies = {0};
    EF__AUTO(ef__live_set) set = {0};
    ef_status st = ef__live_set_read(fold->engine, choice, &set, err);

    *out_added = false;
    fold->reads_skips = true;
    if (st == EF_OK)
        st = ef__engine_generations(fold->side, (ef_str){0}, &copies, err);
    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        ef__generation copy = *set.items[i].generation;
        int64_t id;
        if (!copy.active || copy.program.len == 0 || has_copy(&copies, &copy))
            continue;
        copy.number = 0;
        copy.state = EF__GENERATION_LIVE;
        st = views->ops->generation_add(views, &copy, &id, err);
        *out_added = true;
    }
    return st;
}

ef_status ef__side_fold_run(ef__side_fold *fold, int64_t generation, const ef_event *events,
                            size_t count, ef_error *err)
{
    ef_status st;

    ef__apply_release(&fold->apply);
    fold->apply.generation_count = 0;
    if (count == 0)
        return EF_OK;
    fold->apply.reads_skips = fold->reads_skips;
    st = ef__apply_set_events(&fold->apply, events, count, err);
    return st == EF_OK
               ? ef__apply_run_live(fold->side, &(ef__live_choice){.generation = generation},
                                    &fold->apply, err)
               : st;
}
