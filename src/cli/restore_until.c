/*
 * restore_until.c - see restore_until.h.
 *
 *     DATA/restoring/journal.db, views   copies of the backup, read only
 *     DATA/restoring/until.db            its prefix
 *     DATA/journal.db                    copy of until.db, marked as a copy
 *     DATA/views…                        new, with the programs of the backup
 */
#include "restore_until.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK "restoring"

typedef struct rewinding {
    cli *c;
    const backup *b;
    const char *from, *data;
    char work[PATH_MAX - 64];
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

static ef_status open_at(cli *c, const char *directory, const char *name,
                         const ef_journal_options *how, ef_journal **out, ef_error *err)
{
    char url[PATH_MAX + 32];
    ef_journal_options options = *how;

    (void)snprintf(url, sizeof(url), "sqlite:%s/%s", directory, name);
    options.url = url;
    options.log = &c->log;
    return ef_journal_open(&options, out, err);
}

/* The backup is not modified, and an older one may need migrations: work on copies. */
static ef_status copy_source(const rewinding *r, ef_error *err)
{
    static const char *const names[] = {BACKUP_JOURNAL, BACKUP_HEAD, BACKUP_VIEWS,
                                        BACKUP_VIEWS_LMDB};
    char from[PATH_MAX], to[PATH_MAX];
    ef_status st =
        mkdir(r->work, 0700) == 0 ? EF_OK : ef_fail(err, EF_IO, "%s: %s", r->work, strerror(errno));

    if (st == EF_OK && backup_has(r->b, BACKUP_VIEWS_LMDB) &&
        backup_path(r->work, BACKUP_VIEWS_FOLDER, to, err) == EF_OK && mkdir(to, 0700) != 0)
        st = ef_fail(err, EF_IO, "%s: %s", to, strerror(errno));
    for (size_t i = 0; st == EF_OK && i < 4; i++) {
        if (!backup_has(r->b, names[i]))
            continue;
        st = backup_path(r->from, names[i], from, err);
        if (st == EF_OK)
            st = backup_path(r->work, names[i], to, err);
        if (st == EF_OK)
            st = backup_copy_file(from, to, NULL, err);
    }
    return st;
}

/* --- journal ------------------------------------------------------------------------------ */

static ef_status copy_publishers(const rewinding *r, ef_error *err)
{
    ef_lane_list lanes = {0};
    ef_status st = ef_lane_ls(r->source, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (lanes.items[i].kind == EF_LANE_KIND_PUBLISHER)
            st = ef_lane_set(r->prefix, &lanes.items[i], err);
    ef_lane_list_release(&lanes);
    return st;
}

static ef_status write_prefix(rewinding *r, int64_t position, ef_error *err)
{
    char path[PATH_MAX];
    ef_copy_result result;
    ef_store_facts facts;
    ef_head head;
    ef_status st = ef_journal_facts(r->source, &facts, err);

    if (st == EF_OK)
        st = open_at(r->c, r->work, "until.db",
                     &(ef_journal_options){.create = true, .partitions = facts.partitions},
                     &r->prefix, err);
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
    if (st == EF_OK)
        st = backup_path(r->data, BACKUP_JOURNAL, path, err);
    return st == EF_OK
               ? ef_journal_backup(r->prefix, &(ef_backup_options){.path = path}, &head, err)
               : st;
}

/* --- views -------------------------------------------------------------------------------- */

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
    ef_projection_list list = {0};
    ef_status st = ef_projection_ls(from, EF_STR(""), &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        ef_projection_list deployed = {0};
        ef_text report = {0};
        const ef_projection *p = &list.items[i];
        if (!p->active)
            continue;
        if (p->program.len == 0)
            cli_warn(r->c, "everfold: projection %.*s is written in C: deploy it from its program",
                     EF_STR_ARG(p->name));
        else
            st = ef_projection_deploy(to, NULL, p->program, &deployed, &report, err);
        if (st == EF_OK && p->skips_errors && p->program.len > 0)
            st = ef_projection_on_error(to, p->name, EF_ON_ERROR_SKIP, cli_actor(r->c),
                                        EF_STR("restore"), err);
        ef_text_release(&report);
        ef_projection_list_release(&deployed);
    }
    ef_projection_list_release(&list);
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
        st = open_at(r->c, r->data, BACKUP_JOURNAL, &(ef_journal_options){0}, &journal, err);
    if (st == EF_OK)
        st = open_views(r, r->data, true, journal, &fresh, err);
    if (st == EF_OK)
        st = deploy_programs(r, old, fresh, err);
    ef_engine_close(old);
    ef_engine_close(fresh);
    ef_journal_close(journal);
    return st;
}

ef_status cli_restore_until(cli *c, const backup *b, const char *from, const char *data,
                            int64_t position, ef_error *err)
{
    rewinding r = {.c = c, .b = b, .from = from, .data = data};
    ef_status st = snprintf(r.work, sizeof(r.work), "%s/" WORK, data) < (int)sizeof(r.work)
                       ? copy_source(&r, err)
                       : ef_fail(err, EF_BAD_INPUT, "the path %.200s is too long", data);

    cli_progress_begin(&r.progress, c, "restoring", "events", false);
    if (st == EF_OK)
        st = open_at(c, r.work, BACKUP_JOURNAL, &(ef_journal_options){0}, &r.source, err);
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

/* --- position ----------------------------------------------------------------------------- */

static ef_status recorded_at(ef_journal *journal, int64_t position, int64_t *out_us, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_log_query query = {.any_tenant = true, .after = position - 1, .limit = 1};
    ef_status st = ef_journal_read_log(journal, &query, &batch, err);

    if (st == EF_OK && batch.count != 1)
        st = ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing", position);
    if (st == EF_OK)
        *out_us = batch.events[0].recorded_us;
    ef_batch_release(&batch);
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
    ef_status st = backup_journal_open(c, from, &journal, err);

    if (st == EF_OK)
        st = find_time(journal, b->position, time_us, out, err);
    backup_journal_close(from, journal);
    return st;
}

ef_status cli_until_find(cli *c, const char *from, const backup *b, const char *until,
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
