/*
 * engine_fixture.h - a journal, an engine and a clock that a test moves.
 */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include "test.h"

#include "../../src/journal/journal.h"

#include <everfold/everfold.h>

#include <stdatomic.h>

#define SECOND INT64_C(1000000)

typedef struct fixture {
    const char *backend; /* "memory" or "sqlite" */
    char folder[64];
    char journal_url[128], views_url[128];
    ef_clock clock; /* for journal and engines; both times are … */
    _Atomic int64_t now_us;
    ef_journal *journal;
    ef_engine *engine;
    ef_error err;
} fixture;

/* The back end is the program's first argument. */
extern const char *fixture_backend;

void fixture_open(fixture *f, ef_mode mode);
void fixture_close(fixture *f);
/* Another engine on the same stores; only where they are files. */
ef_engine *fixture_engine(fixture *f, const char *worker);
bool fixture_has_files(const fixture *f);

void pass_time(fixture *f, int64_t us);
void deploy(fixture *f, const char *program);
int64_t append(fixture *f, const char *stream, const char *type, const char *data);
/* Past the engine: in the inline modes no projection gets it. */
void append_past(fixture *f, const char *stream, const char *data);
/* One tick; what it did. */
ef_tick tick(fixture *f);
/* Ticks until there is nothing more to do at once; the sum of what they did. */
ef_tick drain(fixture *f);
/* The view's data as text; "" when there is none. Until the next call. */
const char *view_data(fixture *f, const char *projection, const char *id);
/* Drives a run for `steps` steps, or to its end if below 0; returns its state. */
ef_run_state drive(fixture *f, const char *id, int steps);
ef_outbox_summary summary_of(fixture *f, const char *lane);
/* Its accounts: the state, the lag, and nothing unaccounted. */
void check_accounts(fixture *f, const char *name, const char *state, int64_t lag);

/* Counts, and fails on what is not good. */
extern const char SUMS[];
#define GOOD "{\"of\":\"a\",\"good\":1}"
#define BAD "{\"of\":\"a\",\"good\":0}"

#define OK(call) CHECK_STATUS(EF_OK, call, &f->err)
#define REFUSED(status, call) CHECK_STATUS(status, call, &f->err)

#endif
