/*
 * output.c - results on stdout, messages on stderr; the progress bar; small files that are read
 * whole.
 *
 * Results are collected in c->out and written in pieces. If the reader has closed the pipe (`|
 * head`), the rest is dropped and the command ends with its normal exit code; any other write error
 * is an error.
 *
 * The progress bar is drawn on stderr, only on a terminal:
 *
 *     importing [=========>          ]  45%  12.3 MB of 27.3 MB  48210 events/s  ETA 0:12
 */
#include "cli.h"
#include "../base/same.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

bool cli_flush(cli *c)
{
    size_t done = 0;

    if (c->out.failed && c->out_state == CLI_OUT_OPEN) {
        c->out_state = CLI_OUT_BROKEN;
        c->out_errno = ENOMEM;
    }
    while (c->out_state == CLI_OUT_OPEN && done < c->out.len) {
        ssize_t n = write(STDOUT_FILENO, c->out.ptr + done, c->out.len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR) {
            c->out_state = errno == EPIPE ? CLI_OUT_CLOSED : CLI_OUT_BROKEN;
            c->out_errno = errno;
        }
    }
    ef__buf_reset(&c->out);
    return c->out_state == CLI_OUT_OPEN;
}

bool cli_flush_some(cli *c)
{
    if (c->out.len < CLI_OUT_BYTES && !c->out.failed)
        return c->out_state == CLI_OUT_OPEN;
    return cli_flush(c);
}

bool cli_reader_gone(cli *c)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = 0};

    if (poll(&p, 1, 0) > 0 && (p.revents & POLLERR) && c->out_state == CLI_OUT_OPEN)
        c->out_state = CLI_OUT_CLOSED;
    return c->out_state != CLI_OUT_OPEN;
}

/* --- messages --------------------------------------------------------------------------------- */

bool cli_logs_messages(const cli *c)
{
    return c->log_style == EF_LOG_JSON && c->command && c->command->service;
}

/* Writes a message as a log line, independent of log.level. */
static void log_message(ef_log_level level, const char *text, const ef_log_field *fields,
                        size_t field_count)
{
    static const char prefix[] = "everfold: ";
    char line[EF_LOG_LINE_MAX];
    size_t skip = strncmp(text, prefix, sizeof(prefix) - 1) == 0 ? sizeof(prefix) - 1 : 0;
    uint64_t n =
        ef_log_line(EF_LOG_JSON, cli_wall_us(), level, text + skip, fields, field_count, line);

    (void)fwrite(line, 1, n, stderr);
}

/* Hint for a server that is not reachable: where its URL came from. */
static const char *server_hint(const cli *c)
{
    ef__setting_view server = cli_setting(c, "server");

    return server.origin == EF__ORIGIN_ENVIRONMENT ? "the server is named by EVERFOLD_SERVER; "
                                                     "unset it, or use --data DIR for local stores"
           : server.origin == EF__ORIGIN_FILE
               ? "the server is named by the settings file; use --data DIR for local stores"
               : NULL;
}

/* A refused token is refused for every command, whatever the hint of this one is. */
static const char *choose_hint(const cli *c, ef_status status, const char *hint)
{
    if (c->client && status == EF_UNAUTHORIZED)
        return "set EVERFOLD_TOKEN or --token-file FILE; everfold token create makes a token";
    return !hint && c->client && status == EF_BUSY ? server_hint(c) : hint;
}

int cli_fail(const cli *c, const ef_error *err, const char *hint)
{
    const ef_status_info *is = ef_status_describe(err->status);
    const char *text = err->text[0] ? err->text : is->message;
    EF__AUTO(ef__buf) out = EF__BUF_INIT(64 * 1024);
    ef__json_writer w = EF__JSON_WRITER(&out);

    hint = choose_hint(c, err->status, hint);
    if (cli_logs_messages(c)) {
        log_message(EF_LOG_ERROR, text,
                    (ef_log_field[]){EF_LOG_TEXT_FIELD("code", ef_str_from(is->code)),
                                     EF_LOG_TEXT_FIELD("hint", ef_str_from(hint))},
                    hint ? 2 : 1);
        return is->exit_code;
    }
    if (c->format == CLI_TABLE) {
        ef__buf_add_text(&out, "everfold: ");
        cli_escape(&out, ef_str_from(text));
        ef__buf_add_text(&out, hint ? "\n  " : "");
        cli_escape(&out, ef_str_from(hint));
    } else {
        ef__problem_write(&w, err, hint);
    }
    ef__buf_add_char(&out, '\n');
    (void)fwrite(out.ptr ? out.ptr : "", 1, out.len, stderr);
    return is->exit_code;
}

