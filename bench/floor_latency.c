/*
 * floor_latency.c - append to view over two files in plain SQL, and nothing else.
 *
 * The main thread commits one event and its outbox row to the journal at a steady rate and rings an
 * eventfd; a second thread with connections of its own reads what is queued, writes the views and
 * how far it is in the other file, commits, and deletes the rows. Everything is synced. A latency
 * is from before the append's BEGIN to after the COMMIT of the view. With rows=0 there are no
 * outbox rows: the worker goes by positions, and never waits for the appender's lock nor makes it
 * wait.
 */
#include "bench_support.h"

#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TAKE_MAX 256

static const char usage[] =
    "usage: floor_latency [rate=1000] [secs=5] [streams=1000] [rows=1] [seed=1]\n"
    "\n"
    "Appends `rate` events a second, one a commit, and measures how long each takes to its view.\n"
    "Prints one line of JSON. BENCH_DIR is the directory of the files.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp floor_latency secs=10\n";

static const char journal_schema[] =
    "create table events(pos integer primary key, stream text not null, seq integer not null,"
    " type text not null, data text not null, meta text not null, ts integer not null);"
    "create table outbox(pos integer primary key, attempts integer not null, due integer not null)";

static const char views_schema[] =
    "create table views(id text primary key, data text not null, version integer not null)"
    " without rowid;"
    "create table cursor(name text primary key, pos integer not null) without rowid";

typedef struct floor_run {
    int64_t rate, secs, streams, rows, seed;
    int64_t count; /* total number of events */
    bench_dir dir;
    int bell;
    uint64_t *begun; /* per event, from 1 on: written before its append, read after its view */
    _Atomic int64_t applied;
    bench_latency latency;
} floor_run;

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    return statement;
}

