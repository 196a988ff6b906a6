/*
 * lane.c - the memory journal's lanes: a queue per partition, its offset, and the lane's settings.
 *
 * Per lane and partition: all rows lie above the offset, and offset <= in_flight_upto while a batch
 * is in flight. Appends add the rows (append.c), claim.c claims them, ack.c moves the offset.
 */
#include "memory.h"

#include "../refusal.h"

#include <assert.h>
#include <stdlib.h>

int64_t ef__mem_lane_find(const mem_journal *mem, ef_str name)
{
    for (size_t i = 0; i < mem->lane_count; i++)
        if (ef_str_equal(mem->lanes[i].name, name))
            return (int64_t)i;
    return -1;
}

static const ef__texts lane_texts = {4,
                                     {offsetof(mem_lane, name), offsetof(mem_lane, types),
                                      offsetof(mem_lane, settings), offsetof(mem_lane, progress)}};

/* The lane must have no rows: they are freed by close. */
void ef__mem_lane_free(mem_lane *lane)
{
    ef__mem_texts_free(lane, &lane_texts);
    free(lane->parts);
}

ef_status ef__mem_lane_add(mem_journal *mem, const ef_lane *lane, ef_error *err)
{
    mem_lane made = {.name = lane->name,
                     .types = lane->types,
                     .settings = lane->settings,
                     .kind = lane->kind,
                     .enabled = lane->enabled,
                     .retain_us = lane->retain_us};

    if (!ef__mem_grow((void **)&mem->lanes, &mem->lane_cap, mem->lane_count + 1,
                      sizeof *mem->lanes) ||
        !ef__mem_texts_own(&made, &lane_texts))
        return ef__mem_no_memory(err);
    made.parts = calloc(EF_LIMIT_PARTITIONS, sizeof *made.parts);
    if (!made.parts) {
        ef__mem_lane_free(&made);
        return ef__mem_no_memory(err);
    }
    mem->lanes[mem->lane_count++] = made;
    return EF_OK;
}

static bool matches_expected(const mem_lane *lane, const ef_lane *expected)
{
    return lane->enabled == expected->enabled && lane->retain_us == expected->retain_us &&
           ef_str_equal(lane->types, expected->types) &&
           ef_str_equal(lane->settings, expected->settings);
}

ef_status ef__mem_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                           ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t found = ef__mem_lane_find(mem, lane->name);

    if (expected && (found < 0 || !matches_expected(&mem->lanes[found], expected)))
        return ef__lane_changed(lane->name, err);
    if (found < 0)
        return ef__mem_lane_add(mem, lane, err);
    /* The kind decides which leases guard the rows: under another no worker could claim them. */
    if (mem->lanes[found].kind != lane->kind)
        return ef__refuse_lane_kind(lane->name, err);
    if (!ef__mem_text_set(&mem->lanes[found].types, lane->types) ||
        !ef__mem_text_set(&mem->lanes[found].settings, lane->settings))
        return ef__mem_no_memory(err);
    mem->lanes[found].enabled = lane->enabled;
    mem->lanes[found].retain_us = lane->retain_us;
    return EF_OK;
}

static int compare_lanes(const void *a, const void *b)
{
    return ef__str_compare(((const ef_lane *)a)->name, ((const ef_lane *)b)->name);
}

ef_status ef__mem_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    static const ef__texts listed = {4,
                                     {offsetof(ef_lane, name), offsetof(ef_lane, types),
                                      offsetof(ef_lane, settings), offsetof(ef_lane, progress)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < mem->lane_count; i++) {
        const mem_lane *lane = &mem->lanes[i];
        st = ef__list_add(out,
                          (&(ef_lane){.name = lane->name,
                                      .kind = lane->kind,
                                      .enabled = lane->enabled,
                                      .types = lane->types,
                                      .settings = lane->settings,
                                      .retain_us = lane->retain_us,
                                      .progress = lane->progress}),
                          &listed, err);
    }
    if (st == EF_OK)
        qsort((void *)out->items, out->count, sizeof *out->items, compare_lanes);
    return st;
}

/* The index of a publisher's lane; EF_NOT_FOUND, or EF_BAD_INPUT for a lane of another kind. */
static ef_status find_publisher(mem_journal *mem, ef_str name, size_t *out, ef_error *err)
{
    int64_t found = ef__mem_lane_find(mem, name);

    if (found < 0)
        return ef__refuse_unknown("lane", name, err);
    *out = (size_t)found;
    return ef__lane_publishes(name, mem->lanes[found].kind, err);
}

/* --- dropping a lane -------------------------------------------------------------------------- */

static int64_t count_lane_rows(const mem_journal *mem, size_t lane)
{
    int64_t rows = 0;

    for (size_t p = 0; p < EF_LIMIT_PARTITIONS; p++)
        rows += (int64_t)(mem->lanes[lane].parts[p].count - mem->lanes[lane].parts[p].first);
    for (size_t i = 0; i < mem->retry_row_count; i++)
        rows += mem->retry_rows[i].lane == lane;
    return rows;
}

