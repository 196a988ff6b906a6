/*
 * cmd_backup_verify.c - everfold backup verify DIR
 */
#include "backup.h"
#include "commands.h"

#include <inttypes.h>

/* Recomputes the hash of every event and compares the head with the manifest. */
static ef_status verify_journal(cli *c, const char *directory, const backup *b,
                                ef_verify_result *out, ef_error *err)
{
    ef_journal *journal = NULL;
    cli_progress progress;
    ef_status st = backup_journal_open(c, directory, &journal, err);

    cli_progress_begin(&progress, c, "verifying", "events", false);
    if (st == EF_OK)
        st = ef_journal_verify(journal, 0, cli_progress_step, &progress, out, err);
    if (st == EF_OK && out->head != b->position)
        st = ef_fail_numbers(err, EF_DAMAGED, b->position, out->head,
                             "backup damaged: its journal ends at position %" PRId64
                             ", its manifest says "
                             "%" PRId64,
                             out->head, b->position);
    cli_progress_end(&progress);
    backup_journal_close(directory, journal);
    return st;
}

static int run_verify(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    backup b;
    ef_verify_result verified = {0};
    ef_status st;

    cli_stop_on_signals();
    st = backup_check(&b, c, c->arguments[0], &err);
    if (st == EF_OK && !cli_stopped())
        st = verify_journal(c, c->arguments[0], &b, &verified, &err);
    if (cli_stopped())
        return cli_stopped_exit();
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE)
        ef__buf_printf(&c->out,
                       "%s is intact: %zu files of %s, %" PRId64 " events up to position "
                       "%" PRId64 "\n",
                       c->arguments[0], b.count, b.created_at, verified.checked, b.position);
    else
        ef__buf_printf(&c->out,
                       "{\"created_at\":\"%s\",\"files\":%zu,\"events\":%" PRId64
                       ",\"position\":%" PRId64 ",\"hash\":\"%s\"}\n",
                       b.created_at, b.count, verified.checked, b.position, b.hash);
    return 0;
}

const cli_command cli_cmd_backup_verify = {
    .name = "backup verify",
    .summary = "verify a backup: size and hash of every file, and the hash chain of the journal",
    .arguments = CLI_ARGUMENTS({"DIR", false, false, "@dir", "a directory that `backup` wrote"}),
    .more = "The exit code is 3 if the backup is incomplete and 6 if it is damaged.",
    .example = "everfold backup verify backup-1",
    .run = run_verify,
    .local = true,
};
