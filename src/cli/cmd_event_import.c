/*
 * cmd_event_import.c - everfold event import FILE
 *
 * The file is read line by line; a batch of lines is one append. A batch ends at --batch events or
 * at BATCH_BYTES bytes, whichever comes first, so memory does not grow with the file.
 */
#include "calls.h"
#include "../base/incoming.h"
#include "../base/limits.h"
#include "../base/same.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (256 * 1024)
#define BATCH_BYTES (4 * 1024 * 1024) /* lines of a batch: keeps the whole import under 64 MB */
#define BAD_SHOWN_MAX 25 /* bad lines that are reported; further ones are only counted */

/* One import. The lines of a batch are adjacent in `lines`; events point into them and into
 * `texts`, so `lines` is never reallocated while a batch is open. */
typedef struct importer {
    cli *c;
    int fd;
    bool dry_run;
    bool skip_bad;
    size_t batch_max;

    ef__buf input; /* bytes that were read and not yet split into lines */
    size_t input_at;
    bool input_end;
    int64_t bytes_done, bytes_total;
    int64_t line; /* number of the last line read */

    char *lines;
    size_t lines_used;
    ef__arena texts;
    ef_new_event *events;
    int64_t *line_numbers;
    ef_place *places;
    size_t count;

    int64_t imported, duplicates, bad, without_id;
    cli_progress progress;
} importer;

/* --- lines ------------------------------------------------------------------------------------ */

static ef_status fill_input(importer *in, ef_error *err)
{
    ssize_t n;

    if (in->input_at > 0) {
        in->input.len -= in->input_at;
        memmove(in->input.ptr, in->input.ptr + in->input_at, in->input.len);
        in->input_at = 0;
    }
    if (!ef__buf_reserve(&in->input, READ_BYTES))
        return ef_fail(err, EF_NO_MEMORY, "out of memory at line %" PRId64, in->line + 1);
    do
        n = read(in->fd, in->input.ptr + in->input.len, READ_BYTES);
    while (n < 0 && errno == EINTR && !cli_stopped());
    if (n < 0 && errno == EINTR)
        n = 0; /* the caller checks cli_stopped and reads no further */
    if (n < 0)
        return ef_fail(err, EF_IO, "the file could not be read: %s", strerror(errno));
    in->input_end = n == 0;
    in->input.len += (size_t)n;
    return EF_OK;
}

/* Reads the next line, without its newline; ptr is NULL at the end of the file. A line beyond the
 * limit is read to its end and dropped: EF_TOO_LARGE, and the next call returns the following line.
 */
static ef_status read_line(importer *in, ef_str *out, ef_error *err)
{
    size_t searched = 0;
    bool dropped = false;

    *out = (ef_str){NULL, 0};
    for (;;) {
        size_t have = in->input.len - in->input_at;
        const char *start = in->input.ptr ? in->input.ptr + in->input_at : "";
        const char *end = memchr(start + searched, '\n', have - searched);
        size_t length = end ? (size_t)(end - start) : have;
        bool over = length > EF_LIMIT_LINE_BYTES;
        if (end || in->input_end || over) {
            in->input_at += length + (end ? 1 : 0);
            in->bytes_done += (int64_t)length + (end ? 1 : 0);
        }
        if (end || (in->input_end && (length > 0 || dropped))) {
            in->line++;
            if (over || dropped)
                return ef_fail(err, EF_TOO_LARGE, "line is longer than %d bytes",
                               EF_LIMIT_LINE_BYTES);
            *out = (ef_str){start, length};
            return EF_OK;
        }
        if (in->input_end)
            return EF_OK;
        dropped = dropped || over;
        searched = over ? 0 : have;
        ef_status st = fill_input(in, err);
        if (st != EF_OK)
            return st;
    }
}

/* --- batches ---------------------------------------------------------------------------------- */

static void report_bad_line(importer *in, int64_t line, const ef_error *err)
{
    in->bad++;
    cli_progress_clear(&in->progress);
    if (in->bad <= BAD_SHOWN_MAX)
        cli_warn(in->c, "everfold: line %" PRId64 ": %s", line, err->text);
    else if (in->bad == BAD_SHOWN_MAX + 1)
        cli_warn(in->c, "everfold: more bad lines are only counted");
}

static void count_places(importer *in, const ef_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        in->duplicates += places[i].duplicate ? 1 : 0;
    in->imported += (int64_t)count;
}

