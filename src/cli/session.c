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
#include "../base/schema_name.h"
#include "../server/server.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define DATA_DEFAULT "./everfold-data"
#define RETRY_MS_MAX (INT64_C(366) * 86400 * 1000)

/* Rows of the table: key, default, then limits or choices, and help. */
#define SETTING(key, type, text, min, max, choices, help)                                          \
    {                                                                                              \
        key, EF__SETTING_##type, text, min, max, choices, NULL, help                               \
    }
#define TEXT(key, text, help) SETTING(key, TEXT, text, 0, 0, NULL, help)
#define BOOL(key, text, help) SETTING(key, BOOL, text, 0, 0, NULL, help)
#define CHOICE(key, text, choices, help) SETTING(key, CHOICE, text, 0, 0, choices, help)
#define INT(key, text, min, max, help) SETTING(key, INT, text, min, max, NULL, help)
#define BYTES(key, text, min, max, help) SETTING(key, BYTES, text, min, max, NULL, help)
#define DURATION(key, text, min, max, help) SETTING(key, DURATION, text, min, max, NULL, help)

static const ef__setting_spec specs[] = {
    TEXT("data", DATA_DEFAULT, "data directory"),
    TEXT("journal", "",
         "store of the journal: sqlite:PATH, postgres://HOST/DATABASE, nats://HOST:PORT/STREAM or "
         "memory:"),
    TEXT("control", "",
         "store of leases and runs if the journal is on JetStream: sqlite:PATH or "
         "postgres://HOST/DATABASE"),
    TEXT("views", "",
         "store of the views: sqlite:PATH, lmdb:FOLDER, postgres://HOST/DATABASE or memory:"),
    TEXT("server", "", "send commands to the server at this URL instead of opening stores"),
    TEXT("token_file", "", "file with the token for that server, unless EVERFOLD_TOKEN is set"),
    TEXT("ca_file", "",
         "PEM file with the CA of that server, if it is not one that the system trusts"),
    TEXT("tenant", "", "tenant"),
    CHOICE("output", "table", "table,json,ndjson", "output format"),
    CHOICE("log.level", "warn", "debug,info,warn,error", "lowest level that is logged"),
    CHOICE("log.format", "text", "text,json", "format of log lines"),
    CHOICE("mode", "auto",
           "auto,inline_apply_only,outbox_apply_only,shadow_only,inline_then_outbox,enqueue_only",
           "how events reach the projections; auto: derived from the flags that are set"),
    BOOL("outbox.enabled", "false", "appends write outbox rows"),
    BOOL("worker.enabled", "false", "a worker drains the outbox"),
    DURATION("worker.lease_ttl", "10s", 100, EF_LIMIT_LEASE_MS / 2,
             "duration of a lease: a dead worker is replaced after this time; shorter leases cost "
             "more writes"),
    DURATION("worker.lease_renew", "0", 0, EF_LIMIT_LEASE_MS / 2,
             "interval at which leases and heartbeat are renewed; 0: a third of worker.lease_ttl"),
    DURATION("worker.heartbeat_ttl", "0", 0, EF_LIMIT_LEASE_MS,
             "a worker without a heartbeat for half of this time is late, after all of it stale; "
             "0: twice worker.lease_ttl"),
    DURATION("worker.poll_interval", "2s", 1, 3600 * 1000,
             "longest time between two checks for work; new events wake workers at once"),
    INT("worker.batch", "1000", 1, EF_LIMIT_CLAIM_ROWS,
        "events that are claimed at a time; up to 16 times as many from a backlog"),
    INT("worker.catch_up_batch", "0", 0, 100000,
        "events of a step of a projection that catches up, at most; 0: 250000"),
    INT("worker.run_batch", "1000", 1, 100000, "events that a replay reads at a time"),
    TEXT("worker.metrics_listen", "",
         "ADDRESS:PORT where `work` serves /metrics, /livez and /readyz; empty: nowhere"),
    DURATION("retry.apply.base", "1s", 1, RETRY_MS_MAX,
             "delay before the first retry of an event that failed in a projection"),
    INT("retry.apply.factor", "2", 1, 100,
        "each further delay is the previous one times this factor"),
    DURATION("retry.apply.cap", "5m", 1, RETRY_MS_MAX, "longest delay"),
    INT("retry.apply.attempts", "8", 0, INT32_MAX,
        "the row is dead after this number of failures; 0: never"),
    DURATION("retry.cursor.base", "250ms", 1, RETRY_MS_MAX,
             "delay before the first retry of a tenant that failed in a log-ordered projection"),
    INT("retry.cursor.factor", "2", 1, 100,
        "each further delay is the previous one times this factor"),
    DURATION("retry.cursor.cap", "5m", 1, RETRY_MS_MAX, "longest delay"),
    INT("retry.cursor.attempts", "6", 0, INT32_MAX,
        "the tenant has failed after this number of failures, and is then retried every minute; 0: "
        "never"),
    DURATION(
        "retry.publish.base", "60s", 1, RETRY_MS_MAX,
        "for publishers that are added without --retry: delay before the first retry of a message"),
    INT("retry.publish.factor", "1", 1, 100,
        "for all publishers: each further delay is the previous one times this factor"),
    TEXT("publish.directories", "",
         "directories, separated by commas, below which publishers that are set over HTTP may "
         "write files and read secrets; empty: none"),
    DURATION("retry.publish.cap", "1h", 1, RETRY_MS_MAX,
             "for all publishers: longest delay, unless --retry is longer"),
    INT("retry.publish.attempts", "0", 0, INT32_MAX,
        "for publishers that are added without --attempts: a message is dead after this number of "
        "failures; 0: never"),
    BOOL("shadow_worker.enabled", "false",
         "a shadow worker reads the outbox without changing projections"),
    BOOL("compat.apply_wins", "false",
         "if both workers are on, the apply worker wins instead of an error"),
    INT("outbox.partitions", "16", 1, EF_LIMIT_PARTITIONS, "partitions of a new journal"),
    BOOL("types.strict", "false", "refuse event types that are not registered"),
    INT("types.max", "10000", 1, EF_LIMIT_TYPES,
        "event types that the appends of one tenant may create, in addition to registered ones"),
    DURATION("store.busy", "10s", 1, 3600 * 1000, "longest time that a call waits for the store"),
    TEXT("postgres.schema", "everfold",
         "schema of the journal in a PostgreSQL database, unless its URL has ef_schema"),
    TEXT("postgres.views_schema", "",
         "schema of the views there, unless the URL has ef_views_schema; empty: that of the "
         "journal followed by _views"),
    DURATION("work.live_lag", "100ms", 1, 3600 * 1000,
             "a rebuild yields while live events wait longer than this"),
    DURATION("work.retire_after", "7d", 0, INT64_C(3650) * 86400 * 1000,
             "time after which a generation that is no longer active is removed; 0: never"),
    TEXT("actor", "", "name of the operator, for audit entries"),
    TEXT("server.listen", "127.0.0.1:7450",
         "ADDRESS:PORT; an address other than loopback needs TLS and a token"),
    TEXT("server.socket", "",
         "path of the Unix socket for the user that runs the server; empty: DATA/server.sock; off: "
         "none"),
    TEXT("server.hosts", "", "accepted host names besides the address, separated by commas"),
    TEXT("server.tokens", "", "file with the tokens; empty: DATA/tokens"),
    TEXT("server.tls_certificate", "", "PEM file with the certificate and its chain"),
    TEXT("server.tls_key", "", "PEM file with the private key"),
    INT("server.threads", "64", 1, 1024, "requests that may use the stores at the same time"),
    INT("server.connections", "4096", 1, 100000,
        "connections at the same time; further ones wait until one closes"),
    BYTES("server.body", "16m", 1024, 256 << 20, "largest request body"),
    DURATION("server.request", "60s", 100, 3600 * 1000,
             "time to receive a request, and to send its response"),
    DURATION("server.query_time", "10s", 1, 3600 * 1000,
             "time that one query, explanation or time-travel read may take"),
    INT("server.query_steps", "100000000", 1000, INT64_MAX,
        "steps that one of them may take: expressions, items and views read"),
    DURATION("server.heartbeat", "15s", 1000, 3600 * 1000,
             "interval of keep-alive comments in a subscription without events"),
    DURATION("server.drain", "10s", 0, 3600 * 1000,
             "time for requests in flight to finish when the server stops"),
    BOOL("server.access_log", "false", "log every request"),
    TEXT("server.path", "",
         "path under which a reverse proxy publishes the server, such as /everfold"),
    BOOL("server.monitor", "true", "serve the monitor at /"),
};

