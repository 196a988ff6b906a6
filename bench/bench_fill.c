/*
 * bench_fill.c - see bench_fill.h.
 */
#include "bench_fill.h"

#include "bench_support.h"

#include <stdlib.h>

#define FILL_BATCH 5000

typedef struct event_text {
    char stream[BENCH_STREAM_BYTES];
    char data[BENCH_PAYLOAD_BYTES];
} event_text;

void bench_check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s: %s", what, ef_status_describe(status)->name, err->text);
}

void bench_fill(ef_journal *journal, int64_t n, int64_t streams, int64_t untouched, int64_t seed)
{
    bench_picker picker = {
        .rng = {(uint64_t)seed}, .streams = (uint64_t)streams, .untouched = (uint64_t)untouched};
    ef_new_event *events = bench_alloc(FILL_BATCH, sizeof *events);
    event_text *texts = bench_alloc(FILL_BATCH, sizeof *texts);
    ef_place *places = bench_alloc(FILL_BATCH, sizeof *places);
    ef_error err = EF_ERROR_INIT;

    for (int64_t done = 0; done < n;) {
        size_t count = 0;
        for (; count < FILL_BATCH && done < n; count++, done++) {
            event_text *t = &texts[count];
            uint64_t stream = bench_pick(&picker);
            events[count] =
                (ef_new_event){.stream = {t->stream, bench_stream_name(t->stream, stream)},
                               .type = EF_STR(BENCH_TYPE),
                               .data = {t->data, bench_payload(t->data, stream, (uint64_t)done)},
                               .meta = EF_STR(BENCH_META)};
        }
        bench_check(ef_journal_append(journal, events, count, places, &err), "append", &err);
    }
    free(events);
    free(texts);
    free(places);
}
