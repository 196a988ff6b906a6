/*
 * store.c - the PostgreSQL journal: opening, waiting, facts, and its table of functions.
 */
#include "store.h"

#include "../../base/deadline.h"
#include "../../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LANES_BYTES (1 << 20) /* of cached lanes; others are looked up */
/* A notification can be lost, and an append by SQL sends none: so a waiting thread polls too, at
 * intervals that grow while nothing happens. */
#define POLL_MS 2
#define POLL_MAX_MS 250
#define SLEEP_MS 8 /* a shorter wait polls and is not notified */

static const ef__pg_statements STATEMENTS = {.sql = pj_sql, .names = pj_names, .count = PJ_COUNT};

/* --- shared ----------------------------------------------------------------------------------- */

ef__pg_clock pg_clock(const pg_store *store)
{
    const ef_clock *clock = store->base.options.clock;

    if (!store->given_clock)
        return (ef__pg_clock){0};
    return (ef__pg_clock){.is_given = true, .now_us = clock->wall_us(clock->context)};
}

ef_status pg_clock_now(const pg_store *store, ef__pg_on on, int64_t *out, ef_error *err)
{
    return pj_one_clock(on, pg_clock(store), out, NULL, err);
}

static ef_status read_log(void *store, int which, const ef__pg_params *params, PGresult **out,
                          ef_error *err)
{
    return pg_read(store, which, params, out, err);
}

static ef_status run_write(void *store, int which, const ef__pg_params *params, PGresult **out,
                           ef_error *err)
{
    return pg_write(store, ef__pg_run_statement, &(ef__pg_statement){which, params, out}, err);
}

static ef_status run_idempotent(void *store, int which, const ef__pg_params *params, PGresult **out,
                                ef_error *err)
{
    return pg_write_idempotent(store, ef__pg_run_statement, &(ef__pg_statement){which, params, out},
                               err);
}

ef__pg_on pg_on_log(pg_store *store)
{
    return (ef__pg_on){.run = read_log, .context = store};
}

ef__pg_on pg_on_write(pg_store *store)
{
    return (ef__pg_on){.run = run_write, .context = store};
}

ef__pg_on pg_on_write_idempotent(pg_store *store)
{
    return (ef__pg_on){.run = run_idempotent, .context = store};
}

/* Wakes the threads of this process that wait for it. */
void pg_record_seen(pg_store *store, int64_t position)
{
    int64_t seen = atomic_load(&store->seen);

    while (position > seen && !atomic_compare_exchange_weak(&store->seen, &seen, position))
        continue;
    if (position <= seen)
        return;
    (void)pthread_mutex_lock(&store->lock);
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
}

ef_status pg_write(pg_store *store, ef__pg_work work, void *context, ef_error *err)
{
    ef_status st = ef__pg_transaction(store->pool, EF__PG_WRITE, work, context, err);

    if (st == EF_OK)
        atomic_fetch_add(&store->commits, 1);
    return pg_count_refused(store, st);
}

ef_status pg_write_idempotent(pg_store *store, ef__pg_work work, void *context, ef_error *err)
{
    ef_status st = pg_write(store, work, context, err);

    for (int tries = 0; st == EF_UNSURE && tries < 3; tries++)
        st = pg_write(store, work, context, err);
    return st;
}

ef_status pg_write_with(pg_store *store, ef__pg_conn *conn, ef__pg_work work, void *context,
                        ef_error *err)
{
    return pg_count_refused(store, ef__pg_with_statements(conn, ef__pg_pool_statements(store->pool),
                                                          work, context, err));
}

static ef_status pg_database(ef_journal *journal, char out[EF__JOURNAL_DATABASE_MAX], ef_error *err)
{
    _Static_assert((int)EF__JOURNAL_DATABASE_MAX == (int)EF__PG_DATABASE_MAX, "they hold the same");
    return ef__pg_database(pg_store_of(journal)->pool, out, err);
}

