/*
 * floor_views.c - the durable writes of a fold in plain SQL, and nothing else.
 *
 * What SQLite itself allows on this machine when events become views: a journal file and a file of
 * views, prepared statements, WAL, everything else at SQLite's defaults. The "fold" is the event's
 * own data, written as the view of its stream: no program, no hashes, no watermarks, no checks.
 *
 * rebuild  the journal from the first event on, into an empty file of views: one upsert per event,
 *          or (coalesce=1) one per stream and batch; one row says how far it has come
 * drain    the same in small batches for events that are queued: their outbox rows are read first
 *          and deleted after the views are written (rows=0: no outbox, only the cursor's row)
 * find     20 views from a random key of an index on; get: one view by its id
 */
#include "bench_support.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILL_BATCH 5000
#define TIME_US INT64_C(1700000000000000)

static const char usage[] =
    "usage: floor_views rebuild [n=1000000] [streams=1000] [batch=10000] [coalesce=0]\n"
    "                           [sync=normal]\n"
    "       floor_views drain [n=100000] [streams=1000] [batch=1000] [rows=1] [known=0]\n"
    "                         [any=0] [sync=full]\n"
    "       floor_views find|get [views=1000000] [n=20000] [limit=20]\n"
    "\n"
    "rebuild and drain count events, find and get calls. Prints one line of JSON; the latencies "
    "are\n"
    "of one batch or one call. The first events make a stream each, and all after them go to any\n"
    "stream; known=1 drains the first before the clock starts, any=1 does without them, so that a\n"
    "stream begins when it is first picked. BENCH_DIR is the directory of the files. All take "
    "seed=1.\n"
    "\n"
    "example: BENCH_DIR=/var/tmp floor_views rebuild streams=100000\n";

static const char journal_schema[] =
    "create table events(pos integer primary key, stream text not null, seq integer not null,"
    " type text not null, data text not null, meta text not null, ts integer not null);"
    "create table outbox(pos integer primary key, attempts integer not null, due integer not null)";

static const char views_schema[] =
    "create table views(id text primary key, data text not null, version integer not null)"
    " without rowid;"
    "create table cursor(name text primary key, pos integer not null) without rowid";

/* Views of several generations and tenants, and order-preserving keys: the same as in our store, so
 * that a query is the same SQL. */
static const char table_schema[] =
    "create table views(generation integer not null, tenant text not null, id text not null,"
    " data text not null, position integer not null, primary key(generation, tenant, id));"
    "create table keys(generation integer not null, tenant text not null, idx integer not null,"
    " key blob not null, id text not null, primary key(generation, tenant, idx, key, id))"
    " without rowid";

static const char find_sql[] =
    "select v.id, v.data, v.position from keys k cross join views v "
    "where k.generation = 1 and k.tenant = '' and k.idx = 0 and k.key >= ?1 "
    "and v.generation = k.generation and v.tenant = k.tenant and v.id = k.id "
    "order by k.key, k.id limit ?2";

static const char get_sql[] =
    "select id, data, position from views where generation = 1 and tenant = '' and id = ?1";

typedef struct floor_run {
    int64_t n, streams, batch, coalesce, rows, known, any, views, limit, seed;
    const char *sync;
    bool rebuild;

    bench_dir dir;
    sqlite3 *journal, *store;
    sqlite3_stmt *scan, *head, *event, *upsert, *cursor, *forget;
    int64_t *positions; /* of the current batch */
    int64_t reached;

    struct last *last; /* coalesce: one slot per stream */
    uint64_t *touched; /* slots that the batch has changed */
    size_t touched_count;
    uint64_t batch_number;
} floor_run;

/* The newest state of a stream within a batch. */
struct last {
    char id[BENCH_STREAM_BYTES];
    char data[BENCH_PAYLOAD_BYTES];
    int64_t seq;
    uint64_t batch_number;
};

