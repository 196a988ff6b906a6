/*
 * panel.h - the overview that `status`, `top` and the panel of `work` show: read from the stores,
 * as text, on the terminal, and with the reports of the supervisor of `work`.
 */
#pragma once

#include "cli.h"

#include "../shape/overview.h"

#include <pthread.h>

/* --- the overview (overview.c) ---------------------------------------------------------------- */

/* Adds an error in order of time; the oldest is dropped. An equal text replaces the older entry. */
void cli_troubles_add(ef__troubles *troubles, int64_t at_us, const char *text);

/* Reads the overview; `all` includes lanes and partitions, which counts every queued row. The
 * journal is open; the views are opened read-only if they are not. */
ef_status cli_overview_read(cli *c, bool all, ef__overview *out, ef_error *err);

/* Number of partitions with a live lease of `holder`; "" counts those of all holders. */
int64_t cli_overview_owned(const ef__overview *overview, ef_str holder);

/* --- events per second, counted in slots of one second over the last hour --------------------- */

#define CLI_RATE_SECONDS_MAX 3600

typedef struct cli_rate {
    int64_t started_us; /* monotonic; set by the caller before counting */
    int64_t second;     /* slot that is being filled, counted from started_us */
    int64_t slots[CLI_RATE_SECONDS_MAX];
} cli_rate;

void cli_rate_add(cli_rate *rate, int64_t now_us, int64_t count);
/* Adds `count` events of unknown times since `since_us`, spread evenly. */
void cli_rate_spread(cli_rate *rate, int64_t since_us, int64_t now_us, int64_t count);
/* Rate over the last `seconds`, or since the start if that is shorter. */
double cli_rate_over(cli_rate *rate, int64_t now_us, int64_t seconds);
/* The last `count` complete seconds, oldest first. */
void cli_rate_history(cli_rate *rate, int64_t now_us, int64_t *out, size_t count);

/* --- as text (panel.c) ------------------------------------------------------------------------
 *
 * A pure function from facts and a size to lines. Short sections are placed in one to three
 * columns, lists below them. If the height does not suffice, the longest lists are cut and show how
 * many lines are missing.
 */

#define CLI_PANEL_HISTORY 60 /* seconds of the throughput chart */

/* Facts about the worker of this process. */
typedef struct cli_panel_work {
    ef_str worker;        /* name of the worker */
    int64_t heartbeat_ms; /* time since its last heartbeat; -1 before the first */
    ef_tick sum;          /* sum of its ticks; desired_count and owned_count are the latest */
    const ef_task *tasks;
    size_t task_count;
} cli_panel_work;

typedef struct cli_panel_facts {
    const char *title; /* "work", "top" */
    const char *mode;
    const ef__overview *overview;
    const ef__troubles *troubles;
    const cli_panel_work *work; /* NULL in `top` */
    int64_t now_us;             /* wall clock; ages are relative to it */
    int64_t up_ms;
    int64_t refresh_ms; /* time until the stores are read again; -1: never */
    int64_t window_s;
    double rate; /* events per second over the window */
    int64_t history[CLI_PANEL_HISTORY];
} cli_panel_facts;

typedef enum cli_panel_page { CLI_PANEL_ALL, CLI_PANEL_ERRORS, CLI_PANEL_HELP } cli_panel_page;

typedef struct cli_panel_view {
    size_t width;  /* at least 1 */
    size_t height; /* 0: unlimited */
    cli_panel_page page;
    bool paused;
    bool keys; /* the keys are listed in the last line */
    bool colour;
} cli_panel_view;

/* The facts that every panel has. `next_us`: monotonic time of the next read of the stores. */
cli_panel_facts cli_panel_facts_of(const cli *c, const ef__overview *overview, cli_rate *rate,
                                   int64_t window_s, int64_t next_us);
/* Draws at most `height` lines, each ended by a newline and at most `width` columns wide. */
void cli_panel_draw(const cli_panel_facts *facts, const cli_panel_view *view, ef__buf *out);

/* --- on the terminal (screen.c) ---------------------------------------------------------------
 *
 * Alternate screen, keys, frames. A frame is written whole, only if it differs from the previous
 * one, and at most four times per second. cli_screen_close restores the terminal; so does a signal
 * that ends the process.
 */

typedef struct cli_screen {
    cli *c;
    bool keys; /* stdin is the terminal too: keys can be read */
    cli_panel_page page;
    bool paused;
    bool turned; /* a key changed the view */
    bool ended;  /* q was pressed */
    int64_t drawn_us;
    size_t width, height;
    ef__buf frame;
    ef__buf shown; /* the last frame */
} cli_screen;

/* Can a panel be shown: is stdout a terminal in the foreground, the output format the table? */
bool cli_screen_possible(const cli *c);

void cli_screen_open(cli_screen *screen, cli *c);
/* Waits for the next frame and reads keys. False: the panel must end. */
bool cli_screen_wait(cli_screen *screen);
void cli_screen_show(cli_screen *screen, const cli_panel_facts *facts);
void cli_screen_close(cli_screen *screen);

/* --- in `work` (work_panel.c) -----------------------------------------------------------------
 *
 * Reports come from any thread; the lock is held briefly, and nothing is called under it. While the
 * panel is shown, log warnings are listed among its errors, because a line on stderr would break
 * the picture.
 */

typedef struct cli_work_panel {
    cli *c;
    int64_t interval_ms, window_s;
    bool no_leasing;
    pthread_mutex_t lock; /* guards the fields below */
    bool shown;
    ef_log log_before;
    ef_tick sum;
    int64_t beat_us; /* time of the last heartbeat */
    cli_rate rate;
    ef__troubles troubles;
} cli_work_panel;

/* Adds the counts of events. */
void cli_tick_add(ef_tick *sum, const ef_tick *tick);
/* Call before the journal is opened: redirects the log. `c`, `interval_ms`, `window_s` and
 * `no_leasing` of `panel` are set. */
void cli_work_panel_init(cli_work_panel *panel);
/* The on_step callback of the supervisor. */
void cli_work_panel_report(cli_work_panel *panel, const char *task, const ef_tick *tick,
                           const ef_error *error);
/* Shows the panel until q is pressed or a signal arrives. */
void cli_work_panel_run(cli_work_panel *panel, ef_supervisor *supervisor);
/* Call after the journal is closed. */
void cli_work_panel_release(cli_work_panel *panel);
