/*
 * test_crew.c - workers that share partitions, with a clock that the test moves, on memory and on
 * SQLite (argv[1]). On SQLite each worker has a journal handle of its own, as a process has.
 */
#include "../../src/engine/engine_priv.h"
#include "../../src/journal/journal.h"

#include "stores.h"
#include "test.h"

#include <everfold/everfold.h>

#include <stdlib.h>
#include <unistd.h>

#define SECOND INT64_C(1000000)
#define PARTITIONS 4
#define WORKERS 6

static const char *g_backend = "memory";

static const char COUNTS[] = "projection counts version 1\n"
                             "  view type\n"
                             "\n"
                             "on *\n"
                             "  n += 1\n";

typedef struct team {
    ef_clock clock;
    int64_t wall_us, mono_us;
    char folder[64], journal_url[128], views_url[128];
    ef_journal *journal; /* the test's own */
    ef_journal *journals[WORKERS];
    ef_engine *engines[WORKERS];
    ef_work_options options;
    ef_error err;
} team;

static int64_t read_wall(void *context)
{
    return ((team *)context)->wall_us;
}

static int64_t read_mono(void *context)
{
    return ((team *)context)->mono_us;
}

static void pass_time(team *t, int64_t us)
{
    t->wall_us += us;
    t->mono_us += us;
}

static ef_journal *open_journal(team *t)
{
    ef_journal_options options = {
        .url = t->journal_url, .create = true, .partitions = PARTITIONS, .clock = &t->clock};
    ef_journal *journal;

    CHECK_STATUS(EF_OK, ef_journal_open(&options, &journal, &t->err), &t->err);
    return journal;
}

static void open_team(team *t)
{
    *t = (team){.err = EF_ERROR_INIT, .wall_us = INT64_C(1767225600) * SECOND, .mono_us = SECOND};
    t->clock = (ef_clock){read_wall, read_mono, t};
    (void)snprintf(t->folder, sizeof t->folder, "/tmp/everfold-crew-XXXXXX");
    CHECK(mkdtemp(t->folder) != NULL);
    store_url(t->journal_url, sizeof t->journal_url, g_backend, t->folder, "journal");
    /* All of the team see the same views, so they are never in memory. */
    store_url(t->views_url, sizeof t->views_url,
              store_survives(g_backend, "views") ? g_backend : "sqlite", t->folder, "views");
    t->journal = open_journal(t);
}

static void hire(team *t, int i)
{
    char name[16];
    bool shared = strcmp(g_backend, "memory") == 0;

    (void)snprintf(name, sizeof name, "w%d", i);
    t->journals[i] = shared ? t->journal : open_journal(t);
    CHECK_STATUS(EF_OK,
                 ef_engine_open(&(ef_engine_options){.journal = t->journals[i],
                                                     .views_url = t->views_url,
                                                     .create = true,
                                                     .worker = ef_str_from(name),
                                                     .clock = &t->clock},
                                &t->engines[i], &t->err),
                 &t->err);
}

static void dismiss(team *t, int i)
{
    ef_engine_close(t->engines[i]);
    if (t->journals[i] != t->journal)
        ef_journal_close(t->journals[i]);
    t->engines[i] = NULL;
    t->journals[i] = NULL;
}

static void close_team(team *t)
{
    char command[128];

    for (int i = 0; i < WORKERS; i++)
        if (t->engines[i])
            dismiss(t, i);
    ef_journal_close(t->journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", t->folder);
    CHECK_INT(0, system(command));
}

static ef_tick tick(team *t, int i)
{
    ef_tick found = {0};

    CHECK_STATUS(EF_OK, ef_engine_work(t->engines[i], &t->options, &found, &t->err), &t->err);
    return found;
}

/* All workers tick once a second, for `seconds` seconds. */
static void work_for(team *t, int seconds)
{
    for (int s = 0; s < seconds; s++) {
        pass_time(t, SECOND);
        for (int i = 0; i < WORKERS; i++)
            if (t->engines[i])
                (void)tick(t, i);
    }
}

static void append(team *t, const char *stream)
{
    ef_new_event event = {.stream = ef_str_from(stream), .type = EF_STR("a")};
    ef_place place;

    CHECK_STATUS(EF_OK, ef_journal_append(t->journal, &event, 1, &place, &t->err), &t->err);
}

static int64_t pending(team *t)
{
    ef_outbox_query query = {.any_tenant = true};
    ef_outbox_summary found = {0};

    CHECK_STATUS(EF_OK, ef_outbox_summarise(t->journal, &query, &found, &t->err), &t->err);
    EF_RELEASE(&found.oldest);
    return found.pending + found.processing;
}

/* How many partitions `owner` holds, by the store; `token` (may be NULL) gets that of the first. */
static int held_by(team *t, const char *owner, int64_t *token)
{
    ef_partition_list list = {0};
    int held = 0;

    CHECK_STATUS(EF_OK, ef_partition_ls(t->journal, &list, &t->err), &t->err);
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].live && ef_str_equal(list.items[i].holder, ef_str_from(owner))) {
            if (held++ == 0 && token)
                *token = list.items[i].token;
        }
    EF_RELEASE(&list);
    return held;
}

