/*
 * verify.c - verifies the PostgreSQL journal: the chain of hashes, and the rows that belong to an
 * event. Works in slices; events are never changed, so no transaction around all of them is needed.
 */
#include "store.h"

#include "../../base/limits.h"

#include <inttypes.h>

#define STEP_EVENTS 1000
#define STEP_EVENTS_FIRST 50 /* the first slice is small, in case events are large */

typedef struct verify_job {
    pg_store *store;
    uint8_t hash[EF_HASH_BYTES];
    ef__buf scratch;
    int64_t at; /* verified up to here */
} verify_job;

static ef_status fail_damaged(int64_t position, const char *what, ef_error *err)
{
    return ef_fail_numbers(err, EF_DAMAGED, position, position,
                           "the event at position %" PRId64 " is damaged: %s", position, what);
}

static ef_status start_chain(verify_job *job, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_str hash;
    ef_status st;

    if (job->at == 0)
        return EF_OK;
    ef__pg_add_int(&params, job->at);
    st = pg_read(job->store, PJ_EVENT_HASH, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = fail_damaged(job->at, "it is missing", err);
    if (st == EF_OK) {
        hash = ef__pg_str(result, 0, 0);
        if (hash.len == sizeof job->hash)
            memcpy(job->hash, hash.ptr, hash.len);
        else
            st = fail_damaged(job->at, "it has no hash", err);
    }
    PQclear(result);
    return st;
}

static ef_status check_one(verify_job *job, const PGresult *result, int row, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];
    ef_event event;
    ef_status st;

    if (ef__pg_int(result, row, 0) != job->at + 1)
        return fail_damaged(job->at + 1, "it is missing", err);
    st = pg_event_read(result, row, &job->scratch, &event, NULL, err);
    if (st != EF_OK)
        return st;
    if (!ef__event_seal(job->hash, &event, &job->scratch, hash, NULL))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while verify_job");
    if (memcmp(hash, event.hash, sizeof hash) != 0)
        return fail_damaged(job->at + 1, "its hash does not follow from the event before it", err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS))
        return fail_damaged(job->at + 1, "it does not follow on the event before it in its stream",
                            err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS + 1))
        return fail_damaged(job->at + 1, "its id does not lead to it", err);
    memcpy(job->hash, hash, sizeof hash);
    job->at++;
    return EF_OK;
}

static ef_status verify_slice(verify_job *job, int64_t head, int64_t count, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_int(&params, job->at);
    ef__pg_add_int(&params, count);
    st = ef__pg_read(job->store->pool, PJ_EVENT_VERIFY, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = fail_damaged(job->at + 1, "it is missing", err);
    for (int i = 0; st == EF_OK && i < PQntuples(result) && job->at < head; i++)
        st = check_one(job, result, i, err);
    PQclear(result);
    return st;
}

static ef_status verify_rest(pg_store *store, ef_error *err)
{
    static const char *const WHAT[] = {"stream heads are behind their last event",
                                       "ids have no event", "outbox rows have no event"};
    PGresult *result = NULL;
    ef_status st = ef__pg_read(store->pool, PJ_VERIFY_REST, NULL, &result, err);

    for (int i = 0; st == EF_OK && i < 3; i++)
        if (ef__pg_int(result, 0, i))
            st = ef_fail(err, EF_DAMAGED, "%" PRId64 " %s", ef__pg_int(result, 0, i), WHAT[i]);
    PQclear(result);
    return st;
}

ef_status pg_verify(ef_journal *journal, int64_t from,
                    bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                    ef_verify_result *out, ef_error *err)
{
    verify_job job = {.store = pg_store_of(journal),
                      .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES),
                      .at = from > 0 ? from - 1 : 0};
    int64_t start = job.at, count = STEP_EVENTS_FIRST;
    ef_head head;
    bool go_on = true;
    ef_status st = pg_head(journal, &head, err);

    *out = (ef_verify_result){.head = st == EF_OK ? head.position : 0};
    if (st == EF_OK && job.at < out->head)
        st = start_chain(&job, err);
    while (st == EF_OK && go_on && job.at < out->head) {
        st = verify_slice(&job, out->head, count, err);
        count = STEP_EVENTS;
        go_on = !progress || progress(context, job.at - start, out->head - start);
    }
    if (st == EF_OK && go_on)
        st = verify_rest(job.store, err);
    out->checked = job.at - start;
    out->damaged = st == EF_DAMAGED && job.at < out->head ? job.at + 1 : 0;
    ef__buf_release(&job.scratch);
    return st;
}
