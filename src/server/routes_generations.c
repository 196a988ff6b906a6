/*
 * routes_generations.c - generations of a projection: retired, compared, begun with known views.
 */
#include "request.h"

#include "../base/incoming.h"

#include <everfold/generation.h>

#define DIFFERENCES_DEFAULT 20
#define DIFFERENCES_MAX 10000

/* --- retire --------------------------------------------------------------------------------------
 */

static ef_status retire(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef__json_writer w = ef__request_writer(r);
    ef_generation_choice route = {.projection = r->parts[0], .actor = ef_str_from(r->who.name)};
    int64_t version = 0, generation = 0, count = 0;
    ef_status st = ef__request_reason(r, "version,generation,reason", &body, &route.reason, err);

    if (st == EF_OK)
        st = ef__member_int(body, "version", false, 1, INT32_MAX, &version, err);
    if (st == EF_OK)
        st = ef__member_int(body, "generation", false, 1, INT32_MAX, &generation, err);
    route.version = (int32_t)version;
    route.generation = (int32_t)generation;
    if (st == EF_OK)
        st = ef_projection_retire(r->server->options.engine, &route, &count, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "retired");
        ef__json_int(&w, count);
        ef__json_close(&w, '}');
    }
    return st;
}

/* --- diff ----------------------------------------------------------------------------------------
 */

typedef struct differing {
    ef__json_writer writer;
    int64_t limit, shown;
} differing;

static void write_side(ef__json_writer *w, const char *key, ef_str data)
{
    ef__json_key(w, key);
    if (data.ptr)
        ef__json_raw(w, data);
    else
        ef__json_null(w);
}

static bool write_difference(void *context, const ef_difference *d)
{
    differing *x = context;

    if (x->shown++ >= x->limit)
        return true; /* counted all the same */
    ef__json_open(&x->writer, '{');
    ef__json_key(&x->writer, "tenant");
    ef__json_str(&x->writer, d->tenant);
    ef__json_key(&x->writer, "view_id");
    ef__json_str(&x->writer, d->view_id);
    write_side(&x->writer, "left", d->left);
    write_side(&x->writer, "right", d->right);
    ef__json_close(&x->writer, '}');
    return true;
}

static ef_status read_side(ef__request *r, const char *version, const char *generation,
                           ef_generation_choice *out, ef_error *err)
{
    int64_t v = 0, g = 0;
    ef_status st = ef__request_int(r, version, 1, INT32_MAX, &v, err);

    if (st == EF_OK)
        st = ef__request_int(r, generation, 1, INT32_MAX, &g, err);
    *out = (ef_generation_choice){
        .projection = r->parts[0], .version = (int32_t)v, .generation = (int32_t)g};
    return st;
}

static ef_status diff(ef__request *r, ef_error *err)
{
    differing x = {.writer = ef__request_writer(r), .limit = DIFFERENCES_DEFAULT};
    ef_generation_choice left, right;
    ef_diff counts = {0};
    ef_status st = read_side(r, "left_version", "left_generation", &left, err);

    if (st == EF_OK)
        st = read_side(r, "right_version", "right_generation", &right, err);
    if (st == EF_OK)
        st = ef__request_int(r, "limit", 0, DIFFERENCES_MAX, &x.limit, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st != EF_OK)
        return st;
    ef__json_open(&x.writer, '{');
    ef__json_key(&x.writer, "differences");
    ef__json_open(&x.writer, '[');
    st = ef_projection_diff(r->server->options.engine, &left, &right, write_difference, &x, &counts,
                            err);
    ef__json_close(&x.writer, ']');
    ef__shape_members(&x.writer, &ef__shape_diff, &counts);
    ef__json_close(&x.writer, '}');
    return st;
}

/* --- seed ----------------------------------------------------------------------------------------
 */

/* The body is a view a line, as `view export` writes them. */
typedef struct seeding {
    ef_str rest;
    int64_t line;
    ef__arena arena;
} seeding;

static ef_status read_view(seeding *s, const ef__json *line, ef_seed_view *out, ef_error *err)
{
    const ef__json *data = ef__json_get(line, "data");
    ef_status st = ef__member_text(line, "view_id", true, &out->view_id, err);

    if (st == EF_OK)
        st = ef__member_text(line, "tenant", false, &out->tenant, err);
    if (st == EF_OK)
        st = ef__member_int(line, "last_event_sequence", false, 0, INT64_MAX,
                            &out->last_event_sequence, err);
    if (st == EF_OK && (!data || data->kind != EF__JSON_OBJECT))
        st = ef_fail(err, EF_BAD_INPUT, "line %lld: data is missing, or not an object",
                     (long long)s->line);
    if (st == EF_OK)
        out->data = data->text;
    return st;
}

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    seeding *s = context;
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

static ef_status seed(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    seeding s = {.rest = ef__buf_str(&r->body), .arena = EF__ARENA_INIT(EF__ANSWER_BYTES_MAX)};
    ef_run_list runs = {0};
    ef_seed asked = {.projection = r->parts[0],
                     .position = -1,
                     .next = next_view,
                     .context = &s,
                     .actor = ef_str_from(r->who.name),
                     .reason = ef__request_text(r, "reason")};
    ef_status st = ef__request_int(r, "position", 0, INT64_MAX, &asked.position, err);

    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK && asked.position < 0)
        st = ef_fail(err, EF_BAD_INPUT, "position is missing: the views are as of then");
    if (st == EF_OK)
        st = ef_projection_seed(r->server->options.engine, &asked, &runs, err);
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_run, &runs.items[0]);
    ef_run_list_release(&runs);
    ef__arena_release(&s.arena);
    return st;
}

const ef__http_route ef__routes_generations[] = {
    {"POST", "/v1/projections/{name}:retire", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND,
     EF__ROUTE_BODY, retire, "retireProjection", "remove a generation, or all of a version", NULL,
     "Reason", "Retired", 0},
    {"POST", "/v1/projections/{name}:seed", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     seed, "seedProjection", "begin a generation with views that are known, one a line",
     "position:integer reason:string", "Program", "Run", 0},
    {"GET", "/v1/projections/{name}/diff", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, diff,
     "diffProjection", "views that differ between two generations",
     "left_version:integer left_generation:integer right_version:integer right_generation:integer "
     "limit:integer",
     NULL, "Diff", 0},
    {0},
};