void cli_hint(cli *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(c->hint, sizeof(c->hint), format, args);
    va_end(args);
}

ef_status cli_refuse(cli *c, ef_error *err, const char *format, ...)
{
    va_list args;

    *err = (ef_error){.status = EF_BAD_INPUT};
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    cli_hint(c, "see: everfold %s --help", c->command->name);
    return EF_BAD_INPUT;
}

static void write_message(const cli *c, ef_log_level level, const char *format, va_list args)
{
    char text[1024];
    EF__AUTO(ef__buf) out = EF__BUF_INIT(64 * 1024);

    (void)vsnprintf(text, sizeof(text), format, args);
    if (cli_logs_messages(c)) {
        log_message(level, text, NULL, 0);
        return;
    }
    cli_escape(&out, ef_str_from(text));
    ef__buf_add_char(&out, '\n');
    (void)fwrite(out.ptr ? out.ptr : "", 1, out.len, stderr);
}

void cli_say(const cli *c, const char *format, ...)
{
    va_list args;

    if (c->quiet)
        return;
    va_start(args, format);
    write_message(c, EF_LOG_INFO, format, args);
    va_end(args);
}

void cli_warn(const cli *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_message(c, EF_LOG_WARN, format, args);
    va_end(args);
}

const char *cli_colour(const cli *c, enum cli_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[31m", "\033[33m", "\033[32m"};
    const char *no_color = getenv("NO_COLOR");

    if (cli_has(c, "no-color") || (no_color && no_color[0] != '\0') || !isatty(STDOUT_FILENO))
        return "";
    return codes[colour];
}

/* --- lists ------------------------------------------------------------------------------------ */

void cli_list_next(cli *c, cli_list *list)
{
    if (!list->lines)
        ef__buf_add_text(&c->out, list->count == 0 ? "[" : ",\n ");
    list->count++;
}

bool cli_list_item_end(cli *c, cli_list *list)
{
    if (list->lines)
        ef__buf_add_char(&c->out, '\n');
    return cli_flush_some(c);
}

void cli_list_end(cli *c, cli_list *list)
{
    if (!list->lines)
        ef__buf_add_text(&c->out, list->count == 0 ? "[]\n" : "]\n");
}

/* --- progress --------------------------------------------------------------------------------- */

#define REDRAW_US 100000 /* ten updates per second */
#define BAR_COLUMNS 20

cli_progress cli_progress_begin(const cli *c, const char *label, const char *unit, bool bytes)
{
    return (cli_progress){.shown = !c->quiet && isatty(STDERR_FILENO),
                          .label = label,
                          .unit = unit,
                          .bytes = bytes,
                          .started_us = cli_mono_us()};
}

void cli_bytes_format(int64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    int64_t tenths = bytes < INT64_MAX / 10 ? bytes * 10 : bytes;

    while (tenths >= 10240 && unit < 4) {
        tenths /= 1024;
        unit++;
    }
    if (unit == 0)
        (void)snprintf(out, 32, "%lld B", (long long)bytes);
    else
        (void)snprintf(out, 32, "%lld.%lld %s", (long long)(tenths / 10), (long long)(tenths % 10),
                       units[unit]);
}

static void write_bar(ef__buf *line, int64_t done, int64_t total)
{
    int64_t full = done >= total ? BAR_COLUMNS : done * BAR_COLUMNS / total;

    ef__buf_add_text(line, " [");
    for (int64_t i = 0; i < BAR_COLUMNS; i++)
        ef__buf_add_char(line, i < full ? '=' : i == full ? '>' : ' ');
    ef__buf_printf(line, "] %3lld%%", (long long)(done >= total ? 100 : done * 100 / total));
}

static void write_amount(const cli_progress *p, ef__buf *line, int64_t done, int64_t total)
{
    char a[32], b[32];

    if (p->bytes) {
        cli_bytes_format(done, a);
        cli_bytes_format(total, b);
        ef__buf_printf(line, "  %s%s%s", a, total > 0 ? " of " : "", total > 0 ? b : "");
    } else {
        ef__buf_printf(line, "  %lld", (long long)done);
        if (total > 0)
            ef__buf_printf(line, " of %lld", (long long)total);
    }
}

void cli_progress_update(cli_progress *p, int64_t done, int64_t total, int64_t count)
{
    int64_t now = cli_mono_us();
    int64_t spent = now - p->started_us;
    EF__AUTO(ef__buf) line = EF__BUF_INIT(4096);

    if (!p->shown || (p->drawn_us != 0 && now - p->drawn_us < REDRAW_US && done < total))
        return;
    p->drawn_us = now;
    ef__buf_printf(&line, "\r\033[K%s", p->label);
    if (total > 0 && done < INT64_MAX / 100)
        write_bar(&line, done, total);
    write_amount(p, &line, done, total);
    if (spent > 0)
        ef__buf_printf(&line, "  %.0f %s/s", (double)count * 1e6 / (double)spent, p->unit);
    if (total > 0 && done > 0) {
        double rest = (double)spent / 1e6 * (double)(total - done) / (double)done;
        int64_t seconds = (int64_t)(rest + 0.5);
        ef__buf_printf(&line, "  ETA %lld:%02lld", (long long)(seconds / 60),
                       (long long)(seconds % 60));
    }
    (void)fwrite(line.ptr ? line.ptr : "", 1, line.len, stderr);
    (void)fflush(stderr);
}

bool cli_progress_step(void *progress, int64_t done, int64_t total)
{
    cli_progress_update(progress, done, total, done);
    return !cli_stopped();
}

void cli_progress_clear(cli_progress *p)
{
    if (p->shown && p->drawn_us != 0) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    p->drawn_us = 0;
}

void cli_progress_end(cli_progress *p)
{
    cli_progress_clear(p);
    p->shown = false;
}

#define READ_BYTES 65536

static ef_status read_all(int fd, const char *path, ef__buf *out, ef_error *err)
{
    for (;;) {
        if (!ef__buf_reserve(out, READ_BYTES))
            return ef_fail(err, EF_TOO_LARGE, "%s is larger than %zu bytes", path,
                           out->max_bytes - READ_BYTES);
        ssize_t n = read(fd, out->ptr + out->len, READ_BYTES);
        if (n < 0 && errno != EINTR)
            return ef_fail(err, EF_IO, "%s could not be read: %s", path, strerror(errno));
        if (n == 0)
            return EF_OK;
        if (n > 0)
            out->len += (size_t)n;
    }
}

ef_status cli_file_read(const char *path, ef__buf *out, ef_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s could not be opened: %s",
                       path, strerror(errno));
    ef__buf_reset(out);
    ef_status st = read_all(fd, is_stdin ? "stdin" : path, out, err);
    if (!is_stdin)
        (void)close(fd);
    return st;
}

void cli_escape_lines(ef__buf *out, ef_str text, const char *indent)
{
    for (ef_str line; ef__line_next(&text, &line);) {
        ef__buf_add_text(out, line.len > 0 ? indent : "");
        cli_escape(out, line);
        ef__buf_add_char(out, '\n');
    }
}

void cli_lines_say(ef_str text)
{
    EF__AUTO(ef__buf) out = EF__BUF_INIT(CLI_OUT_MAX);

    cli_escape_lines(&out, text, "");
    (void)fwrite(out.ptr ? out.ptr : "", 1, out.len, stderr);
}
