/*
 * test_conn.c - src/postgres on a real server (POSTGRES_URL).
 */
#include "../../src/postgres/pool.h"

#include "test.h"

#include <pthread.h>
#include <stdlib.h>

enum { ONE_ROW, ECHO, SUM, DIVIDE, PID, KILL, COUNT };

static const char *const SQL[] = {
    "SELECT $1::bigint, $2::text, $3::bytea, $4::boolean, $5::bigint IS NULL",
    "SELECT u.a, u.b FROM unnest($1::bigint[], $2::text[]) AS u(a, b)",
    "SELECT sum(a)::bigint FROM unnest($1::bigint[]) AS u(a)",
    "SELECT 1 / $1",
    "SELECT pg_backend_pid()",
    "SELECT pg_terminate_backend($1::integer)",
    "SELECT count(*) FROM public.everfold_test"};
static const char *const NAMES[] = {"one_row", "echo", "sum", "divide", "pid", "kill", "count"};
static const ef__pg_statements TEXTS = {.sql = SQL, .names = NAMES, .count = 7};

static ef_error err;

static ef__pg_pool *open_pool(const char *setting, int64_t busy_ms)
{
    ef__pg_pool_options options = {.statements = &TEXTS, .busy_ms = busy_ms};
    ef__pg_pool *pool;
    char url[300];

    (void)snprintf(url, sizeof url, "%s%s", getenv("POSTGRES_URL"), setting);
    options.url = url;
    CHECK_STATUS(EF_OK, ef__pg_pool_open(&options, &pool, &err), &err);
    return pool;
}

static ef__pg_conn *get(ef__pg_pool *pool)
{
    ef__pg_conn *conn;

    CHECK_STATUS(EF_OK, ef__pg_pool_get(pool, &conn, &err), &err);
    return conn;
}

static void add_number(ef__pg_params *params, int64_t number)
{
    *params = (ef__pg_params){0};
    ef__pg_add_int(params, number);
}

TEST(values_come_back_as_they_went)
{
    static const char *const SETTINGS[] = {"", "?ef_prepare=off"};

    for (int i = 0; i < 2; i++) {
        ef__pg_pool *pool = open_pool(SETTINGS[i], 5000);
        ef__pg_conn *conn = get(pool);
        ef__pg_params params = {0};
        PGresult *result;

        ef__pg_add_int(&params, INT64_MIN);
        ef__pg_add_str(&params, EF_STR("gr\xc3\xbc\xc3\x9f"));
        ef__pg_add_bytes(&params, (ef_str){"a\0b", 3});
        ef__pg_add_bool(&params, true);
        ef__pg_add_null(&params, EF__PG_INT);
        CHECK_STATUS(EF_OK, ef__pg_query(conn, ONE_ROW, &params, &result, &err), &err);
        CHECK(ef__pg_int(result, 0, 0) == INT64_MIN);
        CHECK_STR("gr\xc3\xbc\xc3\x9f", ef__pg_str(result, 0, 1));
        CHECK_INT(3, ef__pg_str(result, 0, 2).len);
        CHECK(ef__pg_bool(result, 0, 3));
        CHECK(ef__pg_bool(result, 0, 4));
        PQclear(result);
        ef__pg_pool_put(pool, conn);
        ef__pg_pool_close(pool);
    }
}

TEST(arrays_carry_many_values_and_nulls)
{
    ef__pg_pool *pool = open_pool("", 5000);
    ef__pg_conn *conn = get(pool);
    ef__pg_params params = {0};
    ef__pg_array a = {0}, b = {0};
    PGresult *result;

    for (int i = 0; i < 1000; i++) {
        ef__pg_array_int(&a, i);
        ef__pg_array_str(&b, EF_STR("x"));
    }
    ef__pg_array_int(&a, -1);
    ef__pg_array_null(&b);
    ef__pg_add_array_of(&params, &a, EF__PG_INT);
    ef__pg_add_array_of(&params, &b, EF__PG_TEXT);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, ECHO, &params, &result, &err), &err);
    CHECK_INT(1001, PQntuples(result));
    CHECK_INT(999, ef__pg_int(result, 999, 0));
    CHECK(!ef__pg_null(result, 999, 1));
    CHECK(ef__pg_null(result, 1000, 1));
    PQclear(result);

    ef__pg_array_reset(&a);
    params = (ef__pg_params){0};
    ef__pg_add_array_of(&params, &a, EF__PG_INT);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, SUM, &params, &result, &err), &err);
    CHECK(ef__pg_null(result, 0, 0));
    PQclear(result);
    ef__pg_array_release(&a);
    ef__pg_array_release(&b);
    ef__pg_pool_put(pool, conn);
    ef__pg_pool_close(pool);
}

