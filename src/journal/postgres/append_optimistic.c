/*
 * append_optimistic.c - see append.h: an append that assumes the state which the previous one left.
 *
 * While only one handle appends, the log and its streams are where it left them, and looking that
 * up costs a round trip. So it is compared instead: streams by the statement that moves them, the
 * end of the log by its position and hash under the sequencer lock. The hash is that of a chain, so
 * the whole log before it is unchanged.
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

static bool assume_end(const pg_store *store, pg_end *end)
{
    const pg_assumption *assumption = &store->assumption;
    const ef_clock *clock = store->given_clock ? store->base.options.clock : ef_clock_system();
    int64_t now_us = clock->wall_us(clock->context), age_us;

    if (!store->given_clock) {
        age_us = clock->mono_us(clock->context) - assumption->clock_read_us;
        if (age_us > ASSUME_CLOCK_US)
            return false;
        now_us = assumption->clock_us + age_us;
    }
    *end =
        (pg_end){.position = assumption->position,
                 .recorded_us = now_us > assumption->recorded_us ? now_us : assumption->recorded_us,
                 .partitions = assumption->partitions,
                 .clock_us = assumption->clock_us,
                 .clock_read_us = assumption->clock_read_us,
                 .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    memcpy(end->hash, assumption->hash, sizeof end->hash);
    return true;
}

static bool read_heads(pg_append_group *group)
{
    for (size_t i = 0; i < group->stream_count; i++) {
        const pg_assumed_head *place = ef__pair_map_find(&group->store->assumption.streams,
                                                         group->streams[i].a, group->streams[i].b);
        if (!place)
            return false;
        group->heads[i].id = place->id;
        group->heads[i].seq = group->heads[i].written = place->seq;
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
    return read_heads(group) && read_types(group) && assume_end(group->store, &group->end);
}

/* --- comparing -------------------------------------------------------------------------------- */

static ef_status send_move(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_stream_move move = {0};

    for (size_t i = 0; i < group->stream_count; i++) {
        ef__pg_array_int(&move.streams, group->heads[i].id);
        ef__pg_array_int(&move.assumed, group->heads[i].written);
        ef__pg_array_int(&move.seqs, group->heads[i].seq);
    }
    return pj_send_stream_move(conn, &move, err);
}

ef_status pg_assumption_send(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    const pg_end *end = &group->end;
    ef_status st = send_move(group, conn, err);

    if (st == EF_OK)
        st = pj_send_sequencer_lock(conn, group->store->base.options.busy_ms, err);
    if (st == EF_OK)
        st = pj_send_sequencer_guess(
            conn,
            &(struct pj_sequencer_guess){.position = end->position,
                                         .hash = {(const char *)end->hash, sizeof end->hash},
                                         .partitions = end->partitions},
            err);
    /* the server works while events are sealed */
    return st == EF_OK ? ef__pg_flush(conn, err) : st;
}

/* --- recording ------------------------------------------------------------------------------ */

/* If another process has appended since, the heads of all other streams are unknown. */
static void record_heads(const pg_append_group *group, pg_assumption *assumption)
{
    bool fresh;

    if (group->accepted[0].position - 1 != assumption->position)
        ef__pair_map_reset(&assumption->streams);
    for (size_t i = 0; i < group->stream_count; i++) {
        pg_assumed_head *place =
            ef__pair_map_at(&assumption->streams, group->streams[i].a, group->streams[i].b, &fresh);
        if (place)
            *place = (pg_assumed_head){group->heads[i].id, group->heads[i].seq};
        else
            ef__pair_map_reset(&assumption->streams); /* full: start again */
    }
    for (size_t i = 0; i < group->type_count; i++)
        if (group->types_known[i] || group->types_new[i])
            (void)ef__pair_map_at(&assumption->types, (ef_str){0}, group->types[i].b, &fresh);
}

void pg_assumption_record(const pg_append_group *group)
{
    pg_assumption *assumption = &group->store->assumption;

    record_heads(group, assumption);
    assumption->known = true;
    assumption->position = group->end.position;
    assumption->recorded_us = group->end.recorded_us;
    memcpy(assumption->hash, group->end.hash, sizeof assumption->hash);
    assumption->partitions = group->end.partitions;
    assumption->clock_us = group->end.clock_us;
    assumption->clock_read_us = group->end.clock_read_us;
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
