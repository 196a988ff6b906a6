/*
 * cmd_publisher.c - everfold publisher add NAME --to URL, ls, show, pause, resume and rm
 */
#include "calls.h"

#include <everfold/publisher.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static ef_status count_rows(cli *c, ef_str name, ef_outbox_summary *out, int64_t *published,
                            ef_error *err)
{
    ef_outbox_query query = {.lane = name, .any_tenant = true};
    ef_status st = cli_outbox_summarise(c, &query, out, err);

    return st == EF_OK ? cli_published_count(c, name, published, err) : st;
}

static void print_publisher_json(cli *c, cli_list *list, bool one, const ef_publisher *p,
                                 const ef_outbox_summary *rows, int64_t published)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (!one)
        cli_list_next(c, list);
    ef__json_open(&w, '{');
    ef__shape_members(&w, &ef__shape_publisher, p);
    ef__json_member_int(&w, "pending", rows->pending);
    ef__json_member_int(&w, "processing", rows->processing);
    ef__json_member_int(&w, "failed", rows->failed);
    ef__json_member_int(&w, "dead", rows->dead);
    ef__json_member_int(&w, "blocked", rows->blocked);
    ef__json_member_int(&w, "kept", published);
    ef__json_close(&w, '}');
    if (one)
        ef__buf_add_char(&c->out, '\n');
    else
        (void)cli_list_item_end(c, list);
}

static void add_row(cli_table *table, const ef_publisher *p, const ef_outbox_summary *rows,
                    int64_t published)
{
    char kept[32];

    cli_table_text(table, p->name);
    cli_table_text(table, p->url);
    cli_table_text(table, p->types.len ? p->types : EF_STR("*"));
    cli_table_text(table, p->partition_by);
    cli_table_text(table, p->paused ? EF_STR("paused") : EF_STR("running"));
    cli_table_int(table, rows->pending + rows->processing);
    cli_table_int(table, rows->failed);
    cli_table_int(table, rows->dead);
    (void)snprintf(kept, sizeof kept, "%" PRId64 "%s", published,
                   published < EF_PUBLISHED_COUNTED ? "" : "+");
    cli_table_text(table, ef_str_from(kept));
}

/* Prints a list; with `one`, -o json prints an object instead of an array. */
static int show_publishers(cli *c, const ef_publisher_list *publishers, bool one)
{
    static const char *const heads[] = {"PUBLISHER", "TO",     "TYPES", "BY",  "STATE",
                                        "PENDING",   "FAILED", "DEAD",  "KEPT"};
    cli_table table = CLI_TABLE_INIT(heads, 9, 0xfu << 5);
    cli_list list = {.lines = c->format == CLI_NDJSON};
    ef_error err = EF_ERROR_INIT;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < publishers->count; i++) {
        const ef_publisher *p = &publishers->items[i];
        ef_outbox_summary rows = {0};
        int64_t published = 0;
        st = count_rows(c, p->name, &rows, &published, &err);
        if (st == EF_OK && c->format == CLI_TABLE)
            add_row(&table, p, &rows, published);
        else if (st == EF_OK)
            print_publisher_json(c, &list, one, p, &rows, published);
        EF_RELEASE(&rows.oldest);
    }
    if (st == EF_OK && c->format != CLI_TABLE && !one)
        cli_list_end(c, &list);
    if (st == EF_OK && c->format == CLI_TABLE)
        (void)cli_table_flush(c, &table);
    cli_table_release(&table);
    return st == EF_OK ? 0 : cli_fail(c, &err, NULL);
}

/* Prints the publisher with the backlog of its lane: 0, or the exit code. */
static int show_publisher(cli *c, ef_str name)
{
    ef_error err = EF_ERROR_INIT;
    ef_publisher_list list = {0};
    int rc;

    if (cli_publisher_ls(c, &name, &list, &err) != EF_OK)
        rc = cli_fail(c, &err, "see: everfold publisher ls");
    else
        rc = show_publishers(c, &list, true);
    EF_RELEASE(&list);
    return rc;
}

/* Storage for the texts of an ef_publisher. */
typedef struct texts {
    char url[PATH_MAX + 64];
    char secret[PATH_MAX + 16];
} texts;

