/*
 * screen.h - the terminal while a panel is shown: alternate screen, keys, frames.
 *
 * A frame is written whole, only if it differs from the previous one, and at most four times per
 * second. cli_screen_close restores the terminal; so does a signal that ends the process.
 */
#ifndef EF_CLI_SCREEN_H
#define EF_CLI_SCREEN_H

#include "panel.h"

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

/* Can a panel be shown: stdout is a terminal in the foreground, and the output format is the table?
 */
bool cli_screen_possible(const cli *c);

void cli_screen_open(cli_screen *screen, cli *c);
/* Waits for the next frame and reads keys. False: the panel must end. */
bool cli_screen_wait(cli_screen *screen);
void cli_screen_show(cli_screen *screen, const cli_panel_facts *facts);
void cli_screen_close(cli_screen *screen);

#endif
