/*
 * range.c - see range.h.
 */
#include "range.h"

#include "../base/limits.h"
#include "../base/utf8.h"

#include <assert.h>

/* More than any name, and no part of a character. */
#define NAME_BYTES_MAX (EF_LIMIT_NAME_BYTES + 4)

static void text_set(ef__place_text *text, ef_str from)
{
    text->len = from.len < sizeof text->bytes ? from.len : sizeof text->bytes;
    if (text->len)
        memcpy(text->bytes, from.ptr, text->len);
}

static void text_add(ef__place_text *text, char c)
{
    if (text->len < sizeof text->bytes)
        text->bytes[text->len++] = c;
}

static void place_set(ef__view_place *p, int64_t first, ef_str second, ef_str third)
{
    p->first = first;
    text_set(&p->second, second);
    text_set(&p->third, ef__utf8_cut(third, NAME_BYTES_MAX));
}

static void behind_name(ef__place_text *name)
{
    text_add(name, '\x01');
}

static void behind_key(ef__place_text *key)
{
    text_add(key, '\0');
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

void ef__view_range(const ef__view_scan *scan, ef__view_place *from, ef__view_place *to)
{
    assert(scan->index < 0 || !scan->any_tenant); /* the keys of an index belong to one tenant */
    if (scan->index >= 0)
        index_ends(scan, from, to);
    else
        id_ends(scan, from, to);
}

void ef__view_place_at(ef__view_place *place, int64_t first, ef_str second, ef_str third,
                       bool behind)
{
    place_set(place, first, second, third);
    if (behind)
        behind_name(&place->third);
}
