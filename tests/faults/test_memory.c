/*
 * Memory runs out at the first allocation, then at the second, until a run ends without meeting it.
 *
 *     test_memory BACKEND [STRIDE [SEED]]      STRIDE 1: every allocation
 *
 * A run opens a journal and an engine, deploys, appends, folds, fails, reads in every way and
 * closes. Each call must answer EF_OK or EF_NO_MEMORY; one that failed is made again once there is
 * memory, and has to succeed; and in the end everything is there, once. A run is a process of its
 * own: the sanitizers report its crash or leak.
 */
#include "memory.h"
#include "test.h"

#include <everfold/everfold.h>
#include <everfold/view.h>

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAMS 3
#define EVENTS 12
#define WRONG_MAX 20 /* then it is known well enough */

static const char *backend = "memory";
static int64_t stride = 1, seed;

static const char PROGRAM[] = "projection sums version 1\n"
                              "  view data.who\n"
                              "  index total\n"
                              "on paid\n"
                              "  n += 1\n"
                              "  total += data.amount\n"
                              "  notes push data.note keep 3\n";
static const char BY_LOG[] = "projection kinds version 1\n"
                             "  order by log\n"
                             "  view type\n"
                             "on *\n"
                             "  n += 1\n";

/* One run, from an empty directory to the end. */
typedef struct run {
    const char *folder;
    ef_journal *journal;
    ef_engine *engine;
    ef_place places[EVENTS];
    int64_t nth;
    bool for_good;
    ef_error err;
} run;

/* --- what a run does ----------------------------------------------------------------------------
 */

static ef_status open_journal(run *r)
{
    char url[128] = "memory:";

    if (strcmp(backend, "sqlite") == 0)
        (void)snprintf(url, sizeof url, "sqlite:%s/journal.db", r->folder);
    return ef_journal_open(&(ef_journal_options){.url = url, .create = true, .partitions = 2},
                           &r->journal, &r->err);
}

static ef_status open_engine(run *r)
{
    char url[128] = "memory:";

    if (strcmp(backend, "sqlite") == 0)
        (void)snprintf(url, sizeof url, "sqlite:%s/views.db", r->folder);
    return ef_engine_open(
        &(ef_engine_options){.journal = r->journal, .views_url = url, .create = true}, &r->engine,
        &r->err);
}

static ef_status deploy(run *r, const char *program)
{
    ef_projection_list list = {0};
    ef_text report = {0};
    ef_status st = ef_projection_deploy(
        r->engine, &(ef_deploy){.file_name = "memory.fold", .text = ef_str_from(program)}, &list,
        &report, &r->err);

    EF_RELEASE(&list);
    EF_RELEASE(&report);
    return st;
}

static ef_status deploy_sums(run *r)
{
    return deploy(r, PROGRAM);
}

static ef_status deploy_kinds(run *r)
{
    return deploy(r, BY_LOG);
}

/* Events first … last - 1, in one append; with ids, so that sending again writes nothing new. */
static ef_status append(run *r, int first, int last)
{
    char ids[EVENTS][16], streams[EVENTS][16], data[EVENTS][80];
    ef_new_event events[EVENTS];

    for (int i = first; i < last; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "id-%d", i);
        (void)snprintf(streams[i], sizeof streams[i], "s-%d", i % STREAMS);
        (void)snprintf(data[i], sizeof data[i],
                       "{\"who\":\"w%d\",\"amount\":%d.5,\"note\":\"n%d\"}", i % 2, i, i);
        events[i] = (ef_new_event){.stream = ef_str_from(streams[i]),
                                   .type = EF_STR("paid"),
                                   .id = ef_str_from(ids[i]),
                                   .data = ef_str_from(data[i])};
    }
    return ef_journal_append(r->journal, events + first, (size_t)(last - first), r->places + first,
                             &r->err);
}

static ef_status append_first(run *r)
{
    return append(r, 0, EVENTS / 2);
}

static ef_status append_rest(run *r)
{
    return append(r, EVENTS / 2, EVENTS);
}

static ef_status work(run *r)
{
    ef_tick tick = {.more = true};
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && tick.more && i < 20; i++)
        st = ef_engine_work(r->engine, &(ef_work_options){.batch = 4, .no_leasing = true}, &tick,
                            &r->err);
    return st;
}

static ef_status read_events(run *r)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(r->journal, (ef_str){0}, EF_STR("s-1"), 1, 10, &batch, &r->err);

    if (st == EF_OK)
        st = ef_journal_read_id(r->journal, (ef_str){0}, EF_STR("id-3"), &batch, &r->err);
    if (st == EF_OK)
        st = ef_journal_read_log(r->journal, &(ef_log_query){.any_tenant = true}, &batch, &r->err);
    EF_RELEASE(&batch);
    return st;
}

