/*
 * What only the views on PostgreSQL have to show: several processes' worth of connections that
 * commit at once, a server that drops them, a schema that is there or not, tenants that are kept
 * apart, views that are read with plain SQL, and views that a query leaves at the server.
 */
#include "views_fixture.h"

#include "../../src/views/query.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 6, ROUNDS = 60, SHARED_VIEWS = 12, LATE_US = 30000 };

/* --- many at once ----------------------------------------------------------------------------- */

/* Each has a store of its own, as a process would, and counts up views that all share: one number
 * in each, and a watermark of its own stream. */
typedef struct counter {
    fixture *t;
    int64_t generation;
    int number;
    int64_t done, conflicts;
    bool failed;
    char message[600];
} counter;

static bool fails(counter *c, ef_status st, const ef_error *err)
{
    if (st == EF_OK)
        return false;
    (void)snprintf(c->message, sizeof c->message, "%s: %s", ef_status_describe(st)->name,
                   err->text);
    c->failed = true;
    return true;
}

/* One more in each of some views, by what was read from a snapshot. */
static ef_status count_up(counter *c, ef_views *views, int round, ef__arena *arena, ef_error *err)
{
    ef__view_change changes[SHARED_VIEWS];
    ef__watermark_change mark = {.tenant = str(""), .stream = {0}};
    ef__generation_change change = {.generation = c->generation,
                                    .era = 1,
                                    .applied = 1,
                                    .views = changes,
                                    .watermarks = &mark,
                                    .watermark_count = 1};
    char ids[SHARED_VIEWS][16], data[SHARED_VIEWS][32], stream[16];
    bool found;
    ef_status st;

    (void)snprintf(stream, sizeof stream, "s%d", c->number);
    mark.stream = str(stream);
    st = views->ops->watermark_get(views, c->generation, mark.tenant, mark.stream, &mark.before,
                                   &found, err);
    mark.after = (ef__watermark){.applied_seq = round + 1, .expected_next_seq = round + 2};
    /* In another order each time: the store has to find the one that is safe. */
    for (int i = 0; st == EF_OK && i < SHARED_VIEWS / 2; i++) {
        int which = (i * 5 + round * 7 + c->number) % SHARED_VIEWS;
        ef__view_change *v = &changes[change.view_count++];
        ef__view old = {0};
        (void)snprintf(ids[i], sizeof ids[i], "v%d", which);
        st = views->ops->view_get(views, c->generation, str(""), str(ids[i]), arena, &old, &found,
                                  err);
        (void)snprintf(data[i], sizeof data[i], "%ld",
                       1 + (found ? strtol(old.data.ptr, NULL, 10) : 0));
        *v = (ef__view_change){.view = {.id = str(ids[i]), .data = str(data[i]), .schema = 1}};
        if (found)
            memcpy(v->before, old.digest, sizeof v->before);
    }
    return st == EF_OK
               ? views->ops->commit(
                     views, &(ef__views_commit){.generations = &change, .generation_count = 1}, err)
               : st;
}

static void *count(void *context)
{
    counter *c = context;
    ef__arena arena = EF__ARENA_INIT(64 * 1024 * 1024);
    ef_error err = EF_ERROR_INIT;
    ef_views *views = NULL;
    ef_status st = ef__views_open(&c->t->options, &views, &err);

    for (int round = 0; !fails(c, st, &err) && round < ROUNDS; round++) {
        do {
            st = count_up(c, views, round, &arena, &err);
            c->conflicts += st == EF_CONFLICT;
            ef__arena_reset(&arena);
        } while (st == EF_CONFLICT);
        c->done += st == EF_OK;
    }
    ef__views_close(views);
    ef__arena_release(&arena);
    return NULL;
}

