#include "../../src/core/lease_rule.h"

#include "test.h"

#define S INT64_C(1000000) /* a second */

static const ef__lease_row never_taken;

static ef__lease_row held_by(const char *owner, int64_t token, int64_t until_us)
{
    return (ef__lease_row){ef_str_from(owner), token, until_us, 0};
}

static void check_row(const char *owner, int64_t token, int64_t until_us, ef__lease_row row)
{
    CHECK_STR(owner, row.owner);
    CHECK_INT(token, row.token);
    CHECK_INT(until_us, row.until_us);
}

TEST(the_first_acquire_gives_token_1)
{
    ef__lease_answer a = ef__lease_acquire(&never_taken, EF_STR("a"), 5 * S, 10000);

    CHECK_INT(EF_OK, a.status);
    check_row("a", 1, 15 * S, a.row);
}

TEST(the_owner_renews_by_acquiring_and_keeps_the_token)
{
    ef__lease_row row = held_by("a", 3, 15 * S);
    ef__lease_answer a = ef__lease_acquire(&row, EF_STR("a"), 14 * S, 10000);

    CHECK_INT(EF_OK, a.status);
    check_row("a", 3, 24 * S, a.row);
}

TEST(a_lease_cannot_be_acquired_by_another_worker_before_it_expires)
{
    ef__lease_row row = held_by("a", 3, 15 * S);
    ef__lease_answer b = ef__lease_acquire(&row, EF_STR("b"), 15 * S - 1, 10000);

    CHECK_INT(EF_LEASE_HELD, b.status);
    CHECK_INT(1, b.left_ms);
    check_row("a", 3, 15 * S, b.row);
    CHECK_INT(10000, ef__lease_acquire(&row, EF_STR("b"), 5 * S, 1).left_ms);
    CHECK_INT(10000, ef__lease_acquire(&row, EF_STR("b"), 5 * S + 999, 1).left_ms);
    CHECK_INT(9999, ef__lease_acquire(&row, EF_STR("b"), 5 * S + 1000, 1).left_ms);
}

TEST(an_expired_lease_is_taken_over_with_a_higher_token)
{
    ef__lease_row row = held_by("a", 3, 15 * S);
    ef__lease_answer b = ef__lease_acquire(&row, EF_STR("b"), 15 * S, 10000);

    CHECK_INT(EF_OK, b.status);
    check_row("b", 4, 25 * S, b.row);
}

TEST(the_former_holder_gets_a_higher_token_after_expiry)
{
    ef__lease_row row = held_by("a", 3, 15 * S);
    ef__lease_answer a = ef__lease_acquire(&row, EF_STR("a"), 15 * S, 10000);

    CHECK_INT(EF_OK, a.status);
    check_row("a", 4, 25 * S, a.row);
}

TEST(holders_with_a_common_prefix_are_different)
{
    ef__lease_row row = held_by("a", 3, 15 * S);

    CHECK_INT(EF_LEASE_HELD, ef__lease_acquire(&row, EF_STR("ab"), 0, 10000).status);
    CHECK_INT(EF_LEASE_HELD, ef__lease_acquire(&row, EF_STR("A"), 0, 10000).status);
}

TEST(lease_renewal_needs_the_token_and_a_live_lease)
{
    ef__lease_row row = held_by("a", 3, 15 * S);

    check_row("a", 3, 24 * S, ef__lease_renew(&row, 3, 14 * S, 10000).row);
    CHECK_INT(EF_OK, ef__lease_renew(&row, 3, 15 * S - 1, 10000).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&row, 3, 15 * S, 10000).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&row, 2, 14 * S, 10000).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&row, 4, 14 * S, 10000).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&never_taken, 0, 0, 10000).status);
    check_row("a", 3, 15 * S, ef__lease_renew(&row, 2, 14 * S, 10000).row);
}

TEST(lease_release_needs_the_token_and_keeps_it)
{
    ef__lease_row row = held_by("a", 3, 15 * S);

    CHECK_INT(EF_LEASE_LOST, ef__lease_release(&row, 2, 0).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_release(&never_taken, 0, 0).status);

    ef__lease_answer free_again = ef__lease_release(&row, 3, 0);
    CHECK_INT(EF_OK, free_again.status);
    check_row("", 3, 0, free_again.row);
    CHECK_INT(EF_LEASE_LOST, ef__lease_release(&free_again.row, 3, 0).status);
    check_row("b", 4, 10 * S, ef__lease_acquire(&free_again.row, EF_STR("b"), 0, 10000).row);
}

