/*
 * workset.c - see workset.h.
 */
#include "workset.h"
#include "migrate.h"

#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SMALL_BYTES (2ul << 20)   /* some 10,000 streams and views */
#define LOADED_BYTES (64ul << 20) /* a view has 1 MB at most; lookups may have a few of them */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while applying events");
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The store as of the first read of a batch. Reads one by one would each open a transaction, and
 * that costs more than a row does. A store without snapshots is read as it is. */
ef_status ef__workset_reads_from(ef__workset *set, ef_views **out, ef_error *err)
{
    ef_views *views = set->engine->views;
    ef_status st = EF_OK;

    if (!set->snapshot && views->ops->snapshot_open)
        st = views->ops->snapshot_open(views, &set->snapshot, err);
    *out = set->snapshot ? set->snapshot : views;
    return st;
}

void ef__workset_read_end(ef__workset *set)
{
    ef__views_close(set->snapshot);
    set->snapshot = NULL;
    ef__pair_map_reset(&set->fetched);
    ef__arena_reset(&set->fetched_arena);
}

static ef_status get_view(ef__workset *set, int64_t generation, ef_str tenant, ef_str id,
                          ef__view *out, bool *out_found, ef_error *err)
{
    ef_views *from;
    ef_status st = ef__workset_reads_from(set, &from, err);

    *out_found = false;
    ef__arena_reset(&set->loaded);
    if (st != EF_OK)
        return st;
    return from->ops->view_get(from, generation, tenant, id, &set->loaded, out, out_found, err);
}

void ef__workset_digest(const ef__workset *set, ef_str tenant, ef_str id, uint64_t out[2])
{
    const uint64_t *digest = ef__pair_map_find(&set->digests, tenant, id);

    out[0] = digest ? digest[0] : 0;
    out[1] = digest ? digest[1] : 0;
}

static bool has_digest(const ef__workset *set, ef_str tenant, ef_str id)
{
    uint64_t digest[2];

    ef__workset_digest(set, tenant, id, digest);
    return digest[0] || digest[1];
}

static ef_status load_view(void *context, ef_str tenant, ef_str id, ef__stored_view *out,
                           ef_error *err)
{
    ef__workset *set = context;
    const ef__fetched *fetched = ef__pair_map_find(&set->fetched, tenant, id);
    ef__view view;
    bool is_new;
    uint64_t *digest;
    ef_status st = EF_OK;

    if (set->whole && !has_digest(set, tenant, id))
        return EF_OK;
    if (fetched && fetched->read) {
        view = fetched->view;
        out->found = view.data.len > 0;
    } else {
        st = get_view(set, set->generation, tenant, id, &view, &out->found, err);
    }
    if (st != EF_OK || !out->found)
        return st;
    digest = ef__pair_map_at(&set->digests, tenant, id, &is_new);
    if (!digest)
        return no_memory(err);
    digest[0] = view.digest[0];
    digest[1] = view.digest[1];
    out->data = view.data;
    out->schema = view.schema;
    return EF_OK;
}

static ef_status look_up(void *context, ef_str projection, ef_str tenant, ef_str id,
                         ef__stored_view *out, ef_error *err)
{
    ef__workset *set = context;
    ef__generation_list list = {0};
    const ef__generation *g;
    ef__view view;
    ef_engine *from = set->engine->lookups ? set->engine->lookups : set->engine;
    ef_status st = ef__engine_routed(from, projection, &list, &g, err);

    *out = (ef__stored_view){0};
    if (st == EF_OK && from == set->engine) {
        st = get_view(set, g->id, tenant, id, &view, &out->found, err);
    } else if (st == EF_OK) {
        ef__arena_reset(&set->loaded);
        st = from->views->ops->view_get(from->views, g->id, tenant, id, &set->loaded, &view,
                                        &out->found, err);
    } else if (st == EF_NOT_FOUND) {
        st = EF_OK; /* not deployed: there is nothing to see */
    }
    if (st == EF_OK && out->found)
        st = ef__view_migrate(from, g, &set->loaded, &view, err);
    if (st == EF_OK && out->found) {
        out->data = view.data;
        out->schema = view.schema;
    }
    ef__room_release(&list.room);
    return st;
}

