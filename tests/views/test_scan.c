/*
 * Scans by id and by index: directions, bounds, pages; tenants and odd names.
 */
#include "views_fixture.h"

#include "../../src/sqlite/conn.h"

#include <stdlib.h>

static const char *const LETTERS[] = {"a", "ab", "b", "c", "d"};

static int64_t with_letters(fixture *t)
{
    int64_t g = add_generation(t, "p", "x");

    for (size_t i = 0; i < 5; i++)
        put_indexed(t, g, "t", LETTERS[i], "1",
                    (const char *[]){(const char *[]){"k1", "k2", "k2", NULL, "k3"}[i]}, 1);
    put_indexed(t, g, "other", "b", "1", (const char *[]){"k2"}, 1);
    return g;
}

CONTRACT(ids_are_scanned_in_both_directions)
{
    fixture *t = *state;
    ef__view_scan scan = {.generation = with_letters(t), .tenant = str("t"), .index = -1};

    CHECK_TEXT("/t/a /t/ab /t/b /t/c /t/d ", scan_text(t, &scan, 10));
    scan.descending = true;
    CHECK_TEXT("/t/d /t/c /t/b /t/ab /t/a ", scan_text(t, &scan, 10));
    CHECK_TEXT("/t/d /t/c ", scan_text(t, &scan, 2));
    scan.generation++;
    CHECK_TEXT("", scan_text(t, &scan, 10));
}

CONTRACT(ids_are_scanned_between_bounds)
{
    fixture *t = *state;
    ef__view_scan scan = {.generation = with_letters(t),
                          .tenant = str("t"),
                          .index = -1,
                          .has_low = true,
                          .low = str("a"),
                          .has_high = true,
                          .high = str("c")};

    CHECK_TEXT("/t/a /t/ab /t/b /t/c ", scan_text(t, &scan, 10));
    scan.low_open = true;
    CHECK_TEXT("/t/ab /t/b /t/c ", scan_text(t, &scan, 10));
    scan.high_open = true;
    CHECK_TEXT("/t/ab /t/b ", scan_text(t, &scan, 10));
    scan.descending = true;
    CHECK_TEXT("/t/b /t/ab ", scan_text(t, &scan, 10));
    scan.has_low = false;
    CHECK_TEXT("/t/b /t/ab /t/a ", scan_text(t, &scan, 10));
    scan.has_low = true;
    scan.has_high = false;
    CHECK_TEXT("/t/d /t/c /t/b /t/ab ", scan_text(t, &scan, 10));
    scan.low = str("x");
    CHECK_TEXT("", scan_text(t, &scan, 10));
}

CONTRACT(a_scan_of_all_tenants_goes_by_tenant_and_id)
{
    fixture *t = *state;
    ef__view_scan scan = {.generation = with_letters(t), .any_tenant = true, .index = -1};

    put_view(t, scan.generation, "", "z", "1");
    put_view(t, add_generation(t, "q", ""), "", "not this one", "1");
    CHECK_TEXT("//z /other/b /t/a /t/ab /t/b /t/c /t/d ", scan_text(t, &scan, 10));
    scan.has_after = true;
    scan.after_tenant = str("other");
    scan.after_id = str("b");
    CHECK_TEXT("/t/a /t/ab ", scan_text(t, &scan, 2));
    scan.descending = true;
    CHECK_TEXT("//z ", scan_text(t, &scan, 10));
}

CONTRACT(an_index_is_scanned_by_key_and_id)
{
    fixture *t = *state;
    ef__view_scan scan = {.generation = with_letters(t), .tenant = str("t"), .index = 0};

    CHECK_TEXT("k1/t/a k2/t/ab k2/t/b k3/t/d ", scan_text(t, &scan, 10));
    scan.descending = true;
    CHECK_TEXT("k3/t/d k2/t/b k2/t/ab k1/t/a ", scan_text(t, &scan, 10));
    scan.has_low = scan.has_high = true;
    scan.low = scan.high = str("k2");
    CHECK_TEXT("k2/t/b k2/t/ab ", scan_text(t, &scan, 10));
    scan.low_open = true;
    CHECK_TEXT("", scan_text(t, &scan, 10));
    scan.has_high = false;
    CHECK_TEXT("k3/t/d ", scan_text(t, &scan, 10));
    scan.has_high = true;
    scan.has_low = false;
    scan.high_open = true;
    CHECK_TEXT("k1/t/a ", scan_text(t, &scan, 10));
    scan.index = 1;
    CHECK_TEXT("", scan_text(t, &scan, 10));
}

