/*
 * store.c - the schema of a store as SQL text.
 */
#include "engine_priv.h"

#include "../journal/journal.h"

#include <everfold/store.h>

#define SCHEMA_BYTES_MAX (4u << 20)

ef_status ef_stores_schema(const char *journal_url, const char *views_url, ef_text *out,
                           ef_error *err)
{
    ef__buf text = EF__BUF_INIT(SCHEMA_BYTES_MAX);
    ef_status st;

    if (!journal_url || !views_url || !out)
        return ef_fail(err, EF_BAD_INPUT, "two URLs and out are needed");
    *out = (ef_text){0};
    /* A journal without a server has no schema to print, which is not an error here. */
    st = ef__journal_schema(journal_url, &text, err);
    if (st == EF_OK || st == EF_UNSUPPORTED)
        st = ef__views_schema(views_url, &text, err);
    if (st == EF_OK && text.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for a schema");
    if (st != EF_OK) {
        ef__buf_release(&text);
        return st;
    }
    *out = (ef_text){text.ptr, text.len};
    return EF_OK;
}