TEST(what_was_sent_together_is_taken_in_order)
{
    ef__pg_pool *pool = open_pool("", 5000);
    ef__pg_conn *conn = get(pool);
    ef__pg_params params;
    PGresult *result;

    for (int i = 1; i <= 3; i++) {
        add_number(&params, i);
        CHECK_STATUS(EF_OK, ef__pg_send(conn, DIVIDE, &params, &err), &err);
    }
    for (int i = 1; i <= 3; i++) {
        CHECK_STATUS(EF_OK, ef__pg_receive(conn, &result, &err), &err);
        CHECK_INT(1 / i, ef__pg_int(result, 0, 0));
        PQclear(result);
    }
    ef__pg_pool_put(pool, conn);
    ef__pg_pool_close(pool);
}

TEST(a_failure_takes_what_was_sent_behind_it_and_the_connection_goes_on)
{
    ef__pg_pool *pool = open_pool("", 5000);
    ef__pg_conn *conn = get(pool);
    ef__pg_params params;

    add_number(&params, 0);
    CHECK_STATUS(EF_OK, ef__pg_send(conn, DIVIDE, &params, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_send(conn, PID, NULL, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, ef__pg_receive(conn, NULL, &err), &err);
    CHECK(strstr(err.text, "22012") != NULL);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, PID, NULL, NULL, &err), &err);
    CHECK_STATUS(EF_WRONG_STORE, ef__pg_query(conn, COUNT, NULL, NULL, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, PID, NULL, NULL, &err), &err);
    ef__pg_pool_put(pool, conn);
    ef__pg_pool_close(pool);
}

