/*
 * store.c - the PostgreSQL journal: opening, the journal as a whole, and its table of functions.
 */
#include "store.h"

#include "../../base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_EVERY_MS 500 /* whoever waits looks at least so often: a word may be lost */

static const ef__journal_ops postgres_ops;
static const ef__pg_texts TEXTS = {.sql = pj_sql, .names = pj_names, .count = PJ_COUNT};

/* --- shared ----------------------------------------------------------------------------------- */

void pg_add_clock(const pg_store *store, ef__pg_params *params)
{
    const ef_clock *clock = store->base.options.clock;

    if (store->given_clock)
        ef__pg_add_int(params, clock->wall_us(clock->context));
    else
        ef__pg_add_null(params, EF__PG_INT);
}

void pg_saw(pg_store *store, int64_t position)
{
    int64_t seen = atomic_load(&store->seen);

    while (position > seen && !atomic_compare_exchange_weak(&store->seen, &seen, position))
        continue;
}

ef_status pg_write(pg_store *store, ef__pg_work work, void *context, ef_error *err)
{
    ef_status st = ef__pg_transaction(store->pool, EF__PG_WRITE, work, context, err);

    if (st == EF_OK)
        atomic_fetch_add(&store->commits, 1);
    return pg_refused(store, st);
}

ef_status pg_write_again(pg_store *store, ef__pg_work work, void *context, ef_error *err)
{
    ef_status st = pg_write(store, work, context, err);

    for (int tries = 0; st == EF_UNSURE && tries < 3; tries++)
        st = pg_write(store, work, context, err);
    return st;
}

ef_status pg_write_with(pg_store *store, ef__pg_conn *conn, ef__pg_work work, void *context,
                        ef_error *err)
{
    return pg_refused(store, ef__pg_as(conn, ef__pg_pool_texts(store->pool), work, context, err));
}

static ef_status pg_database(ef_journal *journal, char out[EF__JOURNAL_DATABASE_MAX], ef_error *err)
{
    _Static_assert((int)EF__JOURNAL_DATABASE_MAX == (int)EF__PG_DATABASE_MAX, "they hold the same");
    return ef__pg_database(pg_store_of(journal)->pool, out, err);
}

ef_status pg_refused(pg_store *store, ef_status st)
{
    if (st == EF_LEASE_LOST)
        atomic_fetch_add(&store->stale_refused, 1);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* A server that was put in the place of the one we knew has to hold the same journal, with all that
 * was ever answered. */
static ef_status greet(void *context, ef__pg_conn *conn, ef_error *err)
{
    pg_store *store = context;
    int64_t seen = atomic_load(&store->seen), there = 0;
    PGresult *state = NULL, *last = NULL;
    ef_status st;

    if (!store->journal_id[0])
        return EF_OK;
    st = ef__pg_send(conn, PJ_STATE_GET, NULL, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_EVENT_LAST, NULL, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, &state, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, &last, err);
    if (st == EF_OK && PQntuples(last))
        there = ef__pg_int(last, 0, 0);
    if (st == EF_OK && (PQntuples(state) == 0 ||
                        !ef_str_equal(ef__pg_str(state, 0, 0), ef_str_from(store->journal_id))))
        st = ef_fail(err, EF_WRONG_STORE, "the server now holds another journal than %s",
                     store->journal_id);
    if (st == EF_OK && there < seen)
        st = ef_fail_numbers(err, EF_DAMAGED, seen, there,
                             "the server's journal ends at position %" PRId64 " and %" PRId64
                             " was acknowledged: it is an older copy",
                             there, seen);
    PQclear(state);
    PQclear(last);
    return st;
}

static ef_status set_partitions(void *context, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, *(const int32_t *)context);
    return ef__pg_query(conn, PJ_STATE_SET, &params, NULL, err);
}

static ef_status make_schema(pg_store *store, const ef_journal_options *options, int done,
                             ef_error *err)
{
    int32_t partitions = options->partitions;
    ef_status st = ef__pg_migrate(store->pool, "journal", pj_migrations, pj_migration_count, err);

    if (st == EF_OK && done == 0)
        st = ef__pg_transaction(store->pool, EF__PG_WRITE, set_partitions, &partitions, err);
    return st;
}

/* --- is it a copy ------------------------------------------------------------------------------
 */

typedef struct moving {
    pg_store *store;
    const char *database;
} moving;

