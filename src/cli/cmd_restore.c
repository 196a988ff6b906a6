/*
 * cmd_restore.c - everfold restore DIR
 *
 * The backup is checked before anything is written. While the data directory contains the file
 * restore.incomplete, every command refuses to use it.
 */
#include "backup.h"
#include "commands.h"
#include "restore_until.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A backup of a newer Everfold is refused before anything is written; an older one is migrated by
 * the first command that writes. */
static ef_status check_schema(cli *c, const char *directory, ef_error *err)
{
    ef_journal *journal = NULL;
    ef_status st = backup_journal_open(c, directory, &journal, err);

    backup_journal_close(directory, journal);
    return st == EF_MISUSE ? EF_OK : st;
}

static ef_status set_incomplete(const char *data, bool present, ef_error *err)
{
    char path[PATH_MAX];
    ef_status st = backup_path(data, RESTORE_MARK, path, err);
    int fd;

    if (st != EF_OK)
        return st;
    if (present) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
        (void)close(fd);
    } else if (unlink(path) != 0) {
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    }
    return backup_sync_directory(data, err);
}

static ef_status copy_backup_file(const char *from_dir, const char *to_dir, const char *name,
                                  ef_error *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    ef_status st = backup_path(from_dir, name, from, err);

    if (st == EF_OK)
        st = backup_path(to_dir, name, to, err);
    return st == EF_OK ? backup_copy_file(from, to, NULL, err) : st;
}

static ef_status make_directory(const char *data, const char *name, ef_error *err)
{
    char path[PATH_MAX];
    ef_status st = backup_path(data, name, path, err);

    if (st == EF_OK && mkdir(path, 0700) != 0)
        st = ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    return st;
}

static ef_status copy_stores(cli *c, const backup *b, const char *from, const char *data,
                             ef_error *err)
{
    static const char *const names[] = {BACKUP_JOURNAL, BACKUP_HEAD, BACKUP_VIEWS,
                                        BACKUP_VIEWS_LMDB};
    cli_progress progress;
    int64_t done = 0, total = 0;
    ef_status st =
        backup_has(b, BACKUP_VIEWS_LMDB) ? make_directory(data, BACKUP_VIEWS_FOLDER, err) : EF_OK;

    for (size_t i = 0; i < b->count; i++)
        total += b->files[i].bytes;
    cli_progress_begin(&progress, c, "restoring", "bytes", true);
    for (size_t i = 0; st == EF_OK && i < 4; i++) {
        done += backup_bytes(b, names[i]);
        if (backup_has(b, names[i]))
            st = copy_backup_file(from, data, names[i], err);
        cli_progress_update(&progress, done, total, done);
    }
    cli_progress_end(&progress);
    return st;
}

/* --- settings --------------------------------------------------------------------------------- */

/* Settings that name stores belong to the original and are not restored. */
static bool names_store(ef_str line)
{
    static const char *const keys[] = {"journal", "views", "control", "data"};
    size_t at = 0, end;

    while (at < line.len && (line.ptr[at] == ' ' || line.ptr[at] == '\t'))
        at++;
    for (size_t i = 0; i < 4; i++) {
        end = at + strlen(keys[i]);
        if (end < line.len && memcmp(line.ptr + at, keys[i], strlen(keys[i])) == 0 &&
            (line.ptr[end] == ' ' || line.ptr[end] == '\t' || line.ptr[end] == '='))
            return true;
    }
    return false;
}

static void copy_settings_lines(ef_str text, ef__buf *out)
{
    bool in_section = false;

    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t length = end ? (size_t)(end - text.ptr) + 1 : text.len;
        ef_str line = {text.ptr, length};
        in_section = in_section || line.ptr[0] == '[';
        if (in_section || !names_store(line))
            ef__buf_add(out, line.ptr, line.len);
        text = (ef_str){text.ptr + length, text.len - length};
    }
}

