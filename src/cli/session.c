/*
 * session.c - settings, the log, and the journal of the settings.
 *
 * Precedence: flag, environment, settings file, default. The settings file is --config, else
 * EVERFOLD_CONFIG, else DATA/everfold.conf if it exists, where DATA comes from the flag or the
 * environment.
 */
#include "backup.h"
#include "cli.h"
#include "../base/limits.h"
#include "../base/logger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define DATA_DEFAULT "./everfold-data"
#define RETRY_MS_MAX (INT64_C(366) * 86400 * 1000)

static const ef__setting_spec specs[] = {
    {"data", EF__SETTING_TEXT, DATA_DEFAULT, 0, 0, NULL, NULL, "data directory"},
    {"journal", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "store of the journal: sqlite:PATH, postgres://HOST/DATABASE, nats://HOST:PORT/STREAM or "
     "memory:"},
    {"control", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "store of leases and runs if the journal is on JetStream: sqlite:PATH or "
     "postgres://HOST/DATABASE"},
    {"views", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "store of the views: sqlite:PATH, lmdb:FOLDER, postgres://HOST/DATABASE or memory:"},
    {"server", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "send commands to the server at this URL instead of opening stores"},
    {"token_file", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "file with the token for that server, unless EVERFOLD_TOKEN is set"},
    {"ca_file", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "PEM file with the CA of that server, if it is not one that the system trusts"},
    {"tenant", EF__SETTING_TEXT, "", 0, 0, NULL, NULL, "tenant"},
    {"output", EF__SETTING_CHOICE, "table", 0, 0, "table,json,ndjson", NULL, "output format"},
    {"log.level", EF__SETTING_CHOICE, "warn", 0, 0, "debug,info,warn,error", NULL,
     "lowest level that is logged"},
    {"log.format", EF__SETTING_CHOICE, "text", 0, 0, "text,json", NULL, "format of log lines"},
    {"mode", EF__SETTING_CHOICE, "auto", 0, 0,
     "auto,inline_apply_only,outbox_apply_only,shadow_only,inline_then_outbox,enqueue_only", NULL,
     "how events reach the projections; auto: derived from the flags that are set"},
    {"outbox.enabled", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL, "appends write outbox rows"},
    {"worker.enabled", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL, "a worker drains the outbox"},
    {"worker.lease_ttl", EF__SETTING_DURATION, "10s", 100, EF_LIMIT_LEASE_MS / 2, NULL, NULL,
     "duration of a lease: a dead worker is replaced after this time; shorter leases cost more "
     "writes"},
    {"worker.lease_renew", EF__SETTING_DURATION, "0", 0, EF_LIMIT_LEASE_MS / 2, NULL, NULL,
     "interval at which leases and heartbeat are renewed; 0: a third of worker.lease_ttl"},
    {"worker.heartbeat_ttl", EF__SETTING_DURATION, "0", 0, EF_LIMIT_LEASE_MS, NULL, NULL,
     "a worker without a heartbeat for half of this time is late, after all of it stale; 0: twice "
     "worker.lease_ttl"},
    {"worker.poll_interval", EF__SETTING_DURATION, "2s", 1, 3600 * 1000, NULL, NULL,
     "longest time between two checks for work; new events wake workers at once"},
    {"worker.batch", EF__SETTING_INT, "1000", 1, EF_LIMIT_CLAIM_ROWS, NULL, NULL,
     "events that are claimed at a time; up to 16 times as many from a backlog"},
    {"worker.catch_up_batch", EF__SETTING_INT, "0", 0, 100000, NULL, NULL,
     "events that a projection reads at a time while it catches up; 0: 10000, or 64000 with LMDB"},
    {"worker.run_batch", EF__SETTING_INT, "1000", 1, 100000, NULL, NULL,
     "events that a replay reads at a time"},
    {"worker.metrics_listen", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "ADDRESS:PORT where `work` serves /metrics, /livez and /readyz; empty: nowhere"},
    {"retry.apply.base", EF__SETTING_DURATION, "1s", 1, RETRY_MS_MAX, NULL, NULL,
     "delay before the first retry of an event that failed in a projection"},
    {"retry.apply.factor", EF__SETTING_INT, "2", 1, 100, NULL, NULL,
     "each further delay is the previous one times this factor"},
    {"retry.apply.cap", EF__SETTING_DURATION, "5m", 1, RETRY_MS_MAX, NULL, NULL, "longest delay"},
    {"retry.apply.attempts", EF__SETTING_INT, "8", 0, INT32_MAX, NULL, NULL,
     "the row is dead after this number of failures; 0: never"},
    {"retry.cursor.base", EF__SETTING_DURATION, "250ms", 1, RETRY_MS_MAX, NULL, NULL,
     "delay before the first retry of a tenant that failed in a log-ordered projection"},
    {"retry.cursor.factor", EF__SETTING_INT, "2", 1, 100, NULL, NULL,
     "each further delay is the previous one times this factor"},
    {"retry.cursor.cap", EF__SETTING_DURATION, "5m", 1, RETRY_MS_MAX, NULL, NULL, "longest delay"},
    {"retry.cursor.attempts", EF__SETTING_INT, "6", 0, INT32_MAX, NULL, NULL,
     "the tenant has failed after this number of failures, and is then retried every minute; 0: "
     "never"},
    {"retry.publish.base", EF__SETTING_DURATION, "60s", 1, RETRY_MS_MAX, NULL, NULL,
     "for publishers that are added without --retry: delay before the first retry of a message"},
    {"retry.publish.factor", EF__SETTING_INT, "1", 1, 100, NULL, NULL,
     "for all publishers: each further delay is the previous one times this factor"},
    {"publish.directories", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "directories, separated by commas, below which publishers that are set over HTTP may write "
     "files and read secrets; empty: none"},
    {"retry.publish.cap", EF__SETTING_DURATION, "1h", 1, RETRY_MS_MAX, NULL, NULL,
     "for all publishers: longest delay, unless --retry is longer"},
    {"retry.publish.attempts", EF__SETTING_INT, "0", 0, INT32_MAX, NULL, NULL,
     "for publishers that are added without --attempts: a message is dead after this number of "
     "failures; 0: never"},
    {"shadow_worker.enabled", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL,
     "a shadow worker reads the outbox without changing projections"},
    {"compat.apply_wins", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL,
     "if both workers are on, the apply worker wins instead of an error"},
    {"outbox.partitions", EF__SETTING_INT, "16", 1, EF_LIMIT_PARTITIONS, NULL, NULL,
     "partitions of a new journal"},
    {"types.strict", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL,
     "refuse event types that are not registered"},
    {"types.max", EF__SETTING_INT, "10000", 1, EF_LIMIT_TYPES, NULL, NULL,
     "event types that the appends of one tenant may create, in addition to registered ones"},
    {"store.busy", EF__SETTING_DURATION, "10s", 1, 3600 * 1000, NULL, NULL,
     "longest time that a call waits for the store"},
    {"postgres.schema", EF__SETTING_TEXT, "everfold", 0, 0, NULL, NULL,
     "schema of the journal in a PostgreSQL database, unless its URL has ef_schema"},
    {"postgres.views_schema", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "schema of the views there, unless the URL has ef_views_schema; empty: that of the journal "
     "followed by _views"},
    {"work.live_lag", EF__SETTING_DURATION, "100ms", 1, 3600 * 1000, NULL, NULL,
     "a rebuild yields while live events wait longer than this"},
    {"work.retire_after", EF__SETTING_DURATION, "7d", 0, INT64_C(3650) * 86400 * 1000, NULL, NULL,
     "time after which a generation that is no longer active is removed; 0: never"},
    {"actor", EF__SETTING_TEXT, "", 0, 0, NULL, NULL, "name of the operator, for audit entries"},
    {"server.listen", EF__SETTING_TEXT, "127.0.0.1:7450", 0, 0, NULL, NULL,
     "ADDRESS:PORT; an address other than loopback needs TLS and a token"},
    {"server.socket", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "path of the Unix socket for the user that runs the server; empty: DATA/server.sock; off: "
     "none"},
    {"server.hosts", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "accepted host names besides the address, separated by commas"},
    {"server.tokens", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "file with the tokens; empty: DATA/tokens"},
    {"server.tls_certificate", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "PEM file with the certificate and its chain"},
    {"server.tls_key", EF__SETTING_TEXT, "", 0, 0, NULL, NULL, "PEM file with the private key"},
    {"server.threads", EF__SETTING_INT, "64", 1, 1024, NULL, NULL,
     "requests that may use the stores at the same time"},
    {"server.connections", EF__SETTING_INT, "4096", 1, 100000, NULL, NULL,
     "connections at the same time; further ones wait until one closes"},
    {"server.body", EF__SETTING_BYTES, "16m", 1024, 256 << 20, NULL, NULL, "largest request body"},
    {"server.request", EF__SETTING_DURATION, "60s", 100, 3600 * 1000, NULL, NULL,
     "time to receive a request, and to send its response"},
    {"server.query_time", EF__SETTING_DURATION, "10s", 1, 3600 * 1000, NULL, NULL,
     "time that one query, explanation or time-travel read may take"},
    {"server.query_steps", EF__SETTING_INT, "100000000", 1000, INT64_MAX, NULL, NULL,
     "steps that one of them may take: expressions, items and views read"},
    {"server.heartbeat", EF__SETTING_DURATION, "15s", 1000, 3600 * 1000, NULL, NULL,
     "interval of keep-alive comments in a subscription without events"},
    {"server.drain", EF__SETTING_DURATION, "10s", 0, 3600 * 1000, NULL, NULL,
     "time for requests in flight to finish when the server stops"},
    {"server.access_log", EF__SETTING_BOOL, "false", 0, 0, NULL, NULL, "log every request"},
    {"server.path", EF__SETTING_TEXT, "", 0, 0, NULL, NULL,
     "path under which a reverse proxy publishes the server, such as /everfold"},
    {"server.monitor", EF__SETTING_BOOL, "true", 0, 0, NULL, NULL, "serve the monitor at /"},
};

