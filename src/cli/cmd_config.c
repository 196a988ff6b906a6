/*
 * cmd_config.c - everfold config show, and check [FILE]
 *
 * Without FILE, the effective settings are checked. With FILE, only that file is checked: the
 * environment and the flags of this run are ignored.
 */
#include "cli.h"

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

typedef struct shown_setting {
    ef_str key, value, origin, where;
    char flag[64]; /* buffer for `where` */
} shown_setting;

#define FIELD(name) EF__FIELD(shown_setting, #name, STR, name)
static const ef__field setting_fields[] = {FIELD(key), FIELD(value), FIELD(origin), FIELD(where)};
static const ef__shape setting_shape = EF__SHAPE(setting_fields, shown_setting);

static const cli_listing listing = {
    .shape = &setting_shape,
    .columns = CLI_COLUMNS(CLI_COLUMN("KEY", "key"), CLI_COLUMN("VALUE", "value"),
                           CLI_COLUMN("ORIGIN", "origin"), CLI_COLUMN("WHERE", "where")),
};

static ef_status show_settings(cli *c, ef_error *err)
{
    size_t count = ef__settings_count(c->settings);
    shown_setting *items = calloc(count, sizeof *items);

    if (!items)
        return ef_fail(err, EF_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        ef__setting_view view = ef__settings_at(c->settings, i);
        items[i].key = ef_str_from(view.spec->key);
        items[i].value = cli_setting_value(c, &view);
        items[i].origin = ef_str_from(ef__setting_origin_name(view.origin));
        items[i].where = origin_text(&view, items[i].flag);
    }
    cli_print_list(c, &listing, items, count);
    free(items);
    return EF_OK;
}

const cli_command cli_cmd_config_show = {
    .name = "config show",
    .summary = "list every setting with its effective value and its origin",
    .more =
        "Precedence: flag, environment variable, settings file, default. mode and the three\n"
        "flags outbox.enabled, worker.enabled and shadow_worker.enabled are shown as they take\n"
        "effect.",
    .example = "everfold config show -o json",
    .call = show_settings,
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

static ef_status check_settings(cli *c, ef_error *err)
{
    const char *file = c->argument_count > 0 ? c->arguments[0] : NULL;
    cli_mode mode = c->mode;
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    ef_status st;

    if (!file)
        *err = c->settings_error;
    st = file ? check_file(file, &mode, err) : err->status;
    file = file ? file : c->settings_file;
    if (st != EF_OK)
        return st;
    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "OK (%s, mode %s)\n", file[0] ? file : "no settings file",
                       cli_mode_name(mode));
        return EF_OK;
    }
    ef__json_open(&w, '{');
    ef__json_member_bool(&w, "ok", true);
    ef__json_member_name(&w, "file", ef_str_from(file));
    ef__json_member_text(&w, "mode", cli_mode_name(mode));
    cli_object_end(c, &w);
    return EF_OK;
}

const cli_command cli_cmd_config_check = {
    .name = "config check",
    .summary = "check the settings: unknown keys, invalid values, contradictory combinations",
    .arguments =
        CLI_ARGUMENTS(CLI_ARGUMENT("FILE", "settings file (default: the effective settings)",
                                   .optional = true, .words = "@file")),
    .example = "everfold config check /etc/everfold.conf",
    .call = check_settings,
    .settings_later = true,
};
