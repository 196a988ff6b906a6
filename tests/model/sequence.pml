/*
 * sequence.pml - positions on PostgreSQL: every committed event gets one, once, in the order of its
 * stream, and never at or below one that was read. docs/explanation/positions.md has the protocol.
 *
 * Three transactions write an event each; two of the events are of one stream (APART: none). Each may roll back, or
 * be placed at once. Two processes (ALONE: one) run passes; each remembers what it has seen: a snapshot (SEEN_XMAX,
 * the transactions open then) and a number. A pass may be cut after one event. Processes crash; a
 * session that holds the lock is ended by the server when its process stalls.
 */
#define EVENTS 3
#ifdef APART
#define STREAM(e) (e)
#else
#define STREAM(e) ((e) == 2)
#endif
#define BIT(e) (1 << (e))
#define HAS(set, e) (((set) & BIT(e)) != 0)

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef LIMIT
#define LIMIT 1 /* events of a pass */
#endif

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool lost, reordered, at_or_below, placed_twice;

/* --- the server ------------------------------------------------------------------------------- */

#define NOTHING 0
#define OPEN 1
#define COMMITTED 2
#define ROLLED_BACK 3
byte state[EVENTS], xid[EVENTS], number[EVENTS], seq[EVENTS], position[EVENTS];
byte next_xid = 1, next_number = 1, head;
byte stream_lock[3], sequencer_lock; /* 0: free, else the session */

#define WAITS(e) (state[e] == COMMITTED && position[e] == 0)
#define IS_OPEN(e) (state[e] == OPEN && xid[e] != 0)

/* --- what a process remembers ----------------------------------------------------------------- */

byte seen_xmax[2], seen_open[2], seen_number[2]; /* seen_number 0: nothing */

#ifdef NO_OPEN
#define WAS_OPEN(p, e) false
#else
#define WAS_OPEN(p, e) HAS(seen_open[p], e)
#endif
#ifdef NO_XMAX
#define BEGAN_LATER(p, e) false
#else
#define BEGAN_LATER(p, e) (xid[e] >= seen_xmax[p])
#endif
#define IS_NEW(p, e) (number[e] > seen_number[p])
#define FINDS(p, e)                                                                                \
    (WAITS(e) && (IS_NEW(p, e) || (seen_number[p] != 0 && (WAS_OPEN(p, e) || BEGAN_LATER(p, e)))))

#define FINDS_NONE(p) (!FINDS(p, 0) && !FINDS(p, 1) && !FINDS(p, 2))

#ifdef FAST_PASSES_OTHERS
#define MAY_PASS(p) true
#else
#define MAY_PASS(p) FINDS_NONE(p)
#endif
#ifdef NO_FENCE
#define MAY_COMMIT true
#else
#define MAY_COMMIT (sequencer_lock == ME)
#endif
#define ME (EVENTS + 1 + p)

/* --- what only the judge knows ---------------------------------------------------------------- */

byte crashes_left = CRASHES, expiries_left = EXPIRIES, ended;
bool passing[2];

#define OVERTAKES(e, a, b)                                                                         \
    (e == a && STREAM(a) == STREAM(b) && state[b] == COMMITTED && seq[b] < seq[a] && position[b] == 0)

/* Gives the next position to an event. `end` is the end of the log, as the session has read it. */
inline place(e, end)
{
    MUST_NOT(placed_twice, position[e] != 0);
    end++;
    position[e] = end;
    MUST_NOT(at_or_below, end <= head); /* a reader may have read the log to its end */
    MUST_NOT(reordered, OVERTAKES(e, 0, 1) || OVERTAKES(e, 1, 0));
    head = (end > head -> end : head);
}