ef_status pg_count_refused(pg_store *store, ef_status st)
{
    if (st == EF_LEASE_LOST)
        atomic_fetch_add(&store->stale_refused, 1);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* A new connection must lead to the same journal, with every position that was returned: a failover
 * can lead to an older copy. */
static ef_status check_server(void *context, ef__pg_conn *conn, ef_error *err)
{
    pg_store *store = context;
    int64_t seen = atomic_load(&store->seen);
    ef_head last = {0};
    struct pj_state_get_row state = {0};
    ef__pg_rows states;
    ef_status st;

    atomic_fetch_add(&store->connections, 1);
    if (!store->journal_id[0])
        return EF_OK;
    st = ef__pg_send(conn, PJ_STATE_GET, NULL, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_EVENT_LAST, NULL, err);
    if (st != EF_OK)
        return st;
    states = ef__pg_rows_receive(conn, NULL, err);
    if (states.status == EF_OK)
        states.status = pj_receive_event_last(conn, &last, NULL, err);
    if (states.status == EF_OK && (!pj_next_state_get(&states, &state) ||
                                   !ef_str_equal(state.journal_id, ef_str_from(store->journal_id))))
        states.status = ef_fail(err, EF_WRONG_STORE, "the server has another journal than %s",
                                store->journal_id);
    if (states.status == EF_OK && last.position < seen)
        states.status = ef_fail_numbers(err, EF_DAMAGED, seen, last.position,
                                        "the journal of the server ends at position %" PRId64
                                        ", but %" PRId64 " was acknowledged: it is an older copy",
                                        last.position, seen);
    return ef__pg_rows_end(&states);
}

static ef_status create_schema(pg_store *store, const ef_journal_options *options, int done,
                               ef_error *err)
{
    ef_status st = ef__pg_migrate(store->pool, "journal", pj_migrations, pj_migration_count, err);

    if (st == EF_OK && done == 0)
        st = pj_run_state_partitions_set(ef__pg_on_write(store->pool), options->partitions, NULL,
                                         err);
    return st;
}

/* --- copies ----------------------------------------------------------------------------------- */

typedef struct move_job {
    pg_store *store;
    const char *database;
} move_job;

/* A dump has leases, workers and batches in flight of processes that do not work on the copy. */
static ef_status move_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    static const int DROPS[] = {PJ_COPY_DROP_LEASES, PJ_COPY_DROP_WORKERS, PJ_COPY_RELEASE_BATCHES};
    const move_job *m = context;
    bool is_copy = false;
    ef_status st = pj_one_state_moved(ef__pg_on_conn(conn), ef_str_from(m->database),
                                      pg_clock(m->store), &is_copy, NULL, err);

    for (size_t i = 0; st == EF_OK && is_copy && i < sizeof DROPS / sizeof DROPS[0]; i++)
        st = ef__pg_send(conn, DROPS[i], NULL, err);
    return st == EF_OK ? ef__pg_receive_all(conn, err) : st;
}

/* A role that may not write leaves it to one that may. */
static ef_status unless_refused(ef_status st, const ef_error *refused, ef_error *err)
{
    if (st != EF_OK && st != EF_MISUSE && err)
        *err = *refused;
    return st == EF_MISUSE ? EF_OK : st;
}

/* Records the database of the journal, and compares it at every open. */
static ef_status record_database(pg_store *store, ef_error *err)
{
    char database[EF__PG_DATABASE_MAX];
    ef_error refused = EF_ERROR_INIT;
    ef__pg_rows rows;
    ef_str recorded;
    bool known;
    ef_status st = ef__pg_database(store->pool, database, err);

    if (st != EF_OK || database[0] == '\0')
        return st;
    rows = pj_each_state_database(ef__pg_on_pool(store->pool), NULL, err);
    known =
        pj_next_state_database(&rows, &recorded) && ef_str_equal(recorded, ef_str_from(database));
    st = ef__pg_rows_end(&rows);
    if (st != EF_OK || known)
        return st;
    st = ef__pg_transaction(store->pool, EF__PG_WRITE, move_work, &(move_job){store, database},
                            &refused);
    return unless_refused(st, &refused, err);
}

