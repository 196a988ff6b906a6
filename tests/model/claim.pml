/*
 * claim.pml - lease, take, apply, mark, dead letter: two workers on two partitions.
 *
 * Every atomic step is one transaction of one store, or one read; between two of them anything
 * else may happen: time, a crash, the other worker, an operator. A worker that is not scheduled
 * while its lease runs out and the other one takes over is the zombie of the requirements.
 *
 * One projection. As it stands, one partition: the head of stream 0 is poison, so its second event
 * has to wait behind it, and stream 1 must not. With TWO_PARTITIONS, two streams that both feed the
 * same view have different owners.
 *
 *                 as it stands      TWO_PARTITIONS
 *     position    1     2    3      1    2
 *     stream#seq  0#1!  1#1  0#2    0#1  1#1
 *     partition   0     0    0      0    1
 *
 * A watermark is the position of the stream's last applied event, which orders as its seqs do.
 * Nothing here goes on for ever, so two searches say everything: in the first no MUST_NOT is met,
 * and where all is quiet everything is settled; the second finds no cycle, so it does get quiet.
 */
#define STREAM(e) ((e) == 2)
#ifdef TWO_PARTITIONS
#define EVENTS 2
#define POISON 0 /* none */
#define PARTITION(e) ((e) == 2)
#define BEFORE(e) 0
#define LAST(p) ((p) == 0 -> 1 : 2) /* event of the partition */
#define VIEW(s) 0
#else
#define EVENTS 3
#define POISON 1
#define PARTITION(e) 0
#define BEFORE(e) ((e) == 3) /* the event before it in its stream; 0: none */
#define LAST(p) ((p) == 0 -> 3 : 0)
#define VIEW(s) (s)
#endif
#define BIT(e) (1 << (e))
#define HAS(set, e) (((set) & BIT(e)) != 0)

#ifndef EXPIRIES
#define EXPIRIES 1 /* leases that run out while their owner is at work */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define ATTEMPTS_MAX 2
#define TOKENS_MAX 9 /* a run that needs more stops there, and is found unsettled */
#define NOWHERE 2     /* no partition */

/* What must never be. A failing search prints the name. */
#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool doubled, out_of_order, lost_update, late_owner_wrote, dropped, dead_row_revived, skip_lost,
    unsettled, held_back;

/* --- the journal store ------------------------------------------------------------------------ */

byte token[2]; /* of the partitions' leases */
byte owner[2]; /* 0: free; else the worker's pid + 1 */
bool live[2];  /* not run out */
byte mark[2];

#define NO_ROW 0
#define PENDING 1
#define FAILED 2
#define DEAD 3
byte row[4]; /* exceptions in the projection's own lane */
byte attempts[4];
byte let_pass; /* set: an operator skipped it, the lane has yet to pass it */

/* --- the view store --------------------------------------------------------------------------- */

byte fence[2];
byte applied[2]; /* watermarks */
byte view[2];    /* how many events it counts */

/* --- what only the judge knows ---------------------------------------------------------------- */

byte times[4]; /* how often an event changed a view */
byte passed;            /* set: moved the watermark and changed nothing */
byte asked_to_pass;     /* set: an operator wants it skipped */
bool healed;            /* the poison is none any more */
byte highest[2];        /* token that wrote to the view store */
byte at_work[2] = NOWHERE; /* of a worker: the partition it believes to hold */
byte expiries_left = EXPIRIES;
byte crashes_left = CRASHES;

#define COUNTED (times[1] + times[2] + times[3])
#define SETTLED(e) (times[e] == 1 || HAS(passed, e) || row[e] != NO_ROW)

/* --- what is there to do ---------------------------------------------------------------------- */

#define FIRST(e) (row[e] != NO_ROW && (BEFORE(e) == 0 || row[BEFORE(e)] == NO_ROW))
#define DUE(p, e) (PARTITION(e) == (p) && FIRST(e) && row[e] != DEAD)
#define ANY_DUE(p) (DUE(p, 1) || DUE(p, 2) || DUE(p, 3))
#define QUEUED(p) (mark[p] < LAST(p))
#define WORK(p) (QUEUED(p) || ANY_DUE(p))

