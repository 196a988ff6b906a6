/*
 * lease_rule.h - which owner may hold a lease: a pure decision on the row of the lease.
 *
 *     free ── acquire: token + 1 ──► held ── renew, acquire by its owner: token stays ──► held
 *       ▲                             │
 *       ├── release (token stays) ────┤
 *       │                             └── time passes ──► ended ── acquire: token + 1 ──► held
 *       └── release (token stays) ───────────────────────────┘
 *
 * The token only grows, through releases too, and every renewal, release and write presents it. So
 * a clock that is set back can revive an ended lease only if no other owner has acquired it since.
 *
 * A clock that was ahead for a while must not keep the lease of a dead owner alive for that while.
 * How far it was set back shows in the time of the row's last change: see ef__lease_live.
 */
#pragma once

#include <everfold/status.h>
#include <everfold/str.h>

/* The stored row. All zero: never acquired. */
typedef struct ef__lease_row {
    ef_str owner; /* "": free */
    int64_t token;
    int64_t until_us;   /* 0: free; live before this moment, not at it */
    int64_t updated_us; /* by the clock that set until_us */
} ef__lease_row;

typedef struct ef__lease_answer {
    ef_status status;  /* EF_OK, EF_LEASE_HELD or EF_LEASE_LOST */
    ef__lease_row row; /* to store on EF_OK; otherwise unchanged */
    int64_t left_ms;   /* EF_LEASE_HELD: remaining time, rounded up */
} ef__lease_answer;

/*
 * A clock that is earlier than the last change was set back. By at most the length of the lease:
 * the lease lives as if it had just been changed. By more: how much of it has passed is unknown, so
 * it counts as ended. An owner that still works under it is refused because of the next owner's
 * token.
 */
bool ef__lease_live(const ef__lease_row *row, int64_t now_us);

/*
 * Corrects rows whose time is in the future by more than EF__CLOCK_SLACK_US: the clock was set
 * back. When it reaches that time again, the lease of a dead owner would live again. So every
 * heartbeat corrects them: a live lease counts as changed now, another one as ended now. Heartbeats
 * likewise.
 */
#define EF__CLOCK_SLACK_US 50000
void ef__lease_bring_back(int64_t *updated_us, int64_t *until_us, int64_t now_us);

/*
 * Acquires a lease that is free or has ended, with the next token; renews it if `owner` holds it
 * and it is live. A former owner that returns after the end gets a new token too, because others
 * may have worked in between. The row of the answer borrows `owner`.
 */
ef__lease_answer ef__lease_acquire(const ef__lease_row *row, ef_str owner, int64_t now_us,
                                   int64_t lease_ms);

/*
 * Renews a lease that is live under this token; otherwise like acquire, but never under a token
 * that was given out before, not even to the same owner name: the previous process of a restarted
 * worker may still be running.
 */
ef__lease_answer ef__lease_renew_or_acquire(const ef__lease_row *row, ef_str owner, int64_t token,
                                            int64_t now_us, int64_t lease_ms);

/* EF_LEASE_LOST unless it is live under this token: an ended lease is acquired, not renewed. */
ef__lease_answer ef__lease_renew(const ef__lease_row *row, int64_t token, int64_t now_us,
                                 int64_t lease_ms);

/* EF_LEASE_LOST unless it is held under this token. An ended lease may be released. */
ef__lease_answer ef__lease_release(const ef__lease_row *row, int64_t token, int64_t now_us);

/* May a write under this token proceed? EF_OK or EF_LEASE_LOST. */
ef_status ef__lease_check(const ef__lease_row *row, int64_t token, int64_t now_us);
