/*
 * lease_rule.h - who may have a lease, as a pure decision on the lease's row.
 *
 *     free ── acquire: token + 1 ──► held ── renew, acquire by its owner: token stays ──► held
 *       ▲                             │ └── release under its token ──► free (the token is kept)
 *       └───────── release ───────────┤
 *                                     └── time passes: run out ── acquire by anyone: token + 1 ──►
 * held
 *
 * Nothing lives on under a token that has been passed: the token only grows, through release too,
 * and every renewal, release and write presents it. So a clock that goes back can make a lease that
 * had run out live again only as long as nobody has taken it since.
 *
 * Nor may a clock that was wrong for a while keep a lease alive for that while after its owner has
 * died. How far it was set back shows in the time of the row's last change: see ef__lease_live.
 */
#ifndef EF_CORE_LEASE_RULE_H
#define EF_CORE_LEASE_RULE_H

#include <everfold/status.h>
#include <everfold/str.h>

/* What is stored. All zero: never taken. */
typedef struct ef__lease_row {
    ef_str owner; /* "" when it is free */
    int64_t token;
    int64_t until_us;   /* 0 when it is free; it is live before this moment, not at it */
    int64_t updated_us; /* by the clock that until_us was made by */
} ef__lease_row;

typedef struct ef__lease_answer {
    ef_status status;  /* EF_OK, EF_LEASE_HELD or EF_LEASE_LOST */
    ef__lease_row row; /* to store on EF_OK; otherwise as it was */
    int64_t left_ms;   /* EF_LEASE_HELD: how long it is still live, rounded up */
} ef__lease_answer;

/*
 * A clock that is behind the last change was set back. By no more than the lease is long: the lease
 * lives as if it had just been changed. By more: nobody can say what of it has passed, so it counts
 * as run out. Whoever still works under it is kept from writing by the next owner's token.
 */
bool ef__lease_live(const ef__lease_row *row, int64_t now_us);

/*
 * Rows of a time to come, by more than EF__CLOCK_SLACK_US: the clock was set back. When it gets
 * there once more, what a dead owner has would live again. So whoever beats brings them back: what
 * is live is as if it had been changed now, what is not has ended now. Heartbeats go the same way.
 */
#define EF__CLOCK_SLACK_US 50000
void ef__lease_bring_back(int64_t *updated_us, int64_t *until_us, int64_t now_us);

/*
 * Take it when it is free or has run out, with a token one higher; renew it when `owner` has it and
 * it is live. A former owner that comes back after the end gets a new token like anybody else: what
 * it did in between may have been overtaken. `owner` is borrowed by the answer's row.
 */
ef__lease_answer ef__lease_acquire(const ef__lease_row *row, ef_str owner, int64_t now_us,
                                   int64_t lease_ms);

/*
 * Renew it when it is live under this token; otherwise as acquire, but never under a token that was
 * given out before, not even to the same name. For a worker that is started again: its former self
 * may still be at work.
 */
ef__lease_answer ef__lease_take(const ef__lease_row *row, ef_str owner, int64_t token,
                                int64_t now_us, int64_t lease_ms);

/* EF_LEASE_LOST unless it is live under this token: what has run out is acquired anew, not renewed.
 */
ef__lease_answer ef__lease_renew(const ef__lease_row *row, int64_t token, int64_t now_us,
                                 int64_t lease_ms);

/* EF_LEASE_LOST when it is not held under this token. One that has run out may be given back. */
ef__lease_answer ef__lease_release(const ef__lease_row *row, int64_t token, int64_t now_us);

/* May a write under this token go on? EF_OK or EF_LEASE_LOST. */
ef_status ef__lease_check(const ef__lease_row *row, int64_t token, int64_t now_us);

#endif
