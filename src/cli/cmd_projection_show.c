/*
 * cmd_projection_show.c - everfold projection show NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"

#include <inttypes.h>

#define FAILURES_SHOWN 5

static void add_line(cli *c, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-12s", name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

static void add_int_line(cli *c, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-12s%" PRId64 "\n", name, value);
}

/* Prints the program line by line: line breaks stay, control characters are escaped. */
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

/* Prints the latest open failures only. */
static ef_status add_failures(cli *c, const ef_projection *p, ef_error *err)
{
    ef_failure_list list = {0};
    ef_status st = EF_OK;

    add_int_line(c, "failures", p->failures);
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

/* Prints the common scope, then the scopes that lag; with --tenant, the scope of that tenant. */
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
    add_int_line(c, "version", p->version);
    add_int_line(c, "generation", p->generation);
    add_line(c, "order", p->by_log ? EF_STR("log") : EF_STR("stream"));
    add_line(c, "state", p->state);
    add_line(c, "on error", p->skips_errors ? EF_STR("skip") : EF_STR("stop"));
    if (p->no_function)
        add_line(c, "", EF_STR("not available: its C function is not registered in this process"));
    add_int_line(c, "position", p->position);
    ef__buf_printf(&c->out, "%-12s%" PRId64 " event%s, %.3f s\n", "lag", p->lag_events,
                   cli_plural(p->lag_events), (double)p->lag_us / 1e6);
    if (p->blocked_streams)
        ef__buf_printf(&c->out, "%-12s%" PRId64 " event%s of %" PRId64 " %s%s, %.3f s\n", "blocked",
                       p->blocked_events, cli_plural(p->blocked_events), p->blocked_streams,
                       p->by_log ? "tenant" : "stream", cli_plural(p->blocked_streams),
                       (double)p->blocked_us / 1e6);
    add_int_line(c, "views", p->views);
    add_line(c, "digest", ef_str_from(p->digest));
    add_int_line(c, "unaccounted", p->unaccounted);
    st = add_failures(c, p, err);
    add_int_line(c, "quarantined", p->quarantined);
    if (st == EF_OK)
        st = add_scopes(c, p, err);
    add_program(c, p->program);
    return st;
}

/* With --tenant, only the scope of that tenant is written. */
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
        rc = cli_fail(c, &err, cli_projection_hint(st));
    ef_projection_list_release(&found);
    return rc;
}

const cli_command cli_cmd_projection_show = {
    .name = "projection show",
    .summary = "show a projection: state, lag, latest failures and program",
    .arguments = CLI_NAME("projection"),
    .more =
        "If there are several versions, the active one is shown. A log-ordered projection has\n"
        "scopes, named tenant:projection:partition: * for all tenants without a failure, and\n"
        "one for each tenant that is blocked by an event that failed. --tenant shows the scope\n"
        "of one tenant.",
    .example = "everfold projection show customer_orders",
    .run = run_show,
};
