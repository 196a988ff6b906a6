/*
 * cmd_publisher_add.c - everfold publisher add NAME --to URL
 */
#include "commands.h"
#include "front.h"
#include "publisher.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Texts that a publisher is made of. */
typedef struct texts {
    char url[PATH_MAX + 64];
    char secret[PATH_MAX + 16];
} texts;

/* A worker may run elsewhere: a path means the same everywhere. */
static ef_status absolute(const char *scheme, const char *path, char *out, size_t size,
                          ef_error *err)
{
    char folder[PATH_MAX] = "";

    if (path[0] != '/' && strcmp(path, "-") != 0 && !getcwd(folder, sizeof folder))
        return ef_fail(err, EF_IO, "the current folder cannot be found");
    if ((size_t)snprintf(out, size, "%s%s%s%s", scheme, folder, folder[0] ? "/" : "", path) >= size)
        return ef_fail(err, EF_BAD_INPUT, "the path '%s' is too long", path);
    return EF_OK;
}

static ef_status read_texts(const cli *c, texts *t, ef_publisher *p, ef_error *err)
{
    const char *to = cli_value(c, "to"), *file = cli_value(c, "secret-file"),
               *env = cli_value(c, "secret-env");
    ef_status st = EF_OK;

    if (!to)
        return ef_fail(err, EF_BAD_INPUT, "--to URL is needed");
    if (file && env)
        return ef_fail(err, EF_BAD_INPUT, "--secret-file and --secret-env exclude each other");
    if (strncmp(to, "file:", 5) == 0 && strncmp(to, "file:///", 8) != 0)
        st = absolute("file:", to + 5, t->url, sizeof t->url, err);
    else if ((size_t)snprintf(t->url, sizeof t->url, "%s", to) >= sizeof t->url)
        st = ef_fail(err, EF_BAD_INPUT, "--to is too long");
    if (st == EF_OK && file)
        st = absolute("file:", file, t->secret, sizeof t->secret, err);
    else if (env)
        (void)snprintf(t->secret, sizeof t->secret, "env:%s", env);
    p->url = ef_str_from(t->url);
    p->secret = ef_str_from(t->secret);
    return st;
}

/* A time that has to be one: 0 would mean the default to the library. */
static ef_status read_time(const cli *c, const char *name, int64_t *out, ef_error *err)
{
    ef_status st = cli_duration(c, name, out, err);

    if (st == EF_OK && cli_has(c, name) && *out == 0)
        st = ef_fail(err, EF_BAD_INPUT, "--%s is 0: 1ms or more is needed", name);
    return st;
}

static ef_status read_numbers(const cli *c, ef_publisher *p, ef_error *err)
{
    int64_t files = 0, flight = 0;
    ef_status st;

    if (!c->client) { /* a server has settings of its own */
        p->retry_ms = ef__settings_int(c->settings, "retry.publish.base");
        p->attempts_max = ef__settings_int(c->settings, "retry.publish.attempts");
    }
    st = read_time(c, "retry", &p->retry_ms, err);

    if (st == EF_OK)
        st = cli_number(c, "attempts", 1, INT32_MAX, &p->attempts_max, err);
    if (st == EF_OK)
        st = cli_duration(c, "retain", &p->retain_ms, err);
    if (st == EF_OK && cli_has(c, "retain") && p->retain_ms == 0)
        p->retain_ms = EF_RETAIN_NONE;
    if (st == EF_OK)
        st = read_time(c, "timeout", &p->timeout_ms, err);
    if (st == EF_OK)
        st = cli_number(c, "file-bytes", 1, INT64_MAX / 2, &p->file_bytes, err);
    if (st == EF_OK)
        st = cli_number(c, "files", 1, 10000, &files, err);
    if (st == EF_OK)
        st = cli_number(c, "in-flight", 1, 256, &flight, err);
    p->file_count = (int32_t)files;
    p->in_flight = (int32_t)flight;
    return st;
}

