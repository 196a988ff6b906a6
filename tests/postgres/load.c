/*
 * load.c - writers on a PostgreSQL journal, a reader that must not skip, a worker that folds, and
 * the count at the end.
 *
 * usage: load URL API_WRITERS SQL_WRITERS EVENTS HOLD_MS
 *
 * Each writer appends EVENTS events, by the library or by everfold.append in transactions of its
 * own. Of the latter one in seven is rolled back, which is one in ten of all where three in four
 * writers are of that kind, and one in twenty is left open for about HOLD_MS.
 * An append that fails because the server or the connection is lost is repeated with the same id.
 * The reader follows the log meanwhile: positions must be dense, seqs of a stream increase by one,
 * and no id occur twice. A worker folds meanwhile, into views in the same database: one per stream,
 * which counts its events. In the end exactly the committed events must exist, each in its view
 * once, and the chain must verify. Prints its counts; exit code 1, with a message, when a check
 * fails.
 */
#include <everfold/everfold.h>

#include <libpq-fe.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMED "{\"name\":\""

enum { STREAMS = 200, WRITERS_MAX = 256, GIVE_UP_S = 120 };

static const char *url;
static ef_journal *journal;
static ef_engine *engine;
static int64_t last_seqs[STREAMS]; /* as the reader has seen them */
static int events_each, hold_ms;
static atomic_bool writing = true;
static atomic_int failed;
static atomic_long committed, rolled_back, repeated;
static atomic_uchar *seen; /* by writer and event: 1 committed, 2 read, 4 rolled back, 8 unsure */
static bool alone; /* no other process appends, and ids are generated: most guesses are right */

typedef struct writer {
    pthread_t thread;
    int number;
    unsigned seed;
} writer;

#define WRONG(...)                                                                                 \
    do {                                                                                           \
        (void)fprintf(stderr, __VA_ARGS__);                                                        \
        (void)fputc('\n', stderr);                                                                 \
        atomic_store(&failed, 1);                                                                  \
    } while (0)

