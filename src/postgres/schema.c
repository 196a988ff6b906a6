/*
 * schema.c - see schema.h.
 */
#include "schema.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_WORD "everfold"
#define VIEWS_WORD "everfold_views"
#define TENANT_SETTING ".tenant'" /* after JOURNAL_WORD: a quoted setting, not a table */
#define TEXT_BYTES_MAX (4 << 20)

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_length(const char *at)
{
    size_t n = 0;

    while (is_word_char(at[n]))
        n++;
    return n;
}

/* The replacement of a word; NULL: none. */
static const char *word_for(const ef__schema_names *names, const char *word, size_t length)
{
    if (length == strlen(VIEWS_WORD) && memcmp(word, VIEWS_WORD, length) == 0)
        return names->views;
    if (length == strlen(JOURNAL_WORD) && memcmp(word, JOURNAL_WORD, length) == 0 &&
        strncmp(word + length, TENANT_SETTING, strlen(TENANT_SETTING)) != 0)
        return names->journal;
    return NULL;
}

bool ef__pg_schema_add(ef__buf *out, const ef__schema_names *names, const char *sql)
{
    for (const char *at = sql; *at;) {
        size_t length = word_length(at);
        const char *other = length ? word_for(names, at, length) : NULL;

        if (length == 0)
            length = 1;
        if (other)
            (void)ef__buf_add_text(out, other);
        else
            (void)ef__buf_add(out, at, length);
        at += length;
    }
    return !out->failed;
}

ef_status ef__pg_statements_copy(ef__pg_statements *out, const ef__pg_statements *from,
                                 const ef__schema_names *names, ef_error *err)
{
    const char **sql = calloc((size_t)from->count + 1, sizeof *sql);
    size_t *starts = calloc((size_t)from->count + 1, sizeof *starts);
    ef__buf text = EF__BUF_INIT(TEXT_BYTES_MAX);
    bool done = sql && starts;

    for (int i = 0; done && i < from->count; i++) {
        starts[i] = text.len;
        done = ef__pg_schema_add(&text, names, from->sql[i]) && ef__buf_add(&text, "", 1);
    }
    for (int i = 0; done && i < from->count; i++)
        sql[i] = text.ptr + starts[i];
    free(starts);
    if (!done) {
        free(sql);
        ef__buf_release(&text);
        return ef_fail(err, EF_NO_MEMORY, "out of memory for statements");
    }
    *out = (ef__pg_statements){
        .sql = sql, .names = from->names, .count = from->count, .text = text.ptr};
    return EF_OK;
}

void ef__pg_statements_release(ef__pg_statements *statements)
{
    free(statements->text);
    free((void *)statements->sql);
    *statements = (ef__pg_statements){0};
}
