/*
 * value.h - parameters and results of statements, in the binary format of PostgreSQL.
 *
 * Each parameter has an explicit type: bigint, boolean, text, bytea, and arrays of
 * bigint, text and bytea. Results come in binary too: numbers of any width as int64, text and bytea
 * as bytes; anything else is cast in the statement (numeric to bigint, jsonb to text).
 */
#pragma once

#include "../base/buf.h"

#include <everfold/status.h>
#include <everfold/str.h>

#include <libpq-fe.h>

#define EF__PG_PARAMS_MAX 32 /* no statement needs more, because batches are arrays */

/* The OIDs of the types, which are fixed in the catalog. */
typedef enum ef__pg_type {
    EF__PG_BOOL = 16,
    EF__PG_BYTES = 17,
    EF__PG_INT = 20,
    EF__PG_TEXT = 25,
    EF__PG_BYTES_ARRAY = 1001,
    EF__PG_TEXT_ARRAY = 1009,
    EF__PG_INT_ARRAY = 1016
} ef__pg_type;

/* Values in the order of $1, $2 … Texts and arrays are borrowed until the statement was sent.
 * Starts as {0}; must not be copied after a value was added, because `values` points into
 * `numbers`. */
typedef struct ef__pg_params {
    int count;
    Oid types[EF__PG_PARAMS_MAX];
    const char *values[EF__PG_PARAMS_MAX];
    int lengths[EF__PG_PARAMS_MAX];
    int formats[EF__PG_PARAMS_MAX];
    uint64_t numbers[EF__PG_PARAMS_MAX];
    bool failed; /* an array ran out of memory */
} ef__pg_params;

/* Starts as {0}, and has no memory before the first element. Lack of memory is reported when it is
 * added to parameters. */
typedef struct ef__pg_array {
    ef__buf buf;
    int32_t count;
} ef__pg_array;

/* A time that a test sets; otherwise null, which means the clock of the server. */
typedef struct ef__pg_clock {
    bool is_given;
    int64_t now_us;
} ef__pg_clock;

void ef__pg_add_int(ef__pg_params *params, int64_t value);
void ef__pg_add_bool(ef__pg_params *params, bool value);
void ef__pg_add_str(ef__pg_params *params, ef_str text);
void ef__pg_add_bytes(ef__pg_params *params, ef_str bytes);
void ef__pg_add_null(ef__pg_params *params, ef__pg_type type);
/* The array is borrowed, and can be extended again after the statement was sent. `element` is
 * EF__PG_INT, EF__PG_TEXT or EF__PG_BYTES. */
void ef__pg_add_array_of(ef__pg_params *params, ef__pg_array *array, ef__pg_type element);
void ef__pg_add_clock(ef__pg_params *params, ef__pg_clock clock);

void ef__pg_array_reset(ef__pg_array *array);
void ef__pg_array_release(ef__pg_array *array);
void ef__pg_array_int(ef__pg_array *array, int64_t value);
void ef__pg_array_str(ef__pg_array *array, ef_str text); /* text and bytea alike */
void ef__pg_array_null(ef__pg_array *array);

/* Values of a result; texts are valid until PQclear. NULL is 0, false or "". */
int64_t ef__pg_int(const PGresult *result, int row, int column);
bool ef__pg_bool(const PGresult *result, int row, int column);
ef_str ef__pg_str(const PGresult *result, int row, int column);
bool ef__pg_null(const PGresult *result, int row, int column);
