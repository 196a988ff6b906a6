/*
 * lease_call.h - one call on a lease, by the rules of core/lease_rule.h, for all back ends.
 */
#ifndef EF_JOURNAL_LEASE_CALL_H
#define EF_JOURNAL_LEASE_CALL_H

#include "journal.h"

#include "../core/lease_rule.h"

/* Decides a call by the row of its lease, and sets its status, token, until_us and left_ms. On
 * EF_OK the caller stores *out_row. EF_LEASE_HELD, EF_LEASE_LOST: refused; `err` may be NULL. */
ef_status ef__lease_call_decide(ef_lease_call *call, const ef__lease_row *row, int64_t now_us,
                                ef__lease_row *out_row, ef_error *err);

#endif