/* Adding twice by mistake would send everything to another place. */
static ef_status check_new(cli *c, ef_str name, ef_error *err)
{
    ef_publisher_list found = {0};
    ef_status st = cli_publisher_get(c, name, &found, err);

    ef_publisher_list_release(&found);
    if (st == EF_OK)
        return ef_fail(err, EF_EXISTS,
                       "there is a publisher \"%.*s\" already; --replace changes it",
                       EF_STR_ARG(name));
    return st == EF_NOT_FOUND ? EF_OK : st;
}

/* Nothing is published unless its type says so: easily forgotten. */
static void warn_if_nothing_goes_out(cli *c)
{
    ef_type_list types = {0};
    size_t published = 0;

    if (cli_type_ls(c, &types, NULL) != EF_OK)
        return;
    for (size_t i = 0; i < types.count; i++)
        published += types.items[i].publish;
    if (published == 0)
        cli_say(c, "no event type is published yet; run: everfold type set TYPE --publish yes");
    ef_type_list_release(&types);
}

static int run_add(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    texts t = {.url = ""};
    ef_publisher p = {.name = ef_str_from(c->arguments[0]),
                      .allow_private = cli_has(c, "allow-private"),
                      .paused = cli_has(c, "paused")};
    ef_status st = read_texts(c, &t, &p, &err);
    int rc;

    if (st == EF_OK)
        st = read_numbers(c, &p, &err);
    if (cli_has(c, "types"))
        p.types = ef_str_from(cli_value(c, "types"));
    if (cli_has(c, "partition-by"))
        p.partition_by = ef_str_from(cli_value(c, "partition-by"));
    rc = st == EF_OK ? cli_journal_need(c, false) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    if (!cli_has(c, "replace"))
        st = check_new(c, p.name, &err);
    if (st == EF_OK) {
        err = (ef_error)EF_ERROR_INIT;
        st = cli_publisher_set(c, &p, &err);
    }
    if (st == EF_OK)
        st = cli_note(c, "publisher_set", p.name, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    warn_if_nothing_goes_out(c);
    return cli_show_publisher(c, p.name);
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "what it is called"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"to", 0, "URL", NULL, NULL,
     "file:PATH, file:- (stdout), https://HOST/PATH, nats://HOST:PORT/SUBJECT"},
    {"types", 0, "LIST", NULL, NULL, "only these: NAME or PREFIX*, with commas between them"},
    {"partition-by", 0, "WHAT", NULL, "stream,tenant,type",
     "the key of messages: stream (default), tenant, type, data.MEMBER"},
    {"retry", 0, "TIME", NULL, NULL, "try what failed again after this time (default 60s)"},
    {"attempts", 0, "N", NULL, NULL, "dead at the Nth failure (default never)"},
    {"retain", 0, "TIME", NULL, NULL,
     "keep note of what was published for so long (default 1h, 10m for nats; 0 keeps none)"},
    {"timeout", 0, "TIME", NULL, NULL, "wait so long for an answer (default 10s)"},
    {"file-bytes", 0, "N", NULL, NULL, "file: begin a new one at this size (default never)"},
    {"files", 0, "N", NULL, NULL, "file: keep so many old ones (default 10)"},
    {"in-flight", 0, "N", NULL, NULL, "webhook: so many requests at once (default 8)"},
    {"secret-file", 0, "PATH", NULL, "@file",
     "where workers read what webhooks are signed by, or NATS' USER:PASSWORD or token"},
    {"secret-env", 0, "NAME", NULL, NULL, "the same, from the worker's environment"},
    {"allow-private", 0, NULL, NULL, NULL, "webhook, NATS: also to addresses that are not public"},
    {"paused", 0, NULL, NULL, NULL, "queue, but deliver nothing yet"},
    {"replace", 0, NULL, NULL, NULL, "change the one that is there"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_publisher_add = {
    .name = "publisher add",
    .summary = "hand events to a file, a webhook or NATS",
    .options = options,
    .arguments = arguments,
    .more =
        "From now on every event of a published type (everfold type set TYPE --publish yes) that\n"
        "fits --types is queued for it, in the transaction of its append, and delivered by "
        "workers\n"
        "at least once, the events of a stream in their order. What fails is tried again and "
        "holds\n"
        "back its own stream only. Messages are CloudEvents in JSON; see docs/publishing.md.",
    .example = "everfold publisher add archive --to file:orders.ndjson --types 'order.*'",
    .run = run_add,
};
