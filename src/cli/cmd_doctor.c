/*
 * cmd_doctor.c - everfold doctor: problems, and the commands that fix them.
 *
 * Checks run from settings to views; a check whose failure makes the following ones meaningless
 * ends the list. Through a server it reports the checks of the server; reading every event and view
 * is only possible on the machine with the stores.
 */
#include "calls.h"

#include "../shape/overview.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_EVENTS 1000                     /* events that are checked without --deep */
#define FREE_WARN_BYTES (INT64_C(512) << 20) /* some hours of appends at a usual rate */
#define WAL_WARN_BYTES (INT64_C(256) << 20)  /* checkpoints lag, or a long read blocks them */
#define CLOCK_EARLIEST_US INT64_C(1704067200000000) /* 2024: before Everfold was written */
#define WAL_RESET_FIXED 3051003                     /* SQLite 3.51.3 */

typedef enum verdict { OK, WARN, FAIL } verdict;

typedef struct diagnosis {
    cli *c;
    ef__json_writer w;
    bool failed;
    ef_error err; /* that ended the last check */
} diagnosis;

#define VIEWS_FIX                                                                                  \
    "views can be rebuilt from the journal: move the view store away, run everfold init, and "     \
    "deploy the programs"

static const struct verdict_form {
    const char *text, *word;
    enum cli_colour colour;
} forms[] = {{"ok  ", "ok", CLI_GREEN}, {"warn", "warn", CLI_YELLOW}, {"FAIL", "fail", CLI_RED}};

/* Reports one check. `fix` (may be NULL) is shown unless the verdict is OK. */
static void report_check(diagnosis *d, verdict v, const char *check, const char *fix,
                         const char *format, ...)
{
    cli *c = d->c;
    char detail[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    d->failed = d->failed || v == FAIL;
    fix = v == OK ? NULL : fix;
    if (c->format == CLI_TABLE) {
        ef__buf_printf(&c->out, "%s%s%s  %-15s  ", cli_colour(c, forms[v].colour), forms[v].text,
                       cli_colour(c, CLI_PLAIN), check);
        cli_line(c, 0, "", ef_str_from(detail));
        if (fix)
            cli_line(c, 0, "      -> ", ef_str_from(fix));
        (void)cli_flush(c);
        return;
    }
    ef__json_open(&d->w, '{');
    ef__json_member_text(&d->w, "check", check);
    ef__json_member_text(&d->w, "state", forms[v].word);
    ef__json_member_text(&d->w, "detail", detail);
    ef__json_member_name(&d->w, "fix", ef_str_from(fix));
    ef__json_close(&d->w, '}');
}

/* Reports the error that ended a check. */
static void report_error(diagnosis *d, const char *check, const char *fix)
{
    report_check(d, FAIL, check, fix, "%s", d->err.text);
}

/* --- settings and directory ------------------------------------------------------------------- */

static bool check_settings(diagnosis *d)
{
    cli *c = d->c;

    d->err = c->settings_error;
    if (d->err.status != EF_OK) {
        report_error(d, "settings", "fix it, then run: everfold config check");
        return false;
    }
    report_check(d, OK, "settings", NULL, "%s, mode %s",
                 c->settings_file[0] ? c->settings_file : "no settings file",
                 cli_mode_name(c->mode));
    return true;
}

static void check_directory(diagnosis *d)
{
    const char *path = cli_data(d->c);
    char fix[PATH_MAX + 32];
    struct stat st;

    if (cli_setting(d->c, "journal").origin != EF__ORIGIN_DEFAULT) {
        report_check(d, OK, "data directory", NULL, "not used: the journal is %s",
                     d->c->journal_shown);
    } else if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        (void)snprintf(fix, sizeof(fix), "run: everfold init --data %s", path);
        report_check(d, FAIL, "data directory", fix, "%s does not exist", path);
    } else if (access(path, R_OK | W_OK | X_OK) != 0) {
        report_check(d, FAIL, "data directory", "run as its owner", "%s: %s", path,
                     strerror(errno));
    } else if ((st.st_mode & 077) != 0) {
        (void)snprintf(fix, sizeof(fix), "run: chmod 700 %s", path);
        report_check(d, WARN, "data directory", fix, "%s is accessible to other users (mode %03o)",
                     path, (unsigned)(st.st_mode & 0777));
    } else {
        report_check(d, OK, "data directory", NULL, "%s", path);
    }
}

