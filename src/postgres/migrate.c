/*
 * migrate.c - see pool.h: migrations, and statements with the configured schema names.
 *
 * The .sql files use the schemas `everfold` (the journal, and objects that both parts share) and
 * `everfold_views`. Both words are replaced by the configured names wherever they are a whole word:
 * in qualified names and in the name of the channel. So two journals in one database share neither.
 * The setting everfold.tenant keeps its name.
 *
 * A migration is a script of many statements. ground.sql creates everfold.migration and locks it to
 * the end of the transaction, so migrations exclude each other. When two processes open a new
 * database at once, the CREATE TABLE of one fails, and it starts again.
 */
#include "pool.h"

#include "ground.h" /* generated from ground.sql: GROUND */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char AFTER_MIGRATION[] = "SELECT everfold.tenants_still_apart();\n";

#define JOURNAL_WORD "everfold"
#define VIEWS_WORD "everfold_views"
#define TENANT_SETTING ".tenant'" /* after JOURNAL_WORD: a quoted setting, not a table */
#define TEXT_BYTES_MAX (1 << 20)
#define STATEMENTS_BYTES_MAX (4 << 20)

/* --- schemas ---------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_length(const char *at)
{
    size_t n = 0;

    while (is_word_char(at[n]))
        n++;
    return n;
}

/* The replacement of a word; NULL: none. */
static const char *word_for(const ef__schema_names *names, const char *word, size_t length)
{
    if (length == strlen(VIEWS_WORD) && memcmp(word, VIEWS_WORD, length) == 0)
        return names->views;
    if (length == strlen(JOURNAL_WORD) && memcmp(word, JOURNAL_WORD, length) == 0 &&
        strncmp(word + length, TENANT_SETTING, strlen(TENANT_SETTING)) != 0)
        return names->journal;
    return NULL;
}

/* Appends `sql` with the schemas of `names`. False: out of memory. */
static bool add_with_schemas(ef__buf *out, const ef__schema_names *names, const char *sql)
{
    for (const char *at = sql; *at;) {
        size_t length = word_length(at);
        const char *other = length ? word_for(names, at, length) : NULL;

        if (length == 0)
            length = 1;
        if (other)
            (void)ef__buf_add_text(out, other);
        else
            (void)ef__buf_add(out, at, length);
        at += length;
    }
    return !out->failed;
}

ef_status ef__pg_statements_copy(ef__pg_statements *out, const ef__pg_statements *from,
                                 const ef__schema_names *names, ef_error *err)
{
    const char **sql = calloc((size_t)from->count + 1, sizeof *sql);
    size_t *starts = calloc((size_t)from->count + 1, sizeof *starts);
    ef__buf text = EF__BUF_INIT(STATEMENTS_BYTES_MAX);
    bool done = sql && starts;

    for (int i = 0; done && i < from->count; i++) {
        starts[i] = text.len;
        done = add_with_schemas(&text, names, from->sql[i]) && ef__buf_add(&text, "", 1);
    }
    for (int i = 0; done && i < from->count; i++)
        sql[i] = text.ptr + starts[i];
    free(starts);
    if (!done) {
        free(sql);
        ef__buf_release(&text);
        return ef_fail(err, EF_NO_MEMORY, "out of memory for statements");
    }
    *out = (ef__pg_statements){
        .sql = sql, .names = from->names, .count = from->count, .text = text.ptr};
    return EF_OK;
}

void ef__pg_statements_release(ef__pg_statements *statements)
{
    free(statements->text);
    free((void *)statements->sql);
    *statements = (ef__pg_statements){0};
}

/* --- migrations ------------------------------------------------------------------------------- */

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
    EF__AUTO(ef__buf) text = EF__BUF_INIT(TEXT_BYTES_MAX);

    return add_with_schemas(&text, m->schemas, sql) && ef__buf_add(&text, "", 1)
               ? ef__pg_exec(conn, text.ptr, err)
               : ef_fail(err, EF_NO_MEMORY, "out of memory for a migration");
}

static ef_status query_text(const migration *m, ef__pg_conn *conn, const char *sql,
                            const ef__pg_params *params, PGresult **out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(TEXT_BYTES_MAX);

    return add_with_schemas(&text, m->schemas, sql) && ef__buf_add(&text, "", 1)
               ? ef__pg_query_text(conn, text.ptr, params, out, err)
               : ef_fail(err, EF_NO_MEMORY, "out of memory for a migration");
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
    (void)add_with_schemas(out, schemas, GROUND);
    for (int i = 0; i < count; i++) {
        (void)ef__buf_printf(out, "\n-- %s, migration %d\n", part, i + 1);
        (void)add_with_schemas(out, schemas, migrations[i]);
        (void)ef__buf_printf(out, "INSERT INTO %s.migration(part, number) VALUES ('%s', %d);\n",
                             schemas->journal, part, i + 1);
    }
    (void)add_with_schemas(out, schemas, AFTER_MIGRATION);
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
