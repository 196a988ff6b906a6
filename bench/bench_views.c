/*
 * bench_views.c - events to views through the public API, with the same work as floor_views.c.
 *
 * Only public headers are used, as in an application. The journal is filled before the measurement.
 * At its end a run checks the state of the projections, so that no rate is printed for events that
 * were not folded.
 */
#include "bench_fill.h"
#include "bench_support.h"

#include <sqlite3.h>
#include <everfold/everfold.h>
#include <everfold/view.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROJECTIONS_MAX 100
#define HAND_KEY_BYTES 16

static const char usage[] =
    "usage: bench_views catch_up [n=1000000] [streams=1000] [indexed=0] [keep=NAME] [store=KIND]\n"
    "       bench_views drain [n=100000] [streams=1000] [batch=1000] [projections=1]\n"
    "                         [known=0] [any=0] [store=KIND]\n"
    "       bench_views fan_out [n=300] [views=1000]\n"
    "       bench_views find|get [views=1000000] [n=20000] [limit=20] [hand=0] [keep=NAME]\n"
    "\n"
    "catch_up, drain and fan_out count events, find and get calls. An event of fan_out makes so "
    "many\n"
    "views. Prints one line of JSON; the latencies\n"
    "are of one tick or one call; stderr has the processor time. BENCH_DIR is\n"
    "the directory of the files; keep leaves the stores in BENCH_DIR/NAME for the next run: to "
    "catch up\n"
    "with their journal, or to ask the same views. hand=1 asks in plain SQL, of the file that our "
    "store made. The first events make a stream each, and all after them go to any stream;\n"
    "known=1 drains the first before the clock starts, any=1 does without them, so that a stream\n"
    "begins when it is first picked. All take seed=1. store is sqlite or lmdb.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp bench_views catch_up streams=100000\n";

#define FAN_OUT_MAX 10000

typedef struct fan_event {
    char data[64 * FAN_OUT_MAX];
} fan_event;

typedef struct bench_run {
    int64_t n, streams, batch, projections, indexed, views, limit, seed, hand, known, any;
    const char *keep;
    const char *store; /* size of the views */
    bool queued;       /* events get outbox rows */
    bench_dir dir;
    ef_journal *journal;
    ef_engine *engine;
} bench_run;

/* Processor time of all threads: the cost of a run, independent of other load. */
static double cpu_secs(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s: %s", what, ef_status_describe(status)->name, err->text);
}

/* --- journal ------------------------------------------------------------------------------ */

static void open_journal(bench_run *run)
{
    char url[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;

    bench_store_url(url, sizeof url, &run->dir, "journal");
    check(ef_journal_open(
              &(ef_journal_options){.url = url, .create = true, .outbox_off = !run->queued},
              &run->journal, &err),
          "journal", &err);
}

/* Number of streams that `n` random events have started. */
static int64_t streams_picked(const bench_run *run)
{
    bench_picker picker = {.rng = {(uint64_t)run->seed}, .streams = (uint64_t)run->streams};
    bool *begun = bench_alloc((size_t)run->streams, sizeof *begun);
    int64_t count = 0;

    for (int64_t i = 0; i < run->n; i++) {
        uint64_t stream = bench_pick(&picker);
        count += !begun[stream];
        begun[stream] = true;
    }
    free(begun);
    return count;
}

/* --- engine ------------------------------------------------------------------------------- */

static bool is_filled(bench_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_head head;

    check(ef_journal_head(run->journal, &head, &err), "head", &err);
    if (head.position != 0 && head.position != run->n)
        bench_die("the kept journal has %" PRId64 " events, not %" PRId64, head.position, run->n);
    return head.position != 0;
}

static void remove_views(bench_run *run)
{
    static const char *const FILES[] = {"views.db",
                                        "views.db-wal",
                                        "views.db-shm",
                                        "views.db-lock",
                                        "views.lmdb/data.mdb",
                                        "views.lmdb/lock.mdb",
                                        "views.lmdb/everfold.lock",
                                        "views.lmdb"};
    char path[BENCH_PATH_BYTES + 32];

    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", run->dir.path, FILES[i]);
        (void)remove(path);
    }
}

