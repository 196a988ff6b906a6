/*
 * retry.h - when to try again, and when to stop trying.
 *
 * One record per kind of lane says how it backs off (these are the defaults, an engine may have
 * others); one function applies it. What fails is counted
 * by its caller: `failures` is how often in a row it has failed before this time.
 */
#ifndef EF_CORE_RETRY_H
#define EF_CORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ef__retry_kind {
    EF__RETRY_FIXED,      /* base_ms each time */
    EF__RETRY_EXPONENTIAL /* base_ms, then times factor for each further failure */
} ef__retry_kind;

typedef struct ef__retry_policy {
    ef__retry_kind kind;
    int64_t base_ms;
    int64_t factor;          /* exponential only; below 2 means that the delay does not grow */
    int64_t cap_ms;          /* no delay is longer; 0 means no cap */
    int32_t jitter_permille; /* how much of a delay chance may take off; at most 500 is used */
    int64_t attempts_max;    /* dead at this failure; 0 means never */
} ef__retry_policy;

extern const ef__retry_policy ef__retry_apply; /* 1 s doubling to 5 min, dead at the 8th failure */
extern const ef__retry_policy ef__retry_publish; /* 60 s each time, for ever */
extern const ef__retry_policy ef__retry_cursor;  /* 5 retries after 250 ms doubling, then failed */
extern const ef__retry_policy ef__retry_store;   /* an outage: 250 ms doubling to 30 s, for ever */

/* What kind of thing went wrong. */
typedef enum ef__error_class {
    EF__ERROR_TRANSIENT, /* busy, I/O, network, deadlock on the way to the work's own target */
    EF__ERROR_PERMANENT, /* the program fails on this event; tried again, for a fix may be deployed
                          */
    EF__ERROR_STORE,     /* our own store is down, full or locked: says nothing about the event */
    EF__ERROR_LOST       /* lease or claim gone: not a failure, somebody else has the work */
} ef__error_class;

typedef struct ef__retry_step {
    int64_t attempts; /* failures in a row to write down */
    bool dead;        /* no further try without an operator; delay_ms is 0 then */
    int64_t delay_ms; /* try again after this long */
} ef__retry_step;

/*
 * What follows from a failure. `random` is any number; it decides the jitter and nothing else.
 *
 * EF__ERROR_STORE backs off as for one more failure and counts none, so that an outage kills no
 * row however long it lasts. EF__ERROR_LOST changes nothing and waits for nothing.
 */
ef__retry_step ef__retry_decide(const ef__retry_policy *policy, int64_t failures,
                                ef__error_class error_class, uint64_t random);

#endif
