/*
 * health.h - how it is, at a glance: a word and a sentence, the same in `top`, in the panel of
 * `work` and in the monitor.
 */
#ifndef EF_SHAPE_HEALTH_H
#define EF_SHAPE_HEALTH_H

#include "disk.h"

typedef enum ef__health {
    EF__HEALTH_WELL,   /* all is done, or on its way */
    EF__HEALTH_BEHIND, /* something waits or is tried again: it may heal by itself */
    EF__HEALTH_TROUBLE /* somebody has to do something */
} ef__health;

/* What it is told by; borrowed. */
typedef struct ef__health_facts {
    const ef_outbox_summary *outbox; /* of all lanes and tenants */
    const ef_projection_list *projections;
    size_t workers_live;
    int64_t unaccounted; /* of all projections */
    bool views_unreadable;
    ef_str publisher_down; /* its sink is not at hand, as far as this process knows; "": none */
    ef__disk disk;
    bool damaged;     /* the journal: appends are refused */
    bool shadow_only; /* appends fold, and rows stay queued until a worker is turned on */
} ef__health_facts;

#define EF__HEALTH_TEXT 1024
#define EF__HEALTH_NAME 256

const char *ef__health_word(ef__health health); /* "well" */
/* The most serious thing first, in one sentence. */
ef__health ef__health_of(const ef__health_facts *facts, char out[EF__HEALTH_TEXT]);
/* The name for publisher_down, of those that the engine works for; "" for none. */
void ef__health_publisher_down(ef_engine *engine, char out[EF__HEALTH_NAME]);

#endif
