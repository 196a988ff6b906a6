/*
 * bench_journal.c - the journal through its public API, with the same work as floor.c.
 *
 * Only <everfold/everfold.h> is used, as in an application. Filling the journal is not timed. At
 * its end a run compares the head with the number of appended events, so that no rate is printed
 * for missing events.
 */
#include "bench_support.h"

#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOAD_BATCH 5000

static const char usage[] =
    "usage: bench_journal append [batch=100] [n=300000] [secs=4]\n"
    "       bench_journal group [clients=64] [secs=4]\n"
    "       bench_journal read_stream|read_log [limit=1000]\n"
    "       bench_journal verify\n"
    "       bench_journal lines [n=1000000] [streams=1000] [ids=made|random] [seed=1]\n"
    "\n"
    "All but lines also take:\n"
    "  streams=1000    streams that the events are spread over at random\n"
    "  together=1      events in a row that go to one stream\n"
    "  preload=N       events to have in the journal first, untimed (reads: 200000, else 0)\n"
    "  ids=made        the library makes them (none means the same); ordered: the caller gives\n"
    "                  ids that grow with time; random: 128 random bits\n"
    "  keep=NAME       keep the journal in BENCH_DIR/NAME and continue with it next time\n"
    "  store=sqlite    or memory\n"
    "  seed=1\n"
    "  shared=1        other processes append too\n"
    "\n"
    "Prints one line of JSON. The latencies are of one call. BENCH_DIR is the directory of the "
    "files;\n"
    "lines prints a file for `everfold event import` instead.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp bench_journal append batch=100 ids=random preload=1000000\n";

typedef enum id_kind { ID_MADE, ID_ORDERED, ID_RANDOM } id_kind;

/* Storage for what an ef_new_event borrows. */
typedef struct event_text {
    char stream[BENCH_STREAM_BYTES];
    char data[BENCH_PAYLOAD_BYTES];
    char id[BENCH_ID_BYTES];
} event_text;

typedef struct bench_run {
    int64_t batch, n, secs, clients, limit, streams, together, preload, seed, shared;
    const char *ids, *keep, *store;

    bench_dir dir;
    ef_journal *journal;
    int64_t position; /* position of the last event known to be stored */
    bench_picker picker;
    id_kind id_kind;
    bench_rng id_rng;
    uint64_t id_last_ns;

    ef_new_event *events; /* buffers for the largest batch */
    event_text *texts;
    ef_place *places;
} bench_run;

static void check(ef_status status, const char *what, const ef_error *err)
{
    if (status != EF_OK)
        bench_die("%s: %s: %s", what, ef_status_describe(status)->name, err->text);
}

static id_kind parse_ids(const char *text)
{
    if (strcmp(text, "made") == 0 || strcmp(text, "none") == 0)
        return ID_MADE;
    if (strcmp(text, "ordered") == 0)
        return ID_ORDERED;
    if (strcmp(text, "random") == 0)
        return ID_RANDOM;
    bench_die("ids must be made, none, ordered or random, not '%s'", text);
}

static void journal_open(bench_run *run)
{
    char url[BENCH_PATH_BYTES + 32];
    ef_error err = EF_ERROR_INIT;
    ef_head head;

    bench_dir_open(&run->dir, run->keep);
    if (strcmp(run->store, "memory") == 0)
        (void)snprintf(url, sizeof url, "memory:");
    else if (strcmp(run->store, "sqlite") == 0)
        bench_store_url(url, sizeof url, &run->dir, "journal");
    else
        bench_die("store must be sqlite or memory, not '%s'", run->store);

    ef_journal_options options = {.url = url, .create = true};
    check(ef_journal_open(&options, &run->journal, &err), "open", &err);
    check(ef_journal_head(run->journal, &head, &err), "head", &err);
    run->position = head.position;
}

static void bench_open(bench_run *run)
{
    size_t room = run->batch > PRELOAD_BATCH ? (size_t)run->batch : PRELOAD_BATCH;

    if (run->batch < 1 || run->streams < 1 || run->clients < 1 || run->limit < 1)
        bench_die("batch, streams, clients and limit must be at least 1");
    run->id_kind = parse_ids(run->ids);
    journal_open(run);
    run->picker = (bench_picker){.rng = {(uint64_t)run->seed},
                                 .streams = (uint64_t)run->streams,
                                 .together = (uint64_t)run->together};
    /* A kept journal contains the ids of the previous run: its head makes the ids of this run
     * differ. */
    run->id_rng.state = ~(uint64_t)run->seed;
    run->id_rng.state = bench_random(&run->id_rng) + (uint64_t)run->position;
    run->events = bench_alloc(room, sizeof *run->events);
    run->texts = bench_alloc(room, sizeof *run->texts);
    run->places = bench_alloc(room, sizeof *run->places);
}

