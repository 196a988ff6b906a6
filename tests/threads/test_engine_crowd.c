/*
 * Many threads on one journal and its views: some append and fold at once, some work off the queue,
 * one reads, one deploys, pauses and resumes. In the end every event is in every projection, once.
 *
 * Run under the thread sanitizer too: there the reports are the test, and the totals only see to it
 * that everything is reached. On SQLite a second journal and a second engine on the same files take
 * part, as another process would.
 */
#include "test.h"

#include <everfold/everfold.h>
#include <everfold/view.h>

#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define APPENDERS 3
#define ROUNDS 30
#define BATCH 2
#define EVENTS (APPENDERS * ROUNDS * BATCH)
#define VERSIONS 3 /* of the projection that is deployed meanwhile */
#define DRAIN_MS 60000

static const char *backend = "memory";

/* "mine" is one view a stream, "all" is fed by all of them. */
static const char SUMS[] = "projection sums version %d\n"
                           "  view \"all\"\n"
                           "  index n\n"
                           "on paid\n"
                           "  n += 1\n"
                           "  total += data.amount\n"
                           "  view stream\n"
                           "    n += 1\n"
                           "    last = data.amount\n";
static const char KINDS[] = "projection kinds version 1\n"
                            "  order by log\n"
                            "  view type\n"
                            "on *\n"
                            "  n += 1\n"
                            "  last = position\n";

typedef struct stage {
    char folder[64];
    ef_journal *journals[2];
    ef_engine *engines[2]; /* the second is the first where a store cannot be opened twice */
    _Atomic bool drained;
    _Atomic int failures;
    pthread_mutex_t lock; /* of first_failure */
    char first_failure[700];
} stage;

typedef struct actor {
    stage *s;
    ef_engine *engine;
    int number;
    pthread_t thread;
    ef_error err;
} actor;

/* Only the test's own thread may leave a test: others note what is wrong. */
static void note(actor *a, int line, const char *what, ef_status st)
{
    if (atomic_fetch_add(&a->s->failures, 1) > 0)
        return;
    pthread_mutex_lock(&a->s->lock);
    (void)snprintf(a->s->first_failure, sizeof a->s->first_failure, "line %d: %s: %s (%.400s)",
                   line, what, ef_status_describe(st)->name, a->err.text);
    pthread_mutex_unlock(&a->s->lock);
}

#define MUST(a, condition, st) ((condition) ? (void)0 : note((a), __LINE__, #condition, (st)))

/* --- the stage ----------------------------------------------------------------------------------
 */

static bool is_sqlite(void)
{
    return strcmp(backend, "sqlite") == 0;
}

static void open_pair(stage *s, int i, ef_mode mode)
{
    char journal[128] = "memory:", views[128] = "memory:";
    ef_error err = EF_ERROR_INIT;

    if (is_sqlite()) {
        (void)snprintf(journal, sizeof journal, "sqlite:%s/journal.db", s->folder);
        (void)snprintf(views, sizeof views, "sqlite:%s/views.db", s->folder);
    }
    CHECK_STATUS(
        EF_OK,
        ef_journal_open(&(ef_journal_options){.url = journal, .create = true, .partitions = 4},
                        &s->journals[i], &err),
        &err);
    CHECK_STATUS(EF_OK,
                 ef_engine_open(&(ef_engine_options){.journal = s->journals[i],
                                                     .views_url = views,
                                                     .create = true,
                                                     .mode = mode},
                                &s->engines[i], &err),
                 &err);
}

