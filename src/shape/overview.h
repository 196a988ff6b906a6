/*
 * overview.h - the overview of `status`, /v1/overview and the monitor, as JSON.
 */
#ifndef EF_SHAPE_OVERVIEW_H
#define EF_SHAPE_OVERVIEW_H

#include "../base/json.h"
#include "health.h"

#include <everfold/everfold.h>

/* Facts that were read at one time; borrowed. */
typedef struct ef__overview {
    const char *mode, *url;
    const ef_head *head;
    const ef_store_facts *facts;
    const ef_outbox_summary *outbox;
    int64_t oldest_ms, blocked_ms; /* -1: no such row */
    size_t workers_live, workers_known, workers_idle;
    int64_t runs_queued, runs_running;
    const ef_projection_list *projections;
    int64_t unaccounted;
    const ef_error *views_error;
} ef__overview;

size_t ef__workers_in_state(const ef_worker_list *workers, ef_worker_state state);

/* Writes the members of an object that the caller opens and closes, and may extend. */
void ef__overview_write(ef__json_writer *w, const ef__overview *overview);
/* "health":{"state","message"} */
void ef__health_write(ef__json_writer *w, ef__health health, const char *message);

#endif