/* Processor time of all threads: the cost of a run, independent of other load. */
static double cpu_secs(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* --- SQLite ----------------------------------------------------------------------------------- */

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

static void run(sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        bench_die("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(sqlite3_db_handle(statement)));
    (void)sqlite3_reset(statement);
}

static bool row(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);

    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        bench_die("%s: %s", sqlite3_sql(statement), sqlite3_errmsg(sqlite3_db_handle(statement)));
    return rc == SQLITE_ROW;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text, size_t bytes)
{
    (void)sqlite3_bind_text(statement, at, text, (int)bytes, SQLITE_STATIC);
}

static sqlite3 *open_file(const floor_run *f, const char *file, const char *schema)
{
    char path[BENCH_PATH_BYTES + 32];
    sqlite3 *db;

    (void)snprintf(path, sizeof path, "%s/%s", f->dir.path, file);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    run_sql(db, "pragma journal_mode=wal");
    run_sql(db,
            strcmp(f->sync, "full") == 0 ? "pragma synchronous=full" : "pragma synchronous=normal");
    run_sql(db, schema);
    return db;
}

static void close_file(sqlite3 *db)
{
    sqlite3_stmt *statement;

    while ((statement = sqlite3_next_stmt(db, NULL)) != NULL)
        (void)sqlite3_finalize(statement);
    if (sqlite3_close(db) != SQLITE_OK)
        bench_die("a file could not be closed");
}

/* --- filling ---------------------------------------------------------------------------------- */

/* The same events as bench_views: same streams in the same order, same data. */
static void fill_journal(floor_run *f)
{
    bench_picker picker = {.rng = {(uint64_t)f->seed},
                           .streams = (uint64_t)f->streams,
                           .untouched = f->any ? 0 : (uint64_t)f->streams};
    sqlite3 *db = open_file(f, "journal.db", journal_schema);
    sqlite3_stmt *event =
        prepare(db, "insert into events(pos, stream, seq, type, data, meta, ts) "
                    "values(?1, ?2, ?3, '" BENCH_TYPE "', ?4, '" BENCH_META "', ?5)");
    sqlite3_stmt *outbox =
        prepare(db, "insert into outbox(pos, attempts, due) values(?1, 0, 1700000000000000)");
    int64_t *seqs = bench_alloc((size_t)f->streams, sizeof *seqs);

    int64_t count = f->n + (f->known ? f->streams : 0);

    for (int64_t i = 0; i < count; i++) {
        char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
        uint64_t stream = bench_pick(&picker);
        if (i % FILL_BATCH == 0)
            run_sql(db, "begin");
        (void)sqlite3_bind_int64(event, 1, i + 1);
        bind_text(event, 2, name, bench_stream_name(name, stream));
        (void)sqlite3_bind_int64(event, 3, ++seqs[stream]);
        bind_text(event, 4, data, bench_payload(data, stream, (uint64_t)i));
        (void)sqlite3_bind_int64(event, 5, TIME_US + i);
        run(event);
        if (!f->rebuild && f->rows) {
            (void)sqlite3_bind_int64(outbox, 1, i + 1);
            run(outbox);
        }
        if ((i + 1) % FILL_BATCH == 0 || i + 1 == count)
            run_sql(db, "commit");
    }
    free(seqs);
    (void)sqlite3_finalize(event);
    (void)sqlite3_finalize(outbox);
    run_sql(db, "pragma wal_checkpoint(truncate)");
    close_file(db);
}

static void bind_key(sqlite3_stmt *statement, int at, unsigned char key[8], uint64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        key[i] = (unsigned char)number;
    (void)sqlite3_bind_blob(statement, at, key, 8, SQLITE_STATIC);
}

static void fill_table(floor_run *f)
{
    sqlite3 *db = open_file(f, "views.db", table_schema);
    sqlite3_stmt *view = prepare(db, "insert into views(generation, tenant, id, data, position) "
                                     "values(1, '', ?1, ?2, ?3)");
    sqlite3_stmt *entry = prepare(db, "insert into keys(generation, tenant, idx, key, id) "
                                      "values(1, '', 0, ?1, ?2)");

    for (int64_t i = 0; i < f->views; i++) {
        char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES];
        unsigned char key[8];
        if (i % FILL_BATCH == 0)
            run_sql(db, "begin");
        bind_text(view, 1, name, bench_stream_name(name, (uint64_t)i));
        bind_text(view, 2, data, bench_payload(data, (uint64_t)i, (uint64_t)i));
        (void)sqlite3_bind_int64(view, 3, i + 1);
        run(view);
        bind_key(entry, 1, key, (uint64_t)i);
        bind_text(entry, 2, name, strlen(name));
        run(entry);
        if ((i + 1) % FILL_BATCH == 0 || i + 1 == f->views)
            run_sql(db, "commit");
    }
    (void)sqlite3_finalize(view);
    (void)sqlite3_finalize(entry);
    run_sql(db, "pragma wal_checkpoint(truncate)");
    close_file(db);
}

/* --- rebuild and drain ------------------------------------------------------------------------ */