static ef_status pg_copied_get(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    *out_us = 0;
    return pj_one_state_copied(ef__pg_on_pool(pg_store_of(journal)->pool), out_us, NULL, err);
}

static ef_status pg_adopt(ef_journal *journal, ef_error *err)
{
    return pj_run_state_adopt(ef__pg_on_write(pg_store_of(journal)->pool), NULL, err);
}

/* For appends by SQL, which have no settings. */
static ef_status record_types_max(pg_store *store, int64_t types_max, ef_error *err)
{
    ef_error refused = EF_ERROR_INIT;
    ef_status st = pj_run_state_types_max(ef__pg_on_write(store->pool), types_max, NULL, &refused);

    return unless_refused(st, &refused, err);
}

static ef_status read_state(pg_store *store, int64_t *out_types_max, ef_error *err)
{
    ef__pg_rows rows = pj_each_state_get(ef__pg_on_pool(store->pool), NULL, err);
    struct pj_state_get_row state = {0};

    if (pj_next_state_get(&rows, &state))
        (void)snprintf(store->journal_id, sizeof store->journal_id, "%.*s",
                       EF_STR_ARG(state.journal_id));
    *out_types_max = state.types_max;
    return ef__pg_rows_end(&rows);
}

static ef_status open_schema(pg_store *store, const ef_journal_options *options, ef_error *err)
{
    int64_t recorded = 0;
    int done;
    ef_status st = ef__pg_migrated(store->pool, "journal", &done, err);

    if (st != EF_OK)
        return st;
    if (done > pj_migration_count)
        return ef_fail_numbers(
            err, EF_NEWER_SCHEMA, pj_migration_count, done,
            "the schema of the journal has version %d and this Everfold knows up "
            "to %d: use a newer Everfold",
            done, pj_migration_count);
    if (done == 0 && !options->create)
        return ef_fail(err, EF_NOT_FOUND, "the database has no journal: there is no schema %s",
                       ef__pg_pool_schemas(store->pool)->journal);
    if (done < pj_migration_count && options->read_only)
        return ef_fail(err, EF_MISUSE,
                       "the schema of the journal has version %d and has to be migrated to "
                       "version %d, but it was opened read-only",
                       done, pj_migration_count);
    if (done < pj_migration_count)
        st = create_schema(store, options, done, err);
    if (st == EF_OK)
        st = read_state(store, &recorded, err);
    if (st == EF_OK && !options->read_only && options->types_max && options->types_max != recorded)
        st = record_types_max(store, options->types_max, err);
    return st == EF_OK && !options->read_only ? record_database(store, err) : st;
}

static void store_close(ef_journal *journal)
{
    pg_store *store = pg_store_of(journal);

    ef__pg_pool_put(store->pool, store->listener);
    ef__pg_pool_close(store->pool);
    ef__pair_map_release(&store->lanes);
    pg_assumption_release(&store->assumption);
    pg_since_release(&store->since);
    ef__batcher_release(&store->appends);
    ef__batcher_release(&store->places);
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

static void locks_init(pg_store *store)
{
    (void)pthread_mutex_init(&store->lock, NULL);
    ef__cond_init(&store->changed);
}

/* --- the journal as a whole ------------------------------------------------------------------- */

ef_status pg_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef_status st;

    *out = (ef_head){0};
    st = pj_one_event_last(pg_on_log(store), out, NULL, err);
    if (st == EF_OK)
        pg_record_seen(store, out->position);
    return st;
}

static int64_t mono_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

static void close_listener(pg_store *store)
{
    ef__pg_pool_put(store->pool, store->listener);
    store->listener = NULL;
    store->is_asleep = false;
}

/* Opens the connection on which this process is notified. */
static bool open_listener(pg_store *store)
{
    if (!store->listener && ef__pg_pool_get(store->pool, &store->listener, NULL) == EF_OK &&
        ef__pg_listen(store->listener, ef__pg_pool_schemas(store->pool)->journal, NULL) != EF_OK)
        close_listener(store);
    return store->listener;
}