/* A dump takes leases, workers and what is in flight along, but none of these processes works here.
 */
static ef_status move_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    moving *m = context;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    bool is_copy;
    ef_status st;

    ef__pg_add_str(&params, ef_str_from(m->database));
    pg_add_clock(m->store, &params);
    st = ef__pg_query(conn, PJ_STATE_MOVED, &params, &result, err);
    is_copy = st == EF_OK && PQntuples(result) > 0 && ef__pg_bool(result, 0, 0);
    PQclear(result);
    if (is_copy)
        st = ef__pg_send(conn, PJ_COPY_DROP_LEASES, NULL, err);
    if (is_copy && st == EF_OK)
        st = ef__pg_send(conn, PJ_COPY_DROP_WORKERS, NULL, err);
    if (is_copy && st == EF_OK)
        st = ef__pg_send(conn, PJ_COPY_RELEASE_BATCHES, NULL, err);
    return is_copy && st == EF_OK ? ef__pg_take_all(conn, err) : st;
}

/* Where the journal is, noted once and compared at every open. A role that may not write leaves it
 * to one that may. */
static ef_status note_database(pg_store *store, ef_error *err)
{
    char database[EF__PG_DATABASE_MAX];
    ef_error ignored = EF_ERROR_INIT;
    PGresult *result = NULL;
    ef_status st = ef__pg_database(store->pool, database, err);
    bool known;

    if (st != EF_OK || database[0] == '\0')
        return st;
    st = ef__pg_read(store->pool, PJ_STATE_DATABASE, NULL, &result, err);
    known = st == EF_OK && ef_str_equal(ef__pg_str(result, 0, 0), ef_str_from(database));
    PQclear(result);
    if (st != EF_OK || known)
        return st;
    st = ef__pg_transaction(store->pool, EF__PG_WRITE, move_work, &(moving){store, database},
                            &ignored);
    if (st != EF_OK && st != EF_MISUSE && err)
        *err = ignored;
    return st == EF_MISUSE ? EF_OK : st;
}

static ef_status pg_copied_get(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_read(pg_store_of(journal)->pool, PJ_STATE_COPIED, NULL, &result, err);

    *out_us = st == EF_OK ? ef__pg_int(result, 0, 0) : 0;
    PQclear(result);
    return st;
}

static ef_status adopt_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    (void)context;
    return ef__pg_query(conn, PJ_STATE_ADOPT, NULL, NULL, err);
}

static ef_status pg_adopt(ef_journal *journal, ef_error *err)
{
    return ef__pg_transaction(pg_store_of(journal)->pool, EF__PG_WRITE, adopt_work, NULL, err);
}

static ef_status open_schema(pg_store *store, const ef_journal_options *options, ef_error *err)
{
    PGresult *result = NULL;
    int done;
    ef_status st = ef__pg_migrated(store->pool, "journal", &done, err);

    if (st != EF_OK)
        return st;
    if (done > pj_migration_count)
        return ef_fail_numbers(err, EF_NEWER_SCHEMA, pj_migration_count, done,
                               "the journal's schema is at %d and this Everfold knows %d: use a "
                               "newer one",
                               done, pj_migration_count);
    if (done == 0 && !options->create)
        return ef_fail(err, EF_NOT_FOUND, "the database has no journal: there is no schema %s",
                       ef__pg_pool_schemas(store->pool)->journal);
    if (done < pj_migration_count && options->read_only)
        return ef_fail(err, EF_MISUSE, "the schema is at %d, it has to be migrated to %d first",
                       done, pj_migration_count);
    if (done < pj_migration_count)
        st = make_schema(store, options, done, err);
    if (st == EF_OK)
        st = ef__pg_read(store->pool, PJ_STATE_GET, NULL, &result, err);
    if (st == EF_OK)
        (void)snprintf(store->journal_id, sizeof store->journal_id, "%.*s",
                       EF_STR_ARG(ef__pg_str(result, 0, 0)));
    PQclear(result);
    return st == EF_OK && !options->read_only ? note_database(store, err) : st;
}

