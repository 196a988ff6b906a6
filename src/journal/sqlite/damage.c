/*
 * damage.c - the record of damage that was found, in the head file (head.h).
 */
#include "ops.h"
#include "store.h"

#include "../../base/utf8.h"

#include <string.h>

ef_status sq_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_writer *w = &store->writer;
    ef_status st = EF_OK;

    if (!damage)
        return sq_headfile_set_damage(&w->head, store->path, &(sq_damage){0}, err);
    /* If the file was moved or replaced, this process still reads the old one: its damage must not
     * be recorded in the head file of the new one. */
    if (w->guard.fd >= 0)
        st = ef__sq_guard_check(&w->guard, err);
    return st == EF_OK
               ? sq_headfile_set_damage(&w->head, store->path, &(sq_damage){.damage = *damage}, err)
               : st;
}

ef_status sq_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    sq_damage found;

    (void)err;
    sq_headfile_damage(&sq_store_of(journal)->writer.head, &found);
    *out = found.damage;
    return EF_OK;
}

void sq_damage_record(sq_headfile *head, const char *path, const ef_journal_options *options,
                      bool at_open, const ef_error *err)
{
    sq_damage damage = {.damage = {.found_us = options->clock->wall_us(options->clock->context)},
                        .at_open = at_open};
    ef_str text =
        ef__utf8_cut(ef_str_from(err && err->text[0] ? err->text : ef_status_message(EF_DAMAGED)),
                     sizeof damage.damage.text - 1);

    if (options->archive ||
        (head->fd < 0 && sq_headfile_open(head, path, false, true, NULL) != EF_OK))
        return;
    memcpy(damage.damage.text, text.ptr, text.len);
    (void)sq_headfile_set_damage(head, path, &damage, NULL);
}
