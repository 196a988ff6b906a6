/*
 * rebuild.pml - a generation is cleared and built anew in place, beside the queue, by runs.
 *
 * One generation, live and routed. Somebody asks for a rebuild, and for another one later. Two
 * drivers are after the runs: one has the lease of the scope; the other may take it when it has run
 * out, while the first, stopped at any point, goes on later as if nothing had happened. Drivers die
 * once, and the next one resumes what the run's record and the generation say.
 *
 * Each event is the first of its own stream; all feed one view, which counts them. One event has
 * been applied, the next may come at any time. What is read together here is read step by step in
 * claim.pml and seam.pml.
 */
#ifndef EVENTS
#define EVENTS 2
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RUNS
#define RUNS 2
#endif
#define TOKENS_MAX 6

#define BIT(e) (1 << (e))
#define UPTO(e) ((BIT(e) << 1) - 2)            /* the events 1 … e */
#define BETWEEN(low, e) (UPTO(e) & ~UPTO(low)) /* the events above low, up to e */
#define COUNT(set) ((((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool doubled, missed, stale_view, wiped_after_the_run, completed_but_not_whole,
    completed_without_rebuild, unsettled;

/* --- the journal store ------------------------------------------------------------------------ */

mtype = { NO_RUN, QUEUED, RUNNING, COMPLETED };
byte head = 1, mark = 1;
mtype run_state[RUNS] = NO_RUN;
byte token, owner; /* of the lease of the scope; owner 0: free, else pid */
bool live;

/* --- the view store --------------------------------------------------------------------------- */

mtype = { CATCHING_UP, LIVE };
mtype state = LIVE;
byte era, cursor, live_set;
byte has = BIT(1);  /* set: applied. Its watermarks */
byte view = 1; /* how many events it counts */

/* --- what only the judge knows ---------------------------------------------------------------- */

byte expiries_left = EXPIRIES, crashes_left = CRASHES;
bool cleared[RUNS];
byte working; /* set of pids that believe to hold the lease */

#define OPEN(r) (run_state[r] == QUEUED || run_state[r] == RUNNING)
#define ANY_OPEN (OPEN(0) || OPEN(RUNS - 1))

/* --- what a commit compares ------------------------------------------------------------------- */

#ifdef NO_ERA
#define ERA_CHANGED false
#else
#define ERA_CHANGED (era != read_era)
#endif
#ifdef NO_LIVE_SET
#define SET_CHANGED false
#else
#define SET_CHANGED (live_set != number)
#endif
#ifdef NO_CURSOR
#define CURSOR_CHANGED false
#else
#define CURSOR_CHANGED (cursor != from)
#endif
#ifdef NO_WATERMARK_COMPARE
#define MARKS_CHANGED false
#else
#define MARKS_CHANGED ((has & batch) != (had & batch))
#endif
#ifdef NO_DIGEST
#define VIEW_CHANGED false
#else
#define VIEW_CHANGED ((batch & ~had) != 0 && view != was)
#endif
#define CHANGED (ERA_CHANGED || MARKS_CHANGED || VIEW_CHANGED)

/* Events that are new get into the view as it was read. */
inline apply()
{
    MUST_NOT(doubled, (has & batch & ~had) != 0);
    view = ((batch & ~had) != 0 -> was + COUNT(batch & ~had) : view);
    has = has | batch;
    MUST_NOT(stale_view, view != COUNT(has))
}

inline look()
{
    MUST_NOT(missed, state == LIVE && (UPTO(mark) & ~has) != 0)
}

/* --- the queue driver ------------------------------------------------------------------------- */

proctype queue()
{
    byte upto, batch, number, read_era, had, was;
    bool fed, done;

take:
end:
    atomic {
        mark < head ->
        upto = mark + 1;
        do
        :: upto < head -> upto++
        :: break
        od;
        batch = BETWEEN(mark, upto)
    };
again:
    atomic { number = live_set; fed = state == LIVE; read_era = era };
    atomic { had = has; was = view };
    d_step {
        done = !(SET_CHANGED || (fed && CHANGED));
        if
        :: done && fed -> apply()
        :: else
        fi;
        number = 0;
        read_era = 0;
        had = 0;
        was = 0
    };
    if
    :: !done -> goto again
    :: else
    fi;
    d_step {
        mark = upto;
        look();
        upto = 0;
        batch = 0;
        fed = false;
        done = false
    };
    goto take
}

/* --- a run ------------------------------------------------------------------------------------ */

#ifdef NO_RUN_LEASE
#define MAY_ACQUIRE true
#define HELD true
#else
#define MAY_ACQUIRE (owner == 0 || !live)
#define HELD (token == mine && live)
#endif
#define RELEASE                                                                                    \
    owner = (owner == _pid && token == mine -> 0 : owner);                                         \
    live = live && owner != 0