static void open_engine(bench_run *run)
{
    bool lmdb = strcmp(run->store, "lmdb") == 0;
    char url[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;

    if (lmdb)
        (void)snprintf(url, sizeof url, "lmdb:%s/views.lmdb", run->dir.path);
    else
        bench_store_url(url, sizeof url, &run->dir, "views");
    check(ef_engine_open(
              &(ef_engine_options){.journal = run->journal, .views_url = url, .create = true},
              &run->engine, &err),
          "engine", &err);
}

static void deploy_text(bench_run *run, const char *text)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};
    ef_text report = {0};

    check(ef_projection_deploy(run->engine,
                               &(ef_deploy){.file_name = "bench.fold", .text = ef_str_from(text)},
                               &list, &report, &err),
          report.ptr ? report.ptr : "deploy", &err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
}

/* A counter, a sum and the texts of the newest event: views of about the same size as in the floor.
 */
static void deploy(bench_run *run)
{
    for (int64_t i = 1; i <= run->projections; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "projection orders_%" PRId64 " version 1\n"
                       "  view stream\n"
                       "%s"
                       "\n"
                       "on " BENCH_TYPE "\n"
                       "  orders += 1\n"
                       "  total += data.amount\n"
                       "  line = data.line\n"
                       "  sku = data.sku\n"
                       "  note = data.note\n",
                       i, run->indexed ? "  index line\n" : "");
        deploy_text(run, text);
    }
}

static void work_until_done(bench_run *run, bench_latency *latency)
{
    ef_work_options options = {.batch = (size_t)run->batch, .no_leasing = true};
    ef_error err = EF_ERROR_INIT;
    ef_tick tick = {.more = true};

    while (tick.more) {
        uint64_t begun = bench_now_ns();
        check(ef_engine_work(run->engine, &options, &tick, &err), "work", &err);
        if (latency)
            bench_latency_add(latency, bench_now_ns() - begun);
        if (tick.failed)
            bench_die("%" PRId64 " events failed", tick.failed);
    }
}

/* Checks that every event was folded exactly once. */
static void check_projections(bench_run *run, int64_t views)
{
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;

    check(ef_projection_ls(run->engine, EF_STR(""), &list, &err), "projections", &err);
    if (list.count != (size_t)run->projections)
        bench_die("found %zu projections", list.count);
    for (size_t i = 0; i < list.count; i++) {
        const ef_projection *p = &list.items[i];
        if (!ef_str_equal(p->state, EF_STR("live")) || p->views != views || p->lag_events != 0 ||
            p->unaccounted != 0)
            bench_die("projection %zu is %.*s with %" PRId64 " views, %" PRId64
                      " events lag, %" PRId64 " unaccounted for",
                      i, EF_STR_ARG(p->state), p->views, p->lag_events, p->unaccounted);
    }
    EF_RELEASE(&list);
}

static void close_all(bench_run *run)
{
    ef_engine_close(run->engine);
    ef_journal_close(run->journal);
    run->engine = NULL;
    run->journal = NULL;
}

/* --- cases -------------------------------------------------------------------------------- */

static void prepare_catch_up(bench_run *run)
{
    open_journal(run);
    if (!is_filled(run))
        bench_fill(run->journal, run->n, run->streams, run->streams, run->seed);
    close_all(run);
}

/* The projections are live before the first event, so all events come through the outbox. */
static void prepare_drain(bench_run *run)
{
    open_journal(run);
    open_engine(run);
    deploy(run);
    work_until_done(run, NULL);
    if (run->known) {
        bench_fill(run->journal, run->streams, run->streams, run->streams, run->seed);
        work_until_done(run, NULL);
        bench_fill(run->journal, run->n, run->streams, 0, run->seed);
    } else {
        bench_fill(run->journal, run->n, run->streams, run->any ? 0 : run->streams, run->seed);
    }
    close_all(run);
}