/* ef__lease_acquire: free or run out, with a token one higher. */
#define MAY_ACQUIRE(p) ((owner[p] == 0 || !live[p]) && token[p] < TOKENS_MAX && WORK(p))
/* ef__lease_check, in the transaction of the write: the token, not the holder. */
#define HELD(p, t) (token[p] == (t) && live[p])
#ifdef NO_TOKEN_IN_MARK
#define MAY_MARK(p, t) true
#else
#define MAY_MARK(p, t) HELD(p, t)
#endif

inline acquire(n)
{
    p = n;
#ifdef TOKEN_STAYS
    token[n] = 1;
#else
    token[n]++;
#endif
    owner[n] = _pid + 1;
    live[n] = true;
    mine = token[n];
    at_work[_pid] = n
}

/* ef_outbox_take: the next rows above the mark, one or more. */
inline take_queued()
{
    due = 0;
    low = mark[p];
    upto = (p == 1 -> LAST(p) : low + 1);
    do
    :: upto < LAST(p) -> upto++
    :: break
    od
}

/* ef_outbox_take_due: an exception that is first of its stream in its lane, and not dead. */
inline take_due()
{
    if
    :: DUE(p, 1) -> due = 1
    :: DUE(p, 2) -> due = 2
    :: DUE(p, 3) -> due = 3
    fi;
    low = due - 1;
    upto = due;
    by_skip = HAS(let_pass, due)
}

#if defined NO_WATERMARK || defined NO_DEFER
#define HOLE(e) false
#else
#define HOLE(e) (after[STREAM(e)] != BEFORE(e))
#endif

/* apply_one of apply.c: duplicate, deferred, skipped, failed or applied; folded in memory. */
inline fold_one(e)
{
    if
#if defined NO_WATERMARK || defined NO_DUPLICATES
    :: false
#else
    :: e <= after[STREAM(e)]
#endif
    :: else ->
        if
        :: HAS(blocked, STREAM(e)) || HOLE(e) -> deferred = deferred | BIT(e)
        :: else ->
            if
            :: by_skip && e == due ->
                skipped = skipped | BIT(e);
                after[STREAM(e)] = e
            :: else ->
                if
                :: e == POISON && !healed ->
                    failed = failed | BIT(e);
#ifndef NO_DEFER
                    blocked = blocked | BIT(STREAM(e));
#endif
                    skip
                :: else ->
                    changed = changed | BIT(e);
                    seen[VIEW(STREAM(e))]++; /* the view as it will be */
                    after[STREAM(e)] = e
                fi
            fi
        fi
    fi
}

inline fold()
{
    failed = 0;
    deferred = 0;
    skipped = 0;
    changed = 0;
    blocked = 0;
    for (e : 1 .. EVENTS) {
        if
        :: PARTITION(e) == p && e > low && e <= upto -> fold_one(e)
        :: else
        fi
    }
}

/* Is every watermark that moves, and every view that changes, what was read? */
inline compare()
{
    same = true;
    for (e : 1 .. EVENTS) {
        if
        :: HAS(changed | skipped, e) ->
#ifndef NO_WATERMARK_COMPARE
            same = same && applied[STREAM(e)] == before[STREAM(e)];
#endif
#ifndef NO_DIGEST
            same = same && (!HAS(changed, e) || view[VIEW(STREAM(e))] == was[VIEW(STREAM(e))]);
#endif
            skip
        :: else
        fi
    }
}

