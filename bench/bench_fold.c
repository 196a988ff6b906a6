/*
 * bench_fold.c - how fast a program folds: event bytes in, views kept decoded, written once a
 * batch.
 *
 *     bench_fold [events] [views]
 *
 * Events of about 250 bytes; a counter, an exact sum and a capped list; batches of 1,000. What is
 * measured is everything from the bytes of an event to the bytes of the changed views, and nothing
 * of a store.
 */
#include "../src/fold/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 1000, DISTINCT = 4096, TEXT_MAX = 512 };

static const char program_text[] = "projection customer_orders version 1\n"
                                   "  view data.customer_id\n"
                                   "\n"
                                   "on order.placed\n"
                                   "  orders += 1\n"
                                   "  total += data.amount\n"
                                   "  recent push { id: data.order_id, at: time } keep 10\n";

typedef struct bench {
    char texts[DISTINCT][TEXT_MAX];
    ef_event events[DISTINCT];
} bench;

/* Processor time: "on one core", whoever else is at work on the machine. */
static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void make_events(bench *b, int views)
{
    for (int i = 0; i < DISTINCT; i++) {
        int len = snprintf(
            b->texts[i], TEXT_MAX,
            "{\"order_id\":\"order-%08d\",\"customer_id\":\"customer-%06d\",\"amount\":%d.%02d,"
            "\"currency\":\"EUR\",\"channel\":\"web\",\"note\":\"a few words that a customer has "
            "left with the order, as they do\",\"lines\":[{\"sku\":\"sku-%d\",\"qty\":2},"
            "{\"sku\":\"sku-%d\",\"qty\":1}],\"country\":\"DE\"}",
            i, i * 7919 % views, i % 400, i % 100, i % 97, i % 89);
        b->events[i] = (ef_event){.stream = EF_STR("order-1"),
                                  .type = EF_STR("order.placed"),
                                  .schema = 1,
                                  .time_us = INT64_C(1789000000000000) + i,
                                  .data = {b->texts[i], (size_t)len},
                                  .meta = EF_STR("{}")};
    }
}

static ef_status write_views(ef__folder *folder, size_t *bytes, ef_error *err)
{
    ef__folded_view view;
    ef_status st = EF_OK;

    for (size_t at = 0; st == EF_OK;) {
        st = ef__folder_next(folder, &at, &view, err);
        if (st != EF_OK || view.view_id.len == 0)
            break;
        *bytes += view.data.len;
    }
    ef__folder_settle(folder);
    return st;
}

static ef_status run(ef__folder *folder, bench *b, long count, size_t *bytes, ef_error *err)
{
    ef__outcome outcome;
    ef_status st = EF_OK;

    for (long i = 0; i < count && st == EF_OK; i++) {
        ef_event *event = &b->events[i % DISTINCT];
        event->seq = event->position = i + 1;
        st = ef__folder_apply(folder, event, &outcome, err);
        if (st == EF_OK && outcome.result != EF__FOLD_APPLIED)
            st = ef_fail(err, EF_BAD_INPUT, "event %ld: %s", i, outcome.error.text);
        if (st == EF_OK && (i + 1) % BATCH == 0)
            st = write_views(folder, bytes, err);
    }
    return st;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 3000000;
    long views = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
    static ef__diagnostics diagnostics;
    ef_error err = EF_ERROR_INIT;
    ef__program *program = NULL;
    ef__folder *folder = NULL;
    bench *b = calloc(1, sizeof(*b));
    size_t bytes = 0;

    if (!b || count < 1 || views < 1)
        return 2;
    make_events(b, (int)views);
    ef_status st = ef__program_compile(EF_STR("bench.fold"), ef_str_from(program_text), &program,
                                       &diagnostics, &err);
    ef__folder_options options = {.program = program};
    if (st == EF_OK)
        st = ef__folder_open(&options, &folder, &err);
    if (st == EF_OK)
        st = run(folder, b, DISTINCT, &bytes, &err); /* warm up */
    bytes = 0;
    double start = now_s();
    if (st == EF_OK)
        st = run(folder, b, count, &bytes, &err);
    double took_s = now_s() - start;
    if (st == EF_OK)
        printf("fold: %.0f events/s (%ld events of %zu bytes, %ld views, batches of %d, "
               "%.1f MB of views written, %.1f MB held)\n",
               (double)count / took_s, count, b->events[0].data.len, views, BATCH,
               (double)bytes / 1e6, (double)ef__folder_bytes(folder) / 1e6);
    else
        fprintf(stderr, "bench_fold: %s\n", err.text);
    ef__folder_close(folder);
    ef__program_close(program);
    free(b);
    return st == EF_OK ? 0 : 1;
}
