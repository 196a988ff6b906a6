/*
 * cmd_restore.c - everfold restore DIR
 *
 * The backup is checked before anything is written. While the data directory contains the file
 * restore.incomplete, every command refuses to use it.
 *
 * Events are never deleted. Therefore --until writes a new journal with the prefix: same positions,
 * seqs, ids, times and hashes.
 *
 *     DATA/restoring/journal.db, views   copies of the backup, read only
 *     DATA/restoring/until.db            its prefix
 *     DATA/journal.db                    copy of until.db, marked as a copy
 *     DATA/views…                        new, with the programs of the backup
 */
#include "backup.h"
#include "../base/same.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK "restoring"

typedef struct rewinding {
    cli *c;
    const backup *b;
    const char *data;
    char work[BACKUP_PATH_MAX];
    ef_journal *source, *prefix;
    cli_progress progress;
} rewinding;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static ef_status make_directory(const char *data, const char *name, ef_error *err)
{
    char path[BACKUP_PATH_MAX];

    backup_path(data, name, path);
    return mkdir(path, 0700) != 0 ? backup_fail(path, err) : EF_OK;
}

static ef_status copy_file(const char *from_dir, const char *to_dir, const char *name,
                           ef_error *err)
{
    char from[BACKUP_PATH_MAX], to[BACKUP_PATH_MAX];

    backup_path(from_dir, name, from);
    backup_path(to_dir, name, to);
    return backup_copy_file(from, to, NULL, err);
}

static ef_status copy_stores(const backup *b, const char *from, const char *to,
                             cli_progress *progress, ef_error *err)
{
    int64_t done = 0, total = 0;
    ef_status st =
        backup_has(b, BACKUP_VIEWS_LMDB) ? make_directory(to, BACKUP_VIEWS_FOLDER, err) : EF_OK;

    for (size_t i = 0; i < b->count; i++)
        total += b->files[i].bytes;
    for (size_t i = 0; st == EF_OK && i < BACKUP_STORES; i++) {
        done += backup_bytes(b, backup_names[i]);
        if (backup_has(b, backup_names[i]))
            st = copy_file(from, to, backup_names[i], err);
        cli_progress_update(progress, done, total, done);
    }
    return st;
}

/* --- journal ---------------------------------------------------------------------------------- */

