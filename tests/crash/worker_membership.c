/*
 * worker_crew.c - the worker's verbs that run beside others: one that serves as a daemon does, one
 * that reads.
 */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* --- serve -------------------------------------------------------------------------------------
 */

/* The sum of all steps; they are reported one at a time. */
typedef struct served {
    struct worker *w;
    int64_t applied, failed, dead, lost, errors;
} served;

static void on_step(void *context, const char *task, const ef_tick *tick, const ef_error *error)
{
    served *s = context;

    (void)task;
    s->applied += tick->applied;
    s->failed += tick->failed;
    s->dead += tick->dead;
    s->lost += tick->lost_count;
    s->errors += error != NULL;
    if (error && s->errors == 1)
        printf("first error %s: %s\n", ef_status_describe(error->status)->code, error->text);
}

/* Signals that end it are waited for, so no thread may be met by one. Being stopped and woken ends
 * the wait, too. */
static void wait_for_signal(const sigset_t *set, int64_t ms)
{
    struct timespec most = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (sigtimedwait(set, NULL, &most) < 0 && errno == EINTR)
        ;
}

int verb_serve(struct worker *w, const struct numbers *n)
{
    served sum = {.w = w};
    ef_engine *engine = NULL;
    ef_supervisor *supervisor = NULL;
    ef_store_facts facts = {0};
    char name[32];
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)snprintf(name, sizeof name, "w-%d", (int)getpid());
    ef_status st = open_engine(w, name, &engine);
    if (st == EF_OK)
        st = ef_supervisor_start(
            &(ef_supervisor_options){.engine = engine,
                                     .work = {.lease_ms = n->at[0], .heartbeat_ms = n->at[1]},
                                     .interval_ms = 100,
                                     .on_step = on_step,
                                     .context = &sum},
            &supervisor, &w->err);
    if (st == EF_OK) {
        printf("serving\n");
        fflush(stdout);
        wait_for_signal(&set, n->at[2]);
    }
    ef_supervisor_stop(supervisor);
    ef_engine_close(engine);
    if (st == EF_OK)
        st = ef_journal_facts(w->journal, &facts, &w->err);
    printf("served applied %" PRId64 " failed %" PRId64 " dead %" PRId64 " lost %" PRId64
           " refused %" PRId64 " errors %" PRId64 "\n",
           sum.applied, sum.failed, sum.dead, sum.lost, facts.stale_refused, sum.errors);
    return report(w, st);
}

/* --- read --------------------------------------------------------------------------------------
 */

#define VIEWS_MAX 10000

/* What was seen of one view: "n" only ever grows in the programs that this is for. */
typedef struct seen {
    char id[64];
    int64_t n;
} seen;

static int64_t number_in(ef_str data)
{
    const char *at = memmem(data.ptr, data.len, "\"n\":", 4);

    return at ? strtoll(at + 4, NULL, 10) : -1;
}

/* Both lists are by id, and views only come. */
static bool goes_on(const ef_view_list *list, seen *known, size_t *count)
{
    size_t at = 0;

    for (size_t i = 0; i < *count; i++) {
        while (at < list->count && !ef_str_equal(list->items[at].view_id, ef_str_from(known[i].id)))
            at++;
        if (at == list->count || number_in(list->items[at].data) < known[i].n) {
            printf("broken: view %s was at %" PRId64 " and is %s\n", known[i].id, known[i].n,
                   at == list->count ? "gone" : "less");
            return false;
        }
    }
    *count = list->count < VIEWS_MAX ? list->count : VIEWS_MAX;
    for (size_t i = 0; i < *count; i++) {
        (void)snprintf(known[i].id, sizeof known[i].id, "%.*s", EF_STR_ARG(list->items[i].view_id));
        known[i].n = number_in(list->items[i].data);
    }
    return true;
}

int verb_read(struct worker *w, const struct numbers *n)
{
    const ef_clock *clock = ef_clock_system();
    int64_t until_us = clock->mono_us(clock->context) + n->at[1] * 1000, reads = 0, as_of = 0;
    seen *known = calloc(VIEWS_MAX, sizeof *known);
    ef_view_list list = {0};
    ef_engine *engine = NULL;
    size_t count = 0;
    bool good = known != NULL;
    ef_status st = open_engine(w, "reader", &engine);

    while (st == EF_OK && good && clock->mono_us(clock->context) < until_us) {
        st = ef_view_find(engine,
                          &(ef_view_query){.projection = ef_str_from(program_names[n->at[0] & 3]),
                                           .limit = VIEWS_MAX},
                          &list, &w->err);
        good = st != EF_OK || (goes_on(&list, known, &count) && list.as_of >= as_of);
        as_of = list.as_of;
        reads++;
    }
    printf("read %" PRId64 " times, %zu views, as of %" PRId64 "\n", reads, count, as_of);
    EF_RELEASE(&list);
    ef_engine_close(engine);
    free(known);
    return good ? report(w, st) : EXIT_BROKEN;
}
