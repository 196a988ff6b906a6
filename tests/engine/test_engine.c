/*
 * test_engine.c - events become views: apply, queue, catch-up, deploying and reading, on memory and
 * on SQLite (argv[1]).
 */
#include "stores.h"
#include "test.h"

#include "../../src/journal/journal.h"

#include <everfold/everfold.h>
#include <everfold/view.h>

#include <stdlib.h>
#include <unistd.h>

static const char *g_backend = "memory";

static const char ORDERS[] = "projection orders version 1\n"
                             "  view data.customer\n"
                             "  index total\n"
                             "\n"
                             "on order.placed\n"
                             "  orders += 1\n"
                             "  total += data.amount\n"
                             "\n"
                             "on order.cancelled\n"
                             "  orders -= 1\n"
                             "  total -= data.amount\n";

static const char COUNTS[] = "projection counts version 1\n"
                             "  view type\n"
                             "\n"
                             "on *\n"
                             "  n += 1\n";

typedef struct bench {
    ef_journal *journal;
    ef_engine *engine;
    ef_error err;
    char folder[64];
} bench;

static void open_bench(bench *b, ef_mode mode)
{
    char journal[160], views[160];

    *b = (bench){.err = EF_ERROR_INIT};
    (void)snprintf(b->folder, sizeof b->folder, "/tmp/everfold-engine-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
    store_url(journal, sizeof journal, g_backend, b->folder, "journal");
    store_url(views, sizeof views, g_backend, b->folder, "views");
    CHECK_STATUS(
        EF_OK,
        ef_journal_open(&(ef_journal_options){.url = journal,
                                              .create = true,
                                              .outbox_off = mode == EF_MODE_INLINE_APPLY_ONLY},
                        &b->journal, &b->err),
        &b->err);
    CHECK_STATUS(EF_OK,
                 ef_engine_open(
                     &(ef_engine_options){
                         .journal = b->journal, .views_url = views, .create = true, .mode = mode},
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

static void deploy(bench *b, const char *program)
{
    ef_projection_list list = {0};
    ef_text report = {0};

    CHECK_STATUS(
        EF_OK,
        ef_projection_deploy(b->engine,
                             &(ef_deploy){.file_name = "test.fold", .text = ef_str_from(program)},
                             &list, &report, &b->err),
        &b->err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
}

static int64_t append(bench *b, const char *stream, const char *type, const char *data)
{
    ef_new_event event = {
        .stream = ef_str_from(stream), .type = ef_str_from(type), .data = ef_str_from(data)};
    ef_place place;

    CHECK_STATUS(EF_OK, ef_engine_append(b->engine, &event, 1, &place, &b->err), &b->err);
    return place.position;
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

static void check_view(bench *b, const char *projection, const char *id, const char *data)
{
    ef_view_list list = {0};

    CHECK_STATUS(EF_OK,
                 ef_view_get(b->engine, ef_str_from(projection), (ef_str){0}, ef_str_from(id), NULL,
                             &list, &b->err),
                 &b->err);
    CHECK_STR(data, list.items[0].data);
    EF_RELEASE(&list);
}

static ef_projection show(bench *b, const char *name, ef_projection_list *list)
{
    CHECK_STATUS(EF_OK, ef_projection_ls(b->engine, ef_str_from(name), list, &b->err), &b->err);
    return list->items[0];
}

static void check_accounts(bench *b, const char *name, const char *state, int64_t lag)
{
    ef_projection_list list = {0};
    ef_projection p = show(b, name, &list);

    CHECK_STR(state, p.state);
    CHECK_INT(lag, p.lag_events + p.blocked_events);
    CHECK_INT(0, p.unaccounted);
    EF_RELEASE(&list);
}

TEST(a_new_projection_catches_up_with_earlier_events)
{
    bench b;

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    append(&b, "o1", "order.placed", "{\"customer\":\"ann\",\"amount\":12.50}");
    append(&b, "o2", "order.placed", "{\"customer\":\"ann\",\"amount\":0.5}");
    deploy(&b, ORDERS);
    drain(&b);
    check_view(&b, "orders", "ann", "{\"orders\":2,\"total\":13}");
    check_accounts(&b, "orders", "live", 0);
    close_bench(&b);
}

TEST(live_events_are_folded_once_in_any_number_of_ticks)
{
    bench b;

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, ORDERS);
    deploy(&b, COUNTS);
    drain(&b);
    append(&b, "o1", "order.placed", "{\"customer\":\"ann\",\"amount\":3}");
    drain(&b);
    drain(&b);
    append(&b, "o1", "order.cancelled", "{\"customer\":\"ann\",\"amount\":1}");
    append(&b, "o1", "note.written", "{}");
    drain(&b);
    check_view(&b, "orders", "ann", "{\"orders\":0,\"total\":2}");
    check_view(&b, "counts", "note.written", "{\"n\":1}");
    check_accounts(&b, "orders", "live", 0);
    check_accounts(&b, "counts", "live", 0);
    close_bench(&b);
}

TEST(a_poison_event_blocks_its_stream_in_its_projection_only)
{
    bench b;

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, ORDERS);
    deploy(&b, COUNTS);
    drain(&b);
    append(&b, "bad", "order.placed", "{\"customer\":\"bob\",\"amount\":\"many\"}");
    append(&b, "bad", "order.placed", "{\"customer\":\"bob\",\"amount\":1}");
    append(&b, "good", "order.placed", "{\"customer\":\"ann\",\"amount\":2}");
    drain(&b);
    check_view(&b, "orders", "ann", "{\"orders\":1,\"total\":2}");
    check_view(&b, "counts", "order.placed", "{\"n\":3}");

    ef_view_list list = {0};
    CHECK_STATUS(
        EF_NOT_FOUND,
        ef_view_get(b.engine, EF_STR("orders"), (ef_str){0}, EF_STR("bob"), NULL, &list, &b.err),
        &b.err);
    EF_RELEASE(&list);
    check_accounts(&b, "orders", "live", 2);
    check_accounts(&b, "counts", "live", 0);

    /* An operator skips the poison event; the rows blocked by it are applied next. */
    ef_row_list rows = {0};
    CHECK_STATUS(EF_OK,
                 ef__outbox_skip(b.journal,
                                 &(ef_outbox_action){.stream = EF_STR("bad"),
                                                     .seq = 1,
                                                     .lane = EF_STR("orders"),
                                                     .actor = EF_STR("test"),
                                                     .reason = EF_STR("poison"),
                                                     .versions = (const int32_t[]){1},
                                                     .version_count = 1},
                                 &rows, &b.err),
                 &b.err);
    EF_RELEASE(&rows);
    drain(&b);
    usleep(1100000); /* a waiting row is retried after a second */
    drain(&b);
    check_view(&b, "orders", "bob", "{\"orders\":1,\"total\":1}");
    check_accounts(&b, "orders", "live", 0);
    close_bench(&b);
}

TEST(inline_modes_fold_before_the_append_returns)
{
    const ef_mode modes[] = {EF_MODE_INLINE_APPLY_ONLY, EF_MODE_INLINE_THEN_OUTBOX};

    for (int i = 0; i < 2; i++) {
        bench b;
        open_bench(&b, modes[i]);
        deploy(&b, ORDERS);
        drain(&b);
        append(&b, "o1", "order.placed", "{\"customer\":\"ann\",\"amount\":7}");
        check_view(&b, "orders", "ann", "{\"orders\":1,\"total\":7}");
        drain(&b);
        check_view(&b, "orders", "ann", "{\"orders\":1,\"total\":7}");
        close_bench(&b);
    }
}

TEST(a_program_with_an_error_or_a_used_version_is_not_deployed)
{
    bench b;
    ef_projection_list list = {0};
    ef_text report = {0};

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, COUNTS);
    deploy(&b, COUNTS);
    CHECK_STATUS(
        EF_CONFLICT,
        ef_projection_deploy(
            b.engine,
            &(ef_deploy){
                .file_name = "t.fold",
                .text = EF_STR("projection counts version 1\n  view type\n\non *\n  n += 2\n")},
            &list, &report, &b.err),
        &b.err);
    EF_RELEASE(&report);
    CHECK_STATUS(
        EF_BAD_INPUT,
        ef_projection_deploy(
            b.engine,
            &(ef_deploy){.file_name = "t.fold",
                         .text =
                             EF_STR("projection other version 1\n  view typ\n\non *\n  n += 1\n")},
            &list, &report, &b.err),
        &b.err);
    CHECK(report.ptr && strstr(report.ptr, "t.fold:2:"));
    EF_RELEASE(&report);
    CHECK_STATUS(EF_OK, ef_projection_ls(b.engine, (ef_str){0}, &list, &b.err), &b.err);
    CHECK_INT(1, list.count);
    EF_RELEASE(&list);
    close_bench(&b);
}

TEST(a_resumed_projection_misses_no_event)
{
    bench b;

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, COUNTS);
    drain(&b);
    append(&b, "s", "a", "{}");
    drain(&b);
    CHECK_STATUS(
        EF_OK,
        ef_projection_pause(b.engine, EF_STR("counts"), true, EF_STR(""), EF_STR(""), &b.err),
        &b.err);
    append(&b, "s", "a", "{}");
    append(&b, "s", "a", "{}");
    drain(&b);
    check_view(&b, "counts", "a", "{\"n\":1}");
    CHECK_STATUS(
        EF_OK,
        ef_projection_pause(b.engine, EF_STR("counts"), false, EF_STR(""), EF_STR(""), &b.err),
        &b.err);
    drain(&b);
    append(&b, "s", "a", "{}");
    drain(&b);
    check_view(&b, "counts", "a", "{\"n\":4}");
    check_accounts(&b, "counts", "live", 0);
    close_bench(&b);
}

TEST(queries_filter_sort_and_page_and_history_is_readable)
{
    bench b;
    ef_view_list list = {0};
    ef_batch events = EF_BATCH_INIT;
    char data[80], stream[16];

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, ORDERS);
    for (int i = 1; i <= 30; i++) {
        (void)snprintf(data, sizeof data, "{\"customer\":\"c%02d\",\"amount\":%d}", i % 10, i);
        (void)snprintf(stream, sizeof stream, "o%d", i);
        append(&b, stream, "order.placed", data);
    }
    drain(&b);
    ef_view_query query = {.projection = EF_STR("orders"),
                           .where = EF_STR("total > 40 and orders == 3"),
                           .sort = EF_STR("-total"),
                           .limit = 3,
                           .explain = true};
    CHECK_STATUS(EF_OK, ef_view_find(b.engine, &query, &list, &b.err), &b.err);
    CHECK_INT(3, list.count);
    CHECK_STR("c00", list.items[0].view_id);
    CHECK_STR("{\"orders\":3,\"total\":60}", list.items[0].data);
    CHECK_INT(30, list.as_of);
    CHECK(list.next.len > 0 && list.plan.len > 0);
    EF_RELEASE(&list);
    CHECK_STATUS(
        EF_BAD_INPUT,
        ef_view_find(b.engine,
                     &(ef_view_query){.projection = EF_STR("orders"), .where = EF_STR("total >")},
                     &list, &b.err),
        &b.err);
    CHECK_STATUS(EF_OK,
                 ef_view_explain(b.engine, EF_STR("orders"), (ef_str){0}, EF_STR("c05"), 0, NULL,
                                 &events, &b.err),
                 &b.err);
    CHECK_INT(3, events.count);
    CHECK_INT(15, events.events[1].position);
    CHECK_STATUS(
        EF_OK,
        ef_view_at(b.engine, EF_STR("orders"), (ef_str){0}, EF_STR("c05"), 20, NULL, &list, &b.err),
        &b.err);
    CHECK_STR("{\"orders\":2,\"total\":20}", list.items[0].data);
    EF_RELEASE(&list);
    EF_RELEASE(&events);
    close_bench(&b);
}

TEST(a_read_waits_for_its_own_writes)
{
    bench b;
    ef_view_list list = {0};
    char token[EF_TOKEN_MAX];

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, COUNTS);
    drain(&b);
    ef_token_format(append(&b, "s", "a", "{}"), token);
    ef_freshness fresh = {.at_least = ef_str_from(token), .timeout_ms = 20};
    CHECK_STATUS(
        EF_TIMEOUT,
        ef_view_get(b.engine, EF_STR("counts"), (ef_str){0}, EF_STR("a"), &fresh, &list, &b.err),
        &b.err);
    drain(&b);
    CHECK_STATUS(
        EF_OK,
        ef_view_get(b.engine, EF_STR("counts"), (ef_str){0}, EF_STR("a"), &fresh, &list, &b.err),
        &b.err);
    CHECK_INT(1, list.as_of);
    EF_RELEASE(&list);
    close_bench(&b);
}