static size_t worker_count(team *t)
{
    ef_worker_list list = {0};
    size_t count;

    CHECK_STATUS(EF_OK, ef_worker_ls(t->journal, &list, &t->err), &t->err);
    count = list.count;
    EF_RELEASE(&list);
    return count;
}

static size_t live_count(team *t)
{
    ef_worker_list list = {0};
    size_t count = 0;

    CHECK_STATUS(EF_OK, ef_worker_ls(t->journal, &list, &t->err), &t->err);
    for (size_t i = 0; i < list.count; i++)
        count += list.items[i].live;
    EF_RELEASE(&list);
    return count;
}

/* When `id` last said that it is there. */
static int64_t last_beat(team *t, const char *id)
{
    ef_worker_list list = {0};
    int64_t found_us = 0;

    CHECK_STATUS(EF_OK, ef_worker_ls(t->journal, &list, &t->err), &t->err);
    for (size_t i = 0; i < list.count; i++)
        if (ef_str_equal(list.items[i].id, ef_str_from(id)))
            found_us = list.items[i].updated_us;
    EF_RELEASE(&list);
    return found_us;
}

static int64_t commits(team *t, int i)
{
    ef_store_facts facts;

    CHECK_STATUS(EF_OK, ef_journal_facts(t->journals[i], &facts, &t->err), &t->err);
    return facts.commits;
}

static void set_partitions(team *t, int32_t count)
{
    ef_partition_change change = {.count = count};
    ef_partition_sync_result changed;

    CHECK_STATUS(EF_OK, ef_partition_sync(t->journal, &change, &changed, &t->err), &t->err);
}

/* --- alone ------------------------------------------------------------------------------------ */

TEST(one_worker_leases_all_partitions)
{
    team t;
    ef_tick found;

    open_team(&t);
    hire(&t, 0);
    found = tick(&t, 0);
    CHECK_INT(1, found.active_workers);
    CHECK_INT(PARTITIONS, found.desired_count);
    CHECK_INT(PARTITIONS, found.owned_count);
    CHECK_INT(PARTITIONS, found.leased_count);
    CHECK(found.renewed_heartbeat);
    CHECK_INT(PARTITIONS, held_by(&t, "w0", NULL));
    close_team(&t);
}

TEST(a_beat_is_one_commit_and_there_is_none_between_beats)
{
    team t;
    int64_t before;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    pass_time(&t, SECOND);
    CHECK(tick(&t, 0).renewed_heartbeat); /* has another worker joined at the same time? */
    if (strcmp(g_backend, "sqlite") == 0) {
        before = commits(&t, 0);
        pass_time(&t, 3 * SECOND);
        CHECK(!tick(&t, 0).renewed_heartbeat);
        CHECK_INT(before, commits(&t, 0));
        pass_time(&t, SECOND);
        CHECK(tick(&t, 0).renewed_heartbeat);
        CHECK_INT(before + 1, commits(&t, 0));
    }
    close_team(&t);
}

TEST(leases_are_held_while_the_worker_ticks)
{
    team t;
    int64_t token = 0;

    open_team(&t);
    hire(&t, 0);
    work_for(&t, 60);
    CHECK_INT(PARTITIONS, held_by(&t, "w0", &token));
    CHECK_INT(1, token);
    CHECK_INT(PARTITIONS, tick(&t, 0).owned_count);
    close_team(&t);
}

TEST(a_closed_worker_leaves_no_lease_and_no_worker_row)
{
    team t;
    ef_lease_list leases = {0};

    open_team(&t);
    hire(&t, 0);
    append(&t, "s");
    (void)tick(&t, 0);
    CHECK_INT(1, worker_count(&t));
    dismiss(&t, 0);
    CHECK_INT(0, worker_count(&t));
    CHECK_STATUS(EF_OK, ef_lease_ls(t.journal, NULL, &leases, &t.err), &t.err);
    for (size_t i = 0; i < leases.count; i++)
        CHECK_STR("", leases.items[i].holder);
    EF_RELEASE(&leases);
    close_team(&t);
}

TEST(a_worker_that_slept_past_its_leases_acquires_them_again)
{
    team t;
    int64_t token = 0;
    ef_tick found;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    pass_time(&t, 11 * SECOND);
    found = tick(&t, 0);
    CHECK_INT(PARTITIONS, found.lost_count);
    CHECK_INT(PARTITIONS, found.leased_count);
    CHECK_INT(PARTITIONS, found.owned_count);
    CHECK_INT(PARTITIONS, held_by(&t, "w0", &token));
    CHECK_INT(2, token);
    close_team(&t);
}

