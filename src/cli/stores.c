/*
 * stores.c - the stores of the settings: journal and engine, or a server that has them; and the
 * calls that differ between stores and a server.
 *
 * Only `init` and `serve` create stores: a mistyped --views must not create a new, empty store.
 *
 * The token for a server is a secret: it comes from the environment or from a file, never from the
 * command line, which every user of the machine can read.
 */
#include "calls.h"

#include <errno.h>
#include <sys/stat.h>

#define TOKEN_BYTES_MAX (1 << 20) /* maximum size of the file; the server refuses longer tokens */

/* Reads EVERFOLD_TOKEN, or the first line of the file. */
static ef_status read_token(const cli *c, ef__buf *out, ef_error *err)
{
    const char *given = getenv("EVERFOLD_TOKEN");
    const char *path = cli_setting_text(c, "token_file");
    ef_status st;

    if (given && given[0] != '\0') {
        (void)ef__buf_add_text(out, given);
        return EF_OK;
    }
    if (!path)
        return EF_OK;
    st = cli_file_read(path, out, err);
    if (st != EF_OK)
        return st;
    (void)ef__buf_add_char(out, '\n');
    out->len = out->ptr ? strcspn(out->ptr, " \t\r\n") : 0;
    out->ptr[out->len] = '\0';
    return out->len > 0 ? EF_OK : ef_fail(err, EF_BAD_INPUT, "no token in %s", path);
}

static ef_status open_client(cli *c, const char *url, ef_error *err)
{
    EF__AUTO(ef__buf) token = EF__BUF_INIT(TOKEN_BYTES_MAX);
    ef_status st = read_token(c, &token, err);

    if (st == EF_OK)
        st = ef_client_open(&(ef_client_options){.url = url,
                                                 .token = token.len > 0 ? token.ptr : NULL,
                                                 .ca_file = cli_setting_text(c, "ca_file"),
                                                 .actor = cli_actor(c).ptr},
                            &c->client, err);
    if (token.ptr)
        explicit_bzero(token.ptr, token.len);
    return st;
}

static bool names_stores(const cli *c)
{
    return cli_setting(c, "data").origin == EF__ORIGIN_FLAG ||
           cli_setting(c, "journal").origin == EF__ORIGIN_FLAG ||
           cli_setting(c, "views").origin == EF__ORIGIN_FLAG;
}

/* Opens c->client if the settings name a server. */
static ef_status connect_server(cli *c, ef_error *err)
{
    ef__setting_view server = cli_setting(c, "server");
    const char *url = server.value.ptr;
    ef_status st;

    if (server.value.len == 0 || c->command->local || c->client)
        return EF_OK;
    if (names_stores(c) && server.origin == EF__ORIGIN_FLAG)
        return cli_refuse(c, err, "--server cannot be combined with --data, --journal and --views");
    if (names_stores(c))
        return EF_OK; /* a flag overrides a server of the environment or the settings file */
    st = open_client(c, url, err);
    if (st != EF_OK)
        return st;
    (void)snprintf(c->journal_shown, sizeof(c->journal_shown), "%s", url);
    (void)snprintf(c->views_shown, sizeof(c->views_shown), "%s", url);
    return EF_OK;
}

