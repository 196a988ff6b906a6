/*
 * views_fixture.h - tests of the interface of the view stores, run on every back end.
 *
 * Each test gets a new, empty store of the back end that the program was started with (its first
 * argument): "memory", "sqlite", "lmdb" or "postgres". The wall clock is the test's; it stands
 * still until it is moved.
 */
#ifndef EF_VIEWS_FIXTURE_H
#define EF_VIEWS_FIXTURE_H

#include "test.h"

#include "../../src/views/views.h"

typedef struct fixture {
    const char *backend;
    ef_views *views;
    ef__views_options options;
    char url[256];
    char dir[200]; /* the test's own; "" for memory */
    ef_clock clock;
    int64_t now_us;
    ef__arena arena; /* for what tests read; emptied with the fixture */
    ef_error err;
} fixture;

int fixture_setup(void **state);
int fixture_teardown(void **state);
int fixture_main(int argc, char **argv, struct CMUnitTest *tests, size_t count);
const char *fixture_backend(void); /* as asked for */
void fixture_open(fixture *t, const char *backend);
void fixture_close(fixture *t);
void reopen(fixture *t); /* a store in memory starts empty again */
bool survives(const fixture *t);

#define CONTRACT(name) static void name(__attribute__((unused)) void **state)
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define CONTRACT_MAIN(...)                                                                         \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        struct CMUnitTest tests[] = {__VA_ARGS__};                                                 \
        return fixture_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));                  \
    }
#define OK(call) CHECK_STATUS(EF_OK, call, &t->err)
#define REFUSED(status, call) CHECK_STATUS(status, call, &t->err)

/* A statement by a connection of its own, which must succeed: the first column of its first row, or
 * "". Lives until the next call. (postgres_run.c, or no_postgres_run.c where libpq is not) */
const char *postgres_run(fixture *t, const char *sql);

ef_str str(const char *text);
/* A generation of `name`, catching up, with these declared indexes ("" for none): its id. */
int64_t add_generation(fixture *t, const char *name, const char *index_paths);
/* As it is now; its strings live in the fixture's arena. */
ef__generation generation(fixture *t, int64_t id);
size_t generation_count(fixture *t);
/* Remove it, a row at a time. */
int64_t live_set(fixture *t);
ef_status remove_generation(fixture *t, int64_t id, int64_t era);

/* A change of one view, with the digest that it has now. */
ef__view_change change_of(fixture *t, int64_t generation, const char *tenant, const char *id,
                          const char *data);
/* A commit of one generation, with the era it has now. */
ef_status commit_change(fixture *t, const ef__generation_change *change);
/* Write one view, which must succeed; NULL data deletes it. */
void put_view(fixture *t, int64_t generation, const char *tenant, const char *id, const char *data);
/* Its data, or NULL. */
const char *view_data(fixture *t, int64_t generation, const char *tenant, const char *id);
/* Write a view with one key in index 0 … n - 1 each; a NULL key is none. */
void put_indexed(fixture *t, int64_t generation, const char *tenant, const char *id,
                 const char *data, const char *const *keys, int32_t count);
/* Move a watermark from where it is to `seq`. */
ef__watermark_change watermark_to(fixture *t, int64_t generation, const char *tenant,
                                  const char *stream, int64_t seq);
/* The sum over all views of a generation, made from nothing. */
void digest_from_scratch(fixture *t, int64_t generation, uint8_t out[EF__DIGEST_BYTES]);
/* "key/tenant/id " for each view of a scan; at most `limit`. */
const char *scan_text(fixture *t, const ef__view_scan *scan, size_t limit);

/* A small random generator, so that a seed determines the whole run. */
typedef struct dice {
    uint64_t state;
} dice;
uint32_t roll(dice *d, uint32_t sides); /* 0 … sides - 1 */

#endif
