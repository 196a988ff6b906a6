/*
 * bench_fill.h - filling a journal before the clock starts, by the public call.
 */
#ifndef BENCH_FILL_H
#define BENCH_FILL_H

#include <everfold/everfold.h>

/* `n` events of `streams`; the first `untouched` of them make a stream each. */
void bench_fill(ef_journal *journal, int64_t n, int64_t streams, int64_t untouched, int64_t seed);
void bench_check(ef_status status, const char *what, const ef_error *err);

#endif
