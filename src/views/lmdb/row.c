/*
 * row.c - keys, single rows, shelves, and iterating over a tree in the order of its keys.
 */
#include "row.h"

_Static_assert(sizeof(vl_format) == 24, "no holes");
_Static_assert(sizeof(vl_state) == 32, "no holes");
_Static_assert(sizeof(vl_generation) == 128, "no holes");
_Static_assert(sizeof(vl_program) == 16, "no holes");
_Static_assert(sizeof(vl_cursor_row) == 40, "no holes");
_Static_assert(sizeof(vl_follow_row) == 32, "no holes");
_Static_assert(sizeof(vl_change_row) == 16, "no holes");
_Static_assert(sizeof(vl_failure) == 64, "no holes");
_Static_assert(sizeof(vl_view) == 40, "no holes");
_Static_assert(sizeof(vl_watermark) == 16 + EF_HASH_BYTES, "no holes");
_Static_assert(8 + 2 + VL_PART_BYTES <= VL_KEY_MAX, "an index key fits");
_Static_assert(VL_REST_BYTES + 1 + VL_NAME_MAX <= VL_KEY_MAX, "and so does its value");
_Static_assert(VL_PART_BYTES + VL_REST_BYTES > EF__KEY_BYTES, "with a place behind the longest");

#define TIME_SIGN (UINT64_C(1) << 63) /* inverted in keys: times before 1970 sort first */

#define TEXTS_MAX (64 * 1024 * 1024) /* far above any program's own limit */

/* --- keys ------------------------------------------------------------------------------------- */

void vl_key_add(vl_key *key, const void *bytes, size_t len)
{
    if (len > sizeof key->bytes - key->len) {
        key->too_long = true;
        return;
    }
    if (len)
        memcpy(key->bytes + key->len, bytes, len);
    key->len += len;
}

void vl_key_add_number(vl_key *key, uint64_t number)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    vl_key_add(key, bytes, sizeof bytes);
}

uint64_t vl_number_at(ef_str key, size_t at)
{
    uint64_t number = 0;

    for (size_t i = at; i < at + 8 && key.len >= at + 8; i++)
        number = number << 8 | (uint8_t)key.ptr[i];
    return number;
}

vl_key vl_key_of(vl_kind kind)
{
    vl_key key;

    key.len = 1;
    key.too_long = false;
    key.bytes[0] = (uint8_t)kind;
    return key;
}

vl_key vl_key_number(vl_kind kind, int64_t number)
{
    vl_key key = vl_key_of(kind);

    vl_key_add_number(&key, (uint64_t)number);
    return key;
}

vl_key vl_key_numbers(vl_kind kind, int64_t number, int64_t second)
{
    vl_key key = vl_key_number(kind, number);

    vl_key_add_number(&key, (uint64_t)second);
    return key;
}

vl_key vl_key_name(vl_kind kind, int64_t number, ef_str name)
{
    vl_key key = vl_key_number(kind, number);

    vl_key_add(&key, name.ptr, name.len);
    key.too_long = key.too_long || name.len > VL_NAME_MAX;
    return key;
}

vl_key vl_key_time(vl_kind kind, int64_t number, int64_t time_us, ef_str name)
{
    vl_key key = vl_key_numbers(kind, number, (int64_t)((uint64_t)time_us ^ TIME_SIGN));

    vl_key_add(&key, name.ptr, name.len);
    return key;
}

int64_t vl_time_at(ef_str key)
{
    return (int64_t)(vl_number_at(key, 9) ^ TIME_SIGN);
}

vl_key vl_shelf_key(int64_t shelf, ef_str name)
{
    vl_key key;

    key.len = 0;
    key.too_long = name.len > VL_NAME_MAX + 1; /* with a place behind it */
    vl_key_add_number(&key, (uint64_t)shelf);
    vl_key_add(&key, name.ptr, name.len);
    return key;
}