static void prepare_ask(bench_run *run)
{
    open_journal(run);
    if (!is_filled(run))
        bench_fill(run->journal, run->n, run->streams, run->streams, run->seed);
    open_engine(run);
    deploy(run);
    work_until_done(run, NULL);
    check_projections(run, run->views);
    close_all(run);
}

/* Events that make `views` views each. */
static void fill_fan_out(bench_run *run)
{
    fan_event *fan = bench_alloc(1, sizeof *fan);
    ef_error err = EF_ERROR_INIT;
    ef_place place;

    for (int64_t i = 0; i < run->n; i++) {
        size_t len = (size_t)snprintf(fan->data, sizeof fan->data, "{\"items\":[");
        for (int64_t v = 0; v < run->views; v++)
            len += (size_t)snprintf(fan->data + len, sizeof fan->data - len,
                                    "%s{\"id\":\"%" PRId64 "-%" PRId64 "\"}", v ? "," : "", i, v);
        len += (size_t)snprintf(fan->data + len, sizeof fan->data - len, "]}");
        ef_new_event event = {
            .stream = EF_STR("fan"), .type = EF_STR(BENCH_TYPE), .data = {fan->data, len}};
        check(ef_journal_append(run->journal, &event, 1, &place, &err), "append", &err);
    }
    free(fan);
}

static void prepare_fan_out(bench_run *run)
{
    open_journal(run);
    open_engine(run);
    deploy_text(run, "projection orders_1 version 1\n"
                     "  view stream\n"
                     "\n"
                     "on " BENCH_TYPE "\n"
                     "  for item in data.items view item.id\n"
                     "    orders += 1\n"
                     "    note = data.note\n");
    work_until_done(run, NULL);
    fill_fan_out(run);
    close_all(run);
}

/* Fills the stores in a child process, so that its memory does not count. */
static void prepare_apart(bench_run *run, void (*prepare)(bench_run *run))
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        prepare(run);
        if (bench_on_postgres())
            bench_settle_postgres();
        _exit(0); /* keeps the directory */
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        bench_die("the stores could not be filled");
}

/* Folds what waits, and checks that it makes `views` views of each projection. */
static void fold_measured(bench_run *run, const char *name, int64_t views)
{
    bench_latency latency = {0};
    double cpu = cpu_secs();
    uint64_t start = bench_now_ns();

    work_until_done(run, &latency);
    double elapsed = bench_secs_since(start);
    bench_cpu_secs = cpu_secs() - cpu;
    (void)fprintf(stderr, "%.3f s of processor time\n", bench_cpu_secs);
    bench_report("bench_views", name, (uint64_t)run->n, elapsed, &latency);
    check_projections(run, views);
    bench_latency_release(&latency);
    close_all(run);
}

static void bench_fold(bench_run *run, bool drain)
{
    char name[160];

    if (run->n < run->streams || run->projections < 1 || run->projections > PROJECTIONS_MAX)
        bench_die("n must be at least streams, projections 1 to %d", PROJECTIONS_MAX);
    if (run->any && (!drain || run->known))
        bench_die("any is for drain and cannot be combined with known");
    run->queued = drain;
    prepare_apart(run, drain ? prepare_drain : prepare_catch_up);
    open_journal(run);
    if (!drain)
        remove_views(run);
    open_engine(run);
    if (!drain)
        deploy(run);

    (void)snprintf(name, sizeof name,
                   "%s streams=%" PRId64 " batch=%" PRId64 " projections=%" PRId64
                   " indexed=%" PRId64 " known=%" PRId64 " any=%" PRId64 " store=%s",
                   drain ? "drain" : "catch_up", run->streams, run->batch, run->projections,
                   run->indexed, run->known, run->any,
                   bench_on_postgres() ? "postgres" : run->store);
    fold_measured(run, name, run->any ? streams_picked(run) : run->streams);
}

static void bench_fan_out(bench_run *run)
{
    char name[160];

    if (run->views < 1 || run->views > FAN_OUT_MAX)
        bench_die("views must be 1 to %d", FAN_OUT_MAX);
    run->queued = true;
    prepare_apart(run, prepare_fan_out);
    open_journal(run);
    open_engine(run);
    (void)snprintf(name, sizeof name, "fan_out views=%" PRId64, run->views);
    fold_measured(run, name, run->n * run->views);
}