TEST(a_write_is_refused_under_a_free_lost_or_expired_lease)
{
    ef__lease_row row = held_by("b", 4, 25 * S);
    ef__lease_row released = ef__lease_release(&row, 4, 0).row;

    CHECK_INT(EF_OK, ef__lease_check(&row, 4, 25 * S - 1));
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&row, 4, 25 * S));
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&row, 3, 0));
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&released, 4, 0));
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&released, 4, INT64_MIN));
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&never_taken, 0, -1));
}

TEST(a_clock_that_is_set_back_does_not_revive_a_lost_lease)
{
    ef__lease_row a = ef__lease_acquire(&never_taken, EF_STR("a"), 0, 10000).row;
    ef__lease_row b = ef__lease_acquire(&a, EF_STR("b"), 10 * S, 10000).row;

    CHECK_INT(EF_OK, ef__lease_check(&a, 1, 1 * S)); /* while no other worker has acquired it */
    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&b, 1, 1 * S));
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&b, 1, 1 * S, 10000).status);
    CHECK_INT(EF_LEASE_LOST, ef__lease_release(&b, 1, 0).status);
    CHECK_INT(EF_LEASE_HELD, ef__lease_acquire(&b, EF_STR("a"), 1 * S, 10000).status);
}

TEST(a_lease_without_end_does_not_overflow)
{
    ef__lease_row row = ef__lease_acquire(&never_taken, EF_STR("a"), 1, INT64_MAX).row;

    CHECK(row.until_us == INT64_MAX);
    row = ef__lease_acquire(&never_taken, EF_STR("a"), INT64_MAX - 1, 1).row;
    CHECK(row.until_us == INT64_MAX);
    row.updated_us = INT64_MIN;
    CHECK(ef__lease_acquire(&row, EF_STR("b"), INT64_MIN, 1).left_ms == INT64_MAX / 1000 + 1);
    row.updated_us = INT64_MAX - 1;
    CHECK_INT(EF_OK, ef__lease_acquire(&row, EF_STR("b"), INT64_MIN, 1).status);
}

TEST(a_clock_that_is_set_back_a_little_starts_the_lease_over)
{
    ef__lease_row row = {EF_STR("a"), 3, 110 * S, 100 * S};

    CHECK_INT(EF_LEASE_HELD, ef__lease_acquire(&row, EF_STR("b"), 90 * S, 10000).status);
    CHECK_INT(10000, ef__lease_acquire(&row, EF_STR("b"), 90 * S, 10000).left_ms);
    CHECK_INT(EF_OK, ef__lease_check(&row, 3, 90 * S));
    check_row("a", 3, 105 * S, ef__lease_renew(&row, 3, 95 * S, 10000).row);
}

TEST(a_clock_that_is_set_back_by_more_than_the_lease_ends_it)
{
    ef__lease_row row = {EF_STR("a"), 3, 110 * S, 100 * S};

    CHECK_INT(EF_LEASE_LOST, ef__lease_check(&row, 3, 90 * S - 1));
    CHECK_INT(EF_LEASE_LOST, ef__lease_renew(&row, 3, 90 * S - 1, 10000).status);
    check_row("b", 4, 15 * S, ef__lease_acquire(&row, EF_STR("b"), 5 * S, 10000).row);
}

TEST(renew_or_acquire_renews_under_its_token)
{
    ef__lease_row row = held_by("a", 3, 15 * S);

    check_row("a", 3, 24 * S, ef__lease_renew_or_acquire(&row, EF_STR("a"), 3, 14 * S, 10000).row);
}

TEST(renew_or_acquire_without_the_token_gets_a_new_one)
{
    ef__lease_row row = held_by("a", 3, 15 * S);

    check_row("a", 4, 24 * S, ef__lease_renew_or_acquire(&row, EF_STR("a"), 0, 14 * S, 10000).row);
    check_row("a", 4, 24 * S, ef__lease_renew_or_acquire(&row, EF_STR("a"), 2, 14 * S, 10000).row);
    check_row("a", 4, 25 * S, ef__lease_renew_or_acquire(&row, EF_STR("a"), 3, 15 * S, 10000).row);
    check_row("a", 1, 10 * S,
              ef__lease_renew_or_acquire(&never_taken, EF_STR("a"), 0, 0, 10000).row);
}

TEST(renew_or_acquire_does_not_take_over_a_live_lease)
{
    ef__lease_row row = held_by("a", 3, 15 * S);
    ef__lease_answer b = ef__lease_renew_or_acquire(&row, EF_STR("b"), 3, 14 * S, 10000);

    CHECK_INT(EF_LEASE_HELD, b.status);
    CHECK_INT(1000, b.left_ms);
    check_row("a", 3, 15 * S, b.row);
}

/*
 * Every sequence of five calls by two workers, with a clock that may stand still, step past the end
 * of the lease, or step back: 13^5 runs. The model only knows the results of the rules.
 */
