/*
 * skip.c - see apply.h.
 *
 * Skips are few: each is an operator's action. All skips of a version are kept in memory once it is
 * folded from scratch or has a row to retry; after that only new entries are read.
 */
#include "apply.h"
#include "queue.h"
#include "run.h"

#include "../base/limits.h"
#include "../base/pair_map.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define SKIPS_AT_ONCE 1000
#define SKIPS_BYTES (256ul << 20) /* of one version: about a million */

/* A skip of a stream. */
typedef struct skip {
    int64_t seq;
    bool withdrawn;
    struct skip *next;
} skip;

struct ef__skips {
    int32_t version;
    ef_str projection;
    int64_t read_to;      /* id of the last entry that was read */
    ef__pair_map streams; /* skip *, by stream */
    ef__arena arena;
    ef__skips *next;
};

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out for what operators have skipped");
}

/* The skips of the generation's version, created on first use. The caller holds skips_lock. */
static ef__skips *skips_of_version(ef_engine *engine, const ef__generation *generation)
{
    ef__skips *skips;

    for (skips = engine->skips; skips; skips = skips->next)
        if (skips->version == generation->version &&
            ef_str_equal(skips->projection, generation->name))
            return skips;
    skips = calloc(1, sizeof *skips);
    if (!skips)
        return NULL;
    skips->arena = (ef__arena)EF__ARENA_INIT(SKIPS_BYTES);
    skips->streams = (ef__pair_map)EF__PAIR_MAP_INIT(skip *, SKIPS_BYTES);
    skips->version = generation->version;
    skips->projection = ef__arena_copy(&skips->arena, generation->name);
    if (!skips->projection.ptr) {
        free(skips);
        return NULL;
    }
    skips->next = engine->skips;
    engine->skips = skips;
    return skips;
}

/* --- reading ---------------------------------------------------------------------------------- */

static skip *find_skip(skip *of_stream, int64_t seq)
{
    while (of_stream && of_stream->seq != seq)
        of_stream = of_stream->next;
    return of_stream;
}

/* The caller holds skips_lock. */
static bool add_entry(ef__skips *skips, const ef__skip *entry)
{
    bool is_new;
    skip **first = ef__pair_map_at(&skips->streams, entry->tenant, entry->stream, &is_new);
    skip *known = first ? find_skip(*first, entry->seq) : NULL;

    if (first && !known && (known = ef__arena_alloc(&skips->arena, sizeof *known)) != NULL) {
        *known = (skip){.seq = entry->seq, .next = *first};
        *first = known;
    }
    if (known)
        known->withdrawn = entry->withdrawn;
    return known != NULL;
}

static ef_status read_new(ef_engine *engine, ef__skips *skips, ef_error *err)
{
    ef__skip_list page = {0};
    ef_status st;

    do {
        st = ef__skip_ls(engine->journal, skips->projection, skips->version, skips->read_to,
                         SKIPS_AT_ONCE, &page, err);
        for (size_t i = 0; st == EF_OK && i < page.count; i++) {
            st = add_entry(skips, &page.items[i]) ? EF_OK : no_memory(err);
            skips->read_to = st == EF_OK ? page.items[i].id : skips->read_to;
        }
    } while (st == EF_OK && page.count == SKIPS_AT_ONCE);
    ef_memory_release(&page.room);
    return st;
}

ef_status ef__skips_read(ef_engine *engine, const ef__generation *generation, ef__skips **out,
                         ef_error *err)
{
    ef__skips *skips;
    ef_status st;

    pthread_mutex_lock(&engine->skips_lock);
    skips = skips_of_version(engine, generation);
    st = skips ? read_new(engine, skips, err) : no_memory(err);
    *out = st == EF_OK && skips->streams.count ? skips : NULL;
    pthread_mutex_unlock(&engine->skips_lock);
    return st;
}

bool ef__skips_has(ef_engine *engine, const ef__skips *skips, const ef_event *event)
{
    skip *const *first;
    const skip *found;

    if (!skips)
        return false;
    pthread_mutex_lock(&engine->skips_lock);
    first = ef__pair_map_find(&skips->streams, event->tenant, event->stream);
    found = first ? find_skip(*first, event->seq) : NULL;
    bool passes = found && !found->withdrawn;
    pthread_mutex_unlock(&engine->skips_lock);
    return passes;
}

ef_status ef__skips_add(ef_engine *engine, const ef__generation *generation, const ef_event *event,
                        ef_str reason, ef_error *err)
{
    ef__skips *known;
    ef_status st = ef__skips_read(engine, generation, &known, err);

    if (st != EF_OK || ef__skips_has(engine, known, event))
        return st;
    return ef__skip_add(engine->journal,
                        &(ef__skip_entry){.projection = generation->name,
                                          .version = generation->version,
                                          .tenant = event->tenant,
                                          .stream = event->stream,
                                          .seq = event->seq,
                                          .actor = ef_str_from(engine->worker),
                                          .reason = reason},
                        err);
}

void ef__skips_release(ef_engine *engine)
{
    while (engine->skips) {
        ef__skips *next = engine->skips->next;
        ef__arena_release(&engine->skips->arena);
        ef__pair_map_release(&engine->skips->streams);
        free(engine->skips);
        engine->skips = next;
    }
}

/* --- blocked versions ------------------------------------------------------------------------- */

/* The position of a generation relative to an event of a stream. */
typedef enum place { PLACE_BEFORE, PLACE_AT, PLACE_PAST } skip_place;

