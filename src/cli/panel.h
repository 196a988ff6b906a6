/*
 * panel.h - the overview of `work` and `top` as text: a pure function from facts and a size to
 * lines.
 *
 * Short sections are placed in one to three columns, lists below them. If the height does not
 * suffice, the longest lists are cut and show how many lines are missing.
 */
#ifndef EF_CLI_PANEL_H
#define EF_CLI_PANEL_H

#include "overview.h"

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

/* Draws at most `height` lines, each ended by a newline and at most `width` columns wide. */
void cli_panel_draw(const cli_panel_facts *facts, const cli_panel_view *view, ef__buf *out);

#endif
