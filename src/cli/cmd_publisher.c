/*
 * cmd_publisher.c - everfold publisher add NAME --to URL, ls, show, pause, resume and rm
 */
#include "calls.h"

#include <everfold/publisher.h>

#include <unistd.h>

/* A publisher with the backlog of its lane. */
typedef struct backlog {
    ef_publisher publisher; /* first: the fields of its shape */
    ef_outbox_summary rows;
    int64_t published;
} backlog;

static ef_status read_backlog(cli *c, const ef_publisher *publisher, backlog *out, ef_error *err)
{
    ef_outbox_query query = {.lane = publisher->name, .any_tenant = true};
    ef_status st = cli_outbox_summarise(c, &query, &out->rows, err);

    out->publisher = *publisher;
    EF_RELEASE(&out->rows.oldest);
    return st == EF_OK ? cli_published_count(c, publisher->name, &out->published, err) : st;
}

static void write_publisher(ef__json_writer *w, const void *item)
{
    const backlog *b = item;

    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_publisher, &b->publisher);
    ef__shape_members(w, &ef__shape_summary, &b->rows);
    ef__json_member_int(w, "kept", b->published);
    ef__json_close(w, '}');
}

static void add_state(ef__buf *out, const void *item)
{
    ef__buf_add_text(out, ((const backlog *)item)->publisher.paused ? "paused" : "running");
}

static void add_pending(ef__buf *out, const void *item)
{
    const backlog *b = item;

    ef__buf_printf(out, "%" PRId64, b->rows.pending + b->rows.processing);
}

static void add_kept(ef__buf *out, const void *item)
{
    int64_t published = ((const backlog *)item)->published;

    ef__buf_printf(out, "%" PRId64 "%s", published, published < EF_PUBLISHED_COUNTED ? "" : "+");
}

static const ef__field backlog_fields[] = {
    EF__FIELD(backlog, "failed", INT64, rows.failed),
    EF__FIELD(backlog, "dead", INT64, rows.dead),
};
static const ef__shape backlog_shape = EF__SHAPE(backlog_fields, backlog);

static const cli_listing listing = {
    .shape = &ef__shape_publisher,
    .more = &backlog_shape,
    .size = sizeof(backlog),
    .columns =
        CLI_COLUMNS(CLI_COLUMN("PUBLISHER", "name"), CLI_COLUMN("TO", "url"),
                    CLI_COLUMN("TYPES", "types", .none = "*"), CLI_COLUMN("BY", "partition_by"),
                    CLI_COLUMN("STATE", NULL, .text = add_state),
                    CLI_COLUMN("PENDING", NULL, .text = add_pending, .right = true),
                    CLI_COLUMN("FAILED", "failed"), CLI_COLUMN("DEAD", "dead"),
                    CLI_COLUMN("KEPT", NULL, .text = add_kept, .right = true)),
    .write = write_publisher,
    .empty = "no publishers; add one with: everfold publisher add NAME --to URL",
};

static void warn_if_copy(cli *c)
{
    ef_store_facts facts = {0};

    if (c->journal && ef_journal_facts(c->journal, &facts, NULL) == EF_OK && facts.copied_us > 0)
        cli_say(
            c, "this journal is a copy: its publishers send nothing until: everfold journal adopt");
}

/* Prints one publisher, or (`name` NULL) all of them. */
static ef_status print_publishers(cli *c, const ef_str *name, ef_error *err)
{
    EF__AUTO(ef_publisher_list) list = {0};
    ef_status st = cli_publisher_ls(c, name, &list, err);
    backlog *items = calloc(list.count + 1, sizeof *items);

    if (st == EF_OK && !items)
        st = ef_fail(err, EF_NO_MEMORY, "out of memory");
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        st = read_backlog(c, &list.items[i], &items[i], err);
    if (st == EF_OK && name)
        cli_print_item(c, &listing, items);
    else if (st == EF_OK)
        cli_print_list(c, &listing, items, list.count);
    free(items);
    if (st == EF_OK && !name && list.count > 0)
        warn_if_copy(c);
    return st;
}

#define NO_PUBLISHER CLI_HINTS({EF_NOT_FOUND, "see: everfold publisher ls"})

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

