/*
 * cmd_serve.c - everfold serve: API and workers in one process.
 *
 * Missing stores are created. The first signal drains, a second one ends the process at once. A
 * service manager is notified by the protocol of systemd: a datagram to a socket, and variables in
 * the environment. Without one nothing is sent.
 */
#include "cli.h"
#include "../server/server.h"

#include <everfold/shadow.h>
#include <everfold/supervisor.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 3

/* Does a service manager expect notifications? */
static bool is_notify_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && (path[0] == '/' || path[0] == '@') &&
           strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path);
}

/* "READY=1\nSTATUS=…" */
static void notify_manager(const char *format, ...)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;
    size_t n;
    int fd;

    if (!is_notify_wanted())
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    n = strlen(getenv("NOTIFY_SOCKET"));
    memcpy(to.sun_path, getenv("NOTIFY_SOCKET"), n);
    if (to.sun_path[0] == '@') /* an abstract socket name */
        to.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)close(fd);
}

/* RELOADING=1 with the time that the protocol asks for. READY=1 ends it. */
static void notify_reloading(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    notify_manager(
        "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading settings, certificate and tokens",
        (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

/* A number in the environment that is meant for this process; 0 if there is none. */
static int64_t env_number(const char *name, const char *pid_name)
{
    const char *text = getenv(name), *pid = getenv(pid_name);

    if (!text || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return strtoll(text, NULL, 10);
}

/* The listening socket passed by the manager; 0: none. EF_BAD_INPUT: more than one socket, or one
 * that does not listen. */
static ef_status notify_socket(int *out_fd, ef_error *err)
{
    int64_t count = getenv("LISTEN_PID") ? env_number("LISTEN_FDS", "LISTEN_PID") : 0;
    int listens = 0;
    socklen_t size = sizeof(listens);

    *out_fd = 0;
    if (count <= 0)
        return EF_OK;
    if (count > 1)
        return ef_fail(err, EF_BAD_INPUT, "LISTEN_FDS is %lld: only one socket is supported",
                       (long long)count);
    if (getsockopt(FIRST_FD, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        return ef_fail(err, EF_BAD_INPUT,
                       "LISTEN_FDS: the passed descriptor is not a listening socket");
    (void)fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(FIRST_FD, F_SETFL, O_NONBLOCK);
    *out_fd = FIRST_FD;
    return EF_OK;
}

#define STOP_SEEN_MS 200
#define STATUS_MS 10000
#define TASKS_MAX 72 /* queue, runs, and at most 64 cursors */

/* Progress of a task when it last moved. */
typedef struct pulse {
    int64_t steps, failures;
    int64_t moved_us;
} pulse;

typedef struct serving {
    cli *c;
    ef_supervisor *supervisor;
    ef_shadow *shadow; /* in shadow_only; NULL otherwise */
    ef__server *server;
    cli_demo *demo; /* NULL without --demo */
    char socket[PATH_MAX];
    char otlp[PATH_MAX];
    int64_t watchdog_us; /* interval in which the manager expects WATCHDOG=1; 0: it does not */
    int64_t beat_us, status_us;
    int64_t drain_ms;
    pulse pulses[TASKS_MAX];
} serving;

static volatile sig_atomic_t reload_asked;

static void record_reload(int number)
{
    (void)number;
    reload_asked = 1;
}

/* A thousand subscribers need a thousand descriptors. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static ef_status start_workers(serving *s, ef_error *err)
{
    int64_t workers = cli_int(s->c, "workers");
    ef_status st = EF_OK;

    if (workers == 0 || s->c->mode == CLI_MODE_ENQUEUE_ONLY)
        return EF_OK;
    if (s->c->mode == CLI_MODE_SHADOW_ONLY)
        st = ef_shadow_open(s->c->engine, &s->shadow, err);
    if (st != EF_OK)
        return st;
    return ef_supervisor_start(&(ef_supervisor_options){.engine = s->c->engine,
                                                        .work = cli_work_options(s->c),
                                                        .interval_ms = ef__settings_int(
                                                            s->c->settings, "worker.poll_interval"),
                                                        .cursor_threads = (int32_t)workers,
                                                        .shadow = s->shadow},
                               &s->supervisor, err);
}

static ef_status deploy_file(cli *c, const char *path, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(1 << 20);
    EF__AUTO(ef_projection_list) deployed = {0};
    EF__AUTO(ef_text) report = {0};
    ef_status st = cli_file_read(path, &text, err);

    if (st == EF_OK)
        st = ef_projection_deploy(
            c->engine,
            &(ef_deploy){.file_name = path, .text = ef__buf_str(&text), .refuse_superseded = true},
            &deployed, &report, err);
    if (st == EF_EXISTS) { /* a newer version is active: the file is outdated */
        cli_warn(c, "everfold: %s: %s", path, err->text);
        st = EF_OK;
    }
    if (st != EF_OK && report.len > 0 && cli_logs_messages(c))
        cli_warn(c, "%.*s", (int)report.len, report.ptr);
    else if (st != EF_OK && report.len > 0)
        cli_lines_say((ef_str){report.ptr, report.len});
    return st;
}

static int is_program(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".fold") == 0;
}

/* Deploys every *.fold file of the directory, in order of their names. */
static ef_status deploy_all(cli *c, const char *directory, ef_error *err)
{
    struct dirent **names = NULL;
    int count = directory ? scandir(directory, &names, is_program, alphasort) : 0;
    ef_status st = count >= 0 ? EF_OK
                              : ef_fail(err, EF_NOT_FOUND, "--projections %s cannot be read: %s",
                                        directory, strerror(errno));

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (st == EF_OK &&
            snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name) < (int)sizeof(path))
            st = deploy_file(c, path, err);
        free(names[i]);
    }
    free(names);
    return st;
}

/* Reads the standard variables of OpenTelemetry. NULL: no traces. */
static const char *otlp_url(char room[PATH_MAX])
{
    const char *traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    const char *all = getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), *off = getenv("OTEL_SDK_DISABLED");
    size_t length = all ? strlen(all) : 0;

    if (off && strcasecmp(off, "true") == 0)
        return NULL;
    if (traces && traces[0])
        return traces;
    while (length > 0 && all[length - 1] == '/')
        length--;
    if (length == 0 || snprintf(room, PATH_MAX, "%.*s/v1/traces", (int)length, all) >= PATH_MAX)
        return NULL;
    return room;
}

