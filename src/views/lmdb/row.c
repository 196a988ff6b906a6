/*
 * row.c - keys, single rows, and shelves.
 */
#include "row.h"

_Static_assert(sizeof(vl_format) == 24, "no holes");
_Static_assert(sizeof(vl_state) == 32, "no holes");
_Static_assert(sizeof(vl_generation) == 128, "no holes");
_Static_assert(sizeof(vl_program) == 16, "no holes");
_Static_assert(sizeof(vl_cursor_row) == 40, "no holes");
_Static_assert(sizeof(vl_follow) == 32, "no holes");
_Static_assert(sizeof(vl_change_row) == 16, "no holes");
_Static_assert(sizeof(vl_failure) == 64, "no holes");
_Static_assert(sizeof(vl_view) == 40, "no holes");
_Static_assert(sizeof(vl_watermark) == 16 + EF_HASH_BYTES, "no holes");
_Static_assert(8 + 2 + VL_PART_BYTES <= VL_KEY_MAX, "an index key fits");
_Static_assert(VL_REST_BYTES + 1 + VL_NAME_MAX <= VL_KEY_MAX, "and so does its value");
_Static_assert(VL_PART_BYTES + VL_REST_BYTES > EF__KEY_BYTES, "with a place behind the longest");

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

/* A row of an earlier version ends before superseded_us, and has zeros for on_error and replaced.
 */
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

ef_status vl_row_damaged(vl_txn *txn, const char *what, ef_error *err)
{
    return ef_fail(err, EF_DAMAGED, "%s: %s is not as it was written", txn->env->folder, what);
}

ef_status vl_get(vl_txn *txn, vl_tree tree, vl_key key, ef_str *out, bool *out_found, ef_error *err)
{
    MDB_val at = vl_val(vl_key_str(&key)), value = {0, NULL};
    int rc = key.too_long ? MDB_NOTFOUND : mdb_get(txn->mdb, txn->env->trees[tree], &at, &value);

    *out = vl_str(value);
    *out_found = rc == 0;
    return rc == 0 || rc == MDB_NOTFOUND ? EF_OK : vl_failed(txn, rc, "reading a row", err);
}

ef_status vl_row_get(vl_txn *txn, vl_tree tree, vl_key key, void *out, size_t len, bool *out_found,
                     ef_error *err)
{
    ef_str value;
    ef_status st = vl_get(txn, tree, key, &value, out_found, err);

    memset(out, 0, len);
    if (st == EF_OK && *out_found && !vl_row_read(value, out, len))
        return vl_row_damaged(txn, "a row", err);
    return st;
}

ef_status vl_put(vl_txn *txn, vl_tree tree, vl_key key, ef_str value, ef_error *err)
{
    MDB_val at = vl_val(vl_key_str(&key)), put = vl_val(value);
    int rc =
        key.too_long ? MDB_BAD_VALSIZE : mdb_put(txn->mdb, txn->env->trees[tree], &at, &put, 0);

    return rc == 0 ? EF_OK : vl_failed(txn, rc, "writing a row", err);
}

ef_status vl_delete(vl_txn *txn, vl_tree tree, vl_key key, ef_error *err)
{
    MDB_val at = vl_val(vl_key_str(&key));
    int rc = key.too_long ? MDB_NOTFOUND : mdb_del(txn->mdb, txn->env->trees[tree], &at, NULL);

    return rc == 0 || rc == MDB_NOTFOUND ? EF_OK : vl_failed(txn, rc, "deleting a row", err);
}

ef_status vl_state_get(vl_txn *txn, vl_state *out, ef_error *err)
{
    bool found;
    ef_status st =
        vl_row_get(txn, VL_STATE, vl_key_of(VL_STATE_ROW), out, sizeof *out, &found, err);

    return st != EF_OK || found ? st : vl_row_damaged(txn, "its state", err);
}

ef_status vl_state_put(vl_txn *txn, const vl_state *state, ef_error *err)
{
    return vl_put(txn, VL_STATE, vl_key_of(VL_STATE_ROW), vl_bytes(state, sizeof *state), err);
}

ef_status vl_live_set_grow(vl_txn *txn, ef_error *err)
{
    vl_state state;
    ef_status st = vl_state_get(txn, &state, err);

    state.live_set++;
    return st == EF_OK ? vl_state_put(txn, &state, err) : st;
}

/* --- shelves ---------------------------------------------------------------------------------- */

ef_status vl_shelf_find(vl_txn *txn, int64_t generation, ef_str tenant, int64_t *out, ef_error *err)
{
    bool found;

    return vl_row_get(txn, VL_STATE, vl_key_name(VL_SHELF, generation, tenant), out, sizeof *out,
                      &found, err);
}

ef_status vl_shelf_make(vl_txn *txn, int64_t generation, ef_str tenant, int64_t *out, ef_error *err)
{
    vl_state state;
    ef_status st = vl_shelf_find(txn, generation, tenant, out, err);

    if (st != EF_OK || *out != 0)
        return st;
    st = vl_state_get(txn, &state, err);
    if (st != EF_OK)
        return st;
    *out = ++state.last_shelf;
    st = vl_put(txn, VL_STATE, vl_key_name(VL_SHELF, generation, tenant),
                vl_bytes(out, sizeof *out), err);
    return st == EF_OK ? vl_state_put(txn, &state, err) : st;
}