ef_status cli_settings_table_open(ef__settings **out, ef_error *err)
{
    return ef__settings_open(specs, sizeof(specs) / sizeof(specs[0]), out, err);
}

ef__setting_view cli_setting(const cli *c, const char *key)
{
    return ef__settings_get(c->settings, key);
}

/* --- settings that depend on each other ------------------------------------------------------- */

static const char *const retry_kinds[] = {"apply", "cursor", "publish"};

/* 0 means a value derived from worker.lease_ttl. */
static int64_t lease_time(const ef__settings *settings, const char *key)
{
    int64_t given = ef__settings_int(settings, key);
    int64_t lease_ms = ef__settings_int(settings, "worker.lease_ttl");

    if (given > 0)
        return given;
    return strcmp(key, "worker.lease_renew") == 0 ? lease_ms / 3 : 2 * lease_ms;
}

static int64_t retry_number(const ef__settings *settings, const char *kind, const char *what)
{
    char key[64];

    (void)snprintf(key, sizeof key, "retry.%s.%s", kind, what);
    return ef__settings_int(settings, key);
}

static ef_status check_leases(const ef__settings *settings, ef_error *err)
{
    int64_t lease_ms = ef__settings_int(settings, "worker.lease_ttl");
    int64_t renew_ms = lease_time(settings, "worker.lease_renew");
    int64_t heartbeat_ms = lease_time(settings, "worker.heartbeat_ttl");

    if (renew_ms >= lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.lease_renew is %" PRId64 "ms and worker.lease_ttl is %" PRId64
                       "ms: a lease must be renewed before it expires",
                       renew_ms, lease_ms);
    if (heartbeat_ms < lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.heartbeat_ttl is %" PRId64 "ms and worker.lease_ttl is %" PRId64
                       "ms: a heartbeat must last as long as a lease",
                       heartbeat_ms, lease_ms);
    if (renew_ms >= heartbeat_ms / 2)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.lease_renew is %" PRId64 "ms and worker.heartbeat_ttl is %" PRId64
                       "ms: a worker is late after half of its heartbeat time without a renewal",
                       renew_ms, heartbeat_ms);
    return EF_OK;
}