static void prepare_all(floor_run *f)
{
    f->journal = open_file(f, "journal.db", "select 1");
    f->store = open_file(f, "views.db", views_schema);
    f->scan = prepare(f->journal, "select pos, stream, seq, type, data from events "
                                  "where pos > ?1 order by pos limit ?2");
    f->head = prepare(f->journal, "select pos from outbox order by pos limit ?1");
    f->event =
        prepare(f->journal, "select pos, stream, seq, type, data from events where pos = ?1");
    f->forget = prepare(f->journal, "delete from outbox where pos = ?1");
    f->upsert = prepare(f->store, "insert into views(id, data, version) values(?1, ?2, ?3) "
                                  "on conflict(id) do update set data = excluded.data, "
                                  "version = excluded.version");
    f->cursor = prepare(f->store, "insert into cursor(name, pos) values('all', ?1) "
                                  "on conflict(name) do update set pos = excluded.pos");
    f->positions = bench_alloc((size_t)f->batch, sizeof *f->positions);
    if (f->coalesce) {
        f->last = bench_alloc((size_t)f->streams, sizeof *f->last);
        f->touched = bench_alloc((size_t)f->batch, sizeof *f->touched);
    }
}

static void write_view(floor_run *f, const char *id, const char *data, size_t bytes, int64_t seq)
{
    bind_text(f->upsert, 1, id, strlen(id));
    bind_text(f->upsert, 2, data, bytes);
    (void)sqlite3_bind_int64(f->upsert, 3, seq);
    run(f->upsert);
}

/* The number is in the name: "order-00000042". */
static void keep_last(floor_run *f, const char *id, const char *data, int64_t seq)
{
    uint64_t stream = strtoull(id + strlen("order-"), NULL, 10);
    struct last *last = &f->last[stream];

    if (last->batch_number != f->batch_number) {
        last->batch_number = f->batch_number;
        f->touched[f->touched_count++] = stream;
        memcpy(last->id, id, strlen(id) + 1);
    }
    memcpy(last->data, data, sizeof last->data);
    last->seq = seq;
}

static void take_event(floor_run *f, sqlite3_stmt *from)
{
    const char *id = (const char *)sqlite3_column_text(from, 1);
    const char *data = (const char *)sqlite3_column_text(from, 4);
    int64_t seq = sqlite3_column_int64(from, 2);

    f->reached = sqlite3_column_int64(from, 0);
    if (f->coalesce)
        keep_last(f, id, data, seq);
    else
        write_view(f, id, data, (size_t)sqlite3_column_bytes(from, 4), seq);
}

static int64_t take_by_cursor(floor_run *f)
{
    int64_t count = 0;

    (void)sqlite3_bind_int64(f->scan, 1, f->reached);
    (void)sqlite3_bind_int64(f->scan, 2, f->batch);
    for (; row(f->scan); count++)
        take_event(f, f->scan);
    (void)sqlite3_reset(f->scan);
    return count;
}

static int64_t take_by_rows(floor_run *f)
{
    int64_t count = 0;

    (void)sqlite3_bind_int64(f->head, 1, f->batch);
    while (row(f->head))
        f->positions[count++] = sqlite3_column_int64(f->head, 0);
    (void)sqlite3_reset(f->head);
    for (int64_t i = 0; i < count; i++) {
        (void)sqlite3_bind_int64(f->event, 1, f->positions[i]);
        if (!row(f->event))
            bench_die("there is no event at %" PRId64, f->positions[i]);
        take_event(f, f->event);
        (void)sqlite3_reset(f->event);
    }
    return count;
}

static void forget_rows(floor_run *f, int64_t count)
{
    run_sql(f->journal, "begin immediate");
    for (int64_t i = 0; i < count; i++) {
        (void)sqlite3_bind_int64(f->forget, 1, f->positions[i]);
        run(f->forget);
    }
    run_sql(f->journal, "commit");
}

static int64_t step(floor_run *f)
{
    bool by_rows = !f->rebuild && f->rows;
    int64_t count;

    f->batch_number++;
    f->touched_count = 0;
    run_sql(f->store, "begin immediate");
    count = by_rows ? take_by_rows(f) : take_by_cursor(f);
    for (size_t i = 0; i < f->touched_count; i++) {
        const struct last *last = &f->last[f->touched[i]];
        write_view(f, last->id, last->data, sizeof last->data, last->seq);
    }
    (void)sqlite3_bind_int64(f->cursor, 1, f->reached);
    run(f->cursor);
    run_sql(f->store, "commit");
    if (by_rows)
        forget_rows(f, count);
    return count;
}