/* After a batch was refused, --skip-bad appends its lines one by one. */
static ef_status append_one_by_one(importer *in, ef_error *err)
{
    for (size_t i = 0; i < in->count; i++) {
        ef_error line_err = EF_ERROR_INIT;
        ef_place place = {0};
        ef_status st = cli_append(in->c, &in->events[i], 1, &place, &line_err);
        ef_next next = ef_status_describe(st)->next;
        if (st == EF_OK) {
            count_places(in, &place, 1);
        } else if (next == EF_NEXT_DECIDE || next == EF_NEXT_FIX) {
            report_bad_line(in, in->line_numbers[i], &line_err);
        } else {
            *err = line_err;
            return st;
        }
    }
    return EF_OK;
}

static bool same_content(const ef_new_event *e, ef_str stream, ef_str type, ef_str data)
{
    return ef_str_equal(e->stream, stream) && ef_str_equal(e->type, type) &&
           ef_str_equal(e->data, data);
}

/* Does the store, or an earlier line of the batch, have the id of events[i] with other content?
 * `*out_known` is set if the id is known at all. */
static bool id_has_other_content(importer *in, size_t i, bool *out_known)
{
    const ef_new_event *e = &in->events[i];
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    bool taken = false;

    *out_known = false;
    if (e->id.len == 0)
        return false;
    if (cli_read_id(in->c, e->tenant, e->id, &batch, NULL) == EF_OK) {
        const ef_event *stored = &batch.events[0];
        *out_known = true;
        taken = !same_content(e, stored->stream, stored->type, stored->data);
    }
    for (size_t k = 0; k < i && !*out_known; k++)
        if (ef_str_equal(in->events[k].id, e->id) &&
            ef_str_equal(in->events[k].tenant, e->tenant)) {
            *out_known = true;
            taken = !same_content(e, in->events[k].stream, in->events[k].type, in->events[k].data);
        }
    return taken;
}

/* Is the stream at another seq than events[i] expects, after the lines before it? */
static bool seq_conflicts(importer *in, size_t i)
{
    const ef_new_event *e = &in->events[i];
    int64_t seq = 0, position = 0;

    if (e->expected_seq.plus_one == 0 || in->places[i].duplicate ||
        cli_stream_head(in->c, e->tenant, e->stream, &seq, &position) != EF_OK)
        return false;
    for (size_t k = 0; k < i; k++)
        if (!in->places[k].duplicate && ef_str_equal(in->events[k].stream, e->stream) &&
            ef_str_equal(in->events[k].tenant, e->tenant))
            seq++;
    return seq != e->expected_seq.plus_one - 1;
}

/* Finds the line for which a batch was refused. The journal names none, so the store is read; if
 * that is inconclusive (another client has written since), the whole batch is named. */
static size_t find_refused_line(importer *in, ef_status status)
{
    for (size_t i = 0; i < in->count; i++) {
        EF__AUTO(ef_type_list) types = {0};
        bool taken = id_has_other_content(in, i, &in->places[i].duplicate);
        bool unknown = status == EF_UNKNOWN_TYPE &&
                       cli_type_ls(in->c, &in->events[i].type, &types, NULL) == EF_NOT_FOUND;
        if (unknown || (status == EF_ID_CONFLICT && taken) ||
            (status == EF_CONFLICT && seq_conflicts(in, i)))
            return i;
    }
    return in->count;
}

static ef_status name_refused_lines(importer *in, ef_status status, ef_error *err)
{
    char text[EF_ERROR_TEXT_MAX];
    ef_next next = ef_status_describe(status)->next;
    bool is_refusal = next == EF_NEXT_DECIDE || next == EF_NEXT_FIX;
    size_t i = is_refusal ? find_refused_line(in, status) : in->count;

    (void)snprintf(text, sizeof(text), "%s", err->text);
    if (i < in->count)
        (void)snprintf(err->text, sizeof(err->text), "line %" PRId64 ": %.400s",
                       in->line_numbers[i], text);
    else
        (void)snprintf(err->text, sizeof(err->text), "lines %" PRId64 " to %" PRId64 ": %.400s",
                       in->line_numbers[0], in->line_numbers[in->count - 1], text);
    return status;
}

