#include "lease_rule.h"

#include <assert.h>

/* now + lease, saturated. */
static int64_t end_of_lease(int64_t now_us, int64_t lease_ms)
{
    int64_t lease_us, until_us;

    if (__builtin_mul_overflow(lease_ms, INT64_C(1000), &lease_us) ||
        __builtin_add_overflow(now_us, lease_us, &until_us))
        return INT64_MAX;
    return until_us;
}

/* until - from, saturated; until is the later one. */
static int64_t span_us(int64_t from_us, int64_t until_us)
{
    int64_t us;

    return __builtin_sub_overflow(until_us, from_us, &us) ? INT64_MAX : us;
}

/* The time at which a lease is judged. */
static int64_t judged_at(const ef__lease_row *row, int64_t now_us)
{
    return now_us > row->updated_us ? now_us : row->updated_us;
}

static int64_t ms_left(const ef__lease_row *row, int64_t now_us)
{
    int64_t left_us = span_us(judged_at(row, now_us), row->until_us);

    return left_us / 1000 + (left_us % 1000 > 0);
}

static bool held_under(const ef__lease_row *row, int64_t token)
{
    return row->owner.len > 0 && row->token == token;
}

static ef__lease_answer lost_answer(const ef__lease_row *row)
{
    return (ef__lease_answer){.status = EF_LEASE_LOST, .row = *row};
}

bool ef__lease_live(const ef__lease_row *row, int64_t now_us)
{
    if (row->owner.len == 0 || row->until_us <= judged_at(row, now_us))
        return false;
    return now_us >= row->updated_us ||
           span_us(now_us, row->updated_us) <= span_us(row->updated_us, row->until_us);
}

void ef__lease_bring_back(int64_t *updated_us, int64_t *until_us, int64_t now_us)
{
    int64_t length_us = span_us(*updated_us, *until_us);

    if (span_us(now_us, *updated_us) <= EF__CLOCK_SLACK_US)
        return;
    if (*until_us)
        *until_us = span_us(now_us, *updated_us) <= length_us ? now_us + length_us : now_us;
    *updated_us = now_us;
}

/* Gives the lease to `owner`, under its token with `keep`, unless another owner holds it. */
static ef__lease_answer give_lease(const ef__lease_row *row, ef_str owner, bool keep,
                                   int64_t now_us, int64_t lease_ms)
{
    assert(owner.len > 0 && lease_ms > 0);
    if (ef__lease_live(row, now_us) && !ef_str_equal(row->owner, owner))
        return (ef__lease_answer){EF_LEASE_HELD, *row, ms_left(row, now_us)};

    assert(row->token < INT64_MAX);
    return (ef__lease_answer){
        .status = EF_OK,
        .row = {owner, keep ? row->token : row->token + 1, end_of_lease(now_us, lease_ms), now_us},
    };
}

ef__lease_answer ef__lease_acquire(const ef__lease_row *row, ef_str owner, int64_t now_us,
                                   int64_t lease_ms)
{
    return give_lease(row, owner, ef__lease_live(row, now_us), now_us, lease_ms);
}

ef__lease_answer ef__lease_renew_or_acquire(const ef__lease_row *row, ef_str owner, int64_t token,
                                            int64_t now_us, int64_t lease_ms)
{
    return give_lease(row, owner, ef__lease_check(row, token, now_us) == EF_OK, now_us, lease_ms);
}

ef__lease_answer ef__lease_renew(const ef__lease_row *row, int64_t token, int64_t now_us,
                                 int64_t lease_ms)
{
    assert(lease_ms > 0);
    if (ef__lease_check(row, token, now_us) != EF_OK)
        return lost_answer(row);
    return (ef__lease_answer){
        .status = EF_OK,
        .row = {row->owner, token, end_of_lease(now_us, lease_ms), now_us},
    };
}

ef__lease_answer ef__lease_release(const ef__lease_row *row, int64_t token, int64_t now_us)
{
    if (!held_under(row, token))
        return lost_answer(row);
    /* The token stays: the next one must be higher than any that was ever given out. */
    return (ef__lease_answer){.status = EF_OK, .row = {.token = token, .updated_us = now_us}};
}

ef_status ef__lease_check(const ef__lease_row *row, int64_t token, int64_t now_us)
{
    return held_under(row, token) && ef__lease_live(row, now_us) ? EF_OK : EF_LEASE_LOST;
}
