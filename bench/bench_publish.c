/*
 * bench_publish.c - draining the lane of a publisher, compared with a loop of the C client that
 * publishes as many messages of the same size to JetStream and waits for their acknowledgements.
 *
 * The journal is filled before the measurement. At its end a run checks the lane, so that no rate
 * is printed for events that were not published.
 */
#include "bench_fill.h"
#include "bench_support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <nats/nats.h>

#define STREAM "PUBLISHED"
#define SUBJECT "bench.orders"
#define LANE "bench"

static const char usage[] =
    "usage: bench_publish file|nats|bare [n=200000] [streams=1000] [retain_ms=0]\n"
    "\n"
    "file and nats drain the lane of a publisher; bare publishes n messages of the same size by "
    "the\n"
    "C client alone. retain_ms is the publisher's, 0 its default. Prints one line of JSON; the "
    "latencies\n"
    "are of a tick. BENCH_NATS is the broker, BENCH_DIR where journal and file go.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp bench_publish file n=500000\n";

typedef struct bench_run {
    int64_t n, streams, retain_ms;
} bench_run;

static void must(natsStatus s, const char *what)
{
    if (s != NATS_OK)
        bench_die("%s: %s", what, natsStatus_GetText(s));
}

/* --- broker ------------------------------------------------------------------------------- */

static const char *broker(void)
{
    const char *url = getenv("BENCH_NATS");

    if (!url)
        bench_die("BENCH_NATS is not set");
    return url;
}

/* Creates an empty stream for each run. */
static void connect_broker(natsConnection **connection, jsCtx **stream)
{
    const char *subjects[] = {SUBJECT};
    jsStreamConfig config;

    must(natsConnection_ConnectTo(connection, broker()), "connect");
    must(natsConnection_JetStream(stream, *connection, NULL), "JetStream");
    (void)js_DeleteStream(*stream, STREAM, NULL, NULL);
    (void)jsStreamConfig_Init(&config);
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    must(js_AddStream(NULL, *stream, &config, NULL, NULL), "stream");
}

static void disconnect_broker(natsConnection *connection, jsCtx *stream)
{
    jsCtx_Destroy(stream);
    natsConnection_Destroy(connection);
}

static void check_stream(jsCtx *stream, int64_t n)
{
    jsStreamInfo *info = NULL;

    must(js_GetStreamInfo(&info, stream, STREAM, NULL, NULL), "stream");
    if ((int64_t)info->State.Msgs != n)
        bench_die("the stream has %" PRIu64 " messages, not %" PRId64, info->State.Msgs, n);
    jsStreamInfo_Destroy(info);
}

/* --- floor -------------------------------------------------------------------------------- */

/* The message that the sink builds from an event of the bench. */
static int make_line(char *out, size_t size, bench_picker *picker, int64_t number)
{
    char name[BENCH_STREAM_BYTES], payload[BENCH_PAYLOAD_BYTES];
    uint64_t stream = bench_pick(picker);
    size_t length = bench_payload(payload, stream, (uint64_t)number);

    (void)bench_stream_name(name, stream);
    return snprintf(out, size,
                    "{\"specversion\":\"1.0\",\"id\":\"01939c5e-0000-7000-8000-%012" PRId64
                    "\",\"source\":\"/everfold\",\"type\":\"" BENCH_TYPE
                    "\",\"subject\":\"%s\",\"time\":\"2026-01-01T00:00:00.000000Z\","
                    "\"sequence\":\"%020" PRId64 "\",\"streamsequence\":%" PRId64
                    ",\"recordedtime\":\"2026-01-01T00:00:00.000000Z\",\"partitionkey\":\"%s\","
                    "\"user\":\"u-42\",\"trace\":\"t-001\",\"data\":%.*s}",
                    number, name, number, number, name, (int)length, payload);
}

static void bare(bench_run *run)
{
    natsConnection *connection = NULL;
    jsCtx *stream = NULL;
    bench_picker picker = {
        .rng = {1}, .streams = (uint64_t)run->streams, .untouched = (uint64_t)run->streams};
    bench_latency latency = {0};
    char text[1024], id[64];
    jsPubOptions options;

    connect_broker(&connection, &stream);
    (void)jsPubOptions_Init(&options);
    uint64_t start = bench_now_ns();
    for (int64_t i = 0; i < run->n; i++) {
        int length = make_line(text, sizeof text, &picker, i);
        (void)snprintf(id, sizeof id, "/01939c5e-0000-7000-8000-%012" PRId64, i);
        options.MsgId = id;
        must(js_PublishAsync(stream, SUBJECT, text, length, &options), "publish");
    }
    must(js_PublishAsyncComplete(stream, NULL), "acknowledgements");
    bench_report("bench_publish", "bare", (uint64_t)run->n, bench_secs_since(start), &latency);
    check_stream(stream, run->n);
    disconnect_broker(connection, stream);
}

