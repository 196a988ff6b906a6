/*
 * work_panel.h - the panel of `everfold work`: gathers what the supervisor's threads tell, looks at
 * the stores now and then, and shows both.
 *
 * What is told comes from any thread; the lock is held for a moment only, and nothing is called
 * under it. While the panel is shown the log's warnings are among its errors, for a line on stderr
 * would run through the picture.
 */
#ifndef EF_CLI_WORK_PANEL_H
#define EF_CLI_WORK_PANEL_H

#include "overview.h"
#include "rate.h"

#include <pthread.h>

typedef struct cli_work_panel {
    cli *c;
    int64_t interval_ms, window_s;
    bool no_leasing;
    int64_t started_us;   /* monotonic, as is … */
    pthread_mutex_t lock; /* over all that follows */
    bool shown;
    ef_log log_before;
    ef_tick sum;
    int64_t beat_us; /* … its last heartbeat */
    cli_rate rate;
    cli_troubles troubles;
} cli_work_panel;

/* Before the journal is opened: the log is led through here. `c`, `interval_ms`, `window_s` and
 * `no_leasing` of `panel` are filled in. */
void cli_work_panel_init(cli_work_panel *panel);
/* As on_step of the supervisor has it. */
void cli_work_panel_tell(cli_work_panel *panel, const char *post, const ef_tick *tick,
                         const ef_error *error);
/* Until somebody wants it to end. */
void cli_work_panel_run(cli_work_panel *panel, ef_supervisor *supervisor);
/* After the journal is closed. */
void cli_work_panel_release(cli_work_panel *panel);

#endif
