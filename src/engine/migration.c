/*
 * migration.c - see scope.h.
 */
#include "scope.h"
#include "apply.h"
#include "read.h"

#include "../base/logger.h"
#include "../fold/folder.h"

#define PAGE_VIEWS 500           /* rewritten in one transaction; live work waits for it */
#define PAGE_SCANNED 10000       /* scanned per page, when most views are new already */
#define PAGE_BYTES (16ul << 20)  /* of new views, and one more view */
#define ARENA_BYTES (64ul << 20) /* the views with their names and keys */

/* The next old views, and their new contents. */
typedef struct view_page {
    const ef__program *program;
    ef__folder *folder;
    ef__match *match;
    ef__arena arena; /* of the changes */
    ef__view_change *changes;
    size_t count, scanned, bytes;
    bool full; /* more views may follow */
    ef__scan_place place;
    ef_status st; /* of a failure during the scan */
    ef_error *err;
} view_page;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while migrating views");
}

/* --- does it migrate? ------------------------------------------------------------------------- */

bool ef__live_migrates(const ef__live *live)
{
    const ef__generation *generation = live->generation;

    return generation->state != EF__GENERATION_LIVE && !ef__generation_in_c(generation) &&
           generation->schema < ef__program_schema(live->program);
}

ef_status ef__generation_migrates(ef_engine *engine, const ef__generation *generation, bool *out,
                                  ef_error *err)
{
    ef__live live = {.generation = generation};
    ef_status st;

    *out = false;
    if (generation->state == EF__GENERATION_LIVE || ef__generation_in_c(generation))
        return EF_OK; /* the common case, which needs no program */
    st = ef__engine_program(engine, generation, &live.program, err);
    *out = st == EF_OK && ef__live_migrates(&live);
    return st;
}

