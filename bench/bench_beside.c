/*
 * bench_beside.c - latency of live work during a rebuild, and the rate of the rebuild.
 *
 * The process runs workers as `everfold work` does. Events are appended at a rate; for a sample of
 * them the time from the call of append to the view that shows the event is measured.
 */
#include "bench_support.h"

#include <everfold/everfold.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILL_BATCH 5000

static const char usage[] =
    "usage: bench_beside [n=500000] [streams=1000] [rate=1000] [secs=10] [rebuild=1] [lag=100]\n"
    "\n"
    "Fills a journal with n events, then appends `rate` events a second for `secs` seconds, "
    "beside\n"
    "a rebuild unless rebuild=0; rate=0 rebuilds without live work, to its end. lag is the live "
    "lag\n"
    "objective in milliseconds. Prints a line of JSON with the latency from append to view, and\n"
    "one with the rate of the rebuild. BENCH_DIR is the directory of the files.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp bench_beside secs=20\n";

typedef struct beside {
    int64_t n, streams, rate, secs, rebuild, lag, seed;
    bench_dir dir;
    ef_journal *journal;
    ef_engine *engine;
    ef_supervisor *supervisor;
    char run[64];
    /* of the watcher thread */
    pthread_t watcher;
    _Atomic bool over;
    _Atomic int64_t watched; /* position that is awaited; 0: the watcher is free */
    uint64_t stream, begun_ns;
    bench_latency latency;
} beside;

static void check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s: %s", what, ef_status_describe(status)->name, err->text);
}

static void sleep_ms(int64_t us)
{
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    (void)nanosleep(&time, NULL);
}

/* --- setup, not timed ------------------------------------------------------------------ */