/* --- store ------------------------------------------------------------------------------------ */

static bool open_store(diagnosis *d)
{
    cli *c = d->c;
    ef_journal_options extra = {.accept_head = cli_has(c, "accept-head"),
                                .read_only = !cli_has(c, "accept-head")};
    ef_status st = cli_journal_open(c, &extra, &d->err);

    if (st == EF_OK) {
        report_check(d, OK, "store", NULL, "%s opens", c->journal_shown);
        report_check(d, OK, "head", NULL,
                     extra.accept_head ? "the head of the store is accepted from now on"
                                       : "the store agrees with its head file");
        if (extra.accept_head && cli_note(c, "accept-head", EF_STR(""), &d->err) != EF_OK)
            report_check(d, FAIL, "head", NULL, "the audit entry was not written: %s", d->err.text);
        return true;
    }
    const char *fix = cli_journal_hint(c, st);
    if (st == EF_DAMAGED)
        fix = "restore a backup; or, to continue with the store and lose the events that are "
              "missing: everfold doctor --accept-head";
    else if (st == EF_NEWER_SCHEMA)
        fix = "use the Everfold that wrote it, or a newer one";
    else if (st == EF_BUSY)
        fix = "another process is writing: try again, or increase store.busy";
    report_error(d, st == EF_DAMAGED ? "head" : "store", fix);
    return false;
}

/* "3.40.1" as SQLite counts: 3040001. */
static int64_t version_number(const char *text)
{
    int64_t number = 0;

    for (int parts = 0; parts < 3; parts++) {
        char *end;
        number = number * 1000 + strtoll(text, &end, 10) % 1000;
        text = *end == '.' ? end + 1 : end;
    }
    return number;
}

static void check_library(diagnosis *d, const ef_store_facts *facts)
{
    if (facts->schema >= 0)
        report_check(d, OK, "schema", NULL, "version %d, %d partitions", (int)facts->schema,
                     (int)facts->partitions);
    if (strcmp(facts->backend, "sqlite") != 0)
        report_check(d, OK, "library", NULL, "%s %s", facts->backend, facts->version);
    else if (version_number(facts->version) >= WAL_RESET_FIXED)
        report_check(d, OK, "library", NULL, "SQLite %s has no WAL-reset race", facts->version);
    else
        report_check(
            d, OK, "library", NULL,
            "SQLite %s has the WAL-reset race; the lock file of Everfold prevents it by keeping "
            "commits and checkpoints apart",
            facts->version);
    report_check(d, facts->power_loss_unsafe ? FAIL : OK, "durability",
                 "set fsync and full_page_writes to on, and reload the server", "%s",
                 facts->durability);
}

static void check_sizes(diagnosis *d, const ef_store_facts *facts)
{
    ef__disk disk = d->c->client ? (ef__disk){.free_bytes = facts->free_bytes}
                                 : ef__disk_of(d->c->journal_url, d->c->views_url);
    verdict v = ef__disk_is_low(&disk) ? FAIL : disk.free_bytes < FREE_WARN_BYTES ? WARN : OK;
    char size[32];

    if (disk.free_bytes >= 0) {
        cli_bytes_format(disk.free_bytes, size);
        report_check(d, v, "disk", "free space on that file system; work continues by itself",
                     "%s%s free%s%s", ef__disk_is_full(&disk) ? "the disk is full: " : "", size,
                     disk.path[0] ? " at " : "", disk.path);
    }
    if (facts->wal_bytes >= 0) {
        cli_bytes_format(facts->wal_bytes, size);
        report_check(d, facts->wal_bytes > WAL_WARN_BYTES ? WARN : OK, "log",
                     "find the process with a long read transaction, and end it", "the WAL has %s",
                     size);
    }
}