/* The library takes 0 as its default. */
static ef_status check_times(cli *c, ef_error *err)
{
    static const char *const names[] = {"retry", "timeout"};

    for (size_t i = 0; i < 2; i++)
        if (cli_has(c, names[i]) && cli_int(c, names[i]) == 0)
            return ef_fail(err, EF_BAD_INPUT, "--%s is 0: minimum is 1ms", names[i]);
    return EF_OK;
}

static ef_publisher read_publisher(const cli *c)
{
    ef_publisher p = {
        .name = ef_str_from(c->arguments[0]),
        .types = ef_str_from(cli_value(c, "types")),
        .partition_by = ef_str_from(cli_value(c, "partition-by")),
        .retry_ms = ef__settings_int(c->settings, "retry.publish.base"),
        .attempts_max = ef__settings_int(c->settings, "retry.publish.attempts"),
        .retain_ms = cli_int(c, "retain"),
        .timeout_ms = cli_int(c, "timeout"),
        .file_bytes = cli_int(c, "file-bytes"),
        .file_count = (int32_t)cli_int(c, "files"),
        .in_flight = (int32_t)cli_int(c, "in-flight"),
        .allow_private = cli_has(c, "allow-private"),
        .paused = cli_has(c, "paused"),
    };

    if (cli_has(c, "retry"))
        p.retry_ms = cli_int(c, "retry");
    if (cli_has(c, "attempts"))
        p.attempts_max = cli_int(c, "attempts");
    if (cli_has(c, "retain") && p.retain_ms == 0)
        p.retain_ms = EF_RETAIN_NONE;
    return p;
}

/* Refuses an existing name: replacing a publisher by mistake would redirect its events. */
static ef_status check_name_is_new(cli *c, ef_str name, ef_error *err)
{
    EF__AUTO(ef_publisher_list) found = {0};
    ef_status st = cli_publisher_ls(c, &name, &found, err);

    if (st == EF_OK)
        return ef_fail(err, EF_EXISTS, "publisher \"%.*s\" exists; --replace changes it",
                       EF_STR_ARG(name));
    if (st != EF_NOT_FOUND)
        return st;
    *err = (ef_error)EF_ERROR_INIT;
    return EF_OK;
}

/* Only types with --publish yes are published, which is easily forgotten. */
static void warn_if_no_type_is_published(cli *c)
{
    EF__AUTO(ef_type_list) types = {0};
    size_t published = 0;

    if (cli_type_ls(c, NULL, &types, NULL) != EF_OK)
        return;
    for (size_t i = 0; i < types.count; i++)
        published += types.items[i].publish;
    if (published == 0)
        cli_say(c, "no event type is published yet; run: everfold type set TYPE --publish yes");
}

static ef_status add_publisher(cli *c, ef_error *err)
{
    texts t = {.url = ""};
    ef_publisher p = read_publisher(c);
    ef_status st = read_texts(c, &t, &p, err);

    for (const char *at = p.name.ptr; st == EF_OK && *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 127) /* the name is a lane: an option of commands */
            st = ef_fail(err, EF_BAD_INPUT,
                         "the name '%s' has a space or control character at byte %zu: use letters, "
                         "digits and -",
                         p.name.ptr, (size_t)(at - p.name.ptr));
    if (st == EF_OK)
        st = cli_need(c, CLI_JOURNAL, err);
    if (st == EF_OK && !cli_has(c, "replace"))
        st = check_name_is_new(c, p.name, err);
    if (st == EF_OK)
        st = cli_publisher_set(c, &p, err);
    if (st == EF_OK)
        st = cli_note(c, "publisher_set", p.name, err);
    if (st != EF_OK)
        return st;
    warn_if_no_type_is_published(c);
    return print_publishers(c, &p.name, err);
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
        CLI_DURATION("retry", "TIME", 0, "retry a failed message after this time (default 60s)"),
        CLI_INT("attempts", "N", 1, INT32_MAX, 0,
                "attempts until a message is dead (default: no limit)"),
        CLI_DURATION("retain", "TIME", 0,
                     "retain published rows for this time (default 1h, nats 10m; 0: not retained)"),
        CLI_DURATION("timeout", "TIME", 0, "timeout of one delivery (default 10s)"),
        CLI_INT("file-bytes", "N", 1, INT64_MAX / 2, 0,
                "file: rotate at this size (default: never)"),
        CLI_INT("files", "N", 1, 10000, 0, "file: keep N rotated files (default 10)"),
        CLI_INT("in-flight", "N", 1, 256, 0,
                "webhook: at most N concurrent requests of a worker (default 8)"),
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
    .check = check_times,
    .call = add_publisher,
    .hints = NO_PUBLISHER,
};