static ef_status append_batch(importer *in, ef_error *err)
{
    ef_status st = EF_OK;

    if (in->count == 0)
        return EF_OK;
    if (in->dry_run) {
        in->imported += (int64_t)in->count;
    } else {
        st = cli_append(in->c, in->events, in->count, in->places, err);
        ef_next next = ef_status_describe(st)->next;
        if (st == EF_OK)
            count_places(in, in->places, in->count);
        else if (in->skip_bad && (next == EF_NEXT_DECIDE || next == EF_NEXT_FIX))
            st = append_one_by_one(in, err);
        else
            st = name_refused_lines(in, st, err);
    }
    in->count = 0;
    in->lines_used = 0;
    ef__arena_reset(&in->texts);
    cli_progress_update(&in->progress, in->bytes_done, in->bytes_total, in->imported);
    return st;
}

/* Handles an invalid line: reports and skips it, or ends the import. */
static ef_status refuse_line(importer *in, const ef_error *line_err, ef_error *err)
{
    if (in->skip_bad) {
        report_bad_line(in, in->line, line_err);
        return EF_OK;
    }
    in->bad++;
    return ef_fail(err, line_err->status, "line %" PRId64 ": %s", in->line, line_err->text);
}

static void check_id(importer *in, const ef_new_event *event)
{
    if (event->id.len > 0)
        return;
    if (in->without_id++ == 0 && !in->dry_run) {
        cli_progress_clear(&in->progress);
        cli_warn(in->c,
                 "everfold: line %" PRId64 " has no id: another import would append it again",
                 in->line);
    }
}

static ef_status add_line(importer *in, ef_str line, ef_error *err)
{
    ef_error line_err = EF_ERROR_INIT;
    ef_status st = EF_OK;

    if (in->count == in->batch_max || in->lines_used + line.len > BATCH_BYTES)
        st = append_batch(in, err);
    if (st != EF_OK)
        return st;
    ef_str copy = {in->lines + in->lines_used, line.len};
    memcpy(in->lines + in->lines_used, line.ptr, line.len);
    st = ef__event_decode(copy, &(ef_new_event){.tenant = cli_tenant(in->c)}, &in->texts,
                          &in->events[in->count], &line_err);
    if (st == EF_OK)
        st = ef_event_check(&in->events[in->count], 1, NULL, &line_err);
    if (st == EF_NO_MEMORY) {
        *err = line_err;
        return st;
    }
    if (st != EF_OK)
        return refuse_line(in, &line_err, err);
    check_id(in, &in->events[in->count]);
    in->lines_used += line.len;
    in->line_numbers[in->count++] = in->line;
    return EF_OK;
}