TEST(a_purged_worker_joins_again)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    CHECK_STATUS(EF_OK, ef__worker_leave(t.journal, EF_STR("w0"), &t.err), &t.err);
    CHECK_INT(0, worker_count(&t));
    pass_time(&t, 4 * SECOND);
    (void)tick(&t, 0);
    CHECK_INT(1, worker_count(&t));
    close_team(&t);
}

/* --- together --------------------------------------------------------------------------------- */

TEST(a_worker_that_joins_gets_its_share_within_two_beats)
{
    team t;
    ef_tick found;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    hire(&t, 1);
    found = tick(&t, 1);
    CHECK_INT(2, found.active_workers);
    CHECK_INT(2, found.desired_count);
    CHECK_INT(0, found.owned_count); /* the other one holds them yet */
    work_for(&t, 7);
    CHECK_INT(2, held_by(&t, "w0", NULL));
    CHECK_INT(2, held_by(&t, "w1", NULL));
    close_team(&t);
}

TEST(workers_that_start_at_once_share_within_a_second)
{
    team t;

    open_team(&t);
    for (int i = 0; i < PARTITIONS; i++) {
        hire(&t, i);
        (void)tick(&t, i);
    }
    CHECK_INT(PARTITIONS, held_by(&t, "w0", NULL)); /* the first worker finds no other */
    for (int step = 0; step < 20; step++) {
        pass_time(&t, SECOND / 20);
        for (int i = 0; i < PARTITIONS; i++)
            (void)tick(&t, i);
    }
    for (int i = 0; i < PARTITIONS; i++)
        CHECK_INT(1, held_by(&t, (const char[]){'w', (char)('0' + i), '\0'}, NULL));
    close_team(&t);
}

TEST(a_partition_that_is_no_target_is_released)
{
    team t;
    ef_tick found;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    hire(&t, 1);
    (void)tick(&t, 1);
    pass_time(&t, 4 * SECOND);
    found = tick(&t, 0);
    CHECK_INT(2, found.released_count);
    CHECK_INT(2, found.owned_count);
    CHECK_INT(0, found.lost_count);
    CHECK_INT(2, found.active_workers);
    close_team(&t);
}

/* What was said: a level, a message and two numbers a line. */
static void note_line(void *context, ef_log_level level, const char *message,
                      const ef_log_field *fields, uint64_t field_count)
{
    char *said = context;
    size_t used = strlen(said);

    CHECK_INT(4, field_count);
    (void)snprintf(said + used, EF_LOG_LINE_MAX - used, "%d %s %d %d\n", (int)level, message,
                   (int)fields[2].number, (int)fields[3].number);
}

TEST(lease_changes_are_logged_in_one_line_per_beat)
{
    char said[EF_LOG_LINE_MAX] = "", expected[EF_LOG_LINE_MAX];
    ef_log log = {.level_min = EF_LOG_INFO, .write = note_line, .context = said};
    team t;

    open_team(&t);
    hire(&t, 0);
    t.engines[0]->options.log = &log;
    (void)tick(&t, 0);
    (void)tick(&t, 0);
    pass_time(&t, 4 * SECOND);
    (void)tick(&t, 0); /* a beat that moves nothing */
    (void)snprintf(expected, sizeof expected, "%d leases acquired 4 0\n", (int)EF_LOG_INFO);
    CHECK_TEXT(expected, said);
    log.level_min = EF_LOG_DEBUG;
    said[0] = '\0';
    pass_time(&t, 4 * SECOND);
    (void)tick(&t, 0);
    (void)snprintf(expected, sizeof expected, "%d leases renewed 0 0\n", (int)EF_LOG_DEBUG);
    CHECK_TEXT(expected, said);
    said[0] = '\0';
    dismiss(&t, 0);
    (void)snprintf(expected, sizeof expected, "%d leases released 0 4\n", (int)EF_LOG_INFO);
    CHECK_TEXT(expected, said);
    close_team(&t);
}

TEST(a_released_partition_has_a_holder_again_within_half_a_second)
{
    team t;
    int free_for = 0, longest = 0;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    pass_time(&t, SECOND); /* their beats do not meet */
    hire(&t, 1);
    for (int i = 0; i < 200; i++) {
        pass_time(&t, SECOND / 20);
        (void)tick(&t, 1); /* not behind the other: it would have at once what that gives back */
        (void)tick(&t, 0);
        free_for =
            held_by(&t, "w0", NULL) + held_by(&t, "w1", NULL) < PARTITIONS ? free_for + 1 : 0;
        longest = free_for > longest ? free_for : longest;
    }
    CHECK_INT(2, held_by(&t, "w1", NULL));
    CHECK(longest > 0 && longest <= 10);
    close_team(&t);
}