CONTRACT(no_update_is_lost_however_many_write_the_same_views)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), sum = 0, conflicts = 0;
    counter counters[THREADS];
    pthread_t threads[THREADS];
    uint8_t digest[EF__DIGEST_BYTES];

    for (int i = 0; i < THREADS; i++) {
        counters[i] = (counter){.t = t, .generation = g, .number = i};
        CHECK_INT(0, pthread_create(&threads[i], NULL, count, &counters[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(0, pthread_join(threads[i], NULL));
        if (counters[i].failed)
            fail_msg("%s", counters[i].message);
        CHECK_INT(ROUNDS, counters[i].done);
        conflicts += counters[i].conflicts;
    }
    print_message("# %lld conflicts\n", (long long)conflicts);
    CHECK(conflicts > 0); /* otherwise it shows nothing */
    for (int i = 0; i < SHARED_VIEWS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "v%d", i);
        sum += strtol(view_data(t, g, "", id), NULL, 10);
    }
    CHECK_INT(THREADS * ROUNDS * (SHARED_VIEWS / 2), sum);
    CHECK_INT(THREADS * ROUNDS, generation(t, g).applied);
    CHECK_INT(SHARED_VIEWS, generation(t, g).views);
    digest_from_scratch(t, g, digest);
    assert_memory_equal(digest, generation(t, g).digest, sizeof digest);
}

/* The queue commits under the number of the live set; meanwhile a generation goes live again and
 * again. The head is the last commit of the queue: it must not move while a generation goes live.
 */
typedef struct seam {
    fixture *t;
    int64_t fed, joining;
    int64_t head; /* of a journal that has one event a commit; under lock */
    pthread_mutex_t lock;
    _Atomic int64_t applied; /* the last one that was committed */
    _Atomic bool failed, over;
    char message[600];
} seam;

static ef_status seam_head(void *context, int64_t *out, ef_error *err)
{
    seam *s = context;

    (void)err;
    (void)pthread_mutex_lock(&s->lock);
    *out = s->head;
    (void)pthread_mutex_unlock(&s->lock);
    return EF_OK;
}

/* Called inside the transaction that goes live. It returns late: an event applied meanwhile by a
 * worker that does not know the new generation would be missing in it. */
static ef_status seam_head_late(void *context, int64_t *out, ef_error *err)
{
    const seam *s = context;
    const ef_clock *clock = ef_clock_system();
    int64_t until_us = clock->mono_us(clock->context) + LATE_US;

    (void)seam_head(context, out, err);
    while (s->applied <= *out && clock->mono_us(clock->context) < until_us)
        ;
    return EF_OK;
}

/* Apply an event to the generations that are live by the number that was read before, but for one
 * whose cursor has passed it. */
static ef_status feed(ef_views *views, int64_t event, ef_error *err)
{
    ef__generation_list list = {0};
    ef__generation_change changes[2];
    ef__views_commit commit = {.generations = changes};
    ef_status st = views->ops->generation_ls(views, str(""), &list, err);

    commit.live_set = list.live_set;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].state == EF__GENERATION_LIVE && list.items[i].seam < event)
            changes[commit.generation_count++] = (ef__generation_change){
                .generation = list.items[i].id, .era = list.items[i].era, .applied = 1};
    EF_RELEASE(&list);
    return st == EF_OK ? views->ops->commit(views, &commit, err) : st;
}

static void *feed_on(void *context)
{
    seam *s = context;
    ef_error err = EF_ERROR_INIT;
    ef_views *views = NULL;
    ef_status st = ef__views_open(&s->t->options, &views, &err);

    while (st == EF_OK && !s->over) {
        int64_t event;
        (void)pthread_mutex_lock(&s->lock);
        event = ++s->head;
        (void)pthread_mutex_unlock(&s->lock);
        do
            st = feed(views, event, &err);
        while (st == EF_CONFLICT);
        s->applied = event;
    }
    if (st != EF_OK) {
        (void)snprintf(s->message, sizeof s->message, "%s", err.text);
        s->failed = true;
    }
    ef__views_close(views);
    return NULL;
}

CONTRACT(nothing_is_missed_at_the_seam_while_the_queue_commits)
{
    fixture *t = *state;
    seam s = {.t = t, .lock = PTHREAD_MUTEX_INITIALIZER};
    ef__generation live = {.name = str("fed"), .state = EF__GENERATION_LIVE, .schema = 1};
    pthread_t thread;
    int64_t at = 0;
    bool went_live = false;

    OK(t->views->ops->generation_add(t->views, &live, &s.fed, &t->err));
    s.joining = add_generation(t, "joining", "");
    CHECK_INT(0, pthread_create(&thread, NULL, feed_on, &s));
    /* Catch up to the head as it is, and try to join there, until it works. */
    while (!went_live && !s.failed) {
        ef__generation_change change = {.generation = s.joining, .era = 1, .cursor_before = at};
        ef__views_commit commit = {.generations = &change,
                                   .generation_count = 1,
                                   .head = seam_head_late,
                                   .head_context = &s,
                                   .out_live = &went_live};
        OK(seam_head(&s, &change.cursor_after, &t->err));
        if (change.cursor_after == at)
            continue;
        change.applied = change.cursor_after - at;
        change.go_live = true;
        OK(t->views->ops->commit(t->views, &commit, &t->err));
        at = change.cursor_after;
    }
    for (int64_t goal = at + 20, now = 0; now < goal && !s.failed;)
        OK(seam_head(&s, &now, &t->err));
    s.over = true;
    CHECK_INT(0, pthread_join(thread, NULL));
    if (s.failed)
        fail_msg("%s", s.message);
    CHECK_INT(s.head, generation(t, s.fed).applied);
    CHECK_INT(s.head, generation(t, s.joining).applied);
}

