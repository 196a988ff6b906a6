/*
 * work_panel.c - see panel.h.
 */
#include "panel.h"

#include "../base/deadline.h"

#include <unistd.h>

#define TASKS_MAX 16
#define READ_MS_MIN 500
#define READ_SHARE 10 /* reading the stores may take at most a tenth of the time */

/* --- reports ---------------------------------------------------------------------------------- */

static void add_trouble(cli_work_panel *p, const char *text)
{
    EF__LOCK(&p->lock);
    cli_troubles_add(&p->troubles, cli_wall_us(), text);
}

static void add_log_record(cli_work_panel *p, const char *message, const ef_log_field *fields,
                           uint64_t count)
{
    ef__buf text = EF__BUF_INIT(64 * 1024);

    ef__buf_add_text(&text, message);
    for (uint64_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, "post") == 0)
            goto out; /* a failed step is reported by the supervisor, too */
        ef__buf_printf(&text, "%s %s ", i ? "," : ":", fields[i].name);
        if (fields[i].text.ptr)
            ef__buf_add_str(&text, fields[i].text);
        else
            ef__buf_printf(&text, "%" PRId64, fields[i].number);
    }
    if (!text.failed)
        add_trouble(p, text.ptr);
out:
    ef__buf_release(&text);
}

static void on_log(void *context, ef_log_level level, const char *message,
                   const ef_log_field *fields, uint64_t count)
{
    cli_work_panel *p = context;

    pthread_mutex_lock(&p->lock);
    bool shown = p->shown;
    pthread_mutex_unlock(&p->lock);
    if (!shown)
        p->log_before.write(p->log_before.context, level, message, fields, count);
    else if (level >= EF_LOG_WARN)
        add_log_record(p, message, fields, count);
}

void cli_work_panel_init(cli_work_panel *p)
{
    pthread_mutex_init(&p->lock, NULL);
    p->rate.started_us = cli_mono_us();
    p->log_before = p->c->log;
    if (isatty(STDERR_FILENO)) {
        p->c->log.write = on_log;
        p->c->log.context = p;
    }
}

void cli_tick_add(ef_tick *sum, const ef_tick *tick)
{
    sum->claimed += tick->claimed;
    sum->applied += tick->applied;
    sum->published += tick->published;
    sum->ignored += tick->ignored;
    sum->failed += tick->failed;
    sum->deferred += tick->deferred;
    sum->dead += tick->dead;
    sum->caught_up += tick->caught_up;
    sum->run_events += tick->run_events;
}

static void add_tick(cli_work_panel *p, const char *task, const ef_tick *tick)
{
    ef_tick *sum = &p->sum;

    cli_tick_add(sum, tick);
    sum->leased_count += tick->leased_count;
    sum->released_count += tick->released_count;
    sum->lost_count += tick->lost_count;
    if (strcmp(task, "queue") == 0) { /* the task that holds partitions */
        sum->desired_count = tick->desired_count;
        sum->owned_count = tick->owned_count;
    }
    if (tick->renewed_heartbeat)
        p->beat_us = cli_mono_us();
    cli_rate_add(&p->rate, cli_mono_us(), tick->claimed + tick->caught_up + tick->run_events);
}

void cli_work_panel_report(cli_work_panel *p, const char *task, const ef_tick *tick,
                           const ef_error *error)
{
    char text[EF_ERROR_TEXT_MAX + 32];

    if (error) {
        (void)snprintf(text, sizeof text, "%s: %s", task, error->text);
        add_trouble(p, text);
        return;
    }
    EF__LOCK(&p->lock);
    add_tick(p, task, tick);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* The engine generates the name; the worker list shows host and pid. */
static ef_str own_name(const cli_work_panel *p, const ef__overview *o)
{
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < o->workers.count; i++)
        if (o->workers.items[i].pid == (int64_t)getpid() &&
            ef_str_equal(o->workers.items[i].host, ef_str_from(host)))
            return o->workers.items[i].id;
    return p->no_leasing ? EF_STR("single worker") : EF_STR("(joining)");
}

/* Reads the overview again. If that fails, the old one stays and the reason is listed as an error.
 * Returns the time of the next read: later if reading is slow. */
static int64_t reread_stores(cli_work_panel *p, ef__overview *o)
{
    ef_error err = EF_ERROR_INIT;
    ef__overview found;
    int64_t began_us = cli_mono_us();
    int64_t rest_us = (p->interval_ms > READ_MS_MIN ? p->interval_ms : READ_MS_MIN) * 1000;

    if (cli_overview_read(p->c, false, &found, &err) == EF_OK) {
        ef__overview_release(o);
        *o = found;
    } else {
        add_trouble(p, err.text);
    }
    int64_t now_us = cli_mono_us(), share_us = (now_us - began_us) * READ_SHARE;
    return now_us + (share_us > rest_us ? share_us : rest_us);
}

static void show_frame(cli_work_panel *p, cli_screen *screen, ef_supervisor *supervisor,
                       const ef__overview *o, int64_t next_us)
{
    ef_task tasks[TASKS_MAX];
    size_t task_count = ef_supervisor_tasks(supervisor, tasks, TASKS_MAX);
    cli_panel_work work = {.worker = own_name(p, o),
                           .tasks = tasks,
                           .task_count = task_count < TASKS_MAX ? task_count : TASKS_MAX};
    ef__troubles troubles = o->troubles;

    pthread_mutex_lock(&p->lock);
    cli_panel_facts facts = cli_panel_facts_of(p->c, o, &p->rate, p->window_s, next_us);
    facts.troubles = &troubles;
    facts.work = &work;
    work.sum = p->sum;
    work.heartbeat_ms = p->beat_us ? (cli_mono_us() - p->beat_us) / 1000 : -1;
    for (size_t i = 0; i < p->troubles.count; i++)
        cli_troubles_add(&troubles, p->troubles.items[i].at_us, p->troubles.items[i].text);
    pthread_mutex_unlock(&p->lock);
    cli_screen_show(screen, &facts);
}

static void set_shown(cli_work_panel *p, bool shown)
{
    EF__LOCK(&p->lock);
    p->shown = shown;
}

void cli_work_panel_run(cli_work_panel *p, ef_supervisor *supervisor)
{
    ef__overview overview = {.views_error = EF_ERROR_INIT};
    cli_screen screen;
    int64_t next_us = reread_stores(p, &overview);

    set_shown(p, true);
    cli_screen_open(&screen, p->c);
    while (cli_screen_wait(&screen)) {
        if (cli_mono_us() >= next_us && !screen.paused)
            next_us = reread_stores(p, &overview);
        show_frame(p, &screen, supervisor, &overview, next_us);
    }
    cli_screen_close(&screen);
    set_shown(p, false);
    ef__overview_release(&overview);
}

void cli_work_panel_release(cli_work_panel *p)
{
    p->c->log = p->log_before;
    /* The errors disappeared with the screen: prints them again on stderr. */
    for (size_t i = p->troubles.count; i > 0; i--)
        cli_warn(p->c, "everfold: %s", p->troubles.items[i - 1].text);
    pthread_mutex_destroy(&p->lock);
}
