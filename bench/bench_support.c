/*
 * bench_support.c - see the header.
 */
#include "bench_support.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void bench_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(2);
}

void *bench_alloc(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);

    if (memory == NULL)
        bench_die("out of memory: %zu times %zu bytes", count, bytes);
    return memory;
}

/* Clock and random numbers */

uint64_t bench_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double bench_secs_since(uint64_t start_ns)
{
    return (double)(bench_now_ns() - start_ns) / 1e9;
}

void bench_sleep_until(uint64_t ns)
{
    struct timespec until = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

uint64_t bench_random(bench_rng *rng)
{
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The upper half of a product: as even as a modulus for limits this small, and cheaper. */
uint64_t bench_random_below(bench_rng *rng, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)bench_random(rng) * limit) >> 64);
}

uint64_t bench_pick(bench_picker *picker)
{
    if (picker->untouched > 0)
        return --picker->untouched;
    if (picker->left == 0) {
        picker->picked = bench_random_below(&picker->rng, picker->streams);
        picker->left = picker->together ? picker->together : 1;
    }
    picker->left--;
    return picker->picked;
}

/* Events */

size_t bench_stream_name(char out[BENCH_STREAM_BYTES], uint64_t stream)
{
    return (size_t)snprintf(out, BENCH_STREAM_BYTES, "order-%08" PRIu64, stream);
}

size_t bench_payload(char out[BENCH_PAYLOAD_BYTES], uint64_t stream, uint64_t number)
{
    static const char filler[] = "left at the door of the neighbour who waters the plants, as was "
                                 "asked for on the phone; the bell does not ring, so please knock "
                                 "twice and wait, the dog is old and friendly and takes its time "
                                 "to come down the stairs; thank you very much, see you";
    char text[BENCH_PAYLOAD_BYTES + 1];
    int head = snprintf(text, sizeof text,
                        "{\"order\":%" PRIu64 ",\"line\":%" PRIu64 ",\"sku\":\"SKU-%04u\","
                        "\"count\":%u,\"amount\":%u.%02u,\"currency\":\"EUR\",\"note\":\"",
                        stream, number, (unsigned)(number % 10000), (unsigned)(1 + number % 9),
                        (unsigned)(number * 37 % 900), (unsigned)(number % 100));

    memcpy(out, text, (size_t)head);
    memcpy(out + head, filler, BENCH_PAYLOAD_BYTES - 2 - (size_t)head);
    memcpy(out + BENCH_PAYLOAD_BYTES - 2, "\"}", 2);
    return BENCH_PAYLOAD_BYTES;
}

static void write_hex(char out[16], uint64_t value)
{
    for (int i = 15; i >= 0; i--, value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
}

size_t bench_id_random(char out[BENCH_ID_BYTES], bench_rng *rng)
{
    write_hex(out, bench_random(rng));
    write_hex(out + 16, bench_random(rng));
    return BENCH_ID_BYTES;
}

size_t bench_id_ordered(char out[BENCH_ID_BYTES], bench_rng *rng, uint64_t *last_ns)
{
    struct timespec now;
    uint64_t ns;

    /* Uses the wall clock, because the next process continues a kept journal. If it stands still or
     * goes back, the time of the last id is incremented. */
    (void)clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (ns <= *last_ns)
        ns = *last_ns + 1;
    *last_ns = ns;
    write_hex(out, ns);
    write_hex(out + 16, bench_random(rng));
    return BENCH_ID_BYTES;
}

void bench_write_lines(FILE *out, uint64_t lines, uint64_t streams, bool random_ids, uint64_t seed)
{
    bench_picker picker = {.rng = {seed}, .streams = streams};
    bench_rng ids = {~seed};
    char stream[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES], id[BENCH_ID_BYTES];

    for (uint64_t i = 0; i < lines; i++) {
        uint64_t picked = bench_pick(&picker);
        (void)bench_stream_name(stream, picked);
        (void)bench_payload(data, picked, i);
        (void)fprintf(out, "{\"stream\":\"%s\",\"type\":\"" BENCH_TYPE "\",", stream);
        if (random_ids) {
            (void)bench_id_random(id, &ids);
            (void)fprintf(out, "\"id\":\"%.*s\",", BENCH_ID_BYTES, id);
        }
        (void)fprintf(out, "\"data\":%.*s,\"meta\":" BENCH_META "}\n", BENCH_PAYLOAD_BYTES, data);
    }
    if (fflush(out) != 0 || ferror(out))
        bench_die("writing the lines failed: %s", strerror(errno));
}

/* Settings */

static const bench_setting *find_setting(const char *arg, const bench_setting *settings,
                                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(settings[i].key);
        if (strncmp(arg, settings[i].key, length) == 0 && arg[length] == '=')
            return &settings[i];
    }
    bench_die("'%s' is not a parameter of this case; see --help", arg);
}

static int64_t parse_number(const char *arg, const char *text)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0)
        bench_die("'%s': must be a number of at least 0", arg);
    return value;
}

void bench_settings(int argc, char **argv, const bench_setting *settings, size_t count)
{
    for (int i = 0; i < argc; i++) {
        const bench_setting *setting = find_setting(argv[i], settings, count);
        const char *value = argv[i] + strlen(setting->key) + 1;
        if (setting->text != NULL)
            *setting->text = value;
        else
            *setting->number = parse_number(argv[i], value);
    }
}

/* Latencies and the result line */

