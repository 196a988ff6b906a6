/*
 * failure.c - failures: opened, counted up, resolved, listed.
 */
#include "store.h"

#define ROW_MAX (1024 * 1024) /* names and a message, each with a limit of its own */

typedef struct failure_texts {
    ef_str tenant, stream, event_id, code, message;
} failure_texts;

static vl_key event_key(int64_t shelf, ef_str stream, int64_t seq)
{
    vl_key key = vl_key_number(VL_FAILURE_AT, shelf);
    uint8_t length[2] = {(uint8_t)(stream.len >> 8), (uint8_t)stream.len};

    vl_key_add(&key, length, sizeof length);
    vl_key_add(&key, stream.ptr, stream.len);
    vl_key_add_number(&key, (uint64_t)seq);
    return key;
}

static ef_status row_put(vl_txn *txn, int64_t generation, int64_t id, const vl_failure *head,
                         const failure_texts *t, ef_error *err)
{
    ef__buf row = EF__BUF_INIT(ROW_MAX);
    ef_status st;

    ef__buf_add(&row, head, sizeof *head);
    ef__buf_add_str(&row, t->tenant);
    ef__buf_add_str(&row, t->stream);
    ef__buf_add_str(&row, t->event_id);
    ef__buf_add_str(&row, t->code);
    ef__buf_add_str(&row, t->message);
    st = row.failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a failure")
                    : vl_put(txn, VL_STATE, vl_key_numbers(VL_FAILURE, generation, id),
                             ef__buf_str(&row), err);
    ef__buf_release(&row);
    return st;
}

/* The next `len` bytes of `*rest`. */
static ef_str split_bytes(ef_str *rest, uint32_t len)
{
    ef_str text = {rest->ptr, len};

    *rest = (ef_str){rest->ptr + len, rest->len - len};
    return text;
}