ef_status ef__workset_mark(ef__workset *set, const ef_event *event, ef__mark **out, ef_error *err)
{
    bool is_new, found;
    ef__mark *mark = ef__pair_map_at(&set->marks, event->tenant, event->stream, &is_new);
    ef_views *from;
    ef_status st;

    *out = mark;
    if (!mark)
        return no_memory(err);
    if (!is_new || set->whole)
        return EF_OK;
    st = ef__workset_reads_from(set, &from, err);
    if (st == EF_OK)
        st = from->ops->watermark_get(from, set->generation, event->tenant, event->stream,
                                      &mark->now, &found, err);
    if (st == EF_OK && !found)
        mark->now = (ef__watermark){0};
    return st;
}

/* --- after the commit ------------------------------------------------------------------------- */

static bool settle_view(ef__workset *set, const ef__view_change *change, uint64_t sums[2])
{
    bool is_new;
    uint64_t *digest =
        ef__pair_map_at(&set->digests, change->view.tenant, change->view.id, &is_new);

    if (!digest)
        return false;
    if (change->deleted)
        digest[0] = digest[1] = 0;
    else
        ef__view_digest(&change->view, digest);
    ef__digest_take(sums, change->before);
    ef__digest_add(sums, digest);
    return true;
}

static size_t name_bytes(const ef__workset *set)
{
    return ef__pair_map_bytes(&set->marks) + ef__pair_map_bytes(&set->digests);
}

bool ef__workset_is_small(const ef__workset *set)
{
    return name_bytes(set) < SMALL_BYTES;
}

/* Decoded views are most of it, and are read again when they are asked for. What is known of all
 * streams and views is small, and saves a read for each that is not there. */
static void shrink(ef__workset *set)
{
    size_t names = 0, views = 0, max = set->engine->worksets_bytes;

    for (const ef__workset *s = *set->all; s; s = s->next) {
        names += name_bytes(s);
        views += ef__folder_bytes(s->folder);
    }
    if (names > max / 4 * 3) {
        ef__workset_reset(set);
    } else if (names + views > max) {
        ef__folder_reset(set->folder);
        set->dropped = true;
    }
}

void ef__workset_settle(ef__workset *set, const ef__generation_change *change)
{
    uint64_t sums[2];
    bool whole = true;

    ef__digest_sums(set->digest, sums);
    for (size_t i = 0; whole && i < change->view_count; i++)
        whole = settle_view(set, &change->views[i], sums);
    ef__folder_settle(set->folder);
    if (change->cursor_after)
        set->position = change->cursor_after;
    set->batch++;
    set->events += change->applied + change->ignored + change->skipped;
    ef__digest_bytes(sums, set->digest);
    if (whole)
        shrink(set);
    else
        ef__workset_reset(set);
}

void ef__workset_reset(ef__workset *set)
{
    ef__folder_reset(set->folder);
    ef__pair_map_reset(&set->marks);
    ef__pair_map_reset(&set->digests);
    set->whole = false;
    set->dropped = false;
}

/* --- opening, closing, keeping ---------------------------------------------------------------- */

ef_status ef__workset_open(ef_engine *engine, const ef__live *live, ef__workset **out,
                           ef_error *err)
{
    ef__workset *set = malloc(sizeof *set);
    ef_status st;

    *out = NULL;
    if (!set)
        return no_memory(err);
    *set = (ef__workset){.engine = engine,
                         .generation = live->generation->id,
                         .era = live->generation->era,
                         .position = live->generation->position,
                         .batch = 1,
                         .marks = EF__PAIR_MAP_INIT(ef__mark, SIZE_MAX),
                         .digests = EF__PAIR_MAP_INIT(uint64_t[2], SIZE_MAX),
                         .loaded = EF__ARENA_INIT(LOADED_BYTES),
                         .fetched = EF__PAIR_MAP_INIT(ef__fetched, SIZE_MAX),
                         .fetched_arena = EF__ARENA_INIT(SIZE_MAX),
                         .ahead = {.limit_max = engine->cursor_batch, .batch = EF_BATCH_INIT}};
    if (!engine->ghost) /* it must not read as the one that it is compared with */
        ef__generation_reader(live->generation, set->ahead.reader);
    st = ef__folder_open(
        &(ef__folder_options){
            .program = live->program, .load = load_view, .lookup = look_up, .context = set},
        &set->folder, err);
    if (st != EF_OK) {
        ef__workset_close(set);
        return st;
    }
    *out = set;
    return EF_OK;
}

