/*
 * A journal that is read remembers the names of streams, and not of all there are.
 */
#include "contract.h"

#include "../../src/journal/sqlite/store.h"

#include <stdio.h>

enum { STREAMS = 500, PAGE = 20, KEPT = 50 };

static void append_streams(contract *t)
{
    static char names[STREAMS][16];
    static ef_new_event events[STREAMS];
    static ef_place places[STREAMS];

    for (size_t i = 0; i < STREAMS; i++) {
        (void)snprintf(names[i], sizeof names[i], "s-%zu", i);
        events[i] = event_of(names[i], "ticked");
    }
    OK(ef_journal_append(t->journal, events, STREAMS, places, &t->err));
}

CONTRACT(reading_every_stream_keeps_only_some_in_memory)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;
    size_t seen = 0, most = 0;

    append_streams(t);
    t->options.read_only = true; /* without a writer, only the reader can evict streams */
    reopen(t);
    sq_state *picture = &((sq_store *)t->journal)->state;
    picture->streams_max = KEPT;
    for (int64_t after = 0; after < STREAMS; after += PAGE) {
        OK(ef_journal_read_log(t->journal, &(ef_log_query){.after = after, .limit = PAGE}, &batch,
                               &t->err));
        for (size_t i = 0; i < batch.count; i++, seen++) {
            char name[16];
            (void)snprintf(name, sizeof name, "s-%zu", seen);
            CHECK(ef_str_equal(batch.events[i].stream, str(name)));
        }
        most = picture->stream_count > most ? picture->stream_count : most;
    }
    EF_RELEASE(&batch);
    CHECK_INT(STREAMS, seen);
    CHECK(most > KEPT); /* they are remembered … */
    CHECK(most <= KEPT + PAGE);
}

CONTRACT_MAIN(CASE(reading_every_stream_keeps_only_some_in_memory))
