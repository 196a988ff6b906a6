/*
 * cmd_serve.c - everfold serve: API and workers in one process.
 *
 * The stores are made if they are not there: a first `serve` is the first day. The first signal
 * drains, a second one ends the process at once.
 */
#include "commands.h"

#include "../server/server.h"

#include <everfold/supervisor.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define DRAIN_MS 10000
#define STOP_SEEN_MS 200

typedef struct serving {
    cli *c;
    ef_supervisor *supervisor;
    ef__server *server;
    char tokens[PATH_MAX];
} serving;

/* A thousand followers need a thousand descriptors. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void on_step(void *context, const char *post, const ef_tick *tick, const ef_error *error)
{
    serving *s = context;

    if (error)
        cli_warn(s->c, "everfold: %s: %s; trying again in %lld ms", post, error->text,
                 (long long)tick->backoff_ms);
}

static ef_status start_workers(serving *s, ef_error *err)
{
    int64_t workers = 1;
    ef_status st = cli_number(s->c, "workers", 0, 64, &workers, err);
    bool folds =
        s->c->mode == CLI_MODE_OUTBOX_APPLY_ONLY || s->c->mode == CLI_MODE_INLINE_THEN_OUTBOX;

    if (st != EF_OK || workers == 0 || !folds)
        return st;
    return ef_supervisor_start(
        &(ef_supervisor_options){
            .engine = s->c->engine,
            .work = {.lease_ms = ef__settings_int(s->c->settings, "worker.lease_ttl")},
            .cursor_threads = (int32_t)workers,
            .on_step = on_step,
            .context = s},
        &s->supervisor, err);
}

static ef_status deploy_file(cli *c, const char *path, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(1 << 20);
    ef_projection_list deployed = {0};
    ef_text report = {0};
    ef_status st = cli_file_read(path, &text, err);

    if (st == EF_OK)
        st = ef_projection_deploy(c->engine, path, ef__buf_str(&text), &deployed, &report, err);
    if (st != EF_OK && report.len > 0)
        cli_lines_say((ef_str){report.ptr, report.len});
    ef_projection_list_release(&deployed);
    ef_text_release(&report);
    ef__buf_release(&text);
    return st;
}

static int is_program(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".fold") == 0;
}

/* Every *.fold of the directory, by name. */
static ef_status deploy_all(cli *c, const char *directory, ef_error *err)
{
    struct dirent **names = NULL;
    int count = directory ? scandir(directory, &names, is_program, alphasort) : 0;
    ef_status st = count < 0
                       ? ef_fail(err, EF_NOT_FOUND, "--projections %s cannot be read", directory)
                       : EF_OK;

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

static ef_status start_server(serving *s, ef_error *err)
{
    cli *c = s->c;
    ef_str data = cli_setting(c, "data").value;

    (void)snprintf(s->tokens, sizeof(s->tokens), "%.*s/tokens", EF_STR_ARG(data));
    return ef__server_start(&(ef__server_options){.journal = c->journal,
                                                  .engine = c->engine,
                                                  .supervisor = s->supervisor,
                                                  .listen = cli_value(c, "listen"),
                                                  .tokens = s->tokens,
                                                  .mode = cli_mode_name(c->mode),
                                                  .access_log = cli_has(c, "access-log"),
                                                  .log = &c->log},
                            &s->server, err);
}

static void serve_on(serving *s)
{
    struct timespec slice = {.tv_nsec = STOP_SEEN_MS * 1000000};

    cli_say(s->c, "everfold serves at %s", ef__server_url(s->server));
    while (!cli_stopped())
        (void)nanosleep(&slice, NULL);
    cli_say(s->c, "everfold: stopping");
}

static int run_serve(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    serving s = {.c = c};
    bool made = false;
    ef_status st;

    raise_limits();
    (void)signal(SIGPIPE, SIG_IGN);
    cli_stop_on_signals();
    st = cli_stores_make(c, &made, &err);
    if (st == EF_OK)
        st = deploy_all(c, cli_value(c, "projections"), &err);
    if (st == EF_OK)
        st = start_workers(&s, &err);
    if (st == EF_OK)
        st = start_server(&s, &err);
    if (st == EF_OK)
        serve_on(&s);
    ef__server_stop(s.server, DRAIN_MS);
    ef_supervisor_stop(s.supervisor);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

static const cli_option options[] = {
    {"listen", 0, "ADDRESS:PORT", NULL, NULL, "where to listen (default 127.0.0.1:7450)"},
    {"workers", 0, "N", NULL, NULL, "threads that read for projections; 0: no work here"},
    {"projections", 0, "DIR", NULL, "@dir", "deploy every *.fold of this directory first"},
    {"mode", 0, "MODE", "mode", NULL, "how events reach the projections"},
    {"access-log", 0, NULL, NULL, NULL, "log every request"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_serve = {
    .name = "serve",
    .summary = "API and workers in one process, until interrupted",
    .options = options,
    .more = "Without any token made it serves this machine only, and says so. An interrupt lets\n"
            "requests in hand finish; a second one ends it at once.",
    .example = "everfold serve --listen 127.0.0.1:7450",
    .run = run_serve,
};
