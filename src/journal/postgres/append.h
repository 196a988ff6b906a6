/*
 * append.h - a group of appends on its way into one transaction (append.c): what is read of the
 * store before anything is decided (append_look.c), and what is decided.
 */
#ifndef EF_JOURNAL_POSTGRES_APPEND_H
#define EF_JOURNAL_POSTGRES_APPEND_H

#include "store.h"

struct pg_append {
    const ef__arrival *events;
    size_t count;
    ef_place *out;
    ef_error *err;
    ef_status status;
    bool done;
    bool held; /* EF_BUSY: an open transaction has what it wants, so next time it goes by itself */
    pg_append *next;
};

typedef struct pair {
    ef_str a, b;
} pair;

typedef struct head {
    int64_t id, seq;
    int64_t more, written; /* as many more were asked for, and where that has led it */
} head;

/* What is known of an id: an event of this group, or one that is there. */
typedef struct known {
    int32_t accepted; /* -1: none */
    int64_t stream, seq;
    bool there;
    bool found; /* … and `event` is it */
    ef_event event;
} known;

typedef struct item {
    const ef__arrival *arrival;
    ef_place *place;
    int32_t stream, id, type; /* numbers among the distinct ones; id -1: it was made for it */
    int32_t accepted;         /* of which it is, or whose duplicate; -1: one that was there */
} item;

typedef struct accepted {
    const item *item;
    int64_t stream, seq, position;
} accepted;

typedef struct group {
    pg_store *store;
    pg_append *jobs;
    size_t event_count;
    ef__arena arena; /* of one try */
    item *items;
    pair *streams, *ids, *types;
    size_t stream_count, id_count, type_count;
    head *heads;
    known *knowns;
    bool *types_known, *types_new;
    ef_str *type_tenants;       /* of new types: whose append creates it */
    ef__pair_map types_wanted;  /* a tenant and a name: new types that its appends have */
    ef__pair_map types_created; /* a tenant and "": how many it has created, with those */
    int64_t types_all;          /* in the journal, if any is new */
    accepted *accepted;
    size_t accepted_count;
    PGresult *stored; /* what `knowns` point into */
    ef__buf scratch;
    bool sequenced; /* the sequencer's lock is ours, and `end` is where the log ends */
    pg_end end;
    bool may_guess;
    bool guessed;             /* heads, types and end are guesses */
    bool nothing;             /* nothing was left to be written */
    ef__pg_patience patience; /* with those who have a stream or an id */
} group;

/* Number what the appends are about; `g` is as before the first try. */
ef_status pg_group_collect(group *g, ef_error *err);
/* The first trip: streams are advanced and locked, ids and types looked up. */
ef_status pg_group_look(group *g, ef__pg_conn *conn, ef_error *err);
/* Send the new types that were accepted; nothing when there is none. */
ef_status pg_group_send_new_types(const group *g, ef__pg_conn *conn, ef_error *err);
/* Send a statement with the names of the types, or of `only` some; nothing when there is none. */
ef_status pg_group_send_types(const group *g, ef__pg_conn *conn, int which, const bool *only,
                              ef_error *err);

/*
 * Guessing (append_guess.c): heads, types and end as they were left by the append before, so that
 * all can be decided, sealed and sent in one trip. The server compares, and raises what becomes
 * EF_CONFLICT when something is different; nothing was written then.
 */
/* Fill in the heads, the types and the end; false when too little is known. */
bool pg_guess_take(group *g);
/* Send what moves the streams, takes the sequencer's lock and compares. */
ef_status pg_guess_send(const group *g, ef__pg_conn *conn, ef_error *err);
/* The group was committed: remember where that has led to. */
void pg_guess_keep(const group *g);
/* Something failed: nothing is known any more. */
void pg_guess_forget(pg_guess *guess);
/* The same, and it was a guess: others append too, so the next ones look. */
void pg_guess_missed(pg_guess *guess);

#endif