CONTRACT(index_entries_follow_the_views)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "p", "x,y");
    ef__view_scan x = {.generation = g, .index = 0}, y = {.generation = g, .index = 1};

    put_indexed(t, g, "", "v", "1", (const char *[]){"a", "b"}, 2);
    CHECK_TEXT("a//v ", scan_text(t, &x, 10));
    CHECK_TEXT("b//v ", scan_text(t, &y, 10));
    put_indexed(t, g, "", "v", "2", (const char *[]){"a", "c"}, 2); /* one stays, one moves */
    CHECK_TEXT("a//v ", scan_text(t, &x, 10));
    CHECK_TEXT("c//v ", scan_text(t, &y, 10));
    put_indexed(t, g, "", "v", "3", (const char *[]){NULL, "a"}, 2);
    CHECK_TEXT("", scan_text(t, &x, 10));
    CHECK_TEXT("a//v ", scan_text(t, &y, 10));
    put_indexed(t, g, "", "v", "4", (const char *[]){"", "a"}, 2); /* an empty key is a key */
    CHECK_TEXT("//v ", scan_text(t, &x, 10));
    put_view(t, g, "", "v", NULL);
    CHECK_TEXT("", scan_text(t, &x, 10));
    CHECK_TEXT("", scan_text(t, &y, 10));
}

static bool note_id(void *context, ef_str key, const ef__view *view)
{
    char *ids = context;
    size_t used = strlen(ids);

    (void)key;
    (void)snprintf(ids + used, 10 - used, "%.*s", EF_STR_ARG(view->id));
    return true;
}

CONTRACT(keys_may_hold_any_byte)
{
    fixture *t = *state;
    char id[10] = "";
    int64_t g = add_generation(t, "p", "x");
    ef_str keys[3] = {{"\0", 1}, {"\0\0", 2}, {"\xff\xff", 2}};
    ef__view_scan scan = {.generation = g, .index = 0, .has_low = true, .low = keys[0]};

    for (int i = 0; i < 3; i++) {
        ef__index_key key = {0, keys[i]};
        ef__view_change view = change_of(t, g, "", (const char *[]){"a", "b", "c"}[i], "1");
        ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};
        view.keys = &key;
        view.key_count = 1;
        OK(commit_change(t, &change));
    }
    scan.low_open = true;
    scan.has_high = true;
    scan.high = keys[1];
    OK(t->views->ops->view_scan(t->views, &scan, note_id, id, &t->err));
    CHECK_TEXT("b", id);
    scan.high_open = true;
    CHECK_TEXT("", scan_text(t, &scan, 10));
    scan = (ef__view_scan){.generation = g, .index = 0, .has_low = true, .low = keys[2]};
    CHECK_TEXT("\xff\xff//c ", scan_text(t, &scan, 10));
}

/* All of a scan in pages of one and of two, put together, is all of it at once. */
typedef struct page {
    fixture *t;
    ef__view_scan *scan;
    size_t left;
    char text[500];
} page;

static bool turn_page(void *context, ef_str key, const ef__view *view)
{
    page *p = context;
    size_t used = strlen(p->text);

    (void)snprintf(p->text + used, sizeof p->text - used, "%.*s/%.*s/%.*s ", EF_STR_ARG(key),
                   EF_STR_ARG(view->tenant), EF_STR_ARG(view->id));
    p->scan->has_after = true;
    p->scan->after_key = ef__arena_copy(&p->t->arena, key);
    p->scan->after_tenant = ef__arena_copy(&p->t->arena, view->tenant);
    p->scan->after_id = ef__arena_copy(&p->t->arena, view->id);
    return --p->left > 0;
}

static void check_pages(fixture *t, ef__view_scan scan, size_t size)
{
    const char *whole = scan_text(t, &scan, 100);
    page p = {.t = t, .scan = &scan};

    do {
        p.left = size;
        OK(t->views->ops->view_scan(t->views, &scan, turn_page, &p, &t->err));
    } while (p.left < size);
    CHECK_TEXT(whole, p.text);
}