static ef_status place_of(ef_engine *engine, const ef__generation *generation, const ef_row *row,
                          skip_place *out, ef_error *err)
{
    ef__watermark watermark;
    ef_status st =
        ef__watermark_read(engine, generation, row->tenant, row->stream, &watermark, err);
    int64_t next = ef__watermark_is_blocked(&watermark) ? watermark.expected_next_seq
                                                        : watermark.applied_seq + 1;

    *out = next == row->seq ? PLACE_AT : next > row->seq ? PLACE_PAST : PLACE_BEFORE;
    return st;
}

static bool may_be_blocked(const ef__generation_list *list, const ef__generation *generation)
{
    return generation->state != EF__GENERATION_CATCHING_UP &&
           ef__generation_keeps_rows(list, generation);
}

/* Is the version blocked at exactly the event of the row? */
static ef_status is_blocked(ef_engine *engine, const ef__generation_list *list, int32_t version,
                            const ef_row *row, bool *out, ef_error *err)
{
    bool at = false, past = false;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && !past && i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        skip_place place;
        if (generation->version != version || generation->state == EF__GENERATION_RETIRED ||
            !ef_str_equal(generation->name, row->lane))
            continue;
        st = place_of(engine, generation, row, &place, err);
        at = at || (place == PLACE_AT && may_be_blocked(list, generation));
        past = place == PLACE_PAST;
    }
    *out = st == EF_OK && at && !past;
    return st;
}

static bool is_listed(const int32_t *versions, size_t count, int32_t version)
{
    for (size_t i = 0; i < count; i++)
        if (versions[i] == version)
            return true;
    return false;
}

/*
 * The versions of a row's projection that are blocked at exactly its event, in the arena. A version
 * is blocked if a generation of it that keeps rows has everything before the event and has failed
 * on it, and no generation of it has the event. A generation that is catching up is never blocked.
 */
static ef_status versions_blocked(ef_engine *engine, const ef__generation_list *list,
                                  const ef_row *row, ef__arena *arena, const int32_t **out,
                                  size_t *out_count, ef_error *err)
{
    int32_t *versions = ef__arena_zalloc(arena, list->count + 1, sizeof *versions);
    ef_status st = versions ? EF_OK : ef__no_memory(err);
    size_t count = 0;

    /* A row that never failed is only blocked behind another one. */
    for (size_t i = 0; st == EF_OK && row->attempt_count > 0 && i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        bool blocked;
        if (!ef_str_equal(generation->name, row->lane) || !may_be_blocked(list, generation) ||
            is_listed(versions, count, generation->version))
            continue;
        st = is_blocked(engine, list, generation->version, row, &blocked, err);
        if (blocked)
            versions[count++] = generation->version;
    }
    *out = versions;
    *out_count = count;
    return st;
}

/* --- for operators ---------------------------------------------------------------------------- */

static bool is_projection(const ef__generation_list *list, ef_str lane)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].name, lane))
            return true;
    return false;
}

static ef_status not_blocked(const ef_row *row, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT,
                   "projection \"%.*s\" is not blocked at stream \"%.*s\" seq %" PRId64
                   ": %s; nothing was skipped",
                   EF_STR_ARG(row->lane), EF_STR_ARG(row->stream), row->seq,
                   row->attempt_count > 0
                       ? "no version of it has failed on this event and waits for it"
                       : "the event has not failed");
}

ef_status ef_projection_skip(ef_engine *engine, const ef_outbox_action *act, ef_row_list *out,
                             ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    EF__AUTO(ef_row_list) rows = {0};
    ef_outbox_action chosen;
    ef_status st;

    if (!engine || !act || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, act or out is NULL");
    chosen = *act;
    st = ef__engine_generations(engine, (ef_str){0}, &list, err);
    if (st == EF_OK && is_projection(&list, act->lane)) {
        st = ef__retry_rows_of_event(engine, act, &rows, err);
        if (st == EF_OK && rows.count)
            st = versions_blocked(engine, &list, &rows.items[0], &rows.room->arena,
                                  &chosen.versions, &chosen.version_count, err);
        if (st == EF_OK && rows.count && !chosen.version_count)
            st = not_blocked(&rows.items[0], err);
        if (st == EF_OK && !rows.count)
            st = ef__no_retry_row(act, false, err);
    }
    return st == EF_OK ? ef__outbox_skip(engine->journal, &chosen, out, err) : st;
}

typedef struct bulk_skip {
    ef_engine *engine;
    ef__generation_list list;
} bulk_skip;

static ef_status choose_versions(void *context, const ef_row *row, ef__arena *arena,
                                 ef__revised_row *revised, bool *wanted, ef_error *err)
{
    bulk_skip *bulk = context;
    ef_status st;

    if (!is_projection(&bulk->list, row->lane))
        return EF_OK;
    st = versions_blocked(bulk->engine, &bulk->list, row, arena, &revised->versions,
                          &revised->version_count, err);
    *wanted = st == EF_OK && revised->version_count > 0;
    return st;
}

ef_status ef_projection_skip_dead(ef_engine *engine, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err)
{
    bulk_skip context = {.engine = engine};
    ef__bulk_run run = {.what = EF__REVISION_SKIP,
                        .word = "skip",
                        .bulk = bulk,
                        .choose = choose_versions,
                        .context = &context,
                        .out = out};
    ef_status st;

    if (!engine || !bulk || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, bulk or out is NULL");
    if (engine->options.read_only && !bulk->dry_run)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (bulk->lane.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "lane is missing: a skip applies to one lane");
    if (bulk->reason.len == 0 && !bulk->dry_run)
        return ef_fail(err, EF_BAD_INPUT, "reason is missing: a skip says why");
    st = ef__engine_generations(engine, (ef_str){0}, &context.list, err);
    if (st == EF_OK)
        st = ef__bulk_revise(engine->journal, &run, err);
    if (out_count)
        *out_count = run.count;
    ef_memory_release(&context.list.room);
    return st;
}