/* Makes a path absolute, because a worker may run in another directory. */
static ef_status make_absolute(const char *scheme, const char *path, char *out, size_t size,
                               ef_error *err)
{
    char folder[PATH_MAX] = "";

    if (path[0] != '/' && strcmp(path, "-") != 0 && !getcwd(folder, sizeof folder))
        return ef_fail(err, EF_IO, "the current directory cannot be read");
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
        return ef_fail(err, EF_BAD_INPUT, "publisher add needs --to URL");
    if (file && env)
        return ef_fail(err, EF_BAD_INPUT, "--secret-file and --secret-env cannot be combined");
    if (strncmp(to, "file:", 5) == 0 && strncmp(to, "file:///", 8) != 0)
        st = make_absolute("file:", to + 5, t->url, sizeof t->url, err);
    else if ((size_t)snprintf(t->url, sizeof t->url, "%s", to) >= sizeof t->url)
        st = ef_fail(err, EF_BAD_INPUT, "--to is too long");
    if (st == EF_OK && file)
        st = make_absolute("file:", file, t->secret, sizeof t->secret, err);
    else if (env)
        (void)snprintf(t->secret, sizeof t->secret, "env:%s", env);
    p->url = ef_str_from(t->url);
    p->secret = ef_str_from(t->secret);
    return st;
}

/* Reads a duration above 0; the library takes 0 as its default. */
static ef_status read_time(const cli *c, const char *name, int64_t *out, ef_error *err)
{
    ef_status st = cli_duration(c, name, out, err);

    if (st == EF_OK && cli_has(c, name) && *out == 0)
        st = ef_fail(err, EF_BAD_INPUT, "--%s is 0: minimum is 1ms", name);
    return st;
}