/* Announces that this process sleeps, so that it is notified, or no longer; true: it has just done
 * so. A session that a pooler shares is not notified: such a process polls. */
static bool announce_sleep(pg_store *store, bool asleep)
{
    ef__pg_on on = {.conn = store->listener};
    bool is_announced = false;
    ef_status st;

    if (!store->listener || store->is_asleep == asleep || !store->listener->own_session)
        return false;
    st = asleep ? pj_one_sleep_begin(on, &is_announced, NULL, NULL)
                : pj_run_sleep_end(on, NULL, NULL);
    store->is_asleep = is_announced;
    if (st != EF_OK)
        close_listener(store);
    return is_announced;
}

/* Waits for a notification. Failures are ignored: the caller polls. */
static bool listen_for(pg_store *store, int64_t ms)
{
    bool notified = false;

    /* An append may have checked before: the caller polls once more before it sleeps. */
    if (open_listener(store) && ms >= SLEEP_MS && announce_sleep(store, true))
        return false;
    if (store->listener && ef__pg_wait_notify(store->listener, ms, &notified, NULL) != EF_OK)
        close_listener(store);
    if (!store->listener)
        (void)nanosleep(&(struct timespec){.tv_nsec = (ms < 20 ? ms : 20) * 1000000}, NULL);
    return notified;
}

/* One waiting thread listens, the others wait for it, or for an append of this process. */
static void wait_notify(pg_store *store, int64_t after, int64_t ms)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, ms);
    bool notified;

    (void)pthread_mutex_lock(&store->lock);
    if (store->listening) {
        if (atomic_load(&store->seen) <= after)
            (void)pthread_cond_timedwait(&store->changed, &store->lock, &until);
        (void)pthread_mutex_unlock(&store->lock);
        return;
    }
    store->listening = true;
    (void)pthread_mutex_unlock(&store->lock);
    notified = listen_for(store, ms);
    (void)pthread_mutex_lock(&store->lock);
    store->listening = false;
    store->notify_count += notified;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
}

/* A thread returns from waiting. */
static void end_sleep(pg_store *store)
{
    bool ends;

    (void)pthread_mutex_lock(&store->lock);
    ends = store->is_asleep && !store->listening;
    store->listening = store->listening || ends;
    (void)pthread_mutex_unlock(&store->lock);
    if (!ends)
        return;
    (void)announce_sleep(store, false);
    (void)pthread_mutex_lock(&store->lock);
    store->listening = false;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
}

/* A wake-up uses the same channel as appends: a thread that waits for wake-ups also wakes after an
 * append, for which it would wake anyway. */
static bool is_woken(pg_store *store, int64_t *wake)
{
    bool woken;

    if (!wake)
        return false;
    (void)pthread_mutex_lock(&store->lock);
    woken = *wake != store->notify_count;
    *wake = store->notify_count;
    (void)pthread_mutex_unlock(&store->lock);
    return woken;
}

static ef_status await_append(pg_store *store, int64_t after, int64_t *wake, int64_t timeout_ms,
                              ef_error *err)
{
    int64_t until_ms = mono_ms() + timeout_ms, left, poll_ms = POLL_MS;
    ef_head head;
    ef_status st;

    for (;;) {
        if (is_woken(store, wake))
            return EF_OK;
        st = pg_head(&store->base, &head, err);
        if (st != EF_OK || head.position > after)
            return st;
        left = until_ms - mono_ms();
        if (left <= 0)
            return ef__refuse_wait(after, timeout_ms, err);
        wait_notify(store, after, left < poll_ms ? left : poll_ms);
        poll_ms = poll_ms < POLL_MAX_MS / 2 ? poll_ms * 2 : POLL_MAX_MS;
    }
}

ef_status pg_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                  ef_error *err)
{
    ef_status st = await_append(pg_store_of(journal), after, wake, timeout_ms, err);

    end_sleep(pg_store_of(journal));
    return st;
}

