/*
 * member.c - members of a JSON body, each by its name and kind.
 */
#include "request.h"

#include <inttypes.h>

ef_status ef__member_text(const ef__json *body, const char *key, bool needed, ef_str *out,
                          ef_error *err)
{
    const ef__json *value = ef__json_get(body, key);

    if (!value || value->kind == EF__JSON_NULL)
        return needed ? ef_fail(err, EF_BAD_INPUT, "%s is missing", key) : EF_OK;
    if (value->kind != EF__JSON_STRING)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a string", key);
    *out = value->text;
    return EF_OK;
}

ef_status ef__member_int(const ef__json *body, const char *key, bool needed, int64_t min,
                         int64_t max, int64_t *out, ef_error *err)
{
    const ef__json *value = ef__json_get(body, key);

    if (!value || value->kind == EF__JSON_NULL)
        return needed ? ef_fail(err, EF_BAD_INPUT, "%s is missing", key) : EF_OK;
    if (value->kind != EF__JSON_NUMBER || ef__json_int64(value, out) != 0 || *out < min ||
        *out > max)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a whole number from %" PRId64 " to %" PRId64,
                       key, min, max);
    return EF_OK;
}

ef_status ef__member_bool(const ef__json *body, const char *key, bool *out, ef_error *err)
{
    const ef__json *value = ef__json_get(body, key);

    if (!value || value->kind == EF__JSON_NULL)
        return EF_OK;
    if (value->kind != EF__JSON_TRUE && value->kind != EF__JSON_FALSE)
        return ef_fail(err, EF_BAD_INPUT, "%s is neither true nor false", key);
    *out = value->kind == EF__JSON_TRUE;
    return EF_OK;
}

ef_status ef__members_only(const ef__json *body, const char *keys, ef_error *err)
{
    for (const ef__json *m = body->first; m; m = m->next) {
        const char *list = keys;
        bool known = false;
        while (*list && !known) {
            size_t n = strcspn(list, ",");
            known = n == m->key.len && memcmp(list, m->key.ptr, n) == 0;
            list += n + (list[n] == ',');
        }
        if (!known)
            return ef_fail(err, EF_BAD_INPUT, "there is no member '%.*s' here; there are: %s",
                           EF_STR_ARG(m->key), keys);
    }
    return EF_OK;
}

ef_status ef__request_reason(ef__request *r, const char *keys, const ef__json **out_body,
                             ef_str *out_reason, ef_error *err)
{
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, out_body, err);
    if (st == EF_OK)
        st = ef__members_only(*out_body, keys, err);
    return st == EF_OK ? ef__member_text(*out_body, "reason", false, out_reason, err) : st;
}

static void write_row(ef__json_writer *w, const ef_row *row)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_row, row);
    ef__shape_members(w, &ef__shape_row_more, row);
    ef__json_close(w, '}');
}

ef_status ef__request_note(ef__request *r, const char *act, ef_str what, ef_str reason,
                           ef_error *err)
{
    return ef_audit_add(r->server->options.journal,
                        &(ef_audit_entry){.action = ef_str_from(act),
                                          .actor = ef_str_from(r->who.name),
                                          .reason = reason,
                                          .lane = what,
                                          .tenant = r->tenant},
                        err);
}

void ef__request_rows(ef__json_writer *w, const ef_row_list *rows)
{
    ef__json_key(w, "rows");
    ef__json_open(w, '[');
    for (size_t i = 0; i < rows->count; i++)
        write_row(w, &rows->items[i]);
    ef__json_close(w, ']');
}

void ef__request_summary(ef__json_writer *w, const ef_outbox_summary *summary)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_summary, summary);
    ef__json_key(w, "oldest");
    if (summary->oldest.count > 0)
        write_row(w, &summary->oldest.items[0]);
    else
        ef__json_null(w);
    ef__shape_members(w, &ef__shape_summary_more, summary);
    ef__json_close(w, '}');
}
