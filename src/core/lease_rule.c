#include "lease_rule.h"

#include <assert.h>

/* now + lease, at most the end of time. */
static int64_t end_of_lease(int64_t now_us, int64_t lease_ms)
{
    int64_t lease_us, until_us;

    if (__builtin_mul_overflow(lease_ms, INT64_C(1000), &lease_us) ||
        __builtin_add_overflow(now_us, lease_us, &until_us))
        return INT64_MAX;
    return until_us;
}

static int64_t ms_left(const ef__lease_row *row, int64_t now_us)
{
    int64_t left_us;

    if (__builtin_sub_overflow(row->until_us, now_us, &left_us))
        left_us = INT64_MAX;
    return left_us / 1000 + (left_us % 1000 > 0);
}

static bool held_under(const ef__lease_row *row, int64_t token)
{
    return row->owner.len > 0 && row->token == token;
}

static ef__lease_answer lost(const ef__lease_row *row)
{
    return (ef__lease_answer){.status = EF_LEASE_LOST, .row = *row};
}

bool ef__lease_live(const ef__lease_row *row, int64_t now_us)
{
    return row->owner.len > 0 && row->until_us > now_us;
}

ef__lease_answer ef__lease_acquire(const ef__lease_row *row, ef_str owner, int64_t now_us,
                                   int64_t lease_ms)
{
    bool live = ef__lease_live(row, now_us);

    assert(owner.len > 0 && lease_ms > 0);
    if (live && !ef_str_equal(row->owner, owner))
        return (ef__lease_answer){EF_LEASE_HELD, *row, ms_left(row, now_us)};

    assert(row->token < INT64_MAX);
    return (ef__lease_answer){
        .status = EF_OK,
        .row = {owner, live ? row->token : row->token + 1, end_of_lease(now_us, lease_ms)},
    };
}

ef__lease_answer ef__lease_renew(const ef__lease_row *row, int64_t token, int64_t now_us,
                                 int64_t lease_ms)
{
    assert(lease_ms > 0);
    if (ef__lease_check(row, token, now_us) != EF_OK)
        return lost(row);
    return (ef__lease_answer){
        .status = EF_OK,
        .row = {row->owner, token, end_of_lease(now_us, lease_ms)},
    };
}

ef__lease_answer ef__lease_release(const ef__lease_row *row, int64_t token)
{
    if (!held_under(row, token))
        return lost(row);
    /* The token stays: the next owner's must be higher than any that was ever given out. */
    return (ef__lease_answer){.status = EF_OK, .row = {.token = token}};
}

ef_status ef__lease_check(const ef__lease_row *row, int64_t token, int64_t now_us)
{
    return held_under(row, token) && ef__lease_live(row, now_us) ? EF_OK : EF_LEASE_LOST;
}
