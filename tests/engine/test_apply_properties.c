/*
 * test_apply_properties.c - what must hold for any events: the way to the views does not show in
 * them. On memory and on SQLite (argv[1]), with seeds that are printed.
 *
 * Each history is folded by several ways: by the queue in batches of all sizes while it is written,
 * by a cursor afterwards, by cursors that are given little memory, by two engines in turns. All
 * have to end in the same bytes.
 */
#include "stores.h"
#include "test.h"

#include "../../src/engine/engine_priv.h"

#include <everfold/everfold.h>

#include <stdlib.h>
#include <unistd.h>

enum { STREAMS = 40, CATCH_UP = 10000 };

static const char *g_backend = "memory";
static const uint64_t SEEDS[] = {1, 20260, 777777};

/* Time stands still but for one test that moves it: leases run out when it says so. */
static int64_t g_now_us = INT64_C(1700000000000000);

static int64_t now_us(void *context)
{
    (void)context;
    return g_now_us;
}

static const ef_clock CLOCK = {.wall_us = now_us, .mono_us = now_us};

/* Sums and counts over views that many streams feed: any interleaving gives the same. */
static const char SUMS[] = "projection sums version 1\n"
                           "  view data.customer\n"
                           "  index total\n"
                           "\n"
                           "on order.placed\n"
                           "  orders += 1\n"
                           "  total += data.amount\n"
                           "\n"
                           "on order.cancelled when data.amount > 5\n"
                           "  orders -= 1\n"
                           "  total -= data.amount\n";

/* Depends on the order in each stream: a list, the last amount, a view that is deleted and created
 * again; and it fails on a void event. */
static const char STORY[] = "projection story version 1\n"
                            "  view stream\n"
                            "  index last\n"
                            "\n"
                            "on order.placed\n"
                            "  last = data.amount\n"
                            "  recent push data.amount keep 5\n"
                            "\n"
                            "on order.cancelled when last > 50\n"
                            "  delete\n"
                            "\n"
                            "on order.void\n"
                            "  last += data.customer\n";

/* Depends on the order of the whole log. */
static const char LOG[] = "projection log version 1\n"
                          "  order by log\n"
                          "  view data.customer\n"
                          "\n"
                          "on order.placed\n"
                          "  seen push stream keep 8\n"
                          "  last = data.amount\n";

/* --- chance ----------------------------------------------------------------------------------- */

static uint64_t roll(uint64_t *state, uint64_t sides)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % sides;
}

/* --- a journal and engines on it -------------------------------------------------------------- */

typedef struct bench {
    ef_journal *journal;
    char folder[64];
    ef_error err;
} bench;

