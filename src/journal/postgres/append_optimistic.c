/*
 * append_optimistic.c - see append.h: an append that assumes the state which the previous one left.
 *
 * While only one handle appends, the log and its streams are where it left them, and looking that
 * up costs a round trip. So it is compared instead: streams by the unique index of the events, the
 * end of the log by its position and hash under the sequencer lock. The hash is that of a chain, so
 * the whole log before it is unchanged. If the lock is held, or the log ends elsewhere, the events
 * are written without positions.
 *
 * The server clock is assumed for at most a second after it was read: the recording time of an
 * event is that of the server, and never decreases.
 */
#include "append.h"

#include "../../base/limits.h"

#define ASSUME_CLOCK_US 1000000
#define ASSUMED_STREAMS_BYTES (8 << 20) /* about 80,000 streams; others are looked up */
#define ASSUMED_TYPES_BYTES (1 << 20)
#define PAUSE_MAX                                                                                  \
    1023 /* appends with a lookup between two attempts, while other processes append */

typedef struct pg_assumed_head {
    int64_t id, seq;
} pg_assumed_head;

void pg_assumption_init(pg_assumption *assumption)
{
    *assumption =
        (pg_assumption){.streams = EF__PAIR_MAP_INIT(pg_assumed_head, ASSUMED_STREAMS_BYTES),
                        .types = EF__PAIR_MAP_INIT(bool, ASSUMED_TYPES_BYTES)};
}

void pg_assumption_release(pg_assumption *assumption)
{
    ef__pair_map_release(&assumption->streams);
    ef__pair_map_release(&assumption->types);
}

/* --- assuming --------------------------------------------------------------------------------- */

static bool assume_end(pg_store *store, pg_end *end)
{
    const ef_clock *clock = store->given_clock ? store->base.options.clock : ef_clock_system();
    int64_t now_us = clock->wall_us(clock->context), age_us;

    (void)pthread_mutex_lock(&store->lock);
    *end = store->last_end;
    (void)pthread_mutex_unlock(&store->lock);
    if (!store->given_clock) {
        age_us = clock->mono_us(clock->context) - end->clock_read_us;
        if (age_us > ASSUME_CLOCK_US)
            return false;
        now_us = end->clock_us + age_us;
    }
    end->recorded_us = now_us > end->recorded_us ? now_us : end->recorded_us;
    end->scratch = (ef__buf)EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES);
    return end->position > 0;
}

void pg_end_record(pg_store *store, const pg_end *end)
{
    (void)pthread_mutex_lock(&store->lock);
    if (end->position >= store->last_end.position)
        store->last_end = *end;
    store->last_end.scratch = (ef__buf){0};
    (void)pthread_mutex_unlock(&store->lock);
}

static bool read_heads(pg_append_group *group)
{
    for (size_t i = 0; i < group->stream_count; i++) {
        const pg_assumed_head *place = ef__pair_map_find(&group->store->assumption.streams,
                                                         group->streams[i].a, group->streams[i].b);
        if (!place)
            return false;
        group->heads[i].id = place->id;
        group->heads[i].seq = place->seq;
    }
    return true;
}

static bool read_types(pg_append_group *group)
{
    for (size_t i = 0; i < group->type_count; i++) {
        if (!ef__pair_map_find(&group->store->assumption.types, (ef_str){0}, group->types[i].b))
            return false;
        group->types_known[i] = true;
    }
    return true;
}

bool pg_assume(pg_append_group *group)
{
    pg_assumption *assumption = &group->store->assumption;

    /* Given ids have to be looked up, and another transaction may hold their lock. */
    if (!assumption->known || group->id_count)
        return false;
    if (assumption->pause) {
        assumption->pause--;
        return false;
    }
    if (!read_heads(group) || !read_types(group) || !assume_end(group->store, &group->end))
        return false;
    group->assumed = group->end;
    return true;
}

/* --- comparing -------------------------------------------------------------------------------- */

ef_status pg_assumption_send(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array streams = {0};
    ef_status st;

    for (size_t i = 0; i < group->stream_count; i++)
        ef__pg_array_int(&streams, group->heads[i].id);
    st = pj_send_stream_lock_known(conn, &streams, err);
    /* the server works while events are sealed */
    return st == EF_OK ? ef__pg_sync(conn, err) : st;
}

ef_status pg_assumption_send_guess(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_sequencer_guess guess = {.since = ef__buf_str(&group->since.snapshot),
                                       .high = group->since.high,
                                       .position = group->assumed.position,
                                       .hash = {(const char *)group->assumed.hash, EF_HASH_BYTES},
                                       .partitions = group->assumed.partitions};

    ef__pg_watch(conn, PJ_SEQUENCER_GUESS, &group->guessed);
    return pj_send_sequencer_guess(conn, &guess, err);
}

/* --- recording ------------------------------------------------------------------------------ */

void pg_assumption_record(const pg_append_group *group)
{
    pg_assumption *assumption = &group->store->assumption;
    bool fresh;

    for (size_t i = 0; i < group->stream_count; i++) {
        pg_assumed_head *place =
            ef__pair_map_at(&assumption->streams, group->streams[i].a, group->streams[i].b, &fresh);
        if (place)
            *place = (pg_assumed_head){group->heads[i].id, group->heads[i].seq};
        else
            ef__pair_map_reset(&assumption->streams); /* full: start again */
    }
    for (size_t i = 0; i < group->type_count; i++)
        if (group->types_known[i])
            (void)ef__pair_map_at(&assumption->types, (ef_str){0}, group->types[i].b, &fresh);
    assumption->known = true;
    if (group->placing != PG_UNPLACED)
        pg_end_record(group->store, &group->end);
    if (group->is_assumed && assumption->pause_next)
        assumption->pause_next--;
}

void pg_assumption_clear(pg_assumption *assumption)
{
    assumption->known = false;
    ef__pair_map_reset(&assumption->streams);
    ef__pair_map_reset(&assumption->types);
}

void pg_assumption_failed(pg_assumption *assumption)
{
    int32_t twice = assumption->pause_next * 2 + 1;

    pg_assumption_clear(assumption);
    assumption->pause = assumption->pause_next = twice < PAUSE_MAX ? twice : PAUSE_MAX;
}
