/*
 * verify.c - is the PostgreSQL journal as it was written: the chain of hashes, and what hangs on an
 * event. In slices; events are never changed, so the slices fit together.
 */
#include "store.h"

#include "../../base/limits.h"

#include <inttypes.h>

#define STEP_EVENTS 1000
#define STEP_EVENTS_FIRST 50 /* large ones show in the first slice */

typedef struct verifying {
    pg_store *store;
    uint8_t hash[EF_HASH_BYTES];
    ef__buf scratch;
    int64_t at; /* verified up to here */
} verifying;

static ef_status damaged(int64_t position, const char *what, ef_error *err)
{
    return ef_fail_numbers(err, EF_DAMAGED, position, position,
                           "the event at position %" PRId64 " is damaged: %s", position, what);
}

static ef_status start_chain(verifying *v, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_str hash;
    ef_status st;

    if (v->at == 0)
        return EF_OK;
    ef__pg_add_int(&params, v->at);
    st = pg_read(v->store, PJ_EVENT_HASH, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = damaged(v->at, "it is missing", err);
    if (st == EF_OK) {
        hash = ef__pg_str(result, 0, 0);
        if (hash.len == sizeof v->hash)
            memcpy(v->hash, hash.ptr, hash.len);
        else
            st = damaged(v->at, "it has no hash", err);
    }
    PQclear(result);
    return st;
}

static ef_status check_one(verifying *v, const PGresult *result, int row, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];
    ef_event event;
    ef_status st;

    if (ef__pg_int(result, row, 0) != v->at + 1)
        return damaged(v->at + 1, "it is missing", err);
    st = pg_event_look(result, row, &v->scratch, &event, NULL, err);
    if (st != EF_OK)
        return st;
    if (!ef__event_seal(v->hash, &event, &v->scratch, hash, NULL))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while verifying");
    if (memcmp(hash, event.hash, sizeof hash) != 0)
        return damaged(v->at + 1, "its hash does not follow from the event before it", err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS))
        return damaged(v->at + 1, "it does not follow on the event before it in its stream", err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS + 1))
        return damaged(v->at + 1, "its id does not lead to it", err);
    memcpy(v->hash, hash, sizeof hash);
    v->at++;
    return EF_OK;
}

static ef_status verify_some(verifying *v, int64_t head, int64_t count, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_int(&params, v->at);
    ef__pg_add_int(&params, count);
    st = ef__pg_read(v->store->pool, PJ_EVENT_VERIFY, &params, &result, err);
    if (st == EF_OK && PQntuples(result) == 0)
        st = damaged(v->at + 1, "it is missing", err);
    for (int i = 0; st == EF_OK && i < PQntuples(result) && v->at < head; i++)
        st = check_one(v, result, i, err);
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
    verifying v = {.store = pg_store_of(journal),
                   .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES),
                   .at = from > 0 ? from - 1 : 0};
    int64_t start = v.at, count = STEP_EVENTS_FIRST;
    ef_head head;
    bool go_on = true;
    ef_status st = pg_head(journal, &head, err);

    *out = (ef_verify_result){.head = st == EF_OK ? head.position : 0};
    if (st == EF_OK && v.at < out->head)
        st = start_chain(&v, err);
    while (st == EF_OK && go_on && v.at < out->head) {
        st = verify_some(&v, out->head, count, err);
        count = STEP_EVENTS;
        go_on = !progress || progress(context, v.at - start, out->head - start);
    }
    if (st == EF_OK && go_on)
        st = verify_rest(v.store, err);
    out->checked = v.at - start;
    out->damaged = st == EF_DAMAGED && v.at < out->head ? v.at + 1 : 0;
    ef__buf_release(&v.scratch);
    return st;
}
