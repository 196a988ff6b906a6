/*
 * row.h - the layout of keys and values, and access to a row by its key.
 *
 * Keys sort by their bytes. Numbers in keys are 8 bytes, big-endian, so that they sort too; names
 * are last, or have their length before them, so that nothing is ambiguous.
 *
 *     state       kind (1 byte) and what vl_kind says
 *     view        shelf, id
 *     watermark   shelf, stream
 *     index       shelf, idx (2 bytes), the first VL_PART_BYTES of the key; the rest of it and the
 *                 view's id are in the value (see vl_entry)
 *
 * A shelf is the number of one tenant in one generation; the row (generation, tenant) -> shelf
 * assigns it. So no key exceeds LMDB's 511 bytes, however long the names are, and the data of a
 * tenant is one range. A scan of all tenants iterates over the shelves, in the order of tenants.
 *
 * Values are structs with members of fixed size and without padding, followed by bytes; they are
 * copied in and out, because LMDB only aligns to 2. Numbers have the byte order of the machine, as
 * in LMDB's pages: a machine with another byte order refuses the file.
 */
#pragma once

#include "env.h"

#include <stddef.h>

#define VL_MAGIC "EfViews"
#define VL_KEY_MAX 511    /* LMDB's */
#define VL_NAME_MAX 480   /* names are shorter by far; a bound of a scan may not be */
#define VL_PART_BYTES 496 /* of an index key, in the key */
#define VL_REST_BYTES 17  /* what may be left of it, and one more for a place behind it */

/* Kinds of rows in the tree `state`. */
typedef enum vl_kind {
    VL_FORMAT = 'a',       /* -> vl_format */
    VL_STATE_ROW = 'b',    /* -> vl_state */
    VL_GENERATION = 'g',   /* generation -> vl_generation: what commits change */
    VL_PROGRAM = 'p',      /* generation -> vl_program and its texts */
    VL_SHELF = 's',        /* generation, tenant -> shelf */
    VL_CURSOR = 'c',       /* generation, tenant -> vl_cursor_row */
    VL_DUE = 'd',          /* generation, due_us, tenant: the same in the order they are due */
    VL_FAILURE = 'f',      /* generation, id -> vl_failure and its texts */
    VL_FAILURE_OPEN = 'o', /* generation, id: those that are open */
    VL_FAILURE_AT = 'e',   /* shelf, length (2 bytes), stream, seq -> id of the open one */
    VL_FOLLOW = 'w',       /* generation, tenant -> vl_follow_row */
    VL_FOLLOW_END = 'u',   /* generation, until_us, tenant: the same in the order of their ends */
    VL_FOLLOW_FLOOR = 'h', /* generation -> the highest number of those that ended */
    VL_CHANGE = 'r',       /* shelf, number -> vl_change_row and the view's id */
    VL_RETIRED = 'v',      /* version, name of a projection -> nothing: it was retired */
    VL_FENCE = 'x',        /* scope -> token */
    VL_FENCE_LONG = 'y'    /* SHA-256 of a scope that is too long for a key -> token */
} vl_kind;

typedef struct vl_format {
    char magic[8];
    uint32_t version, unused;
    int64_t created_us;
} vl_format;

/* Numbers that are never given again, and the live set. */
typedef struct vl_state {
    int64_t live_set, last_generation, last_failure, last_shelf;
} vl_state;

typedef struct vl_generation {
    int64_t era, position, seam, created_us, updated_us;
    int64_t views, applied, ignored, skipped;
    uint64_t digest[2];
    uint64_t program_hash;
    int32_t version, number, schema, state;
    uint8_t by_log, active, indexed, on_error;
    int32_t replaced;
    int64_t superseded_us; /* not in rows of earlier versions: VL_GENERATION_BYTES_MIN */
} vl_generation;

#define VL_GENERATION_BYTES_MIN offsetof(vl_generation, superseded_us)

typedef struct vl_program {
    uint32_t text_bytes[3], unused;
} vl_program;

typedef struct vl_cursor_row {
    int64_t position, waiting, attempts, due_us, updated_us;
} vl_cursor_row;

typedef struct vl_follow_row {
    int64_t until_us, low, last, kept;
} vl_follow_row;

typedef struct vl_change_row {
    int64_t position, kind;
} vl_change_row;

typedef struct vl_failure {
    int64_t seq, position, recorded_us, resolved_us;
    int32_t attempts;
    uint32_t open;
    uint32_t text_bytes[5];
    uint32_t line; /* 0 in rows of earlier versions */
} vl_failure;

/* Followed by the data, and then by its packed keys (keys.h). */
typedef struct vl_view {
    int64_t last_position, last_seq;
    uint64_t digest[2];
    int32_t schema;
    uint32_t data_bytes;
} vl_view;

typedef struct vl_watermark {
    int64_t applied_seq, expected_next_seq;
    uint8_t hash[EF_HASH_BYTES];
} vl_watermark;

/* --- keys ------------------------------------------------------------------------------------- */

typedef struct vl_key {
    size_t len;
    bool too_long;
    uint8_t bytes[VL_KEY_MAX];
} vl_key;

void vl_key_add(vl_key *key, const void *bytes, size_t len);
void vl_key_add_number(vl_key *key, uint64_t number);
uint64_t vl_number_at(ef_str key, size_t at); /* 0 where it is not */

#define VL_NO_PREFIX ((vl_key){.len = 0})

