/*
 * crowd.h - many threads on one journal, and the results of their appends.
 *
 * A check that fails in a thread is recorded (the first one with a text) and the thread continues:
 * only the thread of the test may end it. `told` has the result of the append at each position.
 */
#ifndef EF_TEST_CROWD_H
#define EF_TEST_CROWD_H

#include "../contract/contract.h"

#include <pthread.h>

#define POSITIONS_MAX 8192
#define NAME_MAX_BYTES 32

typedef struct told {
    _Atomic int times; /* number of appends that returned this position as new */
    int64_t seq;
    char stream[NAME_MAX_BYTES];
    char id[NAME_MAX_BYTES];
} told;

typedef struct crowd {
    contract *t;
    _Atomic int failures;
    pthread_mutex_t lock; /* of first_failure */
    char first_failure[600];
    told told[POSITIONS_MAX + 1];
    _Atomic int64_t written; /* events that were not duplicates */
    _Atomic int64_t calls;   /* that asked for a commit */
    _Atomic bool over;       /* the writers are done */
} crowd;

/* One of the threads. */
typedef struct member {
    crowd *crowd;
    ef_journal *journal;
    int number;
    pthread_t thread;
    ef_error err;
} member;

crowd *crowd_new(contract *t);
void crowd_free(crowd *c);

void member_start(member *m, crowd *c, ef_journal *journal, int number, void *(*run)(void *));
void member_join(member *m);

/* Note a failure; go on. */
void crowd_note(crowd *c, const char *file, int line, const char *what, const char *why);
#define MUST(m, condition)                                                                         \
    ((condition) ? (void)0 : crowd_note((m)->crowd, __FILE__, __LINE__, #condition, (m)->err.text))

/* Append, which must answer EF_OK or `refusal`, and note where the events are. */
ef_status member_append(member *m, ef_status refusal, const ef_new_event *events, size_t count,
                        ef_place *places);

/* At the end: no failure was recorded, and the journal has all results, without gaps. */
void crowd_check(crowd *c, ef_journal *journal);

#endif