/* --- a server that drops connections ---------------------------------------------------------- */

CONTRACT(a_dropped_connection_is_made_again)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");

    for (int i = 0; i < 5; i++) {
        char data[16];
        (void)snprintf(data, sizeof data, "%d", i);
        (void)postgres_run(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                              " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
        put_view(t, g, "", "v", data);
        (void)postgres_run(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                              " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
        CHECK_TEXT(data, view_data(t, g, "", "v"));
    }
    CHECK_INT(1, generation(t, g).views);
}

/* --- the schema ------------------------------------------------------------------------------- */

CONTRACT(a_database_without_views_is_recognised)
{
    fixture *t = *state;
    ef_views *other = NULL;
    ef__views_options options = t->options;

    options.create = false;
    OK(ef__views_open(&options, &other, &t->err));
    ef__views_close(other);
    (void)postgres_run(t, "DROP SCHEMA everfold CASCADE");
    (void)postgres_run(t, "DROP SCHEMA everfold_views CASCADE");
    REFUSED(EF_NOT_FOUND, ef__views_open(&options, &other, &t->err));
    options.create = options.read_only = true;
    REFUSED(EF_NOT_FOUND, ef__views_open(&options, &other, &t->err));
    CHECK(other == NULL);
}

CONTRACT(the_schema_can_be_made_by_hand)
{
    fixture *t = *state;
    ef__buf text = EF__BUF_INIT(1024 * 1024);

    ef__views_close(t->views);
    t->views = NULL;
    (void)postgres_run(t, "DROP SCHEMA everfold CASCADE");
    (void)postgres_run(t, "DROP SCHEMA everfold_views CASCADE");
    OK(ef__views_postgres_schema(t->options.url, &text, &t->err));
    (void)postgres_run(t, text.ptr);
    ef__buf_release(&text);
    t->options.create = false;
    OK(ef__views_open(&t->options, &t->views, &t->err));
    put_view(t, add_generation(t, "a", ""), "", "v", "1");
}

CONTRACT(a_newer_schema_is_left_alone)
{
    fixture *t = *state;
    ef_views *other = NULL;

    (void)postgres_run(t, "INSERT INTO everfold.migration(part, number) VALUES ('views', 99)");
    REFUSED(EF_NEWER_SCHEMA, ef__views_open(&t->options, &other, &t->err));
}

/* --- reading with SQL ------------------------------------------------------------------------- */

CONTRACT(views_are_read_with_plain_sql)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "orders", "");

    put_view(t, g, "", "b", "{\"status\":\"gold\",\"total\":12.50}");
    put_view(t, g, "", "a", "{\"status\":\"new\",\"total\":3}");
    put_view(t, g, "", "nul", "{\"status\":\"\\u0000\"}");
    put_view(t, g, "", "slash", "{\"status\":\"\\\\u0000\"}");
    OK(t->views->ops->generation_activate(t->views, g, 0, 0, &t->err));
    CHECK_TEXT("b",
               postgres_run(t, "SELECT id FROM everfold_views.views WHERE projection = 'orders'"
                               " AND routed AND doc @> '{\"status\": \"gold\"}'"));
    CHECK_TEXT("15.50", postgres_run(t, "SELECT sum((doc ->> 'total')::numeric)"
                                        " FROM everfold_views.views"));
    CHECK_TEXT("nul", postgres_run(t, "SELECT id FROM everfold_views.views WHERE doc IS NULL"));
    CHECK_TEXT("4", postgres_run(t, "SELECT count(*) FROM everfold_views.views"));
}

