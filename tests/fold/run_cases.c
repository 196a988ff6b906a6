/*
 * run_cases.c - the language by example: runs every case of the given *.case files.
 *
 *     --- case NAME          a sentence that the case shows
 *     --- program            text of a program
 *     --- events             one per line: {"type":…,"data":…,"stream":…,"tenant":…,"schema":…}
 *     --- stored             views that exist before, as below; also ["id", SCHEMA, data]
 *     --- views              views at the end: ["id", data] or ["tenant", "id", data]
 *     --- fails              one failed event per line: its number, and a part of the message
 *     --- refused            the program does not compile, with this message
 *
 *     --- expr DATA          one expression per line, on an event with that data: EXPR => JSON,
 *                            EXPR =! MESSAGE when it fails
 *     --- match DATA         the same on a stored view, as a query
 *
 * Lines that start with # are comments. Every program runs in batches of 1, 7 and all events, with
 * the views written and read again in between: the views must be identical.
 */
#include "../../src/fold/folder.h"
#include "../../src/fold/match.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS_MAX = 512, VIEWS_MAX = 2048, STREAMS_MAX = 64, FAILS_MAX = 64 };

typedef struct stored {
    char tenant[256], id[256];
    size_t tenant_len, id_len;
    int64_t schema;
    char *data;
    size_t len;
} stored;

typedef struct store {
    stored views[VIEWS_MAX];
    size_t count;
} store;

typedef struct cases {
    const char *file;
    int line; /* of the case */
    char name[200];
    ef__arena arena; /* of the case */
    ef_str program, events, before, views, fails, refused;
    bool has_fails;
    int total, failed;
    char said[FAILS_MAX][EF_ERROR_TEXT_MAX + 16]; /* by failed events, of the last run */
    size_t said_count;
} cases;

static void die(const char *what)
{
    fprintf(stderr, "run_cases: %s\n", what);
    exit(2);
}

static void complain(cases *c, const char *what, ef_str expected, ef_str found)
{
    printf("%s:%d: %s\n  %s\n  expected: %.*s\n  found:    %.*s\n", c->file, c->line, c->name, what,
           EF_STR_ARG(expected), EF_STR_ARG(found));
}

/* --- a store of views ------------------------------------------------------------------------- */

static stored *find_view(store *s, ef_str tenant, ef_str id)
{
    for (size_t i = 0; i < s->count; i++) {
        stored *v = &s->views[i];
        if (v->data && ef_str_equal((ef_str){v->tenant, v->tenant_len}, tenant) &&
            ef_str_equal((ef_str){v->id, v->id_len}, id))
            return v;
    }
    return NULL;
}

static void put_view(store *s, ef_str tenant, ef_str id, int64_t schema, ef_str data)
{
    stored *v = find_view(s, tenant, id);

    if (!v) {
        if (s->count == VIEWS_MAX)
            die("too many views");
        v = &s->views[s->count++];
        memcpy(v->tenant, tenant.len ? tenant.ptr : "", tenant.len);
        memcpy(v->id, id.ptr, id.len);
        v->tenant_len = tenant.len;
        v->id_len = id.len;
        v->data = NULL;
    }
    free(v->data);
    v->data = malloc(data.len + 1);
    if (!v->data)
        die("no memory");
    memcpy(v->data, data.ptr, data.len);
    v->len = data.len;
    v->schema = schema;
}

static void empty_store(store *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->views[i].data);
    s->count = 0;
}

static ef_status load_view(void *context, ef_str tenant, ef_str id, ef__stored_view *out,
                           ef_error *err)
{
    const stored *v = find_view(context, tenant, id);

    (void)err;
    out->found = v != NULL;
    if (v)
        *out = (ef__stored_view){true, {v->data, v->len}, v->schema};
    return EF_OK;
}

/* Other projections' views are stored as "projection/id". */
static ef_status lookup_view(void *context, ef_str projection, ef_str tenant, ef_str id,
                             ef__stored_view *out, ef_error *err)
{
    char name[600];
    int len = snprintf(name, sizeof(name), "%.*s/%.*s", EF_STR_ARG(projection), EF_STR_ARG(id));

    return load_view(context, tenant, (ef_str){name, (size_t)len}, out, err);
}

static void write_views(ef__folder *folder, store *s)
{
    ef__folded_view view;

    for (size_t at = 0;;) {
        if (ef__folder_next(folder, &at, &view, NULL) != EF_OK)
            die("a view cannot be printed");
        if (view.view_id.len == 0)
            break;
        stored *old = find_view(s, view.tenant, view.view_id);
        if ((old != NULL) != view.existed)
            die("existed is wrong");
        if (view.deleted) {
            free(old->data);
            old->data = NULL;
        } else {
            put_view(s, view.tenant, view.view_id, view.schema, view.data);
        }
    }
}

