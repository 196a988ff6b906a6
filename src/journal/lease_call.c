/*
 * lease_call.c - see lease_call.h.
 */
#include "lease_call.h"

#include "refusal.h"

static ef__lease_answer answer_call(const ef__lease_row *row, const ef_lease_call *call,
                                    int64_t now_us)
{
    switch (call->verb) {
    case EF_LEASE_ACQUIRE:
        return ef__lease_acquire(row, call->holder, now_us, call->lease_ms);
    case EF_LEASE_RENEW_OR_ACQUIRE:
        return ef__lease_renew_or_acquire(row, call->holder, call->token, now_us, call->lease_ms);
    case EF_LEASE_RENEW:
        return ef__lease_renew(row, call->token, now_us, call->lease_ms);
    default:
        return ef__lease_release(row, call->token, now_us);
    }
}

ef_status ef__lease_call_decide(ef_lease_call *call, const ef__lease_row *row, int64_t now_us,
                                ef__lease_row *out_row, ef_error *err)
{
    ef__lease_answer answer = answer_call(row, call, now_us);

    call->status = answer.status;
    call->left_ms = answer.left_ms;
    if (answer.status == EF_LEASE_HELD)
        return ef__refuse_held_lease(call, &answer, err);
    if (answer.status != EF_OK)
        return ef__refuse_lost_lease(&call->key, call->token, row->token, err);
    call->token = answer.row.token;
    call->until_us = answer.row.until_us;
    *out_row = answer.row;
    return EF_OK;
}