proctype writer(byte e)
{
    byte end, p = e % 2, i;
    bool is_placed;

#ifdef NUMBER_FIRST
    atomic { number[e] = next_number; next_number++ }
#endif
    atomic { stream_lock[STREAM(e)] == 0 -> stream_lock[STREAM(e)] = e + 1; state[e] = OPEN; xid[e] = next_xid; next_xid++ }
    d_step {
        seq[e] = 1;
        if
        #ifndef APART
        :: STREAM(e) == 0 && state[1 - e] == COMMITTED -> seq[e] = seq[1 - e] + 1
#endif
        :: else
        fi
    }
#ifndef NUMBER_FIRST
    atomic { number[e] = next_number; next_number++ }
#endif
    if
    :: atomic { /* tries the lock; and no event that it sees waits */
           sequencer_lock == 0 && MAY_PASS(p) -> sequencer_lock = e + 1; end = head; is_placed = true }
    :: true
    fi;
    atomic {
        if
        :: is_placed && sequencer_lock == e + 1 -> state[e] = COMMITTED; place(e, end); sequencer_lock = 0
        :: !is_placed -> state[e] = COMMITTED
        :: state[e] = ROLLED_BACK; sequencer_lock = (sequencer_lock == e + 1 -> 0 : sequencer_lock)
        fi;
        stream_lock[STREAM(e)] = 0;
        ended++; end = 0; is_placed = false
    }
}

#define FORGET seen_xmax[p] = 0; seen_open[p] = 0; seen_number[p] = 0
#define NONE EVENTS

/* The next event in order of number, after `last`. */
inline find(p, last, e)
{
    e = NONE;
    i = 0;
    do
    :: i < EVENTS ->
        if
        :: HAS(found, i) && number[i] > last && (e == NONE || number[i] < number[e]) -> e = i
        :: else
        fi;
        i++
    :: i == EVENTS -> break
    od;
    i = 0
}

proctype process(byte p)
{
    byte end, found, i, first, last, xmax, open, upto, count;
    bool cut;

end_work:
    do
    :: atomic { sequencer_lock == 0 && !FINDS_NONE(p) -> sequencer_lock = ME; passing[p] = true; end = head }
       /* one statement: its snapshot … */
       d_step {
           xmax = next_xid; open = 0; found = 0;
           do
           :: i < EVENTS ->
               open = (IS_OPEN(i) -> open | BIT(i) : open);
               found = (FINDS(p, i) -> found | BIT(i) : found);
               i++
           :: i == EVENTS -> break
           od;
           i = 0
       }
       /* … and, later, the highest number that was drawn */
       d_step {
           upto = next_number - 1; last = 0; count = 0;
           find(p, last, first);
       }
       if
       :: atomic { /* commit, unless the session was ended */
              MAY_COMMIT ->
              do
              :: first != NONE && count < LIMIT ->
                  place(first, end);
                  last = number[first]; count++;
                  find(p, last, first)
              :: else -> break
              od;
              cut = first != NONE;
              sequencer_lock = (sequencer_lock == ME -> 0 : sequencer_lock) }
          atomic {
              if
#ifndef CUT_FORGETS
              :: cut && last <= seen_number[p] -> skip /* the old snapshot tells which are left */
              :: cut && last > seen_number[p] ->
#else
              :: cut ->
#endif
                  seen_xmax[p] = xmax; seen_open[p] = open;
                  seen_number[p] = (last > seen_number[p] -> last : seen_number[p])
              :: !cut -> seen_xmax[p] = xmax; seen_open[p] = open; seen_number[p] = upto
              fi;
              passing[p] = false }
       :: atomic { sequencer_lock != ME -> /* it was ended: what was seen stays as it was */
#ifdef SEEN_BEFORE_COMMIT
              seen_xmax[p] = xmax; seen_open[p] = open; seen_number[p] = upto;
#endif
              passing[p] = false }
       :: atomic { crashes_left > 0 -> crashes_left--; /* a new process takes its place */
              sequencer_lock = (sequencer_lock == ME -> 0 : sequencer_lock);
              FORGET; passing[p] = false }
       fi;
       d_step { end = 0; found = 0; first = 0; last = 0; xmax = 0; open = 0; upto = 0; count = 0; cut = false }
    od
}

/* The server ends the session that holds the lock; its process has stalled. */
active proctype server()
{
end_server:
    do
    :: atomic { expiries_left > 0 && sequencer_lock > EVENTS -> expiries_left--; sequencer_lock = 0 }
    od
}

init
{
    atomic { run writer(0); run writer(1); run writer(2); run process(0);
#ifndef ALONE
        run process(1)
#endif
    }
}

active proctype judge()
{
    timeout;
    MUST_NOT(lost, ended < EVENTS || WAITS(0) || WAITS(1) || WAITS(2))
}
