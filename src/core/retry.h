/*
 * retry.h - the delay before a retry, and the last attempt.
 *
 * One policy per kind of lane (these are the defaults, an engine may have others); one function
 * applies it. The caller counts: `failures` is the number of failures in a row before this one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct ef__retry_policy {
    int64_t base_ms;         /* delay after the first failure */
    int64_t factor;          /* of the delay after each further one; below 2 it does not grow */
    int64_t cap_ms;          /* maximum delay; 0: none */
    int32_t jitter_permille; /* random part by which a delay is shortened; at most 500 is used */
    int64_t attempts_max;    /* dead at this failure; 0: never */
} ef__retry_policy;

extern const ef__retry_policy ef__retry_apply; /* 1 s doubling to 5 min, dead at the 8th failure */
extern const ef__retry_policy ef__retry_publish; /* 60 s each time, without limit */
extern const ef__retry_policy ef__retry_cursor;  /* 5 retries after 250 ms doubling, then failed */
extern const ef__retry_policy ef__retry_store;   /* an outage: 250 ms doubling to 30 s, no limit */

/* The kind of a failure. */
typedef enum ef__error_class {
    EF__ERROR_TRANSIENT, /* busy, I/O, network, deadlock on the way to the target of the work */
    EF__ERROR_PERMANENT, /* the program failed; retried, because a fix may be deployed */
    EF__ERROR_STORE, /* our own store is unavailable, full or locked: the event is not to blame */
    EF__ERROR_LOST   /* the lease was lost: not a failure, another worker has the work */
} ef__error_class;

typedef struct ef__retry_step {
    int64_t attempts; /* failures in a row, to be stored */
    bool dead;        /* no further attempt without an operator; delay_ms is 0 */
    int64_t delay_ms; /* until the next attempt */
} ef__retry_step;

/*
 * The consequence of a failure. `random` is any number; it decides the jitter only.
 *
 * EF__ERROR_STORE backs off like one more failure and counts none, so that no outage makes a row
 * dead. EF__ERROR_LOST changes nothing and has no delay.
 */
ef__retry_step ef__retry_decide(const ef__retry_policy *policy, int64_t failures,
                                ef__error_class error_class, uint64_t random);
