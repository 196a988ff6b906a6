/*
 * function.h - the functions a program may call. All are pure.
 *
 * One table names them; the parser resolves a call to its entry, the checker counts arguments and
 * compares kinds, the manual's list and `help` come from it, and the evaluator calls its code. A
 * function is added by a line in EF__FUNCTION_MAP and its ef__call_CODE in a file call_….c.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

/* Kinds of a value, as bits. */
enum {
    EF__KIND_NULL = 1,
    EF__KIND_BOOL = 2,
    EF__KIND_NUMBER = 4,
    EF__KIND_TEXT = 8,
    EF__KIND_ARRAY = 16,
    EF__KIND_OBJECT = 32,
    EF__KIND_ANY = 63
};

#define EF__N EF__KIND_NUMBER
#define EF__T EF__KIND_TEXT
#define EF__B EF__KIND_BOOL
#define EF__A EF__KIND_ARRAY
#define EF__O EF__KIND_OBJECT
#define EF__X EF__KIND_ANY
#define EF__Z EF__KIND_NULL
#define EF__MANY 16 /* arguments of a variadic function: they are evaluated into an array */

/*
 * id, name, code, min args, max args, kinds of the first, second and third argument (the last one
 * stands for all further ones), kinds of the result, help line, example
 */
#define EF__FUNCTION_MAP(X)                                                                        \
    X(LOWER, "lower", lower, 1, 1, EF__T, 0, 0, EF__T, "small letters, A to Z only",               \
      "lower(\"Ab\")")                                                                             \
    X(UPPER, "upper", upper, 1, 1, EF__T, 0, 0, EF__T, "capitals, a to z only", "upper(\"Ab\")")   \
    X(TRIM, "trim", trim, 1, 1, EF__T, 0, 0, EF__T, "without white space at both ends",            \
      "trim(\" a \")")                                                                             \
    X(LENGTH, "length", length, 1, 1, EF__T, 0, 0, EF__N, "how many characters",                   \
      "length(\"abc\")")                                                                           \
    X(SUBSTR, "substr", substr, 2, 3, EF__T, EF__N, EF__N, EF__T,                                  \
      "characters from a place (0 is the first, -1 the last), at most so many",                    \
      "substr(\"abcd\", 1, 2)")                                                                    \
    X(STARTS_WITH, "starts_with", starts_with, 2, 2, EF__T, EF__T, 0, EF__B,                       \
      "does a text begin with another", "starts_with(type, \"order.\")")                           \
    X(ENDS_WITH, "ends_with", ends_with, 2, 2, EF__T, EF__T, 0, EF__B,                             \
      "does a text end in another", "ends_with(\"a.csv\", \".csv\")")                              \
    X(CONTAINS, "contains", contains, 2, 2, EF__T | EF__A, EF__X, 0, EF__B,                        \
      "is a text in a text, or a value in an array", "contains([1, 2], 2)")                        \
    X(SPLIT, "split", split, 2, 2, EF__T, EF__T, 0, EF__A, "the parts between separators",         \
      "split(\"a,b\", \",\")")                                                                     \
    X(JOIN, "join", join, 2, 2, EF__A, EF__T, 0, EF__T, "the texts of an array, with a separator", \
      "join([\"a\", \"b\"], \"-\")")                                                               \
    X(REPLACE, "replace", replace, 3, 3, EF__T, EF__T, EF__T, EF__T,                               \
      "every occurrence by another text", "replace(\"a-b\", \"-\", \"_\")")                        \
    X(TEXT, "text", text, 1, 1, EF__X, 0, 0, EF__T, "a value as text; a text stays as it is",      \
      "text(12.5)")                                                                                \
    X(FORMAT, "format", format, 1, EF__MANY, EF__T, EF__X, EF__X, EF__T,                           \
      "a text in which each {} is the next value", "format(\"{} of {}\", 1, 3)")                   \
    X(PAD, "pad", pad, 2, 3, EF__T | EF__N, EF__N, EF__T, EF__T,                                   \
      "filled at the left up to a length, with spaces or a given character", "pad(7, 3, \"0\")")   \
    X(ABS, "abs", abs, 1, 1, EF__N, 0, 0, EF__N, "without its sign", "abs(-2)")                    \
    X(MIN, "min", extreme, 1, EF__MANY, EF__N | EF__T, EF__N | EF__T, EF__N | EF__T,               \
      EF__N | EF__T, "the least of its arguments", "min(3, 1, 2)")                                 \
    X(MAX, "max", extreme, 1, EF__MANY, EF__N | EF__T, EF__N | EF__T, EF__N | EF__T,               \
      EF__N | EF__T, "the greatest of its arguments", "max(3, 1, 2)")                              \
    X(ROUND, "round", round, 1, 2, EF__N, EF__N, 0, EF__N, "half to even, at so many decimals",    \
      "round(2.345, 2)")                                                                           \
    X(FLOOR, "floor", whole, 1, 1, EF__N, 0, 0, EF__N, "the whole number below", "floor(-1.5)")    \
    X(CEIL, "ceil", whole, 1, 1, EF__N, 0, 0, EF__N, "the whole number above", "ceil(1.2)")        \
    X(SIGN, "sign", sign, 1, 1, EF__N, 0, 0, EF__N, "-1, 0 or 1", "sign(-3)")                      \
    X(NUMBER, "number", number, 1, 1, EF__T | EF__N, 0, 0, EF__N, "a text as a number",            \
      "number(\"12.50\")")                                                                         \
    X(DATE, "date", cut_time, 1, 1, EF__T, 0, 0, EF__T, "the day of a time, as YYYY-MM-DD",        \
      "date(time)")                                                                                \
    X(YEAR, "year", time_part, 1, 1, EF__T, 0, 0, EF__N, "the year of a time or date",             \
      "year(time)")                                                                                \
    X(MONTH, "month", time_part, 1, 1, EF__T, 0, 0, EF__N, "the month, 1 to 12", "month(time)")    \
    X(DAY, "day", time_part, 1, 1, EF__T, 0, 0, EF__N, "the day of the month, 1 to 31",            \
      "day(time)")                                                                                 \
    X(HOUR, "hour", time_part, 1, 1, EF__T, 0, 0, EF__N, "the hour, 0 to 23", "hour(time)")        \
    X(DATE_PART, "date_part", date_part, 2, 2, EF__T, EF__T, 0, EF__N,                             \
      "year, month, day, hour, minute, second, weekday (1 is Monday) or day_of_year",              \
      "date_part(\"weekday\", time)")                                                              \
    X(TO_HOUR, "to_hour", cut_time, 1, 1, EF__T, 0, 0, EF__T, "cut to the hour, as YYYY-MM-DDTHH", \
      "to_hour(time)")                                                                             \
    X(TO_DAY, "to_day", cut_time, 1, 1, EF__T, 0, 0, EF__T, "cut to the day, as YYYY-MM-DD",       \
      "to_day(time)")                                                                              \
    X(TO_MONTH, "to_month", cut_time, 1, 1, EF__T, 0, 0, EF__T, "cut to the month, as YYYY-MM",    \
      "to_month(time)")                                                                            \
    X(COUNT, "count", count, 1, 1, EF__A | EF__O, 0, 0, EF__N, "how many items or keys",           \
      "count([1, 2])")                                                                             \
    X(FIRST, "first", first, 1, 1, EF__A, 0, 0, EF__X, "the first item, null when empty",          \
      "first([1, 2])")                                                                             \
    X(LAST, "last", last, 1, 1, EF__A, 0, 0, EF__X, "the last item, null when empty",              \
      "last([1, 2])")                                                                              \
    X(SUM, "sum", sum, 1, 2, EF__A, EF__T, 0, EF__N,                                               \
      "of the numbers of an array, or of a field of its objects; 0 when empty", "sum([1, 2.5])")   \
    X(AVG, "avg", avg, 1, 2, EF__A, EF__T, 0, EF__N | EF__Z, "the mean, null when empty",          \
      "avg([1, 2])")                                                                               \
    X(MIN_OF, "min_of", extreme_item, 1, 2, EF__A, EF__T, 0, EF__X,                                \
      "the least item, null when empty", "min_of([3, 1])")                                         \
    X(MAX_OF, "max_of", extreme_item, 1, 2, EF__A, EF__T, 0, EF__X,                                \
      "the greatest item, null when empty", "max_of([3, 1])")                                      \
    X(SORT, "sort", sort, 1, 2, EF__A, EF__T, 0, EF__A,                                            \
      "in rising order, or by a field of its objects", "sort([3, 1, 2])")                          \
    X(UNIQUE, "unique", unique, 1, 1, EF__A, 0, 0, EF__A,                                          \
      "without duplicates; the first of each stays", "unique([1, 1, 2])")                          \
    X(REVERSE, "reverse", reverse, 1, 1, EF__A, 0, 0, EF__A, "from the last to the first",         \
      "reverse([1, 2])")                                                                           \
    X(SLICE, "slice", slice, 2, 3, EF__A, EF__N, EF__N, EF__A,                                     \
      "items from a place (0 is the first, -1 the last), at most so many",                         \
      "slice([1, 2, 3], 1, 1)")                                                                    \
    X(PLUCK, "pluck", pluck, 2, 2, EF__A, EF__T, 0, EF__A, "one field of each object of an array", \
      "pluck(data.items, \"sku\")")                                                                \
    X(KEYS, "keys", members, 1, 1, EF__O, 0, 0, EF__A, "the keys, sorted", "keys({a: 1})")         \
    X(VALUES, "values", members, 1, 1, EF__O, 0, 0, EF__A, "the values, by sorted keys",           \
      "values({a: 1})")                                                                            \
    X(HAS, "has", has, 2, 2, EF__O | EF__A, EF__T | EF__N, 0, EF__B,                               \
      "is there such a key or index", "has(data, \"coupon\")")                                     \
    X(MERGE, "merge", merge, 2, EF__MANY, EF__O, EF__O, EF__O, EF__O,                              \
      "one object of several; the later ones win", "merge({a: 1}, {b: 2})")                        \
    X(SHA256, "sha256", sha256, 1, 1, EF__X, 0, 0, EF__T,                                          \
      "in hexadecimal; of a text's bytes, or of the canonical text of anything else",              \
      "sha256(\"a\")")                                                                             \
    X(CRC32, "crc32", crc32, 1, 1, EF__X, 0, 0, EF__N, "the same with CRC-32, as a number",        \
      "crc32(\"a\")")                                                                              \
    X(HASH, "hash", hash, 1, 1, EF__X, 0, 0, EF__T, "the same with XXH3, 16 hexadecimal digits",   \
      "hash(\"a\")")                                                                               \
    X(TYPE_OF, "type_of", type_of, 1, 1, EF__X, 0, 0, EF__T,                                       \
      "null, boolean, number, text, array or object", "type_of(1)")                                \
    X(IS_NULL, "is_null", is_kind, 1, 1, EF__X, 0, 0, EF__B, "null, or not there",                 \
      "is_null(data.a)")                                                                           \
    X(IS_BOOLEAN, "is_boolean", is_kind, 1, 1, EF__X, 0, 0, EF__B, "is it true or false",          \
      "is_boolean(true)")                                                                          \
    X(IS_NUMBER, "is_number", is_kind, 1, 1, EF__X, 0, 0, EF__B, "is it a number", "is_number(1)") \
    X(IS_TEXT, "is_text", is_kind, 1, 1, EF__X, 0, 0, EF__B, "is it a text", "is_text(\"a\")")     \
    X(IS_ARRAY, "is_array", is_kind, 1, 1, EF__X, 0, 0, EF__B, "is it an array", "is_array([1])")  \
    X(IS_OBJECT, "is_object", is_kind, 1, 1, EF__X, 0, 0, EF__B, "is it an object",                \
      "is_object({a: 1})")

typedef enum ef__function_id {
#define EF__FUNCTION_ID(id, ...) EF__FN_##id,
    EF__FUNCTION_MAP(EF__FUNCTION_ID)
#undef EF__FUNCTION_ID
        EF__FN_COUNT_ALL
} ef__function_id;

typedef struct ef__function {
    ef__function_id id;
    const char *name;
    uint8_t min_args;
    uint8_t max_args;
    uint8_t arg_kinds[3]; /* the third stands for all further ones */
    uint8_t result_kinds;
    const char *help;
    const char *example;
} ef__function;

/* In the order of the map: ef__functions[id]. call.c has it. */
extern const ef__function ef__functions[EF__FN_COUNT_ALL];

/* The function of that name, or NULL. */
const ef__function *ef__function_find(ef_str name);
/* The name that was probably meant, or NULL. */
const char *ef__function_suggest(ef_str name);