vl_key vl_key_of(vl_kind kind);
vl_key vl_key_number(vl_kind kind, int64_t number);
vl_key vl_key_numbers(vl_kind kind, int64_t number, int64_t second);
vl_key vl_key_name(vl_kind kind, int64_t number, ef_str name);
/* In the order of times, also of those before 1970; and the time in it, in its bytes 9 to 16. */
vl_key vl_key_time(vl_kind kind, int64_t number, int64_t time_us, ef_str name);
int64_t vl_time_at(ef_str key);
#define VL_TIME_KEY_BYTES 17                     /* before its name */
vl_key vl_shelf_key(int64_t shelf, ef_str name); /* of a view or a watermark */

/*
 * An entry of an index is in the order of (key, id), exactly:
 *
 *     a key below VL_PART_BYTES    the key of LMDB              value: 0 (1 byte), id
 *     a longer one                 its first VL_PART_BYTES      value: the rest of it, padded
 *                                                               with 0; its length (1 byte); id
 *
 * LMDB sorts by its keys and then by the values under one of them. Keys with the same first part
 * are sorted by their rests; of two rests that differ only in zeros at the end, the shorter one is
 * first.
 */
typedef struct vl_entry {
    vl_key key;
    vl_key value;
} vl_entry;

vl_entry vl_entry_of(int64_t shelf, int32_t index, ef_str key, ef_str id);
/* The inverse; `*out_key` is stored in `buffer`. False: not an entry. */
bool vl_entry_read(ef_str key, ef_str value, char buffer[EF__KEY_BYTES + 1], ef_str *out_key,
                   ef_str *out_id);

static inline MDB_val vl_val(ef_str bytes)
{
    return (MDB_val){bytes.len, (void *)bytes.ptr};
}

static inline ef_str vl_str(MDB_val val)
{
    return (ef_str){val.mv_data, val.mv_size};
}

static inline ef_str vl_bytes(const void *bytes, size_t len)
{
    return (ef_str){bytes, len};
}

static inline ef_str vl_key_str(const vl_key *key)
{
    return (ef_str){(const char *)key->bytes, key->len};
}

/* A key without its first `at` bytes. */
static inline ef_str vl_key_rest(ef_str key, size_t at)
{
    return (ef_str){key.ptr + at, key.len - at};
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Copies the struct at the start of a value. False: the value is too short. */
bool vl_row_read(ef_str value, void *out, size_t len);
/* The same; a value that is too short is damage, and `*out` is zero. */
void vl_row_take(vl_txn *txn, ef_str value, void *out, size_t len, const char *what);
bool vl_generation_read(ef_str value, vl_generation *out);
void vl_row_damaged(vl_txn *txn, const char *what);

/* Is there such a row? `*out` lives as long as the transaction, or until the next write. */
bool vl_get(vl_txn *txn, vl_tree tree, vl_key key, ef_str *out);
/* Rows of the tree `state`. */
/* A struct, with the lengths of the texts that follow it in `text_bytes`, which is part of it. */
void vl_texts_put(vl_txn *txn, vl_key key, void *head, size_t head_bytes, uint32_t *text_bytes,
                  const ef__texts *texts, const void *item);
/* The inverse; texts live as long as those of vl_get. False: there is no such row, or damage. */
bool vl_texts_get(vl_txn *txn, vl_key key, void *head, size_t head_bytes,
                  const uint32_t *text_bytes, const ef__texts *texts, void *item);
void vl_put(vl_txn *txn, vl_key key, ef_str value);
void vl_delete(vl_txn *txn, vl_key key); /* may be missing */
/* A value that is a struct; zero if it is missing. EF_DAMAGED: the value is too short. */
bool vl_row_get(vl_txn *txn, vl_key key, void *out, size_t len);

vl_state vl_state_get(vl_txn *txn);
void vl_state_put(vl_txn *txn, const vl_state *state);
void vl_live_set_grow(vl_txn *txn);

/* 0: the tenant has nothing in the generation. */
int64_t vl_shelf_find(vl_txn *txn, int64_t generation, ef_str tenant);
int64_t vl_shelf_make(vl_txn *txn, int64_t generation, ef_str tenant);

/* --- walking ---------------------------------------------------------------------------------- */

/* Iterates over the rows of a tree whose keys begin with `prefix`, which may be changed. */
typedef struct vl_walk {
    vl_txn *txn;
    vl_tree tree;
    MDB_cursor *mdb;
    vl_key prefix;     /* the walk ends before a row without it */
    bool found;        /* key and value show where it stands */
    ef_str key, value; /* live as those of vl_get */
} vl_walk;

/* It stands nowhere; vl_walk_first is on the first row. */
vl_walk vl_walk_open(vl_txn *txn, vl_tree tree, vl_key prefix);
vl_walk vl_walk_first(vl_txn *txn, vl_tree tree, vl_key prefix);
void vl_walk_close(vl_walk *walk);
/* To this key, or nowhere; to the first key that is not below it; on. */
void vl_walk_at(vl_walk *walk, const vl_key *key);
void vl_walk_from(vl_walk *walk, const vl_key *key);
void vl_walk_on(vl_walk *walk, bool back);
/* As vl_walk_from, or `back` to the last before it; the same with entries of an index. */
void vl_walk_begin(vl_walk *walk, const vl_key *key, bool back);
void vl_walk_begin_entry(vl_walk *walk, const vl_entry *entry, bool back);
/* The name in the key behind the prefix. */
static inline ef_str vl_walk_name(const vl_walk *walk)
{
    return vl_key_rest(walk->key, walk->prefix.len);
}

/* Deletes up to *limit rows whose keys begin so, and takes them off the limit. */
void vl_cut(vl_txn *txn, vl_tree tree, vl_key prefix, int64_t *limit);
