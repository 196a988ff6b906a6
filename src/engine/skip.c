/*
 * skip.c - see skip.h.
 *
 * Skips are few: each is an act of a person. All of a version are kept in memory once it is folded
 * anew or has a row to be tried, and only what was noted since then is asked for.
 */
#include "skip.h"

#include "../base/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SKIPS_AT_ONCE 1000
#define SKIPS_BYTES (256ul << 20) /* of one version: about a million */

typedef struct skip {
    ef_str tenant, stream;
    int64_t seq;
} skip;

struct ef__skips {
    char act[32];
    ef_str lane;
    int64_t read_to; /* id of the last act that was looked at */
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
    char act[sizeof s->act];

    (void)snprintf(act, sizeof act, "skipped@%" PRId32, g->version);
    for (s = e->skips; s; s = s->next)
        if (strcmp(s->act, act) == 0 && ef_str_equal(s->lane, g->name))
            return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->arena = (ef__arena)EF__ARENA_INIT(SKIPS_BYTES);
    memcpy(s->act, act, sizeof act);
    s->lane = ef__arena_copy(&s->arena, g->name);
    if (!s->lane.ptr) {
        free(s);
        return NULL;
    }
    s->next = e->skips;
    e->skips = s;
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool find(const ef__skips *s, const skip *wanted)
{
    return s->count && bsearch(wanted, s->items, s->count, sizeof *s->items, compare);
}

/* Those of a page that are not known yet. Under the lock. */
static bool add_page(ef__skips *s, const ef_act_list *acts)
{
    skip *items = realloc(s->items, (s->count + acts->count) * sizeof *items);
    size_t known = s->count;

    if (!items)
        return false;
    s->items = items;
    for (size_t i = 0; i < acts->count; i++) {
        const ef_act *act = &acts->items[i];
        skip one = {act->tenant, act->stream, act->seq};
        if (known && bsearch(&one, items, known, sizeof *items, compare))
            continue;
        one.tenant = ef__arena_copy(&s->arena, act->tenant);
        one.stream = ef__arena_copy(&s->arena, act->stream);
        if (!one.tenant.ptr || !one.stream.ptr)
            return false;
        items[s->count++] = one;
    }
    qsort(items, s->count, sizeof *items, compare);
    return true;
}

/* They come newest first: only when all are here is the place behind the newest. */
static ef_status read_new(ef_engine *e, ef__skips *s, ef_error *err)
{
    ef_act_query query = {
        .act = ef_str_from(s->act), .lane = s->lane, .after = s->read_to, .limit = SKIPS_AT_ONCE};
    ef_act_list acts = {0};
    int64_t newest = s->read_to;
    ef_status st;

    do {
        st = ef_act_ls(e->journal, &query, &acts, err);
        if (st == EF_OK && acts.count) {
            newest = acts.items[0].id > newest ? acts.items[0].id : newest;
            query.before = acts.items[acts.count - 1].id;
            st = add_page(s, &acts) ? EF_OK : no_memory(err);
        }
    } while (st == EF_OK && acts.count == SKIPS_AT_ONCE);
    ef_act_list_release(&acts);
    if (st == EF_OK)
        s->read_to = newest;
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
    bool found;

    if (!s)
        return false;
    pthread_mutex_lock(&e->skipping);
    found = find(s, &(skip){event->tenant, event->stream, event->seq});
    pthread_mutex_unlock(&e->skipping);
    return found;
}

/* --- noting ----------------------------------------------------------------------------------- */

ef_status ef__skips_note(ef_engine *e, const ef__generation *g, const ef_event *event,
                         ef_error *err)
{
    ef__skips *known;
    char act[sizeof known->act];
    ef_status st = ef__skips_read(e, g, &known, err);

    if (st != EF_OK || ef__skips_has(e, known, event))
        return st;
    (void)snprintf(act, sizeof act, "skipped@%" PRId32, g->version);
    return ef_act_add(e->journal,
                      &(ef_act){.act = ef_str_from(act),
                                .who = ef_str_from(e->worker),
                                .lane = g->name,
                                .tenant = event->tenant,
                                .stream = event->stream,
                                .seq = event->seq},
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