static bool wants_access_log(const cli *c, const ef__settings *settings)
{
    return cli_has(c, "access-log") || ef__settings_bool(settings, "server.access_log");
}

/* The path as it means the same from any working directory; "": none, because it is switched off,
 * or because the stores are elsewhere and there is no data directory. */
static ef_status choose_socket(const cli *c, char out[PATH_MAX], ef_error *err)
{
    const char *set = cli_setting_text(c, "server.socket");
    char folder[PATH_MAX];
    int n = 0;

    out[0] = '\0';
    if (set && strcmp(set, "off") == 0)
        return EF_OK;
    if (set && set[0] == '/')
        n = snprintf(out, PATH_MAX, "%s", set);
    else if (set && getcwd(folder, sizeof folder))
        n = snprintf(out, PATH_MAX, "%s/%s", folder, set);
    else if (!set && realpath(cli_setting_text(c, "data"), folder))
        n = snprintf(out, PATH_MAX, "%s/server.sock", folder);
    if (set && n == 0)
        return ef_fail(err, EF_IO, "server.socket is %s, and there is no working directory", set);
    return n < PATH_MAX ? EF_OK : ef_fail(err, EF_BAD_INPUT, "server.socket is too long");
}

ef__server_options cli_server_options(cli *c)
{
    return (ef__server_options){.journal = c->journal,
                                .engine = c->engine,
                                .tls_certificate = cli_setting_text(c, "server.tls_certificate"),
                                .tls_key = cli_setting_text(c, "server.tls_key"),
                                .hosts = cli_setting_text(c, "server.hosts"),
                                .tokens = c->tokens_file,
                                .mode = cli_mode_name(c->mode),
                                .url = c->journal_shown,
                                .views_url = c->views_shown,
                                .log = &c->log};
}

static ef_status start_server(serving *s, ef_error *err)
{
    cli *c = s->c;
    const ef__settings *set = c->settings;
    ef__server_options options = cli_server_options(c);
    ef_status st = notify_socket(&options.listen_fd, err);

    if (st == EF_OK)
        st = choose_socket(c, s->socket, err);
    if (st != EF_OK)
        return st;
    options.supervisor = s->supervisor;
    options.listen = cli_setting_text(c, "server.listen");
    options.socket = s->socket[0] ? s->socket : NULL;
    options.socket_optional = cli_setting_text(c, "server.socket") == NULL;
    options.query_steps = ef__settings_int(set, "server.query_steps");
    options.query_ms = ef__settings_int(set, "server.query_time");
    options.publish_directories = ef__settings_text(set, "publish.directories");
    options.publish_retry_ms = ef__settings_int(set, "retry.publish.base");
    options.publish_attempts = ef__settings_int(set, "retry.publish.attempts");
    options.threads_max = ef__settings_int(set, "server.threads");
    options.connections_max = ef__settings_int(set, "server.connections");
    options.body_bytes_max = ef__settings_int(set, "server.body");
    options.request_ms = ef__settings_int(set, "server.request");
    options.heartbeat_ms = ef__settings_int(set, "server.heartbeat");
    options.access_log = wants_access_log(c, set);
    options.otlp_url = otlp_url(s->otlp);
    options.otlp_headers = getenv("OTEL_EXPORTER_OTLP_HEADERS");
    options.otlp_service = getenv("OTEL_SERVICE_NAME");
    options.path = cli_setting_text(c, "server.path");
    options.no_monitor = !ef__settings_bool(set, "server.monitor");
    return ef__server_start(&options, &s->server, err);
}