static ef_status restore_settings(const backup *b, const char *from, const char *data,
                                  ef_error *err)
{
    char path[PATH_MAX], real[PATH_MAX];
    ef__buf old = EF__BUF_INIT(1024 * 1024), fresh = EF__BUF_INIT(1024 * 1024 + 2 * PATH_MAX);
    ef_status st = backup_path(from, BACKUP_SETTINGS, path, err);
    int fd = -1;

    if (backup_has(b, BACKUP_VIEWS_LMDB) && realpath(data, real))
        ef__buf_printf(&fresh, "views = \"lmdb:%s/" BACKUP_VIEWS_FOLDER "\"\n", real);
    if (st == EF_OK && backup_has(b, BACKUP_SETTINGS))
        st = cli_file_read(path, &old, err);
    if (st == EF_OK)
        copy_settings_lines(ef__buf_str(&old), &fresh);
    if (st == EF_OK && fresh.len > 0)
        st = backup_path(data, BACKUP_SETTINGS, path, err);
    if (st == EF_OK && fresh.len > 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, fresh.ptr, fresh.len) != (ssize_t)fresh.len || fsync(fd) != 0)
            st = ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    }
    if (fd >= 0)
        (void)close(fd);
    ef__buf_release(&old);
    ef__buf_release(&fresh);
    return st;
}

/* --- the command ------------------------------------------------------------------------------ */

static ef_status restore_backup(cli *c, const backup *b, const char *from, const char *data,
                                int64_t *position, ef_error *err)
{
    ef_status st = cli_data_make(c, err);

    if (st == EF_OK)
        st = set_incomplete(data, true, err);
    if (st == EF_OK && *position < b->position)
        st = cli_restore_until(c, b, from, data, *position, err);
    else if (st == EF_OK)
        st = copy_stores(c, b, from, data, err);
    if (st == EF_OK)
        st = restore_settings(b, from, data, err);
    if (st == EF_OK && backup_has(b, BACKUP_TOKENS))
        st = copy_backup_file(from, data, BACKUP_TOKENS, err);
    if (st == EF_OK)
        st = backup_sync_directory(data, err);
    return st == EF_OK ? set_incomplete(data, false, err) : st;
}

static int write_result(cli *c, const char *data, const backup *b, int64_t position)
{
    bool views = backup_has(b, BACKUP_VIEWS) || backup_has(b, BACKUP_VIEWS_LMDB);

    if (c->format == CLI_TABLE)
        ef__buf_printf(&c->out, "%s: journal up to position %" PRId64 " of %" PRId64 "\n", data,
                       position, b->position);
    else
        ef__buf_printf(&c->out, "{\"position\":%" PRId64 ",\"views\":\"%s\"}\n", position,
                       !views                   ? "none"
                       : position < b->position ? "rebuilt"
                                                : "restored");
    if (!views)
        cli_say(c, "the backup has no views: run everfold init, and deploy the programs");
    cli_say(c, "publishers of a restored journal send nothing until: everfold journal adopt");
    return 0;
}

static int run_restore(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    const char *from = c->arguments[0];
    char data[PATH_MAX];
    int64_t position = INT64_MAX;
    backup b;
    ef_status st;

    (void)snprintf(data, sizeof(data), "%.*s", EF_STR_ARG(ef__settings_text(c->settings, "data")));
    cli_stop_on_signals();
    st = backup_need_empty(data, &err);
    if (st == EF_OK)
        st = backup_check(&b, c, from, &err);
    if (st == EF_OK)
        st = check_schema(c, from, &err);
    if (st == EF_OK && cli_value(c, "until"))
        st = cli_until_find(c, from, &b, cli_value(c, "until"), &position, &err);
    else if (st == EF_OK)
        position = b.position;
    if (cli_stopped())
        return cli_stopped_exit();
    if (st == EF_OK)
        st = restore_backup(c, &b, from, data, &position, &err);
    if (st == EF_OK)
        return write_result(c, data, &b, position);
    return cli_fail(c, &err, NULL);
}

const cli_command cli_cmd_restore = {
    .name = "restore",
    .summary = "restore a backup into an empty data directory",
    .options =
        CLI_OPTIONS({"until", 0, "POSITION|TIME", NULL, NULL,
                     "restore events up to this position, or recorded up to this RFC 3339 time"}),
    .arguments = CLI_ARGUMENTS({"DIR", false, false, "@dir", "a directory that `backup` wrote"}),
    .more =
        "The backup is checked before anything is written. The data directory (--data) must be\n"
        "empty or not exist. The restored journal has no leases and no workers, so `work` can\n"
        "start at once. Its publishers send nothing until `journal adopt`.\n"
        "\n"
        "With --until the journal ends at that event, with the same positions and hashes up to\n"
        "there. Views with later events are discarded: the active version of each projection is\n"
        "deployed again, and workers rebuild its views. Publishers are kept and send what is\n"
        "appended after the restore.",
    .example = "everfold restore backup-1 --data restored",
    .run = run_restore,
    .local = true,
};
