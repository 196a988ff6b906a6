/*
 * view.c - output of views, and the options about their freshness.
 */
#include "view.h"

#define TIMEOUT_MS_DEFAULT 5000

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-21s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_int_line(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-21s%lld\n", name, (long long)value);
}

void cli_print_view(cli *c, const ef_view *view, int64_t as_of)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format != CLI_TABLE) {
        ef__view_write(&w, view, as_of);
        ef__buf_add_char(&c->out, '\n');
        return;
    }
    add_line(c, "view_type", view->view_type);
    add_int_line(c, "version", view->version);
    add_line(c, "tenant", view->tenant);
    add_line(c, "view_id", view->view_id);
    add_int_line(c, "last_event_sequence", view->last_event_sequence);
    add_line(c, "data", view->data);
    add_int_line(c, "as_of", as_of);
}

void cli_print_found(cli *c, const ef_view_list *found, bool current)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        cli_print_view(c, &found->items[0], found->as_of);
        if (current)
            add_int_line(c, "blocked_streams", found->blocked_streams);
        return;
    }
    ef__view_write_found(&w, found, current);
    ef__buf_add_char(&c->out, '\n');
}

ef_status cli_freshness(const cli *c, ef_freshness *out, ef_error *err)
{
    ef_token token;

    *out = (ef_freshness){.at_least = ef_str_from(cli_value(c, "at-least")),
                          .current = cli_has(c, "current")};
    if (cli_has(c, "at-least") && out->current)
        return ef_fail(err, EF_BAD_INPUT, "--at-least and --current cannot be combined");
    if (cli_has(c, "at-least") && ef_token_parse(out->at_least, &token, err) != EF_OK)
        return err->status;
    if (cli_has(c, "at-least") || out->current)
        out->timeout_ms = TIMEOUT_MS_DEFAULT;
    else if (cli_has(c, "timeout"))
        return ef_fail(err, EF_BAD_INPUT, "--timeout needs --at-least or --current");
    return cli_duration(c, "timeout", &out->timeout_ms, err);
}

const char *cli_view_hint(ef_status status)
{
    if (status == EF_BLOCKED)
        return "see: everfold projection failures PROJECTION; then everfold outbox requeue or skip";
    return status == EF_TIMEOUT ? "check that a worker is running: everfold worker ls" : NULL;
}
