/*
 * panel.h - the overview of `work` and `top` as text: facts and a size in, lines out. No clock, no
 * terminal, no store.
 *
 * Small things stand in one to three columns by the width, lists below them; what does not fit the
 * height is cut from the longest, which say how much is missing.
 */
#ifndef EF_CLI_PANEL_H
#define EF_CLI_PANEL_H

#include "overview.h"

#define CLI_PANEL_HISTORY 60 /* seconds that the small picture shows */

/* What only a worker knows of itself. */
typedef struct cli_panel_work {
    ef_str worker;        /* its name */
    int64_t heartbeat_ms; /* since its last heartbeat; -1 before the first */
    ef_tick sum;          /* of all its ticks; desired_count and owned_count are the last ones */
    const ef_post *posts;
    size_t post_count;
} cli_panel_work;

typedef struct cli_panel_facts {
    const char *title; /* "work", "top" */
    const char *mode;
    const cli_overview *overview;
    const cli_troubles *troubles;
    const cli_panel_work *work; /* NULL for whoever only looks on */
    int64_t now_us;             /* wall time; ages are counted from it */
    int64_t up_ms;
    int64_t refresh_ms; /* until the stores are looked at again; -1: they are not */
    int64_t window_s;
    double rate; /* events a second, over the window */
    int64_t history[CLI_PANEL_HISTORY];
} cli_panel_facts;

typedef enum cli_panel_page { CLI_PANEL_ALL, CLI_PANEL_ERRORS, CLI_PANEL_HELP } cli_panel_page;

typedef struct cli_panel_view {
    size_t width;  /* at least 1 */
    size_t height; /* 0: as much as it takes */
    cli_panel_page page;
    bool paused;
    bool keys; /* somebody can press them: they are named in the last line */
    bool colour;
} cli_panel_view;

/* At most `height` lines, each ended by a newline, none wider than `width` columns. */
void cli_panel_draw(const cli_panel_facts *facts, const cli_panel_view *view, ef__buf *out);

#endif
