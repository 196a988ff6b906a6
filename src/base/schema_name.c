/*
 * schema_name.c - see schema_name.h.
 */
#include "schema_name.h"

#include <stdio.h>
#include <string.h>

#define JOURNAL_DEFAULT "everfold"
#define VIEWS_ENDING "_views"

/* Words that PostgreSQL does not accept as an unquoted name, and schemas of the system. */
static const char RESERVED[] =
    " all analyse analyze and any array as asc asymmetric authorization binary both case cast "
    "check collate collation column concurrently constraint create cross current_catalog "
    "current_date current_role current_schema current_time current_timestamp current_user "
    "default deferrable desc distinct do else end except false fetch for foreign freeze from "
    "full grant group having ilike in information_schema initially inner intersect into is "
    "isnull join lateral leading left like limit localtime localtimestamp natural not notnull "
    "null offset on only or order outer overlaps placing primary public references returning "
    "right select session_user similar some symmetric system_user table tablesample then to "
    "trailing true union unique user using variadic verbose when where window with ";

/* `name` has letters, digits and "_" only, so it is found as a whole word only. */
static bool is_reserved(const char *name)
{
    char word[EF__SCHEMA_NAME_MAX + 3];

    (void)snprintf(word, sizeof word, " %s ", name);
    return strstr(RESERVED, word) != NULL;
}

static ef_status check_name(const char *what, const char *name, ef_error *err)
{
    size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    if (name[plain] != '\0' || (name[0] >= '0' && name[0] <= '9'))
        return ef_fail(err, EF_BAD_INPUT,
                       "the schema of %s is \"%s\": a name has lower-case letters, digits and "
                       "\"_\", and does not start with a digit",
                       what, name);
    if (strncmp(name, "pg_", 3) == 0)
        return ef_fail(
            err, EF_BAD_INPUT,
            "the schema of %s is \"%s\": PostgreSQL reserves names that start with \"pg_\"", what,
            name);
    if (is_reserved(name))
        return ef_fail(err, EF_BAD_INPUT,
                       "the schema of %s is \"%s\": this is a reserved word or a system schema; "
                       "choose another name",
                       what, name);
    return EF_OK;
}

/* Writes `name` and `ending` to `out`. */
static ef_status copy_name(const char *what, ef_str name, const char *ending,
                           char out[EF__SCHEMA_NAME_MAX + 1], ef_error *err)
{
    int n = snprintf(out, EF__SCHEMA_NAME_MAX + 1, "%.*s%s", EF_STR_ARG(name), ending);

    if (n < 0 || n > EF__SCHEMA_NAME_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "the schema of %s, \"%.*s%s\", has %d bytes: at most %d are allowed", what,
                       EF_STR_ARG(name), ending, n, EF__SCHEMA_NAME_MAX);
    return check_name(what, out, err);
}

ef_status ef__schema_names_init(ef__schema_names *names, ef_str journal, ef_str views,
                                ef_error *err)
{
    ef_status st;

    if (journal.len == 0)
        journal = EF_STR(JOURNAL_DEFAULT);
    st = copy_name("the journal", journal, "", names->journal, err);
    if (st == EF_OK)
        st = views.len ? copy_name("the views", views, "", names->views, err)
                       : copy_name("the views", journal, VIEWS_ENDING, names->views, err);
    if (st == EF_OK && strcmp(names->journal, names->views) == 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "the journal and the views have the same schema \"%s\": they need two",
                     names->journal);
    return st;
}
