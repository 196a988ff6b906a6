/*
 * auto.h - results of the library that a local variable owns are released at the end of its block:
 *
 *     EF__AUTO(ef_run_list) runs = {0};
 */
#pragma once

#include "arena.h"

#include <everfold/everfold.h>
#include <everfold/generation.h>
#include <everfold/replay.h>
#include <everfold/trial.h>
#include <everfold/view.h>

EF__AUTO_LIST(ef_audit_list)
EF__AUTO_LIST(ef_batch)
EF__AUTO_LIST(ef_failure_list)
EF__AUTO_LIST(ef_gap_list)
EF__AUTO_LIST(ef_lane_list)
EF__AUTO_LIST(ef_lease_list)
EF__AUTO_LIST(ef_partition_list)
EF__AUTO_LIST(ef_projection_list)
EF__AUTO_LIST(ef_publisher_list)
EF__AUTO_LIST(ef_row_groups)
EF__AUTO_LIST(ef_row_list)
EF__AUTO_LIST(ef_run_list)
EF__AUTO_LIST(ef_scope_list)
EF__AUTO_LIST(ef_stream_list)
EF__AUTO_LIST(ef_text)
EF__AUTO_LIST(ef_throughput_list)
EF__AUTO_LIST(ef_trial)
EF__AUTO_LIST(ef_type_list)
EF__AUTO_LIST(ef_view_change_list)
EF__AUTO_LIST(ef_view_list)
EF__AUTO_LIST(ef_view_past)
EF__AUTO_LIST(ef_worker_list)

#define EF__SUMMARY_RELEASE(summary) EF_RELEASE(&(summary)->oldest)
EF__AUTO_TYPE(ef_outbox_summary, EF__SUMMARY_RELEASE)