static ef_status copy_publishers(const rewinding *r, ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    ef_status st = ef_lane_ls(r->source, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (lanes.items[i].kind == EF_LANE_KIND_PUBLISHER)
            st = ef_lane_set(r->prefix, &lanes.items[i], err);
    return st;
}

static ef_status write_prefix(rewinding *r, int64_t position, ef_error *err)
{
    char path[BACKUP_PATH_MAX];
    ef_copy_result result;
    ef_store_facts facts;
    ef_head head;
    ef_status st = ef_journal_facts(r->source, &facts, err);

    if (st == EF_OK)
        st = backup_journal_open(
            r->c, r->work, "until.db",
            &(ef_journal_options){.create = true, .partitions = facts.partitions}, &r->prefix, err);
    if (st == EF_OK)
        st = ef_journal_copy(r->source, r->prefix,
                             &(ef_copy_options){.upto = position,
                                                .progress = cli_progress_step,
                                                .context = &r->progress},
                             &result, err);
    if (st == EF_OK && result.position < position)
        st = ef_fail(err, EF_TIMEOUT, "stopped at position %" PRId64, result.position);
    if (st == EF_OK)
        st = copy_publishers(r, err);
    backup_path(r->data, BACKUP_JOURNAL, path);
    return st == EF_OK
               ? ef_journal_backup(r->prefix, &(ef_backup_options){.path = path}, &head, err)
               : st;
}

/* --- views ------------------------------------------------------------------------------------ */

static ef_status open_views(const rewinding *r, const char *directory, bool create,
                            ef_journal *journal, ef_engine **out, ef_error *err)
{
    bool folder = backup_has(r->b, BACKUP_VIEWS_LMDB);
    char url[PATH_MAX + 32];

    (void)snprintf(url, sizeof(url), "%s:%s/%s", folder ? "lmdb" : "sqlite", directory,
                   folder ? BACKUP_VIEWS_FOLDER : BACKUP_VIEWS);
    return ef_engine_open(
        &(ef_engine_options){
            .journal = journal, .views_url = url, .create = create, .log = &r->c->log},
        out, err);
}

static ef_status deploy_programs(const rewinding *r, ef_engine *from, ef_engine *to, ef_error *err)
{
    EF__AUTO(ef_projection_list) list = {0};
    ef_status st = ef_projection_ls(from, EF_STR(""), &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        EF__AUTO(ef_projection_list) deployed = {0};
        EF__AUTO(ef_text) report = {0};
        const ef_projection *p = &list.items[i];
        if (!p->active)
            continue;
        if (p->program.len == 0)
            cli_warn(r->c, "everfold: projection %.*s is written in C: deploy it from its program",
                     EF_STR_ARG(p->name));
        else
            st =
                ef_projection_deploy(to, &(ef_deploy){.text = p->program}, &deployed, &report, err);
        if (st == EF_OK && p->skips_errors && p->program.len > 0)
            st = ef_projection_on_error(to, p->name, EF_ON_ERROR_SKIP, cli_actor(r->c),
                                        EF_STR("restore"), err);
    }
    return st;
}

static ef_status rebuild_views(const rewinding *r, ef_error *err)
{
    ef_journal *journal = NULL;
    ef_engine *old = NULL, *fresh = NULL;
    ef_status st;

    if (!backup_has(r->b, BACKUP_VIEWS) && !backup_has(r->b, BACKUP_VIEWS_LMDB))
        return EF_OK;
    st = open_views(r, r->work, false, r->source, &old, err);
    if (st == EF_OK)
        st = backup_journal_open(r->c, r->data, BACKUP_JOURNAL, &(ef_journal_options){0}, &journal,
                                 err);
    if (st == EF_OK)
        st = open_views(r, r->data, true, journal, &fresh, err);
    if (st == EF_OK)
        st = deploy_programs(r, old, fresh, err);
    ef_engine_close(old);
    ef_engine_close(fresh);
    ef_journal_close(journal);
    return st;
}

/* Writes journal and views of the backup up to `position` to the data directory. */
static ef_status restore_until(cli *c, const backup *b, const char *from, const char *data,
                               int64_t position, ef_error *err)
{
    rewinding r = {.c = c, .b = b, .data = data};
    ef_status st = make_directory(data, WORK, err);

    /* The backup is not modified, and an older one may need migrations: work on copies. */
    backup_path(data, WORK, r.work);
    if (st == EF_OK)
        st = copy_stores(b, from, r.work, &r.progress, err);
    r.progress = cli_progress_begin(c, "restoring", "events", false);
    if (st == EF_OK)
        st = backup_journal_open(c, r.work, BACKUP_JOURNAL, &(ef_journal_options){0}, &r.source,
                                 err);
    if (st == EF_OK)
        st = write_prefix(&r, position, err);
    if (st == EF_OK)
        st = rebuild_views(&r, err);
    cli_progress_end(&r.progress);
    ef_journal_close(r.prefix);
    ef_journal_close(r.source);
    if (st == EF_OK)
        remove_tree(r.work);
    return st;
}

/* --- position --------------------------------------------------------------------------------- */

static ef_status recorded_at(ef_journal *journal, int64_t position, int64_t *out_us, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_log_query query = {.any_tenant = true, .after = position - 1, .limit = 1};
    ef_status st = ef_journal_read_log(journal, &query, &batch, err);

    if (st == EF_OK && batch.count != 1)
        st = ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing", position);
    if (st == EF_OK)
        *out_us = batch.events[0].recorded_us;
    return st;
}

/* Recording times never decrease along the journal. */
static ef_status find_time(ef_journal *journal, int64_t head, int64_t time_us, int64_t *out,
                           ef_error *err)
{
    int64_t low = 0, high = head; /* the position is in low … high */
    ef_status st = EF_OK;

    while (st == EF_OK && low < high) {
        int64_t middle = low + (high - low + 1) / 2, recorded_us = 0;
        st = recorded_at(journal, middle, &recorded_us, err);
        if (recorded_us <= time_us)
            low = middle;
        else
            high = middle - 1;
    }
    *out = low;
    return st;
}

static ef_status find_time_in(cli *c, const char *from, const backup *b, int64_t time_us,
                              int64_t *out, ef_error *err)
{
    ef_journal *journal = NULL;
    ef_status st = backup_archive_open(c, from, &journal, err);

    if (st == EF_OK)
        st = find_time(journal, b->position, time_us, out, err);
    backup_archive_close(from, journal);
    return st;
}

/* Resolves `until`: a position, or the last event recorded up to a time. EF_BAD_INPUT: it is
 * neither, or the backup ends before it. */
static ef_status find_until(cli *c, const char *from, const backup *b, const char *until,
                            int64_t *out_position, ef_error *err)
{
    int64_t time_us;
    ef_status st;

    if (ef_time_parse(until, strlen(until), &time_us) == 0)
        return find_time_in(c, from, b, time_us, out_position, err);
    st = cli_number_parse("--until", until, 0, INT64_MAX, out_position, NULL);
    if (st != EF_OK)
        return ef_fail(err, EF_BAD_INPUT,
                       "--until is '%s': must be a position or a time: 2026-11-18T09:30:00Z",
                       until);
    if (*out_position > b->position)
        return ef_fail_numbers(err, EF_BAD_INPUT, *out_position, b->position,
                               "--until is %" PRId64 ", and the backup ends at position %" PRId64,
                               *out_position, b->position);
    return EF_OK;
}

/* A backup of a newer Everfold is refused before anything is written; an older one is migrated by
 * the first command that writes. */
static ef_status check_schema(cli *c, const char *directory, ef_error *err)
{
    ef_journal *journal = NULL;
    ef_status st = backup_archive_open(c, directory, &journal, err);

    backup_archive_close(directory, journal);
    return st == EF_MISUSE ? EF_OK : st;
}

static ef_status set_incomplete(const char *data, bool present, ef_error *err)
{
    char path[BACKUP_PATH_MAX];
    ef_status st = EF_OK;

    backup_path(data, RESTORE_MARK, path);
    if (present)
        st = backup_write_file(path, EF_STR(""), err);
    else if (unlink(path) != 0)
        st = backup_fail(path, err);
    return st == EF_OK ? backup_sync_directory(data, err) : st;
}

/* --- settings --------------------------------------------------------------------------------- */

/* Settings that name stores belong to the original and are not restored. */
static bool names_store(ef_str line)
{
    static const char *const keys[] = {"journal", "views", "control", "data"};

    line = ef__str_trim(line);
    for (size_t i = 0; i < 4; i++) {
        size_t end = strlen(keys[i]);
        if (ef__str_starts(line, keys[i]) && end < line.len &&
            (ef__is_space(line.ptr[end]) || line.ptr[end] == '='))
            return true;
    }
    return false;
}

static void copy_settings_lines(ef_str text, ef__buf *out)
{
    bool in_section = false;

    for (ef_str line; ef__line_next(&text, &line);) {
        in_section = in_section || ef__str_starts(line, "[");
        if (!in_section && names_store(line))
            continue;
        ef__buf_add_str(out, line);
        ef__buf_add_char(out, '\n');
    }
}

static ef_status restore_settings(const backup *b, const char *from, const char *data,
                                  ef_error *err)
{
    char path[BACKUP_PATH_MAX], real[PATH_MAX];
    EF__AUTO(ef__buf) old = EF__BUF_INIT(1024 * 1024),
                      fresh = EF__BUF_INIT(1024 * 1024 + 2 * PATH_MAX);
    ef_status st = EF_OK;

    backup_path(from, BACKUP_SETTINGS, path);
    if (backup_has(b, BACKUP_VIEWS_LMDB) && realpath(data, real))
        ef__buf_printf(&fresh, "views = \"lmdb:%s/" BACKUP_VIEWS_FOLDER "\"\n", real);
    if (backup_has(b, BACKUP_SETTINGS))
        st = cli_file_read(path, &old, err);
    if (st == EF_OK)
        copy_settings_lines(ef__buf_str(&old), &fresh);
    backup_path(data, BACKUP_SETTINGS, path);
    if (st == EF_OK && fresh.len > 0)
        st = backup_write_file(path, ef__buf_str(&fresh), err);
    return st;
}

/* --- the command ------------------------------------------------------------------------------ */

static ef_status restore_backup(cli *c, const backup *b, const char *from, const char *data,
                                int64_t position, ef_error *err)
{
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "restoring", "bytes", true);
    ef_status st = cli_data_make(c, err);

    if (st == EF_OK)
        st = set_incomplete(data, true, err);
    if (st == EF_OK && position < b->position)
        st = restore_until(c, b, from, data, position, err);
    else if (st == EF_OK)
        st = copy_stores(b, from, data, &progress, err);
    if (st == EF_OK)
        st = restore_settings(b, from, data, err);
    if (st == EF_OK && backup_has(b, BACKUP_TOKENS))
        st = copy_file(from, data, BACKUP_TOKENS, err);
    if (st == EF_OK)
        st = backup_sync_directory(data, err);
    return st == EF_OK ? set_incomplete(data, false, err) : st;
}