ef_status cli_settings_check(const ef__settings *settings, ef_error *err)
{
    for (size_t i = 0; i < sizeof retry_kinds / sizeof retry_kinds[0]; i++) {
        int64_t base_ms = retry_number(settings, retry_kinds[i], "base");
        int64_t cap_ms = retry_number(settings, retry_kinds[i], "cap");
        if (cap_ms < base_ms)
            return ef_fail(err, EF_BAD_INPUT,
                           "retry.%s.cap is %" PRId64 "ms and retry.%s.base is %" PRId64
                           "ms: the longest delay must not be shorter than the first",
                           retry_kinds[i], cap_ms, retry_kinds[i], base_ms);
    }
    ef__schema_names schemas;
    ef_status st = ef__schema_names_init(&schemas, ef__settings_text(settings, "postgres.schema"),
                                         ef__settings_text(settings, "postgres.views_schema"), err);
    if (st == EF_OK)
        st = check_leases(settings, err);
    return st == EF_OK ? ef__server_path_check(ef__settings_text(settings, "server.path"), err)
                       : st;
}

/* Effective value of worker.lease_renew or worker.heartbeat_ttl. */
static ef_str lease_time_shown(const cli *c, const ef__setting_view *view)
{
    static char texts[2][24];
    bool renews = strcmp(view->spec->key, "worker.lease_renew") == 0;
    int64_t ms = lease_time(c->settings, view->spec->key);
    char *text = texts[renews];

    if (ef__settings_int(c->settings, view->spec->key) > 0)
        return view->value;
    (void)snprintf(text, sizeof texts[0], ms % 1000 ? "%" PRId64 "ms" : "%" PRId64 "s",
                   ms % 1000 ? ms : ms / 1000);
    return ef_str_from(text);
}

ef_retry_options cli_retry_options(const cli *c, const char *kind)
{
    int64_t attempts = retry_number(c->settings, kind, "attempts");

    return (ef_retry_options){.base_ms = retry_number(c->settings, kind, "base"),
                              .factor = retry_number(c->settings, kind, "factor"),
                              .cap_ms = retry_number(c->settings, kind, "cap"),
                              .attempts_max = attempts > 0 ? attempts : -1};
}

ef_work_options cli_work_options(const cli *c)
{
    const ef__settings *settings = c->settings;

    return (ef_work_options){.batch = (size_t)ef__settings_int(settings, "worker.batch"),
                             .lease_ms = ef__settings_int(settings, "worker.lease_ttl"),
                             .renew_ms = lease_time(settings, "worker.lease_renew"),
                             .heartbeat_ms = lease_time(settings, "worker.heartbeat_ttl")};
}

/* --- loading ---------------------------------------------------------------------------------- */

