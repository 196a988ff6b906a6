/*
 * record.h - the records of a journal: event types, runs, the audit log and skips.
 */
#pragma once

#include "../base/arena.h"

#include <everfold/everfold.h>

/* Selects types: all, one by name, or those that are not folded. */
typedef struct ef__type_query {
    ef_str name;     /* "": any */
    bool not_folded; /* only those with an intent other than projection_and_replay */
} ef__type_query;

/* A version of a projection skips an event. The last entry of an event decides. */
typedef struct ef__skip {
    int64_t id;
    ef_str tenant, stream;
    int64_t seq;
    bool withdrawn; /* the skip came too late: the version has applied the event */
} ef__skip;

/* A skip without an operator's action on a row: a projection whose policy is to skip events that
 * fail skips one. */
typedef struct ef__skip_entry {
    ef_str projection;
    int32_t version;
    ef_str tenant, stream;
    int64_t seq;
    ef_str actor, reason;
} ef__skip_entry;

typedef struct ef__skip_list {
    const ef__skip *items; /* oldest first */
    size_t count;
    struct ef__batch_memory *room;
} ef__skip_list;

typedef struct ef__record_ops {
    ef_status (*type_set)(ef_journal *journal, const ef_type *type, ef_error *err);
    ef_status (*type_ls)(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                         ef_error *err);
    ef_status (*run_request)(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err); /* run->id is set */
    ef_status (*run_update)(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err);
    ef_status (*run_cancel)(ef_journal *journal, ef_str id, ef_error *err);
    ef_status (*run_ls)(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                        ef_error *err); /* with an id, the tenant need not be compared */
    ef_status (*audit_add)(ef_journal *journal, const ef_audit_entry *entry, ef_error *err);
    ef_status (*audit_ls)(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                          ef_error *err); /* query->before is INT64_MAX when it is not set */
    ef_status (*skip_add)(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
    /* The skips of a version of a projection that were written after the one with id `after`. */
    ef_status (*skip_ls)(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                         size_t limit, ef__skip_list *out, ef_error *err);
} ef__record_ops;

/* Adds a run. Mode, projection ("" for all: replay and verify), tenant, from, to,
 * total, reason, requester and detail are used. `out` holds the run with its id. EF_EXISTS: a run
 * is open for the same tenant and projection, or for all. */
ef_status ef__run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err);

/*
 * Updates a run: writes state, processed, total, last_position and error of `run`, and detail
 * unless it is "". `lease` and `token` are the driver's; to cancel a queued run, or one whose
 * driver's lease has ended, needs none (lease NULL). EF_NOT_FOUND, EF_LEASE_LOST, or EF_CONFLICT:
 * the run's state does not allow the change
 */
ef_status ef__run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                         int64_t token, ef_error *err);

/* Is it a run of this tenant alone (ef_run_query)? */
bool ef__run_is_of(const ef_run *run, ef_str tenant);

/* The types that are not folded, by name. */
ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err);
/* May an append of `tenant`, which has created `created` of the journal's `all` types, create one
 * more? EF_UNKNOWN_TYPE: no, it must be registered. */
ef_status ef__type_create_check(const ef_journal_options *options, ef_str tenant, ef_str type,
                                int64_t created, int64_t all, ef_error *err);
/* As ef__record_ops.skip_add and .skip_ls. */
ef_status ef__skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
ef_status ef__skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                      size_t limit, ef__skip_list *out, ef_error *err);