ef_status ef__generation_check_migrated(ef_engine *engine, const ef__generation *generation,
                                        ef_error *err)
{
    bool migrates;
    ef_status st = ef__generation_migrates(engine, generation, &migrates, err);

    if (st != EF_OK || !migrates)
        return st;
    return ef_fail(
        err, EF_BUSY,
        "the views of projection \"%.*s\" are being migrated: query again when it is live",
        EF_STR_ARG(generation->name));
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

ef_status ef__view_migrate(ef_engine *engine, const ef__generation *generation, ef__arena *arena,
                           ef__view *view, ef_error *err)
{
    const ef__program *program;
    ef__folder *folder;
    ef_status st;

    /* A snapshot may have a view that is older than the generation's record. */
    if (ef__generation_in_c(generation) ||
        (generation->state == EF__GENERATION_LIVE && view->schema >= generation->schema))
        return EF_OK;
    st = ef__engine_program(engine, generation, &program, err);
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

/* --- a page of views -------------------------------------------------------------------------- */

static ef_status change_view(view_page *page, const ef__view *view)
{
    ef__view_change *change = &page->changes[page->count];

    *change = (ef__view_change){.view = *view, .before = {view->digest[0], view->digest[1]}};
    change->view.schema = (int32_t)ef__program_schema(page->program);
    if (ef__arena_own(&page->arena, NULL, &change->view.tenant, &change->view.id, NULL) != EF_OK)
        return no_memory(page->err);
    ef_status st = migrate_data(page->folder, view, &page->arena, &change->view.data, page->err);
    if (st == EF_OK)
        st = ef__index_keys(page->program, page->match, &page->arena, change, page->err);
    page->count += st == EF_OK;
    page->bytes += change->view.data.len;
    return st;
}

void ef__scan_place_move(ef__scan_place *place, const ef__view *view)
{
    place->begun = true;
    place->tenant_len = view->tenant.len;
    place->id_len = view->id.len;
    if (view->tenant.len)
        memcpy(place->tenant, view->tenant.ptr, view->tenant.len);
    memcpy(place->id, view->id.ptr, view->id.len);
}

static bool add_old_view(void *context, ef_str key, const ef__view *view)
{
    view_page *page = context;

    (void)key;
    page->full =
        page->count == PAGE_VIEWS || page->scanned == PAGE_SCANNED || page->bytes >= PAGE_BYTES;
    if (page->full)
        return false;
    page->scanned++;
    if (view->schema < ef__program_schema(page->program))
        page->st = change_view(page, view);
    if (page->st == EF_OK)
        ef__scan_place_move(&page->place, view);
    return page->st == EF_OK;
}

static ef_status read_page(ef_engine *engine, const ef__generation *generation, view_page *page)
{
    const ef__scan_place from =
        page->place; /* the scan borrows it, while its callback moves page->place */
    ef_status st;

    ef__arena_reset(&page->arena);
    page->changes = ef__arena_alloc(&page->arena, PAGE_VIEWS * sizeof *page->changes);
    if (!page->changes)
        return no_memory(page->err);
    page->count = page->scanned = page->bytes = 0;
    page->full = false;
    page->st = EF_OK;
    st = engine->views->ops->view_scan(engine->views, &EF__SCAN_FROM(generation->id, &from),
                                       add_old_view, page, page->err);
    return st == EF_OK ? page->st : st;
}

static ef_status open_page(view_page *p, const ef__program *program, ef_error *err)
{
    ef_status st;

    *p = (view_page){.program = program, .arena = EF__ARENA_INIT(ARENA_BYTES), .err = err};
    st = ef__folder_open(&(ef__folder_options){.program = program}, &p->folder, err);
    return st == EF_OK ? ef__match_open(&p->match, err) : st;
}

static void close_page(view_page *page)
{
    ef__folder_close(page->folder);
    ef__match_close(page->match);
    ef__arena_release(&page->arena);
}

ef_status ef__migration_dry_run(ef_engine *engine, const ef__generation *generation,
                                const ef__program *program, ef_error *err)
{
    view_page page;
    ef_status st = open_page(&page, program, err);

    do {
        if (st == EF_OK)
            st = read_page(engine, generation, &page);
    } while (st == EF_OK && page.full);
    close_page(&page);
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

static ef_status commit_page(ef_engine *engine, const ef__generation *generation,
                             const ef__scope *scope, const view_page *page, ef_error *err)
{
    ef__fence fence = {ef_str_from(scope->fence), scope->token};

    /* Not durable: after a power cut the views are old again, and their schema shows it. */
    return engine->views->ops->commit(
        engine->views,
        &(ef__views_commit){.no_sync = true,
                            .fences = &fence,
                            .fence_count = 1,
                            .generations = &(ef__generation_change){.generation = generation->id,
                                                                    .era = generation->era,
                                                                    .views = page->changes,
                                                                    .view_count = page->count},
                            .generation_count = 1},
        err);
}

static ef_status finish_migration(ef_engine *engine, const ef__live *live, ef_error *err)
{
    ef__generation whole = *live->generation;
    ef_status st;

    whole.schema = (int32_t)ef__program_schema(live->program);
    st = engine->views->ops->generation_change(engine->views, whole.id, whole.era, whole.state,
                                               &whole, err);
    if (st == EF_OK)
        ef__log(engine->options.log, EF_LOG_INFO, "views migrated",
                EF_LOG_TEXT_FIELD("projection", whole.name),
                EF_LOG_NUMBER_FIELD("schema", whole.schema));
    return st;
}

ef_status ef__migration_step(ef_engine *engine, const ef__live *live, ef__scope *scope,
                             ef_tick *tick, ef_error *err)
{
    const ef__generation *generation = live->generation;
    view_page page;
    ef_status st = open_page(&page, live->program, err);

    page.place = scope->place.era == generation->era ? scope->place
                                                     : (ef__scan_place){.era = generation->era};
    if (st == EF_OK)
        st = read_page(engine, generation, &page);
    if (st == EF_OK && page.count)
        st = commit_page(engine, generation, scope, &page, err);
    if (st == EF_OK) {
        scope->place = page.place;
        tick->more = true;
    }
    if (st == EF_OK && !page.full)
        st = finish_migration(engine, live, err);
    ef__read_targets_invalidate(engine);
    close_page(&page);
    return st == EF_BAD_INPUT ? ef__scope_failed(engine, scope, generation, tick, err) : st;
}
