/*
 * sim.h - the whole engine in one thread, from a seed.
 *
 * One journal and one view store in memory, some workers with an engine each, an operator and
 * appenders. Every worker sees the stores through proxies of its own. At every call of a seam,
 * before and after it, the seed may let the call fail, lose its answer, kill the worker, or pause
 * it: then others go on right there, nested in the call, and the paused one wakes up later in a
 * world that has changed. After every write that reached a store the oracle looks at it.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "oracle.h"
#include "random.h"

#include "../../src/engine/engine_priv.h"
#include "../../src/journal/journal.h"
#include "../../src/views/views.h"

#include <everfold/generation.h>

#include <stdio.h>

enum {
    SIM_WORKERS = 4,
    SIM_OPERATOR = SIM_WORKERS,     /* deploys and appends, and never works */
    SIM_OUTSIDER = SIM_WORKERS + 1, /* appends, steals leases; nothing ever disturbs it */
    SIM_HANDS = SIM_WORKERS + 2,
    SIM_DEPTH = 3, /* of pauses in pauses */
    SIM_TRACE_LINES = 40,
    SIM_OFFERS = 160
};

/* Ways to cheat, to see whether the oracle notices. */
typedef enum sim_cheat {
    CHEAT_NONE,
    CHEAT_DROP_EXCEPTIONS, /* a mark loses its exceptions */
    CHEAT_DONE_EXCEPTIONS, /* what failed in its own lane is called done */
    CHEAT_COMMIT_TWICE,    /* a commit counts twice */
    CHEAT_LOSE_WATERMARK,  /* a commit without its watermarks */
    CHEAT_LOSE_VIEW,       /* a commit without one of its views */
    CHEAT_FORGE_TOKEN,     /* a late commit gets a token that is not old */
    CHEAT_DROP_FENCES,     /* a late commit shows no token */
    CHEAT_FORGE_MARK,      /* the same for a mark */
    CHEAT_STEAL_LEASE,     /* a lease is taken that is still live */
    CHEAT_EARLY_LIVE,      /* a generation goes live before it is at the head */
    CHEAT_LOSE_TENANT,     /* a commit without the tenants that it leaves behind */
    CHEAT_EARLY_JOIN,      /* a tenant is called level when it is not */
    CHEAT_LOSE_EVENT,      /* a batch of the journal without its first event */
    CHEAT_LOSE_ROW,        /* an append without its rows */
    CHEAT_LOSE_MESSAGE,    /* a sink says that it has what it has not */
    CHEAT_SWAP_MESSAGES,   /* a sink goes on behind a message that failed */
    CHEAT_COUNT
} sim_cheat;

const char *cheat_name(sim_cheat cheat);
int cheat_find(const char *name); /* -1: there is none */

struct sim;
struct hand;

typedef struct proxy_journal {
    ef_journal base; /* first, so that an ef_journal * is this */
    struct hand *hand;
} proxy_journal;

typedef struct proxy_views {
    ef_views base;
    struct hand *hand;
} proxy_views;

/* A worker, or the operator: an engine with its proxies. */
typedef struct hand {
    struct sim *sim;
    int index;
    int life; /* how often it was opened */
    char name[24];
    ef_engine *engine; /* NULL while it is down */
    bool busy;         /* in a call: may not be entered again */
    int turn;          /* the call's number */
    bool crashed;      /* every call fails until the stack is unwound */
    bool disturbed;    /* a fault or a pause met it in this call */
    bool unsure;       /* in this life an answer was lost: it may hold what it does not know of */
    bool in_commit;    /* the view store is locked */
    bool folds_inline; /* the call that is under way is an append that folds */
    int64_t skew_us;   /* its wall clock is wrong by this much */
    ef_clock clock;
    proxy_journal journal;
    proxy_views views;
} hand;

/* What may go wrong in this world, per thousand calls. */
typedef struct trouble {
    int refuse, lose, crash, pause;
    int jump; /* of the wall clock, per thousand steps */
} trouble;

/* An event that an appender has, or will offer again. */
typedef struct offer {
    sim_event event;
    bool known; /* the journal has it; its place is in event */
} offer;