void ef__workset_close(ef__workset *set)
{
    if (!set)
        return;
    ef__ahead_release(&set->ahead);
    ef__workset_read_end(set);
    ef__folder_close(set->folder);
    ef__pair_map_release(&set->marks);
    ef__pair_map_release(&set->digests);
    ef__arena_release(&set->loaded);
    ef__pair_map_release(&set->fetched);
    ef__arena_release(&set->fetched_arena);
    free(set);
}

static int64_t events_of(const ef__generation *g)
{
    return g->applied + g->ignored + g->skipped;
}

/* Nothing was ever applied to it. */
static bool is_empty(const ef__generation *g)
{
    return g->position == 0 && g->seam == 0 && g->views == 0 && events_of(g) == 0;
}

static bool is_as_read(const ef__workset *set, const ef__generation *g)
{
    return set->era == g->era && set->position == g->position && set->events == events_of(g) &&
           memcmp(set->digest, g->digest, sizeof set->digest) == 0;
}

ef_status ef__workset_kept(ef_engine *engine, ef__workset **all, const ef__live *live,
                           ef__workset **out, ef_error *err)
{
    const ef__generation *g = live->generation;
    ef__workset *set = *all;
    ef_status st;

    while (set && set->generation != g->id)
        set = set->next;
    if (!set) {
        st = ef__workset_open(engine, live, &set, err);
        if (st != EF_OK)
            return st;
        set->all = all;
        set->next = *all;
        *all = set;
    }
    if (!is_as_read(set, g))
        ef__workset_reset(set);
    if (is_empty(g)) {
        ef__workset_reset(set);
        set->whole = true;
    }
    set->era = g->era;
    set->position = g->position;
    set->events = events_of(g);
    memcpy(set->digest, g->digest, sizeof set->digest);
    *out = set;
    return EF_OK;
}

static bool is_wanted(const ef__workset *set, const ef__live_set *live, bool by_cursor)
{
    for (size_t i = 0; i < live->count; i++) {
        const ef__generation *g = live->items[i].generation;
        if (g->id == set->generation)
            return ef__generation_by_cursor(g) == by_cursor && g->era == set->era;
    }
    return false;
}

static bool is_removed(const ef__workset *set, const ef__generation_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].id == set->generation)
            return list->items[i].state == EF__GENERATION_RETIRED;
    return true;
}

/* Whatever removes a generation removes its reader too; but this process may have read once more
 * meanwhile, which makes the reader again. So each process that has read does it as well. */
static void unfollow_removed(const ef__workset *set, const ef__generation_list *list)
{
    if (set->ahead.reader[0] && is_removed(set, list))
        ef__journal_unfollow(set->engine->journal, ef_str_from(set->ahead.reader));
}

void ef__worksets_prune(ef__workset **all, const ef__live_set *live, bool by_cursor)
{
    for (ef__workset **at = all; *at;) {
        ef__workset *set = *at;
        if (is_wanted(set, live, by_cursor)) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        ef__ahead_release(&set->ahead); /* its thread reads, too */
        unfollow_removed(set, &live->list);
        ef__workset_close(set);
    }
}

void ef__worksets_release(ef__workset **all)
{
    while (*all) {
        ef__workset *next = (*all)->next;
        ef__workset_close(*all);
        *all = next;
    }
}
