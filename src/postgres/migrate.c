/*
 * migrate.c - see pool.h.
 *
 * A migration is a script of many statements. ground.sql creates everfold.migration and locks it to
 * the end of the transaction, so migrations exclude each other. When two processes open a new
 * database at once, the CREATE TABLE of one fails, and it starts again.
 */
#include "pool_priv.h"

#include "ground.h" /* generated from ground.sql: GROUND */

#include <stdio.h>

static const char AFTER_MIGRATION[] = "SELECT everfold.tenants_still_apart();\n";

#define TEXT_BYTES_MAX (1 << 20)

typedef struct migration {
    const ef__schema_names *schemas;
    const char *part;
    const char *const *scripts;
    int count;
    int done;
} migration;

/* As ef__pg_exec, and as ef__pg_query_text, with the configured schemas. */
static ef_status exec_text(const migration *m, ef__pg_conn *conn, const char *sql, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(TEXT_BYTES_MAX);
    ef_status st = ef__pg_schema_add(&text, m->schemas, sql) && ef__buf_add(&text, "", 1)
                       ? ef__pg_exec(conn, text.ptr, err)
                       : ef_fail(err, EF_NO_MEMORY, "out of memory for a migration");

    ef__buf_release(&text);
    return st;
}

static ef_status query_text(const migration *m, ef__pg_conn *conn, const char *sql,
                            const ef__pg_params *params, PGresult **out, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(TEXT_BYTES_MAX);
    ef_status st = ef__pg_schema_add(&text, m->schemas, sql) && ef__buf_add(&text, "", 1)
                       ? ef__pg_query_text(conn, text.ptr, params, out, err)
                       : ef_fail(err, EF_NO_MEMORY, "out of memory for a migration");

    ef__buf_release(&text);
    return st;
}

/* In two steps: a statement that names a table that does not exist fails as a whole. */
static ef_status count_done(void *context, ef__pg_conn *conn, ef_error *err)
{
    migration *m = context;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    bool there = false;
    ef_status st;

    m->done = 0;
    st = query_text(m, conn, "SELECT to_regclass('everfold.migration') IS NOT NULL", NULL, &result,
                    err);
    if (st == EF_OK)
        there = ef__pg_bool(result, 0, 0);
    PQclear(result);
    if (st != EF_OK || !there)
        return st;
    ef__pg_add_str(&params, ef_str_from(m->part));
    st = query_text(m, conn,
                    "SELECT coalesce(max(number), 0) FROM everfold.migration WHERE part = $1",
                    &params, &result, err);
    if (st == EF_OK)
        m->done = (int)ef__pg_int(result, 0, 0);
    PQclear(result);
    return st;
}

static ef_status record_migration(const migration *m, ef__pg_conn *conn, int number, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_str(&params, ef_str_from(m->part));
    ef__pg_add_int(&params, number);
    return query_text(m, conn, "INSERT INTO everfold.migration(part, number) VALUES ($1, $2)",
                      &params, NULL, err);
}

static ef_status run_migrations(void *context, ef__pg_conn *conn, ef_error *err)
{
    migration *m = context;
    ef_status st = ef__pg_receive_all(conn, err);

    if (st == EF_OK)
        st = exec_text(m, conn, GROUND, err);
    if (st == EF_OK)
        st = count_done(m, conn, err);
    for (int i = m->done; st == EF_OK && i < m->count; i++) {
        st = exec_text(m, conn, m->scripts[i], err);
        if (st == EF_OK)
            st = record_migration(m, conn, i + 1, err);
    }
    return st == EF_OK ? exec_text(m, conn, AFTER_MIGRATION, err) : st;
}

ef_status ef__pg_migrated(ef__pg_pool *pool, const char *part, int *out, ef_error *err)
{
    migration m = {.schemas = ef__pg_pool_schemas(pool), .part = part};
    ef_status st = ef__pg_transaction(pool, EF__PG_READ, count_done, &m, err);

    *out = m.done;
    return st;
}

ef_status ef__pg_migrate(ef__pg_pool *pool, const char *part, const char *const *migrations,
                         int count, ef_error *err)
{
    migration m = {ef__pg_pool_schemas(pool), part, migrations, count, 0};
    ef_status st = ef__pg_transaction(pool, EF__PG_READ, count_done, &m, err);

    if (st == EF_OK && m.done > count)
        return ef_fail_numbers(err, EF_NEWER_SCHEMA, count, m.done,
                               "the schema of the %s has version %d and this Everfold knows up to "
                               "%d: use a newer Everfold",
                               part, m.done, count);
    if (st != EF_OK || m.done == count)
        return st;
    st = ef__pg_transaction(pool, EF__PG_WRITE, run_migrations, &m, err);
    /* The commit is uncertain, or another process has created the schema at the same time: start
     * again with the migrations that are not recorded. */
    for (int tries = 0; tries < 3 && (st == EF_UNSURE || st == EF_EXISTS); tries++)
        st = ef__pg_transaction(pool, EF__PG_WRITE, run_migrations, &m, err);
    return st;
}

static bool add_migrations(const ef__schema_names *schemas, const char *part,
                           const char *const *migrations, int count, ef__buf *out)
{
    (void)ef__buf_add_text(out, "BEGIN;\nSET LOCAL search_path = " EF__PG_SEARCH_PATH ";\n");
    (void)ef__pg_schema_add(out, schemas, GROUND);
    for (int i = 0; i < count; i++) {
        (void)ef__buf_printf(out, "\n-- %s, migration %d\n", part, i + 1);
        (void)ef__pg_schema_add(out, schemas, migrations[i]);
        (void)ef__buf_printf(out, "INSERT INTO %s.migration(part, number) VALUES ('%s', %d);\n",
                             schemas->journal, part, i + 1);
    }
    (void)ef__pg_schema_add(out, schemas, AFTER_MIGRATION);
    return ef__buf_add_text(out, "COMMIT;\n");
}

ef_status ef__pg_migration_text(const char *url, const char *part, const char *const *migrations,
                                int count, ef__buf *out, ef_error *err)
{
    ef__pg_target target;
    ef_status st = ef__pg_target_init(&target, url, err);

    if (st != EF_OK)
        return st;
    if (!add_migrations(&target.schemas, part, migrations, count, out))
        st = ef_fail(err, EF_NO_MEMORY, "out of memory for the schema");
    ef__pg_target_release(&target);
    return st;
}
