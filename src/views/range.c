/*
 * range.c - see range.h.
 */
#include "range.h"

static void place_set(ef__view_place *p, int64_t first, ef_str second, ef_str third)
{
    p->first = first;
    ef__buf_reset(&p->second);
    ef__buf_reset(&p->third);
    ef__buf_add_str(&p->second, second);
    ef__buf_add_str(&p->third, third);
}

static void behind_name(ef__buf *name)
{
    ef__buf_add_char(name, '\x01');
}

static void behind_key(ef__buf *key)
{
    ef__buf_add_char(key, '\0');
}

/* --- views by id ------------------------------------------------------------------------------ */

static void id_ends(const ef__view_scan *s, ef__view_place *from, ef__view_place *to)
{
    ef_str none = {0};
    ef_str after_tenant = s->any_tenant ? s->after_tenant : s->tenant;

    if (s->any_tenant) {
        place_set(from, s->generation, none, none);
        place_set(to, s->generation + 1, none, none);
    } else {
        place_set(from, s->generation, s->tenant, s->has_low ? s->low : none);
        if (s->has_low && s->low_open)
            behind_name(&from->third);
        place_set(to, s->generation, s->tenant, s->has_high ? s->high : none);
        if (!s->has_high)
            behind_name(&to->second);
        else if (!s->high_open)
            behind_name(&to->third);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->generation, after_tenant, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->generation, after_tenant, s->after_id);
        behind_name(&from->third);
    }
}

/* --- an index --------------------------------------------------------------------------------- */

/* No key is longer than EF__KEY_BYTES, so no key is above one with a further byte of 255. */
static void above_all_keys(ef__view_place *p, int32_t index)
{
    char bytes[EF__KEY_BYTES + 1];

    memset(bytes, 0xff, sizeof bytes);
    place_set(p, index, (ef_str){bytes, sizeof bytes}, (ef_str){0});
}

static void index_ends(const ef__view_scan *s, ef__view_place *from, ef__view_place *to)
{
    ef_str none = {0};

    place_set(from, s->index, s->has_low ? s->low : none, none);
    if (s->has_low && s->low_open)
        behind_key(&from->second);
    if (s->has_high) {
        place_set(to, s->index, s->high, none);
        if (!s->high_open)
            behind_key(&to->second);
    } else {
        above_all_keys(to, s->index);
    }
    if (s->has_after && s->descending) {
        place_set(to, s->index, s->after_key, s->after_id);
    } else if (s->has_after) {
        place_set(from, s->index, s->after_key, s->after_id);
        behind_name(&from->third);
    }
}

/* --- both ------------------------------------------------------------------------------------- */

static ef_status check_buffers(const ef__view_place *p, ef_error *err)
{
    return p->second.failed || p->third.failed
               ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a scan")
               : EF_OK;
}

ef_status ef__view_range(const ef__view_scan *scan, ef__view_place *from, ef__view_place *to,
                         ef_error *err)
{
    if (scan->index >= 0)
        index_ends(scan, from, to);
    else
        id_ends(scan, from, to);
    return check_buffers(from, err) == EF_OK ? check_buffers(to, err) : EF_NO_MEMORY;
}

ef_status ef__view_place_at(ef__view_place *place, int64_t first, ef_str second, ef_str third,
                            bool behind, ef_error *err)
{
    place_set(place, first, second, third);
    if (behind)
        behind_name(&place->third);
    return check_buffers(place, err);
}

void ef__view_place_release(ef__view_place *place)
{
    ef__buf_release(&place->second);
    ef__buf_release(&place->third);
}