static void nap_ms(int ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static atomic_uchar *seen_of(int who, int event)
{
    return &seen[(size_t)who * (size_t)events_each + (size_t)event];
}

/* --- writers ---------------------------------------------------------------------------------- */

static void api_append(writer *w, int event)
{
    char stream[32], id[32], data[48];
    ef_error err = EF_ERROR_INIT;
    ef_place place;
    time_t until = time(NULL) + GIVE_UP_S;
    ef_status st;

    (void)snprintf(stream, sizeof stream, "s%d", (int)(rand_r(&w->seed) % STREAMS));
    (void)snprintf(id, sizeof id, "%d-%d", w->number, event);
    (void)snprintf(data, sizeof data, NAMED "%s\"}", id);
    do {
        ef_new_event e = {
            .stream = ef_str_from(stream), .type = EF_STR("t"), .data = ef_str_from(data)};
        if (!alone)
            e.id = ef_str_from(id);
        st = ef_journal_append(journal, &e, 1, &place, &err);
        if (st != EF_OK) {
            atomic_fetch_add(&repeated, 1);
            nap_ms(20);
        }
    } while ((st == EF_BUSY || (st == EF_UNSURE && !alone)) && time(NULL) < until);
    if (st == EF_UNSURE && alone) /* without an id of its own it cannot be repeated */
        atomic_fetch_or(seen_of(w->number, event), 8);
    else if (st != EF_OK)
        WRONG("append of %s: %s: %s", id, ef_status_describe(st)->name, err.text);
    else
        atomic_fetch_or(seen_of(w->number, event), 1);
    atomic_fetch_add(&committed, st == EF_OK);
}

static void *api_writer(void *context)
{
    writer *w = context;

    for (int i = 0; i < events_each && !atomic_load(&failed); i++)
        api_append(w, i);
    return NULL;
}

static bool run(PGconn *conn, const char *sql, const char *wanted)
{
    PGresult *result = PQexec(conn, sql);
    bool ok =
        PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;

    if (ok && wanted)
        ok = strcmp(PQcmdStatus(result), wanted) == 0;
    PQclear(result);
    return ok;
}

/* One of this many transactions is left open for a while: in a long run at most some 100 per
 * writer, because other appends to its stream wait for it. */
static unsigned held_of(void)
{
    return events_each > 2000 ? (unsigned)events_each / 100 : 20;
}

/* One try of a transaction: true when it has ended as it should. A commit whose answer was lost is
 * repeated: the id makes it a duplicate, if it was done. */
static bool sql_transaction(PGconn *conn, writer *w, int event, const char *stream, bool back)
{
    char sql[300];

    (void)snprintf(
        sql, sizeof sql,
        "SELECT * FROM everfold.append('', '%s', NULL, '{\"type\":\"t\",\"id\":\"%d-%d\"}')",
        stream, w->number, event);
    if (!run(conn, "BEGIN", NULL) || !run(conn, sql, NULL))
        return false;
    if (hold_ms && rand_r(&w->seed) % held_of() == 0)
        nap_ms(hold_ms / 2 + (int)(rand_r(&w->seed) % (unsigned)hold_ms));
    return back ? run(conn, "ROLLBACK", "ROLLBACK") : run(conn, "COMMIT", "COMMIT");
}

static void sql_append(PGconn *conn, writer *w, int event)
{
    time_t until = time(NULL) + GIVE_UP_S;
    bool back = rand_r(&w->seed) % 15 < 2;
    char stream[32];

    (void)snprintf(stream, sizeof stream, "s%d", (int)(rand_r(&w->seed) % STREAMS));
    while (!sql_transaction(conn, w, event, stream, back)) {
        atomic_fetch_add(&repeated, 1);
        if (time(NULL) > until) {
            WRONG("writer %d gave up: %s", w->number, PQerrorMessage(conn));
            return;
        }
        nap_ms(20);
        if (PQstatus(conn) != CONNECTION_OK)
            PQreset(conn);
        else
            (void)run(conn, "ROLLBACK", NULL);
    }
    atomic_fetch_or(seen_of(w->number, event), back ? 4 : 1);
    atomic_fetch_add(back ? &rolled_back : &committed, 1);
}

static void ignore_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

static void *sql_writer(void *context)
{
    writer *w = context;
    PGconn *conn = PQconnectdb(url);

    (void)PQsetNoticeProcessor(conn, ignore_notice, NULL);
    for (int i = 0; i < events_each && !atomic_load(&failed); i++)
        sql_append(conn, w, i);
    PQfinish(conn);
    return NULL;
}

/* --- the reader ------------------------------------------------------------------------------- */

static void look_at(const ef_event *event, int64_t *position, int64_t *seqs)
{
    const char *name = alone ? event->data.ptr + strlen(NAMED) : event->id.ptr;
    char *rest;
    long who = strtol(name, &rest, 10), number = strtol(rest + 1, NULL, 10);
    long stream = strtol(event->stream.ptr + 1, NULL, 10);

    if (event->position != *position + 1)
        WRONG("position %" PRId64 " follows on %" PRId64, event->position, *position);
    if (event->seq != seqs[stream] + 1)
        WRONG("stream %ld: seq %" PRId64 " follows on %" PRId64, stream, event->seq, seqs[stream]);
    if (atomic_fetch_or(seen_of((int)who, (int)number), 2) & 2)
        WRONG("event %ld-%ld came twice", who, number);
    *position = event->position;
    seqs[stream] = event->seq;
}

static void *reader(void *context)
{
    int64_t *out = context, position = 0, seqs[STREAMS] = {0}, reached;
    ef_batch batch = EF_BATCH_INIT;
    ef_error err = EF_ERROR_INIT;
    bool last = false;

    while (!atomic_load(&failed)) {
        bool done = !atomic_load(&writing);
        ef_log_query query = {
            .any_tenant = true, .after = position, .limit = 1000, .out_reached = &reached};
        ef_status st = ef_journal_read_log(journal, &query, &batch, &err);

        if (st != EF_OK && st != EF_BUSY)
            WRONG("reading: %s: %s", ef_status_describe(st)->name, err.text);
        for (size_t i = 0; st == EF_OK && i < batch.count; i++)
            look_at(&batch.events[i], &position, seqs);
        if (st == EF_OK && batch.count == 0 && last)
            break;
        last = done && st == EF_OK;
        if (st == EF_OK && batch.count == 0 && !done)
            (void)ef_journal_wait(journal, position, 100, &err);
    }
    EF_RELEASE(&batch);
    memcpy(last_seqs, seqs, sizeof seqs);
    *out = position;
    return NULL;
}

/* --- the worker ------------------------------------------------------------------------------- */

static bool open_engine(ef_error *err)
{
    static const char PROGRAM[] = "projection streams version 1\n  view stream\n\non t\n  n += 1\n";
    ef_engine_options options = {
        .journal = journal, .views_url = url, .create = true, .busy_ms = 10000};
    ef_projection_list list = {0};
    ef_text report = {0};
    bool ok = ef_engine_open(&options, &engine, err) == EF_OK &&
              ef_projection_deploy(
                  engine, &(ef_deploy){.file_name = "load.fold", .text = ef_str_from(PROGRAM)},
                  &list, &report, err) == EF_OK;

    EF_RELEASE(&list);
    EF_RELEASE(&report);
    return ok;
}

/* Fold until there is nothing more to come. */
static void *folder(void *context)
{
    time_t until = 0;
    bool over = false;

    (void)context;
    while (!atomic_load(&failed) && !over) {
        bool written = !atomic_load(&writing);
        ef_error err = EF_ERROR_INIT;
        ef_tick tick = {0};
        ef_status st = ef_engine_work(engine, NULL, &tick, &err);

        until = !written ? 0 : until ? until : time(NULL) + GIVE_UP_S;
        if ((st != EF_OK && st != EF_BUSY && st != EF_UNSURE) || tick.failed)
            WRONG("folding: %s: %s", ef_status_describe(st)->name, err.text);
        if (until && time(NULL) > until)
            WRONG("folding does not come to an end: %s", err.text);
        over = written && st == EF_OK && !tick.more && tick.backoff_ms == 0 &&
               tick.owned_count > 0 && tick.owned_count == tick.desired_count && tick.claimed == 0;
        if (st != EF_OK || !tick.more)
            nap_ms(5);
    }
    return NULL;
}

static bool compare_view(void *context, const ef_view *view)
{
    int64_t *sum = context, n = strtoll(view->data.ptr + strlen("{\"n\":"), NULL, 10);
    long stream = strtol(view->view_id.ptr + 1, NULL, 10);

    if (n != last_seqs[stream])
        WRONG("the view of stream %ld counts %" PRId64 " of %" PRId64 " events", stream, n,
              last_seqs[stream]);
    *sum += n;
    return true;
}

static void compare_views(void)
{
    ef_error err = EF_ERROR_INIT;
    int64_t sum = 0;

    if (ef_view_export(engine, EF_STR("streams"), EF_STR(""), true, compare_view, &sum, NULL,
                       &err) != EF_OK)
        WRONG("views: %s", err.text);
    if (sum != atomic_load(&committed))
        WRONG("%" PRId64 " events were folded, %ld committed", sum, atomic_load(&committed));
}

static void compare(int writers, int64_t read)
{
    ef_verify_result verified;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    for (int w = 0; w < writers; w++)
        for (int e = 0; e < events_each; e++) {
            unsigned char is = atomic_load(seen_of(w, e));
            if (is == (8 | 2))
                atomic_fetch_add(&committed, 1); /* it turned out so */
            else if (is != 3 && is != 4 && is != 8)
                WRONG("event %d-%d: %s", w, e,
                      is == 1 ? "committed and not read" : "read and not committed");
        }
    if (read != atomic_load(&committed))
        WRONG("%" PRId64 " events were read, %ld committed", read, atomic_load(&committed));
    st = ef_journal_verify(journal, 0, NULL, NULL, &verified, &err);
    if (st != EF_OK)
        WRONG("verifying: %s", err.text);
}

int main(int argc, char **argv)
{
    static writer writers[WRITERS_MAX];
    int api = argc == 6 ? (int)strtol(argv[2], NULL, 10) : 0;
    int sql = argc == 6 ? (int)strtol(argv[3], NULL, 10) : 0;
    ef_journal_options options = {.create = true, .busy_ms = 10000};
    ef_error err = EF_ERROR_INIT;
    int64_t read = 0;
    pthread_t reading, folding;

    if (argc != 6 || api + sql > WRITERS_MAX)
        return 2;
    options.url = url = argv[1];
    events_each = (int)strtol(argv[4], NULL, 10);
    hold_ms = (int)strtol(argv[5], NULL, 10);
    alone = sql == 0;
    seen = calloc((size_t)(api + sql) * (size_t)events_each, sizeof *seen);
    if (!seen || ef_journal_open(&options, &journal, &err) != EF_OK || !open_engine(&err)) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    (void)pthread_create(&reading, NULL, reader, &read);
    (void)pthread_create(&folding, NULL, folder, NULL);
    for (int i = 0; i < api + sql; i++) {
        writers[i].number = i;
        writers[i].seed = (unsigned)i + 1;
        (void)pthread_create(&writers[i].thread, NULL, i < api ? api_writer : sql_writer,
                             &writers[i]);
    }
    for (int i = 0; i < api + sql; i++)
        (void)pthread_join(writers[i].thread, NULL);
    atomic_store(&writing, false);
    (void)pthread_join(reading, NULL);
    (void)pthread_join(folding, NULL);
    if (!atomic_load(&failed))
        compare(api + sql, read);
    if (!atomic_load(&failed))
        compare_views();
    (void)printf("%ld committed, %ld rolled back, %ld repeated, %" PRId64 " read\n",
                 atomic_load(&committed), atomic_load(&rolled_back), atomic_load(&repeated), read);
    ef_engine_close(engine);
    ef_journal_close(journal);
    free(seen);
    return atomic_load(&failed);
}
