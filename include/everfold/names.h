/*
 * names.h - the names of enum values, as in JSON, SQL and messages.
 */
#pragma once

#include <everfold/str.h>

EF_C_BEGIN

/* An enum whose values have names. */
typedef enum ef_names {
    EF_NAMES_INTENT,          /* ef_intent: "projection_and_replay" */
    EF_NAMES_LEASE_KIND,      /* ef_lease_kind: "partition" */
    EF_NAMES_PUBLISHER_STATE, /* ef_publisher_state: "idle" */
    EF_NAMES_ROW_STATUS,      /* ef_row_status: "pending" */
    EF_NAMES_RUN_MODE,        /* ef_run_mode: "rebuild" */
    EF_NAMES_RUN_STATE,       /* ef_run_state: "queued" */
    EF_NAMES_TASK_STATE,      /* ef_task_state: "working" */
    EF_NAMES_TRIAL_OUTCOME,   /* ef_trial_outcome: "applied" */
    EF_NAMES_VIEW_RESET,      /* ef_view_reset: "started"; "" for none */
    EF_NAMES_WORKER_STATE     /* ef_worker_state: "working" */
} ef_names;

/* The name of a value; "unknown" for one outside the enum. */
const char *ef_name_of(ef_names names, int value);

/* The value of a name, or -1. Ignores case and surrounding white space. "done", which no outbox row
 * that is listed has, is not found. */
int ef_name_find(ef_names names, ef_str name);

EF_C_END
