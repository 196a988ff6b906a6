/*
 * migrate.c - see migrate.h.
 */
#include "migrate.h"
#include "apply.h"
#include "route.h"

#include "../base/logger.h"
#include "../fold/folder.h"

#define PAGE_VIEWS 500           /* rewritten in a transaction: live work waits so long */
#define PAGE_LOOKED 10000        /* looked at, where most are new already */
#define PAGE_BYTES (16ul << 20)  /* of new views, and one more */
#define ARENA_BYTES (64ul << 20) /* those, with their names and keys */

/* The next old views, and what becomes of them. */
typedef struct page {
    const ef__program *program;
    ef__folder *folder;
    ef__match *match;
    ef__arena arena; /* of the changes */
    ef__view_change *changes;
    size_t count, looked, bytes;
    bool full; /* there may be others behind it */
    ef__migrate_place place;
    ef_status st; /* of what went wrong while looking */
    ef_error *err;
} page;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while migrating views");
}

/* --- is it? ----------------------------------------------------------------------------------- */

bool ef__live_migrates(const ef__live *live)
{
    const ef__generation *g = live->generation;

    return g->state != EF__GENERATION_LIVE && !ef__generation_in_c(g) &&
           g->schema < ef__program_schema(live->program);
}

ef_status ef__generation_migrates(ef_engine *e, const ef__generation *g, bool *out, ef_error *err)
{
    ef__live live = {.generation = g};
    ef_status st;

    *out = false;
    if (g->state == EF__GENERATION_LIVE || ef__generation_in_c(g))
        return EF_OK; /* the usual, which needs no program */
    st = ef__engine_program(e, g, &live.program, err);
    *out = st == EF_OK && ef__live_migrates(&live);
    return st;
}

ef_status ef__generation_is_whole(ef_engine *e, const ef__generation *g, ef_error *err)
{
    bool migrates;
    ef_status st = ef__generation_migrates(e, g, &migrates, err);

    if (st != EF_OK || !migrates)
        return st;
    return ef_fail(err, EF_BUSY,
                   "the views of \"%.*s\" are being migrated: ask again when it is live; "
                   "see: everfold projection wait %.*s",
                   EF_STR_ARG(g->name), EF_STR_ARG(g->name));
}

/* --- one view --------------------------------------------------------------------------------- */

static ef_status migrate_data(ef__folder *folder, const ef__view *view, ef__arena *arena,
                              ef_str *out, ef_error *err)
{
    ef__stored_view stored = {.found = true, .data = view->data, .schema = view->schema};
    ef_status st = ef__folder_migrate(folder, view->id, &stored, out, err);

    if (st != EF_OK)
        return st;
    *out = ef__arena_copy(arena, *out);
    return out->ptr ? EF_OK : no_memory(err);
}

ef_status ef__view_migrate(ef_engine *e, const ef__generation *g, ef__arena *arena, ef__view *view,
                           ef_error *err)
{
    const ef__program *program;
    ef__folder *folder;
    ef_status st;

    /* What is read may be older than what is known of the generation: from a snapshot. */
    if (ef__generation_in_c(g) || (g->state == EF__GENERATION_LIVE && view->schema >= g->schema))
        return EF_OK;
    st = ef__engine_program(e, g, &program, err);
    if (st != EF_OK || view->schema >= ef__program_schema(program))
        return st;
    st = ef__folder_open(&(ef__folder_options){.program = program}, &folder, err);
    if (st == EF_OK)
        st = migrate_data(folder, view, arena, &view->data, err);
    if (st == EF_OK)
        view->schema = (int32_t)ef__program_schema(program);
    ef__folder_close(folder);
    return st;
}

/* --- a page of them --------------------------------------------------------------------------- */

static ef_status change_view(page *p, const ef__view *view)
{
    ef__view_change *c = &p->changes[p->count];

    *c = (ef__view_change){.view = *view, .before = {view->digest[0], view->digest[1]}};
    c->view.tenant = ef__arena_copy(&p->arena, view->tenant);
    c->view.id = ef__arena_copy(&p->arena, view->id);
    c->view.schema = (int32_t)ef__program_schema(p->program);
    if (!c->view.tenant.ptr || !c->view.id.ptr)
        return no_memory(p->err);
    ef_status st = migrate_data(p->folder, view, &p->arena, &c->view.data, p->err);
    if (st == EF_OK)
        st = ef__index_keys(p->program, p->match, &p->arena, c, p->err);
    p->count += st == EF_OK;
    p->bytes += c->view.data.len;
    return st;
}