TEST(a_release_wakes_workers_without_partitions)
{
    team t;
    int64_t wake = 0;
    ef_tick found;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    hire(&t, 1);
    CHECK_INT(0, tick(&t, 1).owned_count);
    pass_time(&t, SECOND / 10);
    CHECK_INT(0, tick(&t, 1).owned_count); /* its next beat is in two tenths of a second */
    pass_time(&t, SECOND / 100);
    (void)ef__journal_wait(t.journal, EF__NO_APPENDS, &wake, 200, NULL); /* listen from now on */
    CHECK_INT(2, tick(&t, 0).released_count);
    CHECK_STATUS(EF_OK, ef__journal_wait(t.journal, EF__NO_APPENDS, &wake, 10000, &t.err), &t.err);
    found = tick(&t, 1); /* too soon after its last beat, but it knows now when to ask */
    CHECK_INT(0, found.owned_count);
    pass_time(&t, SECOND / 20);
    found = tick(&t, 1);
    CHECK_INT(2, found.owned_count);
    CHECK(!tick(&t, 1).renewed_heartbeat); /* one that has something waits for its beat */
    close_team(&t);
}

/* Another program holds the partitions from `from` on and never releases them: workers request them
 * at the usual interval only, with and without other partitions. */
static void check_usual_pace(int32_t from)
{
    team t;
    int beats = 0;
    int64_t token;

    open_team(&t);
    for (int32_t p = from; p < PARTITIONS; p++) {
        ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = p};
        CHECK_STATUS(EF_OK,
                     ef__lease_acquire_one(t.journal, &key, EF_STR("other"), 3600 * 1000, &token,
                                           NULL, &t.err),
                     &t.err);
    }
    hire(&t, 0);
    work_for(&t, 30);
    for (int i = 0; i < 300; i++) {
        pass_time(&t, SECOND / 10);
        beats += tick(&t, 0).renewed_heartbeat;
    }
    CHECK(beats >= 8 && beats <= 10);
    CHECK_INT(from, held_by(&t, "w0", NULL));
    close_team(&t);
}

TEST(a_partition_that_is_never_released_is_requested_at_the_usual_interval)
{
    check_usual_pace(PARTITIONS - 1);
    check_usual_pace(0);
}

TEST(a_worker_that_leaves_is_replaced_within_two_beats)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    CHECK_INT(2, held_by(&t, "w1", NULL));
    dismiss(&t, 0);
    work_for(&t, 4);
    CHECK_INT(PARTITIONS, held_by(&t, "w1", NULL));
    close_team(&t);
}

TEST(a_dead_worker_is_replaced_when_its_leases_end)
{
    team t;
    int64_t last_us, until_us;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    last_us = last_beat(&t, "w0");
    until_us = last_us + 10 * SECOND;
    /* w0 does nothing any more. */
    while (t.wall_us < until_us) {
        CHECK_INT(2, tick(&t, 1).owned_count);
        pass_time(&t, SECOND / 20);
    }
    pass_time(&t, SECOND / 20); /* then, and not at the next beat */
    CHECK_INT(PARTITIONS, tick(&t, 1).owned_count);
    CHECK_INT(PARTITIONS, held_by(&t, "w1", NULL));
    /* Its heartbeat is still shown, then over, then purged: nothing moves any more. */
    for (int s = 0; s < 400; s++) {
        pass_time(&t, SECOND);
        CHECK_INT(PARTITIONS, tick(&t, 1).owned_count);
    }
    CHECK_INT(1, worker_count(&t));
    close_team(&t);
}

TEST(a_shorter_lease_is_taken_over_sooner)
{
    team t;
    int64_t last_us;

    open_team(&t);
    t.options.lease_ms = 600;
    hire(&t, 0);
    hire(&t, 1);
    for (int i = 0; i < 40; i++) {
        pass_time(&t, SECOND / 10);
        (void)tick(&t, 0);
        (void)tick(&t, 1);
    }
    CHECK_INT(2, held_by(&t, "w1", NULL));
    last_us = last_beat(&t, "w0");
    while (t.wall_us < last_us + 700 * 1000) {
        pass_time(&t, SECOND / 50);
        (void)tick(&t, 1);
    }
    CHECK_INT(PARTITIONS, held_by(&t, "w1", NULL));
    close_team(&t);
}

/* It said that it is there and died before it took anything: no lease of it ever runs out. */
TEST(a_worker_that_died_without_leases_delays_nothing)
{
    team t;
    ef_worker shy = {.id = EF_STR("a")}; /* sorts before w0 */

    open_team(&t);
    hire(&t, 0);
    CHECK_STATUS(EF_OK,
                 ef__lease_many(t.journal, NULL, 0,
                                &(ef__heartbeat){.worker = &shy, .heartbeat_ms = 20000}, &t.err),
                 &t.err);
    CHECK_INT(2, tick(&t, 0).owned_count);
    for (int s = 0; s < 10; s++) {
        pass_time(&t, SECOND);
        (void)tick(&t, 0);
    }
    CHECK_INT(PARTITIONS, held_by(&t, "w0", NULL));
    close_team(&t);
}