/* --- service manager -------------------------------------------------------------------------- */

/* Do all tasks make progress? A task that fails does, because it retries and a restart would not
 * help. A task that hangs in a step does not. */
static bool tasks_move(serving *s)
{
    ef_task tasks[TASKS_MAX];
    size_t count = s->supervisor ? ef_supervisor_tasks(s->supervisor, tasks, TASKS_MAX) : 0;
    int64_t now = cli_mono_us();
    bool all = true;

    for (size_t i = 0; i < count && i < TASKS_MAX; i++) {
        pulse *p = &s->pulses[i];
        if (p->moved_us == 0 || tasks[i].steps != p->steps ||
            tasks[i].failures_in_a_row != p->failures)
            *p = (pulse){tasks[i].steps, tasks[i].failures_in_a_row, now};
        all = all && now - p->moved_us < s->watchdog_us;
    }
    return all;
}

/* Feeds the watchdog twice per interval. */
static void feed_watchdog(serving *s)
{
    if (s->watchdog_us <= 0 || cli_mono_us() - s->beat_us < s->watchdog_us / 2)
        return;
    s->beat_us = cli_mono_us();
    if (tasks_move(s))
        notify_manager("WATCHDOG=1");
}

static void notify_status(serving *s)
{
    EF__AUTO(ef_projection_list) list = {0};
    int64_t lag = 0;

    if (!is_notify_wanted() || cli_mono_us() - s->status_us < STATUS_MS * 1000ll)
        return;
    s->status_us = cli_mono_us();
    if (ef_projection_ls(s->c->engine, EF_STR(""), &list, NULL) == EF_OK) {
        for (size_t i = 0; i < list.count; i++)
            lag = list.items[i].lag_events > lag ? list.items[i].lag_events : lag;
        notify_manager("STATUS=serves at %s; %zu projections, maximum lag %lld events",
                       ef__server_url(s->server), list.count, (long long)lag);
    }
}

/* --- reload ----------------------------------------------------------------------------------- */

static bool can_change_live(const char *key)
{
    return strcmp(key, "log.level") == 0 || strcmp(key, "server.access_log") == 0 ||
           strcmp(key, "server.drain") == 0;
}

/* Applies settings that can change at run time, warns about others. Flags keep their values. */
static void apply_reloaded_settings(serving *s, const ef__settings *fresh)
{
    cli *c = s->c;

    cli_log_level(c, ef__settings_text(fresh, "log.level"));
    ef__server_log_access(s->server, wants_access_log(c, fresh));
    s->drain_ms = ef__settings_int(fresh, "server.drain");
    for (size_t i = 0; i < ef__settings_count(fresh); i++) {
        ef__setting_view was = ef__settings_at(c->settings, i), is = ef__settings_at(fresh, i);
        if (was.origin != EF__ORIGIN_FLAG && !can_change_live(is.spec->key) &&
            !ef_str_equal(was.value, is.value))
            cli_warn(c, "everfold: %s has changed; restart to apply it", is.spec->key);
    }
}

/* All or nothing: an invalid part leaves everything unchanged. */
static void reload_settings(serving *s)
{
    ef_error err = EF_ERROR_INIT;
    ef__settings *fresh = NULL;
    ef_status st;

    reload_asked = 0;
    notify_reloading();
    st = cli_settings_read(s->c, &fresh, &err);
    if (st == EF_OK)
        st = cli_settings_check(fresh, &err);
    if (st == EF_OK)
        st = ef__server_reload(s->server, &err);
    if (st == EF_OK) {
        apply_reloaded_settings(s, fresh);
        cli_say(s->c, "everfold: reloaded settings, certificate and tokens");
    } else {
        cli_warn(s->c, "everfold: reload failed, nothing was changed: %s", err.text);
    }
    ef__settings_close(fresh);
    notify_manager("READY=1\nSTATUS=serves at %s", ef__server_url(s->server));
}