vl_entry vl_entry_of(int64_t shelf, int32_t index, ef_str key, ef_str id)
{
    uint8_t idx[2] = {(uint8_t)(index >> 8), (uint8_t)index};
    size_t part = key.len < VL_PART_BYTES ? key.len : VL_PART_BYTES;
    uint8_t rest[VL_REST_BYTES + 1] = {0};
    vl_entry entry;

    entry.key = vl_shelf_key(shelf, (ef_str){0});
    vl_key_add(&entry.key, idx, sizeof idx);
    vl_key_add(&entry.key, key.ptr, part);
    entry.value.len = 0;
    entry.value.too_long = key.len > VL_PART_BYTES + VL_REST_BYTES;
    if (part < VL_PART_BYTES) {
        vl_key_add(&entry.value, rest, 1);
    } else if (!entry.value.too_long) {
        memcpy(rest, key.ptr + part, key.len - part);
        rest[VL_REST_BYTES] = (uint8_t)(key.len - part);
        vl_key_add(&entry.value, rest, sizeof rest);
    }
    vl_key_add(&entry.value, id.ptr, id.len);
    return entry;
}

bool vl_entry_read(ef_str key, ef_str value, char buffer[EF__KEY_BYTES + 1], ef_str *out_key,
                   ef_str *out_id)
{
    size_t part = key.len - 10, head = part < VL_PART_BYTES ? 1 : VL_REST_BYTES + 1, rest;

    if (key.len < 10 || value.len < head)
        return false;
    rest = (uint8_t)value.ptr[head - 1];
    if (part + rest > EF__KEY_BYTES)
        return false;
    memcpy(buffer, key.ptr + 10, part);
    memcpy(buffer + part, value.ptr, rest);
    buffer[part + rest] = '\0';
    *out_key = (ef_str){buffer, part + rest};
    *out_id = (ef_str){value.ptr + head, value.len - head};
    return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

bool vl_row_read(ef_str value, void *out, size_t len)
{
    if (value.len < len)
        return false;
    memcpy(out, value.ptr, len);
    return true;
}

/* A row of an older version ends before superseded_us, with zeros for on_error and replaced. */
bool vl_generation_read(ef_str value, vl_generation *out)
{
    if (vl_row_read(value, out, sizeof *out))
        return true;
    if (!vl_row_read(value, out, VL_GENERATION_BYTES_MIN))
        return false;
    out->replaced = EF__REPLACED_UNKNOWN;
    out->superseded_us = 0;
    return true;
}

void vl_row_damaged(vl_txn *txn, const char *what)
{
    vl_try(txn, ef_fail(txn->err, EF_DAMAGED, "%s: %s is not as it was written", txn->env->folder,
                        what));
}

void vl_row_take(vl_txn *txn, ef_str value, void *out, size_t len, const char *what)
{
    memset(out, 0, len);
    if (!vl_row_read(value, out, len))
        vl_row_damaged(txn, what);
}

bool vl_get(vl_txn *txn, vl_tree tree, vl_key key, ef_str *out)
{
    MDB_val at = vl_val(vl_key_str(&key)), value = {0, NULL};
    int rc = MDB_NOTFOUND;

    if (txn->st == EF_OK && !key.too_long)
        rc = mdb_get(txn->mdb, txn->env->trees[tree], &at, &value);
    *out = vl_str(value);
    if (rc != MDB_NOTFOUND)
        (void)vl_failed(txn, rc, "reading a row");
    return rc == 0;
}

bool vl_row_get(vl_txn *txn, vl_key key, void *out, size_t len)
{
    ef_str value;
    bool found = vl_get(txn, VL_STATE, key, &value);

    memset(out, 0, len);
    if (found)
        vl_row_take(txn, value, out, len, "a row");
    return found;
}

void vl_put(vl_txn *txn, vl_key key, ef_str value)
{
    MDB_val at = vl_val(vl_key_str(&key)), put = vl_val(value);
    int rc = MDB_BAD_VALSIZE;

    if (txn->st == EF_OK && !key.too_long)
        rc = mdb_put(txn->mdb, txn->env->trees[VL_STATE], &at, &put, 0);
    (void)vl_failed(txn, rc, "writing a row");
}

void vl_texts_put(vl_txn *txn, vl_key key, void *head, size_t head_bytes, uint32_t *text_bytes,
                  const ef__texts *texts, const void *item)
{
    EF__AUTO(ef__buf) row = EF__BUF_INIT(TEXTS_MAX);

    for (size_t i = 0; i < texts->count; i++)
        text_bytes[i] = (uint32_t)ef__text_at(texts, item, i)->len;
    ef__buf_add(&row, head, head_bytes);
    for (size_t i = 0; i < texts->count; i++)
        ef__buf_add_str(&row, *ef__text_at(texts, item, i));
    if (row.failed)
        vl_try(txn, ef_fail(txn->err, EF_NO_MEMORY, "memory ran out for a row"));
    vl_put(txn, key, ef__buf_str(&row));
}

bool vl_texts_get(vl_txn *txn, vl_key key, void *head, size_t head_bytes,
                  const uint32_t *text_bytes, const ef__texts *texts, void *item)
{
    ef_str row;

    if (!vl_get(txn, VL_STATE, key, &row) || !vl_row_read(row, head, head_bytes))
        return false;
    row = vl_key_rest(row, head_bytes);
    for (size_t i = 0; i < texts->count; i++) {
        if (text_bytes[i] > row.len)
            return false;
        *ef__text_at(texts, item, i) = (ef_str){row.ptr, text_bytes[i]};
        row = vl_key_rest(row, text_bytes[i]);
    }
    return row.len == 0;
}

void vl_delete(vl_txn *txn, vl_key key)
{
    MDB_val at = vl_val(vl_key_str(&key));
    int rc = MDB_NOTFOUND;

    if (txn->st == EF_OK && !key.too_long)
        rc = mdb_del(txn->mdb, txn->env->trees[VL_STATE], &at, NULL);
    if (rc != MDB_NOTFOUND)
        (void)vl_failed(txn, rc, "deleting a row");
}

vl_state vl_state_get(vl_txn *txn)
{
    vl_state state;

    if (!vl_row_get(txn, vl_key_of(VL_STATE_ROW), &state, sizeof state))
        vl_row_damaged(txn, "its state");
    return state;
}

void vl_state_put(vl_txn *txn, const vl_state *state)
{
    vl_put(txn, vl_key_of(VL_STATE_ROW), vl_bytes(state, sizeof *state));
}

void vl_live_set_grow(vl_txn *txn)
{
    vl_state state = vl_state_get(txn);

    state.live_set++;
    vl_state_put(txn, &state);
}

/* --- shelves ---------------------------------------------------------------------------------- */

int64_t vl_shelf_find(vl_txn *txn, int64_t generation, ef_str tenant)
{
    int64_t shelf;

    (void)vl_row_get(txn, vl_key_name(VL_SHELF, generation, tenant), &shelf, sizeof shelf);
    return shelf;
}

int64_t vl_shelf_make(vl_txn *txn, int64_t generation, ef_str tenant)
{
    int64_t shelf = vl_shelf_find(txn, generation, tenant);
    vl_state state;

    if (txn->st != EF_OK || shelf != 0)
        return shelf;
    state = vl_state_get(txn);
    shelf = ++state.last_shelf;
    vl_put(txn, vl_key_name(VL_SHELF, generation, tenant), vl_bytes(&shelf, sizeof shelf));
    vl_state_put(txn, &state);
    return shelf;
}

/* --- walking ---------------------------------------------------------------------------------- */

vl_walk vl_walk_open(vl_txn *txn, vl_tree tree, vl_key prefix)
{
    vl_walk walk = {.txn = txn, .tree = tree, .prefix = prefix};

    if (txn->st == EF_OK)
        (void)vl_failed(txn, mdb_cursor_open(txn->mdb, txn->env->trees[tree], &walk.mdb),
                        "reading rows");
    return walk;
}

vl_walk vl_walk_first(vl_txn *txn, vl_tree tree, vl_key prefix)
{
    vl_walk walk = vl_walk_open(txn, tree, prefix);

    vl_walk_from(&walk, &prefix);
    return walk;
}

void vl_walk_close(vl_walk *walk)
{
    if (walk->mdb)
        mdb_cursor_close(walk->mdb);
    walk->mdb = NULL;
}

/* `key` and `value` are the arguments of the operations that have any. */
static void move_cursor(vl_walk *walk, MDB_cursor_op op, ef_str key, ef_str value)
{
    MDB_val at = vl_val(key), with = vl_val(value);
    int rc = MDB_NOTFOUND;

    if (walk->txn->st == EF_OK)
        rc = mdb_cursor_get(walk->mdb, &at, &with, op);
    if (rc != MDB_NOTFOUND)
        (void)vl_failed(walk->txn, rc, "reading rows");
    walk->found = rc == 0;
    walk->key = vl_str(at);
    walk->value = vl_str(with);
}

static void step_cursor(vl_walk *walk, MDB_cursor_op op)
{
    move_cursor(walk, op, (ef_str){0}, (ef_str){0});
}

static void find_from(vl_walk *walk, const vl_key *key)
{
    move_cursor(walk, MDB_SET_RANGE, vl_key_str(key), (ef_str){0});
}

static void end_behind_prefix(vl_walk *walk)
{
    const vl_key *prefix = &walk->prefix;

    walk->found = walk->found && walk->key.len >= prefix->len &&
                  memcmp(walk->key.ptr, prefix->bytes, prefix->len) == 0;
}

void vl_walk_at(vl_walk *walk, const vl_key *key)
{
    walk->found = false;
    if (!key->too_long)
        move_cursor(walk, MDB_SET_KEY, vl_key_str(key), (ef_str){0});
}

void vl_walk_from(vl_walk *walk, const vl_key *key)
{
    find_from(walk, key);
    end_behind_prefix(walk);
}

void vl_walk_begin(vl_walk *walk, const vl_key *key, bool back)
{
    find_from(walk, key);
    if (back)
        step_cursor(walk, walk->found ? MDB_PREV : MDB_LAST);
    end_behind_prefix(walk);
}

void vl_walk_on(vl_walk *walk, bool back)
{
    step_cursor(walk, back ? MDB_PREV : MDB_NEXT);
    end_behind_prefix(walk);
}

/* Moves to the entry's key if it exists, otherwise to the next key, if there is one. */
static bool find_key(vl_walk *walk, const vl_entry *entry)
{
    find_from(walk, &entry->key);
    return walk->found && ef_str_equal(walk->key, vl_key_str(&entry->key));
}

/* To the first value of the entry's key that is not below its own. A cursor that finds nothing
 * stands nowhere: then to the key again. */
static bool find_value(vl_walk *walk, const vl_entry *entry)
{
    move_cursor(walk, MDB_GET_BOTH_RANGE, vl_key_str(&entry->key), vl_key_str(&entry->value));
    if (walk->found)
        return true;
    (void)find_key(walk, entry);
    return false;
}

void vl_walk_begin_entry(vl_walk *walk, const vl_entry *entry, bool back)
{
    bool has_key = find_key(walk, entry), has_value = has_key && find_value(walk, entry);

    if (!has_key && back)
        step_cursor(walk, walk->found ? MDB_PREV : MDB_LAST);
    else if (has_value && back)
        step_cursor(walk, MDB_PREV);
    else if (has_key && !has_value) /* all under this key are before it */
        step_cursor(walk, back ? MDB_LAST_DUP : MDB_NEXT_NODUP);
    if (back ? has_key && !has_value : has_value)
        walk->key = vl_key_str(&entry->key);
    end_behind_prefix(walk);
}

/* A row at a time from the front: LMDB 0.9.24 loses its way when a cursor deletes values of one key
 * again and again. */
void vl_cut(vl_txn *txn, vl_tree tree, vl_key prefix, int64_t *limit)
{
    vl_walk walk = vl_walk_open(txn, tree, prefix);

    for (; *limit > 0; (*limit)--) {
        vl_walk_from(&walk, &prefix);
        if (!walk.found)
            break;
        (void)vl_failed(txn, mdb_cursor_del(walk.mdb, 0), "deleting rows");
    }
    vl_walk_close(&walk);
}
