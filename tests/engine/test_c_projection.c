/*
 * test_c_projection.c - projections written in C, deployed and folded by the engine, on memory and
 * on SQLite (argv[1]).
 *
 * Two engines on one journal and one view store are two processes here: with SQLite they share the
 * files, and nothing else. In memory there is one engine.
 */
#include "stores.h"
#include "test.h"

#include <everfold/everfold.h>

#include <stdlib.h>
#include <unistd.h>

static const char *g_backend = "memory";

typedef struct bench {
    ef_journal *journal;
    ef_engine *engine;
    ef_error err;
    char folder[64], views[128];
} bench;

static bool on_files(void)
{
    return store_survives(g_backend, "views");
}

static ef_engine *open_engine(bench *b, bool read_only)
{
    ef_engine *engine = NULL;
    ef_engine_options options = {
        .journal = b->journal, .views_url = b->views, .create = !read_only, .read_only = read_only};

    CHECK_STATUS(EF_OK, ef_engine_open(&options, &engine, &b->err), &b->err);
    return engine;
}

static void open_bench(bench *b)
{
    char journal[160];

    *b = (bench){.err = EF_ERROR_INIT};
    (void)snprintf(b->folder, sizeof b->folder, "/tmp/everfold-c-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
    store_url(journal, sizeof journal, g_backend, b->folder, "journal");
    store_url(b->views, sizeof b->views, g_backend, b->folder, "views");
    CHECK_STATUS(EF_OK,
                 ef_journal_open(&(ef_journal_options){.url = journal, .create = true}, &b->journal,
                                 &b->err),
                 &b->err);
    b->engine = open_engine(b, false);
}

static void close_bench(bench *b)
{
    char command[128];

    ef_engine_close(b->engine);
    ef_journal_close(b->journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", b->folder);
    CHECK_INT(0, system(command));
}

static void append(bench *b, const char *stream, const char *type, const char *data)
{
    ef_new_event event = {
        .stream = ef_str_from(stream), .type = ef_str_from(type), .data = ef_str_from(data)};
    ef_place place;

    CHECK_STATUS(EF_OK, ef_engine_append(b->engine, &event, 1, &place, &b->err), &b->err);
}

static ef_tick drain(bench *b, ef_engine *engine)
{
    ef_tick tick = {.more = true}, sum = {0};

    for (int i = 0; i < 50 && tick.more; i++) {
        CHECK_STATUS(EF_OK,
                     ef_engine_work(engine, &(ef_work_options){.no_leasing = true}, &tick, &b->err),
                     &b->err);
        sum.applied += tick.applied;
        sum.failed += tick.failed;
        sum.claimed += tick.claimed;
    }
    return sum;
}

static void check_view(bench *b, const char *projection, const char *id, const char *data)
{
    ef_view_list list = {0};
    ef_status st = ef_view_get(b->engine, ef_str_from(projection), (ef_str){0}, ef_str_from(id),
                               NULL, &list, &b->err);

    CHECK_STATUS(data ? EF_OK : EF_NOT_FOUND, st, &b->err);
    if (data)
        CHECK_STR(data, list.items[0].data);
    EF_RELEASE(&list);
}

typedef struct seen {
    char state[16], digest[33];
    int64_t position, lag, unaccounted, failures, views;
    bool no_function;
} seen;

static seen look(bench *b, ef_engine *engine, const char *name)
{
    ef_projection_list list = {0};
    seen s = {.state = ""};

    CHECK_STATUS(EF_OK, ef_projection_ls(engine, ef_str_from(name), &list, &b->err), &b->err);
    const ef_projection *p = &list.items[list.count - 1];
    (void)snprintf(s.state, sizeof s.state, "%.*s", EF_STR_ARG(p->state));
    memcpy(s.digest, p->digest, sizeof s.digest);
    s.position = p->position;
    s.lag = p->lag_events + p->blocked_events;
    s.unaccounted = p->unaccounted;
    s.failures = p->failures;
    s.views = p->views;
    s.no_function = p->no_function;
    EF_RELEASE(&list);
    return s;
}

/* The same as TOTALS below. `context` is how much a placed order counts. */
static ef_status fold_totals(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    const int64_t *worth = context;
    ef_str customer, amount;
    ef_status st;

    if (!ef_str_equal(event->type, EF_STR("order.placed")))
        return ef_fold_ignore(fold);
    st = ef_fold_data_text(fold, "customer", &customer, err);
    if (st == EF_OK)
        st = ef_fold_view(fold, customer, err);
    if (st == EF_OK)
        st = ef_fold_add_int(fold, "orders", *worth, err);
    if (st == EF_OK)
        st = ef_fold_data(fold, "amount", &amount, err);
    if (st == EF_OK)
        st = ef_fold_add(fold, "total", amount, err);
    return st;
}

static const char TOTALS[] = "projection text_totals version 1\n"
                             "  view data.customer\n"
                             "  index total\n"
                             "\n"
                             "on order.placed\n"
                             "  orders += 1\n"
                             "  total += data.amount\n";

static int64_t one = 1;

static ef_c_projection totals(void)
{
    return (ef_c_projection){.name = EF_STR("totals"),
                             .version = 1,
                             .indexes = EF_STR("total"),
                             .fn = fold_totals,
                             .context = &one};
}

static void enrol(bench *b, ef_engine *engine)
{
    ef_c_projection p = totals();

    CHECK_STATUS(EF_OK, ef_engine_register(engine, &p, &b->err), &b->err);
}

static void deploy(bench *b, const char *text)
{
    ef_projection_list list = {0};

    CHECK_STATUS(EF_OK,
                 ef_projection_deploy(
                     b->engine, &(ef_deploy){.file_name = "t.fold", .text = ef_str_from(text)},
                     &list, NULL, &b->err),
                 &b->err);
    EF_RELEASE(&list);
}

static void append_orders(bench *b, int count)
{
    char data[80], stream[16];

    for (int i = 0; i < count; i++) {
        (void)snprintf(data, sizeof data, "{\"customer\":\"c%d\",\"amount\":%d.25}", i % 3, i);
        (void)snprintf(stream, sizeof stream, "s%d", i % 5);
        append(b, stream, i % 4 == 3 ? "note.written" : "order.placed", data);
    }
}

TEST(a_c_projection_catches_up_and_follows_the_log)
{
    bench b;

    open_bench(&b);
    append(&b, "o1", "order.placed", "{\"customer\":\"ann\",\"amount\":12.50}");
    enrol(&b, b.engine);
    CHECK_TEXT("catching_up", look(&b, b.engine, "totals").state);
    drain(&b, b.engine);
    check_view(&b, "totals", "ann", "{\"orders\":1,\"total\":12.5}");
    append(&b, "o2", "order.placed", "{\"customer\":\"ann\",\"amount\":0.5}");
    append(&b, "o2", "note.written", "{}");
    drain(&b, b.engine);
    check_view(&b, "totals", "ann", "{\"orders\":2,\"total\":13}");
    seen s = look(&b, b.engine, "totals");
    CHECK_TEXT("live", s.state);
    CHECK_INT(3, s.position);
    CHECK_INT(0, s.lag);
    CHECK_INT(0, s.unaccounted);
    close_bench(&b);
}

TEST(c_and_text_end_in_the_same_digest_and_the_same_envelope)
{
    bench b;
    ef_view_list in_c = {0}, in_text = {0};

    open_bench(&b);
    deploy(&b, TOTALS);
    enrol(&b, b.engine);
    append_orders(&b, 40);
    drain(&b, b.engine);
    CHECK_TEXT(look(&b, b.engine, "text_totals").digest, look(&b, b.engine, "totals").digest);
    CHECK_INT(3, look(&b, b.engine, "totals").views);
    CHECK_STATUS(
        EF_OK,
        ef_view_get(b.engine, EF_STR("totals"), (ef_str){0}, EF_STR("c1"), NULL, &in_c, &b.err),
        &b.err);
    CHECK_STATUS(EF_OK,
                 ef_view_get(b.engine, EF_STR("text_totals"), (ef_str){0}, EF_STR("c1"), NULL,
                             &in_text, &b.err),
                 &b.err);
    CHECK_INT(in_text.items[0].last_event_sequence, in_c.items[0].last_event_sequence);
    CHECK_INT(in_text.items[0].version, in_c.items[0].version);
    CHECK_STR("totals", in_c.items[0].view_type);
    CHECK_INT(in_text.as_of, in_c.as_of);
    EF_RELEASE(&in_c);
    EF_RELEASE(&in_text);
    close_bench(&b);
}

TEST(indexes_and_history_of_a_c_projection_can_be_queried)
{
    bench b;
    ef_view_list list = {0};

    open_bench(&b);
    enrol(&b, b.engine);
    append_orders(&b, 12);
    drain(&b, b.engine);
    ef_view_query query = {.projection = EF_STR("totals"),
                           .where = EF_STR("total > 10"),
                           .sort = EF_STR("-total"),
                           .explain = true};
    CHECK_STATUS(EF_OK, ef_view_find(b.engine, &query, &list, &b.err), &b.err);
    CHECK_INT(3, list.count);
    CHECK(list.plan.ptr && strstr(list.plan.ptr, "index"));
    EF_RELEASE(&list);
    CHECK_STATUS(
        EF_OK,
        ef_view_at(b.engine, EF_STR("totals"), (ef_str){0}, EF_STR("c0"), 1, NULL, &list, &b.err),
        &b.err);
    CHECK_STR("{\"orders\":1,\"total\":0.25}", list.items[0].data);
    EF_RELEASE(&list);
    close_bench(&b);
}

TEST(a_process_without_the_function_folds_only_the_other_projections)
{
    bench b;

    open_bench(&b);
    deploy(&b, TOTALS);
    enrol(&b, b.engine);
    append_orders(&b, 8);
    drain(&b, b.engine);
    ef_engine *other = open_engine(&b, false);
    append_orders(&b, 8);
    drain(&b, other); /* takes the queue's rows: those of the text projection are done then */
    seen c = look(&b, other, "totals"), text = look(&b, other, "text_totals");
    CHECK(c.no_function);
    CHECK_TEXT("live", c.state);
    CHECK_INT(8, c.position);
    CHECK_INT(8, c.lag);
    CHECK_INT(0, c.unaccounted);
    CHECK_INT(0, c.failures);
    CHECK_INT(16, text.position);
    CHECK_INT(0, text.lag);
    check_view(&b, "totals", "c0", "{\"orders\":2,\"total\":6.5}");

    ef_view_list list = {0};
    CHECK_STATUS(
        EF_UNSUPPORTED,
        ef_view_at(other, EF_STR("totals"), (ef_str){0}, EF_STR("c0"), 1, NULL, &list, &b.err),
        &b.err);
    CHECK(strstr(b.err.text, "its function is not registered in this process"));
    EF_RELEASE(&list);

    /* Nothing was lost: the one that has it goes on where it stood, and so does the other one once
     * it has the function too. */
    drain(&b, b.engine);
    CHECK_TEXT(text.digest, look(&b, b.engine, "totals").digest);
    append_orders(&b, 4);
    enrol(&b, other);
    ef_engine_close(b.engine); /* gives back the scope's lease */
    b.engine = other;
    drain(&b, other);
    CHECK_INT(20, look(&b, other, "totals").position);
    CHECK(!look(&b, other, "totals").no_function);
    CHECK_TEXT(look(&b, other, "text_totals").digest, look(&b, other, "totals").digest);
    close_bench(&b);
}

TEST(several_processes_with_the_function_fold_each_event_once)
{
    bench b;

    open_bench(&b);
    deploy(&b, TOTALS);
    enrol(&b, b.engine);
    ef_engine *other = open_engine(&b, false);
    enrol(&b, other);
    for (int i = 0; i < 10; i++) {
        append_orders(&b, 7);
        drain(&b, i % 2 ? other : b.engine);
        if (i % 3 == 0)
            drain(&b, i % 2 ? b.engine : other);
    }
    ef_engine_close(other); /* whichever of them has the scope's lease */
    drain(&b, b.engine);
    CHECK_TEXT(look(&b, b.engine, "text_totals").digest, look(&b, b.engine, "totals").digest);
    CHECK_INT(0, look(&b, b.engine, "totals").unaccounted);
    close_bench(&b);
}

TEST(an_event_that_fails_in_c_stops_its_tenant_only)
{
    bench b;
    ef_failure_list failures = {0};

    open_bench(&b);
    deploy(&b, "projection counts version 1\n  view type\n\non *\n  n += 1\n");
    enrol(&b, b.engine);
    append(&b, "o1", "order.placed", "{\"customer\":\"ann\",\"amount\":1}");
    append(&b, "o2", "order.placed", "{\"customer\":\"ann\",\"amount\":\"many\"}");
    append(&b, "o3", "order.placed", "{\"customer\":\"ann\",\"amount\":2}");
    drain(&b, b.engine);
    check_view(&b, "totals", "ann", "{\"orders\":1,\"total\":1}");
    check_view(&b, "counts", "order.placed", "{\"n\":3}");
    seen s = look(&b, b.engine, "totals");
    CHECK_INT(1, s.position);
    CHECK_INT(2, s.lag);
    CHECK_INT(1, s.failures);
    CHECK_STATUS(EF_OK,
                 ef_projection_failures(b.engine,
                                        &(ef_failure_query){.projection = EF_STR("totals")},
                                        &failures, &b.err),
                 &b.err);
    CHECK_INT(1, failures.count);
    CHECK_INT(2, failures.items[0].position);
    CHECK_STR("o2", failures.items[0].stream);
    CHECK(strstr(failures.items[0].message.ptr, "total"));
    EF_RELEASE(&failures);
    close_bench(&b);
}

TEST(an_invalid_c_projection_is_refused_and_not_deployed)
{
    static int64_t two = 2;
    bench b;
    ef_projection_list list = {0};
    ef_c_projection good = totals(), p = good;

    open_bench(&b);
    p.name = EF_STR("no name");
    CHECK_STATUS(EF_BAD_INPUT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    p = good;
    p.name = EF_STR("a version 1\n  index b\n#");
    CHECK_STATUS(EF_BAD_INPUT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    p = good;
    p.version = 0;
    CHECK_STATUS(EF_BAD_INPUT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    p = good;
    p.indexes = EF_STR("total,,x");
    CHECK_STATUS(EF_BAD_INPUT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    p = good;
    p.fn = NULL;
    CHECK_STATUS(EF_BAD_INPUT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    CHECK_STATUS(EF_OK, ef_projection_ls(b.engine, (ef_str){0}, &list, &b.err), &b.err);
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);

    enrol(&b, b.engine);
    enrol(&b, b.engine); /* again is harmless */
    p = good;
    p.context = &two;
    CHECK_STATUS(EF_CONFLICT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    p = good;
    p.indexes = EF_STR("orders");
    CHECK_STATUS(EF_CONFLICT, ef_engine_register(b.engine, &p, &b.err), &b.err);
    CHECK_STATUS(
        EF_CONFLICT,
        ef_projection_deploy(
            b.engine,
            &(ef_deploy){.file_name = "t.fold",
                         .text = EF_STR("projection totals version 1\n\non *\n  n += 1\n")},
            &list, NULL, &b.err),
        &b.err);
    EF_RELEASE(&list);
    close_bench(&b);
}

TEST(a_new_version_is_built_beside_the_old_one)
{
    static int64_t two = 2;
    bench b;
    ef_c_projection p = totals();

    open_bench(&b);
    append_orders(&b, 4);
    enrol(&b, b.engine);
    drain(&b, b.engine);
    p.version = 2;
    p.context = &two;
    CHECK_STATUS(EF_OK, ef_engine_register(b.engine, &p, &b.err), &b.err);
    drain(&b, b.engine);
    append_orders(&b, 4);
    drain(&b, b.engine);
    check_view(&b, "totals", "c0", "{\"orders\":2,\"total\":0.5}"); /* the old one answers */
    seen s = look(&b, b.engine, "totals");
    CHECK_TEXT("live", s.state);
    CHECK_INT(8, s.position);
    close_bench(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(a_c_projection_catches_up_and_follows_the_log),
        TEST_CASE(c_and_text_end_in_the_same_digest_and_the_same_envelope),
        TEST_CASE(indexes_and_history_of_a_c_projection_can_be_queried),
        TEST_CASE(an_event_that_fails_in_c_stops_its_tenant_only),
        TEST_CASE(an_invalid_c_projection_is_refused_and_not_deployed),
        TEST_CASE(a_new_version_is_built_beside_the_old_one),
        /* the others need two engines on one store, which memory has not got */
        TEST_CASE(a_process_without_the_function_folds_only_the_other_projections),
        TEST_CASE(several_processes_with_the_function_fold_each_event_once),
    };
    size_t count = sizeof tests / sizeof tests[0];

    g_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("tests", tests, on_files() ? count : count - 2, NULL, NULL);
}