static void ask_once(bench_run *run, bool find, uint64_t number)
{
    ef_view_list list = {0};
    ef_error err = EF_ERROR_INIT;
    char text[64];

    if (find) {
        (void)snprintf(text, sizeof text, "line >= %" PRIu64, number);
        check(ef_view_find(run->engine,
                           &(ef_view_query){.projection = EF_STR("orders_1"),
                                            .where = ef_str_from(text),
                                            .sort = EF_STR("line"),
                                            .limit = (size_t)run->limit},
                           &list, &err),
              "find", &err);
    } else {
        (void)bench_stream_name(text, number);
        check(ef_view_get(run->engine, EF_STR("orders_1"), EF_STR(""), ef_str_from(text), NULL,
                          &list, &err),
              "get", &err);
    }
    if (list.count != (find ? (size_t)run->limit : 1) || list.items[0].data.len == 0)
        bench_die("%zu views were found", list.count);
    EF_RELEASE(&list);
}

/* --- plain SQL ----------------------------------------------------------------------------------
 */

/* The same query in plain SQL on the same file. */
typedef struct by_hand {
    sqlite3 *db;
    sqlite3_stmt *statement;
    unsigned char (*keys)[HAND_KEY_BYTES]; /* keys of the index, in order */
    int *lengths;
} by_hand;

static sqlite3_stmt *hand_prepare(by_hand *hand, const char *sql)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(hand->db, sql, -1, &statement, NULL) != SQLITE_OK)
        bench_die("by hand: %s", sqlite3_errmsg(hand->db));
    return statement;
}

