/*
 * seam.pml - a new generation catches up beside the live one, goes live, is switched to, and back.
 *
 * Generation 0 is live and routed; generation 1 catches up by cursor while the queue feeds
 * generation 0 and events keep coming. Each event is the first of its own stream, so that a missing
 * one is not noticed by order: it has to be noticed by the seam. A generation's watermarks are the
 * set of events it has.
 *
 * Two drivers of the cursor, one worker of the queue (claim.pml has two); operators who switch,
 * roll back and retire, or with PAUSE one who pauses and resumes, at any time or never. Events that
 * cannot be digested are in claim.pml and lane.pml.
 */
#ifndef EVENTS
#define EVENTS 2
#endif
#define BIT(e) (1 << (e))
#define UPTO(e) ((BIT(e) << 1) - 2)               /* the events 1 … e */
#define BETWEEN(low, e) (UPTO(e) & ~UPTO(low))    /* the events above low, up to e */

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool doubled, missed, routed_is_not_whole, pause_lost, unsettled;

/* --- the journal store ------------------------------------------------------------------------ */

byte head; /* events 1 … head are there, and queued above the mark */
byte mark;

/* --- the view store --------------------------------------------------------------------------- */

mtype = { CATCHING_UP, LIVE, PAUSED, RETIRED };
mtype state[2];
byte era[2];
byte cursor[2];
byte has[2]; /* set: applied. Its watermarks */
byte live_set;
byte routed;

/* --- what only the judge knows ---------------------------------------------------------------- */

bool whole[2]; /* has been live */

inline apply(g, events)
{
    MUST_NOT(doubled, (has[g] & (events)) != 0);
    has[g] = has[g] | (events)
}

/* A live generation has what the mark has passed. */
inline look_at(g)
{
    MUST_NOT(missed, state[g] == LIVE && (UPTO(mark) & ~has[g]) != 0)
}

/* --- the queue driver ------------------------------------------------------------------------- */

#ifdef NO_LIVE_SET
#define SET_CHANGED false
#else
#define SET_CHANGED (live_set != number)
#endif
#ifdef NO_ERA
#define ERA_CHANGED(g) false
#else
#define ERA_CHANGED(g) (era[g] != read_era[g])
#endif
/* The batch's streams have the watermarks that were read. */
#ifdef NO_WATERMARK_COMPARE
#define MARKS_CHANGED(g) false
#else
#define MARKS_CHANGED(g) ((has[g] & batch) != (had[g] & batch))
#endif
#define CHANGED(g) (ERA_CHANGED(g) || MARKS_CHANGED(g))

inline read_list()
{
    fed[0] = state[0] == LIVE;
    fed[1] = state[1] == LIVE;
    read_era[0] = era[0];
    read_era[1] = era[1]
}

/* ef__live_set_read: the number first, so that the list is never older than the number says. */
inline read_live_set()
{
#ifdef NUMBER_READ_LAST
    atomic { read_list() };
    number = live_set
#else
    number = live_set;
    atomic { read_list() }
#endif
}

inline fold_for(g)
{
    if
    :: fed[g] -> apply(g, batch & ~had[g])
    :: else
    fi
}

proctype queue()
{
    byte upto, batch, number;
    bool fed[2];
    byte read_era[2], had[2];
    bool done;

take:
#ifdef LIST_FIRST
    read_live_set();
#endif
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
#ifndef LIST_FIRST
    read_live_set();
#endif
    atomic { had[0] = has[0]; had[1] = has[1] };
    d_step {
        done = !(SET_CHANGED || (fed[0] && CHANGED(0)) || (fed[1] && CHANGED(1)));
        if
        :: done -> fold_for(0); fold_for(1)
        :: else
        fi
    };
    if
    :: !done ->
#ifdef LIST_FIRST
        read_live_set();
#endif
        goto again
    :: else
    fi;
    d_step {
        mark = upto;
        look_at(0);
        look_at(1);
        upto = 0; batch = 0; number = 0; done = false;
        fed[0] = false; fed[1] = false;
        read_era[0] = 0; read_era[1] = 0;
        had[0] = 0; had[1] = 0
    };
    goto take
}

/* --- the cursor driver, of generation 1 ------------------------------------------------------- */

