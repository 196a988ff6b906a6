/*
 * fold_test.c - parser of test files: docs/reference/fold-testing.md.
 *
 * The file is read line by line. A line that begins with { starts a JSON object, which may span
 * several lines; any other line begins with a keyword.
 */
#include "fold_test.h"

#include "../base/incoming.h"
#include "../base/limits.h"
#include "../base/number.h"
#include "../base/same.h"

enum section { NOWHERE, GIVEN, EXPECT };

typedef struct reader {
    const char *path;
    ef_str rest; /* of the text */
    int32_t line;
    ef__arena *arena;
    cli_test_file *file;
    enum section section;
    cli_test_case *one; /* being read */
    cli_test_program **program_end;
    cli_test_case **case_end;
    cli_test_line **line_end;
    ef_error *err;
    bool is_out_of_memory;
    union {
        cli_test_program program;
        cli_test_case one;
        cli_test_line line;
    } scratch; /* the item that there was no memory for */
} reader;

static ef_status syntax_error(reader *r, int32_t line, const char *text)
{
    return ef_fail(r->err, EF_BAD_INPUT, "%s:%d: %s", r->path, (int)line, text);
}

/* Never NULL: without memory it is the scratch item, and reading ends with this line. */
static void *allocate_item(reader *r, size_t size)
{
    void *item = ef__arena_zalloc(r->arena, 1, size);

    r->is_out_of_memory = r->is_out_of_memory || !item;
    return item ? item : memset(&r->scratch, 0, sizeof r->scratch);
}

static bool next_line(reader *r, ef_str *out)
{
    if (!ef__line_next(&r->rest, out))
        return false;
    r->line++;
    return true;
}

/* --- JSON objects ----------------------------------------------------------------------------- */