/* --- Everfold
 * ------------------------------------------------------------------------------------- */

static void set_publisher(const bench_run *run, ef_journal *journal, const char *to, bool paused)
{
    ef_publisher publisher = {.name = EF_STR(LANE),
                              .url = ef_str_from(to),
                              .retain_ms = run->retain_ms,
                              .allow_private = true,
                              .paused = paused};
    ef_error err = EF_ERROR_INIT;

    bench_check(ef_publisher_set(journal, &publisher, &err), "publisher", &err);
}

static ef_journal *fill_journal(const bench_run *run, const bench_dir *dir, const char *to)
{
    char url[BENCH_PATH_BYTES + 32];
    ef_journal *journal = NULL;
    ef_error err = EF_ERROR_INIT;

    bench_store_url(url, sizeof url, dir, "journal");
    bench_check(ef_journal_open(&(ef_journal_options){.url = url, .create = true}, &journal, &err),
                "journal", &err);
    bench_check(ef_type_set(journal, &(ef_type){.name = EF_STR(BENCH_TYPE), .publish = true}, &err),
                "type", &err);
    set_publisher(run, journal, to, true);
    bench_fill(journal, run->n, run->streams, run->streams, 1);
    return journal;
}

/* Works until the publisher has delivered `n` rows; 0: until nothing is due. */
static int64_t work(ef_engine *engine, int64_t n, bench_latency *latency)
{
    ef_work_options options = {.no_leasing = true};
    ef_error err = EF_ERROR_INIT;
    ef_tick tick = {.more = true};
    int64_t published = 0;

    while (n ? published < n : tick.more) {
        uint64_t begun = bench_now_ns();
        bench_check(ef_engine_work(engine, &options, &tick, &err), "work", &err);
        published += tick.published;
        bench_latency_add(latency, bench_now_ns() - begun);
    }
    return published;
}

/* Acknowledges the rows of the projections before the measurement: there are no projections. */
static void drain(const bench_run *run, const char *name, const bench_dir *dir, const char *to)
{
    char views[BENCH_PATH_BYTES + 32];
    ef_journal *journal = fill_journal(run, dir, to);
    ef_engine *engine = NULL;
    ef_error err = EF_ERROR_INIT;
    bench_latency before = {0}, latency = {0};
    int64_t published;

    bench_store_url(views, sizeof views, dir, "views");
    bench_check(
        ef_engine_open(&(ef_engine_options){.journal = journal, .views_url = views, .create = true},
                       &engine, &err),
        "engine", &err);
    (void)work(engine, 0, &before);
    set_publisher(run, journal, to, false);
    uint64_t start = bench_now_ns();
    published = work(engine, run->n, &latency);
    bench_report("bench_publish", name, (uint64_t)published, bench_secs_since(start), &latency);
    ef_engine_close(engine);
    ef_journal_close(journal);
    bench_latency_release(&before);
    bench_latency_release(&latency);
}

static void to_file(bench_run *run)
{
    char to[BENCH_PATH_BYTES + 32];
    bench_dir dir;

    bench_dir_open(&dir, NULL);
    (void)snprintf(to, sizeof to, "file:%s/out.ndjson", dir.path);
    drain(run, "file", &dir, to);
    bench_dir_close(&dir);
}

static void to_nats(bench_run *run)
{
    natsConnection *connection = NULL;
    jsCtx *stream = NULL;
    char to[512];
    bench_dir dir;

    connect_broker(&connection, &stream);
    bench_dir_open(&dir, NULL);
    (void)snprintf(to, sizeof to, "%s/" SUBJECT, broker());
    drain(run, "nats", &dir, to);
    check_stream(stream, run->n);
    bench_dir_close(&dir);
    disconnect_broker(connection, stream);
}

int main(int argc, char **argv)
{
    bench_run run = {.n = 200000, .streams = 1000};
    const bench_setting settings[] = {
        {"n", &run.n, NULL}, {"streams", &run.streams, NULL}, {"retain_ms", &run.retain_ms, NULL}};
    void (*what)(bench_run * run) = NULL;

    if (argc > 1)
        what = strcmp(argv[1], "file") == 0   ? to_file
               : strcmp(argv[1], "nats") == 0 ? to_nats
               : strcmp(argv[1], "bare") == 0 ? bare
                                              : NULL;
    if (!what) {
        (void)fputs(usage, stderr);
        return 2;
    }
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof *settings);
    what(&run);
    return 0;
}
