/*
 * The record of changes: what a commit records for followed tenants, in which order, and how long.
 */
#include "views_fixture.h"

#include "../../src/base/limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MINUTE_US (60 * INT64_C(1000000))

static ef__follow_row follow(fixture *t, int64_t g, const char *tenant)
{
    ef__follow_row row;

    OK(t->views->ops->follow(t->views, g, str(tenant), t->now_us + MINUTE_US, &row, &t->err));
    return row;
}

static ef__change_list list_of(fixture *t, int64_t g, const char *tenant, int64_t after,
                               size_t limit)
{
    ef__change_list list = {0};

    OK(t->views->ops->change_ls(t->views, g, str(tenant), after, limit, &list, &t->err));
    return list;
}

/* "+a ~b -c" for records of views that were created, updated and deleted. */
static const char *recorded(fixture *t, int64_t g, const char *tenant, int64_t after)
{
    static char line[1024];
    ef__change_list list = list_of(t, g, tenant, after, 100);
    size_t at = 0;

    line[0] = '\0';
    for (size_t i = 0; i < list.count; i++) {
        const ef__change_record *r = &list.items[i];
        CHECK(r->number > (i ? list.items[i - 1].number : after));
        CHECK(r->number <= list.follow.last);
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%c%.*s", i ? " " : "",
                               " +~-"[r->kind], EF_STR_ARG(r->view_id));
    }
    EF_RELEASE(&list);
    return line;
}

static bool is_valid(fixture *t, int64_t g, const char *tenant, int64_t number)
{
    ef__change_list list = list_of(t, g, tenant, number, 1);
    bool valid = list.is_followed && number >= list.follow.low && number <= list.follow.last;

    EF_RELEASE(&list);
    return valid;
}

CONTRACT(nothing_is_recorded_without_followed_tenants)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__change_list list;

    put_view(t, g, "t", "v", "{\"n\":1}");
    list = list_of(t, g, "t", 0, 10);
    CHECK(!list.is_followed);
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
    follow(t, g, "t");
    CHECK_TEXT("", recorded(t, g, "t", 0));
}

CONTRACT(a_commit_records_what_it_created_updated_and_deleted)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row;
    ef__change_list list;

    put_view(t, g, "t", "old", "{\"n\":1}");
    row = follow(t, g, "t");
    CHECK_INT(row.low, row.last);
    {
        ef__view_change changes[] = {change_of(t, g, "t", "new", "{\"n\":1}"),
                                     change_of(t, g, "t", "old", "{\"n\":2}"),
                                     change_of(t, g, "t", "never", NULL)};
        ef__generation_change change = {.generation = g, .views = changes, .view_count = 3};
        changes[0].view.last_position = 7;
        OK(commit_change(t, &change));
    }
    CHECK_TEXT("+new ~old", recorded(t, g, "t", row.last));
    list = list_of(t, g, "t", row.last, 1);
    CHECK_INT(1, list.count);
    CHECK_INT(7, list.items[0].position);
    CHECK_INT(2, list.follow.kept);
    put_view(t, g, "t", "old", NULL);
    CHECK_TEXT("~old -old", recorded(t, g, "t", list.items[0].number));
    EF_RELEASE(&list);
    if (survives(t)) {
        reopen(t);
        CHECK_TEXT("+new ~old -old", recorded(t, g, "t", row.last));
    }
}

CONTRACT(a_commit_that_is_refused_records_nothing)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row = follow(t, g, "t");
    ef__view_change changes[] = {change_of(t, g, "t", "v", "{}"), change_of(t, g, "t", "w", "{}")};
    ef__generation_change change = {.generation = g, .views = changes, .view_count = 2};

    changes[1].before[0] = 1; /* not what is there */
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    CHECK_TEXT("", recorded(t, g, "t", 0));
    CHECK(is_valid(t, g, "t", row.last));
}

CONTRACT(tenants_and_generations_are_recorded_apart)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    ef__view_change changes[] = {change_of(t, g, "t", "v", "{}"), change_of(t, g, "u", "v", "{}"),
                                 change_of(t, g, "s", "w", "{}")};
    ef__generation_change change = {.generation = g, .views = changes, .view_count = 3};

    follow(t, g, "t");
    follow(t, g, "s");
    follow(t, other, "u");
    OK(commit_change(t, &change));
    CHECK_TEXT("+v", recorded(t, g, "t", 0));
    CHECK_TEXT("+w", recorded(t, g, "s", 0));
    CHECK_TEXT("", recorded(t, other, "u", 0));
    CHECK(!is_valid(t, g, "u", 0));
}