#ifdef NO_CURSOR
#define CURSOR_CHANGED false
#else
#define CURSOR_CHANGED (cursor[1] != from)
#endif
#ifdef HEAD_READ_OUTSIDE
#define HEAD seen_head
#else
#define HEAD head
#endif

/* try_go_live: inside the transaction, if nothing lies behind the cursor. */
inline try_go_live()
{
    if
    :: at_end && upto == HEAD ->
        MUST_NOT(pause_lost, state[1] != CATCHING_UP && state[1] != LIVE);
        state[1] = LIVE;
        whole[1] = true;
        era[1]++;
        live_set++;
        look_at(1)
    :: else
    fi
}

proctype cursor_driver()
{
    byte from, upto, batch, seen_head;
    byte read_era[2], had[2];
    bool at_end;

look:
end:
    atomic {
        state[1] == CATCHING_UP ->
        from = cursor[1];
        read_era[1] = era[1]
    };
    atomic { /* ef_journal_read_log */
        upto = from;
        do
        :: upto < head -> upto++
        :: upto > from || from == head -> break
        od;
        at_end = upto == head;
        seen_head = head;
        batch = BETWEEN(from, upto)
    };
    had[1] = has[1];
    d_step {
        if
        :: CURSOR_CHANGED || CHANGED(1) -> skip
        :: else ->
            cursor[1] = upto;
            apply(1, batch & ~had[1]);
            try_go_live()
        fi;
        from = 0; upto = 0; batch = 0; seen_head = 0; at_end = false; had[1] = 0; read_era[1] = 0
    };
    goto look
}

/* --- events, and people ----------------------------------------------------------------------- */

proctype appender()
{
end:
    do
    :: head < EVENTS -> head++
    od
}

inline look_at_route()
{
    MUST_NOT(routed_is_not_whole, !whole[routed] || state[routed] == RETIRED)
}

/* Routing and retiring compare the era of what was looked at. */
#ifdef NO_ERA_IN_ACTS
#define AS_SEEN(g) true
#else
#define AS_SEEN(g) (era[g] == seen)
#endif

inline route_to(g)
{
    routed = g;
    era[0]++;
    era[1]++;
    live_set++;
    look_at_route()
}

/* Look, then act: route to a generation that was live when it was looked at. */
inline switch_to(g)
{
    if
    :: true
    :: atomic { state[g] == LIVE && routed != g -> seen = era[g] };
        d_step {
            if
            :: AS_SEEN(g) && routed != g -> route_to(g)
            :: else
            fi;
            seen = 0
        }
    fi
}

proctype switcher()
{
    byte seen;

end:
    switch_to(1);
end1:
    if
    :: true
    :: atomic { state[0] == LIVE && routed == 1 -> seen = era[0] };
        d_step {
            if
            :: AS_SEEN(0) ->
                state[0] = RETIRED;
                era[0]++;
                live_set++;
                look_at_route()
            :: else
            fi;
            seen = 0
        }
    fi
}

proctype roller_back()
{
    byte seen;

end:
    switch_to(0)
}

/* Resuming catches up by cursor from where it stood, over the seam again. */
proctype pauser()
{
end:
    if
    :: true
    :: d_step {
        state[1] == LIVE || state[1] == CATCHING_UP ->
        live_set = live_set + (state[1] == LIVE);
        state[1] = PAUSED;
        era[1]++
    };
        d_step {
            MUST_NOT(pause_lost, state[1] != PAUSED);
#ifdef RESUME_LIVE
            live_set++;
            state[1] = LIVE;
#else
            state[1] = CATCHING_UP;
#endif
            era[1]++
        }
    fi
}

/* Where nothing moves any more. Who was paused was resumed, so generation 1 is live in the end. */
proctype judge()
{
    timeout;
    MUST_NOT(unsettled, mark != EVENTS || state[1] != LIVE ||
                            (state[0] != LIVE && state[0] != RETIRED));
    look_at(0);
    look_at(1)
}

init
{
    atomic {
        state[0] = LIVE;
        state[1] = CATCHING_UP;
        whole[0] = true;
        run queue();
        run cursor_driver();
        run cursor_driver();
        run appender();
#ifdef PAUSE
        run pauser();
#else
        run switcher();
        run roller_back();
#endif
        run judge()
    }
}
