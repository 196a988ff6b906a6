/*
 * cmd_config.c - everfold config show, and check [FILE]
 *
 * Without FILE, the effective settings are checked. With FILE, only that file is checked: the
 * environment and the flags of this run are ignored.
 */
#include "cli.h"

#include <stdio.h>

/* Origin of a value. A flag is shown by its own name: --log-level for the setting log.level. */
static ef_str origin_text(const ef__setting_view *view, char room[64])
{
    for (const cli_option *o = cli_common_options; o->name; o++)
        if (view->origin == EF__ORIGIN_FLAG && o->setting &&
            strcmp(o->setting, view->spec->key) == 0) {
            (void)snprintf(room, 64, "--%s", o->name);
            return ef_str_from(room);
        }
    return view->where;
}

static void write_setting(cli *c, cli_list *list, const ef__setting_view *view)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char room[64];

    cli_list_next(c, list);
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "key", view->spec->key);
    ef__json_member_str(&w, "value", cli_setting_value(c, view));
    ef__json_member_text(&w, "origin", ef__setting_origin_name(view->origin));
    ef__json_member_str(&w, "where", origin_text(view, room));
    ef__json_close(&w, '}');
    (void)cli_list_item_end(c, list);
}

static int run_show(cli *c)
{
    static const char *const heads[] = {"KEY", "VALUE", "ORIGIN", "WHERE"};
    cli_table table = CLI_TABLE_INIT(heads, 4, 0);
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < ef__settings_count(c->settings); i++) {
        ef__setting_view view = ef__settings_at(c->settings, i);
        char room[64];
        if (c->format != CLI_TABLE) {
            write_setting(c, &list, &view);
            continue;
        }
        cli_table_text(&table, ef_str_from(view.spec->key));
        cli_table_text(&table, cli_setting_value(c, &view));
        cli_table_text(&table, ef_str_from(ef__setting_origin_name(view.origin)));
        cli_table_text(&table, origin_text(&view, room));
    }
    if (c->format == CLI_TABLE)
        (void)cli_table_flush(c, &table);
    else
        cli_list_end(c, &list);
    cli_table_release(&table);
    return 0;
}

const cli_command cli_cmd_config_show = {
    .name = "config show",
    .summary = "list every setting with its effective value and its origin",
    .more =
        "Precedence: flag, environment variable, settings file, default. mode and the three\n"
        "flags outbox.enabled, worker.enabled and shadow_worker.enabled are shown as they take\n"
        "effect.",
    .example = "everfold config show -o json",
    .run = run_show,
};

static ef_status check_file(const char *path, cli_mode *mode, ef_error *err)
{
    ef__settings *settings = NULL;
    ef_status st = cli_settings_table_open(&settings, err);

    if (st == EF_OK)
        st = ef__settings_load_file(settings, path, err);
    if (st == EF_OK)
        st = cli_settings_check(settings, err);
    if (st == EF_OK)
        st = cli_mode_from_settings(settings, mode, err);
    ef__settings_close(settings);
    return st;
}

static int run_check(cli *c)
{
    ef_error err = c->settings_error;
    ef_status st = err.status;
    cli_mode mode = c->mode;
    const char *file = c->settings_file;
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->argument_count > 0) {
        file = c->arguments[0];
        err = (ef_error)EF_ERROR_INIT;
        st = check_file(file, &mode, &err);
    }
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "OK (%s, mode %s)\n", file[0] ? file : "no settings file",
                       cli_mode_name(mode));
        return 0;
    }
    ef__json_open(&w, '{');
    ef__json_member_bool(&w, "ok", true);
    ef__json_member_name(&w, "file", ef_str_from(file));
    ef__json_member_text(&w, "mode", cli_mode_name(mode));
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
    return 0;
}

const cli_command cli_cmd_config_check = {
    .name = "config check",
    .summary = "check the settings: unknown keys, invalid values, contradictory combinations",
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "settings file (default: the effective settings)",
                                   .optional = true, .words = "@file")),
    .example = "everfold config check /etc/everfold.conf",
    .run = run_check,
    .settings_later = true,
};