TEST(an_unexpected_result_is_not_waited_for)
{
    ef__pg_pool *pool = open_pool("", 5000);
    ef__pg_conn *conn = get(pool);

    CHECK_STATUS(EF_MISUSE, ef__pg_receive(conn, NULL, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, PID, NULL, NULL, &err), &err);
    CHECK_STATUS(EF_MISUSE, ef__pg_receive(conn, NULL, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_query(conn, PID, NULL, NULL, &err), &err);
    ef__pg_pool_put(pool, conn);
    ef__pg_pool_close(pool);
}

static void kill_server_process(ef__pg_pool *pool, int64_t pid)
{
    ef__pg_conn *other = get(pool);
    ef__pg_params params;

    add_number(&params, pid);
    CHECK_STATUS(EF_OK, ef__pg_query(other, KILL, &params, NULL, &err), &err);
    ef__pg_pool_put(pool, other);
}

typedef struct tries {
    ef__pg_pool *pool;
    int count;
    bool kill; /* at the first try */
    bool again;
} tries;

static ef_status insert_work(void *context, ef__pg_conn *conn, ef_error *e)
{
    tries *t = context;
    PGresult *result;
    ef_status st =
        ef__pg_query_text(conn, "INSERT INTO public.everfold_test VALUES (1)", NULL, NULL, e);

    t->count++;
    if (st == EF_OK && t->kill && t->count == 1) {
        CHECK_STATUS(EF_OK, ef__pg_query(conn, PID, NULL, &result, e), e);
        kill_server_process(t->pool, ef__pg_int(result, 0, 0));
        PQclear(result);
        st = ef__pg_query(conn, PID, NULL, NULL, e);
    }
    if (st == EF_OK && t->again && t->count == 1)
        st = ef__pg_request_retry(conn, "because", e);
    return st;
}

static int64_t rows(ef__pg_pool *pool)
{
    PGresult *result = NULL;
    int64_t found;

    CHECK_STATUS(EF_OK,
                 ef__pg_with_conn(pool, ef__pg_run_statement,
                                  &(ef__pg_statement){COUNT, NULL, &result}, &err),
                 &err);
    found = ef__pg_int(result, 0, 0);
    PQclear(result);
    return found;
}

static void exec(ef__pg_pool *pool, const char *sql)
{
    ef__pg_conn *conn = get(pool);

    CHECK_STATUS(EF_OK, ef__pg_exec(conn, sql, &err), &err);
    ef__pg_pool_put(pool, conn);
}

TEST(a_transaction_is_tried_again_and_done_once)
{
    ef__pg_pool *pool = open_pool("", 5000);
    tries lost = {.pool = pool, .kill = true};
    tries again = {.pool = pool, .again = true};

    exec(pool, "CREATE TABLE public.everfold_test(a integer)");
    CHECK_STATUS(EF_OK, ef__pg_transaction(pool, EF__PG_WRITE, insert_work, &lost, &err), &err);
    CHECK_INT(2, lost.count);
    CHECK_INT(1, rows(pool));
    CHECK_STATUS(EF_OK, ef__pg_transaction(pool, EF__PG_WRITE, insert_work, &again, &err), &err);
    CHECK_INT(2, again.count);
    CHECK_INT(2, rows(pool));
    CHECK_STATUS(EF_BUSY, ef__pg_transaction(pool, EF__PG_READ, insert_work, &again, &err), &err);
    CHECK_INT(2, rows(pool));
    exec(pool, "DROP TABLE public.everfold_test");
    ef__pg_pool_close(pool);
}

/* At the commit itself: a trigger that waits for the end of the transaction ends its own process.
 */
static ef_status fatal_work(void *context, ef__pg_conn *conn, ef_error *e)
{
    (void)context;
    return ef__pg_query_text(conn, "INSERT INTO public.everfold_test VALUES (1)", NULL, NULL, e);
}

TEST(a_connection_that_is_lost_in_the_commit_is_unsure)
{
    ef__pg_pool *pool = open_pool("", 1000);

    exec(pool, "CREATE TABLE public.everfold_test(a integer);"
               "CREATE FUNCTION public.everfold_test_end() RETURNS trigger LANGUAGE plpgsql AS "
               "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1);"
               " RETURN NULL; END';"
               "CREATE CONSTRAINT TRIGGER end_it AFTER INSERT ON public.everfold_test DEFERRABLE "
               "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.everfold_test_end()");
    CHECK_STATUS(EF_UNSURE, ef__pg_transaction(pool, EF__PG_WRITE, fatal_work, NULL, &err), &err);
    CHECK_INT(0, rows(pool));
    exec(pool, "DROP TABLE public.everfold_test; DROP FUNCTION public.everfold_test_end()");
    ef__pg_pool_close(pool);
}

TEST(a_pool_has_a_bound_and_hands_on_what_comes_back)
{
    ef__pg_pool *pool = open_pool("?ef_connections=1", 100);
    ef__pg_conn *conn = get(pool), *other;

    CHECK_STATUS(EF_BUSY, ef__pg_pool_get(pool, &other, &err), &err);
    ef__pg_pool_put(pool, conn);
    other = get(pool);
    CHECK(other == conn);
    ef__pg_pool_put(pool, other);
    ef__pg_pool_close(pool);
}

static ef_status refuse(const char *url)
{
    ef__pg_target target;
    ef_status st = ef__pg_target_init(&target, url, &err);

    if (st == EF_OK)
        ef__pg_target_release(&target);
    CHECK(strstr(err.text, "secret") == NULL);
    return st;
}

/* The TLS options passed to libpq; "" for its defaults. */
static const char *tls_of(const char *url)
{
    static char mode[32];
    ef__pg_target target;

    CHECK_STATUS(EF_OK, ef__pg_target_init(&target, url, &err), &err);
    mode[0] = '\0';
    for (int i = 0; target.keys[i]; i++)
        if (strcmp(target.keys[i], "sslmode") == 0)
            (void)snprintf(mode, sizeof mode, "%s", target.values[i]);
    ef__pg_target_release(&target);
    return mode;
}

TEST(a_server_that_is_not_local_has_to_prove_who_it_is)
{
    CHECK_INT(EF_OK, refuse("postgres://localhost/a?sslmode=disable"));
    CHECK_INT(EF_OK, refuse("postgres://a:secret@db.example/a"));
    CHECK_INT(EF_OK, refuse("postgres://db.example/a?sslmode=verify-full"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://a:secret@db.example/a?sslmode=require"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://localhost,db.example/a?sslmode=disable"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://127.0.0.1.db.example/a?sslmode=disable"));
    CHECK_INT(EF_OK, refuse("postgres://db.example/a?sslmode=disable&ef_insecure=1"));
    CHECK_INT(EF_OK, refuse("postgres://db.example/a?hostaddr=127.0.0.1&sslmode=disable"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://localhost/a?hostaddr=192.0.2.1&sslmode=disable"));
    CHECK_INT(EF_BAD_INPUT,
              refuse("postgres://a,db.example/a?hostaddr=127.0.0.1,&sslmode=disable"));
}

TEST(a_server_that_a_service_names_has_to_prove_who_it_is)
{
    CHECK_INT(EF_BAD_INPUT, refuse("postgres:///a?service=far&sslmode=disable"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://localhost/a?service=far&sslmode=prefer"));
    CHECK_INT(EF_OK, refuse("postgres:///a?service=far&sslmode=disable&ef_insecure=1"));
    CHECK_INT(0, setenv("PGSERVICE", "far", 1));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres:///a?sslmode=disable"));
    CHECK_TEXT("verify-full", tls_of("postgres:///a"));
    CHECK_INT(0, unsetenv("PGSERVICE"));
    CHECK_TEXT("", tls_of("postgres:///a"));
    CHECK_TEXT("verify-full", tls_of("postgres://db.example/a"));
}

TEST(a_url_that_is_none_is_refused_without_its_password)
{
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://a:secret@[::1/a"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://a:secret@localhost/a?what=1"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://a:secret@localhost/a?ef_connections=0"));
    CHECK_INT(EF_BAD_INPUT, refuse("postgres://a:secret@localhost/a?ef_what=1"));
}

TEST(who_cannot_be_reached_is_busy_and_what_is_not_there_is_named)
{
    ef__pg_target target;
    ef__pg_conn conn;
    char url[300];

    CHECK_STATUS(EF_OK, ef__pg_target_init(&target, "postgres://127.0.0.1:1/postgres", &err), &err);
    CHECK_STATUS(EF_BUSY, ef__pg_connect(&conn, &target, &TEXTS, &err), &err);
    ef__pg_target_release(&target);
    (void)snprintf(url, sizeof url, "%s_no_such", getenv("POSTGRES_URL"));
    CHECK_STATUS(EF_OK, ef__pg_target_init(&target, url, &err), &err);
    CHECK_STATUS(EF_NOT_FOUND, ef__pg_connect(&conn, &target, &TEXTS, &err), &err);
    ef__pg_target_release(&target);
}

TEST(of_several_hosts_the_one_that_takes_writes_is_used)
{
    ef__pg_target target;
    ef__pg_conn conn;
    char url[300];
    const char *at = strstr(getenv("POSTGRES_URL"), "127.0.0.1");

    (void)snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:1,%s", at);
    CHECK_STATUS(EF_OK, ef__pg_target_init(&target, url, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_connect(&conn, &target, &TEXTS, &err), &err);
    /* As a standby says: nothing can be written here. */
    CHECK_STATUS(
        EF_OK,
        ef__pg_exec(&conn, "ALTER DATABASE postgres SET default_transaction_read_only = on", &err),
        &err);
    ef__pg_close(&conn);
    CHECK_STATUS(EF_BUSY, ef__pg_connect(&conn, &target, &TEXTS, &err), &err);
    ef__pg_target_release(&target);
    (void)snprintf(url, sizeof url, "%s?target_session_attrs=any", getenv("POSTGRES_URL"));
    CHECK_STATUS(EF_OK, ef__pg_target_init(&target, url, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_connect(&conn, &target, &TEXTS, &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_exec(&conn, "SET default_transaction_read_only = off", &err), &err);
    CHECK_STATUS(
        EF_OK,
        ef__pg_exec(&conn, "ALTER DATABASE postgres RESET default_transaction_read_only", &err),
        &err);
    ef__pg_close(&conn);
    ef__pg_target_release(&target);
}

TEST(a_notification_on_a_channel_is_received)
{
    ef__pg_pool *pool = open_pool("", 5000);
    ef__pg_conn *conn = get(pool);
    bool heard;

    CHECK_STATUS(EF_OK, ef__pg_listen(conn, "everfold_test", &err), &err);
    CHECK_STATUS(EF_OK, ef__pg_wait_notify(conn, 1, &heard, &err), &err);
    CHECK(!heard);
    exec(pool, "NOTIFY everfold_test");
    CHECK_STATUS(EF_OK, ef__pg_wait_notify(conn, 5000, &heard, &err), &err);
    CHECK(heard);
    ef__pg_pool_put(pool, conn);
    ef__pg_pool_close(pool);
}

static void *migrate_beside(void *context)
{
    static const char *const MIGRATIONS[] = {"CREATE TABLE everfold.test_a(a integer);\n",
                                             "CREATE TABLE everfold.test_b(a integer);\n"};

    return (void *)(intptr_t)ef__pg_migrate(context, "test", MIGRATIONS, 2, NULL);
}

TEST(migrations_run_once_for_concurrent_openers)
{
    ef__pg_pool *pool = open_pool("", 10000);
    pthread_t threads[4];
    void *answer;
    int done;

    CHECK_STATUS(EF_OK, ef__pg_migrated(pool, "test", &done, &err), &err);
    CHECK_INT(0, done);
    for (int i = 0; i < 4; i++)
        CHECK_INT(0, pthread_create(&threads[i], NULL, migrate_beside, pool));
    for (int i = 0; i < 4; i++) {
        CHECK_INT(0, pthread_join(threads[i], &answer));
        CHECK_INT(EF_OK, (intptr_t)answer);
    }
    CHECK_STATUS(EF_OK, ef__pg_migrated(pool, "test", &done, &err), &err);
    CHECK_INT(2, done);
    CHECK_STATUS(EF_NEWER_SCHEMA, ef__pg_migrate(pool, "test", NULL, 1, &err), &err);
    exec(pool, "DROP SCHEMA everfold CASCADE");
    ef__pg_pool_close(pool);
}

TEST_MAIN(TEST_CASE(values_come_back_as_they_went), TEST_CASE(arrays_carry_many_values_and_nulls),
          TEST_CASE(what_was_sent_together_is_taken_in_order),
          TEST_CASE(a_failure_takes_what_was_sent_behind_it_and_the_connection_goes_on),
          TEST_CASE(an_unexpected_result_is_not_waited_for),
          TEST_CASE(a_transaction_is_tried_again_and_done_once),
          TEST_CASE(a_connection_that_is_lost_in_the_commit_is_unsure),
          TEST_CASE(a_pool_has_a_bound_and_hands_on_what_comes_back),
          TEST_CASE(a_server_that_is_not_local_has_to_prove_who_it_is),
          TEST_CASE(a_server_that_a_service_names_has_to_prove_who_it_is),
          TEST_CASE(a_url_that_is_none_is_refused_without_its_password),
          TEST_CASE(who_cannot_be_reached_is_busy_and_what_is_not_there_is_named),
          TEST_CASE(of_several_hosts_the_one_that_takes_writes_is_used),
          TEST_CASE(a_notification_on_a_channel_is_received),
          TEST_CASE(migrations_run_once_for_concurrent_openers))
