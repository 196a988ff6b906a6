/*
 * bench_latency.c - latency from append to view in one process through the public API;
 * floor_latency.c does the same by hand.
 *
 * The main thread appends one event per call at a steady rate; the threads of the supervisor fold.
 * A latency is from before the append to after the step that folded the event: its view is on disk
 * and its row is acknowledged, which is a little more than in the floor.
 */
#include "bench_support.h"

#include <everfold/everfold.h>
#include <everfold/supervisor.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GIVE_UP_SECS 60

static const char usage[] =
    "usage: bench_latency [rate=1000] [secs=5] [streams=1000] [seed=1]\n"
    "\n"
    "Appends `rate` events a second, one a call, and measures how long each takes to its view.\n"
    "Prints one line of JSON. BENCH_DIR is the directory of the files.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp bench_latency secs=10\n";

static const char program[] = "projection orders version 1\n"
                              "  view stream\n"
                              "\n"
                              "on " BENCH_TYPE "\n"
                              "  orders += 1\n"
                              "  total += data.amount\n"
                              "  line = data.line\n"
                              "  sku = data.sku\n"
                              "  note = data.note\n";

typedef struct bench_run {
    int64_t rate, secs, streams, seed;
    int64_t count; /* total number of events */
    bench_dir dir;
    ef_journal *journal;
    ef_engine *engine;
    uint64_t *begun; /* per event, from 1 on */
    _Atomic int64_t folded;
    bench_latency latency;
} bench_run;

static void check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s: %s", what, ef_status_describe(status)->name, err->text);
}

/* There is one worker, so events are folded in position order. */
static void note_step(void *context, const char *task, const ef_tick *tick, const ef_error *error)
{
    bench_run *run = context;
    uint64_t now = bench_now_ns();
    int64_t folded = atomic_load(&run->folded);

    if (error || tick->failed)
        bench_die("%s: %s", task, error ? error->text : "an event failed");
    if (strcmp(task, "queue") != 0)
        return;
    for (int64_t i = 0; i < tick->applied; i++)
        bench_latency_add(&run->latency, now - run->begun[++folded]);
    atomic_store(&run->folded, folded);
}

static void open_all(bench_run *run)
{
    char journal[BENCH_PATH_BYTES + 32], views[BENCH_PATH_BYTES + 32];
    ef_projection_list list = {0};
    ef_text report = {0};
    ef_error err = EF_ERROR_INIT;
    ef_tick tick = {.more = true};

    bench_store_url(journal, sizeof journal, &run->dir, "journal");
    bench_store_url(views, sizeof views, &run->dir, "views");
    check(
        ef_journal_open(&(ef_journal_options){.url = journal, .create = true}, &run->journal, &err),
        "journal", &err);
    check(ef_engine_open(
              &(ef_engine_options){.journal = run->journal, .views_url = views, .create = true},
              &run->engine, &err),
          "engine", &err);
    check(ef_projection_deploy(
              run->engine, &(ef_deploy){.file_name = "bench.fold", .text = ef_str_from(program)},
              &list, &report, &err),
          "deploy", &err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
    while (tick.more)
        check(ef_engine_work(run->engine, NULL, &tick, &err), "work", &err);
}

static void append_all(bench_run *run)
{
    bench_rng rng = {(uint64_t)run->seed};
    uint64_t start = bench_now_ns();
    ef_error err = EF_ERROR_INIT;
    ef_place place;

    for (int64_t i = 1; i <= run->count; i++) {
        char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
        uint64_t stream = bench_random_below(&rng, (uint64_t)run->streams);
        ef_new_event event = {.stream = {name, bench_stream_name(name, stream)},
                              .type = EF_STR(BENCH_TYPE),
                              .data = {data, bench_payload(data, stream, (uint64_t)i)},
                              .meta = EF_STR(BENCH_META)};
        bench_sleep_until(start + (uint64_t)i * 1000000000 / (uint64_t)run->rate);
        run->begun[i] = bench_now_ns();
        check(ef_engine_append(run->engine, &event, 1, &place, &err), "append", &err);
    }
}

int main(int argc, char **argv)
{
    bench_run run = {.rate = 1000, .secs = 5, .streams = 1000, .seed = 1};
    bench_setting settings[] = {{.key = "rate", .number = &run.rate},
                                {.key = "secs", .number = &run.secs},
                                {.key = "streams", .number = &run.streams},
                                {.key = "seed", .number = &run.seed}};
    ef_supervisor *supervisor;
    ef_error err = EF_ERROR_INIT;
    char name[96];

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    bench_settings(argc - 1, argv + 1, settings, sizeof settings / sizeof *settings);
    if (run.rate < 1 || run.secs < 1 || run.streams < 1)
        bench_die("rate, secs and streams must be at least 1");
    run.count = run.rate * run.secs;
    run.begun = bench_alloc((size_t)run.count + 1, sizeof *run.begun);
    bench_dir_open(&run.dir, NULL);
    open_all(&run);
    check(ef_supervisor_start(
              &(ef_supervisor_options){.engine = run.engine, .on_step = note_step, .context = &run},
              &supervisor, &err),
          "supervisor", &err);

    uint64_t start = bench_now_ns();
    append_all(&run);
    while (atomic_load(&run.folded) < run.count) {
        if (bench_secs_since(start) > (double)run.secs + GIVE_UP_SECS)
            bench_die("%" PRId64 " of %" PRId64 " events were folded", run.folded, run.count);
        bench_sleep_until(bench_now_ns() + 1000000);
    }
    double elapsed = bench_secs_since(start);

    ef_supervisor_stop(supervisor);
    (void)snprintf(name, sizeof name, "latency rate=%" PRId64 " streams=%" PRId64, run.rate,
                   run.streams);
    bench_report("bench_latency", name, (uint64_t)run.count, elapsed, &run.latency);
    bench_latency_release(&run.latency);
    ef_engine_close(run.engine);
    ef_journal_close(run.journal);
    free(run.begun);
    bench_dir_close(&run.dir);
    return 0;
}
