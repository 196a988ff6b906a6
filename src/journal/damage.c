/*
 * damage.c - a journal that was found damaged takes no more events.
 *
 * none -> noting -> known. Known is final for this handle: the way out is another store. Reads go
 * on, because what is not damaged is still right.
 */
#include "front_priv.h"

#include "../base/logger.h"
#include "../base/utf8.h"

#include <string.h>

enum { NONE, NOTING, KNOWN };

ef_status ef__damage_note(ef_journal *journal, ef_status st, const ef_error *err)
{
    ef_str text;
    int none = NONE;

    if (st != EF_DAMAGED ||
        !atomic_compare_exchange_strong(&journal->damage.state, &none, (int)NOTING))
        return st;
    text = ef__utf8_cut(ef_str_from(err ? err->text : ef_status_words(st)),
                        sizeof journal->damage.text - 1);
    memcpy(journal->damage.text, text.ptr, text.len); /* what follows is NUL already */
    atomic_store(&journal->damage.state, (int)KNOWN);
    ef__log(journal->options.log, EF_LOG_ERROR, "the journal is damaged; appends are refused",
            EF_LOG_TEXT_FIELD("journal", ef_str_from(journal->shown)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(journal->damage.text)));
    return st;
}

bool ef__damage_known(const ef_journal *journal)
{
    return atomic_load_explicit(&journal->damage.state, memory_order_acquire) == KNOWN;
}

ef_status ef__damage_refuse(const ef_journal *journal, ef_error *err)
{
    if (!ef__damage_known(journal))
        return EF_OK;
    return ef_fail(err, EF_DAMAGED,
                   "%s is damaged, and nothing is appended to it: %s; restore a backup and open "
                   "the journal again",
                   journal->shown, journal->damage.text);
}
