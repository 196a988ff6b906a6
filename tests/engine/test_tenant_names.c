/*
 * test_tenant_names.c - tenants and view ids that were made to be confused stay apart through the
 * whole of the public API: appended, folded, got, queried, paged, exported, explained. On memory
 * and on SQLite (argv[1]).
 *
 * Every odd tenant with every odd id is a view of its own, which says which pair it is of. The
 * pairs are chosen so that any way of gluing two names together, of matching by pattern, of
 * cutting, of folding case or of normalising would bring two of them to one place.
 */
#include "stores.h"
#include "test.h"

#include <everfold/everfold.h>

#include <stdlib.h>
#include <unistd.h>

#define LONG_BYTES 255

static const char *g_backend = "memory";
static char g_long_a[LONG_BYTES + 1], g_long_b[LONG_BYTES + 1];

static const char *const odd[] = {
    "",
    "a",
    "aa",
    "a:a",
    "a/",
    "/a",
    "a/a",
    "a|a",
    "a.a",
    "a,a",
    "a a",
    " a",
    "a ",
    "%",
    "a%",
    "%a",
    "_",
    "a_",
    "a'",
    "'a",
    "a\"",
    "\"",
    "''",
    "a\\",
    "\\",
    "a;--",
    "A",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xf0\x9f\x98\x80",
    "\xf0\x9f\x98\x81",
    "1",
    "01",
    "1.0",
    "null",
    "*",
    "?",
    "[a]",
    "{}",
    "$1",
    "@a",
    "#a",
    "-a",
    "--a",
    g_long_a,
    g_long_b,
};

enum { ODD = sizeof odd / sizeof odd[0] };

typedef struct bench {
    ef_journal *journal;
    ef_engine *engine;
    ef_error err;
    char folder[64];
} bench;

static void make_long_names(void)
{
    memset(g_long_a, 'a', LONG_BYTES);
    memset(g_long_b, 'a', LONG_BYTES);
    g_long_b[LONG_BYTES - 1] = 'b';
}

