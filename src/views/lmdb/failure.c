/*
 * failure.c - failures: opened, counted up, resolved, listed.
 */
#include "store.h"

static vl_key event_key(int64_t shelf, ef_str stream, int64_t seq)
{
    vl_key key = vl_key_number(VL_FAILURE_AT, shelf);
    uint8_t length[2] = {(uint8_t)(stream.len >> 8), (uint8_t)stream.len};

    vl_key_add(&key, length, sizeof length);
    vl_key_add(&key, stream.ptr, stream.len);
    vl_key_add_number(&key, (uint64_t)seq);
    return key;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The open one of the event, or a new one. */
static int64_t find_or_begin(vl_part *part, vl_key event, vl_failure *out)
{
    vl_txn *txn = part->txn;
    int64_t generation = part->change->generation, id;
    vl_state state;

    if (vl_row_get(txn, event, &id, sizeof id)) {
        (void)vl_row_get(txn, vl_key_numbers(VL_FAILURE, generation, id), out, sizeof *out);
        return id;
    }
    state = vl_state_get(txn);
    id = ++state.last_failure;
    vl_state_put(txn, &state);
    *out = (vl_failure){.recorded_us = part->now_us, .open = 1};
    vl_put(txn, event, vl_bytes(&id, sizeof id));
    vl_put(txn, vl_key_numbers(VL_FAILURE_OPEN, generation, id), (ef_str){"", 0});
    return id;
}

static void open_failure(vl_part *part, const ef__failure *f)
{
    int64_t shelf = vl_part_shelf(part, f->tenant), id;
    vl_failure row;

    id = find_or_begin(part, event_key(shelf, f->stream, f->seq), &row);
    row.seq = f->seq;
    row.position = f->position;
    row.attempts++;
    row.line = (uint32_t)f->line;
    vl_texts_put(part->txn, vl_key_numbers(VL_FAILURE, part->change->generation, id), &row,
                 sizeof row, row.text_bytes, &ef__failure_texts, f);
}

/* --- resolving -------------------------------------------------------------------------------- */

static void resolve_one(vl_part *part, int64_t id)
{
    vl_txn *txn = part->txn;
    int64_t generation = part->change->generation;
    vl_key key = vl_key_numbers(VL_FAILURE, generation, id);
    vl_failure row;
    ef__failure texts;

    if (!vl_texts_get(txn, key, &row, sizeof row, row.text_bytes, &ef__failure_texts, &texts)) {
        vl_row_damaged(txn, "a failure");
        return;
    }
    row.open = 0;
    row.resolved_us = part->now_us;
    vl_texts_put(txn, key, &row, sizeof row, row.text_bytes, &ef__failure_texts, &texts);
    vl_delete(txn, vl_key_numbers(VL_FAILURE_OPEN, generation, id));
}

/* Resolves the open failures of the stream that the watermark passes. Each is searched from the
 * start, because the previous one was deleted. */
static void resolve_failures(vl_part *part, vl_walk *walk, const ef__watermark_change *w)
{
    int64_t shelf = vl_part_shelf(part, w->tenant), id;
    vl_key from, to;

    if (w->after.expected_next_seq <= w->before.expected_next_seq)
        return;
    from = event_key(shelf, w->stream, w->before.expected_next_seq);
    to = event_key(shelf, w->stream, w->after.expected_next_seq);
    for (;;) {
        vl_key event = {.len = 0};
        vl_walk_from(walk, &from);
        if (!walk->found || ef__str_compare(walk->key, vl_key_str(&to)) >= 0)
            return;
        vl_key_add(&event, walk->key.ptr, walk->key.len);
        vl_row_take(part->txn, walk->value, &id, sizeof id, "a failure");
        resolve_one(part, id);
        vl_delete(part->txn, event);
    }
}

/* Opens first, then resolves, so that a failure that the watermark passes in this commit does not
 * stay open. If none is open, as usual, the streams are not searched. */
void vl_failures_write(vl_part *part)
{
    vl_key open = vl_key_number(VL_FAILURE_OPEN, part->change->generation);
    vl_walk walk;
    bool any;

    for (size_t i = 0; i < part->change->failure_count; i++)
        open_failure(part, &part->change->failures[i]);
    walk = vl_walk_first(part->txn, VL_STATE, open);
    any = walk.found;
    walk.prefix = VL_NO_PREFIX;
    for (size_t i = 0; any && i < part->change->watermark_count; i++)
        resolve_failures(part, &walk, &part->change->watermarks[i]);
    vl_walk_close(&walk);
}

/* --- listing ---------------------------------------------------------------------------------- */

static void read_failure(vl_txn *txn, int64_t generation, int64_t id, ef__failure *out)
{
    vl_failure row;

    if (!vl_texts_get(txn, vl_key_numbers(VL_FAILURE, generation, id), &row, sizeof row,
                      row.text_bytes, &ef__failure_texts, out)) {
        vl_row_damaged(txn, "a failure");
        return;
    }
    out->id = id;
    out->generation = generation;
    out->seq = row.seq;
    out->position = row.position;
    out->line = (int32_t)row.line;
    out->attempts = row.attempts;
    out->open = row.open != 0;
    out->recorded_us = row.recorded_us;
    out->resolved_us = row.resolved_us;
}

ef_status vl_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    vl_kind kind = open_only ? VL_FAILURE_OPEN : VL_FAILURE;
    vl_key end = vl_key_number(kind, generation + 1);
    vl_txn txn;
    vl_walk walk;
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    txn = vl_begin(views, err);
    walk = vl_walk_open(&txn, VL_STATE, vl_key_number(kind, generation));
    for (vl_walk_begin(&walk, &end, true); out->count < limit && walk.found;
         vl_walk_on(&walk, true)) {
        ef__failure item = {0};
        read_failure(&txn, generation, (int64_t)vl_number_at(walk.key, walk.prefix.len), &item);
        if (!tenant || ef_str_equal(item.tenant, *tenant))
            vl_try(&txn, ef__list_add(out, &item, &ef__failure_texts, err));
    }
    vl_walk_close(&walk);
    return vl_end(views, &txn);
}