/* Bracket depth after this piece. Brackets in strings do not count; strings do not span lines. */
static int bracket_depth(ef_str piece, int depth)
{
    bool in_string = false;

    for (size_t i = 0; i < piece.len; i++) {
        char c = piece.ptr[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            depth++;
        else if (!in_string && (c == '}' || c == ']'))
            depth--;
    }
    return depth;
}

/* Reads the object that starts at `first`; its lines are adjacent in the text. */
static ef_str read_object(reader *r, ef_str first)
{
    ef_str object = ef__str_trim(first), line;
    int depth = bracket_depth(object, 0);

    while (depth > 0 && next_line(r, &line)) {
        object.len = (size_t)(line.ptr + line.len - object.ptr);
        depth = bracket_depth(line, depth);
    }
    return ef__str_trim(object);
}

static cli_test_line *add_line(reader *r, int kind, int32_t line)
{
    cli_test_line *added = allocate_item(r, sizeof(*added));

    added->kind = kind;
    added->line = line;
    r->one->expects = r->one->expects || kind != CLI_TEST_EVENT;
    *r->line_end = added;
    r->line_end = &added->next;
    return added;
}

static ef_status add_event(reader *r, ef_str json, int32_t line)
{
    ef_error inner = EF_ERROR_INIT;
    cli_test_line *given = add_line(r, CLI_TEST_EVENT, line);
    ef_status st = ef__event_decode(json, &(ef_new_event){.tenant = EF_STR("")}, r->arena,
                                    &given->event, &inner);
    if (st == EF_OK)
        st = ef_event_check(&given->event, 1, NULL, &inner);
    return st == EF_OK ? EF_OK : syntax_error(r, line, inner.text);
}

static bool text_member(const ef__json *value, ef_str *out)
{
    *out = value->text;
    return value->kind == EF__JSON_STRING;
}

static ef_status read_view(reader *r, const ef__json *object, cli_test_line *view)
{
    bool has_id = false;

    for (const ef__json *m = object->first; m; m = m->next) {
        bool fine = true;
        if (ef_str_equal(m->key, EF_STR("projection")))
            fine = text_member(m, &view->projection);
        else if (ef_str_equal(m->key, EF_STR("tenant")))
            fine = text_member(m, &view->tenant);
        else if (ef_str_equal(m->key, EF_STR("view_id")))
            fine = has_id = text_member(m, &view->view_id);
        else if (ef_str_equal(m->key, EF_STR("data")))
            view->data = m;
        else
            return syntax_error(
                r, view->line,
                "unknown key: a view has the keys projection, tenant, view_id, data");
        if (!fine)
            return syntax_error(r, view->line, "projection, tenant and view_id must be strings");
    }
    if (!has_id || !view->data)
        return syntax_error(r, view->line,
                            "a view needs view_id and data; data null: the view must not exist");
    return EF_OK;
}

static ef_status add_view(reader *r, ef_str json, int32_t line)
{
    ef_error inner = EF_ERROR_INIT;
    ef__json *object = NULL;
    cli_test_line *view = add_line(r, CLI_TEST_VIEW, line);
    ef_status st = ef__json_parse(json, CLI_OUT_MAX, r->arena, &object, &inner);

    return st == EF_OK ? read_view(r, object, view) : syntax_error(r, line, inner.text);
}

static ef_status read_json_line(reader *r, ef_str first)
{
    int32_t line = r->line;
    ef_str json = read_object(r, first);

    if (r->section == GIVEN)
        return add_event(r, json, line);
    if (r->section == EXPECT)
        return add_view(r, json, line);
    return syntax_error(r, line, "an object must follow given (an event) or expect (a view)");
}

/* --- keywords --------------------------------------------------------------------------------- */

static ef_status add_program(reader *r, ef_str name)
{
    cli_test_program *program = allocate_item(r, sizeof(*program));
    const char *slash = strrchr(r->path, '/');
    EF__AUTO(ef__buf) path = EF__BUF_INIT(PATH_MAX * 2);

    if (name.len == 0 || r->one)
        return syntax_error(r, r->line,
                            name.len == 0 ? "program needs the name of a file"
                                          : "program must come before the first case");
    if (slash && name.ptr[0] != '/')
        ef__buf_add(&path, r->path, (size_t)(slash - r->path) + 1);
    ef__buf_add_str(&path, name);
    program->path = ef__arena_copy(r->arena, ef__buf_str(&path));
    r->is_out_of_memory = r->is_out_of_memory || !program->path.ptr || path.failed;
    program->line = r->line;
    *r->program_end = program;
    r->program_end = &program->next;
    return EF_OK;
}

/* A case without expectations would always pass. */
static ef_status end_case(reader *r)
{
    if (r->one && !r->one->expects)
        return syntax_error(r, r->one->line, "the case expects nothing: expect or fail is missing");
    return EF_OK;
}

static ef_status begin_case(reader *r, ef_str name)
{
    ef_status st = end_case(r);
    cli_test_case *one = allocate_item(r, sizeof(*one));

    if (st != EF_OK)
        return st;
    if (name.len == 0)
        return syntax_error(r, r->line, "case needs a name");
    if (!r->file->programs)
        return syntax_error(r, r->line,
                            "no program before the first case; add a line: program FILE");
    one->name = name;
    one->line = r->line;
    *r->case_end = r->one = one;
    r->case_end = &one->next;
    r->line_end = &one->lines;
    r->section = NOWHERE;
    return EF_OK;
}

static ef_status add_fail(reader *r, ef_str text)
{
    cli_test_line *fail = add_line(r, CLI_TEST_FAIL, r->line);

    if (text.len == 0)
        return syntax_error(r, r->line, "fail needs a part of the expected message");
    fail->text = text;
    return EF_OK;
}

static ef_status read_keyword_line(reader *r, ef_str line)
{
    size_t n = 0;

    while (n < line.len && line.ptr[n] != ' ' && line.ptr[n] != '\t')
        n++;
    ef_str word = {line.ptr, n}, more = ef__str_trim((ef_str){line.ptr + n, line.len - n});
    bool given = ef_str_equal(word, EF_STR("given")), expect = ef_str_equal(word, EF_STR("expect"));
    bool fail = ef_str_equal(word, EF_STR("fail"));

    if (ef_str_equal(word, EF_STR("program")))
        return add_program(r, more);
    if (ef_str_equal(word, EF_STR("case")))
        return begin_case(r, more);
    if (!given && !expect && !fail)
        return syntax_error(r, r->line,
                            "expected program, case, given, expect, fail, { or a # comment");
    if (!r->one)
        return syntax_error(r, r->line, "no case yet; start one: case NAME");
    if (fail)
        return add_fail(r, more);
    if (more.len > 0)
        return syntax_error(r, r->line, "given and expect must be alone on their line");
    if (given && r->section == EXPECT)
        return syntax_error(r, r->line, "given must come before expect; start another case");
    r->section = given ? GIVEN : EXPECT;
    return EF_OK;
}

ef_status cli_test_parse(const char *path, ef_str text, ef__arena *arena, cli_test_file *out,
                         ef_error *err)
{
    reader r = {.path = path, .rest = text, .arena = arena, .file = out, .err = err};
    ef_status st = EF_OK;
    ef_str line;

    *out = (cli_test_file){0};
    r.program_end = &out->programs;
    r.case_end = &out->cases;
    while (st == EF_OK && next_line(&r, &line)) {
        ef_str words = ef__str_trim(line);
        if (words.len == 0 || words.ptr[0] == '#')
            continue;
        st = words.ptr[0] == '{' ? read_json_line(&r, line) : read_keyword_line(&r, words);
        if (r.is_out_of_memory)
            return ef_fail(err, EF_NO_MEMORY, "%s: out of memory", path);
    }
    if (st == EF_OK)
        st = end_case(&r);
    if (st == EF_OK && !out->cases)
        st = syntax_error(&r, r.line, "the file has no case; start one: case NAME");
    return st;
}

typedef struct diff {
    ef__buf path;
    cli_json_differs *differs;
    void *context;
} diff;

static void compare_values(diff *d, const ef__json *a, const ef__json *b);

static void report_difference(diff *d, const ef__json *a, const ef__json *b)
{
    d->differs(d->context, ef__buf_str(&d->path), a, b);
}

static bool same_number(ef_str a, ef_str b)
{
    ef__number x, y;

    if (ef__number_parse(a, &x, NULL) != EF_OK || ef__number_parse(b, &y, NULL) != EF_OK)
        return ef_str_equal(a, b);
    return ef__number_compare(&x, &y) == 0;
}

static bool is_plain(ef_str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return key.len > 0;
}

/* Extends the path for the nested comparison, then restores it. */
static void compare_member(diff *d, ef_str key, const ef__json *a, const ef__json *b)
{
    size_t length = d->path.len;

    if (is_plain(key)) {
        ef__buf_add_text(&d->path, length > 0 ? "." : "");
        ef__buf_add_str(&d->path, key);
    } else {
        ef__buf_add_char(&d->path, '[');
        (void)ef__json_write_string(&d->path, key);
        ef__buf_add_char(&d->path, ']');
    }
    compare_values(d, a, b);
    d->path.len = length;
}

static const ef__json *find_member(const ef__json *object, ef_str key)
{
    for (const ef__json *child = object->first; child; child = child->next)
        if (ef_str_equal(child->key, key))
            return child;
    return NULL;
}

static void compare_objects(diff *d, const ef__json *a, const ef__json *b)
{
    for (const ef__json *child = a->first; child; child = child->next)
        compare_member(d, child->key, child, find_member(b, child->key));
    for (const ef__json *child = b->first; child; child = child->next)
        if (!find_member(a, child->key))
            compare_member(d, child->key, NULL, child);
}

static void compare_arrays(diff *d, const ef__json *a, const ef__json *b)
{
    const ef__json *x = a->first, *y = b->first;
    size_t length = d->path.len;

    for (size_t i = 0; x || y; i++) {
        ef__buf_printf(&d->path, "[%zu]", i);
        compare_values(d, x, y);
        d->path.len = length;
        x = x ? x->next : NULL;
        y = y ? y->next : NULL;
    }
}

static void compare_values(diff *d, const ef__json *a, const ef__json *b)
{
    if (!a || !b || a->kind != b->kind)
        report_difference(d, a, b);
    else if (a->kind == EF__JSON_OBJECT)
        compare_objects(d, a, b);
    else if (a->kind == EF__JSON_ARRAY)
        compare_arrays(d, a, b);
    else if (a->kind == EF__JSON_NUMBER ? !same_number(a->text, b->text)
                                        : !ef_str_equal(a->text, b->text))
        report_difference(d, a, b);
}

bool cli_json_diff(const ef__json *expected, const ef__json *found, cli_json_differs *differs,
                   void *context)
{
    diff d = {.path = EF__BUF_INIT(CLI_OUT_MAX), .differs = differs, .context = context};

    compare_values(&d, expected, found);
    bool fine = !d.path.failed;
    ef__buf_release(&d.path);
    return fine;
}