static void move_place(ef__migrate_place *place, const ef__view *view)
{
    place->begun = true;
    place->tenant_len = view->tenant.len;
    place->id_len = view->id.len;
    if (view->tenant.len)
        memcpy(place->tenant, view->tenant.ptr, view->tenant.len);
    memcpy(place->id, view->id.ptr, view->id.len);
}

static bool look_at(void *context, ef_str key, const ef__view *view)
{
    page *p = context;

    (void)key;
    p->full = p->count == PAGE_VIEWS || p->looked == PAGE_LOOKED || p->bytes >= PAGE_BYTES;
    if (p->full)
        return false;
    p->looked++;
    if (view->schema < ef__program_schema(p->program))
        p->st = change_view(p, view);
    if (p->st == EF_OK)
        move_place(&p->place, view);
    return p->st == EF_OK;
}

static ef_status read_page(ef_engine *e, const ef__generation *g, page *p)
{
    const ef__migrate_place from = p->place; /* the scan borrows it, and look_at moves the other */
    ef_status st;

    ef__arena_reset(&p->arena);
    p->changes = ef__arena_alloc(&p->arena, PAGE_VIEWS * sizeof *p->changes);
    if (!p->changes)
        return no_memory(p->err);
    p->count = p->looked = p->bytes = 0;
    p->full = false;
    p->st = EF_OK;
    st = e->views->ops->view_scan(e->views,
                                  &(ef__view_scan){.generation = g->id,
                                                   .any_tenant = true,
                                                   .index = -1,
                                                   .has_after = from.begun,
                                                   .after_tenant = {from.tenant, from.tenant_len},
                                                   .after_id = {from.id, from.id_len}},
                                  look_at, p, p->err);
    return st == EF_OK ? p->st : st;
}

static ef_status open_page(page *p, const ef__program *program, ef_error *err)
{
    ef_status st;

    *p = (page){.program = program, .arena = EF__ARENA_INIT(ARENA_BYTES), .err = err};
    st = ef__folder_open(&(ef__folder_options){.program = program}, &p->folder, err);
    return st == EF_OK ? ef__match_open(&p->match, err) : st;
}

static void close_page(page *p)
{
    ef__folder_close(p->folder);
    ef__match_close(p->match);
    ef__arena_release(&p->arena);
}

ef_status ef__migrate_try(ef_engine *e, const ef__generation *g, const ef__program *program,
                          ef_error *err)
{
    page p;
    ef_status st = open_page(&p, program, err);

    do {
        if (st == EF_OK)
            st = read_page(e, g, &p);
    } while (st == EF_OK && p.full);
    close_page(&p);
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

static ef_status commit_page(ef_engine *e, const ef__generation *g, const ef__scope *scope,
                             const page *p, ef_error *err)
{
    ef__fence fence = {ef_str_from(scope->fence), scope->token};

    /* It may be lost with all that came after it: then those views are old, and say so. */
    return e->views->ops->commit(
        e->views,
        &(ef__views_commit){.may_be_lost = true,
                            .fences = &fence,
                            .fence_count = 1,
                            .generations = &(ef__generation_change){.generation = g->id,
                                                                    .era = g->era,
                                                                    .views = p->changes,
                                                                    .view_count = p->count},
                            .generation_count = 1},
        err);
}

static ef_status finish(ef_engine *e, const ef__live *live, ef_error *err)
{
    ef__generation whole = *live->generation;
    ef_status st;

    whole.schema = (int32_t)ef__program_schema(live->program);
    st = e->views->ops->generation_replace(e->views, whole.id, whole.era, &whole, err);
    if (st == EF_OK)
        ef__log(e->options.log, EF_LOG_INFO, "the views of a projection are migrated",
                EF_LOG_TEXT_FIELD("projection", whole.name),
                EF_LOG_NUMBER_FIELD("schema", whole.schema));
    return st;
}

ef_status ef__migrate_step(ef_engine *e, const ef__live *live, ef__scope *scope, ef_tick *tick,
                           ef_error *err)
{
    const ef__generation *g = live->generation;
    page p;
    ef_status st = open_page(&p, live->program, err);

    p.place = scope->place.era == g->era ? scope->place : (ef__migrate_place){.era = g->era};
    if (st == EF_OK)
        st = read_page(e, g, &p);
    if (st == EF_OK && p.count)
        st = commit_page(e, g, scope, &p, err);
    if (st == EF_OK) {
        scope->place = p.place;
        tick->more = true;
    }
    if (st == EF_OK && !p.full)
        st = finish(e, live, err);
    ef__routes_outdate(e);
    close_page(&p);
    return st == EF_BAD_INPUT ? ef__scope_failed(e, scope, g, tick, err) : st;
}
