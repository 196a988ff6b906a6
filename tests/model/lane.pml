/*
 * lane.pml - one row for two generations: the own lane of a projection while a new one catches up.
 *
 * An event has failed in generation 0, which is live, and has a row in the projection's lane. A new
 * generation is deployed at any time. It catches up by cursor, fails on the event too, and goes on:
 * a poison event holds back its own stream only. Nothing queued will ever bring it this event
 * again, so the cursor driver files a row, in the journal, and moves its cursor, in the view store:
 * two transactions. The row is shared: whoever tries it again removes it once every generation that
 * it found has the event.
 *
 * The lease of the partition is not modelled: the cursor driver has none, and one worker tries the
 * row again (claim.pml has two). The cursor driver may die once; the cursor says where to go on.
 */
#define ATTEMPTS_MAX 2

#define MUST_NOT(name, condition)                                                                  \
    name = (condition);                                                                            \
    assert(!name)

bool dropped, unsettled;

/* --- the journal store ------------------------------------------------------------------------ */

#define NO_ROW 0
#define PENDING 1
#define FAILED 2
#define DEAD 3
byte row = FAILED, attempts = 1;
bool let_pass; /* an operator skipped it */
byte stamp;    /* of the row: grows each time that it is filed, there or not */

/* --- the view store --------------------------------------------------------------------------- */

mtype = { NOT_THERE, CATCHING_UP, LIVE };
mtype new = NOT_THERE; /* the state of generation 1 */
bool has[2];           /* the watermark has passed the event */

byte crashes_left = 1;

#define DUE (row == PENDING || row == FAILED)

/* --- trying again ----------------------------------------------------------------------------- */

/* A row that was filed again since it was taken stays: somebody new may need it. */
#ifdef NO_STAMP
#define AS_TAKEN true
#else
#define AS_TAKEN (stamp == taken)
#endif

active proctype retry()
{
    byte taken, tried;
    bool by_skip, fed;

look:
end:
    atomic { /* ef_outbox_take_due */
        DUE ->
        taken = stamp;
        tried = attempts;
        by_skip = let_pass
    };
    fed = new != NOT_THERE; /* ef__live_set_read, choose_generations */
    d_step {   /* the commit: skipped, or it fails again; one that is passed stays passed */
        has[0] = has[0] || by_skip;
        has[1] = has[1] || (fed && by_skip)
    };
    d_step { /* ef_outbox_mark */
        if
        :: has[0] && (!fed || has[1]) && row != NO_ROW -> /* all are through with it */
            if
            :: AS_TAKEN ->
                row = NO_ROW;
                attempts = 0;
                let_pass = false
            :: else -> skip
            fi
        :: else ->
            attempts = tried + 1;
            row = (attempts >= ATTEMPTS_MAX && !let_pass -> DEAD : FAILED)
        fi;
        taken = 0;
        tried = 0;
        by_skip = false;
        fed = false
    };
    goto look
}

/* --- catching up ------------------------------------------------------------------------------ */

/* ef_outbox_file: one that is there stays as it is. */
inline file()
{
#ifndef FILES_NOTHING
    row = (row == NO_ROW -> PENDING : row);
    stamp++;
#endif
    skip
}

#define CRASH atomic { crashes_left > 0 -> crashes_left--; goto look }

active proctype cursor_driver()
{
    bool had;

look:
end:
    atomic { new == CATCHING_UP -> had = has[1] };
#ifndef FILED_AFTER
    if
    :: CRASH
    :: d_step { !had -> file() }
    :: had
    fi;
#endif
    if
    :: CRASH
    :: d_step { /* the commit: watermarks as read, then the cursor moves and it goes live */
        new = (had == has[1] -> LIVE : new);
    }
    fi;
#ifdef FILED_AFTER
    if
    :: CRASH
    :: d_step { !had -> file() }
    :: had
    fi;
#endif
    goto look
}

/* --- people ----------------------------------------------------------------------------------- */

active proctype deployer()
{
    new = CATCHING_UP
}

/* Requeues or skips once, or does nothing. */
active proctype operator()
{
end:
    if
    :: true
    :: d_step { row == DEAD -> row = PENDING; attempts = 0 }
    :: d_step { row != NO_ROW -> row = PENDING; let_pass = true }
    fi
}

active proctype judge()
{
    timeout;
    MUST_NOT(unsettled, DUE || new != LIVE);
    MUST_NOT(dropped, row == NO_ROW && (!has[0] || !has[1]))
}
