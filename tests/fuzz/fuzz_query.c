/*
 * fuzz_query.c - any text as a query of views: the lines of the input are where, sort, fields and a
 * cursor. The views exist twice, in a projection with indexes and in one without.
 *
 * A query must return a result, or be refused with a message; the same in both projections; its
 * pages, joined, must be the whole result; the count must be that of the result; all views found
 * must be of the tenant; and a forged cursor must be refused or lead to a part of the same result.
 */
#include <everfold/everfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VIEWS = 24, PAGE = 5 };

static ef_engine *engine;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void deploy(const char *name, const char *indexes)
{
    char text[400];
    ef_projection_list list = {0};

    (void)snprintf(text, sizeof text,
                   "projection %s version 1\n  view data.id\n%s\non *\n  a = data.a\n  b = data.b\n"
                   "  c.d = data.d\n  all = data\n",
                   name, indexes);
    must(ef_projection_deploy(engine, &(ef_deploy){.file_name = name, .text = ef_str_from(text)},
                              &list, NULL, NULL) == EF_OK);
    EF_RELEASE(&list);
}

/* Values of every kind, some equal, some missing, in two tenants. */
static void append_all(void)
{
    static const char *const values[] = {"1",    "-2.5",  "\"x\"",     "\"X y\"", "null",
                                         "true", "[1,2]", "{\"k\":1}", "1e3",     "\"\""};

    for (int i = 0; i < VIEWS; i++) {
        char data[200], id[16];
        ef_place place;
        (void)snprintf(id, sizeof id, "v%d", i % 12);
        (void)snprintf(data, sizeof data, "{\"id\":\"%s\",\"a\":%s,\"b\":%d,\"d\":%s}", id,
                       values[i % 10], i % 4, values[(i * 7 + 3) % 10]);
        ef_new_event event = {.tenant = i < 12 ? EF_STR("") : EF_STR("other"),
                              .stream = ef_str_from(id),
                              .type = EF_STR("t"),
                              .data = ef_str_from(data)};
        must(ef_engine_append(engine, &event, 1, &place, NULL) == EF_OK);
    }
}

static void open_all(void)
{
    ef_journal *journal;
    ef_tick tick = {.more = true};

    must(ef_journal_open(&(ef_journal_options){.url = "memory:", .create = true}, &journal, NULL) ==
         EF_OK);
    must(ef_engine_open(
             &(ef_engine_options){.journal = journal, .views_url = "memory:", .create = true},
             &engine, NULL) == EF_OK);
    deploy("indexed", "  index a, b, c.d\n");
    deploy("plain", "");
    append_all();
    while (tick.more)
        must(ef_engine_work(engine, &(ef_work_options){.no_leasing = true}, &tick, NULL) == EF_OK);
}

static ef_str next_line(ef_str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    ef_str line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};

    rest->ptr += line.len + (end != NULL);
    rest->len -= line.len + (end != NULL);
    return line;
}

static ef_status ask(const ef_view_query *query, ef_view_list *out)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st = ef_view_find(engine, query, out, &err);

    must(st == EF_OK || st == EF_BAD_INPUT || st == EF_TOO_LARGE);
    must(st == EF_OK || err.text[0] != '\0');
    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        must(ef_str_equal(out->items[i].tenant, query->tenant));
    return st;
}

static bool same_view(const ef_view *a, const ef_view *b)
{
    return ef_str_equal(a->view_id, b->view_id) && ef_str_equal(a->data, b->data) &&
           a->last_event_sequence == b->last_event_sequence;
}

static void check_same(const ef_view_list *a, const ef_view_list *b)
{
    must(a->count == b->count);
    for (size_t i = 0; i < a->count; i++)
        must(same_view(&a->items[i], &b->items[i]));
}

static void check_pages(ef_view_query query, const ef_view_list *whole)
{
    ef_view_list page = {0};
    char after[16384];
    size_t at = 0;

    query.limit = PAGE;
    do {
        must(ask(&query, &page) == EF_OK);
        must(page.count <= PAGE && at + page.count <= whole->count);
        for (size_t i = 0; i < page.count; i++)
            must(same_view(&page.items[i], &whole->items[at + i]));
        at += page.count;
        must(page.next.len < sizeof after);
        memcpy(after, page.next.len ? page.next.ptr : "", page.next.len);
        query.after = (ef_str){after, page.next.len};
    } while (query.after.len && page.count);
    must(at == whole->count);
    EF_RELEASE(&page);
}

static void check_count(ef_view_query query, const ef_view_list *whole)
{
    ef_view_list counted = {0};

    query.count_only = true;
    must(ask(&query, &counted) == EF_OK);
    must(counted.total == (int64_t)whole->count);
    EF_RELEASE(&counted);
}

/* Part of the whole result, whatever the cursor contains. */
static void check_cursor(ef_view_query query, ef_str cursor, const ef_view_list *whole)
{
    ef_view_list page = {0};

    query.after = cursor;
    if (ask(&query, &page) == EF_OK) {
        must(page.count <= whole->count);
        for (size_t i = 0; i < page.count; i++)
            must(same_view(&page.items[i], &whole->items[whole->count - page.count + i]));
    }
    EF_RELEASE(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ef_str rest = {(const char *)data, size};
    ef_view_list whole = {0}, plain = {0};
    ef_status st;

    if (!engine)
        open_all();
    ef_view_query query = {.projection = EF_STR("indexed"),
                           .where = next_line(&rest),
                           .sort = next_line(&rest),
                           .fields = next_line(&rest),
                           .limit = VIEWS * 2};
    ef_str cursor = next_line(&rest);
    query.tenant = size % 2 ? EF_STR("other") : EF_STR("");
    st = ask(&query, &whole);
    query.projection = EF_STR("plain");
    must(ask(&query, &plain) == st);
    if (st == EF_OK) {
        check_same(&whole, &plain);
        check_pages(query, &whole);
        query.projection = EF_STR("indexed");
        check_pages(query, &whole);
        check_count(query, &whole);
        check_cursor(query, cursor, &whole);
    }
    EF_RELEASE(&whole);
    EF_RELEASE(&plain);
    return 0;
}