static void check_clock(diagnosis *d, const ef_head *head)
{
    int64_t now = cli_wall_us();
    char now_text[EF_TIME_TEXT_MAX], head_text[EF_TIME_TEXT_MAX];

    ef_time_format(now > 0 ? now : 0, now_text);
    ef_time_format(head->recorded_us, head_text);
    if (now < CLOCK_EARLIEST_US)
        report_check(d, FAIL, "clock", "set the clock (timedatectl)",
                     "it is %s, which is before Everfold existed", now_text);
    else if (now + 1000000 < head->recorded_us)
        report_check(d, WARN, "clock", "set the clock (timedatectl)",
                     "it is %s, before the time of the last event, %s", now_text, head_text);
    else
        report_check(d, OK, "clock", NULL, "%s", now_text);
}

/* A copy is not damaged, but its publishers wait for an operator. */
static void check_copy(diagnosis *d, const ef_store_facts *facts)
{
    char since[EF_TIME_TEXT_MAX];

    if (facts->copied_us == 0)
        return;
    ef_time_format(facts->copied_us, since);
    report_check(d, WARN, "copy", "if the original no longer runs: everfold journal adopt",
                 "the journal is a copy, made at %s: its publishers send nothing", since);
}

static void check_outbox(diagnosis *d)
{
    ef_outbox_query all = {.any_tenant = true};
    EF__AUTO(ef_outbox_summary) s = {0};

    if (cli_outbox_summarise(d->c, &all, &s, &d->err) != EF_OK)
        report_error(d, "outbox", NULL);
    else if (s.dead > 0)
        report_check(d, WARN, "outbox",
                     "see: everfold outbox report --status dead; then everfold outbox "
                     "requeue-dead, or skip",
                     "%" PRId64 " dead rows, and %" PRId64 " blocked by them", s.dead, s.blocked);
    else
        report_check(d, OK, "outbox", NULL, "no dead rows, %" PRId64 " failed, %" PRId64 " pending",
                     s.failed, s.pending);
}

/* --- events ----------------------------------------------------------------------------------- */

/* True: every event was read, and is as it was written. */
static bool check_events(diagnosis *d, const ef_head *head, bool deep)
{
    ef_verify_result result = {0};
    cli_progress progress = cli_progress_begin(d->c, "verifying", "events", false);
    int64_t from = deep || head->position <= TAIL_EVENTS ? 0 : head->position - TAIL_EVENTS;

    cli_stop_on_signals();
    ef_status st =
        ef_journal_verify(d->c->journal, from, cli_progress_step, &progress, &result, &d->err);
    cli_progress_end(&progress);
    if (st == EF_UNSUPPORTED)
        report_check(d, OK, "events", NULL, "not checked: %s", d->err.text);
    else if (st != EF_OK)
        report_error(d, "events", "restore a backup and compare");
    else if (cli_stopped())
        report_check(d, WARN, "events", "run it again without interruption",
                     "stopped after %" PRId64 " events, all intact", result.checked);
    else
        report_check(d, OK, "events", NULL, "%" PRId64 "%s events are intact (head %" PRId64 ")",
                     result.checked, from == 0 ? "" : " of the last", result.head);
    return st == EF_OK && from == 0 && !cli_stopped();
}

/* Damage that was found before, by any process. Appends are refused until it is accepted, and it is
 * accepted only after all events were checked and are intact. */
