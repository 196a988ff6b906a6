/*
 * cmd_projection_verify.c - everfold projection verify NAME
 */
#include "commands.h"
#include "calls.h"
#include "projection.h"
#include "run.h"

#include <inttypes.h>

static void print_verdict(cli *c, const ef_run *run, const ef_verdict *v)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%" PRId64 " view%s, %" PRId64 " differ\n", v->views,
                       cli_plural(v->views), v->differences);
        if (v->examples.len) {
            ef__buf_add_text(&c->out, "first difference: ");
            cli_escape(&c->out, v->examples);
            ef__buf_add_char(&c->out, '\n');
        }
        return;
    }
    ef__json_open(&w, '{');
    ef__json_member_str(&w, "projection", run->projection);
    ef__json_member_int(&w, "generation", v->generation);
    ef__json_member_bool(&w, "equal", v->compared && v->differences == 0);
    ef__json_member_int(&w, "views", v->views);
    ef__json_member_int(&w, "differences", v->differences);
    ef__json_member_raw(&w, "examples", v->examples.len ? v->examples : EF_STR("[]"));
    ef__json_member_str(&w, "run", run->id);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
}

static int verify_projection(cli *c, ef_run_list *runs)
{
    ef_error err = EF_ERROR_INIT;
    ef_verdict v;
    int rc = cli_run_drive(c, runs);

    if (rc != 0)
        return rc;
    if (ef_run_verdict(&runs->items[0], &v, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    print_verdict(c, &runs->items[0], &v);
    if (v.differences == 0)
        return 0;
    cli_say(c, "rebuild it: everfold projection rebuild %s", c->arguments[0]);
    return 1;
}

static int run_verify(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    ef_status st = cli_projection_verify(c, ef_str_from(c->arguments[0]), cli_actor(c),
                                         cli_reason(c), &runs, &err);
    rc = st == EF_OK ? verify_projection(c, &runs) : cli_fail(c, &err, cli_projection_hint(st));
    ef_run_list_release(&runs);
    return rc;
}

const cli_command cli_cmd_projection_verify = {
    .name = "projection verify",
    .summary = "compare every view with a side build from the journal; exit code 1 on drift",
    .options = CLI_OPTIONS({"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"}),
    .arguments = CLI_NAME("projection"),
    .more =
        "Live work continues meanwhile. The side build is removed afterwards. The exit code is\n"
        "1 if a view differs from the result of folding the events.",
    .example = "everfold projection verify customer_orders",
    .run = run_verify,
};