static void open_bench(bench *b)
{
    char url[160];

    *b = (bench){.err = EF_ERROR_INIT};
    (void)snprintf(b->folder, sizeof b->folder, "/tmp/everfold-apply-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
    store_url(url, sizeof url, g_backend, b->folder, "journal");
    CHECK_STATUS(EF_OK,
                 ef_journal_open(&(ef_journal_options){.url = url, .create = true, .clock = &CLOCK},
                                 &b->journal, &b->err),
                 &b->err);
}

static void close_bench(bench *b)
{
    char command[128];

    ef_journal_close(b->journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", b->folder);
    CHECK_INT(0, system(command));
}

static ef_engine *open_engine(bench *b, const char *views)
{
    char url[160];
    ef_engine *engine;

    store_url(url, sizeof url, g_backend, b->folder, views);
    CHECK_STATUS(EF_OK,
                 ef_engine_open(&(ef_engine_options){.journal = b->journal,
                                                     .views_url = url,
                                                     .create = true,
                                                     .catch_up_batch = CATCH_UP,
                                                     .clock = &CLOCK},
                                &engine, &b->err),
                 &b->err);
    return engine;
}

static void deploy(bench *b, ef_engine *engine, const char *program)
{
    ef_projection_list list = {0};
    ef_text report = {0};

    CHECK_STATUS(EF_OK,
                 ef_projection_deploy(
                     engine, &(ef_deploy){.file_name = "test.fold", .text = ef_str_from(program)},
                     &list, &report, &b->err),
                 &b->err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
}

static bool work(bench *b, ef_engine *engine, size_t batch)
{
    ef_tick tick;

    CHECK_STATUS(EF_OK,
                 ef_engine_work(engine, &(ef_work_options){.batch = batch, .no_leasing = true},
                                &tick, &b->err),
                 &b->err);
    return tick.more;
}

static void drain(bench *b, ef_engine *engine, size_t batch)
{
    int ticks = 0;

    while (work(b, engine, batch))
        CHECK(++ticks < 100000);
}

/* --- events ----------------------------------------------------------------------------------- */

typedef struct line {
    char stream[16];
    char type[20];
    char data[80];
} line;

static line any_line(uint64_t *dice, int stream, int poison_every)
{
    line l;
    int kind = (int)roll(dice, 10);
    bool poison = poison_every && roll(dice, (uint64_t)poison_every) == 0;

    (void)snprintf(l.stream, sizeof l.stream, "order-%d", stream);
    (void)snprintf(l.type, sizeof l.type, "%s",
                   poison      ? "order.void"
                   : kind < 7  ? "order.placed"
                   : kind == 7 ? "order.noted"
                               : "order.cancelled");
    (void)snprintf(l.data, sizeof l.data, "{\"customer\":\"c%d\",\"amount\":%d.%d}",
                   (int)roll(dice, 25), (int)roll(dice, 100), (int)roll(dice, 10));
    return l;
}

static void append(bench *b, const line *lines, size_t count)
{
    ef_new_event events[500];
    ef_place places[500];

    while (count) {
        size_t n = count < 500 ? count : 500;
        for (size_t i = 0; i < n; i++)
            events[i] = (ef_new_event){.stream = ef_str_from(lines[i].stream),
                                       .type = ef_str_from(lines[i].type),
                                       .data = ef_str_from(lines[i].data)};
        CHECK_STATUS(EF_OK, ef_journal_append(b->journal, events, n, places, &b->err), &b->err);
        lines += n;
        count -= n;
    }
}

static line *history(uint64_t seed, size_t count, int poison_every)
{
    line *lines = calloc(count, sizeof *lines);

    CHECK(lines != NULL);
    for (size_t i = 0; i < count; i++)
        lines[i] = any_line(&seed, (int)roll(&seed, STREAMS), poison_every);
    return lines;
}

/* --- what came of them ------------------------------------------------------------------------ */

typedef struct result {
    char digest[33];
    ef__buf views; /* every view with its last event, as text */
} result;

static bool print_view(void *context, const ef_view *v)
{
    ef__buf_printf(context, "%.*s|%lld|%.*s\n", EF_STR_ARG(v->view_id),
                   (long long)v->last_event_sequence, EF_STR_ARG(v->data));
    return true;
}

static result look(bench *b, ef_engine *engine, const char *projection)
{
    result r = {.views = EF__BUF_INIT(16 << 20)};
    ef_projection_list list = {0};

    CHECK_STATUS(EF_OK, ef_projection_ls(engine, ef_str_from(projection), &list, &b->err), &b->err);
    CHECK_STR("live", list.items[0].state);
    CHECK_INT(0, list.items[0].unaccounted);
    memcpy(r.digest, list.items[0].digest, sizeof r.digest);
    EF_RELEASE(&list);
    CHECK_STATUS(EF_OK,
                 ef_view_export(engine, ef_str_from(projection), (ef_str){0}, true, print_view,
                                &r.views, NULL, &b->err),
                 &b->err);
    CHECK(!r.views.failed && r.views.len > 0);
    return r;
}

static void check_same(result x, result y)
{
    CHECK_TEXT(x.views.ptr, y.views.ptr);
    CHECK_TEXT(x.digest, y.digest);
    ef__buf_release(&x.views);
    ef__buf_release(&y.views);
}

/* What an engine makes of the whole journal, with this much memory (0: as usual). */
static result catch_up(bench *b, const char *views, const char *program, const char *projection,
                       size_t bytes)
{
    ef_engine *engine = open_engine(b, views);
    result r;

    if (bytes)
        engine->view_caches_bytes = engine->commit_bytes = bytes;
    deploy(b, engine, program);
    drain(b, engine, 0);
    r = look(b, engine, projection);
    ef_engine_close(engine);
    return r;
}

/* --- the properties --------------------------------------------------------------------------- */

/* The same lines, each stream in its order, with the streams interleaved differently. */
static line *mixed(const line *lines, size_t count, uint64_t seed)
{
    line *out = calloc(count, sizeof *out);
    size_t at[STREAMS] = {0}, n = 0;
    char name[16];

    CHECK(out != NULL);
    while (n < count) {
        int stream = (int)roll(&seed, STREAMS);
        (void)snprintf(name, sizeof name, "order-%d", stream);
        while (at[stream] < count && strcmp(lines[at[stream]].stream, name) != 0)
            at[stream]++;
        if (at[stream] < count)
            out[n++] = lines[at[stream]++];
    }
    return out;
}

TEST(any_interleaving_of_streams_gives_the_same_digest_where_order_does_not_matter)
{
    for (size_t s = 0; s < sizeof SEEDS / sizeof *SEEDS; s++) {
        line *lines = history(SEEDS[s], 2000, 0);
        char digests[3][33];

        print_message("# seed %llu\n", (unsigned long long)SEEDS[s]);
        for (int i = 0; i < 3; i++) {
            bench b;
            line *these = mixed(lines, 2000, SEEDS[s] + (uint64_t)i);
            open_bench(&b);
            append(&b, these, 2000);
            result r = catch_up(&b, "views", SUMS, "sums", 0);
            memcpy(digests[i], r.digest, sizeof digests[i]);
            ef__buf_release(&r.views);
            close_bench(&b);
            free(these);
        }
        CHECK_TEXT(digests[0], digests[1]);
        CHECK_TEXT(digests[0], digests[2]);
        free(lines);
    }
}

/* Each has a journal of its own, for a queue has one taker; what was caught up is compared too. */
static void fold_in_batches(const line *lines, size_t count, size_t batch, char digest[33])
{
    bench b;
    result r;

    open_bench(&b);
    ef_engine *engine = open_engine(&b, "views");
    deploy(&b, engine, STORY);
    drain(&b, engine, 0);
    append(&b, lines, count);
    drain(&b, engine, batch);
    r = look(&b, engine, "story");
    ef_engine_close(engine);
    memcpy(digest, r.digest, sizeof r.digest);
    check_same(r, catch_up(&b, "again", STORY, "story", 0));
    close_bench(&b);
}

TEST(the_size_of_batches_never_changes_a_byte)
{
    static const size_t SIZES[] = {1, 7, 64, 1000};

    for (size_t s = 0; s < sizeof SEEDS / sizeof *SEEDS; s++) {
        line *lines = history(SEEDS[s], 600, 0);
        char first[33], digest[33];

        print_message("# seed %llu\n", (unsigned long long)SEEDS[s]);
        fold_in_batches(lines, 600, SIZES[0], first);
        for (size_t i = 1; i < sizeof SIZES / sizeof *SIZES; i++) {
            fold_in_batches(lines, 600, SIZES[i], digest);
            CHECK_TEXT(first, digest);
        }
        free(lines);
    }
}

TEST(a_replay_ends_in_the_bytes_of_the_live_path)
{
    for (size_t s = 0; s < sizeof SEEDS / sizeof *SEEDS; s++) {
        line *lines = history(SEEDS[s], 3000, 0);
        uint64_t dice = SEEDS[s];
        bench b;

        print_message("# seed %llu\n", (unsigned long long)SEEDS[s]);
        open_bench(&b);
        ef_engine *live = open_engine(&b, "live");
        deploy(&b, live, SUMS);
        deploy(&b, live, STORY);
        deploy(&b, live, LOG);
        drain(&b, live, 0);
        for (size_t done = 0; done < 3000;) {
            size_t n = 1 + roll(&dice, 400);
            n = n < 3000 - done ? n : 3000 - done;
            append(&b, lines + done, n);
            done += n;
            if (roll(&dice, 3) != 0)
                (void)work(&b, live, 1 + roll(&dice, 200));
        }
        drain(&b, live, 0);
        result sums = look(&b, live, "sums"), story = look(&b, live, "story");
        result log = look(&b, live, "log");
        ef_engine_close(live);
        check_same(log, catch_up(&b, "log", LOG, "log", 0));
        check_same(story, catch_up(&b, "story", STORY, "story", 0));
        check_same(sums, catch_up(&b, "sums", SUMS, "sums", 0));
        close_bench(&b);
        free(lines);
    }
}

TEST(little_memory_makes_a_catch_up_slower_and_nothing_else)
{
    size_t count = 2 * CATCH_UP + 500;
    line *lines = history(4711, count, 3000);
    bench b;

    open_bench(&b);
    append(&b, lines, count);
    check_same(catch_up(&b, "plenty", STORY, "story", 0),
               catch_up(&b, "names", STORY, "story", 20 * 1024)); /* and no views */
    check_same(catch_up(&b, "again", STORY, "story", 0),
               catch_up(&b, "nothing", STORY, "story", 1));
    close_bench(&b);
    free(lines);
}

TEST(engines_that_catch_up_one_generation_in_turns_apply_each_event_once)
{
    size_t count = 3 * CATCH_UP + 500;
    line *lines;
    bench b;

    if (strcmp(g_backend, "memory") == 0)
        return; /* views in memory have one engine */
    lines = history(99, count, 0);
    open_bench(&b);
    append(&b, lines, count);
    result whole = catch_up(&b, "whole", SUMS, "sums", 0);
    ef_engine *one = open_engine(&b, "shared"), *other = open_engine(&b, "shared");
    deploy(&b, one, SUMS);
    for (int i = 0; i < 6; i++) {
        (void)work(&b, i % 2 ? one : other, 0);
        g_now_us += 60 * INT64_C(1000000); /* its lease runs out, and the other takes it */
    }
    drain(&b, one, 0);
    check_same(whole, look(&b, one, "sums"));
    ef_engine_close(one);
    ef_engine_close(other);
    close_bench(&b);
    free(lines);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(any_interleaving_of_streams_gives_the_same_digest_where_order_does_not_matter),
        TEST_CASE(the_size_of_batches_never_changes_a_byte),
        TEST_CASE(a_replay_ends_in_the_bytes_of_the_live_path),
        TEST_CASE(little_memory_makes_a_catch_up_slower_and_nothing_else),
        TEST_CASE(engines_that_catch_up_one_generation_in_turns_apply_each_event_once),
    };

    g_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