ef_status cli_settings_table_open(ef__settings **out, ef_error *err)
{
    return ef__settings_open(specs, sizeof(specs) / sizeof(specs[0]), out, err);
}

ef__setting_view cli_setting(const cli *c, const char *key)
{
    ef__setting_view none = {NULL, {NULL, 0}, EF__ORIGIN_DEFAULT, {NULL, 0}};

    for (size_t i = 0; i < ef__settings_count(c->settings); i++) {
        ef__setting_view view = ef__settings_at(c->settings, i);
        if (strcmp(view.spec->key, key) == 0)
            return view;
    }
    return none;
}

/* --- loading ---------------------------------------------------------------------------------- */

static const char *early_value(const cli *c, const char *option, const char *variable,
                               const char *otherwise)
{
    for (size_t i = 0; cli_common_options[i].name; i++)
        if (strcmp(cli_common_options[i].name, option) == 0 && c->commons[i])
            return c->commons[i];
    const char *value = getenv(variable);
    return value && value[0] != '\0' ? value : otherwise;
}

static ef_status load_file(cli *c, ef__settings *into, ef_error *err)
{
    const char *named = early_value(c, "config", "EVERFOLD_CONFIG", NULL);
    const char *data = early_value(c, "data", "EVERFOLD_DATA", DATA_DEFAULT);
    int n;

    if (named)
        n = snprintf(c->settings_file, sizeof(c->settings_file), "%s", named);
    else
        n = snprintf(c->settings_file, sizeof(c->settings_file), "%s/everfold.conf", data);
    if (n < 0 || (size_t)n >= sizeof(c->settings_file))
        return ef_fail(err, EF_BAD_INPUT, "the path of the settings file is too long");
    if (!named && access(c->settings_file, F_OK) != 0) {
        c->settings_file[0] = '\0';
        return EF_OK;
    }
    return ef__settings_load_file(into, c->settings_file, err);
}

