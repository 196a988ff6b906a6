/*
 * work_panel.h - the panel of `everfold work`: collects the reports of the supervisor, reads the
 * stores at intervals, and draws both.
 *
 * Reports come from any thread; the lock is held briefly, and nothing is called under it. While the
 * panel is shown, log warnings are listed among its errors, because a line on stderr would break
 * the picture.
 */
#ifndef EF_CLI_WORK_PANEL_H
#define EF_CLI_WORK_PANEL_H

#include "overview.h"

#include <pthread.h>

typedef struct cli_work_panel {
    cli *c;
    int64_t interval_ms, window_s;
    bool no_leasing;
    int64_t started_us;   /* monotonic, as heartbeat_us */
    pthread_mutex_t lock; /* guards the fields below */
    bool shown;
    ef_log log_before;
    ef_tick sum;
    int64_t beat_us; /* time of the last heartbeat */
    cli_rate rate;
    ef__troubles troubles;
} cli_work_panel;

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

#endif