static void check_damage(diagnosis *d, const ef_store_facts *facts, bool is_intact)
{
    char found[EF_TIME_TEXT_MAX];

    if (!facts->damaged)
        return;
    ef_time_format(facts->damaged_us, found);
    if (!is_intact || !cli_has(d->c, "accept-head"))
        report_check(d, FAIL, "damage",
                     is_intact ? "no damage is left; to append again: everfold doctor "
                                 "--accept-head"
                               : "restore a backup; or repair the store and run: everfold "
                                 "doctor --accept-head, which checks every event first",
                     "found at %s, appends are refused since: %s", found, facts->damage);
    else if (ef_journal_accept(d->c->journal, cli_actor(d->c), cli_reason(d->c), &d->err) != EF_OK)
        report_error(d, "damage", NULL);
    else
        report_check(d, OK, "damage", NULL, "accepted, appends are allowed again; found at %s: %s",
                     found, facts->damage);
}

static void check_store(diagnosis *d)
{
    ef_store_facts facts;
    ef_head head = {0};
    ef_status st = ef_journal_facts(d->c->journal, &facts, &d->err);

    if (st == EF_OK)
        st = ef_journal_head(d->c->journal, &head, &d->err);
    if (st != EF_OK) {
        report_error(d, "store", NULL);
        return;
    }
    check_library(d, &facts);
    check_sizes(d, &facts);
    check_clock(d, &head);
    check_outbox(d);
    bool deep = cli_has(d->c, "deep") || (facts.damaged && cli_has(d->c, "accept-head"));
    check_damage(d, &facts, check_events(d, &head, deep));
    check_copy(d, &facts);
}

/* --- views ------------------------------------------------------------------------------------ */

static bool open_views(diagnosis *d)
{
    ef_status st = cli_engine_open(d->c, false, true, &d->err);

    if (st == EF_OK)
        return true;
    if (st == EF_NOT_FOUND)
        report_check(d, WARN, "views", "run: everfold init", "no view store: %s", d->err.text);
    else
        report_error(d, "views",
                     st == EF_NEWER_SCHEMA ? "use the Everfold that wrote them, or a newer one"
                                           : VIEWS_FIX);
    return false;
}

/* Opening has checked the schema; --deep reads everything. */
static void check_views(diagnosis *d)
{
    cli *c = d->c;
    ef_projection_check_result r;
    cli_progress progress;
    ef_status st;

    if (!cli_has(c, "deep")) {
        report_check(d, OK, "views", NULL, "%s opens", c->views_shown);
        return;
    }
    progress = cli_progress_begin(c, "reading views", "views", false);
    st = ef_projection_check(c->engine, cli_progress_step, &progress, &r, &d->err);
    cli_progress_end(&progress);
    if (st == EF_BUSY)
        report_check(d, WARN, "views", "run it again when the workers are idle", "%s", d->err.text);
    else if (st != EF_OK)
        report_error(d, "views", VIEWS_FIX);
    else if (cli_stopped())
        report_check(d, WARN, "views", "run it again without interruption",
                     "stopped after %" PRId64 " views, all readable", r.views);
    else if (r.large_views > 0)
        report_check(d, WARN, "views",
                     "the limit is 1 MiB, beyond it events fail: split the view, or store less",
                     "%" PRId64 " view%s 512 KiB or more; the largest has %" PRId64 " bytes: %s",
                     r.large_views, r.large_views == 1 ? " has" : "s have", r.largest_bytes,
                     r.largest);
    else
        report_check(d, OK, "views", NULL,
                     "%s: intact (generations %" PRId64 ", views %" PRId64
                     ", index entries %" PRId64 ")",
                     c->views_shown, r.generations, r.views, r.index_entries);
}

/* --- projections ------------------------------------------------------------------------------ */

/* Is a worker alive? If that cannot be read, another check reports it. */
static bool has_worker(cli *c)
{
    EF__AUTO(ef_worker_list) workers = {0};
    bool found = cli_worker_ls(c, &workers, NULL) != EF_OK;

    for (size_t i = 0; i < workers.count; i++)
        found = found || workers.items[i].live;
    return found;
}

