/*
 * cmd_view_seed.c - everfold view seed PROJECTION FILE --position P
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

#include "../base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (32 * 1024 * 1024)

typedef struct seed_file {
    FILE *file;
    char *line; /* buffer of getline */
    size_t room;
    int64_t number, position;
    ef__arena arena;
} seed_file;

static ef_status bad_line(const seed_file *s, const char *what, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "line %" PRId64 ": %s", s->number, what);
}

static ef_str member_text(const ef__json *line, const char *key)
{
    const ef__json *found = ef__json_get(line, key);

    return found ? found->text : (ef_str){0};
}

/* Views that were exported at another position would miss events or count them twice. */
static ef_status decode_view(seed_file *s, const ef__json *line, ef_seed_view *out, ef_error *err)
{
    const ef__json *data = ef__json_get(line, "data"), *id = ef__json_get(line, "view_id");
    const ef__json *last = ef__json_get(line, "last_event_sequence");
    const ef__json *as_of = ef__json_get(line, "as_of");
    int64_t position;

    if (!id || id->kind != EF__JSON_STRING)
        return bad_line(s, "view_id is missing", err);
    if (!data || data->kind != EF__JSON_OBJECT)
        return bad_line(s, "data is missing, or not an object", err);
    *out = (ef_seed_view){
        .tenant = member_text(line, "tenant"), .view_id = id->text, .data = data->text};
    if (last && ef__json_int64(last, &out->last_event_sequence) != 0)
        return bad_line(s, "last_event_sequence is not an integer", err);
    if (as_of && (ef__json_int64(as_of, &position) != 0 || position != s->position))
        return bad_line(s, "as_of differs from --position", err);
    return EF_OK;
}

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    seed_file *s = context;
    ef_error why = EF_ERROR_INIT;
    ef__json *line = NULL;
    ssize_t length;

    do {
        errno = 0;
        length = getline(&s->line, &s->room, s->file);
        s->number++;
    } while (length == 1 && s->line[0] == '\n');
    *out_more = length > 0;
    if (length <= 0)
        return ferror(s->file) ? ef_fail(err, EF_IO, "the file cannot be read: error %d", errno)
                               : EF_OK;
    ef__arena_reset(&s->arena);
    if (ef__json_parse_envelope((ef_str){s->line, (size_t)length}, LINE_MAX_BYTES, &s->arena, &line,
                                &why) != EF_OK)
        return ef_fail(err, why.status, "line %" PRId64 ": %s", s->number, why.text);
    return decode_view(s, line, out, err);
}

static int seed_generation(cli *c, seed_file *s)
{
    ef_error err = EF_ERROR_INIT;
    ef_run_list runs = {0};
    ef_status st = cli_projection_seed(c,
                                       &(ef_seed){.projection = ef_str_from(c->arguments[0]),
                                                  .position = s->position,
                                                  .next = next_view,
                                                  .context = s,
                                                  .actor = cli_actor(c),
                                                  .reason = cli_reason(c)},
                                       &runs, &err);
    ef_verdict v;
    int rc = st == EF_OK ? 0 : cli_fail(c, &err, "nothing was stored");

    if (rc == 0)
        cli_print_run(c, &runs.items[0]);
    if (rc == 0 && ef_run_verdict(&runs.items[0], &v, &err) == EF_OK)
        cli_say(c, "when it has caught up: everfold projection switch %s --generation %d",
                c->arguments[0], (int)v.built);
    ef_run_list_release(&runs);
    return rc;
}

static int run_seed(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    seed_file s = {.position = -1, .arena = EF__ARENA_INIT(4ul * LINE_MAX_BYTES)};
    const char *path = c->arguments[1];
    int rc;

    if (cli_number(c, "position", 0, INT64_MAX, &s.position, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (s.position < 0)
        return cli_usage(c, "view seed needs --position: the position that the views reflect");
    rc = cli_engine_need(c, false);
    if (rc != 0)
        return rc;
    s.file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!s.file) {
        (void)ef_fail(&err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s cannot be opened: %s", path,
                      strerror(errno));
        return cli_fail(c, &err, NULL);
    }
    rc = seed_generation(c, &s);
    if (s.file != stdin)
        (void)fclose(s.file);
    free(s.line);
    ef__arena_release(&s.arena);
    return rc;
}

const cli_command cli_cmd_view_seed = {
    .name = "view seed",
    .summary = "start a generation from exported views",
    .options =
        CLI_OPTIONS({"position", 0, "P", NULL, NULL, "position that the views reflect (required)"},
                    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded with the run"}),
    .arguments = CLI_ARGUMENTS(
        {"PROJECTION", false, false, NULL, "name of the projection"},
        {"FILE", false, false, "@file", "NDJSON as written by view export; - reads stdin"}),
    .more =
        "A new generation of the active program starts with these views and continues after the\n"
        "position. A line is an object with view_id and data, and optionally tenant,\n"
        "last_event_sequence and as_of, which must equal the position. Queries read it after a\n"
        "switch. If a line is invalid, nothing is stored. Export with --all-tenants: the views\n"
        "of other tenants would otherwise be missing.",
    .example = "everfold view export customer_orders --all-tenants > views.ndjson && "
               "everfold view seed customer_orders views.ndjson --position 207",
    .run = run_seed,
};
