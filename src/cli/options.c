/*
 * options.c - parser of the command line: common options, command, its options and arguments.
 *
 *     everfold [common] event [common] append [common and own] STREAM
 *
 * After the name of the command, an option of the command hides a common option of the same name:
 * --data is the data directory, but the data of the event in `event append`.
 */
#include "cli.h"
#include "../base/limits.h"
#include "../base/same.h"

#include <errno.h>
#include <getopt.h>

enum { OWN_FIRST = 1000, COMMON_FIRST = 2000 };

const cli_option cli_common_options[] = {
    CLI_SETTING("data", "DIR", "data", "data directory (default ./everfold-data)", .words = "@dir"),
    CLI_SETTING("journal", "URL", "journal", "journal store (default sqlite:DATA/journal.db)",
                .words = "sqlite:,postgres:,nats:,memory:"),
    CLI_SETTING(
        "views", "URL", "views",
        "view store (default sqlite:DATA/views.db; for a journal on PostgreSQL, the same database)",
        .words = "sqlite:,lmdb:,postgres:,memory:"),
    CLI_SETTING(
        "server", "URL", "server",
        "use a running server, or unix:PATH; its token is in EVERFOLD_TOKEN or --token-file"),
    CLI_SETTING("token-file", "FILE", "token_file", "file with the token for the server",
                .words = "@file"),
    CLI_SETTING("tenant", "T", "tenant", "tenant (default \"\")"),
    CLI_SETTING("output", "FORMAT", "output", "output format: table, json or ndjson",
                .words = "table,json,ndjson", .letter = 'o'),
    CLI_WORDS("config", "FILE", "@file", "settings file (default DATA/everfold.conf if it exists)"),
    CLI_SETTING("log-level", "LEVEL", "log.level",
                "minimum level of log messages on stderr: debug, info, warn or error",
                .words = "debug,info,warn,error"),
    CLI_SETTING("log-format", "FORMAT", "log.format", "format of the log: text or json",
                .words = "text,json"),
    CLI_FLAG("quiet", "only errors on stderr"),
    CLI_FLAG("no-color", "no colours (also: NO_COLOR)"),
    CLI_FLAG("help", "describe the command", .letter = 'h'),
    CLI_FLAG("version", "print the version"),
    {.name = NULL},
};

typedef struct option_set {
    struct option longs[2 * CLI_OPTIONS_MAX + 1];
    char shorts[4 + 4 * CLI_OPTIONS_MAX];
} option_set;

static void add_short(option_set *set, const cli_option *o)
{
    size_t n = strlen(set->shorts);

    if (o->letter == 0 || strchr(set->shorts, o->letter))
        return;
    set->shorts[n++] = o->letter;
    if (o->value)
        set->shorts[n++] = ':';
    set->shorts[n] = '\0';
}

static bool has_long(const option_set *set, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(set->longs[i].name, name) == 0)
            return true;
    return false;
}

static size_t add_options(option_set *set, size_t count, const cli_option *options, int first)
{
    for (size_t i = 0; options && options[i].name && i < CLI_OPTIONS_MAX; i++) {
        if (has_long(set, count, options[i].name))
            continue;
        set->longs[count++] =
            (struct option){options[i].name, options[i].value ? required_argument : no_argument,
                            NULL, first + (int)i};
        add_short(set, &options[i]);
    }
    return count;
}

int cli_option_index(const cli_option *options, const char *name, int letter)
{
    for (int i = 0; options && options[i].name; i++)
        if (name ? strcmp(options[i].name, name) == 0 : options[i].letter == letter)
            return i;
    return -1;
}

static ef_status unknown_option(cli *c, const option_set *set, const char *text, ef_error *err)
{
    const char *names[2 * CLI_OPTIONS_MAX];
    size_t count = 0;
    const char *near = NULL;
    const char *what = c->command ? c->command->name : "everfold";

    for (; set->longs[count].name; count++)
        names[count] = set->longs[count].name;
    if (strncmp(text, "--", 2) == 0) {
        size_t length = strcspn(text + 2, "=");
        near = ef__suggest((ef_str){text + 2, length}, names, count);
    }
    if (near)
        cli_hint(c, "did you mean: --%s", near);
    else
        cli_hint(c, "see: everfold %s%s--help", c->command ? c->command->name : "",
                 c->command ? " " : "");
    return ef_fail(err, EF_BAD_INPUT, "%s has no option %s", what, text);
}

/* Reports the word in argv that getopt_long refused. */
static ef_status refused_option(cli *c, const option_set *set, int sign, char **argv, ef_error *err)
{
    char letter[3] = {'-', (char)optopt, '\0'};
    const char *word = argv[optind - 1];
    bool is_long = strncmp(word, "--", 2) == 0;

    if (sign == ':')
        return ef_fail(err, EF_BAD_INPUT, "%s needs a value", is_long ? word : letter);
    if (is_long && optopt != 0)
        return ef_fail(err, EF_BAD_INPUT, "%.*s takes no value", (int)strcspn(word, "="), word);
    return unknown_option(c, set, optopt > 0 && optopt < 128 ? letter : word, err);
}

