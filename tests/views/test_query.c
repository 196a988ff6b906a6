/*
 * Queries: plans, pages, fields and counts; and that every plan on every back end gives the same
 * answer to random questions about random views.
 */
#include "views_fixture.h"

#include "../../src/base/buf.h"
#include "../../src/views/query.h"

#include <stdlib.h>

#define PATHS "a,b,c.d"
enum { INDEXES = 3, ROWS = 150 };
static const char *const PATH[INDEXES] = {"a", "b", "c.d"};

static ef__filter *compiled(fixture *t, const char *text)
{
    static ef__diagnostics diagnostics;
    ef__filter *filter = NULL;

    CHECK_STATUS(EF_OK, ef__filter_compile(str(text), &filter, &diagnostics, &t->err), &t->err);
    return filter;
}

/* Write views with the keys that their declared indexes give them. */
static void put_data(fixture *t, int64_t g, const char *tenant, const char *id, const char *data)
{
    ef__view_change view = change_of(t, g, tenant, id, data);
    ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};
    ef__index_key keys[INDEXES];
    ef__buf texts[INDEXES];
    ef__match *match = NULL;
    ef__value v;
    bool cut;

    OK(ef__match_open(&match, &t->err));
    OK(ef__match_row(match, str(id), 0, str(data), &t->err));
    for (int32_t i = 0; i < INDEXES; i++) {
        ef__filter *path = compiled(t, PATH[i]);
        texts[i] = (ef__buf)EF__BUF_INIT(10000);
        OK(ef__match_value(match, path, &v, &t->err));
        OK(ef__sort_key(v, EF__KEY_BYTES, &texts[i], &cut, &t->err));
        keys[i] = (ef__index_key){i, ef__buf_str(&texts[i])};
        ef__filter_close(path);
    }
    view.keys = keys;
    view.key_count = INDEXES;
    view.view.last_seq = (int64_t)strlen(id);
    OK(commit_change(t, &change));
    for (int32_t i = 0; i < INDEXES; i++)
        ef__buf_release(&texts[i]);
    ef__match_close(match);
}

