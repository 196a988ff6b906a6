/*
 * published.c - publishers' lanes in memory: what was published, and the end of a lane.
 */
#include "memory.h"

ef_status ef__mem_published_reserve(mem_journal *m, size_t count, ef_error *err)
{
    while (m->published_cap < m->published_count + count)
        if (!ef__mem_grow((void **)&m->published, &m->published_cap, m->published_cap,
                          sizeof *m->published))
            return ef__mem_no_memory(err);
    return EF_OK;
}

void ef__mem_published_note(mem_journal *m, size_t lane, int64_t position, int64_t now_us)
{
    m->published[m->published_count++] = (mem_published){lane, position, now_us};
}

static ef_status publisher_find(mem_journal *m, ef_str name, size_t *out, ef_error *err)
{
    int64_t found = ef__mem_lane_find(m, name);

    if (found < 0)
        return ef__mem_no_lane(name, err);
    *out = (size_t)found;
    return ef__lane_publishes(name, m->lanes[found].kind, err);
}

/* --- the end ---------------------------------------------------------------------------------- */

static int64_t count_rows(const mem_journal *m, size_t lane)
{
    int64_t rows = 0;

    for (size_t p = 0; p < EF_LIMIT_PARTITIONS; p++)
        rows += (int64_t)(m->lanes[lane].parts[p].count - m->lanes[lane].parts[p].first);
    for (size_t i = 0; i < m->exception_count; i++)
        rows += m->exceptions[i].lane == lane;
    return rows;
}

static void clear_lane(mem_journal *m, size_t lane)
{
    mem_lane *l = &m->lanes[lane];
    size_t kept = 0;

    for (size_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        mem_part *part = &l->parts[p];
        part->first = part->count = 0;
        part->hand = part->suspect = 0;
    }
    for (size_t i = 0; i < m->exception_count; i++) {
        if (m->exceptions[i].lane == lane)
            ef__mem_text_free(&m->exceptions[i].error);
        else
            m->exceptions[kept++] = m->exceptions[i];
    }
    m->exception_count = kept;
    kept = 0;
    for (size_t i = 0; i < m->published_count; i++)
        if (m->published[i].lane != lane)
            m->published[kept++] = m->published[i];
    m->published_count = kept;
    l->enabled = false;
    l->retain_us = 0;
    ef__mem_text_free(&l->types);
    ef__mem_text_free(&l->settings);
    ef__mem_text_free(&l->progress);
}

ef_status ef__mem_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                            ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    size_t at;
    ef_status st = publisher_find(m, lane, &at, err);

    if (st == EF_OK) {
        *out_rows = count_rows(m, at);
        st = ef__lane_drop_check(lane, *out_rows, discard, err);
    }
    if (st == EF_OK)
        clear_lane(m, at);
    ef__mem_unlock(m);
    return st;
}

/* --- what was published ------------------------------------------------------------------------
 */

static void remove_published(mem_journal *m, size_t at)
{
    m->published_count--;
    memmove(&m->published[at], &m->published[at + 1],
            (m->published_count - at) * sizeof *m->published);
}

static ef_status find_held(mem_journal *m, ef_str name, const ef_holding *held, size_t *out,
                           ef_error *err)
{
    ef_status st = publisher_find(m, name, out, err);

    return st == EF_OK ? ef__mem_holding_check(m, &m->lanes[*out], held, err) : st;
}

ef_status ef__mem_published_purge(ef_journal *journal, ef_str lane, const ef_holding *held,
                                  size_t limit, int64_t *out_count, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    size_t of, looked = 0;
    ef_status st = find_held(m, lane, held, &of, err);
    int64_t before_us = st == EF_OK ? ef__mem_now(m) - m->lanes[of].retain_us : 0;

    for (size_t i = 0; st == EF_OK && i < m->published_count && looked < limit;) {
        bool ours = m->published[i].lane == of;
        looked += ours;
        if (ours && m->published[i].at_us < before_us) {
            remove_published(m, i);
            (*out_count)++;
        } else {
            i++;
        }
    }
    ef__mem_unlock(m);
    return st;
}

/* The one of the lowest position. */
static bool lowest_published(const mem_journal *m, size_t lane, size_t *out)
{
    bool found = false;

    for (size_t i = 0; i < m->published_count; i++)
        if (m->published[i].lane == lane &&
            (!found || m->published[i].position < m->published[*out].position)) {
            *out = i;
            found = true;
        }
    return found;
}

ef_status ef__mem_exception_again(mem_journal *m, size_t lane, int64_t position, ef_error *err)
{
    bool found;
    size_t at = ef__mem_exception_at(m, position, lane, &found);
    int64_t now_us = ef__mem_now(m);

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&m->exceptions, &m->exception_cap, m->exception_count,
                      sizeof *m->exceptions))
        return ef__mem_no_memory(err);
    memmove(&m->exceptions[at + 1], &m->exceptions[at],
            (m->exception_count - at) * sizeof *m->exceptions);
    m->exceptions[at] = (mem_exception){.lane = lane,
                                        .position = position,
                                        .status = EF_ROW_PENDING,
                                        .due_us = now_us,
                                        .updated_us = now_us};
    m->exception_count++;
    return EF_OK;
}

ef_status ef__mem_published_again(ef_journal *journal, ef_str lane, const ef_holding *held,
                                  size_t limit, int64_t *out_count, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    size_t of, at = 0;
    ef_status st = find_held(m, lane, held, &of, err);

    for (size_t n = 0; st == EF_OK && n < limit && lowest_published(m, of, &at); n++) {
        st = ef__mem_exception_again(m, of, m->published[at].position, err);
        if (st == EF_OK) {
            remove_published(m, at);
            (*out_count)++;
        }
    }
    ef__mem_unlock(m);
    return st;
}

ef_status ef__mem_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                  ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    size_t of;
    ef_status st = publisher_find(m, lane, &of, err);

    for (size_t i = 0; st == EF_OK && i < m->published_count && *out_count < (int64_t)most; i++)
        *out_count += m->published[i].lane == of;
    ef__mem_unlock(m);
    return st;
}
