/*
 * publish.pml - a publisher's lane: at least once, in order per stream, nothing lost.
 *
 * Two publishers share one partition, or with DIVIDED two: the second stream is in the second one.
 * With BY_COUNT the number of partitions has changed before the last event, which is then in another
 * one than the event before it in its stream. The bus takes a message or refuses it; what it has taken it
 * has taken, whether the publisher lives to hear so or not. With POISON it refuses the first event
 * for ever, and the lane has a limit of two attempts. A consumer drops what it has seen before, by
 * id, so what counts for order is when a message is delivered first.
 *
 *     position    1    2    3
 *     stream#seq  0#1  1#1  0#2
 *
 * A replay goes on meanwhile; it must not publish.
 */
#define EVENTS 3
#define STREAM(e) ((e) == 2)
#define BEFORE(e) ((e) == 3) /* the event before it in its stream; 0: none */
#define BIT(e) (1 << (e))
#define HAS(set, e) (((set) & BIT(e)) != 0)

#ifdef DIVIDED
#define PARTS 2
#ifdef BY_COUNT
#define PART(e) ((e) == 1 -> 0 : 1)
#else
#define PART(e) (STREAM(e) -> 1 : 0)
#endif
#else
#define PARTS 1
#define PART(e) 0
#endif

#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define REFUSALS 1 /* by a bus that is merely down for a while */
#define ATTEMPTS_MAX 2
#define TOKENS_MAX 9

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool lost, reordered, doubled_without_fault, dead_row_revived, held_back, unsettled;

/* --- the journal store ------------------------------------------------------------------------ */

/* Of the leases (publisher, LANE, partition); owner 0: free, else pid + 1. */
byte token[PARTS], owner[PARTS];
bool live[PARTS];
byte mark[PARTS];

#define NO_ROW 0
#define PENDING 1
#define FAILED 2
#define DEAD 3
byte row[EVENTS + 1]; /* exceptions in the lane */
byte attempts[EVENTS + 1];

/* --- the bus ---------------------------------------------------------------------------------- */

byte delivered[EVENTS + 1]; /* how often */

/* --- what only the judge knows ---------------------------------------------------------------- */

byte faults; /* leases that ran out, publishers that died */
byte expiries_left = EXPIRIES, crashes_left = CRASHES, refusals_left = REFUSALS;
bool at_work[2];

#define FIRST(e) (row[e] != NO_ROW && (BEFORE(e) == 0 || row[BEFORE(e)] == NO_ROW))
#define DUE(e) (FIRST(e) && row[e] != DEAD)
#define DUE_IN(e, p) (DUE(e) && PART(e) == (p))
#define ANY_DUE(p) (DUE_IN(1, p) || DUE_IN(2, p) || DUE_IN(3, p))
#define QUEUED_IN(e, p) (PART(e) == (p) && (e) > mark[p])
#define QUEUED(p) (QUEUED_IN(1, p) || QUEUED_IN(2, p) || QUEUED_IN(3, p))
#define WORK(p) (QUEUED(p) || ANY_DUE(p))

#ifdef NO_LEASE
#define MAY_ACQUIRE(p) (token[p] < TOKENS_MAX && WORK(p))
#define HELD true
#else
#define MAY_ACQUIRE(p) ((owner[p] == 0 || !live[p]) && token[p] < TOKENS_MAX && WORK(p))
#define HELD (token[part] == mine && live[part])
#endif
#ifdef NO_TOKEN_IN_MARK
#define MAY_MARK true
#else
#define MAY_MARK HELD
#endif
#define CRASH atomic { crashes_left > 0 -> crashes_left--; faults++; goto top }

inline deliver(e)
{
    delivered[e]++;
    MUST_NOT(reordered, BEFORE(e) != 0 && delivered[BEFORE(e)] == 0);
    MUST_NOT(doubled_without_fault, delivered[e] > 1 + faults)
}

/* What lies behind an exception of its stream waits, and joins it. */
#ifdef NO_HOLD_BACK
#define BEHIND(e) false
#else
#define BEHIND(e) (BEFORE(e) != 0 && row[BEFORE(e)] != NO_ROW)
#endif
#define OURS(e) (!HAS(deferred, e) && PART(e) == part)
/* … and so does what follows a failure in the batch. */
#ifdef NO_BLOCK
#define BLOCKED(e) false
#else
#define BLOCKED(e) (BEFORE(e) != 0 && HAS(failed, BEFORE(e)))
#endif
#ifdef POISON
#define ACCEPTS(e) ((e) != 1)
#define REFUSES(e) ((e) == 1)
#else
#define ACCEPTS(e) true
#define REFUSES(e) (refusals_left > 0)
#endif