CONTRACT(following_again_extends_the_time_and_keeps_the_record)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row first = follow(t, g, "t"), again;

    put_view(t, g, "t", "v", "{}");
    OK(t->views->ops->follow(t->views, g, str("t"), t->now_us + 5, &again, &t->err));
    CHECK_INT(first.until_us, again.until_us); /* never shortened */
    CHECK_INT(first.low, again.low);
    CHECK_INT(1, again.kept);
    t->now_us += MINUTE_US / 2;
    again = follow(t, g, "t");
    CHECK_INT(first.until_us + MINUTE_US / 2, again.until_us);
    CHECK_TEXT("+v", recorded(t, g, "t", first.last));
    /* Its time is over, but no commit has met it: it goes on. */
    t->now_us += 2 * MINUTE_US;
    again = follow(t, g, "t");
    CHECK(is_valid(t, g, "t", first.last));
    put_view(t, g, "t", "v", "{\"n\":1}");
    CHECK_TEXT("+v ~v", recorded(t, g, "t", first.last));
}

CONTRACT(a_number_is_never_valid_again_when_the_time_is_over)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row first = follow(t, g, "t"), again;
    int64_t last;

    for (int i = 0; i < 5; i++)
        put_view(t, g, "t", "v", i % 2 ? "{}" : "{\"n\":1}");
    last = follow(t, g, "t").last;
    t->now_us += 2 * MINUTE_US;
    put_view(t, g, "u", "w", "{}"); /* of whatever tenant */
    CHECK(!is_valid(t, g, "t", last));
    CHECK_TEXT("", recorded(t, g, "t", 0));

    t->now_us = 1; /* a clock that jumps back changes nothing */
    again = follow(t, g, "t");
    CHECK(again.low > last);
    CHECK(!is_valid(t, g, "t", first.last));
    CHECK(!is_valid(t, g, "t", last));
    put_view(t, g, "t", "v", NULL);
    CHECK_TEXT("-v", recorded(t, g, "t", again.last));
    CHECK(!is_valid(t, g, "t", last));
}

CONTRACT(a_row_whose_time_is_over_is_removed_when_another_is_followed)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row = follow(t, g, "t");

    put_view(t, g, "t", "v", "{}");
    t->now_us += 2 * MINUTE_US;
    CHECK(is_valid(t, g, "t", row.last));
    follow(t, g, "u");
    CHECK(!is_valid(t, g, "t", row.last));
    CHECK(is_valid(t, g, "u", follow(t, g, "u").last));
}

CONTRACT(numbers_do_not_fall_behind_the_time)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    int64_t last;

    t->now_us += MINUTE_US;
    follow(t, g, "t");
    put_view(t, g, "t", "v", "{}");
    last = follow(t, g, "t").last;
    CHECK(last >= t->now_us);
    t->now_us -= MINUTE_US / 2;
    put_view(t, g, "t", "v", "{\"n\":1}");
    CHECK(follow(t, g, "t").last > last);
}

CONTRACT(the_oldest_records_are_deleted_and_places_before_them_are_not_valid)
{
    enum { VIEWS = 5000 };
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row = follow(t, g, "t"), now = row;
    ef__view_change *changes = malloc(VIEWS * sizeof *changes);
    char(*ids)[16] = malloc(VIEWS * sizeof *ids);
    ef__change_list list;

    for (int i = 0; i < VIEWS; i++)
        (void)snprintf(ids[i], sizeof ids[i], "v%05d", i);
    for (int round = 0; round * VIEWS <= EF_LIMIT_CHANGES_KEPT; round++) {
        ef__generation_change change = {.generation = g, .views = changes, .view_count = VIEWS};
        uint64_t digest[2] = {0, 0};
        for (int i = 0; i < VIEWS; i++) {
            ef__view before = {.tenant = str("t"), .id = str(ids[i]), .data = str("{}")};
            if (round > 0)
                ef__view_digest(&before, digest);
            changes[i] = (ef__view_change){.view = before, .before = {digest[0], digest[1]}};
        }
        CHECK(is_valid(t, g, "t", row.last));
        OK(commit_change(t, &change));
    }
    now = follow(t, g, "t");
    CHECK_INT(EF_LIMIT_CHANGES_LEFT, now.kept);
    CHECK(!is_valid(t, g, "t", row.last));
    CHECK(is_valid(t, g, "t", now.low));
    list = list_of(t, g, "t", now.low, EF_LIMIT_CHANGES_KEPT);
    CHECK_INT(EF_LIMIT_CHANGES_LEFT, list.count);
    EF_RELEASE(&list);
    list = list_of(t, g, "t", 0, 1);
    CHECK(list.items[0].number > now.low);
    EF_RELEASE(&list);
    free(ids);
    free(changes);
}

CONTRACT(too_many_tenants_are_refused)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row;
    char tenant[16];

    if (strcmp(t->backend, "sqlite") == 0 || strcmp(t->backend, "lmdb") == 0)
        return; /* each is synced, which takes a minute on a slow disk */
    for (int i = 0; i < EF_LIMIT_FOLLOWED_TENANTS; i++) {
        (void)snprintf(tenant, sizeof tenant, "t%d", i);
        follow(t, g, tenant);
    }
    REFUSED(EF_BUSY, t->views->ops->follow(t->views, g, str("one more"), t->now_us + MINUTE_US,
                                           &row, &t->err));
    follow(t, g, "t17");
    t->now_us += 2 * MINUTE_US;
    follow(t, g, "one more"); /* in place of one that has ended */
}

