/*
 * cmd_config_show.c - everfold config show
 */
#include "commands.h"

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