/* A signal ends the import between two batches: lines of an open batch are not appended. */
static ef_status import_all(importer *in, ef_error *err)
{
    for (;;) {
        ef_error line_err = EF_ERROR_INIT;
        ef_str line;
        ef_status st = read_line(in, &line, &line_err);
        if (cli_stopped())
            return EF_OK;
        if (st == EF_TOO_LARGE)
            st = refuse_line(in, &line_err, err);
        else if (st != EF_OK)
            *err = line_err;
        else if (!line.ptr)
            return append_batch(in, err);
        else if (ef__str_trim(line).len > 0)
            st = add_line(in, line, err);
        if (st != EF_OK)
            return st;
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static ef_status open_file(importer *in, const char *path, ef_error *err)
{
    struct stat st;

    in->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s could not be opened: %s",
                       path, strerror(errno));
    if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
        in->bytes_total = st.st_size;
    if (fstat(in->fd, &st) == 0 && S_ISDIR(st.st_mode))
        return ef_fail(err, EF_BAD_INPUT, "%s is a directory", path);
    return EF_OK;
}

static ef_status allocate_batch(importer *in, ef_error *err)
{
    in->lines = malloc(BATCH_BYTES);
    in->events = calloc(in->batch_max, sizeof(*in->events));
    in->line_numbers = calloc(in->batch_max, sizeof(*in->line_numbers));
    in->places = calloc(in->batch_max, sizeof(*in->places));
    if (!in->lines || !in->events || !in->line_numbers || !in->places)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a batch of %zu events", in->batch_max);
    return EF_OK;
}

static void write_summary(importer *in)
{
    cli *c = in->c;
    int64_t spent = cli_mono_us() - in->progress.started_us;
    double seconds = spent > 0 ? (double)spent / 1e6 : 1e-6;
    double rate = (double)in->imported / seconds;

    if (c->format == CLI_TABLE)
        ef__buf_printf(&c->out,
                       "%s%s%" PRId64 " event%s, %" PRId64 " duplicate%s, %" PRId64
                       " bad, %.3f seconds, %.0f events/s\n",
                       cli_stopped() ? "stopped: " : "", in->dry_run ? "checked only: " : "",
                       in->imported, cli_plural(in->imported), in->duplicates,
                       cli_plural(in->duplicates), in->bad, seconds, rate);
    else
        ef__buf_printf(&c->out,
                       "{\"events\":%" PRId64 ",\"duplicates\":%" PRId64 ",\"bad\":%" PRId64
                       ",\"seconds\":%.3f,\"events_per_second\":%.0f,\"dry_run\":%s"
                       ",\"stopped\":%s}\n",
                       in->imported, in->duplicates, in->bad, seconds, rate,
                       in->dry_run ? "true" : "false", cli_stopped() ? "true" : "false");
}

static const char *rerun_hint(const importer *in)
{
    return in->without_id > 0 ? "a second run appends lines without an id again"
                              : "a second run is safe, because every line read so far has an id";
}

static ef_status finish_import(importer *in, ef_status st)
{
    cli *c = in->c;

    cli_progress_end(&in->progress);
    if (st != EF_OK) {
        cli_hint(c, "%" PRId64 " events were %s before this batch, none of this batch; %s",
                 in->imported, in->dry_run ? "checked" : "imported", rerun_hint(in));
        return st;
    }
    write_summary(in);
    if (cli_stopped() && !in->dry_run)
        cli_say(c, "%s", rerun_hint(in));
    c->exit_code = cli_stopped() ? cli_stopped_exit() : in->bad > 0 ? 1 : 0;
    return EF_OK;
}

static ef_status import_file(cli *c, ef_error *err)
{
    importer in = {.c = c,
                   .fd = -1,
                   .dry_run = cli_has(c, "dry-run"),
                   .skip_bad = cli_has(c, "skip-bad"),
                   .batch_max = (size_t)cli_int(c, "batch"),
                   .input = EF__BUF_INIT(EF_LIMIT_LINE_BYTES + 2 * READ_BYTES),
                   .texts = EF__ARENA_INIT(2 * BATCH_BYTES)};
    ef_status st = open_file(&in, c->arguments[0], err);

    if (st == EF_OK)
        st = allocate_batch(&in, err);
    if (st == EF_OK && !in.dry_run)
        st = cli_need(c, CLI_APPEND, err);
    if (st == EF_OK) {
        cli_stop_on_signals();
        in.progress = cli_progress_begin(c, in.dry_run ? "checking" : "importing", "events", true);
        st = finish_import(&in, import_all(&in, err));
    }
    ef__buf_release(&in.input);
    ef__arena_release(&in.texts);
    free(in.lines);
    free(in.events);
    free(in.line_numbers);
    free(in.places);
    if (in.fd > STDIN_FILENO)
        (void)close(in.fd);
    return st;
}

const cli_command cli_cmd_event_import = {
    .name = "event import",
    .summary = "append events from an NDJSON file",
    .options = CLI_OPTIONS(
        CLI_INT("batch", "N", 1, EF_LIMIT_APPEND_EVENTS, 1000, "events per append (default 1000)"),
        CLI_FLAG("skip-bad", "skip bad lines; the exit code is then 1"),
        CLI_FLAG("dry-run", "check the lines only; the journal is not read")),
    .arguments = CLI_ARGUMENTS(
        CLI_ARGUMENT("FILE", "NDJSON file, one event per line; - reads stdin", .words = "@file")),
    .more =
        "A line is a JSON object with stream, type and data, and optionally tenant, id,\n"
        "expected_seq (0: the stream must not exist), meta, schema and time. A bad line ends\n"
        "the import, and nothing of its batch is appended. A second import is safe if the lines\n"
        "have ids.\n"
        "\n"
        "Lines of `event log` and `event ls` can be imported: a line with \"seq\":N is refused\n"
        "unless the stream is at N - 1; position and recorded_at are assigned by this journal.\n"
        "\n"
        "An interrupt ends the import between two batches and prints the summary; the exit code\n"
        "is then 130 (143 after SIGTERM).",
    .example = "everfold event import events.ndjson",
    .call = import_file,
};
