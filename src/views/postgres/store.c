/*
 * store.c - opening and closing, writing transactions, locks.
 */
#include "store.h"

#include "where.h"

#include <stdlib.h>

static const ef__views_ops OPS;
static const ef__pg_statements TEXTS = {.sql = vp_sql, .names = vp_names, .count = VP_COUNT};

/* --- opening and closing ---------------------------------------------------------------------- */

static ef_status schema_ready(vp_store *store, bool create, ef_error *err)
{
    int done = 0;
    ef_status st = ef__pg_migrated(store->pool, VP_PART, &done, err);

    if (st != EF_OK)
        return st;
    if (done == 0 && !create)
        return ef_fail(err, EF_NOT_FOUND, "there is no view store in this database");
    if (done < vp_migration_count && store->base.read_only)
        return ef_fail(err, EF_MISUSE, "the view store has schema %d and was opened read-only",
                       done);
    return ef__pg_migrate(store->pool, VP_PART, vp_migrations, vp_migration_count, err);
}

void vp_close(ef_views *views)
{
    vp_store *store = vp_store_of(views);

    ef__pg_pool_close(store->pool);
    free(store);
}

ef_status ef__views_postgres_open(const ef__views_options *options, ef_views **out, ef_error *err)
{
    vp_store *store = calloc(1, sizeof *store);
    ef_status st;

    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a view store");
    store->base = (ef_views){
        .ops = &OPS, .clock = options->clock, .log = options->log, .read_only = options->read_only};
    st = ef__pg_pool_open(&(ef__pg_pool_options){.url = options->url,
                                                 .statements = &TEXTS,
                                                 .busy_ms = options->busy_ms,
                                                 .log = options->log},
                          &store->pool, err);
    if (st == EF_OK)
        st = schema_ready(store, options->create, err);
    if (st != EF_OK) {
        vp_close(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}

ef_status ef__views_postgres_schema(const char *url, ef__buf *out, ef_error *err)
{
    return ef__pg_migration_text(url, VP_PART, vp_migrations, vp_migration_count, out, err);
}

static ef_status vp_database(ef_views *views, char out[EF__VIEWS_DATABASE_MAX], ef_error *err)
{
    _Static_assert((int)EF__VIEWS_DATABASE_MAX == (int)EF__PG_DATABASE_MAX, "they hold the same");
    return ef__pg_database(vp_store_of(views)->pool, out, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

ef_status vp_write(ef_views *views, bool no_sync, ef__pg_work work, void *context, ef_error *err)
{
    if (views->read_only)
        return ef_fail(err, EF_MISUSE, "the view store was opened read-only");
    return ef__pg_transaction(vp_store_of(views)->pool, no_sync ? EF__PG_WRITE_LAX : EF__PG_WRITE,
                              work, context, err);
}

ef_status vp_lock(ef__pg_conn *conn, bool alone, const int64_t *ids, size_t count, ef_error *err)
{
    ef__pg_array keys = {0};

    for (size_t i = 0; i < count; i++)
        ef__pg_array_int(&keys, ids[i]);
    return (alone ? vp_send_lock_alone : vp_send_lock_shared)(conn, &keys, err);
}

static const ef__views_ops OPS = {.name = "postgres",
                                  .is_remote = true,
                                  .database = vp_database,
                                  .filter_explain = vp_filter_explain,
                                  .view_get_many = vp_view_get_many,
                                  .watermark_get_many = vp_watermark_get_many,
                                  .snapshot_open = vp_snapshot_open,
                                  EF__VIEWS_EVERY(EF__VIEWS_SET, vp)};