/* By the reader, twice: the second time its transaction is open already. */
static void check_read(bench *b, ef_view_reader *reader, ef_view_list *list, const char *data)
{
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(EF_OK,
                     ef_view_reader_get(reader, EF_STR("counts"), (ef_str){0},
                                        EF_STR("order.placed"), list, &b->err),
                     &b->err);
        CHECK_STR(data, list->items[0].data);
    }
}

TEST(a_view_reader_returns_the_present_views)
{
    bench b;
    ef_view_reader *reader = NULL, *none = NULL;
    ef_view_list list = {0};

    open_bench(&b, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&b, COUNTS);
    append(&b, "a", "order.placed", "{}");
    drain(&b);
    CHECK_STATUS(EF_OK, ef_view_reader_open(b.engine, &reader, &b.err), &b.err);
    check_read(&b, reader, &list, "{\"n\":1}");
    append(&b, "a", "order.placed", "{}");
    drain(&b);
    check_read(&b, reader, &list, "{\"n\":2}");
    ef_view_reader_idle(reader);
    check_read(&b, reader, &list, "{\"n\":2}");
    CHECK_STATUS(
        EF_NOT_FOUND,
        ef_view_reader_get(reader, EF_STR("counts"), (ef_str){0}, EF_STR("none"), &list, &b.err),
        &b.err);
    CHECK_STATUS(
        EF_BAD_INPUT,
        ef_view_reader_get(NULL, EF_STR("counts"), (ef_str){0}, EF_STR("a"), &list, &b.err),
        &b.err);
    CHECK_STATUS(EF_BAD_INPUT, ef_view_reader_open(NULL, &none, &b.err), &b.err);
    EF_RELEASE(&list);
    ef_view_reader_close(reader);
    close_bench(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(a_new_projection_catches_up_with_earlier_events),
        TEST_CASE(live_events_are_folded_once_in_any_number_of_ticks),
        TEST_CASE(a_poison_event_blocks_its_stream_in_its_projection_only),
        TEST_CASE(inline_modes_fold_before_the_append_returns),
        TEST_CASE(a_program_with_an_error_or_a_used_version_is_not_deployed),
        TEST_CASE(a_resumed_projection_misses_no_event),
        TEST_CASE(queries_filter_sort_and_page_and_history_is_readable),
        TEST_CASE(a_read_waits_for_its_own_writes),
        TEST_CASE(a_view_reader_returns_the_present_views),
    };

    g_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