/* The demo uses a temporary data directory unless one is given. */
static ef_status choose_data(cli *c, ef_error *err)
{
    static char data[PATH_MAX];
    ef_status st;

    if (!cli_has(c, "demo") || cli_setting(c, "data").origin != EF__ORIGIN_DEFAULT)
        return EF_OK;
    st = cli_demo_directory(data, err);
    return st == EF_OK ? cli_data_use(c, data, err) : st;
}

static void serve_on(serving *s)
{
    const char *path = ef__server_socket(s->server);

    s->watchdog_us = env_number("WATCHDOG_USEC", "WATCHDOG_PID");
    if (!ef__tokens_any(s->server))
        cli_say(s->c,
                "no token exists: only loopback connections are accepted; tokens and publishers "
                "are %s%s",
                path ? "for this user and root only, at unix:" : "refused without a socket",
                path ? path : "");
    cli_say(s->c, "everfold serves at %s", ef__server_url(s->server));
    if (s->demo)
        cli_demo_say(s->c, ef__server_url(s->server));
    notify_manager("READY=1\nSTATUS=serves at %s", ef__server_url(s->server));
    while (!cli_stopped()) {
        if (reload_asked)
            reload_settings(s);
        feed_watchdog(s);
        notify_status(s);
        cli_sleep_us(STOP_SEEN_MS * 1000);
    }
    notify_manager("STOPPING=1\nSTATUS=finishing requests in flight");
    cli_say(s->c, "everfold: stopping");
}

static ef_status run_server(cli *c, ef_error *err)
{
    serving s = {.c = c, .drain_ms = ef__settings_int(c->settings, "server.drain")};
    bool made = false;
    ef_status st;

    raise_limits();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigaction(SIGHUP, &(struct sigaction){.sa_handler = record_reload}, NULL);
    cli_stop_on_signals();
    st = choose_data(c, err);
    if (st == EF_OK)
        st = cli_stores_make(c, &made, err);
    if (st == EF_OK)
        st = deploy_all(c, cli_value(c, "projections"), err);
    if (st == EF_OK && cli_has(c, "demo"))
        st = cli_demo_open(c, cli_int(c, "demo-rate"), &s.demo, err);
    if (st == EF_OK)
        st = start_workers(&s, err);
    if (st == EF_OK)
        st = start_server(&s, err);
    if (st == EF_OK)
        serve_on(&s);
    cli_demo_close(s.demo);
    ef__server_stop(s.server, s.drain_ms);
    ef_supervisor_stop(s.supervisor);
    ef_shadow_close(s.shadow);
    return st;
}

const cli_command cli_cmd_serve = {
    .name = "serve",
    .summary = "run API, workers and monitor in one process",
    .options = CLI_OPTIONS(
        CLI_SETTING("listen", "ADDRESS:PORT", "server.listen",
                    "address to listen on (default 127.0.0.1:7450)"),
        CLI_SETTING(
            "socket", "PATH", "server.socket",
            "Unix socket for the user that runs the server (default DATA/server.sock); off: none",
            .words = "@file"),
        CLI_SETTING("tls-certificate", "FILE", "server.tls_certificate",
                    "PEM file with the certificate and its chain", .words = "@file"),
        CLI_SETTING("tls-key", "FILE", "server.tls_key", "PEM file with the private key",
                    .words = "@file"),
        CLI_SETTING("hosts", "NAMES", "server.hosts",
                    "accepted host names besides the address, separated by commas"),
        CLI_SETTING("path", "PATH", "server.path",
                    "path under which a reverse proxy publishes the server"),
        CLI_INT("workers", "N", 0, 64, 1,
                "number of worker threads; 0: no workers in this process"),
        CLI_WORDS(
            "projections", "DIR", "@dir",
            "deploy every *.fold file of this directory at startup, except versions below the "
            "active "
            "one"),
        CLI_SETTING("mode", "MODE", "mode", "how events reach the projections"),
        CLI_FLAG("demo", "run a demo shop with simulated traffic and an occasional poison event"),
        CLI_INT("demo-rate", "N", 1, 10000, 20, "events per second of the demo (default 20)"),
        CLI_FLAG("access-log", "log every request")),
    .more =
        "Until a token exists, the server accepts loopback connections only, and reports this.\n"
        "Tokens and publishers are then reserved to the user that runs the server and to root,\n"
        "over its Unix socket, which a command with --server http://127.0.0.1:PORT finds by\n"
        "itself. An interrupt lets requests in flight finish; a second one, more than a second\n"
        "later, ends the process at once. SIGHUP reloads certificate, tokens, log.level,\n"
        "server.access_log and server.drain. Under systemd it accepts a passed socket, reports\n"
        "readiness, and feeds the watchdog while its workers make progress.",
    .example = "everfold serve --listen 127.0.0.1:7450",
    .call = run_server,
    .local = true,
    .service = true,
};