/* One of three dies: the other two have all of it from then on, each the same partitions, whatever
 * becomes of the dead one's row. */
TEST(partitions_of_a_dead_worker_change_holder_once)
{
    team t;
    int64_t moved = 0;

    open_team(&t);
    for (int i = 0; i < 3; i++)
        hire(&t, i);
    work_for(&t, 12);
    for (int s = 0; s < 11; s++) {
        pass_time(&t, SECOND);
        (void)tick(&t, 0);
        (void)tick(&t, 2);
    }
    for (int s = 0; s < 4; s++) { /* two of them settle the shares */
        pass_time(&t, SECOND);
        (void)tick(&t, 0);
        (void)tick(&t, 2);
    }
    CHECK_INT(2, held_by(&t, "w0", NULL));
    CHECK_INT(2, held_by(&t, "w2", NULL));
    for (int s = 0; s < 60; s++) {
        ef_tick first, second;
        pass_time(&t, SECOND);
        first = tick(&t, 0);
        second = tick(&t, 2);
        moved += first.leased_count + first.released_count + first.lost_count;
        moved += second.leased_count + second.released_count + second.lost_count;
    }
    CHECK_INT(0, moved);
    close_team(&t);
}

TEST(a_worker_that_was_stopped_gets_its_share_back_when_it_wakes)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    for (int s = 0; s < 12; s++) { /* w0 is stopped; by now it is late, and not yet stale */
        pass_time(&t, SECOND);
        (void)tick(&t, 1);
    }
    CHECK_INT(PARTITIONS, held_by(&t, "w1", NULL));
    CHECK_INT(0, tick(&t, 0).owned_count);
    work_for(&t, 8);
    CHECK_INT(2, held_by(&t, "w0", NULL));
    CHECK_INT(2, held_by(&t, "w1", NULL));
    close_team(&t);
}

TEST(with_more_workers_than_partitions_some_hold_and_claim_nothing)
{
    team t;
    ef_tick found;

    open_team(&t);
    for (int i = 0; i < WORKERS; i++)
        hire(&t, i);
    work_for(&t, 10);
    for (int i = 0; i < PARTITIONS; i++)
        CHECK_INT(1, tick(&t, i).owned_count);
    for (int i = 0; i < 20; i++) {
        char stream[16];
        (void)snprintf(stream, sizeof stream, "s%d", i);
        append(&t, stream);
    }
    for (int i = PARTITIONS; i < WORKERS; i++) {
        found = tick(&t, i);
        CHECK_INT(0, found.desired_count);
        CHECK_INT(0, found.owned_count);
        CHECK_INT(0, found.claimed);
    }
    CHECK_INT(20, pending(&t));
    work_for(&t, 1);
    CHECK_INT(0, pending(&t));
    close_team(&t);
}

TEST(a_late_worker_does_not_work_on_lost_partitions)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    hire(&t, 1);
    pass_time(&t, 30 * SECOND); /* w0 was stopped: all of it has run out, its heartbeat too */
    CHECK_INT(PARTITIONS, tick(&t, 1).owned_count);
    append(&t, "s");
    /* w0 beats at once, and finds that it is one of two now. */
    CHECK_INT(0, tick(&t, 0).claimed);
    CHECK_INT(0, held_by(&t, "w0", NULL));
    CHECK_INT(1, tick(&t, 1).claimed);
    close_team(&t);
}

TEST(two_workers_of_one_name_are_distinguished_by_their_tokens)
{
    team t;
    int64_t token = 0;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    /* The same name again, as after a restart: it takes over at once, under tokens of its own. */
    t.journals[1] = strcmp(g_backend, "memory") == 0 ? t.journal : open_journal(&t);
    CHECK_STATUS(EF_OK,
                 ef_engine_open(&(ef_engine_options){.journal = t.journals[1],
                                                     .views_url = t.views_url,
                                                     .create = true,
                                                     .worker = EF_STR("w0"),
                                                     .clock = &t.clock},
                                &t.engines[1], &t.err),
                 &t.err);
    CHECK_INT(PARTITIONS, tick(&t, 1).owned_count);
    CHECK_INT(PARTITIONS, held_by(&t, "w0", &token));
    CHECK_INT(2, token);
    append(&t, "s");
    CHECK_INT(0, tick(&t, 0).claimed); /* refused under the old token */
    CHECK_INT(1, pending(&t));
    close_team(&t);
}

