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

static void row_put(vl_txn *txn, vl_key key, const vl_failure *head, const ef_str *texts,
                    size_t text_count)
{
    ef__buf row = EF__BUF_INIT(ROW_MAX);

    ef__buf_add(&row, head, sizeof *head);
    for (size_t i = 0; i < text_count; i++)
        ef__buf_add_str(&row, texts[i]);
    if (row.failed)
        vl_try(txn, ef_fail(txn->err, EF_NO_MEMORY, "memory ran out for a failure"));
    vl_put(txn, key, ef__buf_str(&row));
    ef__buf_release(&row);
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
    const ef_str texts[] = {f->tenant, f->stream, f->event_id, f->code, f->message};
    int64_t shelf = vl_part_shelf(part, f->tenant), id;
    vl_failure row;

    id = find_or_begin(part, event_key(shelf, f->stream, f->seq), &row);
    row.seq = f->seq;
    row.position = f->position;
    row.attempts++;
    row.line = (uint32_t)f->line;
    row.tenant_bytes = (uint32_t)f->tenant.len;
    row.stream_bytes = (uint32_t)f->stream.len;
    row.event_id_bytes = (uint32_t)f->event_id.len;
    row.code_bytes = (uint32_t)f->code.len;
    row.message_bytes = (uint32_t)f->message.len;
    row_put(part->txn, vl_key_numbers(VL_FAILURE, part->change->generation, id), &row, texts,
            sizeof texts / sizeof *texts);
}

/* --- resolving -------------------------------------------------------------------------------- */

/* The row is changed in place: only numbers are. */
static void resolve_one(vl_part *part, int64_t id)
{
    vl_txn *txn = part->txn;
    int64_t generation = part->change->generation;
    vl_key key = vl_key_numbers(VL_FAILURE, generation, id);
    vl_failure head;
    ef_str row;

    if (!vl_get(txn, VL_STATE, key, &row) || !vl_row_read(row, &head, sizeof head)) {
        vl_row_damaged(txn, "a failure");
        return;
    }
    head.open = 0;
    head.resolved_us = part->now_us;
    row = vl_key_rest(row, sizeof head);
    row_put(txn, key, &head, &row, 1);
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

static void read_failure(vl_txn *txn, int64_t generation, int64_t id, ef__arena *arena,
                         ef__failure *out)
{
    vl_failure head;
    failure_texts t;
    ef_str row;

    if (!vl_get(txn, VL_STATE, vl_key_numbers(VL_FAILURE, generation, id), &row) ||
        !row_read(row, &head, &t)) {
        vl_row_damaged(txn, "a failure");
        return;
    }
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
    if (!out->tenant.ptr || !out->stream.ptr || !out->event_id.ptr || !out->code.ptr ||
        !out->message.ptr)
        vl_try(txn, ef__no_memory(txn->err));
}

ef_status vl_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                        size_t limit, ef__failure_list *out, ef_error *err)
{
    vl_kind kind = open_only ? VL_FAILURE_OPEN : VL_FAILURE;
    vl_key end = vl_key_number(kind, generation + 1);
    ef__failure *items = NULL;
    size_t cap = 0;
    vl_txn txn;
    vl_walk walk;
    ef_status st = ef__list_prepare(out, err);

    if (st != EF_OK)
        return st;
    txn = vl_begin(views, err);
    walk = vl_walk_open(&txn, VL_STATE, vl_key_number(kind, generation));
    for (vl_walk_begin(&walk, &end, true); out->count < limit && walk.found;
         vl_walk_on(&walk, true)) {
        items = ef__arena_grow(&out->room->arena, items, out->count, sizeof *items, &cap);
        if (!items)
            vl_try(&txn, ef__no_memory(err));
        else
            read_failure(&txn, generation, (int64_t)vl_number_at(walk.key, walk.prefix.len),
                         &out->room->arena, &items[out->count]);
        if (txn.st != EF_OK)
            break;
        out->items = items;
        out->count += !tenant || ef_str_equal(items[out->count].tenant, *tenant);
    }
    vl_walk_close(&walk);
    return vl_end(views, &txn);
}