static void store_close(ef_journal *journal)
{
    pg_store *store = pg_store_of(journal);

    ef__pg_pool_put(store->pool, store->listener);
    ef__pg_pool_close(store->pool);
    for (size_t i = 0; i < store->lane_count; i++)
        free(store->lanes[i].name);
    free(store->lanes);
    pg_guess_release(&store->guess);
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

static void locks_init(pg_store *store)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&store->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&store->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

ef_status ef__journal_postgres_open(const ef_journal_options *options, ef_journal **out,
                                    ef_error *err)
{
    pg_store *store = calloc(1, sizeof *store);
    ef__pg_pool_options pool = {.url = options->url,
                                .texts = &TEXTS,
                                .busy_ms = options->busy_ms,
                                .log = options->log,
                                .greet = greet,
                                .context = store};
    ef_status st;

    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a journal");
    store->base = (ef_journal){.ops = &postgres_ops, .options = *options};
    store->given_clock = options->clock != ef_clock_system();
    store->last = &store->first;
    locks_init(store);
    pg_guess_init(&store->guess);
    st = ef__pg_pool_open(&pool, &store->pool, err);
    if (st == EF_OK)
        st = open_schema(store, options, err);
    if (st != EF_OK) {
        store_close(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}

ef_status ef__journal_postgres_schema(const char *url, ef__buf *out, ef_error *err)
{
    return ef__pg_migration_text(url, "journal", pj_migrations, pj_migration_count, out, err);
}

/* --- the journal as a whole ------------------------------------------------------------------- */

ef_status pg_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    PGresult *result = NULL;
    ef_status st = pg_read(store, PJ_EVENT_LAST, NULL, &result, err);

    *out = (ef_head){0};
    if (st == EF_OK && PQntuples(result)) {
        ef_str hash = ef__pg_str(result, 0, 2);
        out->position = ef__pg_int(result, 0, 0);
        out->recorded_us = ef__pg_int(result, 0, 1);
        if (hash.len == sizeof out->hash)
            memcpy(out->hash, hash.ptr, hash.len);
        pg_saw(store, out->position);
    }
    PQclear(result);
    return st;
}

static int64_t mono_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

/* Listen for a while with the store's one listener. A failure is no matter: who waits looks again.
 */
static bool listen_for(pg_store *store, int64_t ms)
{
    bool heard = false;

    if (!store->listener && ef__pg_pool_get(store->pool, &store->listener, NULL) == EF_OK &&
        ef__pg_listen(store->listener, ef__pg_pool_schemas(store->pool)->journal, NULL) != EF_OK) {
        ef__pg_pool_put(store->pool, store->listener);
        store->listener = NULL;
    } else if (store->listener && ef__pg_hear(store->listener, ms, &heard, NULL) != EF_OK) {
        ef__pg_pool_put(store->pool, store->listener);
        store->listener = NULL;
    }
    if (!store->listener)
        (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000000}, NULL);
    return heard;
}

/* One of those who wait listens, the others wait for it. */
static void rest(pg_store *store, int64_t ms)
{
    int64_t until_ms = mono_ms() + ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    bool heard;

    (void)pthread_mutex_lock(&store->lock);
    if (store->listening) {
        (void)pthread_cond_timedwait(&store->changed, &store->lock, &until);
        (void)pthread_mutex_unlock(&store->lock);
        return;
    }
    store->listening = true;
    (void)pthread_mutex_unlock(&store->lock);
    heard = listen_for(store, ms);
    (void)pthread_mutex_lock(&store->lock);
    store->listening = false;
    store->heard += heard;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
}

/* A nudge is a word on the channel on which appends speak too: those who mind nudges look once more
 * after an append, which they would anyway. */
static bool is_nudged(pg_store *store, int64_t *nudge)
{
    bool nudged;

    if (!nudge)
        return false;
    (void)pthread_mutex_lock(&store->lock);
    nudged = *nudge != store->heard;
    *nudge = store->heard;
    (void)pthread_mutex_unlock(&store->lock);
    return nudged;
}

static ef_status pg_nudge(ef_journal *journal, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = pg_read(pg_store_of(journal), PJ_NOTIFY, NULL, &result, err);

    PQclear(result);
    return st;
}

ef_status pg_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                  ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    int64_t until_ms = mono_ms() + timeout_ms, left;
    ef_head head;
    ef_status st;

    for (;;) {
        if (is_nudged(store, nudge))
            return EF_OK;
        st = pg_head(journal, &head, err);
        if (st != EF_OK || head.position > after)
            return st;
        left = until_ms - mono_ms();
        if (left <= 0)
            return ef_fail(err, EF_TIMEOUT, "no event above position %" PRId64 " in %" PRId64 " ms",
                           after, timeout_ms);
        rest(store, left < LOOK_EVERY_MS ? left : LOOK_EVERY_MS);
    }
}

