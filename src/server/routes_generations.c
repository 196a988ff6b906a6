/*
 * routes_generations.c - generations of a projection: retire, compare, start with known views.
 */
#include "request.h"

#include "../base/incoming.h"

#include <everfold/generation.h>

#include <inttypes.h>

/* --- retire ----------------------------------------------------------------------------------- */

static ef_status retire_generation(ef__request *r, void *request, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    int64_t count = 0;
    ef_status st = ef_projection_retire(ef__request_engine(r), request, &count, err);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_member_int(&w, "retired", count);
        ef__json_close(&w, '}');
    }
    return st;
}

/* --- diff ------------------------------------------------------------------------------------- */

typedef struct difference_writer {
    ef__json_writer writer;
    int64_t limit, count;
} difference_writer;

static bool write_difference(void *context, const ef_difference *d)
{
    difference_writer *list = context;

    if (list->count++ >= list->limit)
        return true; /* counted, but not listed */
    ef__json_open(&list->writer, '{');
    ef__json_member_str(&list->writer, "tenant", d->tenant);
    ef__json_member_str(&list->writer, "view_id", d->view_id);
    ef__json_member_raw(&list->writer, "left", d->left);
    ef__json_member_raw(&list->writer, "right", d->right);
    ef__json_close(&list->writer, '}');
    return true;
}

static ef_status diff_generations(ef__request *r, void *request, ef_error *err)
{
    ef__diff_request *asked = request;
    difference_writer list = {.writer = ef__request_writer(r), .limit = asked->limit};
    ef_diff counts = {0};
    ef_status st;

    asked->right.projection = asked->left.projection;
    ef__json_open(&list.writer, '{');
    ef__json_member_open(&list.writer, "differences", '[');
    st = ef_projection_diff(ef__request_engine(r), &asked->left, &asked->right, write_difference,
                            &list, &counts, err);
    ef__json_close(&list.writer, ']');
    ef__shape_members(&list.writer, &ef__shape_diff, &counts);
    ef__json_close(&list.writer, '}');
    return st;
}

/* --- seed ------------------------------------------------------------------------------------- */

/* The body is a view a line, as `view export` writes them. */
typedef struct seed_reader {
    ef_str rest;
    int64_t line;
    ef__arena arena;
} seed_reader;

static ef_status read_text(const ef__json *line, const char *key, bool needed, ef_str *out,
                           ef_error *err)
{
    const ef__json *value = ef__json_get(line, key);

    if (!value || value->kind == EF__JSON_NULL)
        return needed ? ef_fail(err, EF_BAD_INPUT, "%s is missing", key) : EF_OK;
    if (value->kind != EF__JSON_STRING)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a string", key);
    *out = value->text;
    return EF_OK;
}

static ef_status read_view(seed_reader *s, const ef__json *line, ef_seed_view *out, ef_error *err)
{
    const ef__json *data = ef__json_get(line, "data");
    const ef__json *seq = ef__json_get(line, "last_event_sequence");
    ef_status st = read_text(line, "view_id", true, &out->view_id, err);

    if (st == EF_OK)
        st = read_text(line, "tenant", false, &out->tenant, err);
    if (st == EF_OK && seq && seq->kind != EF__JSON_NULL &&
        (seq->kind != EF__JSON_NUMBER || ef__json_int64(seq, &out->last_event_sequence) != 0 ||
         out->last_event_sequence < 0))
        st = ef_fail(err, EF_BAD_INPUT,
                     "last_event_sequence is not a whole number from 0 to %" PRId64, INT64_MAX);
    if (st == EF_OK && (!data || data->kind != EF__JSON_OBJECT))
        st = ef_fail(err, EF_BAD_INPUT, "line %lld: data is missing, or not an object",
                     (long long)s->line);
    if (st == EF_OK)
        out->data = data->text;
    return st;
}

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    seed_reader *s = context;
    ef__json *line = NULL;
    ef_str text = {NULL, 0};
    ef_status st;

    *out = (ef_seed_view){{NULL, 0}, {NULL, 0}, {NULL, 0}, 0};
    while (text.len == 0 && s->rest.len > 0) {
        const char *end = memchr(s->rest.ptr, '\n', s->rest.len);
        size_t length = end ? (size_t)(end - s->rest.ptr) : s->rest.len;
        text = (ef_str){s->rest.ptr, length};
        length += end ? 1 : 0;
        s->rest = (ef_str){s->rest.ptr + length, s->rest.len - length};
        s->line++;
    }
    *out_more = text.len > 0;
    if (text.len == 0)
        return EF_OK;
    ef__arena_reset(&s->arena);
    st = ef__json_parse_envelope(text, text.len, &s->arena, &line, err);
    return st == EF_OK ? read_view(s, line, out, err) : st;
}

static ef_status seed_generation(ef__request *r, void *request, ef_error *err)
{
    const ef__seed_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    seed_reader reader = {.rest = asked->views, .arena = EF__ARENA_INIT(EF__ANSWER_BYTES_MAX)};
    ef_seed seed = {.projection = asked->name,
                    .position = asked->position,
                    .next = next_view,
                    .context = &reader,
                    .actor = asked->actor,
                    .reason = asked->reason};
    ef_run_list runs = {0};
    ef_status st = EF_OK;

    if (asked->position < 0)
        st = ef_fail(err, EF_BAD_INPUT, "position is missing: the views are as of then");
    if (st == EF_OK)
        st = ef_projection_seed(ef__request_engine(r), &seed, &runs, err);
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_run, &runs.items[0]);
    ef_run_list_release(&runs);
    ef__arena_release(&reader.arena);
    return st;
}

const ef__http_route ef__routes_generations[] = {
    EF__SERVE(retire_projection, retire_generation),
    EF__SERVE(seed_projection, seed_generation),
    EF__SERVE(diff_projection, diff_generations),
    {0},
};