static void store_value(cli *c, int index, bool own, const char *value)
{
    const cli_option *options = own ? c->command->options : cli_common_options;

    if (own) {
        if (strcmp(options[index].name, "data") == 0 && c->values[index])
            c->data_before = c->values[index];
        c->values[index] = value ? value : "";
    } else {
        c->commons[index] = value ? value : "";
    }
}

/* Parses options from argv[1]; optind ends at the first other word. Without a command, parsing
 * stops at the first word; otherwise words are moved to the end. */
static ef_status parse_options(cli *c, int argc, char **argv, ef_error *err)
{
    option_set set = {.shorts = ""};
    const cli_option *own = c->command ? c->command->options : NULL;
    int sign;

    (void)snprintf(set.shorts, sizeof(set.shorts), "%s", c->command ? ":" : "+:");
    size_t count = add_options(&set, 0, own, OWN_FIRST);
    (void)add_options(&set, count, cli_common_options, COMMON_FIRST);
    opterr = 0;
    optind = 0; /* resets the state of getopt (glibc) */
    while ((sign = getopt_long(argc, argv, set.shorts, set.longs, NULL)) != -1) {
        int index;
        if (sign == '?' || sign == ':')
            return refused_option(c, &set, sign, argv, err);
        if (sign >= COMMON_FIRST)
            store_value(c, sign - COMMON_FIRST, false, optarg);
        else if (sign >= OWN_FIRST)
            store_value(c, sign - OWN_FIRST, true, optarg);
        else if ((index = cli_option_index(own, NULL, sign)) >= 0)
            store_value(c, index, true, optarg);
        else
            store_value(c, cli_option_index(cli_common_options, NULL, sign), false, optarg);
    }
    return EF_OK;
}

/* The command with this verb: "event append" for "append"; NULL if there is none or several. */
static const char *command_of_verb(const char *word)
{
    const char *found = NULL;

    for (size_t i = 0; cli_commands[i]; i++) {
        const char *verb = strchr(cli_commands[i]->name, ' ');
        if (!verb || cli_commands[i]->hidden || strcmp(verb + 1, word) != 0)
            continue;
        if (found)
            return NULL;
        found = cli_commands[i]->name;
    }
    return found;
}

ef_status cli_unknown_command(cli *c, const char *word, ef_error *err)
{
    const char *names[128];
    size_t count = 0;

    for (size_t i = 0; !c->group && cli_groups[i].name; i++)
        names[count++] = cli_groups[i].name;
    for (size_t i = 0; cli_commands[i] && count < 128; i++)
        if ((names[count] = cli_command_word(cli_commands[i], c->group)) != NULL)
            count++;
    const char *near = c->group ? NULL : command_of_verb(word);
    if (!near)
        near = ef__suggest(ef_str_from(word), names, count);
    const char *group = c->group ? c->group->name : "", *space = c->group ? " " : "";
    if (near)
        cli_hint(c, "did you mean: everfold %s%s%s", group, space, near);
    else
        cli_hint(c, "see: everfold %s%s--help", group, space);
    return ef_fail(err, EF_BAD_INPUT, "unknown command '%s%s%s'", group, space, word);
}

/* Parses the command, one or two words; `*at` moves to the last of them. */
static ef_status parse_command(cli *c, int argc, char **argv, int *at, ef_error *err)
{
    while (c->command == NULL) {
        ef_status st = parse_options(c, argc - *at, argv + *at, err);
        if (st != EF_OK)
            return st;
        *at += optind;
        if (*at >= argc)
            return EF_OK;
        const char *word = argv[*at];
        c->command =
            c->group ? cli_command_find(c->group->name, word) : cli_command_find(word, NULL);
        const cli_group *group = c->group ? NULL : cli_group_find(word);
        if (!c->command && !group)
            return cli_unknown_command(c, word, err);
        if (group)
            c->group = group;
    }
    /* "backup DIR" and "backup verify DIR": the longer name is tried first. */
    const cli_command *longer =
        *at + 1 < argc ? cli_command_find(c->command->name, argv[*at + 1]) : NULL;
    if (longer) {
        c->command = longer;
        ++*at;
    }
    return EF_OK;
}

static bool is_json(const char *text)
{
    return strcmp(text, "-") == 0 ||
           ef__json_check(ef_str_from(text), EF_LIMIT_DATA_BYTES, NULL, NULL) == EF_OK;
}

/* Data directory and event data have the same option name. If both follow `event append`, the value
 * that is JSON is the event data; if that is ambiguous, it is an error. */
static ef_status resolve_data(cli *c, ef_error *err)
{
    if (!c->data_before)
        return EF_OK;
    int own = cli_option_index(c->command->options, "data", 0);
    int common = cli_option_index(cli_common_options, "data", 0);
    const char *before = c->data_before, *after = c->values[own];
    if (is_json(before) == is_json(after))
        return ef_fail(
            err, EF_BAD_INPUT,
            "--data is given twice after %s, where it is the data of the event; give the "
            "data directory before the command, or in EVERFOLD_DATA",
            c->command->name);
    c->values[own] = is_json(before) ? before : after;
    c->commons[common] = is_json(before) ? after : before;
    return EF_OK;
}