TEST(stale_workers_are_purged_once_per_five_minutes_by_all_of_them)
{
    team t;
    int64_t purged = 0;
    ef_worker gone = {.id = EF_STR("gone")};

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    (void)tick(&t, 0);
    CHECK_STATUS(EF_OK,
                 ef__lease_many(t.journal, NULL, 0,
                                &(ef__heartbeat){.worker = &gone, .heartbeat_ms = 1000}, &t.err),
                 &t.err);
    for (int s = 0; s < 400; s++) {
        pass_time(&t, SECOND);
        purged += tick(&t, 0).purged_stale + tick(&t, 1).purged_stale;
        if (s < 290)
            CHECK_INT(0, purged);
    }
    CHECK_INT(1, purged);
    CHECK_INT(2, worker_count(&t));
    close_team(&t);
}

/* --- single ----------------------------------------------------------------------------------- */

TEST(a_single_worker_holds_all_partitions_without_a_heartbeat)
{
    team t;
    ef_tick found;

    open_team(&t);
    t.options.no_leasing = true;
    hire(&t, 0);
    append(&t, "s");
    found = tick(&t, 0);
    CHECK_INT(PARTITIONS, found.owned_count);
    CHECK_INT(1, found.claimed);
    CHECK(!found.renewed_heartbeat);
    CHECK_INT(0, worker_count(&t));
    CHECK_INT(PARTITIONS, held_by(&t, "single worker", NULL));
    close_team(&t);
}

TEST(a_restarted_single_worker_continues_at_once)
{
    team t;
    int64_t token = 0;

    open_team(&t);
    t.options.no_leasing = true;
    hire(&t, 0);
    (void)tick(&t, 0);
    hire(&t, 1); /* the first one is not closed: it crashed */
    CHECK_INT(PARTITIONS, tick(&t, 1).owned_count);
    CHECK_INT(PARTITIONS, held_by(&t, "single worker", &token));
    CHECK_INT(2, token);
    close_team(&t);
}

TEST(a_single_worker_waits_for_the_leases_of_others)
{
    team t;
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = 1};
    int64_t token;

    open_team(&t);
    t.options.no_leasing = true;
    CHECK_STATUS(
        EF_OK, ef__lease_acquire_one(t.journal, &key, EF_STR("other"), 1000, &token, NULL, &t.err),
        &t.err);
    hire(&t, 0);
    CHECK_INT(PARTITIONS - 1, tick(&t, 0).owned_count);
    pass_time(&t, SECOND - 1);
    CHECK_INT(PARTITIONS - 1, tick(&t, 0).owned_count);
    pass_time(&t, 1); /* as soon as it has run out, not at the next beat */
    CHECK_INT(PARTITIONS, tick(&t, 0).owned_count);
    close_team(&t);
}

/* --- clocks ----------------------------------------------------------------------------------- */

TEST(a_jump_of_the_wall_clock_stops_no_worker_for_long)
{
    team t;
    const int64_t jumps[] = {3600 * SECOND, -3600 * SECOND, -7200 * SECOND, 5 * SECOND,
                             -5 * SECOND};

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        t.wall_us += jumps[i];
        work_for(&t, 10);
        CHECK_INT(2, tick(&t, 0).owned_count);
        CHECK_INT(2, tick(&t, 1).owned_count);
        append(&t, "s");
        work_for(&t, 1);
        CHECK_INT(0, pending(&t));
    }
    close_team(&t);
}

/* The clock gets to a dead worker's last beat once more: it has no share again. */
TEST(a_clock_set_back_revives_no_dead_worker)
{
    team t;
    int64_t moved = 0;

    open_team(&t);
    for (int i = 0; i < 3; i++)
        hire(&t, i);
    work_for(&t, 12);
    t.wall_us -= 60 * SECOND; /* w0 dies */
    for (int s = 0; s < 100; s++) {
        ef_tick first, second;
        pass_time(&t, SECOND);
        first = tick(&t, 1);
        second = tick(&t, 2);
        if (s < 11) /* the lease and a second */
            continue;
        CHECK_INT(PARTITIONS, first.owned_count + second.owned_count);
        moved += first.leased_count + first.released_count;
        moved += second.leased_count + second.released_count;
    }
    CHECK_INT(0, moved);
    CHECK_INT(2, live_count(&t));
    close_team(&t);
}

/* What a dead one had may live on for a lease from the next beat, but not once more when the clock
 * gets there. */
TEST(a_clock_set_back_later_leaves_no_partition_idle)
{
    for (int dead = 0; dead <= 20; dead += 20) {
        team t;
        open_team(&t);
        for (int i = 0; i < 3; i++)
            hire(&t, i);
        work_for(&t, 12);
        for (int s = 0; s < dead + 60; s++) { /* w0 is dead */
            int64_t owned;
            if (s == dead)
                t.wall_us -= 32 * SECOND;
            pass_time(&t, SECOND);
            owned = tick(&t, 1).owned_count;
            owned += tick(&t, 2).owned_count;
            if (s >= dead + 15) /* a beat, the lease, and a second */
                CHECK_INT(PARTITIONS, owned);
        }
        close_team(&t);
    }
}

