/*
 * lane.c - the memory journal's lanes: a queue per partition, its offset, and the lane's settings.
 *
 * Per lane and partition: all rows lie above the offset, and offset <= in_flight_upto while a batch
 * is in flight. Appends add the rows (append.c), claim.c claims them, ack.c moves the offset.
 */
#include "memory.h"

#include <stdlib.h>

int64_t ef__mem_lane_find(const mem_journal *mem, ef_str name)
{
    for (size_t i = 0; i < mem->lane_count; i++)
        if (ef_str_equal(mem->lanes[i].name, name))
            return (int64_t)i;
    return -1;
}

ef_status ef__mem_lane_missing(ef_str name, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "there is no lane \"%.*s\"", EF_STR_ARG(name));
}

/* The lane must have no rows: they are freed by close. */
void ef__mem_lane_free(mem_lane *lane)
{
    ef__mem_text_free(&lane->name);
    ef__mem_text_free(&lane->types);
    ef__mem_text_free(&lane->settings);
    ef__mem_text_free(&lane->progress);
    free(lane->parts);
}

ef_status ef__mem_lane_add(mem_journal *mem, const ef_lane *lane, ef_error *err)
{
    mem_lane made = {.kind = lane->kind, .enabled = lane->enabled, .retain_us = lane->retain_us};

    made.parts = calloc(EF_LIMIT_PARTITIONS, sizeof *made.parts);
    if (!made.parts ||
        !ef__mem_grow((void **)&mem->lanes, &mem->lane_cap, mem->lane_count, sizeof *mem->lanes) ||
        !ef__mem_text_set(&made.name, lane->name) || !ef__mem_text_set(&made.types, lane->types) ||
        !ef__mem_text_set(&made.settings, lane->settings)) {
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

static ef_status set_lane(mem_journal *mem, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err)
{
    int64_t found = ef__mem_lane_find(mem, lane->name);

    if (expected && (found < 0 || !matches_expected(&mem->lanes[found], expected)))
        return ef__lane_changed(lane->name, err);
    if (found < 0)
        return ef__mem_lane_add(mem, lane, err);
    /* The kind decides which leases guard the rows: under another kind no worker could claim them.
     */
    if (mem->lanes[found].kind != lane->kind)
        return ef_fail(err, EF_BAD_INPUT, "lane \"%.*s\" is there and of another kind",
                       EF_STR_ARG(lane->name));
    if (!ef__mem_text_set(&mem->lanes[found].types, lane->types) ||
        !ef__mem_text_set(&mem->lanes[found].settings, lane->settings))
        return ef__mem_no_memory(err);
    mem->lanes[found].enabled = lane->enabled;
    mem->lanes[found].retain_us = lane->retain_us;
    return EF_OK;
}

ef_status ef__mem_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                           ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = set_lane(mem, lane, expected, err);

    ef__mem_unlock(mem);
    return st;
}

static int compare_lanes(const void *a, const void *b)
{
    return ef__str_compare(((const ef_lane *)a)->name, ((const ef_lane *)b)->name);
}

static ef_status list_lanes(const mem_journal *mem, ef_lane_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lane *items = ef__arena_zalloc(arena, mem->lane_count, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (size_t i = 0; i < mem->lane_count; i++) {
        const mem_lane *lane = &mem->lanes[i];
        items[i] = (ef_lane){.name = ef__arena_copy(arena, lane->name),
                             .kind = lane->kind,
                             .enabled = lane->enabled,
                             .types = ef__arena_copy(arena, lane->types),
                             .settings = ef__arena_copy(arena, lane->settings),
                             .retain_us = lane->retain_us,
                             .progress = ef__arena_copy(arena, lane->progress)};
        if (!items[i].name.ptr || !items[i].types.ptr || !items[i].settings.ptr ||
            !items[i].progress.ptr)
            return ef__no_memory(err);
    }
    qsort(items, mem->lane_count, sizeof *items, compare_lanes);
    out->items = items;
    out->count = mem->lane_count;
    return EF_OK;
}

ef_status ef__mem_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_lanes(mem, out, err);

    ef__mem_unlock(mem);
    return st;
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
    mem_journal *mem = ef__mem_lock(journal);
    size_t at;
    ef_status st = ef__mem_publisher_find(mem, lane, &at, err);

    if (st == EF_OK) {
        *out_rows = count_lane_rows(mem, at);
        st = ef__lane_drop_check(lane, *out_rows, discard, err);
    }
    if (st == EF_OK)
        clear_lane(mem, at);
    ef__mem_unlock(mem);
    return st;
}