static ef_status check_arguments(cli *c, ef_error *err)
{
    const cli_argument *arguments = c->command->arguments;
    size_t count = 0;
    bool many = false;

    cli_hint(c, "see: everfold %s --help", c->command->name);
    for (; arguments && arguments[count].name; count++) {
        many = arguments[count].many;
        if (!arguments[count].optional && count >= c->argument_count)
            return ef_fail(err, EF_BAD_INPUT, "%s needs %s: %s", c->command->name,
                           arguments[count].name, arguments[count].help);
    }
    if (c->argument_count > count && !many)
        return ef_fail(err, EF_BAD_INPUT, "%s: unexpected argument '%s'", c->command->name,
                       c->arguments[count]);
    c->hint[0] = '\0';
    return EF_OK;
}

ef_status cli_options_parse(cli *c, int argc, char **argv, ef_error *err)
{
    int at = 0;
    ef_status st = parse_command(c, argc, argv, &at, err);

    if (st != EF_OK || c->command == NULL)
        return st;
    st = parse_options(c, argc - at, argv + at, err);
    if (st != EF_OK)
        return st;
    c->arguments = argv + at + optind;
    c->argument_count = (size_t)(argc - at - optind);
    if (cli_has(c, "help"))
        return EF_OK;
    st = resolve_data(c, err);
    if (st != EF_OK)
        return st;
    return check_arguments(c, err);
}

const char *cli_common_value(const cli *c, const char *name)
{
    int index = cli_option_index(cli_common_options, name, 0);

    return index >= 0 ? c->commons[index] : NULL;
}

const char *cli_value(const cli *c, const char *name)
{
    int index = cli_option_index(c->command ? c->command->options : NULL, name, 0);

    return index >= 0 ? c->values[index] : cli_common_value(c, name);
}

bool cli_has(const cli *c, const char *name)
{
    return cli_value(c, name) != NULL;
}

ef_status cli_number_parse(const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out, ef_error *err)
{
    char *end = NULL;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    bool starts_well = (text[0] >= '0' && text[0] <= '9') || (text[0] == '-' && text[1] >= '0');
    if (errno != 0 || !starts_well || *end != '\0' || n < min || n > max) {
        if (max == INT64_MAX)
            return ef_fail(err, EF_BAD_INPUT, "%s is '%s': must be an integer >= %" PRId64, what,
                           text, min);
        return ef_fail(err, EF_BAD_INPUT,
                       "%s is '%s': must be an integer from %" PRId64 " to %" PRId64, what, text,
                       min, max);
    }
    *out = n;
    return EF_OK;
}

int64_t cli_int(const cli *c, const char *name)
{
    return c->numbers[cli_option_index(c->command->options, name, 0)];
}

/* Reads the value of an INT or DURATION (500ms, 10s, 5m). */
static ef_status read_number(const cli_option *option, const char *text, int64_t *out,
                             ef_error *err)
{
    static const ef__setting_spec duration = {
        "duration", EF__SETTING_DURATION, "0", 0, INT64_C(86400) * 1000 * 365, NULL, NULL, ""};
    char what[64];

    (void)snprintf(what, sizeof(what), "--%s", option->name);
    return option->type == CLI_VALUE_INT
               ? cli_number_parse(what, text, option->min, option->max, out, err)
               : ef__setting_check(&duration, what, ef_str_from(text), out, err);
}

/* Reads one of the words, in any case, as its index. */
static ef_status read_word(const cli_option *option, const char *text, int64_t *out, ef_error *err)
{
    EF__AUTO(ef__buf) list = EF__BUF_INIT(1024);
    ef_str asked = ef__str_trim(ef_str_from(text)), rest = ef_str_from(option->words);

    for (*out = 0; rest.len > 0; ++*out) {
        ef_str word = ef__str_split(&rest, ',');
        if (word.len == asked.len && strncasecmp(word.ptr, asked.ptr, word.len) == 0)
            return EF_OK;
        ef__buf_printf(&list, "%s%.*s",
                       list.len == 0  ? ""
                       : rest.len > 0 ? ", "
                                      : " or ",
                       EF_STR_ARG(word));
    }
    return ef_fail(err, EF_BAD_INPUT, "--%s is '%s': must be %s", option->name, text, list.ptr);
}

ef_status cli_options_check(cli *c, ef_error *err)
{
    const cli_option *own = c->command->options;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && own && own[i].name; i++) {
        c->numbers[i] = own[i].otherwise;
        if (!c->values[i] && own[i].needed)
            st =
                cli_refuse(c, err, "%s needs --%s%s", c->command->name, own[i].name, own[i].needed);
        else if (c->values[i] && own[i].one_of)
            st = read_word(&own[i], c->values[i], &c->numbers[i], err);
        else if (c->values[i] && own[i].type != CLI_VALUE_TEXT)
            st = read_number(&own[i], c->values[i], &c->numbers[i], err);
    }
    return st;
}
