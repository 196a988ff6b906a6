/*
 * cmd_config_check.c - everfold config check [FILE]
 *
 * Without FILE, the effective settings are checked. With FILE, only that file is checked: the
 * environment and the flags of this run are ignored.
 */
#include "commands.h"

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
    .arguments = CLI_ARGUMENTS(
        {"FILE", true, false, "@file", "settings file (default: the effective settings)"}),
    .example = "everfold config check /etc/everfold.conf",
    .run = run_check,
    .settings_later = true,
};
