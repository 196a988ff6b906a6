/*
 * cmd_projection_show.c - everfold projection show NAME
 */
#include "commands.h"
#include "front.h"
#include "projection.h"

#include <inttypes.h>

#define FAILURES_SHOWN 5

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

/* The latest that are open; whoever wants more asks for them. */
static ef_status add_failures(cli *c, const ef_projection *p, ef_error *err)
{
    ef_failure_list list = {0};
    ef_status st = EF_OK;

    add_number(c, "failures", p->failures);
    if (p->failures > 0)
        st = cli_projection_failures(c, p->name, false, FAILURES_SHOWN, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        cli_show_failure(c, &list.items[i], "            ");
    if (st == EF_OK && (size_t)p->failures > list.count) {
        ef__buf_add_text(&c->out, "            all of them: everfold projection failures ");
        cli_escape(&c->out, p->name);
        ef__buf_add_char(&c->out, '\n');
    }
    ef_failure_list_release(&list);
    return st;
}

/* Those that are behind, after that of all the others; or, of one tenant, its own. */
static ef_status add_scopes(cli *c, const ef_projection *p, ef_error *err)
{
    static const char INDENT[] = "            ";
    ef_scope_list one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c))
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
    if (st == EF_OK && (p->scope_count > 0 || one.count > 0))
        ef__buf_add_text(&c->out, "scopes\n");
    if (one.count > 0)
        cli_show_scope(c, &one.items[0], INDENT);
    for (size_t i = 0; st == EF_OK && one.count == 0 && i < p->scope_count; i++)
        cli_show_scope(c, &p->scopes[i], INDENT);
    ef_scope_list_release(&one);
    return st;
}

static ef_status write_lines(cli *c, const ef_projection *p, ef_error *err)
{
    ef_status st;

    add_line(c, "name", p->name);
    add_number(c, "version", p->version);
    add_number(c, "generation", p->generation);
    add_line(c, "order", p->by_log ? EF_STR("log") : EF_STR("stream"));
    add_line(c, "state", p->state);
    add_line(c, "on error", p->skips_errors ? EF_STR("skip") : EF_STR("stop"));
    if (p->no_function)
        add_line(c, "", EF_STR("its C function is not registered in this process"));
    add_number(c, "position", p->position);
    ef__buf_printf(&c->out, "%-12s%" PRId64 " event%s, %.3f s\n", "lag", p->lag_events,
                   cli_plural(p->lag_events), (double)p->lag_us / 1e6);
    if (p->blocked_streams)
        ef__buf_printf(&c->out, "%-12s%" PRId64 " events of %" PRId64 " %s, %.3f s\n", "blocked",
                       p->blocked_events, p->blocked_streams, p->by_log ? "tenants" : "streams",
                       (double)p->blocked_us / 1e6);
    add_number(c, "views", p->views);
    add_line(c, "digest", ef_str_from(p->digest));
    add_number(c, "unaccounted", p->unaccounted);
    st = add_failures(c, p, err);
    add_number(c, "quarantined", p->quarantined);
    if (st == EF_OK)
        st = add_scopes(c, p, err);
    add_program(c, p->program);
    return st;
}

/* With a tenant, the scopes are that tenant's. */
static ef_status write_json(cli *c, const ef_projection *p, ef_error *err)
{
    ef_projection shown = *p;
    ef_scope_list one = {0};
    ef_status st = EF_OK;

    if (cli_tenant_given(c)) {
        st = cli_projection_scope(c, p->name, cli_tenant(c), &one, err);
        shown.scopes = one.items;
        shown.scope_count = one.count;
    }
    if (st == EF_OK)
        cli_print_projection(c, &shown);
    ef_scope_list_release(&one);
    return st;
}

static int run_show(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_projection_list found = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    ef_status st = cli_projection_ls(c, ef_str_from(c->arguments[0]), &found, &err);
    if (st == EF_OK)
        st = c->format == CLI_TABLE ? write_lines(c, &found.items[0], &err)
                                    : write_json(c, &found.items[0], &err);
    if (st != EF_OK)
        rc = cli_fail(c, &err, NULL);
    ef_projection_list_release(&found);
    return rc;
}

static const cli_argument arguments[] = {
    {"NAME", false, false, NULL, "the projection"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_projection_show = {
    .name = "projection show",
    .summary = "one projection, with what failed last and its program",
    .arguments = arguments,
    .more =
        "Of several versions, the one that is read from. A projection that goes by a cursor has\n"
        "scopes, named tenant:projection:partition: * for all tenants that are level, and one\n"
        "for each that is behind, for it cannot digest an event. With --tenant, that tenant's.",
    .example = "everfold projection show customer_orders",
    .run = run_show,
};