static void hand_open(by_hand *hand, const bench_run *run, bool find)
{
    static const char find_sql[] =
        "select v.id, v.data, v.last_position from view_index i cross join view v "
        "where i.generation = 1 and i.tenant = '' and i.idx = 0 and i.key >= ?1 "
        "and v.generation = i.generation and v.tenant = i.tenant and v.id = i.id "
        "order by i.key, i.id limit ?2";
    static const char get_sql[] = "select id, data, last_position from view "
                                  "where generation = 1 and tenant = '' and id = ?1";
    char path[BENCH_PATH_BYTES + 32];
    size_t count = 0;

    (void)snprintf(path, sizeof path, "%s/views.db", run->dir.path);
    if (sqlite3_open_v2(path, &hand->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        bench_die("by hand: %s", sqlite3_errmsg(hand->db));
    hand->keys = calloc((size_t)run->views, sizeof *hand->keys);
    hand->lengths = calloc((size_t)run->views, sizeof *hand->lengths);
    if (!hand->keys || !hand->lengths)
        bench_die("out of memory");
    sqlite3_stmt *all = hand_prepare(
        hand, "select key from view_index where generation = 1 and idx = 0 order by key");
    for (; find && count < (size_t)run->views && sqlite3_step(all) == SQLITE_ROW; count++) {
        hand->lengths[count] = sqlite3_column_bytes(all, 0);
        if (hand->lengths[count] > HAND_KEY_BYTES)
            bench_die("a key has %d bytes", hand->lengths[count]);
        memcpy(hand->keys[count], sqlite3_column_blob(all, 0), (size_t)hand->lengths[count]);
    }
    (void)sqlite3_finalize(all);
    if (find && count != (size_t)run->views)
        bench_die("%zu keys were found", count);
    hand->statement = hand_prepare(hand, find ? find_sql : get_sql);
}

static void hand_ask(by_hand *hand, const bench_run *run, bool find, uint64_t number)
{
    char text[64];
    int64_t rows = 0;

    if (find) {
        (void)sqlite3_bind_blob(hand->statement, 1, hand->keys[number], hand->lengths[number],
                                SQLITE_STATIC);
        (void)sqlite3_bind_int64(hand->statement, 2, run->limit);
    } else {
        (void)sqlite3_bind_text(hand->statement, 1, text, (int)bench_stream_name(text, number),
                                SQLITE_STATIC);
    }
    for (; sqlite3_step(hand->statement) == SQLITE_ROW; rows++)
        if (sqlite3_column_text(hand->statement, 1) == NULL)
            bench_die("a view has no data");
    (void)sqlite3_reset(hand->statement);
    if (rows != (find ? run->limit : 1))
        bench_die("%" PRId64 " rows were found", rows);
}

static void hand_close(by_hand *hand)
{
    (void)sqlite3_finalize(hand->statement);
    (void)sqlite3_close(hand->db);
    free(hand->keys);
    free(hand->lengths);
}

static void bench_ask(bench_run *run, bool find)
{
    by_hand hand = {0};
    int64_t calls = run->n;
    bench_rng rng = {(uint64_t)run->seed};
    bench_latency latency = {0};
    char name[128];

    if (run->views <= run->limit || run->limit < 1)
        bench_die("views must be more than limit, limit at least 1");
    run->indexed = 1;
    run->n = run->streams = run->views;
    prepare_apart(run, prepare_ask);
    open_journal(run);
    open_engine(run);
    if (run->hand)
        hand_open(&hand, run, find);

    double cpu = cpu_secs();
    uint64_t start = bench_now_ns();
    for (int64_t i = 0; i < calls; i++) {
        uint64_t number = bench_random_below(&rng, (uint64_t)(run->views - run->limit));
        uint64_t begun = bench_now_ns();
        if (run->hand)
            hand_ask(&hand, run, find, number);
        else
            ask_once(run, find, number);
        bench_latency_add(&latency, bench_now_ns() - begun);
    }
    double elapsed = bench_secs_since(start);
    (void)fprintf(stderr, "%.3f s of processor time\n", cpu_secs() - cpu);

    if (run->hand)
        hand_close(&hand);
    (void)snprintf(name, sizeof name, "%s views=%" PRId64 " limit=%" PRId64 " hand=%" PRId64,
                   find ? "find" : "get", run->views, find ? run->limit : 1, run->hand);
    bench_report("bench_views", name, (uint64_t)calls, elapsed, &latency);
    bench_latency_release(&latency);
    close_all(run);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool catch_up = strcmp(what, "catch_up") == 0, drain = strcmp(what, "drain") == 0;
    bool find = strcmp(what, "find") == 0, get = strcmp(what, "get") == 0;
    bool fan_out = strcmp(what, "fan_out") == 0;
    bench_run run = {.n = catch_up  ? 1000000
                          : drain   ? 100000
                          : fan_out ? 300
                                    : 20000,
                     .streams = 1000,
                     .batch = 1000,
                     .projections = 1,
                     .views = fan_out ? 1000 : 1000000,
                     .limit = 20,
                     .store = "sqlite",
                     .seed = 1};
    bench_setting settings[] = {
        {.key = "n", .number = &run.n},         {.key = "streams", .number = &run.streams},
        {.key = "batch", .number = &run.batch}, {.key = "projections", .number = &run.projections},
        {.key = "views", .number = &run.views}, {.key = "indexed", .number = &run.indexed},
        {.key = "limit", .number = &run.limit}, {.key = "seed", .number = &run.seed},
        {.key = "hand", .number = &run.hand},   {.key = "known", .number = &run.known},
        {.key = "any", .number = &run.any},     {.key = "keep", .text = &run.keep},
        {.key = "store", .text = &run.store}};

    if (strcmp(what, "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (!catch_up && !drain && !fan_out && !find && !get)
        bench_die("%s", usage);
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof *settings);
    if (strcmp(run.store, "sqlite") != 0 && strcmp(run.store, "lmdb") != 0)
        bench_die("store must be sqlite or lmdb, not %s", run.store);
    bench_dir_open(&run.dir, drain || fan_out ? NULL : run.keep);
    if (catch_up || drain)
        bench_fold(&run, drain);
    else if (fan_out)
        bench_fan_out(&run);
    else
        bench_ask(&run, find);
    bench_dir_close(&run.dir);
    return 0;
}
