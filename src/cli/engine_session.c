/*
 * engine_session.c - the engine on the stores of the settings.
 *
 * Only `init` and `serve` create stores: a mistyped --views must not create a new, empty store.
 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static ef_mode engine_mode(cli_mode mode)
{
    switch (mode) {
    case CLI_MODE_INLINE_APPLY_ONLY:
        return EF_MODE_INLINE_APPLY_ONLY;
    case CLI_MODE_INLINE_THEN_OUTBOX:
        return EF_MODE_INLINE_THEN_OUTBOX;
    case CLI_MODE_SHADOW_ONLY:
        return EF_MODE_SHADOW_ONLY;
    default:
        return EF_MODE_OUTBOX_APPLY_ONLY;
    }
}

ef_status cli_engine_open(cli *c, bool create, bool read_only, ef_error *err)
{
    bool in_memory = strncmp(c->views_url, "memory:", 7) == 0;
    ef_engine_options options = {
        .journal = c->journal,
        .views_url = c->views_url,
        .create = in_memory || create,
        .read_only = !in_memory && read_only,
        .mode = engine_mode(c->mode),
        .busy_ms = ef__settings_int(c->settings, "store.busy"),
        .retire_after_ms = ef__settings_int(c->settings, "work.retire_after"),
        .live_lag_ms = ef__settings_int(c->settings, "work.live_lag"),
        .retry_apply = cli_retry_options(c, "apply"),
        .retry_cursor = cli_retry_options(c, "cursor"),
        .retry_publish = cli_retry_options(c, "publish"),
        .catch_up_batch = (size_t)ef__settings_int(c->settings, "worker.catch_up_batch"),
        .run_batch = (size_t)ef__settings_int(c->settings, "worker.run_batch"),
        .log = &c->log,
    };

    return ef_engine_open(&options, &c->engine, err);
}

/* Hint if the view store could not be opened; as cli_journal_hint, with --views. */
static const char *views_hint(const cli *c, ef_status status, char *room, size_t room_size)
{
    ef__setting_view url = cli_setting(c, "views");

    if ((status != EF_NOT_FOUND && status != EF_MISUSE) || url.origin != EF__ORIGIN_FLAG)
        return cli_journal_hint(c, status, room, room_size);
    (void)snprintf(room, room_size, "run: everfold init --views %s", c->views_shown);
    return room;
}

static int need_engine(cli *c, bool read_only)
{
    ef_error err = EF_ERROR_INIT;
    char hint[PATH_MAX + 128];
    ef_status st = cli_engine_open(c, false, read_only, &err);

    return st == EF_OK ? 0 : cli_fail(c, &err, views_hint(c, st, hint, sizeof(hint)));
}

int cli_engine_need(cli *c, bool read_only)
{
    int rc = cli_journal_need(c, read_only);

    return rc == 0 && !c->client ? need_engine(c, read_only) : rc;
}

int cli_append_need(cli *c)
{
    bool folds = engine_mode(c->mode) != EF_MODE_OUTBOX_APPLY_ONLY;
    int rc = cli_journal_need(c, false);

    return rc == 0 && folds && !c->client ? need_engine(c, false) : rc;
}

ef_status cli_append(cli *c, const ef_new_event *events, size_t count, ef_place *out_places,
                     ef_error *err)
{
    if (c->client)
        return ef_client_append(c->client, events, count, out_places, err);
    if (c->engine)
        return ef_engine_append(c->engine, events, count, out_places, err);
    return ef_journal_append(c->journal, events, count, out_places, err);
}

/* --- creating stores -----------------------------------------------------------------------------
 */

/* Parent directories get the mode of the umask, the data directory itself 0700, because it holds
 * all data. */
ef_status cli_data_make(const cli *c, ef_error *err)
{
    char path[PATH_MAX], part[PATH_MAX];
    struct stat st;
    size_t length;

    (void)snprintf(path, sizeof(path), "%.*s", EF_STR_ARG(ef__settings_text(c->settings, "data")));
    length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof(part))
        return ef_fail(err, EF_BAD_INPUT, "the path of the data directory is too long: %zu bytes",
                       length);
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? EF_OK
                                   : ef_fail(err, EF_BAD_INPUT, "%s is not a directory", path);
    for (size_t i = 1; i <= length; i++) {
        bool last = i == length;
        if (!last && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, last ? 0700 : 0777) != 0 && errno != EEXIST)
            return ef_fail(err, EF_IO, "%s could not be created: %s", part, strerror(errno));
    }
    return EF_OK;
}

ef_status cli_stores_make(cli *c, bool *out_made, ef_error *err)
{
    ef_journal_options create = {.create = true};
    ef_status st = EF_OK;

    *out_made = false;
    if (strncmp(c->journal_url, "memory:", 7) != 0 &&
        (!cli_url_on_server(c->journal_url) || !cli_url_on_server(c->views_url)))
        st = cli_data_make(c, err);
    if (st != EF_OK)
        return st;
    st = cli_journal_open(c, NULL, err);
    *out_made = st == EF_NOT_FOUND;
    if (st == EF_NOT_FOUND) {
        *err = (ef_error)EF_ERROR_INIT;
        st = cli_journal_open(c, &create, err);
    }
    if (st == EF_OK)
        st = cli_engine_open(c, true, false, err);
    return st;
}