inline write_views()
{
    for (e : 1 .. EVENTS) {
        if
        :: HAS(changed | skipped, e) ->
            applied[STREAM(e)] = after[STREAM(e)];
            if
            :: HAS(changed, e) ->
                view[VIEW(STREAM(e))] = seen[VIEW(STREAM(e))];
                times[e]++;
                MUST_NOT(doubled, times[e] > 1 || HAS(passed, e))
            :: else ->
                passed = passed | BIT(e);
                MUST_NOT(doubled, times[e] > 0)
            fi;
            MUST_NOT(out_of_order,
                     BEFORE(e) != 0 && times[BEFORE(e)] == 0 && !HAS(passed, BEFORE(e)))
        :: else
        fi
    }
    MUST_NOT(lost_update, view[0] + view[1] != COUNTED)
}

/* The commit of views.h: fence, then what was read, then everything or nothing. */
inline commit()
{
    compare();
    if
#ifndef NO_FENCE
    :: fence[p] > mine -> outcome = REFUSED
#endif
    :: else ->
        if
        :: !same -> outcome = CONFLICT
        :: else ->
            outcome = DONE;
#ifndef LATE_MAY_WRITE
            MUST_NOT(late_owner_wrote, mine < highest[p] && (changed | skipped) != 0);
#endif
            highest[p] = (mine > highest[p] -> mine : highest[p]);
            fence[p] = (mine > fence[p] -> mine : fence[p]);
            write_views()
        fi
    fi
}

/* The exceptions of a mark: settle_exception. A row that is gone stays gone, unless this mark is
 * the one that passes the queued event. */
inline write_row(e)
{
    if
    :: row[e] == NO_ROW && (due != 0 || e <= mark[p]) -> skip
    :: HAS(deferred, e) && (row[e] != NO_ROW || (due == 0 && e > mark[p])) -> row[e] = PENDING
    :: HAS(failed, e) && (row[e] != NO_ROW || (due == 0 && e > mark[p])) ->
        MUST_NOT(dead_row_revived, row[e] == DEAD);
        attempts[e] = tried + 1;
        row[e] = (attempts[e] >= ATTEMPTS_MAX -> DEAD : FAILED);
#ifdef SKIP_NOT_KEPT
        let_pass = let_pass & ~BIT(e)
#else
        row[e] = (HAS(let_pass, e) -> PENDING : row[e])
#endif
    fi
}

inline write_exceptions()
{
    for (e : 1 .. EVENTS) {
        if
        :: HAS(failed | deferred, e) -> write_row(e)
        :: !HAS(failed | deferred, e) && e == due -> /* DONE */
            row[e] = NO_ROW;
            attempts[e] = 0;
            let_pass = let_pass & ~BIT(e)
        :: else
        fi
    }
}

inline move_mark()
{
    mark[p] = (due == 0 && upto > mark[p] -> upto : mark[p]);
    for (e : 1 .. EVENTS) {
        MUST_NOT(dropped, PARTITION(e) == p && e <= mark[p] && !SETTLED(e))
    }
}

/* What is not needed any more is zeroed: states that differ in nothing else are one state. */
inline forget_fold()
{
    for (s : 0 .. 1) {
        before[s] = 0;
        after[s] = 0;
        was[s] = 0;
        seen[s] = 0
    }
    e = 0;
    s = 0;
    low = 0;
    skipped = 0;
    changed = 0;
    blocked = 0;
    same = false
}

inline forget()
{
    forget_fold();
    p = 0;
    mine = 0;
    due = 0;
    upto = 0;
    tried = 0;
    by_skip = false;
    failed = 0;
    deferred = 0;
    outcome = 0;
    at_work[_pid] = NOWHERE
}

#define CRASH atomic { crashes_left > 0 -> crashes_left--; goto top }

mtype = { REFUSED, CONFLICT, DONE };