static void floor_fold(floor_run *f)
{
    bench_latency latency = {0};
    int64_t done = 0, count = 1;
    char name[160];

    if (f->any && f->known)
        bench_die("known and any cannot be combined");
    if (f->n < f->streams || f->batch < 1 || (f->known && f->streams % f->batch != 0))
        bench_die(
            "n must be at least streams, batch at least 1, and known streams a multiple of batch");
    fill_journal(f);
    prepare_all(f);
    for (int64_t known = f->known ? f->streams : 0; known > 0 && count > 0; known -= count)
        count = step(f);
    double cpu = cpu_secs();
    uint64_t start = bench_now_ns();
    while (done < f->n && count > 0) {
        uint64_t begun = bench_now_ns();
        count = step(f);
        done += count;
        bench_latency_add(&latency, bench_now_ns() - begun);
    }
    double elapsed = bench_secs_since(start);
    (void)fprintf(stderr, "%.3f s of processor time\n", cpu_secs() - cpu);

    if (done != f->n)
        bench_die("%" PRId64 " of %" PRId64 " events were there", done, f->n);
    (void)snprintf(name, sizeof name,
                   "%s streams=%" PRId64 " batch=%" PRId64 " coalesce=%" PRId64 " rows=%" PRId64
                   " known=%" PRId64 " any=%" PRId64 " sync=%s",
                   f->rebuild ? "rebuild" : "drain", f->streams, f->batch, f->coalesce, f->rows,
                   f->known, f->any, f->sync);
    bench_report("floor_views", name, (uint64_t)done, elapsed, &latency);
    bench_latency_release(&latency);
    close_file(f->journal);
    close_file(f->store);
    free(f->positions);
    free(f->last);
    free(f->touched);
}

/* --- find and get ----------------------------------------------------------------------------- */

static void ask_once(sqlite3_stmt *statement, bool find, uint64_t number, int64_t limit)
{
    char name[BENCH_STREAM_BYTES];
    unsigned char key[8];
    int64_t rows = 0;

    if (find) {
        bind_key(statement, 1, key, number);
        (void)sqlite3_bind_int64(statement, 2, limit);
    } else {
        bind_text(statement, 1, name, bench_stream_name(name, number));
    }
    for (; row(statement); rows++)
        if (sqlite3_column_text(statement, 1) == NULL)
            bench_die("a view has no data");
    (void)sqlite3_reset(statement);
    if (rows != (find ? limit : 1))
        bench_die("%" PRId64 " rows were found", rows);
}

static void floor_ask(floor_run *f, bool find)
{
    bench_rng rng = {(uint64_t)f->seed};
    bench_latency latency = {0};
    char name[128];

    if (f->views <= f->limit || f->limit < 1)
        bench_die("views must be more than limit, limit at least 1");
    fill_table(f);
    f->store = open_file(f, "views.db", "select 1");
    sqlite3_stmt *statement = prepare(f->store, find ? find_sql : get_sql);
    double cpu = cpu_secs();
    uint64_t start = bench_now_ns();
    for (int64_t i = 0; i < f->n; i++) {
        uint64_t begun = bench_now_ns();
        ask_once(statement, find, bench_random_below(&rng, (uint64_t)(f->views - f->limit)),
                 f->limit);
        bench_latency_add(&latency, bench_now_ns() - begun);
    }
    double elapsed = bench_secs_since(start);
    (void)fprintf(stderr, "%.3f s of processor time\n", cpu_secs() - cpu);

    (void)snprintf(name, sizeof name, "%s views=%" PRId64 " limit=%" PRId64, find ? "find" : "get",
                   f->views, find ? f->limit : 1);
    bench_report("floor_views", name, (uint64_t)f->n, elapsed, &latency);
    bench_latency_release(&latency);
    close_file(f->store);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool rebuild = strcmp(what, "rebuild") == 0, drain = strcmp(what, "drain") == 0;
    bool find = strcmp(what, "find") == 0, get = strcmp(what, "get") == 0;
    floor_run f = {.n = rebuild ? 1000000
                        : drain ? 100000
                                : 20000,
                   .streams = 1000,
                   .batch = rebuild ? 10000 : 1000,
                   .rows = 1,
                   .views = 1000000,
                   .limit = 20,
                   .seed = 1,
                   .sync = drain ? "full" : "normal",
                   .rebuild = rebuild};
    bench_setting settings[] = {
        {.key = "n", .number = &f.n},         {.key = "streams", .number = &f.streams},
        {.key = "batch", .number = &f.batch}, {.key = "coalesce", .number = &f.coalesce},
        {.key = "rows", .number = &f.rows},   {.key = "views", .number = &f.views},
        {.key = "limit", .number = &f.limit}, {.key = "seed", .number = &f.seed},
        {.key = "known", .number = &f.known}, {.key = "any", .number = &f.any},
        {.key = "sync", .text = &f.sync}};

    if (strcmp(what, "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (!rebuild && !drain && !find && !get)
        bench_die("%s", usage);
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof *settings);
    bench_dir_open(&f.dir, NULL);
    if (rebuild || drain)
        floor_fold(&f);
    else
        floor_ask(&f, find);
    bench_dir_close(&f.dir);
    return 0;
}
