/*
 * bench_jetstream.c - catching up with a JetStream stream, compared with a loop of the C client
 * that only fetches and acknowledges.
 *
 * BENCH_NATS is the URL of the broker. At its end a run checks the state of the projection, so that
 * no rate is printed for events that were not folded.
 */
#include "bench_support.h"

#include <everfold/everfold.h>
#include <everfold/view.h>

#include <nats/nats.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STREAM "BENCH"
#define WAIT_MS 10000

static const char usage[] =
    "usage: bench_jetstream fill|bare|catch_up [n=200000] [streams=1000] [batch=5000] "
    "[store=KIND]\n"
    "\n"
    "fill publishes n events to the stream " STREAM
    "; bare fetches and acknowledges them; catch_up\n"
    "folds them into views in sqlite or lmdb. Prints one line of JSON. BENCH_NATS is the broker,\n"
    "BENCH_DIR where the views go.\n"
    "\n"
    "example: BENCH_NATS=nats://127.0.0.1:4222 bench_jetstream fill n=200000\n";

typedef struct bench_run {
    int64_t n, streams, batch;
    const char *store;
    natsConnection *connection;
    jsCtx *stream;
} bench_run;

static void must(natsStatus s, const char *what)
{
    if (s != NATS_OK)
        bench_die("%s: %s", what, natsStatus_GetText(s));
}

static void check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s", what, err->text);
}

static const char *broker(void)
{
    const char *url = getenv("BENCH_NATS");

    if (!url)
        bench_die("BENCH_NATS is not set");
    return url;
}

static void connect_broker(bench_run *run)
{
    must(natsConnection_ConnectTo(&run->connection, broker()), "connect");
    must(natsConnection_JetStream(&run->stream, run->connection, NULL), "JetStream");
}

/* --- fill ------------------------------------------------------------------------------------- */

static void publish(bench_run *run, bench_picker *picker, int64_t number)
{
    char name[BENCH_STREAM_BYTES], payload[BENCH_PAYLOAD_BYTES], subject[96], text[512];
    uint64_t stream = bench_pick(picker);
    size_t length = bench_payload(payload, stream, (uint64_t)number);
    int n;

    (void)bench_stream_name(name, stream);
    (void)snprintf(subject, sizeof subject, "tenant._.aggregate.order.%s", name);
    n = snprintf(text, sizeof text,
                 "{\"id\":\"e%" PRId64 "\",\"type\":\"" BENCH_TYPE "\",\"data\":%.*s}", number,
                 (int)length, payload);
    must(js_PublishAsync(run->stream, subject, text, n, NULL), "publish");
}

static void fill(bench_run *run)
{
    const char *subjects[] = {"tenant.*.aggregate.*.*"};
    bench_picker picker = {
        .rng = {1}, .streams = (uint64_t)run->streams, .untouched = (uint64_t)run->streams};
    bench_latency latency = {0};
    jsStreamConfig config;

    (void)jsStreamConfig_Init(&config);
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    must(js_AddStream(NULL, run->stream, &config, NULL, NULL), "stream");
    uint64_t start = bench_now_ns();
    for (int64_t i = 0; i < run->n; i++)
        publish(run, &picker, i);
    must(js_PublishAsyncComplete(run->stream, NULL), "acknowledgements");
    bench_report("bench_jetstream", "fill", (uint64_t)run->n, bench_secs_since(start), &latency);
}

/* --- floor -------------------------------------------------------------------------------- */

static int64_t fetch(natsSubscription *sub, int64_t most)
{
    natsMsgList list = {0};
    int64_t count;

    must(natsSubscription_Fetch(&list, sub, (int)most, WAIT_MS, NULL), "fetch");
    count = list.Count;
    for (int i = 0; i < list.Count; i++)
        must(natsMsg_Ack(list.Msgs[i], NULL), "ack");
    natsMsgList_Destroy(&list);
    return count;
}

static void bare(bench_run *run)
{
    natsSubscription *sub = NULL;
    bench_latency latency = {0};
    jsSubOptions options;
    int64_t done = 0;

    (void)jsSubOptions_Init(&options);
    options.Stream = STREAM;
    options.Config.AckPolicy = js_AckExplicit;
    options.Config.MaxAckPending = 4 * run->batch;
    must(js_PullSubscribe(&sub, run->stream, "tenant.*.aggregate.*.*", NULL, NULL, &options, NULL),
         "subscribe");
    must(natsSubscription_SetPendingLimits(sub, -1, -1), "limits");
    uint64_t start = bench_now_ns();
    while (done < run->n) {
        uint64_t begun = bench_now_ns();
        int64_t left = run->n - done;
        done += fetch(sub, left < run->batch ? left : run->batch);
        bench_latency_add(&latency, bench_now_ns() - begun);
    }
    must(natsConnection_Flush(run->connection), "flush");
    bench_report("bench_jetstream", "bare", (uint64_t)done, bench_secs_since(start), &latency);
    (void)natsSubscription_Unsubscribe(sub);
    natsSubscription_Destroy(sub);
    bench_latency_release(&latency);
}

