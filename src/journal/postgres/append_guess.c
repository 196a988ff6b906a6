/*
 * append_guess.c - see append.h: what the append before has left, guessed to be there still.
 *
 * A handle that appends alone finds the log and its streams where it left them, and asking for that
 * is a trip of its own. So it is not asked for but compared: streams by the statement that moves
 * them, the end of the log by its position and hash once the sequencer's lock is ours. The hash is
 * one of a chain, so the whole log before it is as it was left.
 *
 * Of the server's clock no more than a second is guessed: the time an event was recorded at is the
 * server's, and never falls.
 */
#include "append.h"

#include "../../base/limits.h"

#define GUESS_FOR_US 1000000
#define GUESS_BYTES (8 << 20) /* streams beyond that are looked up: some 80,000 */
#define GUESS_TYPES_BYTES (1 << 20)
#define PAUSE_MAX 1023 /* looks between two guesses where others append all the time */

typedef struct pg_place_guess {
    int64_t id, seq;
} pg_place_guess;

void pg_guess_init(pg_guess *guess)
{
    *guess = (pg_guess){.streams = EF__PAIR_MAP_INIT(pg_place_guess, GUESS_BYTES),
                        .types = EF__PAIR_MAP_INIT(bool, GUESS_TYPES_BYTES)};
}

void pg_guess_release(pg_guess *guess)
{
    ef__pair_map_release(&guess->streams);
    ef__pair_map_release(&guess->types);
}

/* --- taking ----------------------------------------------------------------------------------- */

static bool take_end(const pg_store *store, pg_end *end)
{
    const pg_guess *guess = &store->guess;
    const ef_clock *clock = store->given_clock ? store->base.options.clock : ef_clock_system();
    int64_t now_us = clock->wall_us(clock->context), age_us;

    if (!store->given_clock) {
        age_us = clock->mono_us(clock->context) - guess->heard_us;
        if (age_us > GUESS_FOR_US)
            return false;
        now_us = guess->clock_us + age_us;
    }
    *end = (pg_end){.position = guess->position,
                    .recorded_us = now_us > guess->recorded_us ? now_us : guess->recorded_us,
                    .partitions = guess->partitions,
                    .clock_us = guess->clock_us,
                    .heard_us = guess->heard_us,
                    .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    memcpy(end->hash, guess->hash, sizeof end->hash);
    return true;
}

static bool take_heads(group *g)
{
    for (size_t i = 0; i < g->stream_count; i++) {
        const pg_place_guess *place =
            ef__pair_map_find(&g->store->guess.streams, g->streams[i].a, g->streams[i].b);
        if (!place)
            return false;
        g->heads[i].id = place->id;
        g->heads[i].seq = g->heads[i].written = place->seq;
    }
    return true;
}

static bool take_types(group *g)
{
    for (size_t i = 0; i < g->type_count; i++) {
        if (!ef__pair_map_find(&g->store->guess.types, (ef_str){0}, g->types[i].b))
            return false;
        g->types_known[i] = true;
    }
    return true;
}

bool pg_guess_take(group *g)
{
    pg_guess *guess = &g->store->guess;

    /* Ids that were given are looked up, and may be somebody's whom we would have to wait for. */
    if (!guess->known || g->id_count)
        return false;
    if (guess->pause) {
        guess->pause--;
        return false;
    }
    return take_heads(g) && take_types(g) && take_end(g->store, &g->end);
}

/* --- comparing -------------------------------------------------------------------------------- */

static ef_status send_move(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array streams, guessed, seqs;
    ef_status st;

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&guessed, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->stream_count; i++) {
        ef__pg_array_int(&streams, g->heads[i].id);
        ef__pg_array_int(&guessed, g->heads[i].written);
        ef__pg_array_int(&seqs, g->heads[i].seq);
    }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &guessed);
    ef__pg_add_array(&params, &seqs);
    st = ef__pg_send(conn, PJ_STREAM_MOVE, &params, err);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&guessed);
    ef__pg_array_release(&seqs);
    return st;
}

ef_status pg_guess_send(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st = send_move(g, conn, err);

    if (st == EF_OK)
        st = pg_sequencer_lock(g->store, conn, err);
    ef__pg_add_int(&params, g->end.position);
    ef__pg_add_bytes(&params, (ef_str){(const char *)g->end.hash, sizeof g->end.hash});
    ef__pg_add_int(&params, g->end.partitions);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_SEQUENCER_GUESS, &params, err);
    return st == EF_OK ? ef__pg_flush(conn, err) : st; /* events are sealed meanwhile */
}

/* --- remembering ------------------------------------------------------------------------------ */

/* Streams of which somebody else may have written are not kept. */
static void keep_places(const group *g, pg_guess *guess)
{
    bool fresh;

    if (g->accepted[0].position - 1 != guess->position)
        ef__pair_map_reset(&guess->streams);
    for (size_t i = 0; i < g->stream_count; i++) {
        pg_place_guess *place =
            ef__pair_map_at(&guess->streams, g->streams[i].a, g->streams[i].b, &fresh);
        if (place)
            *place = (pg_place_guess){g->heads[i].id, g->heads[i].seq};
        else
            ef__pair_map_reset(&guess->streams); /* full: those of now are asked for again */
    }
    for (size_t i = 0; i < g->type_count; i++)
        if (g->types_known[i] || g->types_new[i])
            (void)ef__pair_map_at(&guess->types, (ef_str){0}, g->types[i].b, &fresh);
}

void pg_guess_keep(const group *g)
{
    pg_guess *guess = &g->store->guess;

    keep_places(g, guess);
    guess->known = true;
    guess->position = g->end.position;
    guess->recorded_us = g->end.recorded_us;
    memcpy(guess->hash, g->end.hash, sizeof guess->hash);
    guess->partitions = g->end.partitions;
    guess->clock_us = g->end.clock_us;
    guess->heard_us = g->end.heard_us;
    if (g->guessed && guess->pause_next)
        guess->pause_next--;
}

void pg_guess_forget(pg_guess *guess)
{
    guess->known = false;
    ef__pair_map_reset(&guess->streams);
    ef__pair_map_reset(&guess->types);
}

void pg_guess_missed(pg_guess *guess)
{
    int32_t twice = guess->pause_next * 2 + 1;

    pg_guess_forget(guess);
    guess->pause = guess->pause_next = twice < PAUSE_MAX ? twice : PAUSE_MAX;
}