static ef_status list_publishers(cli *c, ef_error *err)
{
    return print_publishers(c, NULL, err);
}

const cli_command cli_cmd_publisher_ls = {
    .name = "publisher ls",
    .summary = "list publishers: state and backlog of their lanes",
    .more = "KEPT counts published rows that are retained and can be published again (--retain).\n"
            "Failed rows are listed by: everfold outbox report --lane NAME",
    .example = "everfold publisher ls -o json",
    .stores = CLI_JOURNAL_READ,
    .call = list_publishers,
};

/* Pauses, or resumes, by the command. */
static ef_status set_paused(cli *c, ef_error *err)
{
    ef_str name = ef_str_from(c->arguments[0]);
    bool paused = c->command == &cli_cmd_publisher_pause;
    ef_status st = cli_publisher_pause(c, name, paused, cli_reason(c), err);

    if (st == EF_OK)
        st = cli_note(c, paused ? "publisher_pause" : "publisher_resume", name, err);
    return st == EF_OK ? print_publishers(c, &name, err) : st;
}

static ef_status show_publisher(cli *c, ef_error *err)
{
    return print_publishers(c, &(ef_str){c->arguments[0], strlen(c->arguments[0])}, err);
}

const cli_command cli_cmd_publisher_pause = {
    .name = "publisher pause",
    .summary = "pause a publisher; its events stay queued",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "To continue: everfold publisher resume NAME",
    .example = "everfold publisher pause mail",
    .stores = CLI_JOURNAL,
    .call = set_paused,
    .hints = NO_PUBLISHER,
};

const cli_command cli_cmd_publisher_resume = {
    .name = "publisher resume",
    .summary = "resume a paused publisher",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "Events that were queued meanwhile are delivered in order.",
    .example = "everfold publisher resume mail",
    .stores = CLI_JOURNAL,
    .call = set_paused,
    .hints = NO_PUBLISHER,
};

const cli_command cli_cmd_publisher_show = {
    .name = "publisher show",
    .summary = "show one publisher with its settings",
    .arguments = CLI_NAME("publisher"),
    .example = "everfold publisher show mail -o json",
    .stores = CLI_JOURNAL_READ,
    .call = show_publisher,
    .hints = NO_PUBLISHER,
};

static ef_status remove_publisher(cli *c, ef_error *err)
{
    ef_str name = ef_str_from(c->arguments[0]);
    int64_t rows = 0;
    ef_status st = cli_publisher_remove(c, name, cli_has(c, "discard"), cli_reason(c), &rows, err);

    if (st == EF_OK)
        st = cli_note(c, "publisher_remove", name, err);
    if (st == EF_OK && rows)
        cli_say(c, "publisher %.*s removed; %lld unpublished row%s discarded", EF_STR_ARG(name),
                (long long)rows, cli_plural(rows));
    else if (st == EF_OK)
        cli_say(c, "publisher %.*s removed", EF_STR_ARG(name));
    return st;
}

const cli_command cli_cmd_publisher_rm = {
    .name = "publisher rm",
    .summary = "remove a publisher and its lane",
    .options =
        CLI_OPTIONS(CLI_FLAG("discard", "remove it even if it has unpublished rows"), CLI_REASON),
    .arguments = CLI_NAME("publisher"),
    .more = "A publisher with unpublished rows is removed only with --discard.",
    .example = "everfold publisher rm mail --discard --reason 'they closed'",
    .stores = CLI_JOURNAL,
    .call = remove_publisher,
    .hints = NO_PUBLISHER,
};