static void write_result(cli *c, const char *data, const backup *b, int64_t position)
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
}

static ef_status run_restore(cli *c, ef_error *err)
{
    const char *from = c->arguments[0];
    const char *data = cli_data(c);
    int64_t position = INT64_MAX;
    backup b;
    ef_status st;

    cli_stop_on_signals();
    st = backup_need_empty(data, err);
    if (st == EF_OK)
        st = backup_check(&b, c, from, err);
    if (st == EF_OK)
        st = check_schema(c, from, err);
    if (st == EF_OK && cli_value(c, "until"))
        st = find_until(c, from, &b, cli_value(c, "until"), &position, err);
    else if (st == EF_OK)
        position = b.position;
    if (cli_stopped()) {
        c->exit_code = cli_stopped_exit();
        return EF_OK;
    }
    if (st == EF_OK)
        st = restore_backup(c, &b, from, data, position, err);
    if (st == EF_OK)
        write_result(c, data, &b, position);
    return st;
}

const cli_command cli_cmd_restore = {
    .name = "restore",
    .summary = "restore a backup into an empty data directory",
    .options = CLI_OPTIONS(
        CLI_TEXT("until", "POSITION|TIME",
                 "restore events up to this position, or recorded up to this RFC 3339 time")),
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("DIR", "a directory that `backup` wrote", .words = "@dir")),
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
    .call = run_restore,
    .local = true,
};