enum { ACTS = 13, DEPTH = 5 };

typedef struct world {
    ef__lease_row row;
    int64_t now_us;
    int64_t token[2];   /* the last that each worker was given */
    int64_t highest;    /* that was ever given out */
    int64_t highest_of; /* to whom */
} world;

static void check_world(const world *w)
{
    CHECK_INT(w->highest, w->row.token);
    for (int i = 0; i < 2; i++) {
        bool may = w->token[i] > 0 && ef__lease_check(&w->row, w->token[i], w->now_us) == EF_OK;
        if (may)
            CHECK_INT(w->highest_of, i);
    }
}

static void act_acquire(world *w, int who)
{
    static const ef_str names[2] = {{"a", 1}, {"b", 1}};
    bool live = ef__lease_live(&w->row, w->now_us);
    ef__lease_answer answer = ef__lease_acquire(&w->row, names[who], w->now_us, 10);

    CHECK_INT(live && w->highest_of != who ? EF_LEASE_HELD : EF_OK, answer.status);
    CHECK_INT(answer.status == EF_OK && !live ? w->highest + 1 : w->highest, answer.row.token);
    if (answer.status == EF_OK) {
        w->highest = answer.row.token;
        w->highest_of = who;
        w->token[who] = answer.row.token;
    }
    w->row = answer.row;
}

/* A worker that calls renew_or_acquire has the token it was last given, or has forgotten it. */
static void act_take(world *w, int who, int64_t token)
{
    static const ef_str names[2] = {{"a", 1}, {"b", 1}};
    bool live = ef__lease_live(&w->row, w->now_us);
    bool mine = live && token == w->highest && token > 0;
    ef__lease_answer answer = ef__lease_renew_or_acquire(&w->row, names[who], token, w->now_us, 10);

    CHECK_INT(live && w->highest_of != who ? EF_LEASE_HELD : EF_OK, answer.status);
    if (answer.status == EF_OK) {
        CHECK_INT(mine ? w->highest : w->highest + 1, answer.row.token);
        w->highest = w->token[who] = answer.row.token;
        w->highest_of = who;
    }
    w->row = answer.row;
}

static void act(world *w, int which)
{
    int who = which % 2;

    switch (which / 2) {
    case 0:
        act_acquire(w, who);
        break;
    case 1:
        w->row = ef__lease_renew(&w->row, w->token[who], w->now_us, 10).row;
        break;
    case 2:
        w->row = ef__lease_release(&w->row, w->token[who], w->now_us).row;
        break;
    case 3:
        w->now_us += who == 0 ? 9999 : 10000;
        break;
    case 4:
        w->now_us -= who == 0 ? 1 : 15000;
        break;
    case 5:
        act_take(w, who, who == 0 ? w->token[who] : 0);
        break;
    default:
        w->now_us += 1;
    }
}

TEST(no_sequence_of_lease_calls_lets_two_workers_write_or_repeats_a_token)
{
    int runs = 1;

    for (int i = 0; i < DEPTH; i++)
        runs *= ACTS;
    for (int run = 0; run < runs; run++) {
        world w = {.now_us = S};
        for (int i = 0, rest = run; i < DEPTH; i++, rest /= ACTS) {
            act(&w, rest % ACTS);
            check_world(&w);
        }
    }
}

TEST_MAIN(TEST_CASE(the_first_acquire_gives_token_1),
          TEST_CASE(the_owner_renews_by_acquiring_and_keeps_the_token),
          TEST_CASE(a_lease_cannot_be_acquired_by_another_worker_before_it_expires),
          TEST_CASE(an_expired_lease_is_taken_over_with_a_higher_token),
          TEST_CASE(the_former_holder_gets_a_higher_token_after_expiry),
          TEST_CASE(holders_with_a_common_prefix_are_different),
          TEST_CASE(lease_renewal_needs_the_token_and_a_live_lease),
          TEST_CASE(lease_release_needs_the_token_and_keeps_it),
          TEST_CASE(a_write_is_refused_under_a_free_lost_or_expired_lease),
          TEST_CASE(a_clock_that_is_set_back_does_not_revive_a_lost_lease),
          TEST_CASE(a_lease_without_end_does_not_overflow),
          TEST_CASE(a_clock_that_is_set_back_a_little_starts_the_lease_over),
          TEST_CASE(a_clock_that_is_set_back_by_more_than_the_lease_ends_it),
          TEST_CASE(renew_or_acquire_renews_under_its_token),
          TEST_CASE(renew_or_acquire_without_the_token_gets_a_new_one),
          TEST_CASE(renew_or_acquire_does_not_take_over_a_live_lease),
          TEST_CASE(no_sequence_of_lease_calls_lets_two_workers_write_or_repeats_a_token))
