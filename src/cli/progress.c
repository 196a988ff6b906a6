/*
 * progress.c - a progress bar on stderr, only on a terminal.
 *
 *     importing [=========>          ]  45%  12.3 MB of 27.3 MB  48210 events/s  ETA 0:12
 */
#include "cli.h"

#include <stdio.h>
#include <unistd.h>

#define REDRAW_US 100000 /* ten updates per second */
#define BAR_COLUMNS 20

void cli_progress_begin(cli_progress *p, const cli *c, const char *label, const char *unit,
                        bool bytes)
{
    const ef_clock *clock = ef_clock_system();

    *p = (cli_progress){.shown = !c->quiet && isatty(STDERR_FILENO),
                        .label = label,
                        .unit = unit,
                        .bytes = bytes,
                        .started_us = clock->mono_us(clock->context)};
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
    const ef_clock *clock = ef_clock_system();
    int64_t now = clock->mono_us(clock->context);
    int64_t spent = now - p->started_us;
    ef__buf line = EF__BUF_INIT(4096);

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
    ef__buf_release(&line);
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