static void set_facts(const struct pj_facts_row *row, ef_store_facts *out)
{
    bool sound = row->fsync && row->full_page_writes;

    (void)snprintf(out->version, sizeof out->version, "%.*s", EF_STR_ARG(row->version));
    (void)snprintf(out->journal_id, sizeof out->journal_id, "%.*s", EF_STR_ARG(row->journal_id));
    (void)snprintf(out->durability, sizeof out->durability,
                   "answers survive: process crash yes, power loss %s; fsync %s, "
                   "full_page_writes %s, synchronous_commit %.*s%s",
                   sound ? "yes" : "NO", row->fsync ? "on" : "OFF",
                   row->full_page_writes ? "on" : "OFF", EF_STR_ARG(row->synchronous_commit),
                   row->has_standbys ? ", synchronous standbys" : "");
    out->power_loss_unsafe = !sound;
    out->partitions = (int32_t)row->partitions;
    out->store_bytes = row->bytes;
    out->streams = row->streams;
}

static ef_status pg_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__pg_rows rows = pj_each_facts(pg_on_log(store), NULL, err);
    struct pj_facts_row row;

    *out = (ef_store_facts){.backend = "postgres",
                            .schema = pj_migration_count,
                            .wal_bytes = -1,
                            .free_bytes = -1,
                            .checkpoints = -1,
                            .checkpoint_errors = -1};
    if (pj_next_facts(&rows, &row))
        set_facts(&row, out);
    out->commits = atomic_load(&store->commits);
    out->appended = atomic_load(&store->appended);
    out->stale_refused = atomic_load(&store->stale_refused);
    return ef__pg_rows_end(&rows);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* An append reads it with the end of the log, so that it costs no statement. everfold.append has a
 * trigger for it. */
ef__damage pg_damage_of(ef_str text, int64_t found_us)
{
    ef__damage damage = {.found_us = found_us};
    ef_str found = ef__utf8_cut(text, sizeof damage.text - 1);

    if (found_us)
        memcpy(damage.text, found.ptr, found.len);
    return damage;
}

static ef_status pg_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    ef__pg_on on = ef__pg_on_write(pg_store_of(journal)->pool);

    if (!damage)
        return pj_run_state_damage_clear(on, NULL, err);
    return pj_run_state_damage_set(on, ef_str_from(damage->text), damage->found_us, NULL, err);
}

static ef_status pg_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    ef__pg_rows rows = pj_each_state_damage(ef__pg_on_pool(pg_store_of(journal)->pool), NULL, err);
    struct pj_state_damage_row row;

    if (pj_next_state_damage(&rows, &row))
        *out = pg_damage_of(row.damage, row.damaged);
    return ef__pg_rows_end(&rows);
}

static const ef__store_ops store_ops = {
    .name = "postgres",
    .close = store_close,
    .facts = pg_facts,
    .damage_set = pg_damage_set,
    .damage_get = pg_damage_get,
    .copied_get = pg_copied_get,
    .adopt = pg_adopt,
    .database = pg_database,
};

ef_status ef__journal_postgres_open(const ef_journal_options *options, ef_journal **out,
                                    ef_error *err)
{
    pg_store *store = calloc(1, sizeof *store);
    ef__pg_pool_options pool = {.url = options->url,
                                .statements = &STATEMENTS,
                                .busy_ms = options->busy_ms,
                                .log = options->log,
                                .check_server = check_server,
                                .context = store};
    ef_status st;

    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a journal");
    store->base = (ef_journal){.store = &store_ops,
                               .events = &pg_events_ops,
                               .control = &store->base,
                               .outbox = &pg_outbox_ops,
                               .leases = &pg_lease_ops,
                               .records = &pg_record_ops,
                               .caps = EF__JOURNAL_REMOTE | EF__JOURNAL_REFUSES_DAMAGED,
                               .options = *options};
    store->given_clock = options->clock != ef_clock_system();
    pg_appends_init(store);
    pg_places_init(store);
    locks_init(store);
    store->lanes = (ef__pair_map)EF__PAIR_MAP_INIT(pg_lane, LANES_BYTES);
    pg_assumption_init(&store->assumption);
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