CONTRACT(pages_put_together_are_the_whole)
{
    fixture *t = *state;
    int64_t g = with_letters(t);

    put_indexed(t, g, "t", "", "1", (const char *[]){"k2"}, 1); /* an empty id */
    for (int i = 0; i < 24; i++) {
        ef__view_scan scan = {.generation = g,
                              .tenant = str("t"),
                              .any_tenant = i / 2 % 3 == 0,
                              .index = i / 2 % 3 == 2 ? 0 : -1,
                              .descending = i % 2,
                              .has_low = i >= 12,
                              .low = str(i / 2 % 3 == 2 ? "k2" : "ab")};
        check_pages(t, scan, 1);
        check_pages(t, scan, 2);
        check_pages(t, scan, 100);
    }
}

static bool read_another(void *context, ef_str key, const ef__view *view)
{
    fixture *t = context;

    (void)key, (void)view;
    CHECK_TEXT("1", view_data(t, generation(t, 1).id, "t", "a"));
    return true;
}

CONTRACT(views_can_be_read_during_a_scan)
{
    fixture *t = *state;
    ef__view_scan scan = {.generation = with_letters(t), .tenant = str("t"), .index = -1};

    OK(t->views->ops->view_scan(t->views, &scan, read_another, t, &t->err));
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *const ODD[] = {"",         "a",         "A",    "a/b", "a%",
                                  "a%2Fb",    "'",         "\"",   "a b", "a\tb",
                                  "a:b",      "a|b",       "a_",   "*",   "\xf0\x9f\x8c\x8d",
                                  "\xc3\xa9", "e\xcc\x81", "NULL", "0",   "00",
                                  "-1",       "1e3",       "a\\",  ";--", NULL};
enum { ODD_COUNT = sizeof ODD / sizeof ODD[0] };

static const char *odd(size_t i)
{
    static char longest[256];

    memset(longest, 'x', 255);
    return ODD[i] ? ODD[i] : longest;
}

CONTRACT(odd_names_never_meet_in_any_pair)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "p", "x");
    ef__view_change *views = calloc(ODD_COUNT * ODD_COUNT, sizeof *views);
    ef__watermark_change *marks = calloc(ODD_COUNT * ODD_COUNT, sizeof *marks);
    char(*data)[16] = calloc(ODD_COUNT * ODD_COUNT, sizeof *data);
    ef__generation_change change = {.generation = g,
                                    .views = views,
                                    .view_count = ODD_COUNT * ODD_COUNT,
                                    .watermarks = marks,
                                    .watermark_count = ODD_COUNT * ODD_COUNT};

    CHECK(views && marks && data);
    for (size_t i = 0; i < ODD_COUNT * ODD_COUNT; i++) {
        const char *tenant = odd(i / ODD_COUNT), *id = odd(i % ODD_COUNT);
        (void)snprintf(data[i], sizeof data[i], "%d", (int)i);
        views[i] = change_of(t, g, tenant, id, data[i]);
        marks[i] = watermark_to(t, g, tenant, id, (int64_t)i + 1);
    }
    OK(commit_change(t, &change));
    CHECK_INT(ODD_COUNT * ODD_COUNT, generation(t, g).views);
    for (size_t i = 0; i < ODD_COUNT * ODD_COUNT; i++) {
        const char *tenant = odd(i / ODD_COUNT), *id = odd(i % ODD_COUNT);
        CHECK_TEXT(data[i], view_data(t, g, tenant, id));
        CHECK_INT(i + 1, watermark_to(t, g, tenant, id, 0).before.applied_seq);
    }
    free(views);
    free(marks);
    free(data);
}

typedef struct counted {
    const char *tenant;
    size_t count;
} counted;

static bool count_tenant(void *context, ef_str key, const ef__view *view)
{
    counted *c = context;

    (void)key;
    CHECK_STR(c->tenant, view->tenant);
    c->count++;
    return true;
}

CONTRACT(a_scan_sees_one_tenant_whatever_its_name)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "p", "x");

    for (size_t i = 0; i < ODD_COUNT; i++)
        for (size_t k = 0; k < 3; k++)
            put_indexed(t, g, odd(i), odd(k), "1", (const char *[]){odd(k)}, 1);
    for (size_t i = 0; i < ODD_COUNT * 4; i++) {
        counted c = {odd(i / 4), 0};
        ef__view_scan scan = {.generation = g,
                              .tenant = str(c.tenant),
                              .index = i % 2 ? 0 : -1,
                              .descending = i / 2 % 2};
        OK(t->views->ops->view_scan(t->views, &scan, count_tenant, &c, &t->err));
        CHECK_INT(3, c.count);
    }
}

