/*
 * follow.c - followed tenants: beginning, the record of changes, reading it.
 */
#include "memory.h"

#include "../follow.h"

#include <stdlib.h>

static const ef__texts FOLLOW = {1, {offsetof(mem_follow_row, tenant)}};

static void follow_free(mem_follow_row *f)
{
    mem_list_release(&f->records);
    free(f);
}

/* --- the record ------------------------------------------------------------------------------- */

ef__change_record *mem_record_make(const ef__view_change *change)
{
    ef__change_record record = {.position = change->view.last_position,
                                .kind = ef__change_kind_of(change),
                                .view_id = change->view.id};

    return mem_copy(sizeof record, &ef__change_texts, &record);
}

void mem_record_put(mem_store *store, mem_follow_row *f, ef__change_record *record)
{
    record->number = f->follow.last = ef__follow_next(&f->follow, mem_now_us(store));
    f->follow.kept++;
    mem_list_add(&f->records, record);
}

static void trim_changes(mem_follow_row *f)
{
    size_t over = f->records.count - EF_LIMIT_CHANGES_LEFT;

    f->follow.low = ((const ef__change_record *)f->records.items[over - 1])->number;
    f->follow.kept = EF_LIMIT_CHANGES_LEFT;
    for (size_t i = 0; i < over; i++)
        free(f->records.items[i]);
    f->records.count -= over;
    memmove(f->records.items, f->records.items + over,
            f->records.count * sizeof f->records.items[0]);
}

static void end_one(mem_store *store, mem_generation *g)
{
    int64_t now_us = mem_now_us(store);

    for (size_t i = 0; i < g->follows.count; i++) {
        mem_follow_row *f = g->follows.items[i];
        if (f->follow.until_us >= now_us)
            continue;
        if (g->follow_floor < f->follow.last)
            g->follow_floor = f->follow.last;
        (void)mem_list_remove(&g->follows, i);
        follow_free(f);
        return;
    }
}

void mem_records_tidy(mem_store *store, mem_generation *g)
{
    for (size_t i = 0; i < g->follows.count; i++) {
        mem_follow_row *f = g->follows.items[i];
        if (f->records.count > EF_LIMIT_CHANGES_KEPT)
            trim_changes(f);
    }
    end_one(store, g);
}

void mem_follows_cut(mem_generation *g, int64_t *limit)
{
    while (*limit > 0 && g->follows.count) {
        mem_follow_row *f = g->follows.items[g->follows.count - 1];
        for (; *limit > 0 && f->records.count; --*limit)
            free(mem_list_remove(&f->records, f->records.count - 1));
        if (*limit == 0)
            return;
        (void)mem_list_remove(&g->follows, g->follows.count - 1);
        follow_free(f);
        --*limit;
    }
}

/* --- beginning -------------------------------------------------------------------------------- */

static ef_status follow_begin(mem_store *store, mem_generation *g, ef_str tenant, int64_t until_us,
                              mem_follow_row **out, ef_error *err)
{
    mem_follow_row made = {.tenant = tenant, .follow = {.until_us = until_us}};

    end_one(store, g);
    if (g->follows.count >= EF_LIMIT_FOLLOWED_TENANTS)
        return ef__follow_crowded(g->about.id, err);
    made.follow.last = g->follow_floor;
    made.follow.low = made.follow.last = ef__follow_next(&made.follow, mem_now_us(store));
    *out = mem_copy(sizeof made, &FOLLOW, &made);
    if (!*out || !mem_list_reserve(&g->follows, 1)) {
        free(*out);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a follower");
    }
    mem_list_add(&g->follows, *out);
    return EF_OK;
}

ef_status mem_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                     ef__follow_row *out, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    mem_generation *g = mem_generation_find(store, generation);
    mem_follow_row *f = g ? mem_list_named(&g->follows, tenant, NULL) : NULL;
    ef_status st = EF_OK;

    if (!g)
        return ef__generation_missing(generation, err);
    if (!f) {
        st = follow_begin(store, g, tenant, until_us, &f, err);
    } else {
        f->follow.until_us = f->follow.until_us < until_us ? until_us : f->follow.until_us;
        end_one(store, g);
    }
    if (st == EF_OK)
        *out = f->follow;
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

ef_status mem_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                        size_t limit, ef__change_list *out, ef_error *err)
{
    MEM_LOCKED mem_store *store = mem_lock(views);
    const mem_generation *g = mem_generation_find(store, generation);
    const mem_follow_row *f = g ? mem_list_named(&g->follows, tenant, NULL) : NULL;
    ef_status st = ef__change_list_ready(out, err);

    if (st != EF_OK || !f)
        return st;
    out->is_followed = true;
    out->follow = f->follow;
    for (size_t i = 0; st == EF_OK && i < f->records.count && out->count < limit; i++) {
        const ef__change_record *r = f->records.items[i];
        if (r->number > after)
            st = ef__list_add(out, r, &ef__change_texts, err);
    }
    return st;
}
