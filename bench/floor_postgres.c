/*
 * floor_postgres.c - the writes of a journal and of a drain on PostgreSQL, by libpq in plain SQL.
 *
 * The fastest way known to us that does the same durable work: binary arrays, prepared statements,
 * pipelined where possible. An append is one statement, a drain takes two round trips. Nothing is
 * checked or hashed, and there is no concurrency control. With ids=0 no id is stored; with ids=1
 * every event has a unique id, as an outbox whose consumers drop duplicates needs it. With json=1
 * data is jsonb, otherwise text.
 */
#include "bench_support.h"

#include "../src/postgres/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILL_BATCH 5000

static const char usage[] =
    "usage: floor_postgres append [n=100000] [batch=100] [streams=1000] [ids=0] [json=0]\n"
    "       floor_postgres drain [n=100000] [batch=1000] [streams=1000]\n"
    "\n"
    "BENCH_POSTGRES is the URL of an empty database. Prints one line of JSON; the latencies are "
    "of\n"
    "one transaction. Both take secs=60 and seed=1.\n"
    "\n"
    "example: BENCH_POSTGRES=$(script/postgres url) floor_postgres append\n";

static const char schema[] =
    "CREATE TABLE event(position bigserial PRIMARY KEY, stream text COLLATE \"C\" NOT NULL,"
    " seq bigint NOT NULL, type text NOT NULL, data text NOT NULL, meta text NOT NULL,"
    " recorded timestamptz NOT NULL DEFAULT now(), UNIQUE (stream, seq));"
    "CREATE TABLE outbox(position bigint PRIMARY KEY);"
    "CREATE TABLE view(id text COLLATE \"C\" PRIMARY KEY, data text NOT NULL, seq bigint NOT NULL)"
    " WITH (fillfactor = 80)";

static const char append_sql[] =
    "WITH e AS (INSERT INTO event(stream, seq, type, data, meta)"
    " SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[])"
    " RETURNING position) INSERT INTO outbox SELECT position FROM e";

/* With ids, which rise with time as those of the library. */
static const char id_schema[] =
    "ALTER TABLE event ADD COLUMN id text COLLATE \"C\" NOT NULL UNIQUE";

static const char append_id_sql[] =
    "WITH e AS (INSERT INTO event(stream, seq, type, data, meta, id) SELECT * FROM"
    " unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])"
    " RETURNING position) INSERT INTO outbox SELECT position FROM e";

/* With data as jsonb. */
static const char json_schema[] =
    "ALTER TABLE event ALTER data TYPE jsonb USING data::jsonb, ALTER meta TYPE jsonb USING "
    "meta::jsonb";

static const char append_json_sql[] =
    "WITH e AS (INSERT INTO event(stream, seq, type, data, meta)"
    " SELECT stream, seq, type, data::jsonb, meta::jsonb FROM"
    " unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[])"
    " AS u(stream, seq, type, data, meta)"
    " RETURNING position) INSERT INTO outbox SELECT position FROM e";

static const char take_sql[] =
    "WITH d AS (DELETE FROM outbox WHERE position IN (SELECT position FROM outbox"
    " ORDER BY position LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING position)"
    "SELECT e.position, e.stream, e.seq, e.type, e.data, e.meta"
    "  FROM d JOIN event e USING (position) ORDER BY e.position";

static const char put_sql[] =
    "INSERT INTO view AS v SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])"
    " ON CONFLICT (id) DO UPDATE SET data = excluded.data, seq = excluded.seq"
    " WHERE v.seq < excluded.seq";

typedef struct floor_run {
    int64_t n, batch, streams, secs, seed, ids, json;
    PGconn *pg;
    bench_picker picker;
    bench_rng id_rng;
    uint64_t id_last_ns;
    int64_t *seqs;
    int64_t done;
} floor_run;

static PGresult *need(const floor_run *run, PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_PIPELINE_SYNC:
        return result;
    default:
        bench_die("postgres: %s", PQerrorMessage(run->pg));
    }
}

static void execute(const floor_run *run, const char *sql)
{
    PQclear(need(run, PQexec(run->pg, sql)));
}

static void prepare(const floor_run *run, const char *name, const char *sql)
{
    PQclear(need(run, PQprepare(run->pg, name, sql, 0, NULL)));
}

