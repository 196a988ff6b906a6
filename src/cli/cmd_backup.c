/*
 * cmd_backup.c - everfold backup DIR, and verify DIR
 *
 * Views are copied first, then the journal, so every event in the copied views is in the copied
 * journal. Events that were applied between the two copies are missing in the copied views; workers
 * apply them after a restore.
 */
#include "backup.h"

#include "../base/hash.h"

#include <everfold/version.h>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static ef_status make_directory(const char *directory, bool *out_made, ef_error *err)
{
    *out_made = mkdir(directory, 0700) == 0;
    if (*out_made || errno == EEXIST)
        return EF_OK;
    return ef_fail(err, EF_IO, "%s could not be created: %s", directory, strerror(errno));
}

static ef_status back_up_views(cli *c, const char *directory, backup *b, ef_error *err)
{
    bool folder = strncmp(c->views_url, "lmdb:", 5) == 0;
    char path[BACKUP_PATH_MAX];
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "views", "bytes", true);
    ef_status st;

    backup_path(directory, folder ? BACKUP_VIEWS_FOLDER : BACKUP_VIEWS, path);
    st = ef_engine_backup_views(
        c->engine,
        &(ef_backup_options){.path = path, .progress = cli_progress_step, .context = &progress},
        err);
    if (st == EF_OK && folder)
        st = backup_sync_directory(path, err);
    return st == EF_OK ? backup_add(b, directory, folder ? BACKUP_VIEWS_LMDB : BACKUP_VIEWS, err)
                       : st;
}

static ef_status back_up_journal(cli *c, const char *directory, backup *b, ef_error *err)
{
    char path[BACKUP_PATH_MAX];
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "journal", "bytes", true);
    ef_head head;
    ef_status st;

    backup_path(directory, BACKUP_JOURNAL, path);
    st = ef_journal_backup(
        c->journal,
        &(ef_backup_options){.path = path, .progress = cli_progress_step, .context = &progress},
        &head, err);
    if (st == EF_OK)
        st = backup_add(b, directory, BACKUP_JOURNAL, err);
    if (st == EF_OK)
        st = backup_add(b, directory, BACKUP_HEAD, err);
    if (st == EF_OK) {
        b->position = head.position;
        ef__hex(head.hash, EF_HASH_BYTES, b->hash);
    }
    return st;
}

/* Copies a file of the data directory if it exists. */
static ef_status back_up_file(const char *from, const char *directory, const char *name, backup *b,
                              ef_error *err)
{
    char to[BACKUP_PATH_MAX];
    bool found = false;
    ef_status st;

    backup_path(directory, name, to);
    st = backup_copy_file(from, to, &found, err);
    return st == EF_OK && found ? backup_add(b, directory, name, err) : st;
}

static ef_status back_up_settings(cli *c, const char *directory, backup *b, ef_error *err)
{
    ef_status st = EF_OK;

    if (c->settings_file[0])
        st = back_up_file(c->settings_file, directory, BACKUP_SETTINGS, b, err);
    return st == EF_OK && cli_has(c, "tokens")
               ? back_up_file(c->tokens_file, directory, BACKUP_TOKENS, b, err)
               : st;
}

static ef_status fill_manifest(cli *c, backup *b, ef_error *err)
{
    ef_store_facts facts;
    ef_status st = ef_journal_facts(c->journal, &facts, err);

    if (st != EF_OK)
        return st;
    *b = (backup){.schema = facts.schema};
    (void)snprintf(b->version, sizeof(b->version), "%s", ef_version());
    (void)snprintf(b->journal_id, sizeof(b->journal_id), "%s", facts.journal_id);
    ef_time_format(cli_wall_us(), b->created_at);
    return EF_OK;
}

static ef_status back_up(cli *c, const char *directory, backup *b, ef_error *err)
{
    ef_status st = fill_manifest(c, b, err);

    if (st == EF_OK && c->engine)
        st = back_up_views(c, directory, b, err);
    if (st == EF_OK)
        st = back_up_journal(c, directory, b, err);
    if (st == EF_OK)
        st = back_up_settings(c, directory, b, err);
    return st == EF_OK ? backup_write(b, directory, err) : st;
}

/* Removes the files of a failed backup. The directory was empty, or was created by this run. */
static void remove_partial_backup(const char *directory, bool made)
{
    char path[BACKUP_PATH_MAX];

    for (size_t i = 0; i <= BACKUP_NAMES; i++) {
        backup_path(directory, i < BACKUP_NAMES ? backup_names[i] : "backup.json.new", path);
        (void)unlink(path);
    }
    backup_path(directory, BACKUP_VIEWS_FOLDER, path);
    (void)rmdir(path);
    if (made)
        (void)rmdir(directory);
}

