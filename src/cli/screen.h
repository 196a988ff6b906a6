/*
 * screen.h - the terminal while a panel is on it: the other screen, keys, a frame at a time.
 *
 * A frame is written whole, and only when it differs from the one before it, at most four times a
 * second. The terminal is as it was after cli_screen_close, and also when a signal ends the
 * process.
 */
#ifndef EF_CLI_SCREEN_H
#define EF_CLI_SCREEN_H

#include "panel.h"

typedef struct cli_screen {
    cli *c;
    bool keys; /* stdin is the terminal too */
    cli_panel_page page;
    bool paused;
    bool turned; /* a key has changed what is to be shown */
    bool ended;  /* somebody pressed q */
    int64_t drawn_us;
    size_t width, height;
    ef__buf frame;
    ef__buf shown; /* the last frame */
} cli_screen;

/* Is stdout a terminal that a panel may take, and does the command want to show one there? */
bool cli_screen_possible(const cli *c);

void cli_screen_open(cli_screen *screen, cli *c);
/* Wait until the next frame is due, and take keys meanwhile. False: it is time to end. */
bool cli_screen_wait(cli_screen *screen);
void cli_screen_show(cli_screen *screen, const cli_panel_facts *facts);
void cli_screen_close(cli_screen *screen);

#endif