/* --- many reads at once ----------------------------------------------------------------------- */

static void check_many(fixture *t, ef_views *from, int64_t g)
{
    ef__view_key keys[] = {
        {str("t"), str("b")}, {str(""), str("none")}, {str(""), str("a")}, {str(""), str("b")}};
    ef__view views[4];
    ef__watermark marks[4];

    OK(from->ops->view_get_many(from, g, keys, 4, &t->arena, views, &t->err));
    CHECK_STR("3", views[0].data);
    CHECK_STR("t", views[0].tenant);
    CHECK(views[1].data.len == 0 && views[1].digest[0] == 0);
    CHECK_STR("1", views[2].data);
    CHECK_STR("a", views[2].id);
    CHECK(views[2].digest[0] == change_of(t, g, "", "a", "1").before[0]);
    CHECK_STR("2", views[3].data);
    OK(from->ops->watermark_get_many(from, g, keys, 4, marks, &t->err));
    CHECK_INT(7, marks[0].applied_seq);
    CHECK_INT(8, marks[0].expected_next_seq);
    CHECK_INT(8, marks[0].hash[31]);
    CHECK_INT(0, marks[1].applied_seq);
    OK(from->ops->view_get_many(from, g, keys, 0, &t->arena, views, &t->err));
}

CONTRACT(many_are_read_as_each_by_itself)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    ef__watermark_change mark = watermark_to(t, g, "t", "b", 7);
    ef__generation_change change = {.generation = g, .watermarks = &mark, .watermark_count = 1};
    ef_views *snapshot;

    if (!t->views->ops->view_get_many)
        return; /* each by itself costs no more there */
    put_view(t, g, "", "a", "1");
    put_view(t, g, "", "b", "2");
    put_view(t, g, "t", "b", "3");
    put_view(t, other, "", "none", "4");
    OK(commit_change(t, &change));
    check_many(t, t->views, g);
    OK(t->views->ops->snapshot_open(t->views, &snapshot, &t->err));
    check_many(t, snapshot, g);
    ef__views_close(snapshot);
}

/* What the reader finds, or "". */
static const char *read_by(fixture *t, ef_views *reader, int64_t g, const char *id)
{
    ef__view view;
    bool found = false;

    OK(reader->ops->view_get(reader, g, str(""), str(id), &t->arena, &view, &found, &t->err));
    return found ? view.data.ptr : "";
}

/* Reads until the reader has cached a view that could be too old. */
static void read_often(fixture *t, ef_views *reader, int64_t g, const char *wanted)
{
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(wanted, read_by(t, reader, g, "v"));
}

CONTRACT(a_reader_shows_what_was_committed_last_by_whomever)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef_views *own = t->views, *other, *reader;

    if (!own->ops->reader_open)
        return; /* each by itself costs no more there */
    OK(ef__views_open(&t->options, &other, &t->err));
    OK(own->ops->reader_open(own, &reader, &t->err));
    read_often(t, reader, g, "");
    put_view(t, g, "", "v", "1"); /* by the same store, while its reader is at it */
    read_often(t, reader, g, "1");
    t->views = other;
    put_view(t, g, "", "v", "2");
    read_often(t, reader, g, "2");
    reader->ops->release_snapshot(reader);
    put_view(t, g, "", "v", "3");
    read_often(t, reader, g, "3");
    put_view(t, g, "", "v", NULL);
    t->views = own;
    read_often(t, reader, g, "");
    ef__views_close(reader);
    ef__views_close(other);
}

static void check_shown(fixture *t, ef_views *reader, int64_t g, const char *tenant, int number)
{
    char id[32], wanted[32];
    ef__view view;
    bool found = false;

    (void)snprintf(id, sizeof id, "v-%d", number);
    (void)snprintf(wanted, sizeof wanted, "%d", (int)g * 1000 + number + (tenant[0] ? 500 : 0));
    OK(reader->ops->view_get(reader, g, str(tenant), str(id), &t->arena, &view, &found, &t->err));
    CHECK_INT(1, found);
    CHECK_TEXT(wanted, view.data.ptr);
    CHECK_TEXT(id, view.id.ptr);
    CHECK_TEXT(tenant, view.tenant.ptr);
}

