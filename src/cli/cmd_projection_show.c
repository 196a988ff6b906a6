/*
 * cmd_projection_show.c - everfold projection show NAME
 */
#include "commands.h"
#include "projection.h"

#include <inttypes.h>

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-12s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_number(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-12s%" PRId64 "\n", name, value);
}

/* Line by line, so that its line breaks stay and nothing else passes. */
static void add_program(cli *c, ef_str text)
{
    ef__buf_add_text(&c->out, "program\n");
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t length = end ? (size_t)(end - text.ptr) : text.len;
        ef__buf_add_text(&c->out, length > 0 ? "    " : "");
        cli_escape(&c->out, (ef_str){text.ptr, length});
        ef__buf_add_char(&c->out, '\n');
        length += end ? 1 : 0;
        text.ptr += length;
        text.len -= length;
    }
}

static void write_lines(cli *c, const ef_projection *p)
{
    add_line(c, "name", p->name);
    add_number(c, "version", p->version);
    add_number(c, "generation", p->generation);
    add_line(c, "order", p->by_log ? EF_STR("log") : EF_STR("stream"));
    add_line(c, "state", p->state);
    add_number(c, "position", p->position);
    ef__buf_printf(&c->out, "%-12s%" PRId64 " events, %.3f s\n", "lag", p->lag_events,
                   (double)p->lag_us / 1e6);
    add_number(c, "views", p->views);
    add_line(c, "digest", ef_str_from(p->digest));
    add_number(c, "unaccounted", p->unaccounted);
    add_number(c, "failures", p->failures);
    add_number(c, "quarantined", p->quarantined);
    add_program(c, p->program);
}

static int run_show(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (ef_projection_ls(c->engine, ef_str_from(c->arguments[0]), &found, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else if (c->format == CLI_TABLE)
        write_lines(c, &found.items[0]);
    else
        cli_print_projection(c, &found.items[0]);
    ef_projection_list_release(&found);
    return rc;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_projection_show = {
    .name = "projection show",
    .summary = "one projection, with its program",
    .arguments = arguments,
    .more = "Of several versions, the one that is read from.",
    .example = "everfold projection show customer_orders",
    .run = run_show,
};