CONTRACT(a_role_sees_the_tenant_that_it_has_set_and_no_other)
{
    static const char SEEN[] = "SELECT string_agg(tenant || '/' || id, ' ' ORDER BY tenant, id)"
                               " FROM everfold_views.views; ";
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "x");
    char sql[600];

    put_view(t, g, "", "none", "1");
    put_view(t, g, "acme", "v", "2");
    put_view(t, g, "apex", "v", "3");
    (void)postgres_run(t, "DO $$ BEGIN CREATE ROLE ef_reader; CREATE ROLE ef_worker;"
                          " EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    (void)postgres_run(t, "SELECT everfold_views.grant_reader('ef_reader')");
    (void)postgres_run(t, "SELECT everfold_views.grant_worker('ef_worker')");
#define AS(role, setting)                                                                          \
    (snprintf(sql, sizeof sql, "SET ROLE %s; %s %s", role, setting, SEEN), postgres_run(t, sql))
    CHECK_TEXT("/none acme/v apex/v", AS("ef_reader", ""));
    (void)postgres_run(t, "SELECT everfold.tenants_apart('ef_worker')");
    CHECK_TEXT("", AS("ef_reader", ""));
    CHECK_TEXT("acme/v", AS("ef_reader", "SET everfold.tenant = 'acme';"));
    CHECK_TEXT("", AS("ef_reader", "SET everfold.tenant = '';")); /* as when it is over */
    CHECK_TEXT("/none acme/v apex/v", AS("ef_worker", ""));
    put_view(t, g, "acme", "w", "4"); /* who owns the tables goes on as before */
    CHECK_TEXT("acme/v acme/w", AS("ef_reader", "SET everfold.tenant = 'acme';"));
    (void)postgres_run(t, "SELECT everfold.tenants_together()");
    CHECK_TEXT("/none acme/v acme/w apex/v", AS("ef_reader", ""));
#undef AS
}

/* --- what a query leaves at the server -------------------------------------------------------- */

static ef__filter *compiled(fixture *t, const char *text)
{
    static ef__diagnostics diagnostics;
    ef__filter *filter = NULL;

    OK(ef__filter_compile(str(text), &filter, &diagnostics, &t->err));
    return filter;
}

/* 6000 views of which ten are gold: at the ends of pages, beside them, and far between. All are
 * null in the index. */
#define GOLD "1, 64, 65, 320, 321, 1344, 1345, 5000, 5440, 6000"

static int64_t with_few_of_many(fixture *t)
{
    int64_t g = add_generation(t, "orders", "a");
    char sql[1000];

    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO everfold_views.view SELECT %lld, 't', to_char(n, 'FM00000'),"
                   " CASE WHEN n IN (" GOLD ") THEN '{\"n\":' || n || ',\"status\":\"gold\"}'"
                   " ELSE '{\"n\":' || n || ',\"status\":\"new\"}' END, 1, 1, 1,"
                   " decode(md5(n::text), 'hex') FROM generate_series(1, 6000) n",
                   (long long)g);
    (void)postgres_run(t, sql);
    (void)postgres_run(t, "INSERT INTO everfold_views.view_index SELECT generation, tenant, id, 0,"
                          " '\\x10' FROM everfold_views.view");
    return g;
}

/* How many views came for all pages of the answer; its ids, in their order, are `expected`. */
static int64_t came(fixture *t, ef__query query, const char *expected)
{
    ef__query_result page = EF__QUERY_RESULT_INIT;
    ef__buf ids = EF__BUF_INIT(10000);
    int64_t count = 0;

    do {
        OK(ef__query_run(t->views, &query, &page, &t->err));
        for (size_t i = 0; i < page.count; i++)
            ef__buf_printf(&ids, "%.*s ", EF_STR_ARG(page.rows[i].id));
        query.cursor = ef__arena_copy(&t->arena, page.cursor);
        count += page.views_read;
    } while (query.cursor.len > 0);
    CHECK_TEXT(expected, ids.ptr);
    ef__query_result_release(&page);
    ef__buf_release(&ids);
    return count;
}