inline take_queued()
{
    at = mark[part] + 1;
    upto = mark[part] + 1;
    do
    :: upto < EVENTS -> upto++
    :: break
    od;
    /* Told by take, in its transaction, or read under the lease: only its owner adds to them. */
    for (e : at .. upto) {
        deferred = (PART(e) == part && BEHIND(e) -> deferred | BIT(e) : deferred)
    }
    e = 0
}

inline take_due()
{
    if
    :: DUE_IN(1, part) -> due = 1
    :: DUE_IN(2, part) -> due = 2
    :: DUE_IN(3, part) -> due = 3
    fi;
    at = due;
    upto = due;
    tried = attempts[due]
}

inline write_row(n)
{
    if
    :: row[n] == NO_ROW && (due != 0 || n <= mark[part]) -> skip /* gone, and stays gone */
    :: else ->
        if
        :: HAS(deferred, n) -> row[n] = PENDING
        :: else ->
            MUST_NOT(dead_row_revived, row[n] == DEAD);
            attempts[n] = tried + 1;
#ifdef POISON
            row[n] = (attempts[n] >= ATTEMPTS_MAX -> DEAD : FAILED)
#else
            row[n] = FAILED
#endif
        fi
    fi
}

inline settle()
{
    for (e : 1 .. EVENTS) {
        if
        :: HAS(failed | deferred, e) -> write_row(e)
        :: !HAS(failed | deferred, e) && e == due -> row[e] = NO_ROW; attempts[e] = 0
        :: else
        fi
    }
    mark[part] = (due == 0 && upto > mark[part] -> upto : mark[part]);
    for (e : 1 .. EVENTS) {
        MUST_NOT(lost, e <= mark[PART(e)] && delivered[e] == 0 && row[e] == NO_ROW)
    }
    e = 0
}

inline forget_batch()
{
    due = 0;
    at = 0;
    upto = 0;
    tried = 0;
    failed = 0;
    deferred = 0;
    e = 0
}

active [2] proctype publisher()
{
    byte e, part, mine, due, at, upto, tried;
    byte failed, deferred; /* sets */

top:
    atomic { forget_batch(); part = 0; mine = 0; at_work[_pid] = false };
end:
    atomic {
        if
        :: MAY_ACQUIRE(0) -> part = 0
#ifdef DIVIDED
        :: MAY_ACQUIRE(1) -> part = 1
#endif
        fi;
        token[part]++;
        owner[part] = _pid + 1;
        live[part] = true;
        mine = token[part];
        at_work[_pid] = true
    };
take:
    if
    :: CRASH
    :: atomic { HELD && QUEUED(part) -> take_queued() }
    :: atomic { HELD && ANY_DUE(part) -> take_due() }
    :: atomic { HELD && !WORK(part) -> owner[part] = 0; live[part] = false; goto top }
    :: !HELD -> goto top
    fi;
#ifdef MARK_FIRST
    if
    :: d_step { MAY_MARK -> settle() }
    :: !MAY_MARK -> goto top
    fi;
#endif
    do
    :: CRASH
    :: atomic {
        at <= upto ->
        if
        :: HAS(deferred, at) || PART(at) != part -> skip
        :: OURS(at) && BLOCKED(at) -> deferred = deferred | BIT(at)
        :: OURS(at) && !BLOCKED(at) && ACCEPTS(at) -> deliver(at)
        :: OURS(at) && !BLOCKED(at) && REFUSES(at) ->
            failed = failed | BIT(at);
            refusals_left = (refusals_left > 0 -> refusals_left - 1 : 0)
        fi;
        at++
    }
    :: at > upto -> break
    od;
    if
    :: CRASH
    :: d_step { MAY_MARK -> settle(); forget_batch() }
    :: !MAY_MARK -> goto top
    fi;
    goto take
}

active proctype time()
{
end:
    do
    :: atomic { live[0] && !at_work[owner[0] - 1] -> live[0] = false }
    :: atomic { live[0] && expiries_left > 0 -> expiries_left--; faults++; live[0] = false }
#ifdef DIVIDED
    :: atomic { live[1] && !at_work[owner[1] - 1] -> live[1] = false }
    :: atomic { live[1] && expiries_left > 0 -> expiries_left--; faults++; live[1] = false }
#endif
    od
}

/* A replay folds all events anew. That is all it does. */
active proctype replay()
{
    byte at = 1;

    do
    :: at <= EVENTS ->
#ifdef PUBLISH_IN_RUN
        d_step { deliver(at); at++ }
#else
        at++
#endif
    :: else -> break
    od
}

active proctype judge()
{
    timeout;
    MUST_NOT(unsettled, WORK(0));
#ifdef DIVIDED
    MUST_NOT(unsettled, WORK(1));
#endif
    MUST_NOT(held_back, delivered[2] == 0);
    MUST_NOT(lost, delivered[1] == 0 && row[1] != DEAD);
    MUST_NOT(lost, delivered[3] == 0 && row[1] != DEAD)
}