static void write_result(cli *c, const char *directory, const backup *b)
{
    int64_t bytes = 0;
    char size[32];

    for (size_t i = 0; i < b->count; i++)
        bytes += b->files[i].bytes;
    cli_bytes_format(bytes, size);
    if (c->format == CLI_TABLE)
        ef__buf_printf(&c->out, "%s: %s, journal up to position %" PRId64 ", views: %s\n",
                       directory, size, b->position, c->engine ? "yes" : "no");
    else
        ef__buf_printf(&c->out,
                       "{\"bytes\":%" PRId64 ",\"position\":%" PRId64
                       ",\"hash\":\"%s\",\"views\":%s}\n",
                       bytes, b->position, b->hash, c->engine ? "true" : "false");
}

static const char *unsupported_hint(const cli *c, ef_status st)
{
    if (st != EF_UNSUPPORTED)
        return NULL;
    return cli_url_on_server(c->journal_url) || strncmp(c->journal_url, "nats:", 5) == 0
               ? "see \"Backup and restore\" in docs/reference/postgres.md: pg_dump or "
                 "pg_basebackup"
               : "--no-views backs up the journal only; views can be rebuilt from it";
}

static ef_status check_backup(cli *c, ef_error *err)
{
    return backup_need_empty(c->arguments[0], err);
}

static ef_status run_backup(cli *c, ef_error *err)
{
    const char *directory = c->arguments[0];
    backup b = {0};
    bool made = false;
    ef_status st = cli_need(c, cli_has(c, "no-views") ? CLI_JOURNAL_READ : CLI_ENGINE_READ, err);

    if (st != EF_OK)
        return st;
    cli_stop_on_signals();
    st = make_directory(directory, &made, err);
    if (st == EF_OK)
        st = back_up(c, directory, &b, err);
    if (st == EF_OK) {
        write_result(c, directory, &b);
        return EF_OK;
    }
    remove_partial_backup(directory, made);
    if (unsupported_hint(c, st))
        cli_hint(c, "%s", unsupported_hint(c, st));
    c->exit_code = cli_stopped() ? cli_stopped_exit() : 0;
    return st;
}

const cli_command cli_cmd_backup = {
    .name = "backup",
    .summary = "copy journal, views and settings to a directory, online",
    .options =
        CLI_OPTIONS(CLI_FLAG("tokens", "include the file with the API tokens"),
                    CLI_FLAG("no-views", "back up the journal only; views can be rebuilt from it")),
    .arguments = CLI_ARGUMENTS(
        CLI_ARGUMENT("DIR", "a directory that is empty or does not exist", .words = "@dir")),
    .more = "The copy is consistent: every event in its views is in its journal. Appends and\n"
            "workers continue during the backup. backup.json is written last and lists size and\n"
            "SHA-256 of every file; a directory without it is not a complete backup. Stores on\n"
            "PostgreSQL are backed up with pg_dump or pg_basebackup.",
    .example = "everfold backup backup-1",
    .check = check_backup,
    .call = run_backup,
    .local = true,
};

/* Recomputes the hash of every event and compares the head with the manifest. */
static ef_status verify_journal(cli *c, const char *directory, const backup *b,
                                ef_verify_result *out, ef_error *err)
{
    ef_journal *journal = NULL;
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "verifying", "events", false);
    ef_status st = backup_archive_open(c, directory, &journal, err);

    if (st == EF_OK)
        st = ef_journal_verify(journal, 0, cli_progress_step, &progress, out, err);
    if (st == EF_OK && out->head != b->position)
        st = ef_fail_numbers(err, EF_DAMAGED, b->position, out->head,
                             "backup damaged: its journal ends at position %" PRId64
                             ", its manifest says "
                             "%" PRId64,
                             out->head, b->position);
    backup_archive_close(directory, journal);
    return st;
}

static ef_status run_verify(cli *c, ef_error *err)
{
    backup b;
    ef_verify_result verified = {0};
    ef_status st;

    cli_stop_on_signals();
    st = backup_check(&b, c, c->arguments[0], err);
    if (st == EF_OK && !cli_stopped())
        st = verify_journal(c, c->arguments[0], &b, &verified, err);
    c->exit_code = cli_stopped() ? cli_stopped_exit() : 0;
    if (st != EF_OK || cli_stopped())
        return cli_stopped() ? EF_OK : st;
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
    return EF_OK;
}

const cli_command cli_cmd_backup_verify = {
    .name = "backup verify",
    .summary = "verify a backup: size and hash of every file, and the hash chain of the journal",
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("DIR", "a directory that `backup` wrote", .words = "@dir")),
    .more = "The exit code is 3 if the backup is incomplete and 6 if it is damaged.",
    .example = "everfold backup verify backup-1",
    .call = run_verify,
    .local = true,
};