static ef_status load_flags(const cli *c, ef__settings *into, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && cli_common_options[i].name; i++)
        if (c->commons[i] && cli_common_options[i].setting)
            st = ef__settings_set_flag(into, cli_common_options[i].setting, c->commons[i], err);
    const cli_option *own = c->command->options;
    for (size_t i = 0; st == EF_OK && own && own[i].name; i++)
        if (c->values[i] && own[i].setting)
            st = ef__settings_set_option(into, own[i].name, own[i].setting, c->values[i], err);
    return st;
}

ef_status cli_settings_read(cli *c, ef__settings **out, ef_error *err)
{
    ef_status st = cli_settings_table_open(out, err);

    if (st == EF_OK)
        st = load_file(c, *out, err);
    if (st == EF_OK)
        st = ef__settings_load_environment(*out, environ, err);
    return st == EF_OK ? load_flags(c, *out, err) : st;
}

static void write_log(void *context, ef_log_level level, const char *message,
                      const ef_log_field *fields, uint64_t field_count)
{
    const cli *c = context;
    char line[EF_LOG_LINE_MAX];
    uint64_t n =
        ef_log_line(c->log_style, cli_wall_us(), level, message, fields, field_count, line);

    (void)fwrite(line, 1, n, stderr);
}

/* Other threads may be logging. */
void cli_log_level(cli *c, ef_str level)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};

    for (size_t i = 0; i < 4; i++)
        if (ef_str_equal(level, ef_str_from(levels[i])))
            __atomic_store_n(&c->log.level_min, (ef_log_level)i, __ATOMIC_RELAXED);
}

