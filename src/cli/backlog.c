/*
 * backlog.c - see backlog.h.
 */
#include "backlog.h"

#include <inttypes.h>
#include <stddef.h>

#define EXIT_TIMED_OUT 5 /* as ef_status_exit(EF_TIMEOUT) */
#define EXIT_UNHEALTHY 6

/* Counts of a backlog: key in JSON, then the text for one and for several. */
static const struct left_kind {
    const char *key;
    size_t offset;
    const char *one, *many;
} left_kinds[] = {
#define LEFT(key, one, many)                                                                       \
    {                                                                                              \
#key, offsetof(ef_backlog, key), one, many                                                 \
    }
    LEFT(queued, "row is queued", "rows are queued"),
    LEFT(behind, "projection lags", "projections lag"),
    LEFT(runs, "run is open", "runs are open"),
    LEFT(retrying, "row failed and will be retried", "rows failed and will be retried"),
    LEFT(tenants, "tenant of a log-ordered projection is blocked",
         "tenants of log-ordered projections are blocked"),
    LEFT(dead, "row is dead", "rows are dead"),
    LEFT(blocked, "event is blocked by a failed one", "events are blocked by failed ones"),
    LEFT(failed, "projection has failed", "projections have failed"),
    LEFT(no_function, "projection is written in C and not part of this program",
         "projections are written in C and not part of this program"),
    LEFT(unpublished, "message is not published", "messages are not published"),
#undef LEFT
};

static int64_t left_count(const ef_backlog *left, const struct left_kind *kind)
{
    return *(const int64_t *)(const void *)((const char *)left + kind->offset);
}

static void add_count(ef__json_writer *writer, const ef_backlog *left, const struct left_kind *kind)
{
    ef__json_key(writer, kind->key);
    ef__json_int(writer, left_count(left, kind));
}

static void write_counts(cli *c, const ef_backlog *left)
{
    ef__json_writer writer = EF__JSON_WRITER(&c->out);

    ef__json_open(&writer, '{');
    ef__json_member_open(&writer, "left", '{');
    for (size_t i = 0; i < sizeof left_kinds / sizeof *left_kinds; i++)
        add_count(&writer, left, &left_kinds[i]);
    ef__json_key(&writer, "next_attempt_at");
    if (left->due_us)
        ef__json_time(&writer, left->due_us);
    else
        ef__json_null(&writer);
    ef__json_close(&writer, '}');
    ef__json_close(&writer, '}');
    ef__buf_add_char(&c->out, '\n');
    (void)cli_flush(c);
}

bool cli_backlog_is_open(const ef_backlog *left)
{
    return left->queued || left->behind || left->runs;
}

int cli_backlog_report(cli *c, const ef_backlog *left, bool silent)
{
    const ef_clock *clock = ef_clock_system();
    ef__buf text = EF__BUF_INIT(4096);

    for (size_t i = 0; i < sizeof left_kinds / sizeof *left_kinds; i++) {
        int64_t count = left_count(left, &left_kinds[i]);
        if (count)
            ef__buf_printf(&text, "%s%" PRId64 " %s", text.len ? ", " : "", count,
                           count == 1 ? left_kinds[i].one : left_kinds[i].many);
    }
    if (!text.len)
        return 0;
    if (left->due_us > clock->wall_us(clock->context))
        ef__buf_printf(&text, "; the next retry is due in %" PRId64 " s",
                       (left->due_us - clock->wall_us(clock->context)) / 1000000 + 1);
    if (c->format != CLI_TABLE && !silent)
        write_counts(c, left);
    cli_warn(c, "everfold: not everything is applied: %.*s", (int)text.len, text.ptr);
    ef__buf_release(&text);
    return cli_backlog_is_open(left) ? EXIT_TIMED_OUT : EXIT_UNHEALTHY;
}