static ef_status read_outbox(run *r)
{
    ef_outbox_query query = {.any_tenant = true, .limit = 10};
    ef_outbox_summary summary = {0};
    ef_row_list rows = {0};
    ef_status st = ef_outbox_summarise(r->journal, &query, &summary, &r->err);

    if (st == EF_OK)
        st = ef_outbox_ls(r->journal, &query, &rows, &r->err);
    EF_RELEASE(&summary.oldest);
    EF_RELEASE(&rows);
    return st;
}

static ef_status find_views(run *r)
{
    ef_view_query query = {.projection = EF_STR("sums"),
                           .where = EF_STR("total > 1 and n >= 1"),
                           .sort = EF_STR("-total"),
                           .fields = EF_STR("total,n")};
    ef_view_list list = {0};
    ef_status st = ef_view_find(r->engine, &query, &list, &r->err);

    EF_RELEASE(&list);
    return st;
}

static ef_status explain_view(run *r)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_view_list list = {0};
    ef_status st = ef_view_explain(r->engine, EF_STR("sums"), (ef_str){0}, EF_STR("w1"), 10, NULL,
                                   &batch, &r->err);

    if (st == EF_OK)
        st = ef_view_at(r->engine, EF_STR("sums"), (ef_str){0}, EF_STR("w1"), 4, NULL, &list,
                        &r->err);
    EF_RELEASE(&batch);
    EF_RELEASE(&list);
    return st;
}

static ef_status pause_and_resume(run *r)
{
    ef_status st =
        ef_projection_pause(r->engine, EF_STR("sums"), true, EF_STR(""), EF_STR(""), &r->err);

    return st == EF_OK ? ef_projection_pause(r->engine, EF_STR("sums"), false, EF_STR(""),
                                             EF_STR(""), &r->err)
                       : st;
}

static ef_status verify(run *r)
{
    ef_verify_result result;
    ef_status st = ef_journal_verify(r->journal, 0, NULL, NULL, &result, &r->err);

    return st == EF_OK && result.checked != EVENTS ? EF_DAMAGED : st;
}

static ef_status reopen(run *r)
{
    if (strcmp(backend, "sqlite") != 0)
        return EF_OK;
    ef_engine_close(r->engine);
    ef_journal_close(r->journal);
    r->engine = NULL;
    r->journal = NULL;
    ef_status st = open_journal(r);
    if (st != EF_OK)
        return st;
    return open_engine(r);
}

static const struct {
    const char *name;
    ef_status (*make)(run *r);
} CALLS[] = {
    {"open the journal", open_journal},
    {"open the engine", open_engine},
    {"deploy sums", deploy_sums},
    {"append", append_first},
    {"work", work},
    {"deploy kinds", deploy_kinds},
    {"append more", append_rest},
    {"work on", work},
    {"read events", read_events},
    {"read the outbox", read_outbox},
    {"find views", find_views},
    {"explain a view", explain_view},
    {"pause and resume", pause_and_resume},
    {"catch up", work},
    {"open again", reopen},
    {"verify", verify},
};

/* --- what must be so ----------------------------------------------------------------------------
 */

static bool say(const run *r, const char *what, const char *why)
{
    print_error("%s, allocation %" PRId64 "%s: %s: %s\n", backend, r->nth,
                r->for_good ? " and all that follow" : "", what, why);
    return false;
}

static bool has_view(run *r, const char *projection, const char *id, const char *data)
{
    ef_view_list list = {0};
    bool good = ef_view_get(r->engine, ef_str_from(projection), (ef_str){0}, ef_str_from(id), NULL,
                            &list, &r->err) == EF_OK &&
                list.count == 1 && ef_str_equal(list.items[0].data, ef_str_from(data));

    if (!good && list.count)
        (void)snprintf(r->err.text, sizeof r->err.text, "it is %.*s",
                       EF_STR_ARG(list.items[0].data));
    EF_RELEASE(&list);
    return good || say(r, id, r->err.text);
}

static bool is_accounted(run *r)
{
    ef_projection_list list = {0};
    ef_status st = ef_projection_ls(r->engine, (ef_str){0}, &list, &r->err);
    bool good = st == EF_OK && list.count == 2;

    for (size_t i = 0; good && i < list.count; i++)
        good = list.items[i].unaccounted == 0 && list.items[i].failures == 0 &&
               list.items[i].lag_events == 0 && ef_str_equal(list.items[i].state, EF_STR("live"));
    EF_RELEASE(&list);
    return good || say(r, "the projections", "events are missing, failed or waiting");
}