typedef struct sim {
    uint64_t seed, random;
    sim_cheat cheat;
    bool verbose;
    trouble trouble;
    bool calm;       /* no more faults … */
    bool outage;     /* … but that nothing can be written to the views */
    bool wide_awake; /* nobody rests */
    int workers, partitions, streams;
    int bad_permille;
    size_t batch;
    int64_t lease_ms;
    bool folds_inline; /* the operator's appends fold at once */
    bool passes_over;  /* the ledger is to skip and record */
    int64_t wall_us, mono_us;
    ef_clock clock;
    ef_journal *journal; /* the stores themselves */
    ef_views *views;
    hand hands[SIM_HANDS];
    offer offers[SIM_OFFERS];
    int offer_count;
    int version[RULE_NAMES];    /* the last one that was deployed */
    sim_rule rules[RULE_NAMES]; /* its rule */
    int depth, step, turns;
    bool publishes; /* there is a publisher (mail.c), … */
    struct {
        int fail_permille;
        bool delivered[SIM_EVENTS + 1]; /* … whose sink has these positions, … */
        int64_t log[SIM_EVENTS];        /* … in this order, … */
        int log_count;                  /* … so many, … */
        bool loses;                     /* … unless it is put back to where it was, … */
        int restarts;                   /* … so often, … */
        int waiting;                    /* … and so many wait for it */
    } mail;
    oracle oracle;
    struct {
        look_views views;
        look_rows rows;
        look_leases leases;
    } look;
    char trace[SIM_TRACE_LINES][160];
    int trace_count;
    uint64_t trace_hash;
    int64_t faults; /* that happened */
} sim;

/* --- sim.c */
void sim_note(sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool sim_failed(const sim *s)
{
    return s->oracle.wrong[0] != '\0';
}

/* --- world.c: a world from its beginning to its end. False: something is wrong. */
bool sim_run(sim *s, uint64_t seed, sim_cheat cheat, bool verbose);

/* --- actors.c */
/* One step of somebody who is free. */
void sim_act(sim *s);
void sim_append(sim *s, hand *by);
void sim_deploy(sim *s, int name, sim_rule rule, int version);
void sim_requeue_dead(sim *s, hand *by);
void sim_skip(sim *s, hand *by, int lane, int64_t position);
void sim_advance(sim *s, int64_t us);

/* --- hand.c */
void hand_open(hand *h);  /* unless it is open */
void hand_close(hand *h); /* in order */
void hand_die(hand *h);   /* without a word; it is not in a call */
void hand_tick(hand *h);
/* Around a call of the hand's engine or journal: it cannot be entered meanwhile, and if it crashed
 * in it, it is gone afterwards. `st` is checked: some answers are never right. */
void hand_enter(hand *h);
void hand_leave(hand *h, const char *what, ef_status st, const ef_error *err);

/* --- proxy.c: what happens at a seam. */
/* EF_OK: go on with the call. */
ef_status gate_before(hand *h, const char *call, bool write, ef_error *err);
ef_status gate_after(hand *h, const char *call, bool write, ef_status st, ef_error *err);
extern const ef__journal_ops proxy_journal_ops;
extern const ef__views_ops proxy_views_ops;

/* --- look.c: show the stores to the oracle. */
void look_at_views(sim *s, const sim_deed *deed);
void look_at_rows(sim *s, const sim_deed *deed, bool append);
void look_at_filed(sim *s, const ef_exception *rows, size_t count, int turn);
/* Which events a version passes: of a projection that passes by itself, and of rows that an
 * operator skipped. */
void look_at_skip(sim *s, const ef__skip_entry *entry);
void look_at_skips(sim *s, const ef__revise *revise, const ef_row_list *rows);
void look_at_leases(sim *s, const sim_deed *deed);

/* --- mail.c: a publisher, in worlds that have one. */
struct ef__bus;
struct ef__bus_options;
void mail_begin(sim *s);
bool mail_is_of(ef_str lane);
ef_status mail_open(const struct ef__bus_options *options, struct ef__bus **out, ef_error *err);
/* The rows as they are now. */
void mail_look(sim *s, const ef_row_list *rows);
/* A mark of its lane was let in. */
void mail_marked(sim *s, const char *who, const ef_holding *held, size_t count);
bool mail_settled(const sim *s, char *why, size_t size);

#endif