CONTRACT(a_generation_goes_with_its_record)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__follow_row row;

    follow(t, g, "t");
    follow(t, g, "u");
    for (int i = 0; i < 3; i++)
        put_view(t, g, "t", "v", i % 2 ? "{}" : "{\"n\":1}");
    OK(remove_generation(t, g, 0));
    CHECK(!is_valid(t, g, "t", 0));
    REFUSED(EF_NOT_FOUND,
            t->views->ops->follow(t->views, g, str("t"), t->now_us + MINUTE_US, &row, &t->err));
    if (strcmp(t->backend, "postgres") == 0)
        CHECK_TEXT("0", postgres_run(t, "SELECT (SELECT count(*) FROM everfold_views.follow) + "
                                        "(SELECT count(*) FROM everfold_views.view_change)"));
}

/* --- writers at the same time ------------------------------------------------------------------
 */

enum { COMMITS = 120 };

typedef struct writer {
    fixture *t;
    int64_t generation;
    char id[8];
    int done; /* commits */
} writer;

/* A view that counts the commits of its writer. */
static void *write_on(void *context)
{
    writer *w = context;
    uint64_t before[2] = {0, 0};
    ef_error err = EF_ERROR_INIT;

    for (int i = 0; i < COMMITS; i++) {
        char data[32];
        ef__view_change change = {.view = {.tenant = str("t"), .id = str(w->id)},
                                  .before = {before[0], before[1]}};
        ef__generation_change g = {
            .generation = w->generation, .era = 1, .views = &change, .view_count = 1};
        (void)snprintf(data, sizeof data, "{\"n\":%d}", i + 1);
        change.view.data = str(data);
        if (w->t->views->ops->commit(w->t->views,
                                     &(ef__views_commit){.no_sync = i % 2 == 0,
                                                         .generations = &g,
                                                         .generation_count = 1},
                                     &err) != EF_OK)
            break;
        ef__view_digest(&change.view, before);
        w->done++;
    }
    return NULL;
}

static int count_in(fixture *t, int64_t g, const char *id)
{
    const char *data = view_data(t, g, "t", id);
    int n = 0;

    if (data)
        (void)sscanf(data, "{\"n\":%d}", &n);
    return n;
}

/* Read on as a follower does; each record is one more of its writer's. */
static int64_t read_on(fixture *t, int64_t g, int64_t after, int counts[2])
{
    ef__change_list list = list_of(t, g, "t", after, 7);

    CHECK(list.is_followed);
    for (size_t i = 0; i < list.count; i++) {
        CHECK(list.items[i].number > after);
        after = list.items[i].number;
        counts[list.items[i].view_id.ptr[0] - 'a']++;
    }
    EF_RELEASE(&list);
    return after;
}

CONTRACT(records_of_writers_at_the_same_time_are_read_in_order_and_none_is_missed)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    writer writers[2] = {{.t = t, .generation = g, .id = "a"},
                         {.t = t, .generation = g, .id = "b"}};
    int before[2], counts[2] = {0, 0};
    pthread_t threads[2];
    int64_t place, last;

    for (int i = 0; i < 2; i++)
        CHECK_INT(0, pthread_create(&threads[i], NULL, write_on, &writers[i]));
    while (count_in(t, g, "a") < 10) {
    }
    place = follow(t, g, "t").last;
    for (int i = 0; i < 2; i++)
        before[i] = count_in(t, g, writers[i].id);
    for (int i = 0; i < 100; i++)
        place = read_on(t, g, place, counts);
    for (int i = 0; i < 2; i++)
        CHECK_INT(0, pthread_join(threads[i], NULL));
    do {
        last = place;
        place = read_on(t, g, place, counts);
    } while (place != last);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(COMMITS, writers[i].done);
        CHECK(counts[i] >= COMMITS - before[i]);
        CHECK(counts[i] <= COMMITS);
    }
}

CONTRACT_MAIN(CASE(nothing_is_recorded_without_followed_tenants),
              CASE(a_commit_records_what_it_created_updated_and_deleted),
              CASE(a_commit_that_is_refused_records_nothing),
              CASE(tenants_and_generations_are_recorded_apart),
              CASE(following_again_extends_the_time_and_keeps_the_record),
              CASE(a_number_is_never_valid_again_when_the_time_is_over),
              CASE(a_row_whose_time_is_over_is_removed_when_another_is_followed),
              CASE(numbers_do_not_fall_behind_the_time),
              CASE(the_oldest_records_are_deleted_and_places_before_them_are_not_valid),
              CASE(too_many_tenants_are_refused), CASE(a_generation_goes_with_its_record),
              CASE(records_of_writers_at_the_same_time_are_read_in_order_and_none_is_missed))