static void apply_log_style(cli *c)
{
    c->log_style = ef_str_equal(ef__settings_text(c->settings, "log.format"), EF_STR("json"))
                       ? EF_LOG_JSON
                       : EF_LOG_TEXT;
}

static void apply_settings(cli *c)
{
    ef_str output = ef__settings_text(c->settings, "output");

    c->format = ef_str_equal(output, EF_STR("json"))     ? CLI_JSON
                : ef_str_equal(output, EF_STR("ndjson")) ? CLI_NDJSON
                                                         : CLI_TABLE;
    c->log = (ef_log){EF_LOG_WARN, write_log, c};
    cli_log_level(c, ef__settings_text(c->settings, "log.level"));
    apply_log_style(c);
}

static ef_status journal_url(cli *c, ef_error *err)
{
    ef_str url = ef__settings_text(c->settings, "journal");
    ef_str data = ef__settings_text(c->settings, "data");
    int n;

    if (url.len > 0)
        n = snprintf(c->journal_url, sizeof(c->journal_url), "%.*s", EF_STR_ARG(url));
    else
        n = snprintf(c->journal_url, sizeof(c->journal_url), "sqlite:%.*s/journal.db",
                     EF_STR_ARG(data));
    if (n < 0 || (size_t)n >= sizeof(c->journal_url))
        return ef_fail(err, EF_BAD_INPUT, "the URL of the journal is too long");
    return EF_OK;
}

bool cli_url_on_server(const char *url)
{
    return strncmp(url, "postgres:", 9) == 0 || strncmp(url, "postgresql:", 11) == 0;
}

/* Default of the view store. Views of a memory: journal are in memory, because they must not
 * outlive it. Views of a journal on a database server are on the same server, because workers on
 * other machines need them. */
static ef_status views_url(cli *c, ef_error *err)
{
    ef_str url = ef__settings_text(c->settings, "views");
    ef_str data = ef__settings_text(c->settings, "data");
    int n;

    if (url.len > 0)
        n = snprintf(c->views_url, sizeof(c->views_url), "%.*s", EF_STR_ARG(url));
    else if (strncmp(c->journal_url, "memory:", 7) == 0)
        n = snprintf(c->views_url, sizeof(c->views_url), "memory:");
    else if (cli_url_on_server(c->journal_url))
        n = snprintf(c->views_url, sizeof(c->views_url), "%s", c->journal_url);
    else
        n = snprintf(c->views_url, sizeof(c->views_url), "sqlite:%.*s/views.db", EF_STR_ARG(data));
    if (n < 0 || (size_t)n >= sizeof(c->views_url))
        return ef_fail(err, EF_BAD_INPUT, "the URL of the views is too long");
    return EF_OK;
}

/* Default of the control store of a JetStream journal. All its workers must reach it: with the
 * views if these are on a database server, else in the data directory. */
static ef_status control_url(cli *c, ef_error *err)
{
    ef_str url = ef__settings_text(c->settings, "control");
    ef_str data = ef__settings_text(c->settings, "data");
    int n;

    if (url.len > 0)
        n = snprintf(c->control_url, sizeof(c->control_url), "%.*s", EF_STR_ARG(url));
    else if (cli_url_on_server(c->views_url))
        n = snprintf(c->control_url, sizeof(c->control_url), "%s", c->views_url);
    else
        n = snprintf(c->control_url, sizeof(c->control_url), "sqlite:%.*s/control.db",
                     EF_STR_ARG(data));
    if (n < 0 || (size_t)n >= sizeof(c->control_url))
        return ef_fail(err, EF_BAD_INPUT, "the URL of the control journal is too long");
    return EF_OK;
}