CONTRACT(only_views_that_may_match_come_from_the_server)
{
    static const char UP[] = "00001 00064 00065 00320 00321 01344 01345 05000 05440 06000 ";
    static const char DOWN[] = "06000 05440 05000 01345 01344 00321 00320 00065 00064 00001 ";
    fixture *t = *state;
    ef__filter *filter = compiled(t, "status == \"gold\""), *a = compiled(t, "a"),
               *id = compiled(t, "view_id");
    ef__query_sort sort = {a, false};
    ef__query query = {.generation = with_few_of_many(t),
                       .tenant = str("t"),
                       .index_paths = str("a"),
                       .filter = filter,
                       .sorts = &sort};

    CHECK_INT(10, came(t, query, UP));
    query.limit = 3;
    CHECK_INT(10 + 3, came(t, query, UP)); /* one more each, to know that there is a next page */
    query.any_tenant = true;
    CHECK_INT(10 + 3, came(t, query, UP));
    query.any_tenant = false;
    query.sort_count = 1; /* by the index, both ways */
    CHECK_INT(10 + 3, came(t, query, UP));
    sort.descending = true;
    CHECK_INT(10 + 3, came(t, query, DOWN));
    sort.by = id; /* by id, backwards */
    CHECK_INT(10 + 3, came(t, query, DOWN));
    query.no_index = true;
    query.limit = 100;
    CHECK_INT(6000, came(t, query, DOWN));
    ef__filter_close(filter);
    ef__filter_close(a);
    ef__filter_close(id);
}

/* The result of the same query here and in memory, as text. */
static const char *outcome(fixture *t, int64_t g, const ef__filter *filter)
{
    ef__query query = {.generation = g, .filter = filter};
    ef__query_result page = EF__QUERY_RESULT_INIT;
    ef__buf text = EF__BUF_INIT(10000);
    ef_str copy;
    ef_status st = ef__query_run(t->views, &query, &page, &t->err);

    ef__buf_printf(&text, "%s %s:", ef_status_describe(st)->name, st == EF_OK ? "" : t->err.text);
    for (size_t i = 0; st == EF_OK && i < page.count; i++)
        ef__buf_printf(&text, " %.*s", EF_STR_ARG(page.rows[i].id));
    copy = ef__arena_copy(&t->arena, ef__buf_str(&text));
    ef__query_result_release(&page);
    ef__buf_release(&text);
    return copy.ptr;
}

static void check_fails_alike(fixture *t, const char *data, const char *where, ef_status expected)
{
    fixture memory = {0};
    ef__filter *filter = compiled(t, where);
    int64_t g = add_generation(t, "p", ""), same;
    const char *here;

    fixture_open(&memory, "memory");
    same = add_generation(&memory, "p", "");
    put_view(t, g, "", "v", data);
    put_view(&memory, same, "", "v", data);
    here = outcome(t, g, filter);
    CHECK_TEXT(outcome(&memory, same, filter), here);
    if (strncmp(here, ef_status_describe(expected)->name,
                strlen(ef_status_describe(expected)->name)) != 0)
        fail_msg("%s: %s", where, here);
    fixture_close(&memory);
    ef__filter_close(filter);
}

/* `{"a":{"00…0":1,"00…1":1,…},"b":"xxx…"}` */
static const char *large_view(fixture *t, int members, int letters)
{
    ef__buf data = EF__BUF_INIT(4 * 1024 * 1024);
    ef_str copy;

    ef__buf_add_text(&data, "{\"a\":{");
    for (int i = 0; i < members; i++)
        ef__buf_printf(&data, "%s\"%060d\":1", i ? "," : "", i);
    ef__buf_add_text(&data, "},\"b\":\"");
    for (int i = 0; i < letters; i++)
        ef__buf_add_char(&data, 'x');
    ef__buf_add_text(&data, "\"}");
    copy = ef__arena_copy(&t->arena, ef__buf_str(&data));
    ef__buf_release(&data);
    return copy.ptr;
}

/* `BEFORE(CLAUSE WORD CLAUSE WORD …)AFTER`: one comparison of a large object costs a part of the
 * budget of a filter, so this number of comparisons exceeds it. */
static const char *repeated(fixture *t, const char *before, const char *clause, const char *word,
                            const char *after)
{
    ef__buf where = EF__BUF_INIT(16000);
    ef_str copy;

    ef__buf_printf(&where, "%s(", before);
    for (int i = 0; i < 150; i++)
        ef__buf_printf(&where, "%s%s", i ? word : "", clause);
    ef__buf_printf(&where, ")%s", after);
    copy = ef__arena_copy(&t->arena, ef__buf_str(&where));
    ef__buf_release(&where);
    return copy.ptr;
}