/* --- reading a case --------------------------------------------------------------------------- */

static bool next_line(ef_str *text, ef_str *line)
{
    while (text->len > 0) {
        const char *end = memchr(text->ptr, '\n', text->len);
        *line = (ef_str){text->ptr, end ? (size_t)(end - text->ptr) : text->len};
        size_t used = line->len + (end != NULL);
        text->ptr += used;
        text->len -= used;
        if (line->len > 0 && line->ptr[0] != '#')
            return true;
    }
    return false;
}

static const ef__json *parse_line(cases *c, ef_str line)
{
    ef__json *json;
    ef_error err = EF_ERROR_INIT;

    if (ef__json_parse(line, 4 << 20, &c->arena, &json, &err) != EF_OK) {
        printf("%s:%d: %s: %.*s: %s\n", c->file, c->line, c->name, EF_STR_ARG(line), err.text);
        die("a case is not written right");
    }
    return json;
}

static ef_str text_of(const ef__json *object, const char *key, const char *fallback)
{
    const ef__json *v = ef__json_get(object, key);

    return v ? v->text : ef_str_from(fallback);
}

static int64_t int_of(const ef__json *object, const char *key, int64_t fallback)
{
    const ef__json *v = ef__json_get(object, key);
    int64_t value = fallback;

    if (v && ef__json_int64(v, &value) != 0)
        die("an integer is expected");
    return value;
}

static ef_str canonical(cases *c, const ef__json *json)
{
    ef__buf buf = EF__BUF_INIT(4 << 20);

    if (ef__value_print(ef__value_from_json(json), &buf, NULL) != EF_OK)
        die("a value cannot be printed");
    ef_str copy = ef__arena_copy(&c->arena, ef__buf_str(&buf));
    ef__buf_release(&buf);
    return copy;
}

/* The data of an event as it is in the file; a scalar is printed, because its node has no quotes.
 */
static ef_str as_written(cases *c, const ef__json *json)
{
    if (!json)
        return EF_STR("{}");
    return json->kind >= EF__JSON_ARRAY ? json->text : canonical(c, json);
}

static void read_views(cases *c, ef_str text, store *s)
{
    ef_str line;

    while (next_line(&text, &line)) {
        const ef__json *first = parse_line(c, line)->first;
        const ef__json *second = first->next;
        int64_t schema = 1;
        if (second->kind == EF__JSON_NUMBER) {
            (void)ef__json_int64(second, &schema);
            second = second->next;
        }
        if (second->kind == EF__JSON_STRING)
            put_view(s, first->text, second->text, schema, canonical(c, second->next));
        else
            put_view(s, EF_STR(""), first->text, schema, canonical(c, second));
    }
}

static size_t read_events(cases *c, ef_event *events)
{
    ef_str rest = c->events;
    ef_str line;
    size_t count = 0;

    while (next_line(&rest, &line)) {
        const ef__json *json = parse_line(c, line);
        const ef__json *data = ef__json_get(json, "data");
        const ef__json *meta = ef__json_get(json, "meta");
        if (count == EVENTS_MAX)
            die("too many events");
        ef_event *e = &events[count++];
        *e = (ef_event){.tenant = text_of(json, "tenant", ""),
                        .stream = text_of(json, "stream", "s"),
                        .type = text_of(json, "type", "e"),
                        .id = text_of(json, "id", "id-1"),
                        .position = (int64_t)count,
                        .schema = (int32_t)int_of(json, "schema", 1),
                        .time_us = INT64_C(1794821400000000) + (int64_t)count,
                        .data = as_written(c, data),
                        .meta = as_written(c, meta)};
        for (size_t i = 0; i < count; i++)
            e->seq += ef_str_equal(events[i].stream, e->stream) &&
                      ef_str_equal(events[i].tenant, e->tenant);
    }
    return count;
}

/* --- running ---------------------------------------------------------------------------------- */

static void apply_all(cases *c, const ef__program *program, const ef_event *events, size_t count,
                      size_t batch, store *s)
{
    ef__folder_options options = {
        .program = program, .load = load_view, .lookup = lookup_view, .context = s};
    ef__folder *folder;
    ef_error err = EF_ERROR_INIT;

    if (ef__folder_open(&options, &folder, &err) != EF_OK)
        die(err.text);
    c->said_count = 0;
    for (size_t i = 0; i < count; i++) {
        ef__outcome outcome;
        if (ef__folder_apply(folder, &events[i], &outcome, &err) != EF_OK)
            die(err.text);
        if (outcome.result == EF__FOLD_FAILED && c->said_count < FAILS_MAX)
            (void)snprintf(c->said[c->said_count++], sizeof(c->said[0]), "%zu %s", i + 1,
                           outcome.error.text);
        if ((i + 1) % batch == 0 || i + 1 == count) {
            write_views(folder, s);
            if (batch == 7)
                ef__folder_settle(folder);
            else
                ef__folder_reset(folder);
        }
    }
    ef__folder_close(folder);
}