TEST(a_clock_set_back_removes_no_live_worker)
{
    team t;
    ef_worker_list list = {0};
    int64_t started_us;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    started_us = t.wall_us + SECOND;
    work_for(&t, 8);
    t.wall_us -= 60 * SECOND;
    work_for(&t, 100);
    CHECK_STATUS(EF_OK, ef_worker_ls(t.journal, &list, &t.err), &t.err);
    CHECK_INT(2, list.count);
    for (size_t i = 0; i < list.count; i++)
        CHECK_INT(started_us, list.items[i].started_us);
    EF_RELEASE(&list);
    close_team(&t);
}

/* The leases that the first worker holds. */
static int64_t lease_count(team *t, ef_partition_lease **out)
{
    size_t count;

    *out = ef__membership_leases(&t->engines[0]->queue.membership, &count);
    return (int64_t)count;
}

TEST(a_worker_stops_when_its_lease_ends_by_its_own_clock)
{
    team t;
    ef_partition_lease *held;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    t.mono_us += 10 * SECOND - 1; /* the wall clock stands still: by the store, the lease is live */
    CHECK_INT(PARTITIONS, lease_count(&t, &held));
    t.mono_us += 1;
    CHECK_INT(0, lease_count(&t, &held));
    close_team(&t);
}

TEST(leases_are_renewed_during_long_work)
{
    team t;
    ef_partition_lease *held;
    ef_tick found = {0};
    int64_t token = 0;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    for (int s = 0; s < 60; s++) {
        pass_time(&t, SECOND);
        CHECK_STATUS(EF_OK, ef__membership_renew(&t.engines[0]->queue.membership, &found, &t.err),
                     &t.err);
    }
    CHECK_INT(PARTITIONS, lease_count(&t, &held));
    CHECK_INT(0, found.lost_count);
    CHECK_INT(PARTITIONS, held_by(&t, "w0", &token));
    CHECK_INT(1, token);
    close_team(&t);
}

TEST(a_recheck_drops_lost_leases_only)
{
    team t;
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = 1};
    ef_partition_lease *held;
    ef_tick found = {0};
    int64_t token;

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    CHECK_STATUS(EF_OK, ef__lease_release_one(t.journal, &key, 1, &t.err), &t.err);
    CHECK_STATUS(
        EF_OK, ef__lease_acquire_one(t.journal, &key, EF_STR("other"), 9000, &token, NULL, &t.err),
        &t.err);
    CHECK_STATUS(EF_OK, ef__membership_recheck(&t.engines[0]->queue.membership, &found, &t.err),
                 &t.err);
    CHECK_INT(1, found.lost_count);
    CHECK_INT(PARTITIONS - 1, lease_count(&t, &held));
    CHECK_INT(1, held[0].token);
    CHECK_INT(2, held[1].partition);
    close_team(&t);
}

/* A journal that was put back from a copy gives out tokens that the views have seen. */
TEST(tokens_grow_past_those_that_the_view_store_has_seen)
{
    team t;
    ef_partition_lease *held;
    ef_tick found = {0};

    open_team(&t);
    hire(&t, 0);
    (void)tick(&t, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_STATUS(EF_OK, ef__membership_recheck(&t.engines[0]->queue.membership, &found, &t.err),
                     &t.err);
        CHECK_INT(0, tick(&t, 0).owned_count); /* no busy loop */
        pass_time(&t, SECOND / 20);
        CHECK_INT(PARTITIONS, tick(&t, 0).owned_count);
    }
    CHECK_INT(PARTITIONS, lease_count(&t, &held));
    CHECK_INT(6, held[0].token);
    CHECK_INT(0, found.lost_count);
    close_team(&t);
}

/* --- the number of partitions ----------------------------------------------------------------- */

TEST(workers_follow_a_raised_partition_count_with_queued_rows)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    for (int i = 0; i < 20; i++) {
        char stream[16];
        (void)snprintf(stream, sizeof stream, "s%d", i);
        append(&t, stream);
        if (i == 9)
            set_partitions(&t, 32);
    }
    work_for(&t, 8);
    CHECK_INT(16, tick(&t, 0).owned_count);
    CHECK_INT(16, tick(&t, 1).owned_count);
    CHECK_INT(0, pending(&t));
    close_team(&t);
}

TEST(workers_follow_a_lowered_partition_count_without_stranded_rows)
{
    team t;

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    work_for(&t, 8);
    append(&t, "s");
    work_for(&t, 1);
    set_partitions(&t, 1);
    for (int i = 0; i < 20; i++) {
        char stream[16];
        (void)snprintf(stream, sizeof stream, "s%d", i);
        append(&t, stream);
    }
    work_for(&t, 8);
    CHECK_INT(1, tick(&t, 0).owned_count);
    CHECK_INT(0, tick(&t, 1).owned_count);
    CHECK_INT(0, tick(&t, 1).desired_count);
    CHECK_INT(0, pending(&t));
    close_team(&t);
}