static const char *early_value(const cli *c, const char *option, const char *variable,
                               const char *otherwise)
{
    const char *given = cli_common_value(c, option);
    const char *value = given ? given : getenv(variable);

    return value && (given || value[0] != '\0') ? value : otherwise;
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

bool cli_url_on_server(const char *url)
{
    return strncmp(url, "postgres:", 9) == 0 || strncmp(url, "postgresql:", 11) == 0;
}

bool cli_url_in_memory(const char *url)
{
    return strncmp(url, "memory:", 7) == 0;
}

/* Adds the schema of the settings to a URL without one. */
static ef_status add_schema(const cli *c, const char *setting, const char *key,
                            char url[CLI_URL_BYTES], ef_error *err)
{
    ef__setting_view schema = cli_setting(c, setting);
    size_t used = strlen(url);

    if (schema.origin == EF__ORIGIN_DEFAULT || !cli_url_on_server(url) || strstr(url, key))
        return EF_OK;
    return snprintf(url + used, CLI_URL_BYTES - used, "%c%s%s", strchr(url, '?') ? '&' : '?', key,
                    schema.value.ptr) < (int)(CLI_URL_BYTES - used)
               ? EF_OK
               : ef_fail(err, EF_BAD_INPUT, "the URL of a store is too long");
}

/* Resolves the URL of a store, and the form that is printed: that of the setting, else `shared`
 * (NULL: none), else a file in the data directory. */
static ef_status store_url(const cli *c, const char *setting, const char *shared,
                           char url[CLI_URL_BYTES], char shown[CLI_URL_BYTES], ef_error *err)
{
    const char *given = cli_setting_text(c, setting);
    ef_status st = EF_OK;
    int n = given || shared ? snprintf(url, CLI_URL_BYTES, "%s", given ? given : shared)
                            : snprintf(url, CLI_URL_BYTES, "sqlite:%s/%s.db", cli_data(c), setting);

    if (n >= CLI_URL_BYTES)
        st = ef_fail(err, EF_BAD_INPUT, "the URL of the %s is too long", setting);
    if (st == EF_OK)
        st = add_schema(c, "postgres.schema", "ef_schema=", url, err);
    if (st == EF_OK)
        st = add_schema(c, "postgres.views_schema", "ef_views_schema=", url, err);
    ef_url_show(url, shown, CLI_URL_BYTES);
    return st;
}

static ef_status store_urls(cli *c, ef_error *err)
{
    const char *tokens = cli_setting_text(c, "server.tokens");
    int n = snprintf(c->tokens_file, PATH_MAX, tokens ? "%s" : "%s/tokens",
                     tokens ? tokens : cli_data(c));
    ef_status st = store_url(c, "journal", NULL, c->journal_url, c->journal_shown, err);

    /* Views of a memory: journal are in memory, because they must not outlive it. Views of a
     * journal on a database server are on the same server, because workers on other machines need
     * them. So is the control store of a JetStream journal, if the views are. */
    if (st == EF_OK)
        st = store_url(c, "views",
                       cli_url_in_memory(c->journal_url)   ? "memory:"
                       : cli_url_on_server(c->journal_url) ? c->journal_url
                                                           : NULL,
                       c->views_url, c->views_shown, err);
    if (st == EF_OK)
        st = store_url(c, "control", cli_url_on_server(c->views_url) ? c->views_url : NULL,
                       c->control_url, c->control_shown, err);
    return st == EF_OK && n >= PATH_MAX
               ? ef_fail(err, EF_BAD_INPUT, "the path of the token file is too long")
               : st;
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

const char *cli_setting_text(const cli *c, const char *key)
{
    ef_str text = ef__settings_text(c->settings, key);

    return text.len > 0 ? text.ptr : NULL;
}

const char *cli_data(const cli *c)
{
    return ef__settings_text(c->settings, "data").ptr;
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
        return lease_time_shown(c, view);
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

    return snprintf(path, sizeof(path), "%s/" RESTORE_MARK, cli_data(c)) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

ef_status cli_journal_open(cli *c, const ef_journal_options *extra, ef_error *err)
{
    bool in_memory = cli_url_in_memory(c->journal_url);
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
                       "the restore of data directory %s is incomplete: remove it, and restore "
                       "the backup again",
                       cli_data(c));
    if (!c->mode_logged) /* serve opens again to create the store */
        ef__log(&c->log, EF_LOG_INFO, "mode resolved",
                EF_LOG_TEXT_FIELD("mode", ef_str_from(cli_mode_name(c->mode))));
    c->mode_logged = true;
    return ef_journal_open(&options, &c->journal, err);
}

const char *cli_journal_hint(cli *c, ef_status status)
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
    cli_hint(c, "run: everfold %s%s", verb, where);
    return c->hint;
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