/* Adds the schema of the settings to a URL without one. */
static ef_status add_schema(const cli *c, const char *setting, const char *key, char *url,
                            size_t size, ef_error *err)
{
    ef_str name = ef__settings_text(c->settings, setting);
    size_t used = strlen(url);
    int n;

    if (cli_setting(c, setting).origin == EF__ORIGIN_DEFAULT || !cli_url_on_server(url) ||
        strstr(url, key))
        return EF_OK;
    n = snprintf(url + used, size - used, "%c%s%.*s", strchr(url, '?') ? '&' : '?', key,
                 EF_STR_ARG(name));
    return n >= 0 && (size_t)n < size - used
               ? EF_OK
               : ef_fail(err, EF_BAD_INPUT, "the URL of a store is too long");
}

static ef_status add_schemas(const cli *c, char *url, size_t size, ef_error *err)
{
    ef_status st = add_schema(c, "postgres.schema", "ef_schema=", url, size, err);

    return st == EF_OK ? add_schema(c, "postgres.views_schema", "ef_views_schema=", url, size, err)
                       : st;
}

/* Resolves the URLs of all stores, and the forms that are printed. */
static ef_status store_urls(cli *c, ef_error *err)
{
    ef_status st = journal_url(c, err);

    if (st == EF_OK)
        st = add_schemas(c, c->journal_url, sizeof(c->journal_url), err);
    if (st == EF_OK)
        st = views_url(c, err);
    if (st == EF_OK)
        st = add_schemas(c, c->views_url, sizeof(c->views_url), err);
    if (st == EF_OK)
        st = control_url(c, err);
    if (st == EF_OK)
        st = add_schemas(c, c->control_url, sizeof(c->control_url), err);
    ef_url_show(c->journal_url, c->journal_shown, sizeof(c->journal_shown));
    ef_url_show(c->views_url, c->views_shown, sizeof(c->views_shown));
    ef_url_show(c->control_url, c->control_shown, sizeof(c->control_shown));
    return st;
}

ef_status cli_settings_load(cli *c, ef_error *err)
{
    ef_status st = cli_settings_read(c, &c->settings, err);

    if (st != EF_OK) {
        if (c->settings) /* the settings read so far decide how the error is logged */
            apply_log_style(c);
        return st;
    }
    apply_settings(c);
    st = store_urls(c, err);
    if (st == EF_OK)
        st = cli_settings_check(c->settings, err);
    return st == EF_OK ? cli_mode_from_settings(c->settings, &c->mode, err) : st;
}

ef_status cli_data_use(cli *c, const char *directory, ef_error *err)
{
    ef_status st = ef__settings_set_flag(c->settings, "data", directory, err);

    return st == EF_OK ? store_urls(c, err) : st;
}

/* --- values ----------------------------------------------------------------------------------- */

ef_str cli_tenant(const cli *c)
{
    return ef__settings_text(c->settings, "tenant");
}

bool cli_tenant_given(const cli *c)
{
    return cli_setting(c, "tenant").origin != EF__ORIGIN_DEFAULT;
}

ef_str cli_actor(const cli *c)
{
    static char uid[32];
    ef_str actor = ef__settings_text(c->settings, "actor");
    const char *user = getenv("USER");

    if (actor.len > 0)
        return actor;
    if (user && user[0] != '\0')
        return ef_str_from(user);
    (void)snprintf(uid, sizeof(uid), "uid %ld", (long)getuid());
    return ef_str_from(uid);
}

ef_status cli_tokens_path(const cli *c, char out[PATH_MAX], ef_error *err)
{
    ef_str path = ef__settings_text(c->settings, "server.tokens");
    ef_str data = ef__settings_text(c->settings, "data");
    int n = path.len > 0 ? snprintf(out, PATH_MAX, "%.*s", EF_STR_ARG(path))
                         : snprintf(out, PATH_MAX, "%.*s/tokens", EF_STR_ARG(data));

    return n < PATH_MAX ? EF_OK
                        : ef_fail(err, EF_BAD_INPUT, "the path of the token file is too long");
}

const char *cli_setting_text(const cli *c, const char *key)
{
    ef_str text = ef__settings_text(c->settings, key);

    return text.len > 0 ? text.ptr : NULL;
}

ef_str cli_setting_value(const cli *c, const ef__setting_view *view)
{
    const char *key = view->spec->key;

    if (strcmp(key, "journal") == 0)
        return ef_str_from(c->journal_shown);
    if (strcmp(key, "actor") == 0)
        return cli_actor(c);
    if (strcmp(key, "views") == 0)
        return ef_str_from(c->views_shown);
    if (strcmp(key, "control") == 0)
        return ef_str_from(c->control_shown);
    if (strcmp(key, "mode") == 0)
        return ef_str_from(cli_mode_name(c->mode));
    if (strcmp(key, "worker.lease_renew") == 0 || strcmp(key, "worker.heartbeat_ttl") == 0)
        return cli_lease_time_shown(c, view);
    if (strcmp(key, "outbox.enabled") == 0 || strcmp(key, "worker.enabled") == 0 ||
        strcmp(key, "shadow_worker.enabled") == 0)
        return cli_mode_flag_on(c->mode, key) ? EF_STR("true") : EF_STR("false");
    return view->value;
}

