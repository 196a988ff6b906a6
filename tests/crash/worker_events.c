/*
 * worker_events.c - the worker's verbs that append and read.
 */
#include "worker.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES_MAX 6 /* of one batch: enough for any single fault, and bounded */

struct batch {
    struct event_room *rooms; /* BATCH_MAX */
    ef_new_event events[BATCH_MAX];
    ef_place places[BATCH_MAX];
    int64_t streams, seed, pad;
};

struct batch *batch_new(int64_t streams, int64_t seed, int64_t pad)
{
    struct batch *b = calloc(1, sizeof *b);

    b->rooms = calloc(BATCH_MAX, sizeof *b->rooms);
    b->streams = streams;
    b->seed = seed;
    b->pad = pad < DATA_MAX - 128 ? pad : DATA_MAX - 128;
    return b;
}

void batch_free(struct batch *b)
{
    free(b->rooms);
    free(b);
}

static int64_t now_ms(void)
{
    return ef_clock_system()->mono_us(ef_clock_system()->context) / 1000;
}

static void note_places(struct worker *w, const struct batch *b, int64_t first, int64_t count)
{
    char *text = malloc((size_t)count * 96);
    size_t length = 0;

    for (int64_t k = 0; k < count; k++)
        length += (size_t)snprintf(
            text + length, 96, "a %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d\n", b->seed,
            first + k, b->places[k].seq, b->places[k].position, b->places[k].duplicate);
    note_bytes(w, text, length);
    free(text);
}

ef_status append_batch(struct worker *w, struct batch *b, int64_t first, int64_t count,
                       ef_error *err)
{
    ef_status st = EF_OK;

    for (int64_t k = 0; k < count; k++)
        make_event(b->seed, first + k, b->streams, b->pad, &b->rooms[k], &b->events[k]);
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        st = ef_journal_append(w->journal, b->events, (size_t)count, b->places, err);
        if (st == EF_OK) {
            note_places(w, b, first, count);
            return EF_OK;
        }
        note(w, "e %s\n", ef_status_describe(st)->code);
    }
    return st;
}

/* Every fifth batch is sent twice, as a caller does whose answer was lost. */
int verb_append(struct worker *w, const struct numbers *n)
{
    int64_t total = n->at[0], size = n->at[2] < BATCH_MAX ? n->at[2] : BATCH_MAX;
    struct batch *b = batch_new(n->at[1], n->at[3], n->at[4]);
    ef_status st = EF_OK;

    for (int64_t i = 0, k = 0; st == EF_OK && i < total; i += size, k++) {
        int64_t count = total - i < size ? total - i : size;
        st = append_batch(w, b, i, count, &w->err);
        if (st == EF_OK && k % 5 == 4)
            st = append_batch(w, b, i, count, &w->err);
    }
    batch_free(b);
    return report(w, st);
}

/* --- hammer ------------------------------------------------------------------------------------
 */

struct thread {
    pthread_t id;
    struct worker *w;
    struct batch *batch;
    int64_t until_ms, size;
    ef_status st;
    ef_error err;
};

static void *hammer(void *context)
{
    struct thread *t = context;
    int64_t pause_ms = getenv("WORKER_PAUSE_MS") ? strtoll(getenv("WORKER_PAUSE_MS"), NULL, 10) : 0;
    struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};

    for (int64_t i = 0; t->st == EF_OK && now_ms() < t->until_ms; i += t->size) {
        t->st = append_batch(t->w, t->batch, i, t->size, &t->err);
        if (pause_ms)
            (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

int verb_hammer(struct worker *w, const struct numbers *n)
{
    struct thread threads[8] = {0};
    int count = n->at[4] < 8 ? (int)n->at[4] : 8;
    ef_status st = EF_OK;

    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){.w = w,
                                     .batch = batch_new(n->at[1], n->at[3] * 8 + i, 200),
                                     .until_ms = now_ms() + n->at[0],
                                     .size = n->at[2]};
        pthread_create(&threads[i].id, NULL, hammer, &threads[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        batch_free(threads[i].batch);
        if (threads[i].st != EF_OK && st == EF_OK) {
            st = threads[i].st;
            w->err = threads[i].err;
        }
    }
    return report(w, st);
}

/* --- follow ------------------------------------------------------------------------------------
 */

/* Positions follow each other without a hole, and data says which event it is. */
static bool follows(const ef_batch *batch, int64_t *after)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->events[i].position != *after + 1) {
            printf("broken: position %" PRId64 " came after %" PRId64 "\n",
                   batch->events[i].position, *after);
            return false;
        }
        *after = batch->events[i].position;
    }
    return true;
}