static bool same_views(cases *c, const store *expected, store *found)
{
    bool same = true;

    for (size_t i = 0; i < expected->count; i++) {
        const stored *v = &expected->views[i];
        stored *f = v->data ? find_view(found, (ef_str){v->tenant, v->tenant_len},
                                        (ef_str){v->id, v->id_len})
                            : NULL;
        ef_str want = {v->data, v->len};
        if (v->data && (!f || !ef_str_equal(want, (ef_str){f->data, f->len}))) {
            complain(c, v->id, want, f ? (ef_str){f->data, f->len} : EF_STR("no such view"));
            same = false;
        }
    }
    for (size_t i = 0; i < found->count; i++) {
        const stored *v = &found->views[i];
        if (v->data && !memchr(v->id, '/', v->id_len) &&
            !find_view((store *)(uintptr_t)expected, (ef_str){v->tenant, v->tenant_len},
                       (ef_str){v->id, v->id_len})) {
            complain(c, v->id, EF_STR("no such view"), (ef_str){v->data, v->len});
            same = false;
        }
    }
    return same;
}

/* Each line of `fails` is a prefix number and a part of the message of one failed event, in order.
 */
static bool same_fails(cases *c)
{
    ef_str rest = c->fails;
    ef_str line;
    size_t i = 0;

    for (; next_line(&rest, &line); i++) {
        const char *space = memchr(line.ptr, ' ', line.len);
        size_t number = space ? (size_t)(space - line.ptr) + 1 : line.len;
        const char *said = i < c->said_count ? c->said[i] : "nothing";
        if (i >= c->said_count || strncmp(said, line.ptr, number) != 0 ||
            !memmem(said, strlen(said), line.ptr + number, line.len - number)) {
            complain(c, "a failed event", line, ef_str_from(said));
            return false;
        }
    }
    if (i < c->said_count)
        complain(c, "a failed event", EF_STR("none"), ef_str_from(c->said[i]));
    return i >= c->said_count;
}

static bool run_program(cases *c)
{
    static ef_event events[EVENTS_MAX];
    static store expected, found;
    static ef__diagnostics diagnostics;
    const size_t batches[] = {1, 7, EVENTS_MAX};
    ef_error err = EF_ERROR_INIT;
    ef__program *program;
    bool good = true;

    ef_status st = ef__program_compile(EF_STR("case"), c->program, &program, &diagnostics, &err);
    if (c->refused.len) {
        ef_str line;
        (void)next_line(&c->refused, &line);
        good = st != EF_OK && memmem(err.text, strlen(err.text), line.ptr, line.len);
        if (!good)
            complain(c, "the program is refused", line, ef_str_from(err.text));
        ef__program_close(program);
        return good;
    }
    if (st != EF_OK) {
        complain(c, "the program compiles", EF_STR("yes"), ef_str_from(err.text));
        return false;
    }
    size_t count = read_events(c, events);
    read_views(c, c->views, &expected);
    for (size_t i = 0; i < 3 && good; i++) {
        read_views(c, c->before, &found);
        apply_all(c, program, events, count, batches[i], &found);
        good = same_views(c, &expected, &found) && same_fails(c);
        if (!good)
            printf("  (in batches of %zu)\n", batches[i]);
        empty_store(&found);
    }
    empty_store(&expected);
    ef__program_close(program);
    return good;
}

/* EXPR => JSON, or EXPR =! MESSAGE, on an event whose data is `data`. */
static bool run_expr(cases *c, ef_str data, ef_str expr, ef_str answer, bool fails)
{
    ef__buf program = EF__BUF_INIT(1 << 20);
    ef__buf text = EF__BUF_INIT(1 << 20);

    ef__buf_printf(&program, "projection t version 1\n\non e\n  r = %.*s\n", EF_STR_ARG(expr));
    ef__buf_printf(&text, "{\"data\":%.*s}\n", EF_STR_ARG(data));
    c->program = ef__buf_str(&program);
    c->events = ef__arena_copy(&c->arena, ef__buf_str(&text));
    ef__buf_reset(&text);
    if (fails)
        ef__buf_printf(&text, "1 %.*s", EF_STR_ARG(answer));
    else
        ef__buf_printf(&text, "[\"s\",{\"r\":%.*s}]", EF_STR_ARG(answer));
    c->fails = fails ? ef__buf_str(&text) : EF_STR("");
    c->views = fails ? EF_STR("") : ef__buf_str(&text);
    c->before = c->refused = EF_STR("");
    bool good = run_program(c);
    ef__buf_release(&program);
    ef__buf_release(&text);
    return good;
}