/* More views than a reader caches, with names that differ in one part of the key only. */
CONTRACT(a_reader_takes_no_view_for_another)
{
    enum { VIEWS = 40 };
    fixture *t = *state;
    int64_t both[] = {add_generation(t, "a", ""), add_generation(t, "b", "")};
    ef_views *reader;

    if (!t->views->ops->reader_open)
        return; /* each by itself costs no more there */
    for (int i = 0; i < 4 * VIEWS; i++) {
        char id[32], data[32];
        (void)snprintf(id, sizeof id, "v-%d", i / 4);
        (void)snprintf(data, sizeof data, "%d",
                       (int)both[i % 2] * 1000 + i / 4 + (i % 4 / 2 ? 500 : 0));
        put_view(t, both[i % 2], i % 4 / 2 ? "t" : "", id, data);
    }
    OK(t->views->ops->reader_open(t->views, &reader, &t->err));
    for (int i = 0; i < 16 * VIEWS; i++) /* each four times in a row, then all of them again */
        for (int k = 0; k < 2; k++)
            check_shown(t, reader, both[i % 2], i % 4 / 2 ? "t" : "", i / (k ? 4 : 8) % VIEWS);
    CHECK_TEXT("", read_by(t, reader, both[0], "v-40"));
    CHECK_TEXT("", read_by(t, reader, both[0], "v-40"));
    ef__views_close(reader);
}

CONTRACT(a_reader_shows_a_view_of_any_size)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef_views *reader;

    if (!t->views->ops->reader_open)
        return; /* each by itself costs no more there */
    OK(t->views->ops->reader_open(t->views, &reader, &t->err));
    for (int bytes = 1; bytes < 70000; bytes = bytes * 3 + 1) {
        char *data = calloc(1, (size_t)bytes + 3);
        assert_non_null(data);
        memset(data, 'x', (size_t)bytes + 2);
        data[0] = data[bytes + 1] = '"';
        put_view(t, g, "", "v", data);
        read_often(t, reader, g, data);
        free(data);
    }
    ef__views_close(reader);
}

/* 1: a reader prevents that the log is emptied. */
static int64_t log_is_held(fixture *t, ef__sq_conn *conn)
{
    int64_t held = -1;

    OK(ef__sq_number(conn, "PRAGMA wal_checkpoint(TRUNCATE)", &held, &t->err));
    return held;
}

CONTRACT(a_reader_that_released_its_snapshot_blocks_no_writer)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef_views *reader;
    ef__sq_conn conn;

    if (strcmp(t->backend, "sqlite") != 0)
        return;
    put_view(t, g, "", "v", "1");
    OK(ef__sq_open(&conn, t->url + strlen("sqlite:"), &(ef__sq_options){.busy_ms = 1}, &t->err));
    OK(t->views->ops->reader_open(t->views, &reader, &t->err));
    read_often(t, reader, g, "1");
    CHECK_INT(1, log_is_held(t, &conn)); /* so reads in a row are one transaction */
    reader->ops->release_snapshot(reader);
    CHECK_INT(0, log_is_held(t, &conn));
    CHECK_TEXT("1", read_by(t, reader, g, "v"));
    CHECK_INT(0, log_is_held(t, &conn)); /* and a lone one is over when it returns */
    ef__sq_close(&conn);
    ef__views_close(reader);
}

CONTRACT_MAIN(CASE(ids_are_scanned_in_both_directions), CASE(ids_are_scanned_between_bounds),
              CASE(a_scan_of_all_tenants_goes_by_tenant_and_id),
              CASE(an_index_is_scanned_by_key_and_id), CASE(index_entries_follow_the_views),
              CASE(keys_may_hold_any_byte), CASE(pages_put_together_are_the_whole),
              CASE(views_can_be_read_during_a_scan), CASE(odd_names_never_meet_in_any_pair),
              CASE(a_scan_sees_one_tenant_whatever_its_name), CASE(many_are_read_as_each_by_itself),
              CASE(a_reader_shows_what_was_committed_last_by_whomever),
              CASE(a_reader_takes_no_view_for_another), CASE(a_reader_shows_a_view_of_any_size),
              CASE(a_reader_that_released_its_snapshot_blocks_no_writer))
