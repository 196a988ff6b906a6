/*
 * screen.c - see panel.h.
 *
 * The first SIGINT or SIGTERM only sets the flag of cli_stopped; the waiting loop sees it and
 * closes the screen. A second one, and SIGHUP, end the process at once; then the handler restores
 * the terminal with async-signal-safe calls.
 */
#include "panel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define FRAME_US 250000
#define FRAME_BYTES_MAX (4 * 1024 * 1024)

/* Alternate screen, no cursor, no wrapping; and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

/* State of the handler; written before it is installed. */
static struct termios modes_before;
static volatile sig_atomic_t modes_changed;
static atomic_flag asked =
    ATOMIC_FLAG_INIT; /* count of stop signals: two threads may receive two at once */

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT};
enum { WATCHED = sizeof watched / sizeof watched[0] };
static struct sigaction actions_before[WATCHED];

/* --- terminal --------------------------------------------------------------------------------- */

bool cli_screen_possible(const cli *c)
{
    const char *term = getenv("TERM");

    /* In the background the terminal belongs to the shell. */
    return c->format == CLI_TABLE && !c->quiet && isatty(STDOUT_FILENO) && term && term[0] &&
           strcmp(term, "dumb") != 0 && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

static void restore_terminal(void)
{
    ssize_t ignored = write(STDOUT_FILENO, leave, sizeof leave - 1);

    (void)ignored;
    if (modes_changed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
}

static void on_signal(int number)
{
    bool asks_first = (number == SIGINT || number == SIGTERM) && !atomic_flag_test_and_set(&asked);

    if (!asks_first)
        restore_terminal();
    for (size_t i = 0; i < WATCHED; i++) {
        if (watched[i] != number)
            continue;
        if (actions_before[i].sa_handler != SIG_DFL && actions_before[i].sa_handler != SIG_IGN) {
            actions_before[i].sa_handler(number);
        } else if (actions_before[i].sa_handler == SIG_DFL) {
            (void)sigaction(number, &actions_before[i], NULL);
            (void)raise(number);
        }
    }
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < WATCHED; i++) {
        (void)sigaction(watched[i], NULL, &actions_before[i]);
        if (actions_before[i].sa_handler != SIG_IGN && !(actions_before[i].sa_flags & SA_SIGINFO))
            (void)sigaction(watched[i], &action, NULL);
    }
}

static void unwatch_signals(void)
{
    for (size_t i = 0; i < WATCHED; i++)
        (void)sigaction(watched[i], &actions_before[i], NULL);
}

/* Keys are read one by one without echo. Ctrl-C stays a signal; Ctrl-Z and Ctrl-\ are disabled,
 * because a suspended worker would keep its leases. */
static bool read_keys_raw(void)
{
    struct termios modes;

    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &modes_before) != 0)
        return false;
    modes = modes_before;
    modes.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    modes.c_cc[VSUSP] = _POSIX_VDISABLE;
    modes.c_cc[VQUIT] = _POSIX_VDISABLE;
    modes_changed = 1;
    return tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0;
}

void cli_screen_open(cli_screen *s, cli *c)
{
    *s = (cli_screen){
        .c = c, .frame = EF__BUF_INIT(FRAME_BYTES_MAX), .shown = EF__BUF_INIT(FRAME_BYTES_MAX)};
    watch_signals();
    s->keys = read_keys_raw();
    ef__buf_add_text(&c->out, enter);
    (void)cli_flush(c);
}