ef_status pg_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    PGresult *result = NULL;
    ef_status st = pg_read(store, PJ_FACTS, NULL, &result, err);

    *out = (ef_store_facts){.backend = "postgres",
                            .schema = pj_migration_count,
                            .wal_bytes = -1,
                            .free_bytes = -1,
                            .checkpoints = -1,
                            .checkpoint_errors = -1};
    if (st == EF_OK) {
        bool sound = ef__pg_bool(result, 0, 5) && ef__pg_bool(result, 0, 6);
        (void)snprintf(out->version, sizeof out->version, "%.*s",
                       EF_STR_ARG(ef__pg_str(result, 0, 4)));
        (void)snprintf(out->journal_id, sizeof out->journal_id, "%.*s",
                       EF_STR_ARG(ef__pg_str(result, 0, 0)));
        (void)snprintf(out->durability, sizeof out->durability,
                       "answers survive: process crash yes, power loss %s; fsync %s, "
                       "full_page_writes %s, synchronous_commit %.*s%s",
                       sound ? "yes" : "NO", ef__pg_bool(result, 0, 5) ? "on" : "OFF",
                       ef__pg_bool(result, 0, 6) ? "on" : "OFF",
                       EF_STR_ARG(ef__pg_str(result, 0, 7)),
                       ef__pg_bool(result, 0, 8) ? ", synchronous standbys" : "");
        out->power_loss_unsafe = !sound;
        out->partitions = (int32_t)ef__pg_int(result, 0, 1);
        out->store_bytes = ef__pg_int(result, 0, 2);
        out->streams = ef__pg_int(result, 0, 3);
    }
    PQclear(result);
    out->commits = atomic_load(&store->commits);
    out->appended = atomic_load(&store->appended);
    out->stale_refused = atomic_load(&store->stale_refused);
    return st;
}

static ef_status pg_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_read(pg_store_of(journal)->pool, PJ_STATE_GET, NULL, &result, err);

    if (st == EF_OK)
        *out = (int32_t)ef__pg_int(result, 0, 1);
    PQclear(result);
    return st;
}

static const ef__journal_ops postgres_ops = {
    .name = "postgres",
    .caps = EF__JOURNAL_MANY_PROCESSES | EF__JOURNAL_DURABLE | EF__JOURNAL_REMOTE,
    .close = store_close,
    .append = pg_append_events,
    .append_each = pg_append_each,
    .read_stream = pg_read_stream,
    .read_log = pg_read_log,
    .read_id = pg_read_id,
    .wait = pg_wait,
    .nudge = pg_nudge,
    .head = pg_head,
    .stream_head = pg_stream_head,
    .stream_ls = pg_stream_ls,
    .type_set = pg_type_set,
    .type_ls = pg_type_ls,
    .verify = pg_verify,
    .facts = pg_facts,
    .partition_count = pg_partition_count,
    .lane_set = pg_lane_set,
    .lane_ls = pg_lane_ls,
    .lane_drop = pg_lane_drop,
    .published_purge = pg_published_purge,
    .published_again = pg_published_again,
    .published_count = pg_published_count,
    .take = pg_take,
    .mark = pg_mark,
    .mark_with = pg_mark_with,
    .database = pg_database,
    .copied_get = pg_copied_get,
    .adopt = pg_adopt,
    .outbox_ls = pg_outbox_ls,
    .outbox_summarise = pg_outbox_summarise,
    .outbox_waits = pg_outbox_waits,
    .retry_streams = pg_retry_streams,
    .revise = pg_revise,
    .skip_add = pg_skip_add,
    .skip_ls = pg_skip_ls,
    .act_add = pg_act_add,
    .act_ls = pg_act_ls,
    .lease_many = pg_lease_many,
    .throughput_ls = pg_throughput_ls,
    .lease_ls = pg_lease_ls,
    .worker_leave = pg_worker_leave,
    .worker_purge = pg_worker_purge,
    .worker_ls = pg_worker_ls,
    .partition_ls = pg_partition_ls,
    .partition_sync = pg_partition_sync,
    .run_request = pg_run_request,
    .run_update = pg_run_update,
    .run_cancel = pg_run_cancel,
    .run_ls = pg_run_ls,
};