static void send(const floor_run *run, const char *name, const ef__pg_params *p)
{
    if (p->failed ||
        !PQsendQueryPrepared(run->pg, name, p->count, p->values, p->lengths, p->formats, 1))
        bench_die("send: %s", PQerrorMessage(run->pg));
}

static void send_text(const floor_run *run, const char *sql)
{
    if (!PQsendQueryParams(run->pg, sql, 0, NULL, NULL, NULL, NULL, 1))
        bench_die("send: %s", PQerrorMessage(run->pg));
}

/* Receives the result of the statement that was sent first. */
static PGresult *take(const floor_run *run)
{
    PGresult *result = need(run, PQgetResult(run->pg));

    while (PQresultStatus(result) != PGRES_PIPELINE_SYNC && PQgetResult(run->pg))
        bench_die("a statement has two results");
    return result;
}

static void sync_and_take(const floor_run *run, int count)
{
    if (!PQpipelineSync(run->pg))
        bench_die("sync: %s", PQerrorMessage(run->pg));
    for (int i = 0; i <= count; i++)
        PQclear(take(run));
}

static void open_floor(floor_run *run)
{
    const char *url = getenv("BENCH_POSTGRES");

    if (!url)
        bench_die("BENCH_POSTGRES is not set; see --help");
    run->pg = PQconnectdb(url);
    if (PQstatus(run->pg) != CONNECTION_OK)
        bench_die("%s", PQerrorMessage(run->pg));
    execute(run, schema);
    if (run->ids)
        execute(run, id_schema);
    if (run->json)
        execute(run, json_schema);
    run->id_rng.state = ~(uint64_t)run->seed;
    prepare(run, "append", run->ids ? append_id_sql : run->json ? append_json_sql : append_sql);
    prepare(run, "take", take_sql);
    prepare(run, "put", put_sql);
    run->picker = (bench_picker){.rng = {(uint64_t)run->seed}, .streams = (uint64_t)run->streams};
    run->seqs = bench_alloc((size_t)run->streams, sizeof *run->seqs);
    (void)PQenterPipelineMode(run->pg);
}

static void close_floor(floor_run *run)
{
    PQfinish(run->pg);
    free(run->seqs);
}

/* --- append ----------------------------------------------------------------------------------- */

static void append_batch(floor_run *run, int64_t count)
{
    ef__pg_array columns[6] = {0};
    int width = run->ids ? 6 : 5;
    ef__pg_params params = {0};

    for (int64_t i = 0; i < count; i++) {
        char name[BENCH_STREAM_BYTES], data[BENCH_PAYLOAD_BYTES], id[BENCH_ID_BYTES];
        uint64_t stream = bench_pick(&run->picker);
        ef__pg_array_str(&columns[0], (ef_str){name, bench_stream_name(name, stream)});
        ef__pg_array_int(&columns[1], ++run->seqs[stream]);
        ef__pg_array_str(&columns[2], EF_STR(BENCH_TYPE));
        ef__pg_array_str(&columns[3],
                         (ef_str){data, bench_payload(data, stream, (uint64_t)++run->done)});
        ef__pg_array_str(&columns[4], EF_STR(BENCH_META));
        if (run->ids)
            ef__pg_array_str(&columns[5],
                             (ef_str){id, bench_id_ordered(id, &run->id_rng, &run->id_last_ns)});
    }
    for (int c = 0; c < width; c++)
        ef__pg_add_array_of(&params, &columns[c], c == 1 ? EF__PG_INT : EF__PG_TEXT);
    send(run, "append", &params);
    sync_and_take(run, 1);
    for (int c = 0; c < width; c++)
        ef__pg_array_release(&columns[c]);
}

static void floor_append(floor_run *run, bench_latency *latency)
{
    uint64_t start = bench_now_ns();

    while (run->done < run->n && bench_secs_since(start) < (double)run->secs) {
        uint64_t begun = bench_now_ns();
        append_batch(run, run->batch);
        bench_latency_add(latency, bench_now_ns() - begun);
    }
}

/* --- drain ------------------------------------------------------------------------------------ */

