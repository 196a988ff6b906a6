/*
 * rebuild.pml - a generation is made and takes the place of the routed one, beside the queue, by runs.
 *
 * One generation, live and routed. Somebody asks for a rebuild in place, and for another one later.
 * Two drivers are after the runs: one has the lease of the scope; the other may take it when it has
 * run out, while the first, stopped at any point, goes on later as if nothing had happened. Drivers
 * die once, and the next one resumes what the run's record and the generations say.
 *
 * Each event is the first of its own stream; all feed one view, which counts them. One event has
 * been applied, the next may come at any time. Catching up is a step of its own here; how it meets
 * the queue is seam.pml's.
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

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool missed, orphan, completed_but_not_whole, completed_without_rebuild, route_taken_back,
    unsettled;

/* --- the journal store ------------------------------------------------------------------------ */

mtype = { NO_RUN, QUEUED, RUNNING, COMPLETED };
byte head = 1, mark = 1;
mtype run_state[RUNS] = NO_RUN;
byte built[RUNS], replaced[RUNS]; /* noted: the number that is made, and the routed one's */
bool swapped[RUNS];
byte token, owner; /* of the lease of the scope; owner 0: free, else pid */
bool live;

/* --- the view store --------------------------------------------------------------------------- */

#define NUMBERS (2 * RUNS + 2) /* 1 is there, 0 is none */
mtype = { NONE, CATCHING_UP, LIVE, RETIRED };
mtype state[NUMBERS] = NONE;
byte era[NUMBERS];
byte has[NUMBERS]; /* set: applied. Its watermarks */
byte routed, highest;

/* --- what only the judge knows ---------------------------------------------------------------- */

byte expiries_left = EXPIRIES, crashes_left = CRASHES;
byte working; /* set of pids that believe to hold the lease */

#define OPEN(r) (run_state[r] == QUEUED || run_state[r] == RUNNING)
#define ANY_OPEN (OPEN(0) || OPEN(RUNS - 1))

#ifdef NO_ERA
#define AS_SEEN(g) true
#else
#define AS_SEEN(g) (era[g] == seen)
#endif

/* --- the queue driver ------------------------------------------------------------------------- */

/* Everything that is live gets the next event, and the mark moves: seam.pml has the steps. */
proctype queue()
{
    byte g;

end:
    do
    :: d_step {
        mark < head ->
        mark++;
        g = 1;
        do
        :: g < NUMBERS ->
            has[g] = (state[g] == LIVE -> has[g] | BIT(mark) : has[g]);
            g++
        :: else -> break
        od;
        g = 0
    }
    od
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
#define OURS (built[r] != 0 && state[built[r]] != NONE && state[built[r]] != RETIRED)

/* generation_add: under the number that was noted, or not at all. */
inline make()
{
#ifdef NO_NUMBER
    if
    :: highest < NUMBERS - 1 -> highest++; state[highest] = CATCHING_UP; era[highest] = 1
    :: else
    fi
#else
    if
    :: number == highest + 1 -> highest++; state[highest] = CATCHING_UP; era[highest] = 1
    :: else
    fi
#endif
}

/* generation_route: both eras grow. */
inline route_to(g)
{
    MUST_NOT(route_taken_back, g < routed);
    era[routed]++;
    era[g]++;
    routed = g
}

/* A commit that reaches the head goes live in it. */
inline catch_up(g)
{
    has[g] = UPTO(head);
    era[g]++;
    state[g] = LIVE
}

inline forget()
{
    number = 0;
    seen = 0
}

proctype driver()
{
    byte r, mine, number, seen;

top:
    atomic {
        forget();
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

/* The record and the generations are read, and then the next thing is done, as they were. */
look:
    forget();
    if
    :: CRASH
    :: atomic { run_state[r] == COMPLETED -> RELEASE; goto top }
#ifdef NO_RESUME
    :: run_state[r] == RUNNING && built[r] != 0 && !OURS -> goto top
#endif
    :: OPEN(r) && built[r] == 0 -> goto note
#ifndef NO_RESUME
    :: atomic { OPEN(r) && built[r] != 0 && !OURS -> number = built[r]; goto add }
#else
    :: atomic { run_state[r] == QUEUED && built[r] != 0 && !OURS -> number = built[r]; goto add }
#endif
    :: atomic { OPEN(r) && OURS && !swapped[r] && routed != built[r] ->
                number = built[r]; seen = era[number]; goto route }
    :: atomic { OPEN(r) && OURS && !swapped[r] && routed == built[r] ->
                number = replaced[r]; seen = era[number]; goto retire }
    :: atomic { OPEN(r) && OURS && swapped[r] && state[built[r]] == CATCHING_UP ->
                number = built[r]; seen = era[number]; goto fold }
    :: OPEN(r) && OURS && swapped[r] && state[built[r]] == LIVE -> goto complete
    fi;

note:
    if
    :: atomic {
        HELD ->
        run_state[r] = RUNNING;
        replaced[r] = routed;
        built[r] = highest + 1;
        goto look
    }
    :: !HELD -> goto top
    fi;

add:
    if
    :: CRASH
    :: d_step { make(); forget() }
    fi;
    /* The number may have been another's: it is noted anew. */
    if
    :: OURS -> goto look
    :: atomic { HELD && !OURS -> built[r] = highest + 1; goto look }
    :: !HELD -> goto top
    fi;

route:
    if
    :: CRASH
    :: d_step { AS_SEEN(number) -> route_to(number); forget() }
    :: !AS_SEEN(number)
    fi;
    goto look;

retire:
    if
    :: CRASH
    :: d_step { AS_SEEN(number) && state[number] != RETIRED -> state[number] = RETIRED; era[number]++ }
    :: !AS_SEEN(number) || state[number] == RETIRED
    fi;
    if
    :: CRASH
    :: atomic { HELD -> swapped[r] = (state[replaced[r]] == RETIRED); goto look }
    :: !HELD -> goto top
    fi;

fold:
    if
    :: CRASH
    :: d_step { AS_SEEN(number) && state[number] == CATCHING_UP -> catch_up(number); forget() }
    :: !(AS_SEEN(number) && state[number] == CATCHING_UP)
    fi;
    goto look;

complete:
    if
    :: CRASH
    :: atomic {
        HELD ->
        MUST_NOT(completed_but_not_whole,
                 run_state[r] == RUNNING && (state[routed] != LIVE || (UPTO(mark) & ~has[routed]) != 0));
        MUST_NOT(completed_without_rebuild, routed == replaced[r]);
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
    byte g = 1;

    timeout;
    MUST_NOT(unsettled, mark != EVENTS || state[routed] != LIVE || run_state[0] != COMPLETED ||
                            run_state[RUNS - 1] != COMPLETED);
    MUST_NOT(missed, (UPTO(mark) & ~has[routed]) != 0);
    do
    :: g < NUMBERS ->
        MUST_NOT(orphan, g != routed && state[g] != NONE && state[g] != RETIRED);
        g++
    :: else -> break
    od
}

init
{
    atomic {
        state[1] = LIVE;
        era[1] = 1;
        has[1] = BIT(1);
        routed = 1;
        highest = 1;
        run queue();
        run driver();
        run driver();
        run appender();
        run requester();
        run time();
        run judge()
    }
}