/* " since TIME by ANN: reason", or "" if no operator paused it (it is being seeded). */
static void format_pause(cli *c, ef_str name, char *out, size_t size)
{
    ef_audit_query query = {.action = EF_STR("pause"), .lane = name, .limit = 1};
    char since[EF_TIME_TEXT_MAX];
    EF__AUTO(ef_audit_list) acts = {0};

    out[0] = '\0';
    if (cli_audit_ls(c, &query, &acts, NULL) == EF_OK && acts.count) {
        const ef_audit_entry *act = &acts.items[0];
        ef_time_format(act->at_us, since);
        (void)snprintf(out, size, " since %s by %.*s%s%.*s", since, EF_STR_ARG(act->actor),
                       act->reason.len ? ": " : "", EF_STR_ARG(act->reason));
    }
}

/* Reports one line per projection, whichever of its generations are paused. */
static size_t check_paused(diagnosis *d, const ef_projection_list *list)
{
    char fix[512], pause[512];
    size_t count = 0;
    ef_str last = {NULL, 0};

    for (size_t i = 0; i < list->count; i++) {
        const ef_projection *p = &list->items[i];
        if (!ef_str_equal(p->state, EF_STR("paused")) || (last.ptr && ef_str_equal(last, p->name)))
            continue;
        last = p->name;
        count++;
        format_pause(d->c, p->name, pause, sizeof(pause));
        (void)snprintf(fix, sizeof(fix), "run: everfold projection resume %.*s",
                       EF_STR_ARG(p->name));
        report_check(d, WARN, "projections", fix, "%.*s is paused%s; lag %" PRId64 " event%s",
                     EF_STR_ARG(p->name), pause, p->lag_events, cli_plural(p->lag_events));
    }
    return count;
}

/* What is reported of all generations together; each of the pointers may be NULL. */
typedef struct symptoms {
    const ef_projection *unaccounted, *failing, *lagging;
    int64_t failures;
} symptoms;

static symptoms find_symptoms(const ef_projection_list *list)
{
    symptoms found = {0};

    for (size_t i = 0; i < list->count; i++) {
        const ef_projection *p = &list->items[i];
        found.unaccounted = p->unaccounted != 0 ? p : found.unaccounted;
        found.failing = p->failures > 0 ? p : found.failing;
        found.failures += p->failures;
        if (!found.lagging && p->lag_events > 0 && ef_str_equal(p->state, EF_STR("catching_up")))
            found.lagging = p;
    }
    return found;
}

static void check_events_of(diagnosis *d, const ef_projection_list *list, size_t paused)
{
    symptoms found = find_symptoms(list);
    char fix[512];

    if (found.unaccounted)
        report_check(d, WARN, "projections", "run it again when the workers are idle",
                     "%.*s: %" PRId64 " events are neither applied, ignored, skipped nor queued",
                     EF_STR_ARG(found.unaccounted->name), found.unaccounted->unaccounted);
    else if (found.lagging && !has_worker(d->c))
        report_check(d, WARN, "projections", "run: everfold work --drain",
                     "%.*s lags by %" PRId64 " events, and no worker is running",
                     EF_STR_ARG(found.lagging->name), found.lagging->lag_events);
    else if (found.failures > 0) {
        (void)snprintf(fix, sizeof(fix), "see: everfold projection failures %.*s",
                       EF_STR_ARG(found.failing->name));
        report_check(d, WARN, "projections", fix, "%" PRId64 " open failure%s", found.failures,
                     cli_plural(found.failures));
    } else if (paused == 0)
        report_check(d, OK, "projections", NULL, "%zu deployed, no open failures", list->count);
}

