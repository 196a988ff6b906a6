/*
 * floor.c - the durable writes of an append in plain SQL, and nothing else.
 *
 * This is what SQLite itself allows on this machine: prepared statements, WAL, synchronous=FULL,
 * everything else at SQLite's defaults (checkpoint at 1,000 pages inside the commit, 2 MB cache).
 * No ids, no hashes, no checks, no names of streams: everything that a journal adds is measured
 * against it.
 *
 * lean   integer stream ids, one head row per stream with the optimistic check, no index over
 *        events, an outbox row per event
 * naive  text stream names, UNIQUE(stream, seq) over all events, an outbox row per event
 */
#include "bench_support.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRELOAD_BATCH 5000
#define TIME_US INT64_C(1700000000000000)

static const char usage[] =
    "usage: floor append [batch=100] [n=300000] [secs=4] [streams=1000] [preload=0]\n"
    "                    [schema=lean|naive] [seed=1]\n"
    "       floor group [clients=64] [secs=4] [streams=1000]\n"
    "\n"
    "Runs until n events or secs seconds and prints one line of JSON. The latencies are of one\n"
    "transaction (append) or of one client's append (group). BENCH_DIR is the directory of the "
    "files.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp floor append batch=1 n=10000\n";

static const char lean_schema[] =
    "create table events(pos integer primary key, stream integer not null, seq integer not null,"
    " type text not null, data text not null, meta text not null, ts integer not null);"
    "create table heads(stream integer primary key, seq integer not null);";

static const char naive_schema[] =
    "create table events(pos integer primary key, stream text not null, seq integer not null,"
    " type text not null, data text not null, meta text not null, ts integer not null,"
    " unique(stream, seq));";

static const char outbox_schema[] =
    "create table outbox(pos integer primary key, attempts integer not null, due integer not null)";

typedef struct floor_store {
    sqlite3 *db;
    bench_dir dir;
    bool lean;
    sqlite3_stmt *begin, *commit, *event, *head, *outbox; /* head: NULL in the naive schema */
    int64_t *seqs;                                        /* last seq of each stream */
    int64_t position;
} floor_store;

static void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        bench_die("%s: %s", sql, message ? message : "out of memory");
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    return statement;
}

