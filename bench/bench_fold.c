/*
 * bench_fold.c - rate of folding: from event bytes to changed views in memory, without a store.
 *
 * bench_fold [n=EVENTS] [views=N] [batch=N]
 *
 * Events have about 250 bytes; the program has a counter, an exact sum and a capped list. Measured
 * is the processor time from the bytes of an event to the bytes of the changed views: the rate of
 * one core, independent of other load. Latencies are those of whole batches, on the wall clock.
 */
#include "bench_support.h"

#include "../src/fold/folder.h"

#include <stdlib.h>
#include <time.h>

enum { DISTINCT = 4096, TEXT_MAX = 512 };

static const char program_text[] = "projection customer_orders version 1\n"
                                   "  view data.customer_id\n"
                                   "\n"
                                   "on order.placed\n"
                                   "  orders += 1\n"
                                   "  total += data.amount\n"
                                   "  recent push { id: data.order_id, at: time } keep 10\n";

typedef struct work {
    int64_t n;
    int64_t views;
    int64_t batch;
    char texts[DISTINCT][TEXT_MAX];
    ef_event events[DISTINCT];
} work;

static double processor_secs(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void make_events(work *w)
{
    for (int i = 0; i < DISTINCT; i++) {
        int len = snprintf(
            w->texts[i], TEXT_MAX,
            "{\"order_id\":\"order-%08d\",\"customer_id\":\"customer-%06d\",\"amount\":%d.%02d,"
            "\"currency\":\"EUR\",\"channel\":\"web\",\"note\":\"a few words that a customer has "
            "left with the order, as they do\",\"lines\":[{\"sku\":\"sku-%d\",\"qty\":2},"
            "{\"sku\":\"sku-%d\",\"qty\":1}],\"country\":\"DE\"}",
            i, (int)(i * 7919 % w->views), i % 400, i % 100, i % 97, i % 89);
        w->events[i] = (ef_event){.stream = EF_STR("order-1"),
                                  .type = EF_STR("order.placed"),
                                  .schema = 1,
                                  .time_us = INT64_C(1789000000000000) + i,
                                  .data = {w->texts[i], (size_t)len},
                                  .meta = EF_STR("{}")};
    }
}

/* Encodes the views as for a store; each has at least its counter. */
static void write_views(ef__folder *folder)
{
    ef_error err = EF_ERROR_INIT;
    ef__folded_view view;

    for (size_t at = 0;;) {
        if (ef__folder_next(folder, &at, &view, &err) != EF_OK)
            bench_die("%s", err.text);
        if (view.view_id.len == 0)
            break;
        if (view.data.len < sizeof("{\"orders\":1}") - 1)
            bench_die("view %.*s is too short", EF_STR_ARG(view.view_id));
    }
    ef__folder_settle(folder);
}

static void run(ef__folder *folder, work *w, int64_t count, bench_latency *latency)
{
    ef__outcome outcome;
    ef_error err = EF_ERROR_INIT;
    uint64_t start_ns = bench_now_ns();

    for (int64_t i = 0; i < count; i++) {
        ef_event *event = &w->events[i % DISTINCT];
        event->seq = event->position = i + 1;
        if (ef__folder_apply(folder, event, &outcome, &err) != EF_OK)
            bench_die("%s", err.text);
        if (outcome.result != EF__FOLD_APPLIED)
            bench_die("event %lld: %s", (long long)i, outcome.error.text);
        if ((i + 1) % w->batch && i + 1 < count)
            continue;
        write_views(folder);
        bench_latency_add(latency, bench_now_ns() - start_ns);
        start_ns = bench_now_ns();
    }
}

int main(int argc, char **argv)
{
    static ef__diagnostics diagnostics;
    work *w = bench_alloc(1, sizeof(*w));
    bench_latency latency = {0};
    ef_error err = EF_ERROR_INIT;
    ef__program *program = NULL;
    ef__folder *folder = NULL;

    w->n = 3000000;
    w->views = 1000;
    w->batch = 10000;
    const bench_setting settings[] = {
        {"n", &w->n, NULL}, {"views", &w->views, NULL}, {"batch", &w->batch, NULL}};
    bench_settings(argc - 1, argv + 1, settings, sizeof(settings) / sizeof(settings[0]));
    if (w->n == 0 || w->views == 0 || w->batch == 0)
        bench_die("n, views and batch must be at least 1");
    make_events(w);
    if (ef__program_compile(EF_STR("bench.fold"), ef_str_from(program_text), &program, &diagnostics,
                            &err) != EF_OK)
        bench_die("%s", err.text);
    ef__folder_options options = {.program = program};
    if (ef__folder_open(&options, &folder, &err) != EF_OK)
        bench_die("%s", err.text);
    run(folder, w, DISTINCT, &latency); /* warm-up: creates every view */
    latency.count = 0;
    double start_secs = processor_secs();
    run(folder, w, w->n, &latency);
    bench_report("bench_fold", "fold", (uint64_t)w->n, processor_secs() - start_secs, &latency);
    bench_latency_release(&latency);
    ef__folder_close(folder);
    ef__program_close(program);
    free(w);
    return 0;
}
