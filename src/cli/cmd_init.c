/*
 * cmd_init.c - everfold init
 *
 * The stores that it was given are written to the settings file of the data directory. Otherwise
 * the next command without the flag would use another, empty store. Only values of flags are
 * written; the environment and a file named by --config stay in force anyway.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1024 * 1024)

/* Makes the URL independent of the working directory. */
static ef_str absolute_url(const char *url, char *room, size_t room_size)
{
    const char *path = strchr(url, ':') + 1;
    char real[PATH_MAX];
    bool on_disk = strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "lmdb:", 5) == 0;

    if (on_disk && realpath(path, real))
        (void)snprintf(room, room_size, "%.*s%s", (int)(path - url), url, real);
    else
        (void)snprintf(room, room_size, "%s", url);
    return ef_str_from(room);
}

static void add_line(ef__buf *out, const char *key, ef_str value)
{
    ef__buf_printf(out, "%s = \"", key);
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '"' || value.ptr[i] == '\\')
            ef__buf_add_char(out, '\\');
        ef__buf_add_char(out, value.ptr[i]);
    }
    ef__buf_add(out, "\"\n", 2);
}

/* Adds the line of a setting that was given as a flag and that the file lacks. */
static void add_choice(cli *c, const ef__settings *file, const char *key, const char *url,
                       const char *shown, ef__buf *out)
{
    char room[PATH_MAX + 16];
    ef_str value, there = ef__settings_text(file, key);

    if (cli_setting(c, key).origin != EF__ORIGIN_FLAG || strncmp(url, "memory:", 7) == 0)
        return;
    value = absolute_url(url, room, sizeof(room));
    if (there.len > 0 && !ef_str_equal(there, value) && !ef_str_equal(there, ef_str_from(url)))
        cli_warn(c, "everfold: the settings file has another value for \"%s\"; it was not changed",
                 key);
    else if (strcmp(url, shown) != 0)
        cli_warn(c,
                 "everfold: the URL of the %s was not written, because it has a password: keep the "
                 "password in ~/.pgpass or set EVERFOLD_%s",
                 key, strcmp(key, "views") == 0 ? "VIEWS" : "JOURNAL");
    else if (there.len == 0)
        add_line(out, key, value);
}

/* Writes new lines at the top, because at the end they would belong to the last section. */
static ef_status write_file(const char *path, ef__buf *text, ef_error *err)
{
    char fresh[PATH_MAX + 8];
    struct stat st;
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 0777 : 0600;
    int n = snprintf(fresh, sizeof(fresh), "%s.new", path);
    int fd =
        n < (int)sizeof(fresh) ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode) : -1;
    bool written =
        fd >= 0 && write(fd, text->ptr, text->len) == (ssize_t)text->len && fsync(fd) == 0;
    int failed = errno;

    if (fd >= 0)
        (void)close(fd);
    if (written && rename(fresh, path) == 0)
        return EF_OK;
    failed = written ? errno : failed;
    (void)unlink(fresh);
    return ef_fail(err, EF_IO, "%s could not be written: %s", path, strerror(failed));
}

static ef_status add_old_text(const char *path, ef__buf *out, ef_error *err)
{
    EF__AUTO(ef__buf) old = EF__BUF_INIT(FILE_BYTES_MAX);
    ef_status st = access(path, F_OK) == 0 ? cli_file_read(path, &old, err) : EF_OK;

    if (st == EF_OK && old.len > 0)
        ef__buf_add(out, old.ptr, old.len);
    return st;
}

static ef_status update_settings_file(cli *c, const char *path, ef__settings *file, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(FILE_BYTES_MAX + 64 * 1024);
    ef_status st = access(path, F_OK) == 0 ? ef__settings_load_file(file, path, err) : EF_OK;

    if (st == EF_OK) {
        add_choice(c, file, "journal", c->journal_url, c->journal_shown, &text);
        add_choice(c, file, "views", c->views_url, c->views_shown, &text);
    }
    if (st == EF_OK && text.len > 0) {
        st = cli_data_make(c, err);
        if (st == EF_OK)
            st = add_old_text(path, &text, err);
        if (st == EF_OK)
            st = write_file(path, &text, err);
    }
    return st;
}