static void bench_close(bench_run *run)
{
    ef_error err = EF_ERROR_INIT;
    ef_head head;

    check(ef_journal_head(run->journal, &head, &err), "head", &err);
    if (!run->shared && head.position != run->position)
        bench_die("the head is %" PRId64 ", and %" PRId64 " was appended", head.position,
                  run->position);
    ef_journal_close(run->journal);
    bench_dir_close(&run->dir);
    free(run->events);
    free(run->texts);
    free(run->places);
}

static ef_new_event make_event(event_text *text, uint64_t stream, uint64_t number)
{
    return (ef_new_event){.stream = {text->stream, bench_stream_name(text->stream, stream)},
                          .type = EF_STR(BENCH_TYPE),
                          .data = {text->data, bench_payload(text->data, stream, number)},
                          .meta = EF_STR(BENCH_META)};
}

static ef_str make_id(bench_run *run, event_text *text)
{
    if (run->id_kind == ID_ORDERED)
        return (ef_str){text->id, bench_id_ordered(text->id, &run->id_rng, &run->id_last_ns)};
    if (run->id_kind == ID_RANDOM)
        return (ef_str){text->id, bench_id_random(text->id, &run->id_rng)};
    return (ef_str){NULL, 0};
}

static void append_batch(bench_run *run, int64_t count)
{
    ef_error err = EF_ERROR_INIT;

    for (int64_t i = 0; i < count; i++) {
        uint64_t number = (uint64_t)(run->position + i + 1);
        run->events[i] = make_event(&run->texts[i], bench_pick(&run->picker), number);
        run->events[i].id = make_id(run, &run->texts[i]);
    }
    check(ef_journal_append(run->journal, run->events, (size_t)count, run->places, &err), "append",
          &err);
    run->position += count;
}

/* Creates every stream and flushes everything, so that nothing is written back during the
 * measurement. */
static void fill(bench_run *run)
{
    if (run->position >= run->preload)
        return;
    if (run->position == 0)
        run->picker.untouched = run->picker.streams;
    while (run->position < run->preload) {
        int64_t left = run->preload - run->position;
        append_batch(run, left < PRELOAD_BATCH ? left : PRELOAD_BATCH);
    }
    sync();
}

static void report(const bench_run *run, const char *what, uint64_t n, double secs,
                   bench_latency *latency)
{
    char name[256];

    (void)snprintf(name, sizeof name, "%s streams=%" PRId64 " preload=%" PRId64 " ids=%s store=%s",
                   what, run->streams, run->preload, run->ids, run->store);
    bench_report("everfold", name, n, secs, latency);
    bench_latency_release(latency);
}

static void bench_append(bench_run *run)
{
    bench_latency latency = {0};
    int64_t done = 0;
    char what[64];
    uint64_t start = bench_now_ns();

    while (done < run->n && bench_secs_since(start) < (double)run->secs) {
        uint64_t begun = bench_now_ns();
        append_batch(run, run->batch);
        bench_latency_add(&latency, bench_now_ns() - begun);
        done += run->batch;
    }
    double secs = bench_secs_since(start);

    (void)snprintf(what, sizeof what, "append batch=%" PRId64, run->batch);
    report(run, what, (uint64_t)done, secs, &latency);
}

static void append_once(void *context, bench_rng *rng)
{
    bench_run *run = context;
    event_text text;
    ef_error err = EF_ERROR_INIT;
    ef_place place;
    uint64_t number = bench_random(rng) >> 40;
    ef_new_event event = make_event(&text, bench_random_below(rng, (uint64_t)run->streams), number);

    /* The id generator of the bench is not thread-safe, so each client has its own. */
    if (run->id_kind == ID_RANDOM)
        event.id = (ef_str){text.id, bench_id_random(text.id, rng)};
    check(ef_journal_append(run->journal, &event, 1, &place, &err), "append", &err);
}

static void bench_group(bench_run *run)
{
    bench_latency latency = {0};
    char what[64];

    if (run->id_kind == ID_ORDERED)
        bench_die("group takes ids=made or random: many clients have no common order");
    if (run->id_kind == ID_RANDOM && run->position > run->preload)
        bench_die("group with random ids would repeat those of a kept journal");
    double secs =
        bench_clients_run((uint64_t)run->clients, (uint64_t)run->secs, append_once, run, &latency);
    run->position += (int64_t)latency.count;
    (void)snprintf(what, sizeof what, "group clients=%" PRId64, run->clients);
    report(run, what, latency.count, secs, &latency);
}

/* A stream that was never chosen does not exist. */
static int64_t read_whole_stream(bench_run *run, uint64_t stream, ef_batch *batch,
                                 bench_latency *latency)
{
    char name[BENCH_STREAM_BYTES];
    ef_str text = {name, bench_stream_name(name, stream)};
    int64_t seq = 0;

    do {
        ef_error err = EF_ERROR_INIT;
        uint64_t begun = bench_now_ns();
        ef_status st = ef_journal_read_stream(run->journal, EF_STR(""), text, seq + 1,
                                              (size_t)run->limit, batch, &err);
        if (st == EF_NOT_FOUND)
            return 0;
        check(st, name, &err);
        bench_latency_add(latency, bench_now_ns() - begun);
        seq += (int64_t)batch->count;
    } while (batch->more);
    return seq;
}