/* Checks the projections: missing events, failures, pauses. The engine or the client is open. */
static void check_projections(diagnosis *d)
{
    EF__AUTO(ef_projection_list) list = {0};

    if (cli_projection_ls(d->c, EF_STR(""), &list, &d->err) == EF_OK)
        check_events_of(d, &list, check_paused(d, &list));
    else
        report_error(d, "projections", NULL);
}

/* --- through a server ------------------------------------------------------------------------- */

/* The clock of the server matters, not that of this machine. */
static void check_server(diagnosis *d)
{
    ef_store_facts facts;

    if (cli_facts(d->c, &facts, &d->err) != EF_OK) {
        report_error(d, "server",
                     d->err.status == EF_BUSY
                         ? "start it: everfold serve; or use another: --server URL"
                         : NULL);
        return;
    }
    report_check(d, OK, "server", NULL, "%s responds", d->c->journal_shown);
    check_library(d, &facts);
    check_sizes(d, &facts);
    check_outbox(d);
    check_damage(d, &facts, false);
    report_check(d, OK, "events", NULL,
                 "not checked through a server; on the machine with the "
                 "data: everfold doctor --deep");
    check_projections(d);
}

static void check_here(diagnosis *d)
{
    check_directory(d);
    if (open_store(d)) {
        check_store(d);
        if (open_views(d)) {
            check_views(d);
            check_projections(d);
        }
    }
}

/* Accepting the head gives up missing events, so the operator must confirm. */
static bool confirm_accept_head(cli *c)
{
    char answer[16] = "";

    if (cli_has(c, "yes"))
        return true;
    if (!isatty(STDIN_FILENO))
        return false;
    (void)fputs("Acknowledged events that are missing from the store will be lost permanently.\n"
                "Accept the head of the store? Type yes: ",
                stderr);
    return fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0;
}

static ef_status check_options(cli *c, ef_error *err)
{
    ef_status st = c->settings_error.status == EF_OK ? cli_need(c, CLI_SERVER, err) : EF_OK;

    if (st != EF_OK)
        return st;
    if (c->client && (cli_has(c, "deep") || cli_has(c, "accept-head")))
        return cli_refuse(c, err, "--deep and --accept-head need local stores");
    if (cli_has(c, "accept-head") && !confirm_accept_head(c))
        return cli_refuse(c, err,
                          "--accept-head was not confirmed: nothing was changed (--yes confirms)");
    return EF_OK;
}

static ef_status check_stores(cli *c, ef_error *err)
{
    ef__buf checks = EF__BUF_INIT(1024 * 1024);
    diagnosis d = {.c = c, .w = EF__JSON_WRITER(&checks)};

    (void)err;
    ef__json_open(&d.w, '[');
    if (check_settings(&d) && c->client)
        check_server(&d);
    else if (!d.failed)
        check_here(&d);
    ef__json_close(&d.w, ']');
    if (c->format != CLI_TABLE)
        ef__buf_printf(&c->out, "{\"healthy\":%s,\"checks\":%.*s}\n", d.failed ? "false" : "true",
                       EF_STR_ARG(ef__buf_str(&checks)));
    ef__buf_release(&checks);
    c->exit_code = d.failed ? 6 : 0;
    return EF_OK;
}

const cli_command cli_cmd_doctor = {
    .name = "doctor",
    .summary = "diagnose problems and show the commands that fix them",
    .options = CLI_OPTIONS(
        CLI_FLAG("deep", "check every event and every view, not only the last 1000 events"),
        CLI_FLAG("accept-head",
                 "accept the store as it is if it disagrees with its head file, or after a repair"),
        CLI_TEXT("reason", "TEXT", "reason, recorded in the audit log (with --accept-head)"),
        CLI_FLAG("yes", "do not ask for confirmation")),
    .more =
        "The exit code is 6 if a check failed, 0 if there are only warnings. With --server it\n"
        "reports what the server knows; events and views are read only on the machine with the\n"
        "stores.",
    .example = "everfold doctor --deep",
    .check = check_options,
    .call = check_stores,
    .settings_later = true,
};