#define CRASH atomic { crashes_left > 0 -> crashes_left--; goto top }

#ifdef NO_ERA_IN_CLEAR
#define AS_SEEN true
#else
#define AS_SEEN (era == read_era)
#endif

/* generation_clear: views, watermarks and cursor in one transaction; the era grows. */
inline clear()
{
    MUST_NOT(wiped_after_the_run, !OPEN(r));
    live_set = live_set + (state == LIVE);
    state = CATCHING_UP;
    has = 0;
    view = 0;
    cursor = 0;
    era++;
    cleared[r] = true
}

inline try_go_live()
{
    if
    :: at_end && upto == head ->
        state = LIVE;
        era++;
        live_set++;
        MUST_NOT(missed, (UPTO(cursor) & ~has) != 0);
        look()
    :: else
    fi
}

inline forget_batch()
{
    from = 0;
    upto = 0;
    batch = 0;
    had = 0;
    was = 0;
    at_end = false;
    read_era = 0
}

proctype driver()
{
    byte r, mine, read_era;
    byte from, upto, batch, had, was;
    bool at_end;

top:
    atomic {
        forget_batch();
        working = working & ~BIT(_pid);
        mine = 0;
        r = 0
    };
end:
    atomic {
        MAY_ACQUIRE && ANY_OPEN && token < TOKENS_MAX ->
        token++;
        owner = _pid;
        live = true;
        mine = token;
        working = working | BIT(_pid);
        if
        :: OPEN(0) -> r = 0
        :: RUNS > 1 && OPEN(RUNS - 1) -> r = RUNS - 1
        fi
    };

look_at_run:
    if
    :: CRASH
#ifndef ERA_READ_LAST
    :: read_era = era /* before the run: who clears since then makes it old */
#else
    :: true
#endif
    fi;
    if
    :: run_state[r] == QUEUED
#ifdef NO_RESUME
    :: run_state[r] == RUNNING -> goto top
#else
    :: run_state[r] == RUNNING -> goto step
#endif
    :: atomic { run_state[r] == COMPLETED -> RELEASE; goto top }
    fi;
#ifdef ERA_READ_LAST
    read_era = era;
#endif
    /* It was not begun, or whoever began it died before it could say so. */
    if
    :: CRASH
    :: atomic { AS_SEEN -> clear(); read_era = 0 }
    :: !AS_SEEN -> goto look_at_run
    fi;
    if
    :: CRASH
    :: atomic {
        HELD ->
        run_state[r] = (run_state[r] == QUEUED -> RUNNING : run_state[r])
    }
    :: !HELD -> goto top
    fi;

step:
    if
    :: CRASH
    :: atomic { state == CATCHING_UP -> from = cursor; read_era = era }
    :: state == LIVE -> goto complete
    fi;
    atomic {
        upto = from;
        do
        :: upto < head -> upto++
        :: upto > from || from == head -> break
        od;
        at_end = upto == head;
        batch = BETWEEN(from, upto)
    };
    atomic { had = has; was = view };
    d_step {
        if
        :: CURSOR_CHANGED || CHANGED -> skip
        :: else ->
            apply();
            cursor = upto;
            try_go_live()
        fi;
        forget_batch()
    };
    goto step;

complete:
    if
    :: CRASH
    :: atomic {
        HELD ->
        MUST_NOT(completed_but_not_whole, run_state[r] == RUNNING && state != LIVE);
        MUST_NOT(completed_without_rebuild, !cleared[r]);
        run_state[r] = COMPLETED;
        RELEASE;
        goto top
    }
    :: !HELD -> goto top
    fi
}

/* --- the rest of the world -------------------------------------------------------------------- */

proctype appender()
{
end:
    do
    :: head < EVENTS -> head++
    od
}

/* ef_run_request: EF_EXISTS while one is open for the scope. */
#ifdef NO_ONE_RUN
#define MAY_REQUEST true
#else
#define MAY_REQUEST (!ANY_OPEN)
#endif

proctype requester()
{
    byte n;

end:
    do
    :: n < RUNS ->
end1:
        atomic { MAY_REQUEST -> run_state[n] = QUEUED; n++ }
    od
}

proctype time()
{
end:
    do
    :: atomic { live && (working & BIT(owner)) == 0 -> live = false }
    :: atomic { live && expiries_left > 0 -> expiries_left--; live = false }
    od
}

proctype judge()
{
    timeout;
    MUST_NOT(unsettled, mark != EVENTS || state != LIVE || run_state[0] != COMPLETED ||
                            run_state[RUNS - 1] != COMPLETED);
    look()
}

init
{
    atomic {
        run queue();
        run driver();
        run driver();
        run appender();
        run requester();
        run time();
        run judge()
    }
}
