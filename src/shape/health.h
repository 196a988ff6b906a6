/*
 * health.h - health at a glance: a state and a message, the same in `top`, in the panel of `work`
 * and in the monitor.
 */
#ifndef EF_SHAPE_HEALTH_H
#define EF_SHAPE_HEALTH_H

#include "disk.h"

typedef enum ef__health {
    EF__HEALTH_WELL,   /* everything is applied or in flight */
    EF__HEALTH_BEHIND, /* lag or retries: may recover without an operator */
    EF__HEALTH_TROUBLE /* an operator must act */
} ef__health;

/* Input; borrowed. */
typedef struct ef__health_facts {
    const ef_outbox_summary *outbox; /* of all lanes and tenants */
    const ef_projection_list *projections;
    size_t workers_live;
    int64_t unaccounted; /* of all projections */
    bool views_unreadable;
    ef_str publisher_down; /* a publisher whose sink is unavailable, as seen by this process; "":
                              none */
    ef__disk disk;
    bool damaged;     /* the journal is damaged: appends are refused */
    bool shadow_only; /* appends apply inline; rows stay queued until a worker is enabled */
} ef__health_facts;

#define EF__HEALTH_TEXT 1024
#define EF__HEALTH_NAME 256

const char *ef__health_name(ef__health health); /* "well" */
/* Reports the most serious problem. */
ef__health ef__health_of(const ef__health_facts *facts, char out[EF__HEALTH_TEXT]);
/* Finds publisher_down among the publishers of the engine; "" if none is down. */
void ef__health_publisher_down(ef_engine *engine, char out[EF__HEALTH_NAME]);

#endif