ef_status cli_engine_open(cli *c, bool create, bool read_only, ef_error *err)
{
    bool in_memory = cli_url_in_memory(c->views_url);
    ef_engine_options options = {
        .journal = c->journal,
        .views_url = c->views_url,
        .create = in_memory || create,
        .read_only = !in_memory && read_only,
        .mode = cli_mode_engine(c->mode),
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
static void set_views_hint(cli *c, ef_status status)
{
    ef__setting_view url = cli_setting(c, "views");

    if ((status != EF_NOT_FOUND && status != EF_MISUSE) || url.origin != EF__ORIGIN_FLAG)
        (void)cli_journal_hint(c, status);
    else
        cli_hint(c, "run: everfold init --views %s", c->views_shown);
}

ef_status cli_need(cli *c, cli_stores stores, ef_error *err)
{
    bool read_only = stores == CLI_JOURNAL_READ || stores == CLI_ENGINE_READ;
    bool folds = stores == CLI_APPEND ? cli_mode_engine(c->mode) != EF_MODE_OUTBOX_APPLY_ONLY
                                      : stores >= CLI_ENGINE_READ;
    ef_status st = stores == CLI_NO_STORES ? EF_OK : connect_server(c, err);

    if (st == EF_OK && !c->client && stores > CLI_SERVER) {
        st = cli_journal_open(c, &(ef_journal_options){.read_only = read_only}, err);
        if (st != EF_OK)
            (void)cli_journal_hint(c, st);
        else if (folds) {
            st = cli_engine_open(c, false, read_only, err);
            if (st != EF_OK)
                set_views_hint(c, st);
        }
    }
    c->opened = st == EF_OK && stores != CLI_NO_STORES;
    return st;
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

/* --- creating stores -------------------------------------------------------------------------- */

/* Parent directories get the mode of the umask, the data directory 0700: it holds all data. */
ef_status cli_data_make(const cli *c, ef_error *err)
{
    const char *path = cli_data(c);
    size_t length = strlen(path);
    char part[PATH_MAX];
    struct stat st;

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
    if (!cli_url_in_memory(c->journal_url) &&
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
    return st == EF_OK ? cli_engine_open(c, true, false, err) : st;
}

ef_status cli_projection_deploy(cli *c, const ef_deploy *deploy, const char *on_error,
                                ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    if (c->client)
        return ef_client_projection_deploy(c->client, deploy->text, deploy->in_place,
                                           ef_str_from(on_error), deploy->reason, out, err);
    return ef_projection_deploy(c->engine, deploy, out, out_report, err);
}

/* A log-ordered projection has one cursor per tenant; a failed event blocks the whole tenant. */
static ef_status reached_by_log(ef_str name, const ef_scope *scope, int64_t *out, ef_error *err)
{
    *out = scope->position;
    if (scope->retries == 0)
        return EF_OK;
    return ef_fail(
        err, EF_BLOCKED,
        "projection \"%.*s\" is blocked for tenant \"%.*s\" after position %" PRId64 ": %.*s",
        EF_STR_ARG(name), EF_STR_ARG(scope->tenant), scope->position, EF_STR_ARG(scope->error));
}

/* Position up to which every event is applied or blocked. */
ef_status cli_projection_reached(cli *c, ef_str name, const ef_str *tenant, int64_t *out,
                                 ef_error *err)
{
    EF__AUTO(ef_projection_list) all = {0};
    EF__AUTO(ef_scope_list) one = {0};
    ef_status st;

    if (!c->client)
        return ef_projection_reached(c->engine, name, tenant, out, err);
    st = ef_client_projection_ls(c->client, name, &all, err);
    if (st == EF_OK && tenant)
        st = ef_client_projection_scope(c->client, name, *tenant, &one, err);
    *out = st == EF_OK ? all.items[0].reached : 0;
    if (st == EF_OK && tenant && all.items[0].by_log)
        st = reached_by_log(name, &one.items[0], out, err);
    else if (st == EF_OK && tenant && one.items[0].position > *out)
        *out = one.items[0].position;
    return st;
}

ef_status cli_engine_run(cli *c, ef_str id, const ef_run_options *options, ef_run_list *out,
                         ef_error *err)
{
    ef_status st;

    if (!c->client)
        return ef_engine_run(c->engine, id, options, out, err);
    do {
        st = ef_client_run_ls(c->client, &(ef_run_query){.id = &id}, out, err);
    } while (st == EF_OK && cli_run_is_open(&out->items[0]) && options->progress &&
             options->progress(options->context, &out->items[0], true));
    return st;
}
