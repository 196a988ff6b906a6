/*
 * response.c - JSON that consists of more than one object: problems, pages of a query, the outbox
 * report.
 */
#include "shape.h"

#include <stdio.h>

void ef__problem_write(ef__json_writer *w, const ef_error *err, const char *hint)
{
    char type[96];

    (void)snprintf(type, sizeof(type), "urn:everfold:problem:%s", ef_status_code(err->status));
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", type);
    ef__json_member_text(w, "title", ef_status_message(err->status));
    ef__json_member_int(w, "status", ef_status_http(err->status));
    ef__json_member_text(w, "code", ef_status_code(err->status));
    ef__json_member_text(w, "detail", err->text[0] ? err->text : ef_status_message(err->status));
    if (err->has_numbers) {
        ef__json_member_int(w, "asked", err->asked);
        ef__json_member_int(w, "found", err->found);
    }
    if (hint) {
        ef__json_member_text(w, "hint", hint);
    }
    ef__json_close(w, '}');
}

void ef__projection_write(ef__json_writer *w, const ef_projection *p)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_projection, p);
    ef__json_member_open(w, "scopes", '[');
    for (size_t i = 0; i < p->scope_count; i++)
        ef__shape_write(w, &ef__shape_scope, &p->scopes[i]);
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void view_members(ef__json_writer *w, const ef_view *view, int64_t as_of)
{
    ef__shape_members(w, &ef__shape_view, view);
    ef__json_member_int(w, "as_of", as_of);
}

void ef__view_write(ef__json_writer *w, const ef_view *view, int64_t as_of)
{
    ef__json_open(w, '{');
    view_members(w, view, as_of);
    ef__json_close(w, '}');
}

void ef__view_write_found(ef__json_writer *w, const ef_view_list *found, bool current)
{
    ef__json_open(w, '{');
    view_members(w, &found->items[0], found->as_of);
    if (current)
        ef__blocked_write(w, found);
    ef__json_close(w, '}');
}

void ef__blocked_write(ef__json_writer *w, const ef_view_list *found)
{
    ef__json_member_int(w, "blocked_streams", found->blocked_streams);
}

void ef__replay_warning_write(ef__json_writer *w, ef_str projection, const ef_event *event,
                              ef_str message)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "projection", projection);
    ef__json_member_str(w, "tenant", event->tenant);
    ef__json_member_str(w, "stream", event->stream);
    ef__json_member_int(w, "seq", event->seq);
    ef__json_member_int(w, "position", event->position);
    ef__json_member_str(w, "message", message);
    ef__json_close(w, '}');
}

void ef__groups_write(ef__json_writer *w, const ef_row_groups *groups)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "mode", EF_STR("outbox-groups"));
    ef__json_member_int(w, "rows", groups->rows);
    ef__json_member_open(w, "groups", '[');
    for (size_t i = 0; i < groups->count; i++)
        ef__shape_write(w, &ef__shape_row_group, &groups->items[i]);
    ef__json_close(w, ']');
    ef__json_member_bool(w, "more", groups->more);
    ef__json_close(w, '}');
}

void ef__summary_write(ef__json_writer *w, const ef_outbox_summary *summary)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_summary, summary);
    ef__json_key(w, "oldest");
    if (summary->oldest.count > 0)
        ef__shape_write(w, &ef__shape_row, &summary->oldest.items[0]);
    else
        ef__json_null(w);
    ef__json_close(w, '}');
}

void ef__one_line(ef__buf *out, size_t start)
{
    for (size_t i = start; i < out->len; i++)
        if (out->ptr[i] == '\n' || out->ptr[i] == '\r')
            out->ptr[i] = ' ';
}
