/*
 * outbox.h - declarations that the files of the outbox, leases and runs share.
 *
 * All functions use a connection with an open transaction: that of the writer in a job, or that of
 * a reader. None acquires a lock.
 */
#pragma once

#include "store.h"

#include "../../base/limits.h"
#include "../../core/lease_rule.h"

/* --- lanes (outbox.c) ------------------------------------------------------------------------- */

/* Finds a lane; id 0 when there is none. Its name is the given one, its types are "". */
ef_status sq_lane_find(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);
/* The same; EF_NOT_FOUND when there is none. */
ef_status sq_lane_need(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);
/* The same, or a new lane of a projection. */
ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);

/* --- leases (lease.c) ------------------------------------------------------------------------- */

/* The time for leases and heartbeats: the unmodified clock. */
int64_t sq_clock_us(const sq_store *store);
/* Registers the SQL function is_acked on the connection of the writer (outbox_ack.c). */
ef_status sq_is_acked_register(sq_store *store, ef_error *err);
/* Registers the SQL function lease_live on a connection. */
ef_status sq_lease_live_register(ef__sq_conn *conn, ef_error *err);
/* EF_LEASE_LOST, with the tokens asked and found, unless it is live under this token. */
ef_status sq_lease_check(sq_store *store, ef__sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err);
/* The same for every partition held. */
ef_status sq_held_check(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                        const ef_partition_lease *held, size_t count, ef_error *err);
/* Counts EF_LEASE_LOST, and returns the status. */
ef_status sq_count_refused(sq_store *store, ef_status st);

/* --- lane offsets (outbox_ack.c) -------------------------------------------------------------- */

/* All zero when nothing was ever claimed. */
ef_status sq_offset_get(ef__sq_conn *conn, int64_t lane, int32_t partition, ef__lane_offset *out,
                        ef_error *err);
/* Creates a pending retry row of an event, in a job of the writer; an existing one stays. */
ef_status sq_retry_row_again(sq_store *store, const sq_lane *lane, int64_t position, ef_error *err);

/* --- the interface ---------------------------------------------------------------------------- */

/* outbox_claim.c */
ef_status sq_claim(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                   ef_error *err);
/* outbox_ack.c */
ef_status sq_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                 ef_error *err);
ef_status sq_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err);