void bench_latency_add(bench_latency *latency, uint64_t ns)
{
    if (latency->count == latency->room) {
        size_t room = latency->room ? latency->room * 2 : 4096;
        uint64_t *grown = realloc(latency->ns, room * sizeof *grown);
        if (grown == NULL)
            bench_die("out of memory for %zu latencies", room);
        latency->ns = grown;
        latency->room = room;
    }
    latency->ns[latency->count++] = ns;
}

void bench_latency_release(bench_latency *latency)
{
    free(latency->ns);
    *latency = (bench_latency){0};
}

static int compare_ns(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* The smallest latency that `per_mille` of the calls did not exceed. */
static double percentile_us(const bench_latency *sorted, size_t per_mille)
{
    size_t rank;

    if (sorted->count == 0)
        return 0;
    rank = (sorted->count * per_mille + 999) / 1000;
    return (double)sorted->ns[rank > 0 ? rank - 1 : 0] / 1e3;
}

/* VmHWM instead of ru_maxrss, which survives exec and would show the peak of the script. */
static long peak_rss_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");

    if (status == NULL)
        return 0;
    while (kb == 0 && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    }
    (void)fclose(status);
    return kb;
}

double bench_cpu_secs;

void bench_report(const char *bench, const char *name, uint64_t n, double secs,
                  bench_latency *latency)
{
    long rss_kb = peak_rss_kb();

    if (latency->count > 0)
        qsort(latency->ns, latency->count, sizeof *latency->ns, compare_ns);
    (void)printf(
        "{\"bench\":\"%s\",\"case\":\"%s\",\"rate\":%.1f,\"n\":%" PRIu64 ",\"secs\":%.3f,"
        "\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"rss_kb\":%ld,\"cpu_secs\":%.3f}\n",
        bench, name, secs > 0 ? (double)n / secs : 0, n, secs, percentile_us(latency, 500),
        percentile_us(latency, 990), percentile_us(latency, 1000), rss_kb, bench_cpu_secs);
    if (fflush(stdout) != 0)
        bench_die("writing the result failed: %s", strerror(errno));
}

/* Clients */

typedef struct client {
    pthread_t thread;
    bench_rng rng;
    bench_once *once;
    void *context;
    atomic_bool *stop;
    bench_latency latency;
} client;

static void *run_client(void *argument)
{
    client *self = argument;

    while (!atomic_load_explicit(self->stop, memory_order_relaxed)) {
        uint64_t start = bench_now_ns();
        self->once(self->context, &self->rng);
        bench_latency_add(&self->latency, bench_now_ns() - start);
    }
    return NULL;
}

static void sleep_secs(uint64_t secs)
{
    struct timespec left = {.tv_sec = (time_t)secs};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

double bench_clients_run(uint64_t clients, uint64_t secs, bench_once *once, void *context,
                         bench_latency *out)
{
    client *all = bench_alloc(clients, sizeof *all);
    atomic_bool stop = false;
    uint64_t start = bench_now_ns();
    double elapsed;

    for (uint64_t i = 0; i < clients; i++) {
        all[i] = (client){.rng = {i + 1}, .once = once, .context = context, .stop = &stop};
        if (pthread_create(&all[i].thread, NULL, run_client, &all[i]) != 0)
            bench_die("client %" PRIu64 " could not be started", i);
    }
    sleep_secs(secs);
    atomic_store(&stop, true);
    for (uint64_t i = 0; i < clients; i++)
        (void)pthread_join(all[i].thread, NULL);
    elapsed = bench_secs_since(start);

    for (uint64_t i = 0; i < clients; i++) {
        for (size_t j = 0; j < all[i].latency.count; j++)
            bench_latency_add(out, all[i].latency.ns[j]);
        bench_latency_release(&all[i].latency);
    }
    free(all);
    return elapsed;
}

/* Directories */

static bench_dir *open_dir; /* removed at exit, so that a failed run leaves nothing */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static void remove_open_dir(void)
{
    if (open_dir != NULL)
        bench_dir_close(open_dir);
}

void bench_dir_open(bench_dir *dir, const char *keep_name)
{
    const char *parent = getenv("BENCH_DIR");
    int length;

    dir->kept = keep_name != NULL && *keep_name != '\0';
    if (parent == NULL || *parent == '\0')
        parent = ".";
    length = snprintf(dir->path, sizeof dir->path, "%s/%s", parent,
                      dir->kept ? keep_name : "bench-XXXXXX");
    if (length < 0 || (size_t)length >= sizeof dir->path)
        bench_die("BENCH_DIR is too long");
    if (dir->kept ? (mkdir(dir->path, 0777) != 0 && errno != EEXIST) : mkdtemp(dir->path) == NULL)
        bench_die("%s could not be created: %s", dir->path, strerror(errno));
    open_dir = dir;
    if (atexit(remove_open_dir) != 0)
        bench_die("out of memory");
}

void bench_dir_close(bench_dir *dir)
{
    open_dir = NULL;
    if (!dir->kept && nftw(dir->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        (void)fprintf(stderr, "%s could not be removed: %s\n", dir->path, strerror(errno));
}

bool bench_on_postgres(void)
{
    return getenv("BENCH_POSTGRES") != NULL;
}

void bench_store_url(char *out, size_t size, const bench_dir *dir, const char *what)
{
    if (bench_on_postgres())
        (void)snprintf(out, size, "%s", getenv("BENCH_POSTGRES"));
    else
        (void)snprintf(out, size, "sqlite:%s/%s.db", dir->path, what);
}

void bench_settle_postgres(void)
{
    const char *url = getenv("BENCH_POSTGRES");
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        (void)execlp("psql", "psql", "-Xqd", url, "-c", "VACUUM ANALYZE", "-c", "CHECKPOINT",
                     (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        bench_die("psql could not settle the database");
}
