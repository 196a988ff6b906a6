/*
 * migrate.c - see pool.h.
 *
 * A migration is a text of many statements. Whoever migrates holds a lock of its transaction, which
 * is the first thing in ground.sql, so two that open a new database at once do not meet in the
 * middle.
 */
#include "pool_priv.h"

#include "ground.h" /* made of ground.sql: GROUND */

#include <stdio.h>

static const char BEHIND[] = "SELECT everfold.tenants_still_apart();\n";

typedef struct migration {
    const char *part;
    const char *const *texts;
    int count;
    int done;
} migration;

/* Asked in two steps: a statement that names a table that is not there fails as a whole. */
static ef_status count_done(void *context, ef__pg_conn *conn, ef_error *err)
{
    migration *m = context;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    bool there = false;
    ef_status st;

    m->done = 0;
    st = ef__pg_query_text(conn, "SELECT to_regclass('everfold.migration') IS NOT NULL", NULL,
                           &result, err);
    if (st == EF_OK)
        there = ef__pg_bool(result, 0, 0);
    PQclear(result);
    if (st != EF_OK || !there)
        return st;
    ef__pg_add_str(&params, ef_str_from(m->part));
    st = ef__pg_query_text(
        conn, "SELECT coalesce(max(number), 0) FROM everfold.migration WHERE part = $1", &params,
        &result, err);
    if (st == EF_OK)
        m->done = (int)ef__pg_int(result, 0, 0);
    PQclear(result);
    return st;
}

static ef_status note(ef__pg_conn *conn, const char *part, int number, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_str(&params, ef_str_from(part));
    ef__pg_add_int(&params, number);
    return ef__pg_query_text(conn, "INSERT INTO everfold.migration(part, number) VALUES ($1, $2)",
                             &params, NULL, err);
}

static ef_status migrate(void *context, ef__pg_conn *conn, ef_error *err)
{
    migration *m = context;
    ef_status st = ef__pg_take_all(conn, err);

    if (st == EF_OK)
        st = ef__pg_exec(conn, GROUND, err);
    if (st == EF_OK)
        st = count_done(m, conn, err);
    for (int i = m->done; st == EF_OK && i < m->count; i++) {
        st = ef__pg_exec(conn, m->texts[i], err);
        if (st == EF_OK)
            st = note(conn, m->part, i + 1, err);
    }
    return st == EF_OK ? ef__pg_exec(conn, BEHIND, err) : st;
}

ef_status ef__pg_migrated(ef__pg_pool *pool, const char *part, int *out, ef_error *err)
{
    migration m = {.part = part};
    ef_status st = ef__pg_transaction(pool, EF__PG_READ, count_done, &m, err);

    *out = m.done;
    return st;
}

ef_status ef__pg_migrate(ef__pg_pool *pool, const char *part, const char *const *migrations,
                         int count, ef_error *err)
{
    migration m = {part, migrations, count, 0};
    ef_status st = ef__pg_transaction(pool, EF__PG_READ, count_done, &m, err);

    if (st == EF_OK && m.done > count)
        return ef_fail_numbers(err, EF_NEWER_SCHEMA, count, m.done,
                               "the %s schema is at %d and this Everfold knows %d: use a newer one",
                               part, m.done, count);
    if (st != EF_OK || m.done == count)
        return st;
    /* Lost in the commit: what was done is found, and the rest is done. */
    st = ef__pg_transaction(pool, EF__PG_WRITE, migrate, &m, err);
    return st == EF_UNSURE ? ef__pg_transaction(pool, EF__PG_WRITE, migrate, &m, err) : st;
}

bool ef__pg_migration_text(const char *part, const char *const *migrations, int count, ef__buf *out)
{
    (void)ef__buf_add_text(out, "SET search_path = " EF__PG_SEARCH_PATH ";\n");
    (void)ef__buf_add_text(out, GROUND);
    for (int i = 0; i < count; i++) {
        (void)ef__buf_printf(out, "\n-- %s, migration %d\n", part, i + 1);
        (void)ef__buf_add_text(out, migrations[i]);
        (void)ef__buf_printf(
            out, "INSERT INTO everfold.migration(part, number) VALUES ('%s', %d);\n", part, i + 1);
    }
    (void)ef__buf_add_text(out, BEHIND);
    (void)ef__buf_add_text(out, "RESET search_path;\n");
    return !out->failed;
}