static void check_read(const bench_run *run, int64_t found)
{
    if (found != run->position)
        bench_die("%" PRId64 " events were read, and %" PRId64 " are there", found, run->position);
}

static void bench_read_stream(bench_run *run)
{
    bench_latency latency = {0};
    ef_batch batch = EF_BATCH_INIT;
    int64_t found = 0;
    uint64_t start = bench_now_ns();

    for (int64_t i = 0; i < run->streams; i++)
        found += read_whole_stream(run, (uint64_t)i, &batch, &latency);
    double secs = bench_secs_since(start);

    EF_RELEASE(&batch);
    check_read(run, found);
    report(run, "read_stream", (uint64_t)found, secs, &latency);
}

static void bench_read_log(bench_run *run)
{
    bench_latency latency = {0};
    ef_batch batch = EF_BATCH_INIT;
    ef_error err = EF_ERROR_INIT;
    ef_log_query query = {.limit = (size_t)run->limit};
    int64_t found = 0;
    uint64_t start = bench_now_ns();

    do {
        uint64_t begun = bench_now_ns();
        check(ef_journal_read_log(run->journal, &query, &batch, &err), "read_log", &err);
        bench_latency_add(&latency, bench_now_ns() - begun);
        found += (int64_t)batch.count;
        if (batch.count > 0)
            query.after = batch.events[batch.count - 1].position;
    } while (batch.more);
    double secs = bench_secs_since(start);

    EF_RELEASE(&batch);
    check_read(run, found);
    report(run, "read_log", (uint64_t)found, secs, &latency);
}

static void bench_verify(bench_run *run)
{
    bench_latency latency = {0};
    ef_error err = EF_ERROR_INIT;
    ef_verify_result result = {0};
    uint64_t start = bench_now_ns();

    check(ef_journal_verify(run->journal, 0, NULL, NULL, &result, &err), "verify", &err);
    double secs = bench_secs_since(start);

    bench_latency_add(&latency, bench_now_ns() - start);
    check_read(run, result.checked);
    report(run, "verify", (uint64_t)result.checked, secs, &latency);
}

static void write_lines(int argc, char **argv)
{
    int64_t n = 1000000, streams = 1000, seed = 1;
    const char *ids = "made";
    bench_setting settings[] = {{.key = "n", .number = &n},
                                {.key = "streams", .number = &streams},
                                {.key = "seed", .number = &seed},
                                {.key = "ids", .text = &ids}};

    bench_settings(argc, argv, settings, sizeof settings / sizeof *settings);
    if (streams < 1 || parse_ids(ids) == ID_ORDERED)
        bench_die("streams must be at least 1, and ids of lines made or random");
    bench_write_lines(stdout, (uint64_t)n, (uint64_t)streams, parse_ids(ids) == ID_RANDOM,
                      (uint64_t)seed);
}

static void measure(void (*what)(bench_run *run), int64_t preload, int argc, char **argv)
{
    bench_run run = {.batch = 100,
                     .n = 300000,
                     .secs = 4,
                     .clients = 64,
                     .limit = 1000,
                     .streams = 1000,
                     .together = 1,
                     .preload = preload,
                     .seed = 1,
                     .ids = "made",
                     .keep = "",
                     .store = "sqlite"};
    bench_setting settings[] = {{.key = "batch", .number = &run.batch},
                                {.key = "n", .number = &run.n},
                                {.key = "secs", .number = &run.secs},
                                {.key = "clients", .number = &run.clients},
                                {.key = "limit", .number = &run.limit},
                                {.key = "streams", .number = &run.streams},
                                {.key = "together", .number = &run.together},
                                {.key = "preload", .number = &run.preload},
                                {.key = "seed", .number = &run.seed},
                                {.key = "shared", .number = &run.shared},
                                {.key = "ids", .text = &run.ids},
                                {.key = "keep", .text = &run.keep},
                                {.key = "store", .text = &run.store}};

    bench_settings(argc, argv, settings, sizeof settings / sizeof *settings);
    bench_open(&run);
    fill(&run);
    what(&run);
    bench_close(&run);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(bench_run *run);
        int64_t preload;
    } cases[] = {{"append", bench_append, 0},
                 {"group", bench_group, 0},
                 {"read_stream", bench_read_stream, 200000},
                 {"read_log", bench_read_log, 200000},
                 {"verify", bench_verify, 200000}};
    const char *what = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(what, cases[i].name) == 0) {
            measure(cases[i].run, cases[i].preload, argc - 2, argv + 2);
            return 0;
        }
    }
    if (strcmp(what, "lines") == 0)
        write_lines(argc - 2, argv + 2);
    else if (strcmp(what, "--help") == 0)
        (void)fputs(usage, stdout);
    else
        bench_die("%s", usage);
    return 0;
}