static void open_stage(stage *s, ef_mode mode)
{
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/everfold-crowd-XXXXXX");
    CHECK(mkdtemp(s->folder) != NULL);
    CHECK_INT(0, pthread_mutex_init(&s->lock, NULL));
    open_pair(s, 0, mode);
    if (is_sqlite())
        open_pair(s, 1, EF_MODE_OUTBOX_APPLY_ONLY);
    else
        s->engines[1] = s->engines[0];
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void close_stage(stage *s)
{
    for (int i = 1; i >= 0; i--) {
        if (s->journals[i])
            ef_engine_close(s->engines[i]);
        ef_journal_close(s->journals[i]);
    }
    (void)pthread_mutex_destroy(&s->lock);
    (void)nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static ef_status deploy(ef_engine *engine, const char *program, ef_error *err)
{
    ef_projection_list list = {0};
    ef_status st = ef_projection_deploy(
        engine, &(ef_deploy){.file_name = "crowd.fold", .text = ef_str_from(program)}, &list, NULL,
        err);

    EF_RELEASE(&list);
    return st;
}

static ef_status deploy_sums(ef_engine *engine, int version, ef_error *err)
{
    char program[sizeof SUMS + 16];

    (void)snprintf(program, sizeof program, SUMS, version);
    return deploy(engine, program, err);
}

/* --- the actors ---------------------------------------------------------------------------------
 */

/* A stream of its own, and one that all share. */
static void *append_rounds(void *context)
{
    actor *a = context;
    char own[16];

    (void)snprintf(own, sizeof own, "s-%d", a->number);
    for (int round = 0; round < ROUNDS && !a->s->failures; round++) {
        char data[32];
        ef_place places[BATCH];
        (void)snprintf(data, sizeof data, "{\"amount\":%d}", round);
        ef_new_event events[BATCH] = {
            {.stream = ef_str_from(own), .type = EF_STR("paid"), .data = ef_str_from(data)},
            {.stream = EF_STR("shared"), .type = EF_STR("paid"), .data = EF_STR("{\"amount\":1}")}};
        ef_status st = ef_engine_append(a->engine, events, BATCH, places, &a->err);
        MUST(a, st == EF_OK, st);
    }
    return NULL;
}

static void *work_on(void *context)
{
    actor *a = context;

    while (!a->s->drained && !a->s->failures) {
        ef_tick tick;
        ef_status st = ef_engine_work(a->engine, &(ef_work_options){.batch = 7}, &tick, &a->err);
        MUST(a, st == EF_OK || st == EF_BUSY, st);
        if (!tick.more)
            (void)usleep(2000); /* others want the store, too */
    }
    return NULL;
}

/* The "n" of a view; 0 when there is none yet. */
static int64_t read_n(actor *a, const char *projection, const char *id)
{
    static const char KEY[] = "\"n\":";
    ef_view_list list = {0};
    int64_t n = 0;
    ef_status st = ef_view_get(a->engine, ef_str_from(projection), (ef_str){0}, ef_str_from(id),
                               NULL, &list, &a->err);

    MUST(a, st == EF_OK || st == EF_NOT_FOUND, st);
    if (st == EF_OK) {
        char text[256];
        (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(list.items[0].data));
        const char *at = strstr(text, KEY);
        n = at ? strtoll(at + strlen(KEY), NULL, 10) : -1;
        MUST(a, n > 0 && n <= EVENTS, EF_OK);
    }
    EF_RELEASE(&list);
    return n;
}

static void query(actor *a)
{
    ef_view_query q = {
        .projection = EF_STR("sums"), .where = EF_STR("n > 0"), .sort = EF_STR("-n")};
    ef_view_list list = {0};
    ef_projection_list projections = {0};
    ef_status st = ef_view_find(a->engine, &q, &list, &a->err);

    MUST(a, st == EF_OK, st);
    MUST(a, list.count <= APPENDERS + 2, st);
    st = ef_projection_ls(a->engine, (ef_str){0}, &projections, &a->err);
    MUST(a, st == EF_OK, st);
    EF_RELEASE(&projections);
    EF_RELEASE(&list);
}

/* What was counted once is never uncounted. */
static void *look_on(void *context)
{
    actor *a = context;
    int64_t all = 0, kinds = 0;

    while (!a->s->drained && !a->s->failures) {
        int64_t now = read_n(a, "sums", "all");
        MUST(a, now >= all, EF_OK);
        all = now;
        now = read_n(a, "kinds", "paid");
        MUST(a, now >= kinds, EF_OK);
        kinds = now;
        query(a);
        (void)usleep(1000);
    }
    return NULL;
}

static void *operate(void *context)
{
    actor *a = context;

    for (int version = 2; version <= VERSIONS && !a->s->failures; version++) {
        ef_status st =
            ef_projection_pause(a->engine, EF_STR("kinds"), true, EF_STR(""), EF_STR(""), &a->err);
        MUST(a, st == EF_OK, st);
        st = deploy_sums(a->engine, version, &a->err);
        MUST(a, st == EF_OK, st);
        (void)usleep(20000);
        st = ef_projection_pause(a->engine, EF_STR("sums"), true, EF_STR(""), EF_STR(""), &a->err);
        MUST(a, st == EF_OK, st);
        st =
            ef_projection_pause(a->engine, EF_STR("kinds"), false, EF_STR(""), EF_STR(""), &a->err);
        MUST(a, st == EF_OK, st);
        (void)usleep(20000);
        st = ef_projection_pause(a->engine, EF_STR("sums"), false, EF_STR(""), EF_STR(""), &a->err);
        MUST(a, st == EF_OK, st);
    }
    return NULL;
}

/* --- the end ------------------------------------------------------------------------------------
 */

static bool is_drained(stage *s)
{
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;
    bool done = true;

    CHECK_STATUS(EF_OK, ef_projection_ls(s->engines[0], (ef_str){0}, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++)
        done = done && list.items[i].lag_events == 0 &&
               ef_str_equal(list.items[i].state, EF_STR("live"));
    EF_RELEASE(&list);
    return done;
}

static void wait_until_drained(stage *s)
{
    const ef_clock *clock = ef_clock_system();
    int64_t until_us = clock->mono_us(clock->context) + DRAIN_MS * INT64_C(1000);

    while (!s->failures && !is_drained(s) && clock->mono_us(clock->context) < until_us)
        (void)usleep(10000);
}

/* Every generation has every event, once; and the versions of a projection agree to the byte. */
static void check_projections(stage *s)
{
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef_projection_ls(s->engines[0], (ef_str){0}, &list, &err), &err);
    CHECK_INT(VERSIONS + 1, list.count);
    for (size_t i = 0; i < list.count; i++) {
        const ef_projection *p = &list.items[i];
        bool sums = ef_str_equal(p->name, EF_STR("sums"));
        CHECK_STR("live", p->state);
        CHECK_INT(0, p->lag_events);
        CHECK_INT(0, p->unaccounted);
        CHECK_INT(0, p->failures);
        CHECK_INT(sums ? APPENDERS + 2 : 1, p->views);
        if (sums)
            CHECK_TEXT(list.items[list.count - 1].digest, p->digest);
    }
    EF_RELEASE(&list);
}

static void check_view(stage *s, const char *projection, const char *id, const char *data)
{
    ef_view_list list = {0};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK,
                 ef_view_get(s->engines[1], ef_str_from(projection), (ef_str){0}, ef_str_from(id),
                             NULL, &list, &err),
                 &err);
    CHECK_STR(data, list.items[0].data);
    EF_RELEASE(&list);
}

static void check_totals(stage *s)
{
    char data[64];
    int own = ROUNDS * (ROUNDS - 1) / 2;

    (void)snprintf(data, sizeof data, "{\"n\":%d,\"total\":%d}", EVENTS,
                   APPENDERS * (own + ROUNDS));
    check_view(s, "sums", "all", data);
    (void)snprintf(data, sizeof data, "{\"last\":%d,\"n\":%d}", ROUNDS - 1, ROUNDS);
    for (int i = 0; i < APPENDERS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s-%d", i);
        check_view(s, "sums", id, data);
    }
    (void)snprintf(data, sizeof data, "{\"last\":1,\"n\":%d}", APPENDERS * ROUNDS);
    check_view(s, "sums", "shared", data);
    (void)snprintf(data, sizeof data, "{\"last\":%d,\"n\":%d}", EVENTS, EVENTS);
    check_view(s, "kinds", "paid", data);
}

static void start(actor *a, stage *s, int engine, int number, void *(*run)(void *))
{
    *a = (actor){.s = s, .engine = s->engines[engine], .number = number, .err = EF_ERROR_INIT};
    CHECK_INT(0, pthread_create(&a->thread, NULL, run, a));
}

static void play(ef_mode mode)
{
    static stage s;
    actor appenders[APPENDERS], others[4];
    ef_error err = EF_ERROR_INIT;

    s = (stage){0};
    open_stage(&s, mode);
    CHECK_STATUS(EF_OK, deploy_sums(s.engines[0], 1, &err), &err);
    CHECK_STATUS(EF_OK, deploy(s.engines[0], KINDS, &err), &err);
    start(&others[0], &s, 0, 0, work_on);
    start(&others[1], &s, 1, 1, work_on);
    start(&others[2], &s, 1, 2, look_on);
    start(&others[3], &s, 0, 3, operate);
    for (int i = 0; i < APPENDERS; i++)
        start(&appenders[i], &s, 0, i, append_rounds);
    for (int i = 0; i < APPENDERS; i++)
        CHECK_INT(0, pthread_join(appenders[i].thread, NULL));
    CHECK_INT(0, pthread_join(others[3].thread, NULL));
    wait_until_drained(&s);
    s.drained = true;
    for (int i = 0; i < 3; i++)
        CHECK_INT(0, pthread_join(others[i].thread, NULL));

    if (s.failures)
        print_error("%d failures in threads, the first: %s\n", s.failures, s.first_failure);
    CHECK_INT(0, s.failures);
    check_projections(&s);
    check_totals(&s);
    close_stage(&s);
}

TEST(queued_events_are_folded_once_while_others_read_deploy_and_pause)
{
    (void)state;
    play(EF_MODE_OUTBOX_APPLY_ONLY);
}

TEST(events_folded_at_once_and_by_workers_are_folded_once)
{
    (void)state;
    play(EF_MODE_INLINE_THEN_OUTBOX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(queued_events_are_folded_once_while_others_read_deploy_and_pause),
        TEST_CASE(events_folded_at_once_and_by_workers_are_folded_once)};

    backend = argc > 1 ? argv[1] : backend;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