static void open_bench(bench *b)
{
    char journal[160], views[160];

    *b = (bench){.err = EF_ERROR_INIT};
    (void)snprintf(b->folder, sizeof b->folder, "/tmp/everfold-names-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
    store_url(journal, sizeof journal, g_backend, b->folder, "journal");
    store_url(views, sizeof views, g_backend, b->folder, "views");
    CHECK_STATUS(EF_OK,
                 ef_journal_open(&(ef_journal_options){.url = journal, .create = true}, &b->journal,
                                 &b->err),
                 &b->err);
    CHECK_STATUS(
        EF_OK,
        ef_engine_open(
            &(ef_engine_options){.journal = b->journal, .views_url = views, .create = true},
            &b->engine, &b->err),
        &b->err);
}

static void close_bench(bench *b)
{
    char command[128];

    ef_engine_close(b->engine);
    ef_journal_close(b->journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", b->folder);
    CHECK_INT(0, system(command));
}

/* Each view says who it is by the places of its names in `odd`, and how often it was touched. */
static void deploy(bench *b)
{
    ef_projection_list list = {0};

    CHECK_STATUS(EF_OK,
                 ef_projection_deploy(b->engine,
                                      &(ef_deploy){.file_name = "names.fold",
                                                   .text = EF_STR("projection names version 1\n"
                                                                  "  view stream\n"
                                                                  "  index pair\n"
                                                                  "\n"
                                                                  "on *\n"
                                                                  "  pair = data.pair\n"
                                                                  "  n += 1\n")},
                                      &list, NULL, &b->err),
                 &b->err);
    EF_RELEASE(&list);
}

static int pair_of(size_t tenant, size_t id)
{
    return (int)(tenant * 1000 + id);
}

/* An id of "" is none: a stream and a view have at least one byte. */
static bool is_id(size_t i)
{
    return odd[i][0] != '\0';
}

static void append_all(bench *b)
{
    static ef_new_event events[ODD];
    static ef_place places[ODD];
    char data[ODD][32];

    for (size_t t = 0; t < ODD; t++) {
        size_t count = 0;
        for (size_t i = 0; i < ODD; i++) {
            if (!is_id(i))
                continue;
            (void)snprintf(data[i], sizeof data[i], "{\"pair\":%d}", pair_of(t, i));
            events[count++] = (ef_new_event){.tenant = ef_str_from(odd[t]),
                                             .stream = ef_str_from(odd[i]),
                                             .type = EF_STR("seen"),
                                             .data = ef_str_from(data[i])};
        }
        CHECK_STATUS(EF_OK, ef_engine_append(b->engine, events, count, places, &b->err), &b->err);
    }
}

static void drain(bench *b)
{
    ef_tick tick = {.more = true};

    for (int i = 0; i < 200 && tick.more; i++)
        CHECK_STATUS(
            EF_OK,
            ef_engine_work(b->engine, &(ef_work_options){.no_leasing = true}, &tick, &b->err),
            &b->err);
    CHECK(!tick.more);
}

static void check_data(ef_str data, size_t tenant, size_t id)
{
    char expected[48];

    (void)snprintf(expected, sizeof expected, "{\"n\":1,\"pair\":%d}", pair_of(tenant, id));
    CHECK_STR(expected, data);
}

/* Folded once by the queue (deployed before the events), or by the cursor (after them). */
static void fill(bench *b, bool live)
{
    open_bench(b);
    if (live) {
        deploy(b);
        drain(b);
        append_all(b);
    } else {
        append_all(b);
        deploy(b);
    }
    drain(b);
}

static void check_get(bench *b, size_t t, size_t i)
{
    ef_view_list list = {0};

    CHECK_STATUS(EF_OK,
                 ef_view_get(b->engine, EF_STR("names"), ef_str_from(odd[t]), ef_str_from(odd[i]),
                             NULL, &list, &b->err),
                 &b->err);
    CHECK_STR(odd[t], list.items[0].tenant);
    CHECK_STR(odd[i], list.items[0].view_id);
    check_data(list.items[0].data, t, i);
    EF_RELEASE(&list);
}

TEST(every_pair_of_odd_tenant_and_id_is_a_view_of_its_own)
{
    for (int live = 0; live < 2; live++) {
        bench b;
        fill(&b, live == 1);
        for (size_t t = 0; t < ODD; t++)
            for (size_t i = 0; i < ODD; i++)
                if (is_id(i))
                    check_get(&b, t, i);
        close_bench(&b);
    }
}

/* Which odd name it is; each is there once. */
static size_t place_of(ef_str name)
{
    for (size_t i = 0; i < ODD; i++)
        if (ef_str_equal(name, ef_str_from(odd[i])))
            return i;
    fail_msg("\"%.*s\" is none of the names", EF_STR_ARG(name));
    return 0;
}

/* All pages of a query: every view of the tenant once, and none of another. */
static void check_pages(bench *b, size_t t, ef_str sort)
{
    ef_view_list list = {0};
    char after[4096] = "";
    bool seen[ODD] = {false};
    size_t total = 0;

    for (int page = 0; page < 100; page++) {
        ef_view_query query = {.projection = EF_STR("names"),
                               .tenant = ef_str_from(odd[t]),
                               .sort = sort,
                               .limit = 7,
                               .after = ef_str_from(after)};
        CHECK_STATUS(EF_OK, ef_view_find(b->engine, &query, &list, &b->err), &b->err);
        for (size_t v = 0; v < list.count; v++) {
            size_t i = place_of(list.items[v].view_id);
            CHECK_STR(odd[t], list.items[v].tenant);
            check_data(list.items[v].data, t, i);
            CHECK(!seen[i]);
            seen[i] = true;
            total++;
        }
        CHECK(list.next.len < sizeof after);
        memcpy(after, list.next.ptr, list.next.len);
        after[list.next.len] = '\0';
        if (!list.next.len)
            break;
    }
    CHECK_INT(ODD - 1, total);
    EF_RELEASE(&list);
}

TEST(pages_of_a_tenant_hold_its_views_once_and_no_other_s)
{
    const ef_str sorts[] = {{NULL, 0}, EF_STR("pair"), EF_STR("-view_id")};
    bench b;

    fill(&b, false);
    for (size_t t = 0; t < ODD; t++)
        for (size_t s = 0; s < 3; s++)
            check_pages(&b, t, sorts[s]);
    close_bench(&b);
}

/* A pair is looked for with every tenant: only its own has it, by index and by reading all. */
TEST(a_filter_finds_a_pair_with_its_own_tenant_only)
{
    bench b;
    ef_view_list list = {0};
    char where[2][48];

    fill(&b, false);
    for (size_t t = 0; t < ODD; t++) {
        size_t id = 1 + t % (ODD - 1);
        (void)snprintf(where[0], sizeof where[0], "pair == %d", pair_of(t, id));
        (void)snprintf(where[1], sizeof where[1], "pair + n == %d", pair_of(t, id) + 1);
        for (size_t other = 0; other < ODD; other++)
            for (size_t w = 0; w < 2; w++) {
                ef_view_query query = {.projection = EF_STR("names"),
                                       .tenant = ef_str_from(odd[other]),
                                       .where = ef_str_from(where[w])};
                CHECK_STATUS(EF_OK, ef_view_find(b.engine, &query, &list, &b.err), &b.err);
                CHECK_INT(other == t ? 1 : 0, list.count);
                if (list.count)
                    CHECK_STR(odd[id], list.items[0].view_id);
            }
    }
    EF_RELEASE(&list);
    close_bench(&b);
}

/* A cursor of one tenant is none of another. */
TEST(a_cursor_does_not_lead_into_another_tenant)
{
    bench b;
    ef_view_list list = {0};
    char after[4096];

    fill(&b, false);
    ef_view_query query = {
        .projection = EF_STR("names"), .tenant = ef_str_from(odd[1]), .limit = 3};
    CHECK_STATUS(EF_OK, ef_view_find(b.engine, &query, &list, &b.err), &b.err);
    CHECK(list.next.len > 0 && list.next.len < sizeof after);
    memcpy(after, list.next.ptr, list.next.len);
    query.after = (ef_str){after, list.next.len};
    for (size_t t = 0; t < ODD; t++) {
        query.tenant = ef_str_from(odd[t]);
        ef_status st = ef_view_find(b.engine, &query, &list, &b.err);
        CHECK_STATUS(t == 1 ? EF_OK : EF_BAD_INPUT, st, &b.err);
        for (size_t v = 0; st == EF_OK && v < list.count; v++)
            CHECK_STR(odd[t], list.items[v].tenant);
    }
    EF_RELEASE(&list);
    close_bench(&b);
}

typedef struct counted {
    size_t of[ODD];
    bool wrong;
} counted;

static bool count_view(void *context, const ef_view *view)
{
    counted *c = context;
    size_t t = place_of(view->tenant), i = place_of(view->view_id);
    char expected[48];

    (void)snprintf(expected, sizeof expected, "{\"n\":1,\"pair\":%d}", pair_of(t, i));
    c->wrong = c->wrong || !ef_str_equal(view->data, ef_str_from(expected));
    c->of[t]++;
    return true;
}

TEST(an_export_holds_each_view_once_of_one_tenant_or_of_all)
{
    bench b;

    fill(&b, false);
    for (size_t t = 0; t <= ODD; t++) {
        counted c = {.wrong = false};
        bool all = t == ODD;
        CHECK_STATUS(EF_OK,
                     ef_view_export(b.engine, EF_STR("names"), ef_str_from(all ? "" : odd[t]), all,
                                    count_view, &c, NULL, &b.err),
                     &b.err);
        CHECK(!c.wrong);
        for (size_t other = 0; other < ODD; other++)
            CHECK_INT(all || other == t ? ODD - 1 : 0, c.of[other]);
    }
    close_bench(&b);
}

TEST(the_history_of_a_view_has_its_own_events_only)
{
    bench b;
    ef_batch events = EF_BATCH_INIT;
    ef_view_list list = {0};

    fill(&b, false);
    for (size_t t = 0; t < ODD; t += 5)
        for (size_t i = 1; i < ODD; i += 7) {
            char data[32];
            CHECK_STATUS(EF_OK,
                         ef_view_explain(b.engine, EF_STR("names"), ef_str_from(odd[t]),
                                         ef_str_from(odd[i]), 0, NULL, &events, &b.err),
                         &b.err);
            (void)snprintf(data, sizeof data, "{\"pair\":%d}", pair_of(t, i));
            CHECK_INT(1, events.count);
            CHECK_STR(data, events.events[0].data);
            CHECK_STATUS(EF_OK,
                         ef_view_at(b.engine, EF_STR("names"), ef_str_from(odd[t]),
                                    ef_str_from(odd[i]), events.events[0].position, NULL, &list,
                                    &b.err),
                         &b.err);
            check_data(list.items[0].data, t, i);
        }
    EF_RELEASE(&events);
    EF_RELEASE(&list);
    close_bench(&b);
}

TEST(an_empty_id_is_refused_and_fails_no_other_event)
{
    bench b;
    ef_place place;
    ef_view_list list = {0};
    ef_projection_list deployed = {0};

    open_bench(&b);
    CHECK_STATUS(EF_BAD_INPUT,
                 ef_engine_append(b.engine,
                                  &(ef_new_event){.type = EF_STR("t"), .data = EF_STR("{}")}, 1,
                                  &place, &b.err),
                 &b.err);
    CHECK_STATUS(EF_OK,
                 ef_projection_deploy(
                     b.engine,
                     &(ef_deploy){.file_name = "ids.fold",
                                  .text = EF_STR("projection ids version 1\n  view data.id\n\n"
                                                 "on *\n  n += 1\n")},
                     &deployed, NULL, &b.err),
                 &b.err);
    EF_RELEASE(&deployed);
    drain(&b);
    CHECK_STATUS(
        EF_OK,
        ef_engine_append(
            b.engine,
            (ef_new_event[]){
                {.stream = EF_STR("s1"), .type = EF_STR("t"), .data = EF_STR("{\"id\":\"\"}")},
                {.stream = EF_STR("s2"), .type = EF_STR("t"), .data = EF_STR("{\"id\":\"a\"}")}},
            2, (ef_place[2]){{0}}, &b.err),
        &b.err);
    drain(&b);
    CHECK_STATUS(
        EF_OK, ef_view_get(b.engine, EF_STR("ids"), (ef_str){0}, EF_STR("a"), NULL, &list, &b.err),
        &b.err);
    ef_status st =
        ef_view_get(b.engine, EF_STR("ids"), (ef_str){0}, EF_STR(""), NULL, &list, &b.err);
    CHECK(st == EF_NOT_FOUND || st == EF_BAD_INPUT);
    EF_RELEASE(&list);
    close_bench(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(every_pair_of_odd_tenant_and_id_is_a_view_of_its_own),
        TEST_CASE(pages_of_a_tenant_hold_its_views_once_and_no_other_s),
        TEST_CASE(a_filter_finds_a_pair_with_its_own_tenant_only),
        TEST_CASE(a_cursor_does_not_lead_into_another_tenant),
        TEST_CASE(an_export_holds_each_view_once_of_one_tenant_or_of_all),
        TEST_CASE(the_history_of_a_view_has_its_own_events_only),
        TEST_CASE(an_empty_id_is_refused_and_fails_no_other_event),
    };

    g_backend = argc > 1 ? argv[1] : "memory";
    make_long_names();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