CONTRACT(a_view_that_ends_a_query_is_not_left_at_the_server)
{
    fixture *t = *state;
    ef__buf many = EF__BUF_INIT(16000);

    check_fails_alike(t, "{\"a\":\"\\u0000\"}", "a == \"x\"", EF_BAD_JSON);
    check_fails_alike(t, large_view(t, 9900, 1), "a == \"x\"", EF_OK);
    check_fails_alike(t, large_view(t, 9900, 1), "a in [1]", EF_OK);
    check_fails_alike(t, large_view(t, 9900, 1), repeated(t, "", "a in [1]", " or ", ""),
                      EF_TOO_LARGE);
    check_fails_alike(t, large_view(t, 9900, 1),
                      repeated(t, "", "a in [1]", " or ", " and b == \"y\""), EF_TOO_LARGE);
    check_fails_alike(t, large_view(t, 9900, 1),
                      repeated(t, "", "a == a", " and ", " and b == \"y\""), EF_TOO_LARGE);
    check_fails_alike(t, large_view(t, 9900, 1),
                      repeated(t, "b == \"x\" and ", "a in [1]", " or ", ""), EF_TOO_LARGE);
    check_fails_alike(t, large_view(t, 9900, 1),
                      repeated(t, "b == \"y\" and ", "a in [1]", " or ", ""), EF_OK);
    check_fails_alike(t, large_view(t, 9900, 1), "\"x\" in a and b == \"y\"", EF_OK);
    check_fails_alike(t, large_view(t, 9900, 1), "a != 1 and b == \"y\"", EF_OK);
    check_fails_alike(t, large_view(t, 1, 9000), "join(split(b, \"x\"), b) == b and b == \"y\"",
                      EF_TOO_LARGE);
    for (int i = 0; i < 150; i++)
        ef__buf_printf(&many, "%sb != \"%d\"", i ? " and " : "", i);
    ef__buf_add_text(&many, " and b == \"y\"");
    check_fails_alike(t, large_view(t, 1, 250000), many.ptr, EF_TOO_LARGE);
    ef__buf_release(&many);
}

/* --- rows that change often ------------------------------------------------------------------- */

/* The step of a row is part of its key, so the key alone does not refuse a second row. */
CONTRACT(a_row_that_has_changed_often_is_not_made_twice)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    counter c = {.t = t, .generation = g};
    ef__arena arena = EF__ARENA_INIT(64 * 1024 * 1024);
    ef__view_change view = {.view = {.id = str("v0"), .data = str("1"), .schema = 1}};
    ef__watermark_change mark = {.tenant = str(""),
                                 .stream = str("s0"),
                                 .after = {.applied_seq = 1, .expected_next_seq = 2}};
    ef__generation_change views = {.generation = g, .era = 1, .views = &view, .view_count = 1};
    ef__generation_change marks = {
        .generation = g, .era = 1, .watermarks = &mark, .watermark_count = 1};

    for (int round = 0; round < 2 * ROUNDS; round++) {
        OK(count_up(&c, t->views, round, &arena, &t->err));
        ef__arena_reset(&arena);
    }
    ef__arena_release(&arena);
    CHECK_STATUS(
        EF_CONFLICT,
        t->views->ops->commit(
            t->views, &(ef__views_commit){.generations = &views, .generation_count = 1}, &t->err),
        &t->err);
    CHECK_STATUS(
        EF_CONFLICT,
        t->views->ops->commit(
            t->views, &(ef__views_commit){.generations = &marks, .generation_count = 1}, &t->err),
        &t->err);
    CHECK_STR("12",
              str(postgres_run(t, "SELECT count(*) FROM everfold_views.view WHERE step > 1")));
    CHECK_STR("1",
              str(postgres_run(t, "SELECT count(*) FROM everfold_views.watermark WHERE step = 7")));
}

CONTRACT_MAIN(CASE(no_update_is_lost_however_many_write_the_same_views),
              CASE(nothing_is_missed_at_the_seam_while_the_queue_commits),
              CASE(a_dropped_connection_is_made_again),
              CASE(a_database_without_views_is_recognised), CASE(the_schema_can_be_made_by_hand),
              CASE(a_newer_schema_is_left_alone), CASE(views_are_read_with_plain_sql),
              CASE(a_role_sees_the_tenant_that_it_has_set_and_no_other),
              CASE(only_views_that_may_match_come_from_the_server),
              CASE(a_view_that_ends_a_query_is_not_left_at_the_server),
              CASE(a_row_that_has_changed_often_is_not_made_twice))
