/*
 * refusal.h - messages of refusals that every back end of the journal can return.
 *
 * Each function sets `err` and returns its status. A back end that composed these messages by
 * itself would word the same refusal in another way; tests/contract compares them on every back
 * end.
 */
#pragma once

#include "lease.h"
#include "outbox.h"

#include "../core/lease_rule.h"

/* `what`: "stream", "event", "lane", "run" or "type". */
ef_status ef__refuse_unknown(const char *what, ef_str name, ef_error *err);
ef_status ef__refuse_cursor(ef_error *err);
ef_status ef__refuse_wait(int64_t after, int64_t timeout_ms, ef_error *err);

ef_status ef__refuse_unregistered_type(ef_str type, ef_error *err);
ef_status ef__refuse_alias_of_alias(ef_str type, ef_str alias_of, ef_error *err);
/* Another type is an alias of `type`. */
ef_status ef__refuse_alias(ef_str type, ef_error *err);

ef_status ef__refuse_lane_kind(ef_str lane, ef_error *err);
/* A retry row of `row_lane` in an ack of `lane`. */
ef_status ef__refuse_retry_lane(ef_str row_lane, ef_str lane, ef_error *err);
ef_status ef__refuse_unknown_position(int64_t position, ef_error *err);
ef_status ef__refuse_partition(int64_t position, int32_t partition, ef_error *err);
/* An ack up to `upto`, where the offset is `offset` and rows up to `claimed` are in flight. */
ef_status ef__refuse_upto(ef_str lane, const ef_partition_lease *held, int64_t offset,
                          int64_t claimed, ef_error *err);

/* A write under `token`, while the token of the lease is `found`. */
ef_status ef__refuse_lost_lease(const ef_lease_key *key, int64_t token, int64_t found,
                                ef_error *err);
ef_status ef__refuse_held_lease(const ef_lease_call *call, const ef__lease_answer *answer,
                                ef_error *err);

/* Another run of the same scope is open. */
ef_status ef__refuse_run(ef_str open_id, ef_str projection, ef_run_state state, ef_error *err);
ef_status ef__refuse_run_state(ef_str id, ef_run_state from, ef_run_state to, ef_error *err);
ef_status ef__refuse_driven_run(ef_str id, ef_error *err);