/* Writes one row per stream: the last event of each. */
static void put_views(floor_run *run, const PGresult *rows, int64_t *last)
{
    ef__pg_array columns[3] = {0};
    ef__pg_params params = {0};
    int count = PQntuples(rows);

    for (int i = 0; i < count; i++)
        last[strtoll(PQgetvalue(rows, i, 1) + strlen("order-"), NULL, 10)] = i + 1;
    for (int64_t s = 0; s < run->streams; s++) {
        int i = (int)last[s] - 1;
        last[s] = 0;
        if (i < 0)
            continue;
        ef__pg_array_str(&columns[0], ef__pg_str(rows, i, 1));
        ef__pg_array_str(&columns[1], ef__pg_str(rows, i, 4));
        ef__pg_array_int(&columns[2], ef__pg_int(rows, i, 2));
    }
    for (int c = 0; c < 3; c++)
        ef__pg_add_array_of(&params, &columns[c], c == 2 ? EF__PG_INT : EF__PG_TEXT);
    send(run, "put", &params);
    send_text(run, "COMMIT");
    sync_and_take(run, 2);
    for (int c = 0; c < 3; c++)
        ef__pg_array_release(&columns[c]);
}

static int drain_batch(floor_run *run, int64_t *last)
{
    ef__pg_params params = {0};
    PGresult *rows;
    int count;

    ef__pg_add_int(&params, run->batch);
    send_text(run, "BEGIN");
    send(run, "take", &params);
    if (!PQpipelineSync(run->pg))
        bench_die("sync: %s", PQerrorMessage(run->pg));
    PQclear(take(run));
    rows = take(run);
    PQclear(take(run));
    count = PQntuples(rows);
    put_views(run, rows, last);
    PQclear(rows);
    return count;
}

static void floor_drain(floor_run *run, bench_latency *latency)
{
    int64_t *last = bench_alloc((size_t)run->streams, sizeof *last), drained = 0;
    int count;

    do {
        uint64_t begun = bench_now_ns();
        count = drain_batch(run, last);
        if (count)
            bench_latency_add(latency, bench_now_ns() - begun);
        drained += count;
    } while (count);
    if (drained != run->n)
        bench_die("%" PRId64 " of %" PRId64 " were drained", drained, run->n);
    free(last);
}

static void measure(floor_run *run, bool drain)
{
    bench_latency latency = {0};
    char name[128];
    uint64_t start;
    double secs;

    open_floor(run);
    if (drain) {
        run->picker.untouched = run->picker.streams;
        while (run->done < run->n)
            append_batch(run, run->n - run->done < FILL_BATCH ? run->n - run->done : FILL_BATCH);
        (void)PQexitPipelineMode(run->pg);
        execute(run, "VACUUM ANALYZE");
        execute(run, "CHECKPOINT");
        (void)PQenterPipelineMode(run->pg);
    }
    start = bench_now_ns();
    if (drain)
        floor_drain(run, &latency);
    else
        floor_append(run, &latency);
    secs = bench_secs_since(start);
    (void)snprintf(name, sizeof name, "%s batch=%" PRId64 " streams=%" PRId64 "%s",
                   drain ? "drain" : "append", run->batch, run->streams,
                   run->ids    ? " ids=1"
                   : run->json ? " json=1"
                               : "");
    bench_report("floor_postgres", name, (uint64_t)run->done, secs, &latency);
    bench_latency_release(&latency);
    close_floor(run);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool drain = strcmp(what, "drain") == 0;
    floor_run run = {
        .n = 100000, .batch = drain ? 1000 : 100, .streams = 1000, .secs = 60, .seed = 1};
    bench_setting settings[] = {{.key = "n", .number = &run.n},
                                {.key = "batch", .number = &run.batch},
                                {.key = "streams", .number = &run.streams},
                                {.key = "ids", .number = &run.ids},
                                {.key = "json", .number = &run.json},
                                {.key = "secs", .number = &run.secs},
                                {.key = "seed", .number = &run.seed}};

    if (strcmp(what, "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (!drain && strcmp(what, "append") != 0)
        bench_die("%s", usage);
    bench_settings(argc - 2, argv + 2, settings, sizeof settings / sizeof *settings);
    if (run.json && (drain || run.ids))
        bench_die("json=1 is for append, without ids");
    if (run.batch < 1 || run.streams < 1)
        bench_die("batch and streams must be at least 1");
    measure(&run, drain);
    return 0;
}