static ef_status write_settings(cli *c, ef_error *err)
{
    char path[PATH_MAX];
    ef__settings *file = NULL;
    ef_str data = ef__settings_text(c->settings, "data");
    const char *named = getenv("EVERFOLD_CONFIG");
    ef_status st;

    if (cli_value(c, "config") || (named && named[0] != '\0'))
        return EF_OK;
    if (snprintf(path, sizeof(path), "%.*s/everfold.conf", EF_STR_ARG(data)) >= (int)sizeof(path))
        return ef_fail(err, EF_BAD_INPUT, "the path of the settings file is too long");
    st = cli_settings_table_open(&file, err);
    if (st == EF_OK)
        st = update_settings_file(c, path, file, err);
    ef__settings_close(file);
    return st;
}

static void write_answer(cli *c, const ef_store_facts *facts, bool made)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out,
                       made ? "created %s (%d partitions)\n" : "%s exists (%d partitions)\n",
                       c->journal_shown, (int)facts->partitions);
        ef__buf_printf(&c->out, "views are in %s\n", c->views_shown);
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "data", cli_data(c));
    ef__json_member_text(&w, "journal", c->journal_shown);
    ef__json_member_text(&w, "journal_id", facts->journal_id);
    ef__json_member_int(&w, "partitions", facts->partitions);
    ef__json_member_bool(&w, "created", made);
    ef__json_member_text(&w, "views", c->views_shown);
    cli_object_end(c, &w);
}

/* Prints the SQL of the schema, for operators who create it themselves. */
static ef_status print_schema(cli *c, ef_error *err)
{
    EF__AUTO(ef_text) text = {0};
    ef_status st = ef_stores_schema(c->journal_url, c->views_url, &text, err);

    if (st == EF_OK && text.len == 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "neither %s nor %s is on a database server: --sql has nothing to print",
                     c->journal_shown, c->views_shown);
    if (st == EF_OK)
        ef__buf_add(&c->out, text.ptr, text.len);
    return st;
}

static ef_status make_stores(cli *c, ef_error *err)
{
    ef_store_facts facts;
    bool made = false;
    ef_status st;

    if (cli_has(c, "sql"))
        return print_schema(c, err);
    if (cli_url_in_memory(c->journal_url))
        cli_say(c, "memory: is not stored: there is nothing to create");
    st = cli_stores_make(c, &made, err);
    if (st == EF_OK)
        st = write_settings(c, err);
    if (st == EF_OK)
        st = ef_journal_facts(c->journal, &facts, err);
    if (st != EF_OK && st != EF_NOT_FOUND)
        (void)cli_journal_hint(c, st);
    if (st != EF_OK)
        return st;
    if (!made && cli_has(c, "partitions") &&
        ef__settings_int(c->settings, "outbox.partitions") != facts.partitions)
        cli_warn(
            c,
            "everfold: the existing journal keeps its %d partitions; see: everfold partition sync",
            (int)facts.partitions);
    write_answer(c, &facts, made);
    return EF_OK;
}

const cli_command cli_cmd_init = {
    .name = "init",
    .summary = "create the data directory and the stores; idempotent",
    .options = CLI_OPTIONS(
        CLI_SETTING("partitions", "N", "outbox.partitions",
                    "partitions of a new journal (default 16)"),
        CLI_FLAG("sql", "print the SQL that creates the stores on a server, and create nothing")),
    .more = "The stores that --journal and --views name are written to everfold.conf in the data\n"
            "directory, so that later commands find them. A URL with a password is not written;\n"
            "neither is anything if --config names another settings file.",
    .example = "everfold init --data /srv/shop",
    .call = make_stores,
    .local = true,
};