static void clear_lane(mem_journal *mem, size_t lane)
{
    mem_lane *row = &mem->lanes[lane];
    size_t kept = 0;

    for (size_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        mem_part *part = &row->parts[p];
        part->first = part->count = 0;
        part->in_flight_upto = part->suspect_upto = 0;
    }
    for (size_t i = 0; i < mem->retry_row_count; i++) {
        if (mem->retry_rows[i].lane == lane)
            ef__mem_text_free(&mem->retry_rows[i].error);
        else
            mem->retry_rows[kept++] = mem->retry_rows[i];
    }
    mem->retry_row_count = kept;
    kept = 0;
    for (size_t i = 0; i < mem->published_count; i++)
        if (mem->published[i].lane != lane)
            mem->published[kept++] = mem->published[i];
    mem->published_count = kept;
    row->enabled = false;
    row->retain_us = 0;
    ef__mem_text_free(&row->types);
    ef__mem_text_free(&row->settings);
    ef__mem_text_free(&row->progress);
}

ef_status ef__mem_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                            ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    size_t at = 0;
    ef_status st = find_publisher(mem, lane, &at, err);

    if (st != EF_OK)
        return st;
    *out_rows = count_lane_rows(mem, at);
    st = ef__lane_drop_check(lane, *out_rows, discard, err);
    if (st == EF_OK)
        clear_lane(mem, at);
    return st;
}

void ef__mem_lanes_release(mem_journal *mem)
{
    for (size_t i = 0; i < mem->lane_count; i++) {
        for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++)
            free(mem->lanes[i].parts[p].rows);
        ef__mem_lane_free(&mem->lanes[i]);
    }
    for (size_t i = 0; i < mem->retry_row_count; i++)
        ef__mem_text_free(&mem->retry_rows[i].error);
    free(mem->lanes);
    free(mem->retry_rows);
    free(mem->published);
}

/* --- published rows --------------------------------------------------------------------------- */

ef_status ef__mem_published_reserve(mem_journal *mem, size_t count, ef_error *err)
{
    return ef__mem_grow((void **)&mem->published, &mem->published_cap, mem->published_count + count,
                        sizeof *mem->published)
               ? EF_OK
               : ef__mem_no_memory(err);
}

void ef__mem_published_add(mem_journal *mem, size_t lane, int64_t position, int64_t now_us)
{
    assert(mem->published_count < mem->published_cap);
    mem->published[mem->published_count++] = (mem_published){lane, position, now_us};
}

static ef_status find_held(mem_journal *mem, ef_str name, const ef_partition_lease *held,
                           size_t *out, ef_error *err)
{
    ef_status st = find_publisher(mem, name, out, err);

    return st == EF_OK ? ef__mem_leases_check(mem, &mem->lanes[*out], held, 1, err) : st;
}

ef_status ef__mem_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                  size_t limit, int64_t *out_count, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0, looked = 0;
    ef_status st = find_held(mem, lane, held, &of, err);
    int64_t before_us = st == EF_OK ? ef__mem_now(mem) - mem->lanes[of].retain_us : 0;

    for (size_t i = 0; st == EF_OK && i < mem->published_count && looked < limit;) {
        bool ours = mem->published[i].lane == of;
        looked += ours;
        if (ours && mem->published[i].at_us < before_us) {
            ef__mem_remove(mem->published, &mem->published_count, i, sizeof *mem->published);
            (*out_count)++;
        } else {
            i++;
        }
    }
    return st;
}

/* The published event with the lowest position. */
static bool lowest_published(const mem_journal *mem, size_t lane, size_t *out)
{
    bool found = false;

    for (size_t i = 0; i < mem->published_count; i++)
        if (mem->published[i].lane == lane &&
            (!found || mem->published[i].position < mem->published[*out].position)) {
            *out = i;
            found = true;
        }
    return found;
}

ef_status ef__mem_published_requeue(ef_journal *journal, ef_str lane,
                                    const ef_partition_lease *held, size_t limit,
                                    int64_t *out_count, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0, at = 0;
    ef_status st = find_held(mem, lane, held, &of, err);

    for (size_t n = 0; st == EF_OK && n < limit && lowest_published(mem, of, &at); n++) {
        st = ef__mem_retry_row_requeue(mem, of, mem->published[at].position, err);
        if (st == EF_OK) {
            ef__mem_remove(mem->published, &mem->published_count, at, sizeof *mem->published);
            (*out_count)++;
        }
    }
    return st;
}

ef_status ef__mem_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                  ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0;
    ef_status st = find_publisher(mem, lane, &of, err);

    for (size_t i = 0; st == EF_OK && i < mem->published_count && *out_count < (int64_t)most; i++)
        *out_count += mem->published[i].lane == of;
    return st;
}