static void run(sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        bench_die("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(sqlite3_db_handle(statement)));
    (void)sqlite3_reset(statement);
}

static sqlite3 *open_file(const floor_run *f, const char *file)
{
    char path[BENCH_PATH_BYTES + 32];
    sqlite3 *db;

    (void)snprintf(path, sizeof path, "%s/%s", f->dir.path, file);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    (void)sqlite3_busy_timeout(db, 10000);
    run_sql(db, "pragma journal_mode=wal");
    run_sql(db, "pragma synchronous=full");
    return db;
}

static void close_file(sqlite3 *db)
{
    sqlite3_stmt *statement;

    while ((statement = sqlite3_next_stmt(db, NULL)) != NULL)
        (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
}

/* --- worker ------------------------------------------------------------------------------- */

typedef struct worker {
    sqlite3 *journal, *store;
    sqlite3_stmt *queued, *forget, *upsert, *cursor;
} worker;

static void worker_open(worker *w, const floor_run *f)
{
    w->journal = open_file(f, "journal.db");
    w->store = open_file(f, "views.db");
    w->queued = prepare(w->journal, f->rows ? "select o.pos, e.stream, e.seq, e.data from outbox o "
                                              "join events e on e.pos = o.pos "
                                              "where o.pos > ?2 order by o.pos limit ?1"
                                            : "select pos, stream, seq, data from events "
                                              "where pos > ?2 order by pos limit ?1");
    w->forget = prepare(w->journal, "delete from outbox where pos <= ?1");
    w->upsert = prepare(w->store, "insert into views(id, data, version) values(?1, ?2, ?3) "
                                  "on conflict(id) do update set data = excluded.data, "
                                  "version = excluded.version");
    w->cursor = prepare(w->store, "insert into cursor(name, pos) values('all', ?1) "
                                  "on conflict(name) do update set pos = excluded.pos");
}

/* Processes one batch and returns its size. */
static int64_t worker_step(worker *w, floor_run *f)
{
    int64_t count = 0, first = 0, last = 0;

    (void)sqlite3_bind_int64(w->queued, 1, TAKE_MAX);
    (void)sqlite3_bind_int64(w->queued, 2, atomic_load(&f->applied));
    while (sqlite3_step(w->queued) == SQLITE_ROW) {
        last = sqlite3_column_int64(w->queued, 0);
        if (count++ == 0) {
            first = last;
            run_sql(w->store, "begin immediate");
        }
        (void)sqlite3_bind_value(w->upsert, 1, sqlite3_column_value(w->queued, 1));
        (void)sqlite3_bind_value(w->upsert, 2, sqlite3_column_value(w->queued, 3));
        (void)sqlite3_bind_value(w->upsert, 3, sqlite3_column_value(w->queued, 2));
        run(w->upsert);
    }
    (void)sqlite3_reset(w->queued);
    if (count == 0)
        return 0;
    (void)sqlite3_bind_int64(w->cursor, 1, last);
    run(w->cursor);
    run_sql(w->store, "commit");
    uint64_t now = bench_now_ns();
    for (int64_t i = first; i <= last; i++)
        bench_latency_add(&f->latency, now - f->begun[i]);
    (void)sqlite3_bind_int64(w->forget, 1, last);
    if (f->rows)
        run(w->forget);
    atomic_store(&f->applied, last);
    return count;
}

static void *work(void *context)
{
    floor_run *f = context;
    worker w;
    uint64_t rung;

    worker_open(&w, f);
    while (atomic_load(&f->applied) < f->count && read(f->bell, &rung, sizeof rung) > 0)
        while (worker_step(&w, f) > 0)
            ;
    close_file(w.journal);
    close_file(w.store);
    return NULL;
}

/* --- appender ----------------------------------------------------------------------------- */

static void append_all(floor_run *f, sqlite3 *db)
{
    bench_rng rng = {(uint64_t)f->seed};
    sqlite3_stmt *event =
        prepare(db, "insert into events(pos, stream, seq, type, data, meta, ts) "
                    "values(?1, ?2, ?1, '" BENCH_TYPE "', ?3, '" BENCH_META "', 1700000000000000)");
    sqlite3_stmt *outbox =
        prepare(db, "insert into outbox(pos, attempts, due) values(?1, 0, 1700000000000000)");
    uint64_t start = bench_now_ns(), one = 1;

    for (int64_t i = 1; i <= f->count; i++) {
        char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
        uint64_t stream = bench_random_below(&rng, (uint64_t)f->streams);
        bench_sleep_until(start + (uint64_t)i * 1000000000 / (uint64_t)f->rate);
        f->begun[i] = bench_now_ns();
        run_sql(db, "begin immediate");
        (void)sqlite3_bind_int64(event, 1, i);
        (void)sqlite3_bind_text(event, 2, name, (int)bench_stream_name(name, stream), NULL);
        (void)sqlite3_bind_text(event, 3, data, (int)bench_payload(data, stream, (uint64_t)i),
                                NULL);
        run(event);
        (void)sqlite3_bind_int64(outbox, 1, i);
        if (f->rows)
            run(outbox);
        run_sql(db, "commit");
        if (write(f->bell, &one, sizeof one) != (ssize_t)sizeof one)
            bench_die("writing to the eventfd failed");
    }
}

int main(int argc, char **argv)
{
    floor_run f = {.rate = 1000, .secs = 5, .streams = 1000, .rows = 1, .seed = 1};
    bench_setting settings[] = {{.key = "rate", .number = &f.rate},
                                {.key = "secs", .number = &f.secs},
                                {.key = "streams", .number = &f.streams},
                                {.key = "rows", .number = &f.rows},
                                {.key = "seed", .number = &f.seed}};
    pthread_t thread;
    char name[96];

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    bench_settings(argc - 1, argv + 1, settings, sizeof settings / sizeof *settings);
    if (f.rate < 1 || f.secs < 1 || f.streams < 1)
        bench_die("rate, secs and streams must be at least 1");
    f.count = f.rate * f.secs;
    f.begun = bench_alloc((size_t)f.count + 1, sizeof *f.begun);
    f.bell = eventfd(0, 0);
    bench_dir_open(&f.dir, NULL);
    sqlite3 *db = open_file(&f, "journal.db"), *store = open_file(&f, "views.db");
    run_sql(db, journal_schema);
    run_sql(store, views_schema);
    close_file(store);
    if (f.bell < 0 || pthread_create(&thread, NULL, work, &f) != 0)
        bench_die("the worker could not be started");

    uint64_t start = bench_now_ns();
    append_all(&f, db);
    (void)pthread_join(thread, NULL);
    double elapsed = bench_secs_since(start);

    (void)snprintf(name, sizeof name, "latency rate=%" PRId64 " streams=%" PRId64 " rows=%" PRId64,
                   f.rate, f.streams, f.rows);
    bench_report("floor_latency", name, (uint64_t)f.count, elapsed, &f.latency);
    bench_latency_release(&f.latency);
    close_file(db);
    free(f.begun);
    bench_dir_close(&f.dir);
    return 0;
}
