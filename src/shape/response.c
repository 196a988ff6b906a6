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
    ef__json_key(w, "type");
    ef__json_str(w, ef_str_from(type));
    ef__json_key(w, "title");
    ef__json_str(w, ef_str_from(ef_status_message(err->status)));
    ef__json_key(w, "status");
    ef__json_int(w, ef_status_http(err->status));
    ef__json_key(w, "code");
    ef__json_str(w, ef_str_from(ef_status_code(err->status)));
    ef__json_key(w, "detail");
    ef__json_str(w, ef_str_from(err->text[0] ? err->text : ef_status_message(err->status)));
    if (err->has_numbers) {
        ef__json_key(w, "asked");
        ef__json_int(w, err->asked);
        ef__json_key(w, "found");
        ef__json_int(w, err->found);
    }
    if (hint) {
        ef__json_key(w, "hint");
        ef__json_str(w, ef_str_from(hint));
    }
    ef__json_close(w, '}');
}

void ef__projection_write(ef__json_writer *w, const ef_projection *p)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_projection, p);
    ef__json_key(w, "scopes");
    ef__json_open(w, '[');
    for (size_t i = 0; i < p->scope_count; i++)
        ef__shape_write(w, &ef__shape_scope, &p->scopes[i]);
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void view_members(ef__json_writer *w, const ef_view *view, int64_t as_of)
{
    ef__shape_members(w, &ef__shape_view, view);
    ef__json_key(w, "as_of");
    ef__json_int(w, as_of);
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
    ef__json_key(w, "blocked_streams");
    ef__json_int(w, found->blocked_streams);
}

void ef__replay_warning_write(ef__json_writer *w, ef_str projection, const ef_event *event,
                              ef_str message)
{
    ef__json_open(w, '{');
    ef__json_key(w, "projection");
    ef__json_str(w, projection);
    ef__json_key(w, "tenant");
    ef__json_str(w, event->tenant);
    ef__json_key(w, "stream");
    ef__json_str(w, event->stream);
    ef__json_key(w, "seq");
    ef__json_int(w, event->seq);
    ef__json_key(w, "position");
    ef__json_int(w, event->position);
    ef__json_key(w, "message");
    ef__json_str(w, message);
    ef__json_close(w, '}');
}

void ef__groups_write(ef__json_writer *w, const ef_row_groups *groups)
{
    ef__json_open(w, '{');
    ef__json_key(w, "mode");
    ef__json_str(w, EF_STR("outbox-groups"));
    ef__json_key(w, "rows");
    ef__json_int(w, groups->rows);
    ef__json_key(w, "groups");
    ef__json_open(w, '[');
    for (size_t i = 0; i < groups->count; i++)
        ef__shape_write(w, &ef__shape_row_group, &groups->items[i]);
    ef__json_close(w, ']');
    ef__json_key(w, "more");
    ef__json_bool(w, groups->more);
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