void cli_screen_close(cli_screen *s)
{
    restore_terminal();
    modes_changed = 0;
    unwatch_signals();
    ef__buf_release(&s->frame);
    ef__buf_release(&s->shown);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void handle_key(cli_screen *s, char key)
{
    cli_panel_page page = s->page;

    s->turned = true;
    if (key == 'q' || key == 'Q' || key == 3)
        s->ended = true;
    else if (key == 'p' || key == ' ')
        s->paused = !s->paused;
    else if (key == 'e')
        s->page = page == CLI_PANEL_ERRORS ? CLI_PANEL_ALL : CLI_PANEL_ERRORS;
    else if (key == '?' || key == 'h')
        s->page = page == CLI_PANEL_HELP ? CLI_PANEL_ALL : CLI_PANEL_HELP;
    else
        s->turned = false;
}

/* Arrow and function keys are sequences that are ignored: ESC [ 1 ; 2 A, ESC O P. Returns the index
 * of the last byte. */
static ssize_t end_of_sequence(const char *keys, ssize_t at, ssize_t count)
{
    if (at + 1 >= count || (keys[at + 1] != '[' && keys[at + 1] != 'O'))
        return at;
    for (at += 2; at < count && (keys[at] < '@' || keys[at] > '~');)
        at++;
    return at;
}

/* Waits for keys, at most `ms`. */
static void read_key(cli_screen *s, int64_t wait_us)
{
    struct pollfd p = {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN};
    char keys[32];
    ssize_t n = 0;

    if (poll(&p, 1, (int)(wait_us / 1000) + 1) <= 0)
        return;
    if (p.revents & POLLIN)
        n = read(STDIN_FILENO, keys, sizeof keys);
    if (n <= 0 && !(n < 0 && errno == EINTR))
        s->keys = false; /* stdin was closed: no more keys, and no busy loop */
    for (ssize_t i = 0; i < n; i++)
        if (keys[i] == '\033')
            i = end_of_sequence(keys, i, n);
        else
            handle_key(s, keys[i]);
}

bool cli_screen_wait(cli_screen *s)
{
    int64_t left;

    do {
        left = s->drawn_us ? s->drawn_us + FRAME_US - cli_mono_us() : 0;
        if (left > 0)
            read_key(s, left);
    } while (left > 0 && !s->ended && !cli_stopped());
    return !s->ended && !cli_stopped() && !cli_reader_gone(s->c);
}

/* --- frames ----------------------------------------------------------------------------------- */

cli_panel_facts cli_panel_facts_of(const cli *c, const ef__overview *overview, cli_rate *rate,
                                   int64_t window_s, int64_t next_us)
{
    int64_t now_us = cli_mono_us();
    cli_panel_facts facts = {.title = c->command->name,
                             .mode = cli_mode_name(c->mode),
                             .overview = overview,
                             .troubles = &overview->troubles,
                             .now_us = cli_wall_us(),
                             .up_ms = (now_us - rate->started_us) / 1000,
                             .refresh_ms = next_us > now_us ? (next_us - now_us) / 1000 : 0,
                             .window_s = window_s,
                             .rate = cli_rate_over(rate, now_us, window_s)};

    cli_rate_history(rate, now_us, facts.history, CLI_PANEL_HISTORY);
    return facts;
}

static bool size_has_changed(cli_screen *s)
{
    struct winsize size = {0};
    size_t width = 80, height = 24;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        width = size.ws_col;
        height = size.ws_row;
    }
    bool changed = width != s->width || height != s->height;
    s->width = width;
    s->height = height;
    return changed;
}

/* Overwrites line by line: a line is cleared before it is written, because after a line of full
 * width the cursor is on its last character, and clearing from there would erase it. The last line
 * has no newline, which would scroll. */
static void write_frame(cli_screen *s)
{
    ef__buf *out = &s->c->out;
    const char *line = s->frame.ptr, *end = line + s->frame.len;

    ef__buf_add_text(out, "\033[H");
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        bool last = !stop || stop + 1 == end;
        ef__buf_add_text(out, last ? "\033[J" : "\033[K");
        ef__buf_add(out, line, (size_t)((stop ? stop : end) - line));
        ef__buf_add_text(out, last ? "" : "\r\n");
        line = stop ? stop + 1 : end;
    }
    (void)cli_flush(s->c);
}

void cli_screen_show(cli_screen *s, const cli_panel_facts *facts)
{
    bool resized = size_has_changed(s);

    s->drawn_us = cli_mono_us();
    if (s->paused && !s->turned && !resized)
        return;
    s->turned = false;
    ef__buf_reset(&s->frame);
    cli_panel_draw(facts,
                   &(cli_panel_view){.width = s->width,
                                     .height = s->height,
                                     .page = s->page,
                                     .paused = s->paused,
                                     .keys = s->keys,
                                     .colour = cli_colour(s->c, CLI_BOLD)[0] != '\0'},
                   &s->frame);
    if (s->frame.failed)
        return;
    if (!resized && s->frame.len == s->shown.len &&
        memcmp(s->frame.ptr, s->shown.ptr, s->shown.len) == 0)
        return;
    write_frame(s);
    ef__buf_reset(&s->shown);
    ef__buf_add_str(&s->shown, ef__buf_str(&s->frame));
}