active [2] proctype worker()
{
    byte e, s;
    byte p, mine;                              /* the partition and the token */
    byte due, low, upto, tried;                /* the batch: above low, up to upto */
    bool by_skip;
    byte before[2], after[2];      /* watermarks as read, as folded */
    byte was[2], seen[2];          /* views as read, as folded */
    byte failed, deferred, skipped, changed;   /* sets: verdicts */
    byte blocked;                              /* set of streams */
    bool same;
    mtype outcome;

top:
    atomic { forget() };
end:
    if
    :: atomic { MAY_ACQUIRE(0) -> acquire(0) }
    :: atomic { MAY_ACQUIRE(1) -> acquire(1) }
    fi;

take:
    if
    :: CRASH
    :: atomic { HELD(p, mine) && QUEUED(p) -> take_queued() }
    :: atomic { HELD(p, mine) && ANY_DUE(p) -> take_due(); tried = attempts[due] }
    :: atomic { HELD(p, mine) && !WORK(p) -> owner[p] = 0; live[p] = false; goto top }
    :: !HELD(p, mine) -> goto top
    fi;
#ifdef MARK_FIRST
    if
    :: d_step { MAY_MARK(p, mine) -> move_mark(); e = 0 }
    :: !MAY_MARK(p, mine) -> goto top
    fi;
#endif

read:
    atomic {
        for (s : 0 .. 1) {
            before[s] = applied[s];
            after[s] = applied[s]
        }
    };
    if
    :: CRASH
    :: d_step {
        for (s : 0 .. 1) {
            was[s] = view[s];
            seen[s] = view[s]
        }
        fold();
        e = 0;
        s = 0;
        blocked = 0
    }
    fi;
    if
    :: CRASH
    :: d_step {
        commit();
        e = 0;
        same = false;
        if
        :: outcome == DONE -> forget_fold()
        :: else
        fi
    }
    fi;
    if
    :: outcome == REFUSED -> goto top
    :: outcome == CONFLICT -> goto read
    :: outcome == DONE
    fi;
    if
    :: CRASH
    :: d_step {
        MAY_MARK(p, mine) ->
#ifdef EXCEPTIONS_LATER
        move_mark();
        write_exceptions();
#else
        write_exceptions();
        move_mark();
#endif
        e = 0;
        outcome = 0;
        failed = 0;
        deferred = 0;
        by_skip = false;
        due = 0;
        upto = 0;
        tried = 0
    }
    :: !MAY_MARK(p, mine) -> goto top
    fi;
    goto take /* on with the same lease, as long as it is held and there is work */
}

/* Time. The lease of a worker that died runs out; so does, sometimes, that of one at work. */
active proctype time()
{
end:
    do
#ifdef NO_TAKE_OVER
    :: false
#else
    :: atomic { live[0] && at_work[owner[0] - 1] != 0 -> live[0] = false }
    :: atomic { live[1] && at_work[owner[1] - 1] != 1 -> live[1] = false }
    :: atomic { live[0] && expiries_left > 0 -> expiries_left--; live[0] = false }
    :: atomic { live[1] && expiries_left > 0 -> expiries_left--; live[1] = false }
#endif
    od
}

/* Does one thing when the head is dead or waiting, or nothing. Requeueing may come with a cure. */
active proctype operator()
{
end:
    if
    :: true
    :: d_step { row[POISON] == DEAD -> row[POISON] = PENDING; attempts[POISON] = 0 }
    :: d_step {
        row[POISON] == DEAD ->
        healed = true;
        row[POISON] = PENDING;
        attempts[POISON] = 0
    }
    :: d_step {
        row[POISON] != NO_ROW ->
        row[POISON] = PENDING;
        let_pass = let_pass | BIT(POISON);
        asked_to_pass = asked_to_pass | BIT(POISON)
    }
    fi
}

/* Where nothing moves any more: each event was applied or passed, or stands as a dead row, or waits
 * behind one; and what is not of the poisoned stream is applied. */
active proctype judge()
{
    timeout;
    MUST_NOT(unsettled, QUEUED(0) || QUEUED(1) || ANY_DUE(0) || ANY_DUE(1));
    MUST_NOT(held_back, times[2] != 1);
    MUST_NOT(skip_lost, HAS(asked_to_pass, POISON) && row[POISON] != NO_ROW);
    MUST_NOT(dropped, !SETTLED(1) || (EVENTS == 3 && !SETTLED(3)))
}
