/*
 * front_priv.h - the checks that the files of the front share.
 *
 * The front is the door of the journal: every public function checks its arguments here, fills in
 * defaults and makes the answer's list ready, and only then calls the back end.
 */
#ifndef EF_JOURNAL_FRONT_PRIV_H
#define EF_JOURNAL_FRONT_PRIV_H

#include "journal.h"

#include "../base/limits.h"

/* Microseconds of 9999-12-31T23:59:59.999999Z. */
#define EF__TIME_US_MAX INT64_C(253402300799999999)
#define EF__LIMIT_DEFAULT 100 /* rows of a list when the caller names no limit */

/* Why a call cannot go on: EF_OK, or the failure that has been written to `err`. */
ef_status ef__need_journal(const ef_journal *journal, ef_error *err);
/* The same, and not opened read-only. `call` is the public name, for the message. */
ef_status ef__need_writable(const ef_journal *journal, const char *call, ef_error *err);
ef_status ef__need(const void *argument, const char *what, ef_error *err);
/* 0 becomes the default; more than EF_LIMIT_LIST_ROWS is refused. */
ef_status ef__limit_take(size_t *limit, ef_error *err);
ef_status ef__range_check(const char *what, int64_t value, int64_t min, int64_t max, ef_error *err);
/* Words of a person or a handler: UTF-8 without NUL, of at most `max_bytes`. */
ef_status ef__words_check(const char *what, ef_str text, size_t max_bytes, ef_error *err);
/* An ef_str with bytes but no pointer is a slip of the caller's that would crash further in. */
ef_status ef__str_check(const char *what, ef_str text, ef_error *err);
ef_status ef__name_take(const char *what, ef_str name, size_t min_bytes, bool no_space,
                        ef_error *err);

/* damage.c. Pass `st` on; EF_DAMAGED is noted, and appends are refused from then on. */
ef_status ef__damage_note(ef_journal *journal, ef_status st, const ef_error *err);
bool ef__damage_known(const ef_journal *journal);
/* EF_OK, or EF_DAMAGED with the journal, the damage and the way out. */
ef_status ef__damage_refuse(const ef_journal *journal, ef_error *err);

/* front_rows.c: does the query ask for more than back ends look at, can it be meant, what fits. */
ef_status ef__picks_check(const ef_outbox_query *query, ef_error *err);
bool ef__query_picks(const ef_outbox_query *query);
ef_status ef__rows_pick(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                        ef_error *err);

/* Pass `st` on; when an act has come about that no append tells of, workers are told. */
ef_status ef__told(ef_journal *journal, ef_status st);

/* Empty an answer and make its room ready. Works on every list that has items, count and room. */
#define EF__LIST_READY(list, err)                                                                  \
    ((list)->items = NULL, (list)->count = 0, ef__room_ready(&(list)->room, (err)))
/* A call that failed shows nothing. */
#define EF__LIST_ANSWER(list, st)                                                                  \
    ((st) == EF_OK ? (st) : ((list)->items = NULL, (list)->count = 0, (st)))
#define EF__LIST_RELEASE(list)                                                                     \
    do {                                                                                           \
        if (list) {                                                                                \
            (list)->items = NULL;                                                                  \
            (list)->count = 0;                                                                     \
            ef__room_release(&(list)->room);                                                       \
        }                                                                                          \
    } while (0)

/* Room for an id that was made for an event, beside the event. */
typedef struct ef__made_id {
    char text[EF_EVENT_ID_TEXT_MAX];
} ef__made_id;

/*
 * Check `events` and make arrivals of them: defaults filled in, ids made (into `ids`). `arrivals`
 * and `ids` have room for `count`. An id that was made goes to the caller's place by ef__ids_give
 * once the append has succeeded; back ends write seq, position and duplicate and leave `id` alone.
 */
ef_status ef__arrivals_make(const ef_new_event *events, size_t count, int64_t now_us,
                            ef__arrival *arrivals, ef__made_id *ids, ef_error *err);
void ef__ids_give(const ef__arrival *arrivals, const ef__made_id *ids, size_t count,
                  ef_place *places);

#endif
