/*
 * bench_support.h - what the bench programs share: the clock, the work, the latencies, the answer.
 *
 * floor and bench_journal take the work from here, so that both write the same bytes to the same
 * streams in the same order. These are programs, not the library: what goes wrong is printed and
 * ends the run with exit code 2.
 */
#ifndef BENCH_SUPPORT_H
#define BENCH_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_PAYLOAD_BYTES 250
#define BENCH_STREAM_BYTES 32
#define BENCH_ID_BYTES 32 /* a random or ordered id: 128 bits in hex */
#define BENCH_PATH_BYTES 4096
#define BENCH_TYPE "order.placed"
#define BENCH_META "{\"user\":\"u-42\",\"trace\":\"t-001\"}"

__attribute__((format(printf, 1, 2), noreturn)) void bench_die(const char *format, ...);

/* calloc that does not come back empty-handed. */
void *bench_alloc(size_t count, size_t bytes);

uint64_t bench_now_ns(void);
double bench_secs_since(uint64_t start_ns);
void bench_sleep_until(uint64_t ns); /* of bench_now_ns; returns at once when it is over */

/* A seeded generator (splitmix64): the same seed gives the same run. */
typedef struct bench_rng {
    uint64_t state;
} bench_rng;

uint64_t bench_random(bench_rng *rng);
uint64_t bench_random_below(bench_rng *rng, uint64_t limit);

/* The work. Each returns the length of what it wrote; nothing but the stream's name ends in NUL. */
size_t bench_stream_name(char out[BENCH_STREAM_BYTES], uint64_t stream);
size_t bench_payload(char out[BENCH_PAYLOAD_BYTES], uint64_t stream, uint64_t number);
size_t bench_id_random(char out[BENCH_ID_BYTES], bench_rng *rng);
/* Half time, half random. Grows from call to call, and from one run to the next. */
size_t bench_id_ordered(char out[BENCH_ID_BYTES], bench_rng *rng, uint64_t *last_ns);

/*
 * Which stream the next event goes to. The first `streams` events of a journal that is being
 * filled touch each stream once, so that all of them exist before anything is measured.
 */
typedef struct bench_picker {
    bench_rng rng;
    uint64_t streams;
    uint64_t untouched; /* streams that have yet to be made */
    uint64_t together;  /* events in a row that go to one stream; 0 is 1 */
    uint64_t picked, left;
} bench_picker;

uint64_t bench_pick(bench_picker *picker);

/* Settings of a run, KEY=VALUE on the command line. An unknown key ends the run. */
typedef struct bench_setting {
    const char *key;
    int64_t *number;   /* either a number that is not negative … */
    const char **text; /* … or text */
} bench_setting;

void bench_settings(int argc, char **argv, const bench_setting *settings, size_t count);

/* Latencies of single calls. */
typedef struct bench_latency {
    uint64_t *ns;
    size_t count;
    size_t room;
} bench_latency;

void bench_latency_add(bench_latency *latency, uint64_t ns);
void bench_latency_release(bench_latency *latency);

/* Processor time of the measured part, where a program sets it. */
extern double bench_cpu_secs;

/*
 * Print the result line and flush it: {"bench","case","rate","n","secs","p50_us","p99_us","max_us",
 * "rss_kb","cpu_secs"}. Sorts the latencies.
 */
void bench_report(const char *bench, const char *name, uint64_t n, double secs,
                  bench_latency *latency);

/*
 * Let `clients` threads call `once` over and over for `secs` seconds. The latencies of all calls
 * come together in `out`; returns the seconds from the first start to the last end.
 */
typedef void bench_once(void *context, bench_rng *rng);
double bench_clients_run(uint64_t clients, uint64_t secs, bench_once *once, void *context,
                         bench_latency *out);

/*
 * Where a run keeps its files: a fresh directory in BENCH_DIR (default: the current directory),
 * removed by bench_dir_close, or by exit before that. Under a name to keep it stays, for the next
 * run to go on with. One may be open at a time.
 */
typedef struct bench_dir {
    char path[BENCH_PATH_BYTES];
    bool kept;
} bench_dir;

void bench_dir_open(bench_dir *dir, const char *keep_name);
void bench_dir_close(bench_dir *dir);

/* The URL of a run's store ("journal", "views"): a file in the directory, or BENCH_POSTGRES. */
bool bench_on_postgres(void);
void bench_store_url(char *out, size_t size, const bench_dir *dir, const char *what);
/* VACUUM, ANALYZE and CHECKPOINT of BENCH_POSTGRES, as a server would have done by itself in the
 * minutes after a fill. */
void bench_settle_postgres(void);

/* Write an NDJSON file for `everfold event import`, with a random id on each line or none. */
void bench_write_lines(FILE *out, uint64_t lines, uint64_t streams, bool random_ids, uint64_t seed);

#endif