static bool row_read(ef_str row, vl_failure *head, failure_texts *t)
{
    if (!vl_row_read(row, head, sizeof *head) ||
        row.len - sizeof *head != (uint64_t)head->tenant_bytes + head->stream_bytes +
                                      head->event_id_bytes + head->code_bytes + head->message_bytes)
        return false;
    row = (ef_str){row.ptr + sizeof *head, row.len - sizeof *head};
    t->tenant = split_bytes(&row, head->tenant_bytes);
    t->stream = split_bytes(&row, head->stream_bytes);
    t->event_id = split_bytes(&row, head->event_id_bytes);
    t->code = split_bytes(&row, head->code_bytes);
    t->message = split_bytes(&row, head->message_bytes);
    return true;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The open one of the event, or a new one. */
static ef_status find_or_begin(vl_part *part, const vl_key *event, int64_t *out_id, vl_failure *out,
                               ef_error *err)
{
    vl_txn *txn = part->txn;
    int64_t generation = part->change->generation;
    vl_state state;
    bool found;
    ef_status st = vl_row_get(txn, VL_STATE, *event, out_id, sizeof *out_id, &found, err);

    if (st != EF_OK)
        return st;
    if (found)
        return vl_row_get(txn, VL_STATE, vl_key_numbers(VL_FAILURE, generation, *out_id), out,
                          sizeof *out, &found, err);
    st = vl_state_get(txn, &state, err);
    *out_id = ++state.last_failure;
    *out = (vl_failure){.recorded_us = part->now_us, .open = 1};
    if (st == EF_OK)
        st = vl_state_put(txn, &state, err);
    if (st == EF_OK)
        st = vl_put(txn, VL_STATE, *event, vl_bytes(out_id, sizeof *out_id), err);
    return st == EF_OK ? vl_put(txn, VL_STATE, vl_key_numbers(VL_FAILURE_OPEN, generation, *out_id),
                                (ef_str){"", 0}, err)
                       : st;
}

static ef_status open_failure(vl_part *part, const ef__failure *f, ef_error *err)
{
    failure_texts t = {f->tenant, f->stream, f->event_id, f->code, f->message};
    vl_failure row;
    vl_key event;
    int64_t shelf, id = 0;
    ef_status st = vl_part_shelf(part, f->tenant, &shelf, err);

    if (st != EF_OK)
        return st;
    event = event_key(shelf, f->stream, f->seq);
    st = find_or_begin(part, &event, &id, &row, err);
    row.seq = f->seq;
    row.position = f->position;
    row.attempts++;
    row.line = (uint32_t)f->line;
    row.tenant_bytes = (uint32_t)f->tenant.len;
    row.stream_bytes = (uint32_t)f->stream.len;
    row.event_id_bytes = (uint32_t)f->event_id.len;
    row.code_bytes = (uint32_t)f->code.len;
    row.message_bytes = (uint32_t)f->message.len;
    return st == EF_OK ? row_put(part->txn, part->change->generation, id, &row, &t, err) : st;
}

/* --- resolving -------------------------------------------------------------------------------- */

/* The row is changed in place: only numbers are. */
static ef_status resolve_one(vl_part *part, int64_t id, ef_error *err)
{
    vl_key key = vl_key_numbers(VL_FAILURE, part->change->generation, id);
    ef__buf copy = EF__BUF_INIT(ROW_MAX);
    vl_failure head;
    ef_str row;
    bool found;
    ef_status st = vl_get(part->txn, VL_STATE, key, &row, &found, err);

    if (st == EF_OK && (!found || !vl_row_read(row, &head, sizeof head)))
        st = vl_row_damaged(part->txn, "a failure", err);
    if (st != EF_OK)
        return st;
    head.open = 0;
    head.resolved_us = part->now_us;
    ef__buf_add(&copy, &head, sizeof head);
    ef__buf_add(&copy, row.ptr + sizeof head, row.len - sizeof head);
    st = copy.failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out for a failure")
                     : vl_put(part->txn, VL_STATE, key, ef__buf_str(&copy), err);
    ef__buf_release(&copy);
    if (st != EF_OK)
        return st;
    return vl_delete(part->txn, VL_STATE,
                     vl_key_numbers(VL_FAILURE_OPEN, part->change->generation, id), err);
}

/* Resolves the open failures of the stream that the watermark passes. Each is searched from the
 * start, because the previous one was deleted. */
static ef_status resolve_failures(vl_part *part, vl_walk *walk, const ef__watermark_change *w,
                                  ef_error *err)
{
    vl_key from, to;
    int64_t shelf, id;
    ef_status st = vl_part_shelf(part, w->tenant, &shelf, err);

    if (st != EF_OK || w->after.expected_next_seq <= w->before.expected_next_seq)
        return st;
    from = event_key(shelf, w->stream, w->before.expected_next_seq);
    to = event_key(shelf, w->stream, w->after.expected_next_seq);
    for (;;) {
        vl_key event = {.len = 0};
        st = vl_walk_from(walk, &from, err);
        if (st != EF_OK || !walk->found || ef__str_compare(walk->key, vl_key_str(&to)) >= 0)
            return st;
        vl_key_add(&event, walk->key.ptr, walk->key.len);
        if (!vl_row_read(walk->value, &id, sizeof id))
            return vl_row_damaged(part->txn, "a failure", err);
        st = resolve_one(part, id, err);
        if (st == EF_OK)
            st = vl_delete(part->txn, VL_STATE, event, err);
        if (st != EF_OK)
            return st;
    }
}

/* Opens first, then resolves, so that a failure that the watermark passes in this commit does not
 * stay open. If none is open, as usual, the streams are not searched. */
ef_status vl_failures_write(vl_part *part, ef_error *err)
{
    vl_key open = vl_key_number(VL_FAILURE_OPEN, part->change->generation);
    vl_walk walk;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < part->change->failure_count; i++)
        st = open_failure(part, &part->change->failures[i], err);
    if (st != EF_OK)
        return st;
    st = vl_walk_open(part->txn, VL_STATE, &walk, err);
    if (st == EF_OK)
        st = vl_walk_from(&walk, &open, err);
    if (st == EF_OK && walk.found && vl_has_prefix(walk.key, &open))
        for (size_t i = 0; st == EF_OK && i < part->change->watermark_count; i++)
            st = resolve_failures(part, &walk, &part->change->watermarks[i], err);
    vl_walk_close(&walk);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static ef_status read_failure(vl_txn *txn, int64_t generation, int64_t id, ef__arena *arena,
                              ef__failure *out, ef_error *err)
{
    vl_failure head;
    failure_texts t;
    ef_str row;
    bool found;
    ef_status st =
        vl_get(txn, VL_STATE, vl_key_numbers(VL_FAILURE, generation, id), &row, &found, err);

    if (st == EF_OK && (!found || !row_read(row, &head, &t)))
        st = vl_row_damaged(txn, "a failure", err);
    if (st != EF_OK)
        return st;
    *out = (ef__failure){.id = id,
                         .generation = generation,
                         .tenant = ef__arena_copy(arena, t.tenant),
                         .stream = ef__arena_copy(arena, t.stream),
                         .seq = head.seq,
                         .position = head.position,
                         .event_id = ef__arena_copy(arena, t.event_id),
                         .code = ef__arena_copy(arena, t.code),
                         .message = ef__arena_copy(arena, t.message),
                         .line = (int32_t)head.line,
                         .attempts = head.attempts,
                         .open = head.open != 0,
                         .recorded_us = head.recorded_us,
                         .resolved_us = head.resolved_us};
    return out->tenant.ptr && out->stream.ptr && out->event_id.ptr && out->code.ptr &&
                   out->message.ptr
               ? EF_OK
               : ef__no_memory(err);
}

static ef_status list_failures(vl_txn *txn, int64_t generation, const ef_str *tenant,
                               bool open_only, size_t limit, ef__failure_list *out, ef_error *err)
{
    vl_kind kind = open_only ? VL_FAILURE_OPEN : VL_FAILURE;
    vl_key prefix = vl_key_number(kind, generation), end = vl_key_number(kind, generation + 1);
    ef__arena *arena = &out->room->arena;
    ef__failure *items = NULL;
    size_t cap = 0;
    vl_walk walk;
    ef_status st = vl_walk_open(txn, VL_STATE, &walk, err);

    if (st == EF_OK)
        st = vl_walk_before(&walk, &end, err);
    while (st == EF_OK && out->count < limit && walk.found && vl_has_prefix(walk.key, &prefix)) {
        items = ef__arena_grow(arena, items, out->count, sizeof *items, &cap);
        st = items ? read_failure(txn, generation, (int64_t)vl_number_at(walk.key, 9), arena,
                                  &items[out->count], err)
                   : ef__no_memory(err);
        if (st != EF_OK)
            break;
        out->items = items;
        out->count += !tenant || ef_str_equal(items[out->count].tenant, *tenant);
        st = vl_walk_on(&walk, true, err);
    }
    vl_walk_close(&walk);
    return st;
}

ef_status vl_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    vl_txn txn;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    if (st == EF_OK)
        st = vl_begin(views, &txn, err);
    if (st != EF_OK)
        return st;
    st = list_failures(&txn, generation, tenant, open_only, limit, out, err);
    vl_read_end(&txn);
    return st;
}