static void open_journal(beside *b, bool queued)
{
    char url[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;

    (void)snprintf(url, sizeof url, "sqlite:%s/journal.db", b->dir.path);
    check(ef_journal_open(&(ef_journal_options){.url = url, .create = true, .outbox_off = !queued},
                          &b->journal, &err),
          "journal", &err);
}

static void append_one(beside *b, uint64_t stream, uint64_t number, ef_place *out)
{
    char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
    ef_error err = EF_ERROR_INIT;
    ef_new_event event = {.stream = {name, bench_stream_name(name, stream)},
                          .type = EF_STR(BENCH_TYPE),
                          .data = {data, bench_payload(data, stream, number)}};

    check(ef_journal_append(b->journal, &event, 1, out, &err), "append", &err);
}

static void fill(beside *b)
{
    ef_new_event *events = bench_alloc(FILL_BATCH, sizeof *events);
    ef_place *places = bench_alloc(FILL_BATCH, sizeof *places);
    char(*names)[BENCH_STREAM_BYTES] = bench_alloc(FILL_BATCH, sizeof *names);
    char(*data)[BENCH_PAYLOAD_BYTES] = bench_alloc(FILL_BATCH, sizeof *data);
    ef_error err = EF_ERROR_INIT;

    for (int64_t done = 0; done < b->n;) {
        size_t count = 0;
        for (; count < FILL_BATCH && done < b->n; count++, done++) {
            uint64_t stream = (uint64_t)(done % b->streams);
            events[count] = (ef_new_event){
                .stream = {names[count], bench_stream_name(names[count], stream)},
                .type = EF_STR(BENCH_TYPE),
                .data = {data[count], bench_payload(data[count], stream, (uint64_t)done)}};
        }
        check(ef_journal_append(b->journal, events, count, places, &err), "append", &err);
    }
    free(events);
    free(places);
    free(names);
    free(data);
}

static void deploy(beside *b)
{
    static const char TEXT[] = "projection orders version 1\n"
                               "  view stream\n"
                               "\n"
                               "on " BENCH_TYPE "\n"
                               "  orders += 1\n"
                               "  total += data.amount\n"
                               "  note = data.note\n";
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};
    ef_text report = {0};
    ef_tick tick = {.more = true};

    check(ef_projection_deploy(b->engine,
                               &(ef_deploy){.file_name = "bench.fold", .text = ef_str_from(TEXT)},
                               &list, &report, &err),
          "deploy", &err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
    while (tick.more)
        check(ef_engine_work(b->engine, NULL, &tick, &err), "work", &err);
}

static void prepare(beside *b)
{
    char url[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;

    open_journal(b, false); /* no backlog yet */
    fill(b);
    ef_journal_close(b->journal);
    open_journal(b, true);
    (void)snprintf(url, sizeof url, "sqlite:%s/views.db", b->dir.path);
    check(ef_engine_open(
              &(ef_engine_options){
                  .journal = b->journal, .views_url = url, .create = true, .live_lag_ms = b->lag},
              &b->engine, &err),
          "engine", &err);
    deploy(b);
    check(ef_supervisor_start(&(ef_supervisor_options){.engine = b->engine}, &b->supervisor, &err),
          "supervisor", &err);
    sleep_ms(500000);
}

/* --- live work -------------------------------------------------------------------------------- */

static bool is_in_view(beside *b, int64_t position)
{
    char name[BENCH_STREAM_BYTES];
    ef_str id = {name, bench_stream_name(name, b->stream)};
    ef_view_list views = {0};
    ef_error err = EF_ERROR_INIT;
    bool shown;

    check(ef_view_get(b->engine, EF_STR("orders"), EF_STR(""), id, NULL, &views, &err), "view",
          &err);
    shown = views.items[0].last_event_sequence >= position;
    EF_RELEASE(&views);
    return shown;
}

static void *watch_views(void *context)
{
    beside *b = context;

    while (!atomic_load(&b->over)) {
        int64_t position = atomic_load(&b->watched);
        if (position && is_in_view(b, position)) {
            bench_latency_add(&b->latency, bench_now_ns() - b->begun_ns);
            atomic_store(&b->watched, 0);
        }
        sleep_ms(position ? 300 : 2000);
    }
    return NULL;
}

static void append_live(beside *b)
{
    bench_rng rng = {(uint64_t)b->seed};
    uint64_t start_ns = bench_now_ns(), every_ns = 1000000000u / (uint64_t)b->rate;
    int64_t events = b->rate * b->secs;

    for (int64_t i = 0; i < events; i++) {
        uint64_t due_ns = start_ns + (uint64_t)i * every_ns, now_ns = bench_now_ns();
        uint64_t stream = bench_random_below(&rng, (uint64_t)b->streams);
        ef_place place;
        if (now_ns < due_ns)
            sleep_ms((int64_t)(due_ns - now_ns) / 1000);
        now_ns = bench_now_ns();
        append_one(b, stream, (uint64_t)(b->n + i), &place);
        if (atomic_load(&b->watched) == 0) {
            b->stream = stream;
            b->begun_ns = now_ns;
            atomic_store(&b->watched, place.position);
        }
    }
}

/* --- rebuild ------------------------------------------------------------------------------ */

static void file_rebuild(beside *b)
{
    ef_run_list runs = {0};
    ef_error err = EF_ERROR_INIT;

    check(ef_projection_rebuild(b->engine, &(ef_rebuild){.projection = EF_STR("orders")}, &runs,
                                &err),
          "rebuild", &err);
    (void)snprintf(b->run, sizeof b->run, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
}

/* Events that the rebuild has folded, and whether it has ended. */
static int64_t rebuild_progress(beside *b, bool *out_over)
{
    ef_run_list runs = {0};
    ef_error err = EF_ERROR_INIT;
    int64_t processed;
    ef_str id = ef_str_from(b->run);

    check(ef_run_ls(b->journal, &(ef_run_query){.id = &id}, &runs, &err), "run", &err);
    processed = runs.items[0].processed;
    *out_over = runs.items[0].state == EF_RUN_COMPLETED;
    if (runs.items[0].state == EF_RUN_FAILED)
        bench_die("rebuild failed: %.*s", EF_STR_ARG(runs.items[0].error));
    EF_RELEASE(&runs);
    return processed;
}

static void report(beside *b, double secs, double rebuild_secs, int64_t processed)
{
    bench_latency none = {0};
    char name[160];

    (void)snprintf(name, sizeof name, "rate=%" PRId64 " rebuild=%" PRId64 " lag=%" PRId64, b->rate,
                   b->rebuild, b->lag);
    if (b->rate)
        bench_report("append_to_view", name, (uint64_t)(b->rate * b->secs), secs, &b->latency);
    if (b->rebuild)
        bench_report("rebuild_beside", name, (uint64_t)processed, rebuild_secs, &none);
    bench_latency_release(&b->latency);
}

static double cpu_secs(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run(beside *b)
{
    double secs = 0, rebuild_secs = 0, cpu = cpu_secs();
    uint64_t start_ns = bench_now_ns();
    int64_t processed = 0;
    bool over = false;

    if (b->rebuild)
        file_rebuild(b);
    if (b->rate) {
        if (pthread_create(&b->watcher, NULL, watch_views, b) != 0)
            bench_die("the watcher thread could not be started");
        append_live(b);
        secs = bench_secs_since(start_ns);
        atomic_store(&b->over, true);
        (void)pthread_join(b->watcher, NULL);
    }
    if (b->rebuild)
        processed = rebuild_progress(b, &over);
    while (b->rebuild && !b->rate && !over) {
        sleep_ms(5000);
        processed = rebuild_progress(b, &over);
    }
    rebuild_secs = bench_secs_since(start_ns);
    (void)fprintf(stderr, "%.3f s of processor time in %.3f s\n", cpu_secs() - cpu, rebuild_secs);
    report(b, secs, rebuild_secs, processed);
}

int main(int argc, char **argv)
{
    beside b = {.n = 500000,
                .streams = 1000,
                .rate = 1000,
                .secs = 10,
                .rebuild = 1,
                .lag = 100,
                .seed = 1};
    bench_setting settings[] = {
        {.key = "n", .number = &b.n},       {.key = "streams", .number = &b.streams},
        {.key = "rate", .number = &b.rate}, {.key = "secs", .number = &b.secs},
        {.key = "lag", .number = &b.lag},   {.key = "rebuild", .number = &b.rebuild},
        {.key = "seed", .number = &b.seed}};

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    bench_settings(argc - 1, argv + 1, settings, sizeof settings / sizeof *settings);
    if (b.streams < 1 || b.n < b.streams || b.rate > 1000000)
        bench_die("n must be at least streams, rate at most 1000000");
    bench_dir_open(&b.dir, NULL);
    prepare(&b);
    run(&b);
    ef_supervisor_stop(b.supervisor);
    ef_engine_close(b.engine);
    ef_journal_close(b.journal);
    bench_dir_close(&b.dir);
    return 0;
}
