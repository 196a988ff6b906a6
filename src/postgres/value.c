/*
 * value.c - see value.h.
 *
 * An array in binary, numbers big-endian: i32 dimensions = 1 | i32 has nulls | u32 type of an
 * element | i32 elements | i32 first index = 1, and for each element i32 bytes (-1: null), bytes.
 */
#include "value.h"

#include "../base/limits.h"

#include <endian.h>

enum { ARRAY_NULLS_AT = 4, ARRAY_ELEMENT_AT = 8, ARRAY_COUNT_AT = 12 };

static void add_value(ef__pg_params *params, ef__pg_type type, const char *bytes, size_t length)
{
    int i = params->count;

    if (i == EF__PG_PARAMS_MAX || length > INT32_MAX) {
        params->failed = true;
        return;
    }
    params->types[i] = (Oid)type;
    params->values[i] = bytes;
    params->lengths[i] = (int)length;
    params->formats[i] = 1;
    params->count = i + 1;
}

void ef__pg_add_int(ef__pg_params *params, int64_t value)
{
    if (params->count < EF__PG_PARAMS_MAX)
        params->numbers[params->count] = htobe64((uint64_t)value);
    add_value(params, EF__PG_INT, (const char *)&params->numbers[params->count], sizeof(uint64_t));
}

void ef__pg_add_bool(ef__pg_params *params, bool value)
{
    add_value(params, EF__PG_BOOL, value ? "\1" : "\0", 1);
}

void ef__pg_add_str(ef__pg_params *params, ef_str text)
{
    add_value(params, EF__PG_TEXT, text.ptr ? text.ptr : "", text.len);
}

void ef__pg_add_bytes(ef__pg_params *params, ef_str bytes)
{
    add_value(params, EF__PG_BYTES, bytes.ptr ? bytes.ptr : "", bytes.len);
}

void ef__pg_add_null(ef__pg_params *params, ef__pg_type type)
{
    add_value(params, type, NULL, 0);
}

static void put_u32(ef__buf *buf, uint32_t value)
{
    uint32_t wire = htobe32(value);

    (void)ef__buf_add(buf, &wire, sizeof wire);
}

/* Writes the head, unless it is there. */
static void begin_array(ef__pg_array *array)
{
    if (array->buf.len > 0)
        return;
    array->buf.max_bytes = EF_LIMIT_BATCH_BYTES;
    put_u32(&array->buf, 1);
    put_u32(&array->buf, 0);
    put_u32(&array->buf, 0); /* the type of an element */
    put_u32(&array->buf, 0); /* their number */
    put_u32(&array->buf, 1);
}

void ef__pg_add_clock(ef__pg_params *params, ef__pg_clock clock)
{
    if (clock.is_given)
        ef__pg_add_int(params, clock.now_us);
    else
        ef__pg_add_null(params, EF__PG_INT);
}

void ef__pg_add_array_of(ef__pg_params *params, ef__pg_array *array, ef__pg_type element)
{
    uint32_t count = htobe32((uint32_t)array->count), wire = htobe32((uint32_t)element);
    ef__pg_type type = element == EF__PG_INT    ? EF__PG_INT_ARRAY
                       : element == EF__PG_TEXT ? EF__PG_TEXT_ARRAY
                                                : EF__PG_BYTES_ARRAY;

    begin_array(array);
    if (array->buf.failed) {
        params->failed = true;
        return;
    }
    memcpy(array->buf.ptr + ARRAY_ELEMENT_AT, &wire, sizeof wire);
    memcpy(array->buf.ptr + ARRAY_COUNT_AT, &count, sizeof count);
    add_value(params, type, array->buf.ptr, array->buf.len);
}

void ef__pg_array_reset(ef__pg_array *array)
{
    ef__buf_reset(&array->buf);
    array->count = 0;
}

void ef__pg_array_release(ef__pg_array *array)
{
    ef__buf_release(&array->buf);
}

void ef__pg_array_int(ef__pg_array *array, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);

    begin_array(array);
    put_u32(&array->buf, sizeof wire);
    (void)ef__buf_add(&array->buf, &wire, sizeof wire);
    array->count++;
}

void ef__pg_array_str(ef__pg_array *array, ef_str text)
{
    begin_array(array);
    put_u32(&array->buf, (uint32_t)text.len);
    (void)ef__buf_add(&array->buf, text.ptr, text.len);
    array->count++;
}

void ef__pg_array_null(ef__pg_array *array)
{
    uint32_t yes = htobe32(1);

    begin_array(array);
    put_u32(&array->buf, UINT32_MAX);
    if (!array->buf.failed)
        memcpy(array->buf.ptr + ARRAY_NULLS_AT, &yes, sizeof yes);
    array->count++;
}

int64_t ef__pg_int(const PGresult *result, int row, int column)
{
    const char *at = PQgetvalue(result, row, column);
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;

    switch (PQgetlength(result, row, column)) {
    case 8:
        memcpy(&u64, at, sizeof u64);
        return (int64_t)be64toh(u64);
    case 4:
        memcpy(&u32, at, sizeof u32);
        return (int32_t)be32toh(u32);
    case 2:
        memcpy(&u16, at, sizeof u16);
        return (int16_t)be16toh(u16);
    case 1:
        return (unsigned char)*at;
    default:
        return 0;
    }
}

bool ef__pg_bool(const PGresult *result, int row, int column)
{
    return PQgetlength(result, row, column) == 1 && *PQgetvalue(result, row, column) != 0;
}

ef_str ef__pg_str(const PGresult *result, int row, int column)
{
    return (ef_str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

bool ef__pg_null(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) != 0;
}
