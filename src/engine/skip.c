/*
 * skip.c - see skip.h.
 *
 * Skips are few: each is an action of a person. All of a version are kept in memory once it is
 * folded from scratch or has a row to be tried, and only entries that were added since then are
 * read.
 */
#include "skip.h"
#include "lane.h"
#include "run.h"

#include "../base/limits.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define SKIPS_AT_ONCE 1000
#define SKIPS_BYTES (256ul << 20) /* of one version: about a million */

typedef struct skip {
    ef_str tenant, stream;
    int64_t seq;
    bool withdrawn;
} skip;

struct ef__skips {
    int32_t version;
    ef_str projection;
    int64_t read_to; /* id of the last entry that was read */
    skip *items;     /* in order */
    size_t count;
    ef__arena arena; /* of the strings */
    ef__skips *next;
};

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out for what operators have skipped");
}

static int compare(const void *left, const void *right)
{
    const skip *a = left, *b = right;
    int order = ef__str_compare(a->stream, b->stream);

    if (order == 0)
        order = ef__str_compare(a->tenant, b->tenant);
    return order != 0 ? order : (a->seq > b->seq) - (a->seq < b->seq);
}

/* Those of the generation's version; made when it is the first time. Under the lock. */
static ef__skips *of_version(ef_engine *e, const ef__generation *g)
{
    ef__skips *s;

    for (s = e->skips; s; s = s->next)
        if (s->version == g->version && ef_str_equal(s->projection, g->name))
            return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->arena = (ef__arena)EF__ARENA_INIT(SKIPS_BYTES);
    s->version = g->version;
    s->projection = ef__arena_copy(&s->arena, g->name);
    if (!s->projection.ptr) {
        free(s);
        return NULL;
    }
    s->next = e->skips;
    e->skips = s;
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* `sorted` items are in order, and behind them come those of the page that is being added. */
static skip *find_item(const ef__skips *s, size_t sorted, const skip *wanted)
{
    skip *found = sorted ? bsearch(wanted, s->items, sorted, sizeof *s->items, compare) : NULL;

    for (size_t i = sorted; !found && i < s->count; i++)
        if (compare(&s->items[i], wanted) == 0)
            found = &s->items[i];
    return found;
}

/* Under the lock. */
static bool add_page(ef__skips *s, const ef__skip_list *page)
{
    skip *items = realloc(s->items, (s->count + page->count) * sizeof *items);
    size_t sorted = s->count;

    if (!items)
        return false;
    s->items = items;
    for (size_t i = 0; i < page->count; i++) {
        const ef__skip *entry = &page->items[i];
        skip one = {entry->tenant, entry->stream, entry->seq, entry->withdrawn};
        skip *known = find_item(s, sorted, &one);
        if (known) {
            known->withdrawn = entry->withdrawn;
            continue;
        }
        one.tenant = ef__arena_copy(&s->arena, entry->tenant);
        one.stream = ef__arena_copy(&s->arena, entry->stream);
        if (!one.tenant.ptr || !one.stream.ptr)
            return false;
        items[s->count++] = one;
    }
    qsort(items, s->count, sizeof *items, compare);
    return true;
}

static ef_status read_new(ef_engine *e, ef__skips *s, ef_error *err)
{
    ef__skip_list page = {0};
    ef_status st;

    do {
        st = ef__skip_ls(e->journal, s->projection, s->version, s->read_to, SKIPS_AT_ONCE, &page,
                         err);
        if (st == EF_OK && page.count) {
            st = add_page(s, &page) ? EF_OK : no_memory(err);
            s->read_to = st == EF_OK ? page.items[page.count - 1].id : s->read_to;
        }
    } while (st == EF_OK && page.count == SKIPS_AT_ONCE);
    ef__room_release(&page.room);
    return st;
}

ef_status ef__skips_read(ef_engine *e, const ef__generation *g, ef__skips **out, ef_error *err)
{
    ef__skips *s;
    ef_status st;

    pthread_mutex_lock(&e->skipping);
    s = of_version(e, g);
    st = s ? read_new(e, s, err) : no_memory(err);
    *out = st == EF_OK && s->count ? s : NULL;
    pthread_mutex_unlock(&e->skipping);
    return st;
}

bool ef__skips_has(ef_engine *e, const ef__skips *s, const ef_event *event)
{
    const skip *found;

    if (!s)
        return false;
    pthread_mutex_lock(&e->skipping);
    found = find_item(s, s->count, &(skip){event->tenant, event->stream, event->seq, false});
    bool passes = found && !found->withdrawn;
    pthread_mutex_unlock(&e->skipping);
    return passes;
}

ef_status ef__skips_add(ef_engine *e, const ef__generation *g, const ef_event *event, ef_str reason,
                        ef_error *err)
{
    ef__skips *known;
    ef_status st = ef__skips_read(e, g, &known, err);

    if (st != EF_OK || ef__skips_has(e, known, event))
        return st;
    return e->journal->ops->skip_add(e->journal,
                                     &(ef__skip_entry){.projection = g->name,
                                                       .version = g->version,
                                                       .tenant = event->tenant,
                                                       .stream = event->stream,
                                                       .seq = event->seq,
                                                       .actor = ef_str_from(e->worker),
                                                       .reason = reason},
                                     err);
}

void ef__skips_release(ef_engine *e)
{
    while (e->skips) {
        ef__skips *next = e->skips->next;
        ef__arena_release(&e->skips->arena);
        free(e->skips->items);
        free(e->skips);
        e->skips = next;
    }
}

/* --- which versions --------------------------------------------------------------------------- */

/* Where a generation is, as seen from an event of a stream. */
typedef enum place { PLACE_BEFORE, PLACE_AT, PLACE_PAST } place;

static ef_status place_of(ef_engine *e, const ef__generation *g, const ef_row *row, place *out,
                          ef_error *err)
{
    ef__watermark mark = {.expected_next_seq = 1};
    bool found;
    ef_status st =
        e->views->ops->watermark_get(e->views, g->id, row->tenant, row->stream, &mark, &found, err);
    int64_t next = ef__watermark_held(&mark) ? mark.expected_next_seq : mark.applied_seq + 1;

    *out = next == row->seq ? PLACE_AT : next > row->seq ? PLACE_PAST : PLACE_BEFORE;
    return st;
}

static bool may_be_blocked(const ef__generation_list *list, const ef__generation *g)
{
    return g->state != EF__GENERATION_CATCHING_UP && ef__generation_keeps_rows(list, g);
}

/* Has any generation of the version the event? */
static ef_status is_past(ef_engine *e, const ef__generation_list *list, int32_t version,
                         const ef_row *row, bool *out, ef_error *err)
{
    place at = PLACE_BEFORE;
    ef_status st = EF_OK;

    *out = false;
    for (size_t i = 0; st == EF_OK && !*out && i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        if (g->version != version || g->state == EF__GENERATION_RETIRED ||
            !ef_str_equal(g->name, row->lane))
            continue;
        st = place_of(e, g, row, &at, err);
        *out = st == EF_OK && at == PLACE_PAST;
    }
    return st;
}

static bool is_listed(const int32_t *versions, size_t count, int32_t version)
{
    for (size_t i = 0; i < count; i++)
        if (versions[i] == version)
            return true;
    return false;
}

ef_status ef__versions_blocked(ef_engine *e, const ef__generation_list *list, const ef_row *row,
                               ef__arena *arena, const int32_t **out, size_t *out_count,
                               ef_error *err)
{
    int32_t *versions = ef__arena_zalloc(arena, list->count + 1, sizeof *versions);
    ef_status st = versions ? EF_OK : ef__room_full(err);
    size_t count = 0;

    /* A row that never failed is only waiting for its turn. */
    for (size_t i = 0; st == EF_OK && row->attempt_count > 0 && i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        place at = PLACE_BEFORE;
        bool past = false;
        if (!ef_str_equal(g->name, row->lane) || !may_be_blocked(list, g) ||
            is_listed(versions, count, g->version))
            continue;
        st = place_of(e, g, row, &at, err);
        if (st == EF_OK && at == PLACE_AT)
            st = is_past(e, list, g->version, row, &past, err);
        if (st == EF_OK && at == PLACE_AT && !past)
            versions[count++] = g->version;
    }
    *out = versions;
    *out_count = count;
    return st;
}

/* --- for operators ---------------------------------------------------------------------------- */

static ef_status read_all(ef_engine *e, ef__generation_list *list, ef_error *err)
{
    ef_status st = ef__room_ready(&list->room, err);

    return st == EF_OK ? e->views->ops->generation_ls(e->views, (ef_str){0}, list, err) : st;
}

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

ef_status ef_projection_skip(ef_engine *e, const ef_outbox_act *act, ef_row_list *out,
                             ef_error *err)
{
    ef__generation_list list = {0};
    ef_row_list rows = {0};
    ef_outbox_act chosen;
    ef_status st;

    if (!e || !act || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, act or out is NULL");
    chosen = *act;
    st = read_all(e, &list, err);
    if (st == EF_OK && is_projection(&list, act->lane)) {
        st = ef__rows_of_event(e, act, &rows, err);
        if (st == EF_OK && rows.count)
            st = ef__versions_blocked(e, &list, &rows.items[0], &rows.room->arena, &chosen.versions,
                                      &chosen.version_count, err);
        if (st == EF_OK && rows.count && !chosen.version_count)
            st = not_blocked(&rows.items[0], err);
        if (st == EF_OK && !rows.count)
            st = ef__act_on_nothing(act, false, err);
    }
    if (st == EF_OK)
        st = ef_outbox_skip(e->journal, &chosen, out, err);
    ef_row_list_release(&rows);
    ef__room_release(&list.room);
    return st;
}

typedef struct bulk_skip {
    ef_engine *engine;
    ef__generation_list list;
} bulk_skip;

static ef_status choose_versions(void *context, const ef_row *row, ef__arena *arena,
                                 ef__revised *revised, bool *wanted, ef_error *err)
{
    bulk_skip *bulk = context;
    ef_status st;

    if (!is_projection(&bulk->list, row->lane))
        return EF_OK;
    st = ef__versions_blocked(bulk->engine, &bulk->list, row, arena, &revised->versions,
                              &revised->version_count, err);
    *wanted = st == EF_OK && revised->version_count > 0;
    return st;
}

ef_status ef_projection_skip_dead(ef_engine *e, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err)
{
    bulk_skip context = {.engine = e};
    ef__bulk_run run = {.what = EF__REVISION_SKIP,
                        .word = "skip",
                        .bulk = bulk,
                        .choose = choose_versions,
                        .context = &context,
                        .out = out};
    ef_status st;

    if (!e || !bulk || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, bulk or out is NULL");
    if (e->options.read_only && !bulk->dry_run)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (bulk->lane.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "lane is missing: a skip is of one lane");
    if (bulk->reason.len == 0 && !bulk->dry_run)
        return ef_fail(err, EF_BAD_INPUT, "reason is missing: a skip says why");
    st = read_all(e, &context.list, err);
    if (st == EF_OK)
        st = ef__bulk_revise(e->journal, &run, err);
    if (out_count)
        *out_count = run.count;
    ef__room_release(&context.list.room);
    return st;
}