/* --- journal ---------------------------------------------------------------------------------- */

/* A restore was interrupted: the stores are incomplete (backup.h). */
static bool is_restore_incomplete(const cli *c)
{
    char path[PATH_MAX];
    ef_str data = ef__settings_text(c->settings, "data");

    return snprintf(path, sizeof(path), "%.*s/" RESTORE_MARK, EF_STR_ARG(data)) <
               (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

ef_status cli_journal_open(cli *c, const ef_journal_options *extra, ef_error *err)
{
    bool in_memory = strncmp(c->journal_url, "memory:", 7) == 0;
    ef_journal_options options = {
        .url = c->journal_url,
        .control = c->control_url,
        .create = in_memory || (extra && extra->create),
        .read_only = !in_memory && extra && extra->read_only,
        .accept_head = extra && extra->accept_head,
        .outbox_off = c->mode == CLI_MODE_INLINE_APPLY_ONLY,
        .types_strict = ef__settings_bool(c->settings, "types.strict"),
        /* The stored limit also holds for appends by SQL: a default must not replace it. */
        .types_max = cli_setting(c, "types.max").origin == EF__ORIGIN_DEFAULT
                         ? 0
                         : ef__settings_int(c->settings, "types.max"),
        .partitions = (int32_t)ef__settings_int(c->settings, "outbox.partitions"),
        .busy_ms = ef__settings_int(c->settings, "store.busy"),
        .log = &c->log,
    };

    if (is_restore_incomplete(c))
        return ef_fail(err, EF_DAMAGED,
                       "the restore of data directory %.*s is incomplete: remove it, and restore "
                       "the backup again",
                       EF_STR_ARG(ef__settings_text(c->settings, "data")));
    if (!c->mode_logged) /* serve opens again to create the store */
        ef__log(&c->log, EF_LOG_INFO, "mode resolved",
                EF_LOG_TEXT_FIELD("mode", ef_str_from(cli_mode_name(c->mode))));
    c->mode_logged = true;
    return ef_journal_open(&options, &c->journal, err);
}

const char *cli_journal_hint(const cli *c, ef_status status, char *room, size_t room_size)
{
    ef__setting_view data = cli_setting(c, "data");
    ef__setting_view url = cli_setting(c, "journal");
    const char *verb = NULL;
    char where[PATH_MAX + 64] = "";

    /* EF_MISUSE: an older schema, which readers do not migrate and init does. */
    if (status == EF_NOT_FOUND || status == EF_MISUSE)
        verb = "init";
    else if (status == EF_DAMAGED)
        verb = "doctor";
    if (!verb)
        return NULL;
    if (url.origin == EF__ORIGIN_FLAG)
        (void)snprintf(where, sizeof(where), " --journal %s", c->journal_shown);
    else if (data.origin == EF__ORIGIN_FLAG)
        (void)snprintf(where, sizeof(where), " --data %.*s", EF_STR_ARG(data.value));
    (void)snprintf(room, room_size, "run: everfold %s%s", verb, where);
    return room;
}

int cli_journal_need(cli *c, bool read_only)
{
    ef_journal_options extra = {.read_only = read_only};
    ef_error err = EF_ERROR_INIT;
    char hint[PATH_MAX + 128];
    int rc = cli_connect(c);
    ef_status st;

    if (rc != 0 || c->client)
        return rc;
    st = cli_journal_open(c, &extra, &err);
    if (st == EF_OK)
        return 0;
    return cli_fail(c, &err, cli_journal_hint(c, st, hint, sizeof(hint)));
}

ef_str cli_reason(const cli *c)
{
    return ef_str_from(cli_value(c, "reason"));
}

ef_status cli_note(cli *c, const char *act, ef_str what, ef_error *err)
{
    ef_audit_entry note = {
        .action = ef_str_from(act), .actor = cli_actor(c), .reason = cli_reason(c), .lane = what};

    return c->client ? EF_OK : ef_audit_add(c->journal, &note, err);
}