int verb_follow(struct worker *w, const struct numbers *n)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t after = 0, until_ms = now_ms() + n->at[0];
    bool good = true;
    ef_status st = EF_OK;

    while (good && st == EF_OK && now_ms() < until_ms) {
        ef_log_query query = {.any_tenant = true, .after = after, .limit = 500};
        st = ef_journal_wait(w->journal, after, 100, &w->err);
        if (st == EF_TIMEOUT) {
            st = EF_OK;
            continue;
        }
        if (st == EF_OK)
            st = ef_journal_read_log(w->journal, &query, &batch, &w->err);
        good = st != EF_OK || follows(&batch, &after);
    }
    printf("followed %" PRId64 "\n", after);
    EF_RELEASE(&batch);
    return good ? report(w, st) : EXIT_BROKEN;
}

/* --- fill --------------------------------------------------------------------------------------
 */

/* Append until it fails; then read it all back, say so, wait for a line, and append again. */
int verb_fill(struct worker *w, const struct numbers *n)
{
    struct batch *b = batch_new(n->at[0], n->at[2], n->at[3]);
    int64_t i = 0, until_ms;
    char line[16];
    ef_status st;

    while ((st = append_batch(w, b, i, n->at[1], &w->err)) == EF_OK)
        i += n->at[1];
    printf("stopped %s\n", ef_status_describe(st)->code);
    (void)verb_dump(w, n);
    printf("waiting\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return EXIT_BROKEN;
    until_ms = now_ms() + 10000;
    do
        st = append_batch(w, b, i, n->at[1], &w->err);
    while (st != EF_OK && now_ms() < until_ms);
    batch_free(b);
    printf("resumed %s\n", ef_status_describe(st)->code);
    return report(w, st);
}

/* --- look --------------------------------------------------------------------------------------
 */

int verb_open(struct worker *w, const struct numbers *n)
{
    ef_verify_result result;
    ef_status st = ef_journal_verify(w->journal, 0, NULL, NULL, &result, &w->err);

    (void)n;
    if (st == EF_OK)
        printf("verified %" PRId64 "\n", result.checked);
    return report(w, st);
}

static void print_event(const ef_event *e)
{
    printf("v %" PRId64 " %" PRId64 " %" PRId32 " %" PRId64 " %" PRId64
           " %.*s|%.*s|%.*s|%.*s|%.*s|%.*s\n",
           e->position, e->seq, e->schema, e->time_us, e->recorded_us, EF_STR_ARG(e->tenant),
           EF_STR_ARG(e->stream), EF_STR_ARG(e->id), EF_STR_ARG(e->type), EF_STR_ARG(e->data),
           EF_STR_ARG(e->meta));
}

int verb_dump(struct worker *w, const struct numbers *n)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t after = 0;
    ef_status st = EF_OK;
    bool more = true;

    (void)n;
    while (st == EF_OK && more) {
        ef_log_query query = {.any_tenant = true, .after = after, .limit = 1000};
        st = ef_journal_read_log(w->journal, &query, &batch, &w->err);
        for (size_t i = 0; st == EF_OK && i < batch.count; i++)
            print_event(&batch.events[i]);
        more = st == EF_OK && batch.count > 0;
        if (more)
            after = batch.events[batch.count - 1].position;
    }
    EF_RELEASE(&batch);
    return report(w, st);
}

/* --- fork --------------------------------------------------------------------------------------
 */

static void use_after_fork(struct worker *w)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_log_query query = {.any_tenant = true};
    ef_new_event event = {.stream = EF_STR("s"), .type = EF_STR("t")};
    ef_lease_key key = {.kind = EF_LEASE_PARTITION};
    ef_place place;
    int64_t token, until;

    printf("append %s\n",
           ef_status_describe(ef_journal_append(w->journal, &event, 1, &place, &w->err))->code);
    printf("read_log %s\n",
           ef_status_describe(ef_journal_read_log(w->journal, &query, &batch, &w->err))->code);
    printf("lease_acquire %s\n",
           ef_status_describe(ef__lease_acquire_one(w->journal, &key, EF_STR("child"), 1000, &token,
                                                    &until, &w->err))
               ->code);
    EF_RELEASE(&batch);
    fflush(stdout);
    _exit(0);
}

int verb_fork(struct worker *w, const struct numbers *n)
{
    struct batch *b = batch_new(3, 900, 20);
    ef_status st = append_batch(w, b, 0, 5, &w->err);
    int status = 0;
    pid_t child;

    (void)n;
    fflush(stdout);
    child = fork();
    if (child == 0)
        use_after_fork(w);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return EXIT_BROKEN;
    if (st == EF_OK)
        st = append_batch(w, b, 5, 5, &w->err);
    batch_free(b);
    return report(w, st);
}