static void run(floor_store *store, sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        bench_die("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(store->db));
    (void)sqlite3_reset(statement);
}

static void store_open(floor_store *store, bool lean, uint64_t streams)
{
    char path[BENCH_PATH_BYTES + 16];

    bench_dir_open(&store->dir, NULL);
    (void)snprintf(path, sizeof path, "%s/floor.db", store->dir.path);
    if (sqlite3_open_v2(path, &store->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(store->db));
    run_sql(store->db, "pragma journal_mode=wal; pragma synchronous=full");
    run_sql(store->db, lean ? lean_schema : naive_schema);
    run_sql(store->db, outbox_schema);

    store->lean = lean;
    store->begin = prepare(store->db, "begin immediate");
    store->commit = prepare(store->db, "commit");
    store->event = prepare(store->db, "insert into events(pos, stream, seq, type, data, meta, ts) "
                                      "values(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    store->outbox = prepare(store->db, "insert into outbox(pos, attempts, due) values(?1, 0, ?2)");
    store->head = !lean ? NULL
                        : prepare(store->db, "insert into heads(stream, seq) values(?1, ?2) "
                                             "on conflict(stream) do update set seq = excluded.seq "
                                             "where seq = excluded.seq - 1");
    store->seqs = bench_alloc(streams, sizeof *store->seqs);
    store->position = 0;
}

static void store_close(floor_store *store)
{
    sqlite3_stmt *all[] = {store->begin, store->commit, store->event, store->head, store->outbox};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)sqlite3_finalize(all[i]);
    (void)sqlite3_close(store->db);
    bench_dir_close(&store->dir);
    free(store->seqs);
}

static void move_head(floor_store *store, uint64_t stream, int64_t seq)
{
    (void)sqlite3_bind_int64(store->head, 1, (int64_t)stream);
    (void)sqlite3_bind_int64(store->head, 2, seq);
    run(store, store->head);
    if (sqlite3_changes(store->db) != 1)
        bench_die("stream %" PRIu64 " is not at seq %" PRId64, stream, seq - 1);
}

/* Bound values are borrowed until the statement is bound again, and read only when it runs. */
static void insert_event(floor_store *store, uint64_t stream)
{
    char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
    int64_t seq = ++store->seqs[stream], position = ++store->position;
    int data_bytes = (int)bench_payload(data, stream, (uint64_t)position);

    (void)sqlite3_bind_int64(store->event, 1, position);
    if (store->lean)
        (void)sqlite3_bind_int64(store->event, 2, (int64_t)stream);
    else
        (void)sqlite3_bind_text(store->event, 2, name, (int)bench_stream_name(name, stream),
                                SQLITE_STATIC);
    (void)sqlite3_bind_int64(store->event, 3, seq);
    (void)sqlite3_bind_text(store->event, 4, BENCH_TYPE, sizeof BENCH_TYPE - 1, SQLITE_STATIC);
    (void)sqlite3_bind_text(store->event, 5, data, data_bytes, SQLITE_STATIC);
    (void)sqlite3_bind_text(store->event, 6, BENCH_META, sizeof BENCH_META - 1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(store->event, 7, TIME_US + position);
    run(store, store->event);
    if (store->lean)
        move_head(store, stream, seq);
    (void)sqlite3_bind_int64(store->outbox, 1, position);
    (void)sqlite3_bind_int64(store->outbox, 2, TIME_US);
    run(store, store->outbox);
}

static void append_batch(floor_store *store, bench_picker *picker, int64_t count)
{
    run(store, store->begin);
    for (int64_t i = 0; i < count; i++)
        insert_event(store, bench_pick(picker));
    run(store, store->commit);
}

/* Not timed and not synced: sync() makes it durable before the measurement. */
static void preload(floor_store *store, bench_picker *picker, int64_t count)
{
    if (count == 0)
        return;
    picker->untouched = picker->streams;
    run_sql(store->db, "pragma synchronous=off");
    while (store->position < count) {
        int64_t left = count - store->position;
        append_batch(store, picker, left < PRELOAD_BATCH ? left : PRELOAD_BATCH);
    }
    run_sql(store->db, "pragma wal_checkpoint(truncate); pragma synchronous=full");
    sync();
}

static void floor_append(int argc, char **argv)
{
    int64_t batch = 100, n = 300000, secs = 4, streams = 1000, preloaded = 0, seed = 1;
    const char *schema = "lean";
    bench_setting settings[] = {
        {.key = "batch", .number = &batch},       {.key = "n", .number = &n},
        {.key = "secs", .number = &secs},         {.key = "streams", .number = &streams},
        {.key = "preload", .number = &preloaded}, {.key = "schema", .text = &schema},
        {.key = "seed", .number = &seed}};
    bench_latency latency = {0};
    floor_store store;
    int64_t done = 0;
    char name[256];

    bench_settings(argc, argv, settings, sizeof settings / sizeof *settings);
    if (batch < 1 || streams < 1)
        bench_die("batch and streams must be at least 1");
    if (strcmp(schema, "lean") != 0 && strcmp(schema, "naive") != 0)
        bench_die("schema must be lean or naive, not '%s'", schema);
    bench_picker picker = {.rng = {(uint64_t)seed}, .streams = (uint64_t)streams};
    store_open(&store, strcmp(schema, "lean") == 0, (uint64_t)streams);
    preload(&store, &picker, preloaded);

    uint64_t start = bench_now_ns();
    while (done < n && bench_secs_since(start) < (double)secs) {
        uint64_t begun = bench_now_ns();
        append_batch(&store, &picker, batch);
        bench_latency_add(&latency, bench_now_ns() - begun);
        done += batch;
    }
    double elapsed = bench_secs_since(start);

    (void)snprintf(name, sizeof name,
                   "append batch=%" PRId64 " streams=%" PRId64 " preload=%" PRId64 " schema=%s",
                   batch, streams, preloaded, schema);
    bench_report("floor", name, (uint64_t)done, elapsed, &latency);
    store_close(&store);
    bench_latency_release(&latency);
}

/*
 * Group commit. Clients push a request on a list and sleep on a futex of their own; one writer
 * takes the whole list, commits it in one transaction and wakes each client. A client that finds
 * the list empty changes the futex of the writer. The writer reads this futex before it checks the
 * list, so a change between the check and the sleep prevents the sleep.
 */
typedef struct request {
    struct request *next;
    uint64_t stream;
    atomic_uint done;
} request;

typedef struct writer_group {
    floor_store store;
    uint64_t streams;
    _Atomic(request *) waiting;
    atomic_uint bell;
    atomic_bool stop;
} writer_group;

static void futex_wait(atomic_uint *word, unsigned seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_writer(writer_group *group)
{
    atomic_fetch_add(&group->bell, 1);
    futex_wake(&group->bell);
}

static void submit_once(void *context, bench_rng *rng)
{
    writer_group *group = context;
    request mine = {.stream = bench_random_below(rng, group->streams)};
    request *first = atomic_load(&group->waiting);

    do
        mine.next = first;
    while (!atomic_compare_exchange_weak(&group->waiting, &first, &mine));
    if (first == NULL)
        wake_writer(group);
    while (atomic_load(&mine.done) == 0)
        futex_wait(&mine.done, 0);
}

static void commit_all(floor_store *store, request *first)
{
    run(store, store->begin);
    for (request *each = first; each != NULL; each = each->next)
        insert_event(store, each->stream);
    run(store, store->commit);
    while (first != NULL) {
        /* A request lives on the stack of its client and ends when the client sees it done. The
         * wake may then hit a word that is used for something else: waiters check again anyway. */
        request *next = first->next;
        atomic_store(&first->done, 1);
        futex_wake(&first->done);
        first = next;
    }
}

/* The list is a stack. It is reversed, so that the longest waiter is woken first; the other order
 * measured about 4 % slower. */
static request *take_waiting(writer_group *group)
{
    request *newest = atomic_exchange(&group->waiting, NULL), *oldest = NULL;

    while (newest != NULL) {
        request *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void *run_writer(void *context)
{
    writer_group *group = context;

    for (;;) {
        unsigned seen = atomic_load(&group->bell);
        request *first = take_waiting(group);
        if (first != NULL)
            commit_all(&group->store, first);
        else if (atomic_load(&group->stop))
            return NULL;
        else
            futex_wait(&group->bell, seen);
    }
}

static void floor_group(int argc, char **argv)
{
    int64_t clients = 64, secs = 4, streams = 1000;
    bench_setting settings[] = {{.key = "clients", .number = &clients},
                                {.key = "secs", .number = &secs},
                                {.key = "streams", .number = &streams}};
    static writer_group group;
    bench_latency latency = {0};
    pthread_t writer;
    char name[128];

    bench_settings(argc, argv, settings, sizeof settings / sizeof *settings);
    if (clients < 1 || streams < 1)
        bench_die("clients and streams must be at least 1");
    group.streams = (uint64_t)streams;
    store_open(&group.store, true, group.streams);
    if (pthread_create(&writer, NULL, run_writer, &group) != 0)
        bench_die("the writer could not be started");

    double elapsed =
        bench_clients_run((uint64_t)clients, (uint64_t)secs, submit_once, &group, &latency);

    atomic_store(&group.stop, true);
    wake_writer(&group);
    (void)pthread_join(writer, NULL);
    (void)snprintf(name, sizeof name, "group clients=%" PRId64 " streams=%" PRId64 " schema=lean",
                   clients, streams);
    bench_report("floor", name, latency.count, elapsed, &latency);
    store_close(&group.store);
    bench_latency_release(&latency);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "append") == 0)
        floor_append(argc - 2, argv + 2);
    else if (strcmp(what, "group") == 0)
        floor_group(argc - 2, argv + 2);
    else if (strcmp(what, "--help") == 0)
        (void)fputs(usage, stdout);
    else
        bench_die("%s", usage);
    return 0;
}