static bool run_match(cases *c, ef_str data, ef_str expr, ef_str answer)
{
    static ef__diagnostics diagnostics;
    ef__buf found = EF__BUF_INIT(1 << 20);
    ef_error err = EF_ERROR_INIT;
    ef__filter *filter = NULL;
    ef__match *match = NULL;
    ef__value v;

    ef_status st = ef__filter_compile(expr, &filter, &diagnostics, &err);
    if (st == EF_OK)
        st = ef__match_open(&match, &err);
    if (st == EF_OK)
        st = ef__match_row(match, EF_STR("v-1"), 42, data, &err);
    if (st == EF_OK)
        st = ef__match_value(match, filter, &v, &err);
    if (st == EF_OK)
        st = ef__value_print(v, &found, &err);
    bool good = st == EF_OK && ef_str_equal(ef__buf_str(&found), answer);
    if (!good)
        complain(c, "a query", answer, st == EF_OK ? ef__buf_str(&found) : ef_str_from(err.text));
    ef__match_close(match);
    ef__filter_close(filter);
    ef__buf_release(&found);
    return good;
}

static void count_case(cases *c, bool good)
{
    c->total++;
    c->failed += !good;
    ef__arena_reset(&c->arena);
}

/* A table of expressions, each a case. `head` is "expr DATA" or "match DATA". */
static void run_table(cases *c, ef_str head, ef_str body, int line_number)
{
    bool query = head.ptr[0] == 'm';
    size_t word = query ? 6 : 5;
    ef_str data = {head.ptr + word, head.len - word};
    const char *start = body.ptr;
    ef_str line;

    while (next_line(&body, &line)) {
        const char *arrow = memmem(line.ptr, line.len, " =>", 3);
        const char *fails = memmem(line.ptr, line.len, " =! ", 4);
        const char *mark = fails ? fails : arrow;
        if (!mark)
            die("a line of a table has no => or =!");
        ef_str expr = {line.ptr, (size_t)(mark - line.ptr)};
        ef_str answer = {mark + 4, line.len - expr.len - 4};
        c->line = line_number;
        for (const char *p = start; p <= line.ptr; p++)
            c->line += *p == '\n' || p == start;
        (void)snprintf(c->name, sizeof(c->name), "%.*s", EF_STR_ARG(line));
        count_case(c, query ? run_match(c, data, expr, answer)
                            : run_expr(c, data, expr, answer, fails != NULL));
    }
}

static ef_str *section(cases *c, ef_str head)
{
    const struct {
        const char *name;
        ef_str *text;
    } all[] = {{"program", &c->program}, {"events", &c->events}, {"stored", &c->before},
               {"views", &c->views},     {"fails", &c->fails},   {"refused", &c->refused}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (ef_str_equal(head, ef_str_from(all[i].name)))
            return all[i].text;
    return NULL;
}

static void end_case(cases *c)
{
    if (c->program.len)
        count_case(c, run_program(c));
    c->program = c->events = c->before = c->views = c->fails = c->refused = EF_STR("");
}

static void run_file(cases *c, const char *file, ef_str text)
{
    const char *start = text.ptr;
    const char *end = text.ptr + text.len;
    const char *p = start;
    int line = 1;

    c->file = file;
    end_case(c);
    while (p < end) {
        const char *stop = memmem(p, (size_t)(end - p), "\n--- ", 5);
        const char *head_end = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop + 1 : end;
        if (!head_end || strncmp(p, "--- ", 4) != 0)
            die("a file of cases begins with ---");
        ef_str head = {p + 4, (size_t)(head_end - p) - 4};
        ef_str body = {head_end + 1, (size_t)(stop - head_end) - 1};
        ef_str *to = section(c, head);
        if (head.len > 5 && memcmp(head.ptr, "case ", 5) == 0) {
            end_case(c);
            c->line = line;
            (void)snprintf(c->name, sizeof(c->name), "%.*s", (int)head.len - 5, head.ptr + 5);
        } else if (to) {
            *to = body;
        } else {
            end_case(c);
            run_table(c, head, body, line);
            c->program = c->views = c->fails = c->events = EF_STR("");
        }
        for (; p < stop; p++)
            line += *p == '\n';
    }
    end_case(c);
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(4 << 20);

    if (!f || !text)
        die(path);
    *len = fread(text, 1, 4 << 20, f);
    (void)fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    static cases c = {.arena = EF__ARENA_INIT(256 << 20)};

    for (int i = 1; i < argc; i++) {
        size_t len;
        char *text = read_file(argv[i], &len);
        run_file(&c, argv[i], (ef_str){text, len});
        free(text);
    }
    ef__arena_release(&c.arena);
    printf("%d cases, %d failed\n", c.total, c.failed);
    return c.failed || c.total == 0;
}
