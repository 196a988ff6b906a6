/*
 * front_priv.h - the checks that the files of the public API (front_*.c) share.
 *
 * Every public function of the journal checks its arguments, fills in defaults and prepares the
 * result list, and only then calls the back end.
 */
#pragma once

#include "journal.h"

#include "../base/auto.h"
#include "../base/limits.h"

/* Microseconds of 9999-12-31T23:59:59.999999Z. */
#define EF__TIME_US_MAX INT64_C(253402300799999999)
#define EF__LIMIT_DEFAULT 100 /* of a list when the caller sets no limit: a screenful or two */

/* Checks return EF_OK, or a failure with its message in `err`. */
ef_status ef__need_journal(const ef_journal *journal, ef_error *err);
/* The same, and not opened read-only. `call` is the public name, for the message. */
ef_status ef__need_writable(const ef_journal *journal, const char *call, ef_error *err);
ef_status ef__need(const void *argument, const char *what, ef_error *err);
/* 0 becomes the default; more than EF_LIMIT_LIST_ROWS is refused. */
ef_status ef__limit_resolve(size_t *limit, ef_error *err);
ef_status ef__range_check(const char *what, int64_t value, int64_t min, int64_t max, ef_error *err);
/* Free text: UTF-8 without NUL, of at most `max_bytes`. */
ef_status ef__text_check(const char *what, ef_str text, size_t max_bytes, ef_error *err);
/* An ef_str with a length and without a pointer is a bug of the caller that would crash later. */
ef_status ef__str_check(const char *what, ef_str text, ef_error *err);
ef_status ef__name_parse(const char *what, ef_str name, size_t min_bytes, bool no_space,
                         ef_error *err);

/* damage.c. Pass `st` on; EF_DAMAGED is recorded, and appends are refused from then on. */
ef_status ef__damage_note(ef_journal *journal, ef_status st, const ef_error *err);
/* Damage that this handle or the store knows of; false: none. */
bool ef__damage_find(ef_journal *journal, ef__damage *out);
/* EF_OK, or EF_DAMAGED with the journal, the damage and the way out. A journal that is REMOTE
 * decides by itself whether an append is refused, unless this handle alone knows of the damage. */
ef_status ef__damage_refuse(ef_journal *journal, ef_error *err);

/* front_rows.c: filters beyond lane, tenant and status, which back ends do not apply. */
ef_status ef__row_filters_check(const ef_outbox_query *query, ef_error *err);
bool ef__query_has_filters(const ef_outbox_query *query);
/* Copies a row with its texts into `arena`. */
ef_status ef__row_copy(const ef_row *row, ef__arena *arena, ef_row *out, ef_error *err);
/* front_outbox.c: empties the list and its cursor. */
ef_status ef__row_list_prepare(ef_row_list *out, ef_error *err);
ef_status ef__rows_search(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                          ef_error *err);

/* Returns `st`. After a success it wakes the workers, because no append announces this change. */
ef_status ef__wake_on_success(ef_journal *journal, ef_status st);

/* The checks of a call that lists: journal and list are not NULL, and the list is empty. */
#define EF__LIST_BEGIN(journal, list, err)                                                         \
    (!(journal) || !(list) ? ef__need(NULL, (journal) ? "out" : "journal", (err))                  \
                           : ef__list_prepare(list, err))
/* Empties the list of a failed call. */
#define EF__LIST_FINISH(list, st)                                                                  \
    ((st) == EF_OK || !(list) ? (st) : ((list)->items = NULL, (list)->count = 0, (st)))

/* The text of a generated event id. */
typedef struct ef__made_id {
    char text[EF_EVENT_ID_TEXT_MAX];
} ef__made_id;

/*
 * Checks `events` and makes arrivals of them: defaults filled in, ids generated (into `ids`).
 * `arrivals` and `ids` have space for `count`. After a successful append ef__ids_return copies the
 * generated ids to the caller's places; back ends write seq, position and duplicate, not `id`.
 */
ef_status ef__arrivals_make(const ef_new_event *events, size_t count, int64_t now_us,
                            ef__arrival *arrivals, ef__made_id *ids, ef_error *err);
void ef__ids_return(const ef__arrival *arrivals, const ef__made_id *ids, size_t count,
                    ef_place *places);