/* Every stream of a projection is folded in order and once while the count goes up and down. */
TEST(streams_that_move_to_another_partition_keep_their_order)
{
    team t;
    ef_projection_list projections = {0};
    ef_text report = {0};
    ef_view_list views = {0};
    const int32_t counts[] = {7, 16, 3, 5};

    open_team(&t);
    hire(&t, 0);
    hire(&t, 1);
    CHECK_STATUS(EF_OK,
                 ef_projection_deploy(
                     t.engines[0], &(ef_deploy){.file_name = "t.fold", .text = ef_str_from(COUNTS)},
                     &projections, &report, &t.err),
                 &t.err);
    work_for(&t, 8);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        if (counts[c] < 16)
            work_for(&t, 12); /* lowering needs what waits to be worked off */
        for (int i = 0; i < 30; i++) {
            char stream[16];
            (void)snprintf(stream, sizeof stream, "s%d", i % 10);
            append(&t, stream);
            if (i == 15 && counts[c] == 16)
                set_partitions(&t, counts[c]);
        }
        work_for(&t, 12);
        set_partitions(&t, counts[c]);
    }
    work_for(&t, 60);
    CHECK_INT(0, pending(&t));
    CHECK_STATUS(
        EF_OK,
        ef_view_get(t.engines[0], EF_STR("counts"), (ef_str){0}, EF_STR("a"), NULL, &views, &t.err),
        &t.err);
    CHECK_STR("{\"n\":120}", views.items[0].data);
    EF_RELEASE(&views);
    EF_RELEASE(&projections);
    EF_RELEASE(&report);
    close_team(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(one_worker_leases_all_partitions),
        TEST_CASE(a_beat_is_one_commit_and_there_is_none_between_beats),
        TEST_CASE(leases_are_held_while_the_worker_ticks),
        TEST_CASE(a_closed_worker_leaves_no_lease_and_no_worker_row),
        TEST_CASE(a_worker_that_slept_past_its_leases_acquires_them_again),
        TEST_CASE(a_purged_worker_joins_again),
        TEST_CASE(a_worker_that_joins_gets_its_share_within_two_beats),
        TEST_CASE(workers_that_start_at_once_share_within_a_second),
        TEST_CASE(a_partition_that_is_no_target_is_released),
        TEST_CASE(lease_changes_are_logged_in_one_line_per_beat),
        TEST_CASE(a_released_partition_has_a_holder_again_within_half_a_second),
        TEST_CASE(a_release_wakes_workers_without_partitions),
        TEST_CASE(a_partition_that_is_never_released_is_requested_at_the_usual_interval),
        TEST_CASE(a_worker_that_leaves_is_replaced_within_two_beats),
        TEST_CASE(a_dead_worker_is_replaced_when_its_leases_end),
        TEST_CASE(a_shorter_lease_is_taken_over_sooner),
        TEST_CASE(a_worker_that_died_without_leases_delays_nothing),
        TEST_CASE(partitions_of_a_dead_worker_change_holder_once),
        TEST_CASE(a_worker_that_was_stopped_gets_its_share_back_when_it_wakes),
        TEST_CASE(with_more_workers_than_partitions_some_hold_and_claim_nothing),
        TEST_CASE(a_late_worker_does_not_work_on_lost_partitions),
        TEST_CASE(two_workers_of_one_name_are_distinguished_by_their_tokens),
        TEST_CASE(stale_workers_are_purged_once_per_five_minutes_by_all_of_them),
        TEST_CASE(a_single_worker_holds_all_partitions_without_a_heartbeat),
        TEST_CASE(a_restarted_single_worker_continues_at_once),
        TEST_CASE(a_single_worker_waits_for_the_leases_of_others),
        TEST_CASE(a_jump_of_the_wall_clock_stops_no_worker_for_long),
        TEST_CASE(a_clock_set_back_revives_no_dead_worker),
        TEST_CASE(a_clock_set_back_later_leaves_no_partition_idle),
        TEST_CASE(a_clock_set_back_removes_no_live_worker),
        TEST_CASE(a_worker_stops_when_its_lease_ends_by_its_own_clock),
        TEST_CASE(leases_are_renewed_during_long_work),
        TEST_CASE(a_recheck_drops_lost_leases_only),
        TEST_CASE(tokens_grow_past_those_that_the_view_store_has_seen),
        TEST_CASE(workers_follow_a_raised_partition_count_with_queued_rows),
        TEST_CASE(workers_follow_a_lowered_partition_count_without_stranded_rows),
        TEST_CASE(streams_that_move_to_another_partition_keep_their_order),
    };

    g_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