/* The ids of a page, and "+" when there is a next one. */
static const char *ids_of(fixture *t, const ef__query_result *result)
{
    ef__buf text = EF__BUF_INIT(10 * 1024 * 1024);
    ef_str copy;

    for (size_t i = 0; i < result->count; i++)
        ef__buf_printf(&text, "%.*s ", EF_STR_ARG(result->rows[i].id));
    if (result->cursor.len)
        ef__buf_add_char(&text, '+');
    copy = ef__arena_copy(&t->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    return copy.ptr;
}

static const char *ask(fixture *t, const ef__query *query)
{
    ef__query_result result = EF__QUERY_RESULT_INIT;
    const char *ids;

    OK(ef__query_run(t->views, query, &result, &t->err));
    ids = ids_of(t, &result);
    ef__query_result_release(&result);
    return ids;
}

static int64_t with_people(fixture *t)
{
    int64_t g = add_generation(t, "p", PATHS);

    put_data(t, g, "", "ada", "{\"a\":10,\"b\":\"x\",\"c\":{\"d\":1}}");
    put_data(t, g, "", "bob", "{\"a\":9.5,\"b\":\"y\"}");
    put_data(t, g, "", "cid", "{\"b\":\"x\",\"c\":{\"d\":3}}");
    put_data(t, g, "", "dan", "{\"a\":-2,\"b\":\"x\",\"c\":{\"d\":1}}");
    put_data(t, g, "other", "eve", "{\"a\":10,\"b\":\"x\"}");
    return g;
}

/* --- by hand ---------------------------------------------------------------------------------- */

CONTRACT(a_filter_chooses_views_of_one_tenant)
{
    fixture *t = *state;
    ef__filter *filter = compiled(t, "b == \"x\" and a >= -2");
    ef__query query = {.generation = with_people(t), .index_paths = str(PATHS), .filter = filter};

    CHECK_TEXT("ada dan ", ask(t, &query));
    query.no_index = true;
    CHECK_TEXT("ada dan ", ask(t, &query));
    query.tenant = str("other");
    CHECK_TEXT("eve ", ask(t, &query));
    query.filter = NULL;
    query.tenant = str("");
    CHECK_TEXT("ada bob cid dan ", ask(t, &query));
    ef__filter_close(filter);
}

CONTRACT(views_of_all_tenants_come_by_tenant_and_id_page_by_page)
{
    fixture *t = *state;
    ef__filter *filter = compiled(t, "b == \"x\""), *a = compiled(t, "a");
    ef__query_sort sorts[1] = {{a, true}};
    ef__query_result page = EF__QUERY_RESULT_INIT;
    ef__query query = {
        .generation = with_people(t), .any_tenant = true, .index_paths = str(PATHS), .limit = 2};

    put_data(t, query.generation, "another", "ada", "{\"a\":10,\"b\":\"x\"}");
    OK(ef__query_run(t->views, &query, &page, &t->err));
    CHECK_TEXT("ada bob +", ids_of(t, &page));
    query.cursor = ef__arena_copy(&t->arena, page.cursor);
    OK(ef__query_run(t->views, &query, &page, &t->err));
    CHECK_TEXT("cid dan +", ids_of(t, &page));
    query.cursor = ef__arena_copy(&t->arena, page.cursor);
    OK(ef__query_run(t->views, &query, &page, &t->err));
    CHECK_TEXT("ada eve ", ids_of(t, &page));
    CHECK_STR("another", page.rows[0].tenant);
    CHECK_STR("other", page.rows[1].tenant);

    query.any_tenant = false;
    CHECK_STATUS(EF_BAD_INPUT, ef__query_run(t->views, &query, &page, &t->err), NULL);

    query = (ef__query){.generation = query.generation,
                        .any_tenant = true,
                        .index_paths = str(PATHS),
                        .filter = filter,
                        .sorts = sorts,
                        .sort_count = 1,
                        .limit = 4};
    OK(ef__query_run(t->views, &query, &page, &t->err));
    CHECK_TEXT("eve ada ada dan +", ids_of(t, &page));
    CHECK_STR("another", page.rows[1].tenant);
    CHECK_STR("", page.rows[2].tenant);
    query.cursor = ef__arena_copy(&t->arena, page.cursor);
    CHECK_TEXT("cid ", ask(t, &query));
    ef__query_result_release(&page);
    ef__filter_close(filter);
    ef__filter_close(a);
}

CONTRACT(views_are_sorted_with_what_is_missing_first)
{
    fixture *t = *state;
    ef__filter *a = compiled(t, "a"), *d = compiled(t, "c.d");
    ef__query_sort sorts[2] = {{a, false}, {d, true}};
    ef__query query = {
        .generation = with_people(t), .index_paths = str(PATHS), .sorts = sorts, .sort_count = 1};

    CHECK_TEXT("cid dan bob ada ", ask(t, &query));
    sorts[0].descending = true;
    CHECK_TEXT("ada bob dan cid ", ask(t, &query));
    sorts[0] = (ef__query_sort){d, true};
    sorts[1] = (ef__query_sort){a, false};
    query.sort_count = 2;
    CHECK_TEXT("cid dan ada bob ", ask(t, &query));
    ef__filter_close(a);
    ef__filter_close(d);
}

CONTRACT(an_index_spares_looking_at_the_rest)
{
    fixture *t = *state;
    ef__filter *filter = compiled(t, "10 == a"), *a = compiled(t, "a");
    ef__query_sort sort = {a, true};
    ef__query query = {.generation = with_people(t), .index_paths = str(PATHS), .filter = filter};
    ef__query_result result = EF__QUERY_RESULT_INIT;

    OK(ef__query_run(t->views, &query, &result, &t->err));
    CHECK_INT(1, result.views_read);
    CHECK_INT(-1, result.total);
    query.no_index = true;
    OK(ef__query_run(t->views, &query, &result, &t->err));
    CHECK_INT(4, result.views_read);
    query = (ef__query){.generation = query.generation,
                        .index_paths = str(PATHS),
                        .sorts = &sort,
                        .sort_count = 1,
                        .limit = 1};
    OK(ef__query_run(t->views, &query, &result, &t->err));
    CHECK_STR("ada", result.rows[0].id);
    CHECK_INT(2, result.views_read); /* one more, to know that there is a next page */
    query.count = true;
    OK(ef__query_run(t->views, &query, &result, &t->err));
    CHECK_INT(4, result.total);
    CHECK_INT(1, result.count);
    CHECK(result.cursor.len > 0);
    ef__query_result_release(&result);
    ef__filter_close(filter);
    ef__filter_close(a);
}

CONTRACT(fields_show_what_was_asked_for)
{
    fixture *t = *state;
    ef__filter *a = compiled(t, "a"), *d = compiled(t, "c.d"), *id = compiled(t, "view_id");
    const ef__filter *fields[3] = {d, a, id};
    ef__query query = {.generation = with_people(t),
                       .index_paths = str(PATHS),
                       .fields = fields,
                       .field_count = 3,
                       .limit = 2};
    ef__query_result result = EF__QUERY_RESULT_INIT;

    OK(ef__query_run(t->views, &query, &result, &t->err));
    CHECK_STR("{\"c.d\":1,\"a\":10,\"view_id\":\"ada\"}", result.rows[0].data);
    CHECK_STR("{\"c.d\":null,\"a\":9.5,\"view_id\":\"bob\"}", result.rows[1].data);
    CHECK_INT(3, result.rows[0].last_seq);
    CHECK_INT(1, result.rows[0].schema);
    ef__query_result_release(&result);
    ef__filter_close(a);
    ef__filter_close(d);
    ef__filter_close(id);
}

CONTRACT(a_cursor_of_another_query_is_refused)
{
    fixture *t = *state;
    ef__filter *filter = compiled(t, "a > -100");
    ef__query query = {.generation = with_people(t), .index_paths = str(PATHS), .limit = 2};
    ef__query_result first = EF__QUERY_RESULT_INIT, second = EF__QUERY_RESULT_INIT;
    char text[500];

    OK(ef__query_run(t->views, &query, &first, &t->err));
    query.cursor = first.cursor;
    CHECK_TEXT("cid dan ", ask(t, &query));
    query.filter = filter;
    REFUSED(EF_BAD_INPUT, ef__query_run(t->views, &query, &second, &t->err));
    query.filter = NULL;
    for (size_t i = 0; i < first.cursor.len; i++) {
        (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(first.cursor));
        text[i] = text[i] == 'A' ? 'B' : 'A';
        query.cursor = str(text);
        if (ef__query_run(t->views, &query, &second, &t->err) == EF_OK)
            CHECK_INT(first.cursor.len - 1, i); /* bits after the last byte do not count */
    }
    query.cursor = str("%%%");
    REFUSED(EF_BAD_INPUT, ef__query_run(t->views, &query, &second, &t->err));
    query.cursor = str("A");
    REFUSED(EF_BAD_INPUT, ef__query_run(t->views, &query, &second, &t->err));
    query.cursor = str("");
    query.limit = EF__QUERY_LIMIT_MAX + 1;
    REFUSED(EF_BAD_INPUT, ef__query_run(t->views, &query, &second, &t->err));
    ef__query_result_release(&first);
    ef__query_result_release(&second);
    ef__filter_close(filter);
}

/* `by_server`: what a store that leaves out views by itself goes by; NULL for nothing. */
static void check_plan(fixture *t, const char *where, const char *by_server, const char *sort,
                       const char *first_line, const char *last_line)
{
    ef__filter *filter = where ? compiled(t, where) : NULL, *by = sort ? compiled(t, sort) : NULL;
    ef__query_sort sorts = {by, true};
    ef__query query = {
        .index_paths = str(PATHS), .filter = filter, .sorts = &sorts, .sort_count = sort != NULL};
    ef__buf text = EF__BUF_INIT(10000), expected = EF__BUF_INIT(10000);

    OK(ef__query_explain(t->views, &query, &text, &t->err));
    ef__buf_printf(&expected, "scanned:   %s\nfiltered:  %s\n", first_line,
                   where ? where : "nothing");
    if (by_server && t->views->ops->filter_explain)
        ef__buf_printf(&expected, "by server: %s\n", by_server);
    ef__buf_printf(&expected, "sorted:    %s\n", last_line);
    CHECK_TEXT(expected.ptr, text.ptr);
    ef__buf_release(&text);
    ef__buf_release(&expected);
    ef__filter_close(filter);
    ef__filter_close(by);
}

CONTRACT(explain_says_which_index_and_what_is_left_to_do)
{
    fixture *t = *state;
    const char *by_id = "by view_id, keeping the first 100";

    const char *all = "every view of the tenant, no index matches";

    check_plan(t, NULL, NULL, NULL, all, "already");
    check_plan(t, "e == 1", NULL, NULL, all, "already"); /* it would have to read every view */
    check_plan(t, "e == \"x\"", "e == \"x\"", NULL, all, "already");
    check_plan(t, "g and (a == 1 or b == \"x\")", "g", NULL, all, "already");
    check_plan(t, "a == null", NULL, NULL, all, "already");
    check_plan(t, "g and a == null", "g", NULL, all, "already");
    check_plan(t, "lower(e) == \"x\"", NULL, NULL, all, "already");
    check_plan(t, "lower(e) == \"x\" and g and not (e < 2 or h)", "g", NULL, all, "already");
    check_plan(t, "e > 2 and a == 1", NULL, NULL, "index a, one value", "already");
    check_plan(t, "a > 1", NULL, NULL, "index a, from a lower bound", by_id);
    check_plan(t, "1 > a and b == \"x\"", "b == \"x\"", NULL, "index b, one value", "already");
    check_plan(t, "c.d < 5 and c.d >= 1", NULL, NULL, "index c.d, between two bounds", by_id);
    check_plan(t, "c.d < 5", NULL, "c.d", "index c.d, up to an upper bound", "already, backwards");
    check_plan(t, NULL, NULL, "a", "index a, all of it", "already, backwards");
    check_plan(t, "b == \"x\"", NULL, "a", "index b, one value",
               "by a downwards, then view_id, keeping the first 100");
    check_plan(t, "view_id == \"x\"", NULL, NULL, "view ids, one value", "already");
    check_plan(t, "view_id >= \"x\"", NULL, "view_id", "view ids, from a lower bound",
               "already, backwards");
}

/* --- at random -------------------------------------------------------------------------------- */

#define DIGITS "123451234512345123451234512345" /* 30: of those that are exact 38 */

/* Numbers in several spellings; texts that look like other things. */
static const char VALUES[] =
    "null|true|false|\"\"|\"x\"|\"xy\"|0|-1|1.5|[1,2]|{}|100|1e2|0.1000000001|-0.5|1|"
    "1.0|1e0|100e-2|-0|-0.0|\"1\"|\"1.0\"|\"null\"|\"true\"|\"$v0\"|\"\\\"\"|\"\\\\\"|"
    "\"'; --\"|\"\\u00e9\"|\"\xc3\xa9\"|\"\\u0001\"|[]|[\"x\"]|[null]|[[1]]|{\"k\":1}|"
    "{\"\":null}|\"\\\\u0000\"|\"e\xcc\x81\"|[{\"d\":1}]|{\"d\":{\"d\":1}}|"
    "\"\xf0\x9f\x8c\x8d\"|\"\xef\xbf\xbd\"";
/* At and past the ends of what is exact. */
static const char FAR_NUMBERS[] =
    "1e99|-1e99|1e-99|-1e-99|1000000000000000000|-1000000000000000000|"
    "999999999999999999.5|9223372036854775807|9223372036854775808|" DIGITS "12345678|"
    "-" DIGITS "12345678|" DIGITS "123456789|" DIGITS "12345678.5|"
    "-" DIGITS "12345678.5|0." DIGITS "12345678|0." DIGITS "123456789|"
    "1." DIGITS "1234567|1." DIGITS "12345678|-1." DIGITS "123456789|"
    "4." DIGITS "12345678901|-0." DIGITS "123456789012|"
    "3.00000000000000000000000000000000000000000|"
    "1.000000000000000000000000000000000000000001";
static const char ODD_KEYS[] =
    "|\\\"|\\\\|.|a.b|$|$v0|@|0|*|x y|\\u0001|\xc3\xa9|k|'|[0]|\\n|==|)|type()";

/* A random word of a list separated by |; the first may be empty. */
static void random_word(dice *d, const char *list, ef__buf *out)
{
    uint32_t count = 1;
    const char *end;

    for (const char *c = list; *c; c++)
        count += *c == '|';
    for (uint32_t skip = roll(d, count); skip > 0; skip--)
        list = strchr(list, '|') + 1;
    end = strchr(list, '|');
    ef__buf_add(out, list, end ? (size_t)(end - list) : strlen(list));
}

static void random_value(dice *d, ef__buf *out)
{
    if (roll(d, 2))
        ef__buf_printf(out, "%d", (int)roll(d, 12) - 4);
    else
        random_word(d, roll(d, 3) ? VALUES : FAR_NUMBERS, out);
}

/* An object with an odd key, an array of such things, or what is not expected there. */
static void random_nest(dice *d, ef__buf *out, int depth)
{
    bool list = roll(d, 3) == 0;

    if (depth == 0 || roll(d, 4) == 0) {
        random_value(d, out);
        return;
    }
    ef__buf_add_text(out, list ? "[" : "{\"");
    if (!list) {
        random_word(d, ODD_KEYS, out);
        ef__buf_add_text(out, "\":");
    }
    random_nest(d, out, roll(d, 3) ? 0 : depth - 1);
    ef__buf_add_text(out, list ? "," : ",\"other\":");
    random_nest(d, out, roll(d, 3) ? 0 : depth - 1);
    ef__buf_add_char(out, list ? ']' : '}');
}

static void random_view(dice *d, ef__buf *out)
{
    bool first = true;

    ef__buf_reset(out);
    if (roll(d, 40) == 0) { /* no object at all */
        random_nest(d, out, 2);
        return;
    }
    ef__buf_add_char(out, '{');
    for (int i = 0; i < 7; i++) {
        if (roll(d, 5) == 0)
            continue;
        ef__buf_printf(out, "%s\"%c\":%s", first ? "" : ",", "abceglo"[i], i == 2 ? "{\"d\":" : "");
        if (i == 0 && roll(d, 20) == 0) { /* longer than a key may be, equal for long */
            ef__buf_add_char(out, '"');
            for (int n = 0; n < 600; n++)
                ef__buf_add_char(out, n < 590 ? 'x' : (char)('a' + roll(d, 3)));
            ef__buf_add_char(out, '"');
        } else if (i >= 5) {
            random_nest(d, out, 2);
        } else {
            random_value(d, out);
        }
        ef__buf_add_text(out, i == 2 ? "}" : "");
        first = false;
    }
    if (roll(d, 8))
        ef__buf_add_text(out, first ? "\"z\":true" : ",\"z\":true");
    ef__buf_add_char(out, '}');
}

static const char TEXTS[] =
    "\"x\"|\"xy\"|\"\"|\"1\"|\"1.0\"|\"null\"|\"$v0\"|\"'; --\"|\"\\\"\"|\"\\\\\"|"
    "\"\\\\u0000\"|\"\\u0001\"|\"\xc3\xa9\"|\"e\"|\"\xef\xbf\xbd\"|\"k\"";
static const char NUMBERS[] =
    "-1|1.5|100|0|1.0|0.1000000001|-0.5|1000000000000000000|-1000000000000000000|"
    "999999999999999999|-999999999999999999.99|9223372036854775808|" DIGITS "12345678|"
    "-" DIGITS "12345678|0." DIGITS "12345678|1." DIGITS "1234567|-4." DIGITS "1234567|"
    "99999999999999999999999999999999999999";

static void random_scalar(dice *d, ef__buf *out)
{
    if (roll(d, 3) == 0)
        ef__buf_printf(out, "%u", roll(d, 8));
    else
        random_word(d, roll(d, 2) ? TEXTS : NUMBERS, out);
}

static void random_literal(dice *d, ef__buf *out)
{
    switch (roll(d, 8)) {
    case 0:
        ef__buf_add_text(out, "null");
        break;
    case 1:
        ef__buf_add_text(out, roll(d, 2) ? "true" : "false");
        break;
    default:
        random_scalar(d, out);
    }
}

/* What can be seen to be of another kind is refused at once, so these two get their own. */
static void random_side(dice *d, const char *left, ef__buf *out)
{
    if (strcmp(left, "view_id") == 0)
        ef__buf_printf(out, "\"v%03u\"", roll(d, ROWS));
    else if (strcmp(left, "last_event_sequence") == 0)
        ef__buf_printf(out, "%u", 2 + roll(d, 4));
    else
        random_literal(d, out);
}

static void random_key(dice *d, const char *of, ef__buf *out)
{
    ef__buf_printf(out, "%s[\"", of);
    random_word(d, ODD_KEYS, out);
    ef__buf_add_text(out, "\"]");
}

static void random_path(dice *d, ef__buf *out)
{

    switch (roll(d, 4)) {
    case 0:
        random_key(d, "o", out);
        break;
    case 1:
        ef__buf_printf(out, "l[%d]", (int)roll(d, 8) - 2);
        if (roll(d, 2))
            random_key(d, "", out);
        break;
    default:
        random_word(d, "a|b|c.d|e|g|c|l|o|a.d|e.d.d|z", out);
    }
}

static void random_comparison(dice *d, ef__buf *out)
{
    ef__buf path = EF__BUF_INIT(1000), compare = EF__BUF_INIT(10);

    if (roll(d, 2))
        random_word(d, "a|b|c.d|a|c.d|e|view_id|last_event_sequence|c", &path);
    else
        random_path(d, &path);
    random_word(d, "==|<|<=|>|>=|!=|==", &compare);
    if (roll(d, 5) == 0) {
        random_side(d, path.ptr, out);
        ef__buf_printf(out, " %s %s", compare.ptr, path.ptr);
    } else {
        ef__buf_printf(out, "%s %s ", path.ptr, compare.ptr);
        random_side(d, path.ptr, out);
    }
    ef__buf_release(&path);
    ef__buf_release(&compare);
}

static void random_list(dice *d, ef__buf *out)
{
    uint32_t count = roll(d, 5);

    ef__buf_add_char(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        ef__buf_add_text(out, i ? ", " : "");
        random_literal(d, out);
    }
    ef__buf_add_char(out, ']');
}

/* What a server may test by itself, and what it will not. */
static void random_condition(dice *d, ef__buf *out)
{
    uint32_t what = roll(d, 16);

    if (what == 0) {
        random_path(d, out);
        ef__buf_add_text(out, " in ");
        random_list(d, out);
    } else if (what == 1) {
        random_scalar(d, out);
        ef__buf_add_text(out, " in ");
        random_path(d, out);
    } else if (what == 2) {
        random_path(d, out);
    } else if (what == 3 || what == 4) {
        ef__buf_add_text(out, what == 3 ? "starts_with(" : "contains(");
        random_path(d, out);
        ef__buf_add_text(out, ", ");
        random_word(d, TEXTS, out);
        ef__buf_add_char(out, ')');
    } else if (what == 5) {
        random_path(d, out);
        ef__buf_add_text(out, " + 1 > 2");
    } else if (what == 6) {
        random_path(d, out);
        ef__buf_add_text(out, " == ");
        random_path(d, out);
    } else {
        random_comparison(d, out);
    }
}

static void random_filter(dice *d, ef__buf *out, int depth)
{
    uint32_t what = roll(d, 8);

    if (depth == 0 || what < 3) {
        random_condition(d, out);
    } else if (what == 3) {
        ef__buf_add_text(out, "not (");
        random_filter(d, out, depth - 1);
        ef__buf_add_char(out, ')');
    } else {
        ef__buf_add_char(out, '(');
        random_filter(d, out, depth - 1);
        ef__buf_add_text(out, what == 4 ? ") or (" : ") and (");
        random_filter(d, out, depth - 1);
        ef__buf_add_char(out, ')');
    }
}

/* All pages, concatenated; adds the number of views that were read to *views_read. */
static const char *all_pages(fixture *t, ef__query query, int64_t *views_read)
{
    ef__query_result result = EF__QUERY_RESULT_INIT;
    ef__buf text = EF__BUF_INIT(10 * 1024 * 1024);
    ef_str copy;

    do {
        OK(ef__query_run(t->views, &query, &result, &t->err));
        for (size_t i = 0; i < result.count; i++)
            ef__buf_printf(&text, "%.*s ", EF_STR_ARG(result.rows[i].id));
        CHECK(result.count <= query.limit);
        CHECK(result.cursor.len == 0 || result.count == query.limit);
        query.cursor = ef__arena_copy(&t->arena, result.cursor);
        if (views_read)
            *views_read += result.views_read;
    } while (query.cursor.len > 0);
    copy = ef__arena_copy(&t->arena, ef__buf_str(&text));
    ef__buf_release(&text);
    ef__query_result_release(&result);
    return copy.ptr;
}

typedef struct both {
    fixture memory, other;
    int64_t g;
    int64_t views_read, would_read;
} both;

static void ask_both(both *p, const ef__query *base, const char *words, dice *d)
{
    ef__query query = *base, plain = *base;
    ef__query_result counted = EF__QUERY_RESULT_INIT;
    fixture *t = &p->other;
    const char *expected;
    size_t rows = 0;

    plain.no_index = true;
    plain.limit = 1000;
    expected = all_pages(&p->memory, plain, &p->would_read);
    for (const char *c = expected; *c; c++)
        rows += *c == ' ';
    query.limit = 1 + roll(d, 40);
    if (strcmp(expected, all_pages(&p->other, query, NULL)) != 0)
        print_error("differs: %s\n", words);
    CHECK_TEXT(expected, all_pages(&p->other, query, NULL));
    CHECK_TEXT(expected, all_pages(&p->memory, query, NULL));
    query.limit = 1000;
    CHECK_TEXT(expected, all_pages(&p->other, query, &p->views_read));
    query.limit = 3;
    query.count = true;
    OK(ef__query_run(t->views, &query, &counted, &t->err));
    CHECK_INT(rows, counted.total);
    if (counted.cursor.len) { /* the same count on a later page */
        query.cursor = ef__arena_copy(&t->arena, counted.cursor);
        OK(ef__query_run(t->views, &query, &counted, &t->err));
        CHECK_INT(rows, counted.total);
        CHECK(counted.count > 0 && strstr(expected, counted.rows[0].id.ptr) != expected);
    }
    ef__query_result_release(&counted);
}

static void ask_at_random(both *p, dice *d)
{
    static const char *const BY[] = {"a", "b", "c.d", "e", "view_id", "a + 1"};
    ef__buf text = EF__BUF_INIT(100000);
    ef__filter *filter, *by[2];
    ef__query_sort sorts[2];
    ef__query query;

    /* Something that a server finds without reading the view, so that it is given all the rest. */
    ef__buf_add_text(&text, roll(d, 4) ? "z and (" : "(");
    random_filter(d, &text, (int)roll(d, 4));
    ef__buf_add_char(&text, ')');
    filter = compiled(&p->other, text.ptr);
    for (int i = 0; i < 2; i++) {
        by[i] = compiled(&p->other, BY[roll(d, sizeof BY / sizeof BY[0])]);
        sorts[i] = (ef__query_sort){by[i], roll(d, 2)};
    }
    query = (ef__query){.generation = p->g,
                        .tenant = str("t"),
                        .index_paths = str(PATHS),
                        .filter = roll(d, 10) ? filter : NULL,
                        .sorts = sorts,
                        .sort_count = roll(d, 3)};
    ask_both(p, &query, text.ptr, d);
    for (int i = 0; i < 2; i++)
        ef__filter_close(by[i]);
    ef__filter_close(filter);
    ef__buf_release(&text);
    ef__arena_reset(&p->memory.arena);
    ef__arena_reset(&p->other.arena);
}

static void fill_both(both *p, dice *d)
{
    ef__buf data = EF__BUF_INIT(100000);
    char id[16];

    p->g = add_generation(&p->memory, "p", PATHS);
    CHECK_INT(p->g, add_generation(&p->other, "p", PATHS));
    for (unsigned i = 0; i < ROWS; i++) {
        (void)snprintf(id, sizeof id, "v%03u", i);
        random_view(d, &data);
        put_data(&p->memory, p->g, i % 7 ? "t" : "u", id, data.ptr);
        put_data(&p->other, p->g, i % 7 ? "t" : "u", id, data.ptr);
    }
    ef__buf_release(&data);
}

static void run(uint64_t seed, int questions)
{
    both *p = calloc(1, sizeof *p);
    dice d = {seed};

    CHECK(p != NULL);
    print_message("# seed %llu\n", (unsigned long long)seed);
    fixture_open(&p->memory, "memory");
    fixture_open(&p->other,
                 strcmp(fixture_backend(), "memory") == 0 ? "sqlite" : fixture_backend());
    fill_both(p, &d);
    for (int i = 0; i < questions; i++)
        ask_at_random(p, &d);
    CHECK(p->views_read < p->would_read); /* indexes were used at all */
    fixture_close(&p->memory);
    fixture_close(&p->other);
    free(p);
}

TEST(every_plan_on_every_back_end_gives_the_same_answer)
{
    const char *seed = getenv("EF_SEED");

    if (seed) {
        run(strtoull(seed, NULL, 10), 1000);
        return;
    }
    for (uint64_t i = 1; i <= 5; i++)
        run(i * 104729, 200);
}

CONTRACT_MAIN(CASE(a_filter_chooses_views_of_one_tenant),
              CASE(views_of_all_tenants_come_by_tenant_and_id_page_by_page),
              CASE(views_are_sorted_with_what_is_missing_first),
              CASE(an_index_spares_looking_at_the_rest), CASE(fields_show_what_was_asked_for),
              CASE(a_cursor_of_another_query_is_refused),
              CASE(explain_says_which_index_and_what_is_left_to_do),
              TEST_CASE(every_plan_on_every_back_end_gives_the_same_answer))
