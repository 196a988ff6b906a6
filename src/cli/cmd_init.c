/*
 * cmd_init.c - everfold init
 */
#include "commands.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* The directories above it as the umask likes; itself for its owner only, for it holds all data. */
static ef_status make_data_directory(const char *path, ef_error *err)
{
    char part[PATH_MAX];
    struct stat st;
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof(part))
        return ef_fail(err, EF_BAD_INPUT, "the data directory's name has %zu bytes", length);
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
            return ef_fail(err, EF_IO, "%s could not be made: %s", part, strerror(errno));
    }
    return EF_OK;
}

static ef_status open_or_make(cli *c, bool *out_made, ef_error *err)
{
    ef_journal_options create = {.create = true};
    ef_status st = cli_journal_open(c, NULL, err);

    *out_made = st == EF_NOT_FOUND;
    if (st == EF_NOT_FOUND) {
        *err = (ef_error)EF_ERROR_INIT;
        st = cli_journal_open(c, &create, err);
    }
    if (st == EF_OK)
        st = cli_engine_open(c, true, false, err);
    return st;
}

static void write_answer(cli *c, const char *data, const ef_store_facts *facts, bool made)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out,
                       made ? "made %s (%d partitions)\n" : "%s is there already (%d partitions)\n",
                       c->journal_url, (int)facts->partitions);
        ef__buf_printf(&c->out, "views are in %s\n", c->views_url);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_key(&w, "data");
    ef__json_str(&w, ef_str_from(data));
    ef__json_key(&w, "journal");
    ef__json_str(&w, ef_str_from(c->journal_url));
    ef__json_key(&w, "journal_id");
    ef__json_str(&w, ef_str_from(facts->journal_id));
    ef__json_key(&w, "partitions");
    ef__json_int(&w, facts->partitions);
    ef__json_key(&w, "created");
    ef__json_bool(&w, made);
    ef__json_key(&w, "views");
    ef__json_str(&w, ef_str_from(c->views_url));
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static int run_init(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_store_facts facts;
    char data[PATH_MAX], hint[PATH_MAX + 128];
    bool made = false;
    ef_status st = EF_OK;

    (void)snprintf(data, sizeof(data), "%.*s", EF_STR_ARG(ef__settings_text(c->settings, "data")));
    if (strncmp(c->journal_url, "memory:", 7) == 0)
        cli_say(c, "memory: keeps nothing: there is nothing to make");
    else
        st = make_data_directory(data, &err);
    if (st == EF_OK)
        st = open_or_make(c, &made, &err);
    if (st == EF_OK)
        st = ef_journal_facts(c->journal, &facts, &err);
    if (st != EF_OK)
        return cli_fail(c, &err,
                        st == EF_NOT_FOUND ? NULL : cli_journal_hint(c, st, hint, sizeof(hint)));
    if (!made && cli_has(c, "partitions") &&
        ef__settings_int(c->settings, "outbox.partitions") != facts.partitions)
        cli_warn(c, "everfold: the journal has %d partitions and keeps them",
                 (int)facts.partitions);
    write_answer(c, data, &facts, made);
    return 0;
}

static const cli_option options[] = {
    {"partitions", 0, "N", "outbox.partitions", NULL, "partitions of a new journal (default 16)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_init = {
    .name = "init",
    .summary = "make the data directory and the stores; again is harmless",
    .options = options,
    .example = "everfold init --data /srv/shop",
    .run = run_init,
};