/* Everything is there, once: whatever failed on the way. */
static bool is_whole(run *r)
{
    return is_accounted(r) &&
           has_view(r, "sums", "w0", "{\"n\":6,\"notes\":[\"n6\",\"n8\",\"n10\"],\"total\":33}") &&
           has_view(r, "sums", "w1", "{\"n\":6,\"notes\":[\"n7\",\"n9\",\"n11\"],\"total\":39}") &&
           has_view(r, "kinds", "paid", "{\"n\":12}");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* A call that fails says so, by name, and succeeds once there is memory. */
static bool make_call(run *r, size_t i)
{
    ef_status st;

    r->err = (ef_error)EF_ERROR_INIT;
    st = CALLS[i].make(r);
    if (st == EF_OK)
        return true;
    if (st != EF_NO_MEMORY || r->err.status != st || !r->err.text[0])
        return say(r, CALLS[i].name, r->err.text[0] ? r->err.text : ef_status_describe(st)->name);
    if (!memory_has_failed())
        return say(r, CALLS[i].name, "it said that memory ran out, and none had");
    (void)memory_disarm();
    if (CALLS[i].make == reopen) { /* what was opened then is there */
        ef_engine_close(r->engine);
        ef_journal_close(r->journal);
        r->engine = NULL;
        r->journal = NULL;
        st = open_journal(r);
        st = st == EF_OK ? open_engine(r) : st;
    } else {
        st = CALLS[i].make(r);
    }
    return st == EF_OK || say(r, CALLS[i].name, r->err.text);
}

/* How many allocations there were; -1 when something was wrong. */
static int64_t run_with(const char *folder, int64_t nth, bool for_good)
{
    run r = {.folder = folder, .nth = nth, .for_good = for_good};
    bool good = true;
    int64_t count;

    memory_arm(nth, for_good);
    for (size_t i = 0; good && i < sizeof CALLS / sizeof CALLS[0]; i++)
        good = make_call(&r, i);
    count = memory_disarm();
    good = good && is_whole(&r);
    ef_engine_close(r.engine);
    ef_journal_close(r.journal);
    return good ? count : -1;
}

/* --- one run after another ----------------------------------------------------------------------
 */

static struct sigaction segv_handler; /* the sanitizer's, from before cmocka took its place */

/* In a process of its own, so that a crash or a leak is laid at the right allocation's door. Gives
 * how many allocations there were; -1 when something was wrong. */
static int64_t run_apart(int64_t nth, bool for_good)
{
    char folder[] = "/tmp/everfold-memory-XXXXXX";
    int64_t count = -1;
    int ends[2], status = 0;
    pid_t child;

    CHECK(mkdtemp(folder) != NULL);
    CHECK_INT(0, pipe(ends));
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        (void)sigaction(SIGSEGV, &segv_handler, NULL);
        count = run_with(folder, nth, for_good);
        (void)!write(ends[1], &count, sizeof count);
        exit(count < 0); /* the leak checker looks now */
    }
    (void)close(ends[1]);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (read(ends[0], &count, sizeof count) != (ssize_t)sizeof count)
        count = -1;
    (void)close(ends[0]);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (status == 0)
        return count;
    print_error("%s, allocation %" PRId64 "%s: the run ended with %d\n", backend, nth,
                for_good ? " and all that follow" : "", status);
    return -1;
}

static void run_everywhere(bool for_good)
{
    int64_t total = run_apart(INT64_MAX, false), runs = 0, wrong = 0;

    CHECK(total > 100);
    for (int64_t nth = 1 + seed % stride; nth <= total && wrong < WRONG_MAX; nth += stride) {
        wrong += run_apart(nth, for_good) < 0;
        runs++;
    }
    print_message("# %" PRId64 " of %" PRId64 " allocations on %s, seed %" PRId64 "\n", runs, total,
                  backend, seed);
    CHECK_INT(0, wrong);
}

TEST(an_allocation_that_fails_once_is_reported_and_nothing_is_lost)
{
    (void)state;
    run_everywhere(false);
}

TEST(memory_that_stays_exhausted_is_reported_and_nothing_is_lost)
{
    (void)state;
    run_everywhere(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(an_allocation_that_fails_once_is_reported_and_nothing_is_lost),
        TEST_CASE(memory_that_stays_exhausted_is_reported_and_nothing_is_lost)};
    const char *today = getenv("EVERFOLD_SEED");

    backend = argc > 1 ? argv[1] : backend;
    stride = argc > 2 ? strtoll(argv[2], NULL, 10) : stride;
    seed = argc > 3
               ? strtoll(argv[3], NULL, 10)
               : (today ? strtoll(today, NULL, 10)
                        : ef_clock_system()->wall_us(ef_clock_system()->context) / 86400000000);
    memory_init();
    (void)sigaction(SIGSEGV, NULL, &segv_handler);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
