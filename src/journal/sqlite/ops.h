/*
 * ops.h - the outbox, leases, workers and runs on SQLite: functions of the interface in
 * ../journal.h.
 */
#ifndef EF_JOURNAL_SQLITE_OPS_H
#define EF_JOURNAL_SQLITE_OPS_H

#include "../journal.h"

/* backup.c */
ef_status sq_backup(ef_journal *journal, const ef__journal_backup *backup, ef_head *out,
                    ef_error *err);
ef_status sq_copied_get(ef_journal *journal, int64_t *out_us, ef_error *err);
ef_status sq_adopt(ef_journal *journal, ef_error *err);

/* damage.c */
ef_status sq_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err);
ef_status sq_damage_get(ef_journal *journal, ef__damage *out, ef_error *err);

/* lane.c */
ef_status sq_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                      ef_error *err);
ef_status sq_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);

/* published.c */
ef_status sq_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err);
ef_status sq_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                             size_t limit, int64_t *out_count, ef_error *err);
ef_status sq_published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                               size_t limit, int64_t *out_count, ef_error *err);
ef_status sq_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err);

/* outbox_claim.c */
ef_status sq_claim(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                   ef_error *err);
/* outbox_ack.c */
ef_status sq_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                 ef_error *err);

/* outbox_ls.c */
ef_status sq_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err);
ef_status sq_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err);
ef_status sq_outbox_has_work(ef_journal *journal, bool *out, ef_error *err);
ef_status sq_retry_streams(ef_journal *journal, const ef__retry_query *query,
                           ef__retry_stream_list *out, ef_error *err);

/* outbox_revision.c */
ef_status sq_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err);
ef_status sq_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
ef_status sq_skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                     size_t limit, ef__skip_list *out, ef_error *err);
ef_status sq_audit_add(ef_journal *journal, const ef_audit_entry *act, ef_error *err);
ef_status sq_audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                      ef_error *err);

/* lease.c */
ef_status sq_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef__heartbeat *beat, ef_error *err);
ef_status sq_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err);
ef_status sq_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);

/* worker.c */
ef_status sq_worker_leave(ef_journal *journal, ef_str id, ef_error *err);
ef_status sq_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                          int64_t *out_purged, ef_error *err);
ef_status sq_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);

/* partition.c */
ef_status sq_partition_count(ef_journal *journal, int32_t *out, ef_error *err);
ef_status sq_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);
ef_status sq_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err);

/* run.c */
ef_status sq_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err);
ef_status sq_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                        int64_t token, ef_error *err);
ef_status sq_run_cancel(ef_journal *journal, ef_str id, ef_error *err);
ef_status sq_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                    ef_error *err);

#endif