/* --- Everfold
 * ------------------------------------------------------------------------------------- */

static void deploy(ef_engine *engine)
{
    static const char text[] = "projection orders version 1\n"
                               "  view stream\n"
                               "\n"
                               "on " BENCH_TYPE "\n"
                               "  orders += 1\n"
                               "  total += data.amount\n"
                               "  line = data.line\n"
                               "  sku = data.sku\n"
                               "  note = data.note\n";
    ef_error err = EF_ERROR_INIT;
    ef_projection_list list = {0};
    ef_text report = {0};

    check(ef_projection_deploy(engine,
                               &(ef_deploy){.file_name = "bench.fold", .text = ef_str_from(text)},
                               &list, &report, &err),
          "deploy", &err);
    EF_RELEASE(&list);
    EF_RELEASE(&report);
}

static void check_projection(ef_engine *engine, const bench_run *run)
{
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;

    check(ef_projection_ls(engine, EF_STR(""), &list, &err), "projections", &err);
    if (list.count != 1 || list.items[0].applied != run->n || list.items[0].unaccounted != 0 ||
        !ef_str_equal(list.items[0].state, EF_STR("live")))
        bench_die("not all events were folded");
    EF_RELEASE(&list);
}

static void open_engine(const bench_run *run, const bench_dir *dir, ef_journal **journal,
                        ef_engine **engine)
{
    char url[512], control[BENCH_PATH_BYTES + 32], views[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;

    (void)snprintf(url, sizeof url, "%s/" STREAM "?batch=%" PRId64, broker(), run->batch);
    (void)snprintf(control, sizeof control, "sqlite:%s/control.db", dir->path);
    (void)snprintf(views, sizeof views, "%s:%s/views", run->store, dir->path);
    check(ef_journal_open(&(ef_journal_options){.url = url, .control = control, .create = true},
                          journal, &err),
          "journal", &err);
    check(ef_engine_open(
              &(ef_engine_options){.journal = *journal, .views_url = views, .create = true}, engine,
              &err),
          "engine", &err);
}

static void catch_up(bench_run *run)
{
    ef_work_options options = {.no_leasing = true};
    ef_tick tick = {.more = true};
    bench_latency latency = {0};
    ef_journal *journal = NULL;
    ef_engine *engine = NULL;
    ef_error err = EF_ERROR_INIT;
    bench_dir dir;

    bench_dir_open(&dir, NULL);
    open_engine(run, &dir, &journal, &engine);
    deploy(engine);
    uint64_t start = bench_now_ns();
    while (tick.more) {
        uint64_t begun = bench_now_ns();
        check(ef_engine_work(engine, &options, &tick, &err), "work", &err);
        bench_latency_add(&latency, bench_now_ns() - begun);
    }
    double secs = bench_secs_since(start);
    check_projection(engine, run);
    bench_report("bench_jetstream", run->store, (uint64_t)run->n, secs, &latency);
    ef_engine_close(engine);
    ef_journal_close(journal);
    bench_latency_release(&latency);
    bench_dir_close(&dir);
}

int main(int argc, char **argv)
{
    bench_run run = {.n = 200000, .streams = 1000, .batch = 5000, .store = "sqlite"};
    const bench_setting settings[] = {{"n", &run.n, NULL},
                                      {"streams", &run.streams, NULL},
                                      {"batch", &run.batch, NULL},
                                      {"store", NULL, &run.store}};
    void (*what)(bench_run * run) = NULL;

    if (argc > 1)
        what = strcmp(argv[1], "fill") == 0       ? fill
               : strcmp(argv[1], "bare") == 0     ? bare
               : strcmp(argv[1], "catch_up") == 0 ? catch_up
                                                  : NULL;
    if (!what) {
        (void)fputs(usage, stderr);
        return 2;
    }
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof *settings);
    connect_broker(&run);
    what(&run);
    jsCtx_Destroy(run.stream);
    natsConnection_Destroy(run.connection);
    return 0;
}