static ef_status read_numbers(const cli *c, ef_publisher *p, ef_error *err)
{
    int64_t files = 0, flight = 0;
    ef_status st;

    if (!c->client) { /* a server applies its own settings */
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

/* Refuses an existing name: replacing a publisher by mistake would redirect its events. */
static ef_status check_name_is_new(cli *c, ef_str name, ef_error *err)
{
    ef_publisher_list found = {0};
    ef_status st = cli_publisher_ls(c, &name, &found, err);

    EF_RELEASE(&found);
    if (st == EF_OK)
        return ef_fail(err, EF_EXISTS, "publisher \"%.*s\" exists; --replace changes it",
                       EF_STR_ARG(name));
    return st == EF_NOT_FOUND ? EF_OK : st;
}

/* Only types with --publish yes are published, which is easily forgotten. */
static void warn_if_no_type_is_published(cli *c)
{
    ef_type_list types = {0};
    size_t published = 0;

    if (cli_type_ls(c, NULL, &types, NULL) != EF_OK)
        return;
    for (size_t i = 0; i < types.count; i++)
        published += types.items[i].publish;
    if (published == 0)
        cli_say(c, "no event type is published yet; run: everfold type set TYPE --publish yes");
    EF_RELEASE(&types);
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
    rc = st == EF_OK ? cli_open(c, CLI_JOURNAL) : cli_fail(c, &err, NULL);
    if (rc != 0)
        return rc;
    if (!cli_has(c, "replace"))
        st = check_name_is_new(c, p.name, &err);
    if (st == EF_OK) {
        err = (ef_error)EF_ERROR_INIT;
        st = cli_publisher_set(c, &p, &err);
    }
    if (st == EF_OK)
        st = cli_note(c, "publisher_set", p.name, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    warn_if_no_type_is_published(c);
    return show_publisher(c, p.name);
}

const cli_command cli_cmd_publisher_add = {
    .name = "publisher add",
    .summary = "forward events to a file, a webhook or NATS",
    .options = CLI_OPTIONS(
        CLI_TEXT("to", "URL",
                 "sink: file:PATH, file:- (stdout), https://HOST/PATH, nats://HOST:PORT/SUBJECT"),
        CLI_TEXT("types", "LIST", "only these types: comma-separated NAME or PREFIX*"),
        CLI_WORDS("partition-by", "WHAT", "stream,tenant,type",
                  "key of the messages: stream (default), tenant, type, data.MEMBER"),
        CLI_TEXT("retry", "TIME", "retry a failed message after this time (default 60s)"),
        CLI_TEXT("attempts", "N", "attempts until a message is dead (default: no limit)"),
        CLI_TEXT("retain", "TIME",
                 "retain published rows for this time (default 1h, nats 10m; 0: not retained)"),
        CLI_TEXT("timeout", "TIME", "timeout of one delivery (default 10s)"),
        CLI_TEXT("file-bytes", "N", "file: rotate at this size (default: never)"),
        CLI_TEXT("files", "N", "file: keep N rotated files (default 10)"),
        CLI_TEXT("in-flight", "N", "webhook: at most N concurrent requests (default 8)"),
        CLI_WORDS(
            "secret-file", "PATH", "@file",
            "file with the secret: signing key of webhooks, or USER:PASSWORD or token of NATS"),
        CLI_TEXT("secret-env", "NAME", "environment variable of the worker with the secret"),
        CLI_FLAG("allow-private", "webhook, NATS: allow addresses that are not public"),
        CLI_FLAG("paused", "queue events, but do not deliver yet"),
        CLI_FLAG("replace", "change an existing publisher")),
    .arguments = CLI_NAME("publisher"),
    .more = "From now on, every event of a published type (everfold type set TYPE --publish yes)\n"
            "that matches --types is queued for the publisher in the transaction of its append.\n"
            "Workers deliver it at least once, and the events of a stream in order. A failed\n"
            "message is retried and blocks only its own stream. Messages are CloudEvents in JSON;\n"
            "see docs/reference/publishing.md.",
    .example = "everfold publisher add archive --to file:orders.ndjson --types 'order.*'",
    .run = run_add,
};

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_publisher_list list = {0};
    ef_store_facts facts = {0};
    int rc = cli_open(c, CLI_JOURNAL_READ);

    if (rc != 0)
        return rc;
    if (cli_publisher_ls(c, NULL, &list, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE && list.count == 0)
        cli_say(c, "no publishers; add one with: everfold publisher add NAME --to URL");
    else
        rc = show_publishers(c, &list, false);
    if (list.count > 0 && c->journal && ef_journal_facts(c->journal, &facts, NULL) == EF_OK &&
        facts.copied_us > 0)
        cli_say(
            c, "this journal is a copy: its publishers send nothing until: everfold journal adopt");
    EF_RELEASE(&list);
    return rc;
}

const cli_command cli_cmd_publisher_ls = {
    .name = "publisher ls",
    .summary = "list publishers: state and backlog of their lanes",
    .more = "KEPT counts published rows that are retained and can be published again (--retain).\n"
            "Failed rows are listed by: everfold outbox report --lane NAME",
    .example = "everfold publisher ls -o json",
    .run = run_ls,
};

static int set_paused(cli *c, bool paused)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int rc = cli_open(c, CLI_JOURNAL);

    if (rc != 0)
        return rc;
    if (cli_publisher_pause(c, name, paused, cli_reason(c), &err) != EF_OK ||
        cli_note(c, paused ? "publisher_pause" : "publisher_resume", name, &err) != EF_OK)
        return cli_fail(c, &err, err.status == EF_NOT_FOUND ? "see: everfold publisher ls" : NULL);
    return show_publisher(c, name);
}

static int run_pause(cli *c)
{
    return set_paused(c, true);
}

static int run_resume(cli *c)
{
    return set_paused(c, false);
}

static int run_show(cli *c)
{
    int rc = cli_open(c, CLI_JOURNAL_READ);

    return rc == 0 ? show_publisher(c, ef_str_from(c->arguments[0])) : rc;
}

const cli_command cli_cmd_publisher_pause = {
    .name = "publisher pause",
    .summary = "pause a publisher; its events stay queued",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "To continue: everfold publisher resume NAME",
    .example = "everfold publisher pause mail",
    .run = run_pause,
};

const cli_command cli_cmd_publisher_resume = {
    .name = "publisher resume",
    .summary = "resume a paused publisher",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "Events that were queued meanwhile are delivered in order.",
    .example = "everfold publisher resume mail",
    .run = run_resume,
};

const cli_command cli_cmd_publisher_show = {
    .name = "publisher show",
    .summary = "show one publisher with its settings",
    .arguments = CLI_NAME("publisher"),
    .example = "everfold publisher show mail -o json",
    .run = run_show,
};

static int run_rm(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_str name = ef_str_from(c->arguments[0]);
    int64_t rows = 0;
    int rc = cli_open(c, CLI_JOURNAL);

    if (rc != 0)
        return rc;
    if (cli_publisher_remove(c, name, cli_has(c, "discard"), cli_reason(c), &rows, &err) != EF_OK ||
        cli_note(c, "publisher_remove", name, &err) != EF_OK)
        return cli_fail(c, &err, err.status == EF_NOT_FOUND ? "see: everfold publisher ls" : NULL);
    if (rows)
        cli_say(c, "publisher %.*s removed; %lld unpublished row%s discarded", EF_STR_ARG(name),
                (long long)rows, cli_plural(rows));
    else
        cli_say(c, "publisher %.*s removed", EF_STR_ARG(name));
    return 0;
}

const cli_command cli_cmd_publisher_rm = {
    .name = "publisher rm",
    .summary = "remove a publisher and its lane",
    .options =
        CLI_OPTIONS(CLI_FLAG("discard", "remove it even if it has unpublished rows"), CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "A publisher with unpublished rows is removed only with --discard.",
    .example = "everfold publisher rm mail --discard --reason 'they closed'",
    .run = run_rm,
};
