/*
 * backup.c - the public API for backups, and for journals that are copies.
 */
#include "front_priv.h"

ef_status ef_journal_backup(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                            ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(options, "options", err);
    if (st == EF_OK)
        st = ef__need(options->path, "path", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st != EF_OK)
        return st;
    *out = (ef_head){0};
    if (!journal->store->backup)
        return ef_fail(err, EF_UNSUPPORTED,
                       "a journal on %s cannot be copied to a file: use the backup of that store",
                       journal->store->name);
    return journal->store->backup(journal,
                                  &(ef__journal_backup){.path = options->path,
                                                        .progress = options->progress,
                                                        .context = options->context},
                                  out, err);
}

ef_status ef_journal_copied(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out_us, "out_us", err);
    if (st != EF_OK)
        return st;
    *out_us = 0;
    return journal->store->copied_get ? journal->store->copied_get(journal, out_us, err) : EF_OK;
}

ef_status ef_journal_adopt(ef_journal *journal, ef_str actor, ef_str reason, ef_error *err)
{
    int64_t copied_us = 0;
    ef_status st = ef__need_writable(journal, "ef_journal_adopt", err);

    if (st == EF_OK)
        st = ef_journal_copied(journal, &copied_us, err);
    if (st == EF_OK && copied_us == 0)
        return ef_fail(err, EF_EXISTS, "the journal is not a copy: its publishers send already");
    if (st == EF_OK && actor.len > 0)
        st = ef_audit_add(
            journal, &(ef_audit_entry){.action = EF_STR("adopt"), .actor = actor, .reason = reason},
            err);
    if (st == EF_OK)
        st = journal->store->adopt(journal, err);
    return ef__wake_on_success(journal, st);
}
