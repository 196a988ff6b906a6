/*
 * overview.c - see overview.h.
 */
#include "overview.h"
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define PUBLISHERS_MAX 64 /* publishers that are checked */

/* --- disk ------------------------------------------------------------------------------------- */

static const char *path_of(const char *url)
{
    static const char *const kinds[] = {"sqlite:", "lmdb:"};

    for (size_t i = 0; url && i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(url, kinds[i], strlen(kinds[i])) == 0)
            return url + strlen(kinds[i]);
    return NULL;
}

static void add_store(ef__disk *disk, const char *url)
{
    const char *path = path_of(url);
    struct statvfs is;
    int64_t free_bytes;
    char *whole;

    if (!path || statvfs(path, &is) != 0)
        return;
    free_bytes = (int64_t)(is.f_bavail * is.f_frsize);
    if (disk->free_bytes >= 0 && disk->free_bytes <= free_bytes)
        return;
    disk->free_bytes = free_bytes;
    whole = realpath(path, NULL);
    (void)snprintf(disk->path, sizeof disk->path, "%s", whole ? whole : path);
    free(whole);
}

ef__disk ef__disk_of(const char *journal_url, const char *views_url)
{
    ef__disk disk = {.free_bytes = -1};

    add_store(&disk, journal_url);
    add_store(&disk, views_url);
    return disk;
}

/* --- health ----------------------------------------------------------------------------------- */

static const char *plural_suffix(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* The active projection with the largest lag; NULL if none lags. */
static const ef_projection *most_lagging(const ef__overview *o)
{
    const ef_projection *last = NULL;

    for (size_t i = 0; i < o->projections.count; i++) {
        const ef_projection *p = &o->projections.items[i];
        if (p->active && p->lag_events > 0 && (!last || p->lag_events > last->lag_events))
            last = p;
    }
    return last;
}

static const ef_projection *find_in_state(const ef__overview *o, const char *state)
{
    for (size_t i = 0; i < o->projections.count; i++)
        if (ef_str_equal(o->projections.items[i].state, ef_str_from(state)))
            return &o->projections.items[i];
    return NULL;
}

/* Read from two stores, the sum varies while events are applied: an error only when idle. */
static bool has_unaccounted(const ef__overview *o)
{
    return o->unaccounted != 0 && o->outbox.pending == 0 && o->outbox.processing == 0 &&
           !most_lagging(o);
}

/* --- blocked events --------------------------------------------------------------------------- */

typedef struct blocked {
    int64_t events, streams, tenants;
} blocked;

static blocked count_blocked(const ef__overview *o)
{
    blocked sum = {0, 0, 0};

    for (size_t i = 0; i < o->projections.count; i++) {
        const ef_projection *p = &o->projections.items[i];
        sum.events += p->active ? p->blocked_events : 0;
        *(p->by_log ? &sum.tenants : &sum.streams) += p->active ? p->blocked_streams : 0;
    }
    return sum;
}

/* "; 5 events of 2 streams are blocked", or "". */
static void format_blocked(const ef__overview *o, char *out, size_t size)
{
    blocked b = count_blocked(o);
    char streams[40] = "", tenants[40] = "";

    if (b.streams > 0)
        (void)snprintf(streams, sizeof streams, " of %" PRId64 " stream%s", b.streams,
                       plural_suffix(b.streams));
    if (b.tenants > 0)
        (void)snprintf(tenants, sizeof tenants, "%s %" PRId64 " tenant%s",
                       b.streams > 0 ? " and" : " of", b.tenants, plural_suffix(b.tenants));
    if (b.events == 0) /* blocked rows of publishers */
        b.events = o->outbox.blocked;
    out[0] = '\0';
    if (b.events > 0)
        (void)snprintf(out, size, "; %" PRId64 " event%s%s%s %s blocked", b.events,
                       plural_suffix(b.events), streams, tenants, b.events == 1 ? "is" : "are");
}

static bool has_scope(const ef_projection *p, const char *state)
{
    for (size_t i = 0; i < p->scope_count; i++)
        if (!p->scopes[i].any_tenant && ef_str_equal(p->scopes[i].state, ef_str_from(state)))
            return true;
    return false;
}

/* A log-ordered projection with a tenant in `state`; these have no outbox rows. */
static const ef_projection *find_with_tenant(const ef__overview *o, const char *state)
{
    for (size_t i = 0; i < o->projections.count; i++)
        if (o->projections.items[i].active && has_scope(&o->projections.items[i], state))
            return &o->projections.items[i];
    return NULL;
}

/* --- message ---------------------------------------------------------------------------------- */

static void write_disk(const ef__disk *disk, char out[EF__HEALTH_TEXT])
{
    char space[32] = "";

    if (disk->free_bytes >= 0)
        (void)snprintf(space, sizeof space, ", %" PRId64 " MiB free", disk->free_bytes >> 20);
    (void)snprintf(out, EF__HEALTH_TEXT, "The disk is %s: %s%s. %s",
                   ef__disk_is_full(disk) ? "full" : "almost full",
                   disk->path[0] ? disk->path : "the journal's", space,
                   "Free space on it; work continues by itself.");
}

static void write_rows(int64_t count, const char *one, const char *many, const ef__overview *o,
                       char out[EF__HEALTH_TEXT])
{
    char blocked_text[160];

    format_blocked(o, blocked_text, sizeof blocked_text);
    (void)snprintf(out, EF__HEALTH_TEXT, "%" PRId64 " %s%s.", count, count == 1 ? one : many,
                   blocked_text);
}

static void write_tenant(const ef_projection *p, const char *what, const ef__overview *o,
                         char out[EF__HEALTH_TEXT])
{
    char blocked_text[160];

    format_blocked(o, blocked_text, sizeof blocked_text);
    (void)snprintf(out, EF__HEALTH_TEXT, "Projection %.*s fails for a tenant and %s%s.",
                   EF_STR_ARG(p->name), what, blocked_text);
}

/* Problems that need an operator. */
static bool is_trouble(const ef__overview *o, char out[EF__HEALTH_TEXT])
{
    const ef_projection *failed = find_in_state(o, "failed"),
                        *stopped = find_with_tenant(o, "failed");
    int64_t waiting = o->outbox.pending + o->outbox.processing;

    if (o->facts.damaged)
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "The journal is damaged and refuses appends; see: everfold doctor --deep.");
    else if (ef__disk_is_low(&o->disk))
        write_disk(&o->disk, out);
    else if (o->views_error.status != EF_OK)
        (void)snprintf(out, EF__HEALTH_TEXT, "The views cannot be read; see: everfold doctor.");
    else if (has_unaccounted(o))
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "%" PRId64 " event%s neither applied nor queued: this must be 0.",
                       o->unaccounted, o->unaccounted == 1 ? " is" : "s are");
    else if (o->outbox.dead > 0)
        write_rows(o->outbox.dead, "event is dead and needs an operator",
                   "events are dead and need an operator", o, out);
    else if (failed)
        (void)snprintf(out, EF__HEALTH_TEXT, "Projection %.*s has failed and is stopped.",
                       EF_STR_ARG(failed->name));
    else if (stopped)
        write_tenant(stopped, "needs an operator", o, out);
    else if (o->workers_live == 0 && waiting > 0 && strcmp(o->mode, "shadow_only") != 0)
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "No worker is running, and %" PRId64 " event%s queued.", waiting,
                       waiting == 1 ? " is" : "s are");
    else
        return false;
    return true;
}

static bool is_behind(const ef__overview *o, char out[EF__HEALTH_TEXT])
{
    const ef_projection *last = most_lagging(o), *paused = find_in_state(o, "paused"),
                        *retries = find_with_tenant(o, "retrying");

    if (o->publisher_down[0])
        (void)snprintf(out, EF__HEALTH_TEXT, "Publisher %s cannot deliver and retries.",
                       o->publisher_down);
    else if (o->outbox.failed > 0)
        write_rows(o->outbox.failed, "event failed and will be retried",
                   "events failed and will be retried", o, out);
    else if (retries)
        write_tenant(retries, "is retried", o, out);
    else if (paused)
        (void)snprintf(out, EF__HEALTH_TEXT, "Projection %.*s is paused.",
                       EF_STR_ARG(paused->name));
    else if (last)
        (void)snprintf(out, EF__HEALTH_TEXT,
                       "Catching up: %.*s lags by %" PRId64 " event%s, %" PRId64 " s.",
                       EF_STR_ARG(last->name), last->lag_events, plural_suffix(last->lag_events),
                       last->lag_us / 1000000);
    else
        return false;
    return true;
}

ef__health ef__overview_health(const ef__overview *o, char out[EF__HEALTH_TEXT])
{
    if (is_trouble(o, out))
        return EF__HEALTH_TROUBLE;
    if (is_behind(o, out))
        return EF__HEALTH_BEHIND;
    (void)snprintf(out, EF__HEALTH_TEXT, "All is well: every event is in every view.");
    if (o->projections.count == 0)
        (void)snprintf(out, EF__HEALTH_TEXT, "All is well; no projection is deployed yet.");
    return EF__HEALTH_WELL;
}

void ef__health_publisher_down(ef_engine *engine, char out[EF__HEALTH_NAME])
{
    ef_publisher_health *is = engine ? calloc(PUBLISHERS_MAX, sizeof *is) : NULL;
    size_t count = is ? ef_engine_publishers(engine, is, PUBLISHERS_MAX) : 0;

    out[0] = '\0';
    for (size_t i = 0; i < count && i < PUBLISHERS_MAX && !out[0]; i++)
        if (is[i].state == EF_PUBLISHER_RETRYING)
            (void)snprintf(out, EF__HEALTH_NAME, "%s", is[i].name);
    free(is);
}

/* --- what follows from what was read ---------------------------------------------------------- */

static size_t count_workers(const ef_worker_list *workers, ef_worker_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < workers->count; i++)
        count += workers->items[i].state == state;
    return count;
}

int64_t ef__age_ms(int64_t now_us, int64_t then_us)
{
    if (then_us == 0)
        return -1;
    return now_us > then_us ? (now_us - then_us) / 1000 : 0;
}

void ef__overview_derive(ef__overview *o)
{
    const ef_row_list *oldest = &o->outbox.oldest;

    for (size_t i = 0; i < o->runs.count; i++) {
        o->runs_queued += o->runs.items[i].state == EF_RUN_QUEUED;
        o->runs_running += o->runs.items[i].state == EF_RUN_RUNNING;
    }
    for (size_t i = 0; i < o->projections.count; i++)
        o->unaccounted += o->projections.items[i].unaccounted;
    o->workers_idle = count_workers(&o->workers, EF_WORKER_IDLE);
    o->workers_live = o->workers_idle + count_workers(&o->workers, EF_WORKER_WORKING);
    o->oldest_ms = ef__age_ms(o->read_us, oldest->count > 0 ? oldest->items[0].enqueued_us : 0);
    o->blocked_ms = ef__age_ms(o->read_us, o->outbox.blocked_oldest_us);
}

void ef__overview_release(ef__overview *o)
{
    EF_RELEASE(&o->outbox.oldest);
    EF_RELEASE(&o->workers);
    EF_RELEASE(&o->runs);
    EF_RELEASE(&o->projections);
    EF_RELEASE(&o->partitions);
    for (size_t i = 0; i < o->lane_count; i++)
        EF_RELEASE(&o->lanes[i].rows.oldest);
    free(o->lanes);
    EF_RELEASE(&o->lane_names);
    *o = (ef__overview)EF__OVERVIEW_INIT;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add_number(ef__json_writer *w, const char *key, int64_t number)
{
    ef__json_key(w, key);
    if (number < 0)
        ef__json_null(w);
    else
        ef__json_int(w, number);
}

static void write_journal(ef__json_writer *w, const ef__overview *o, const char *url)
{
    ef__json_member_open(w, "journal", '{');
    ef__json_member_text(w, "url", url);
    ef__json_member_text(w, "id", o->facts.journal_id);
    ef__json_member_text(w, "backend", o->facts.backend);
    ef__json_member_text(w, "version", o->facts.version);
    add_number(w, "schema", o->facts.schema);
    ef__json_member_text(w, "durability", o->facts.durability);
    add_number(w, "position", o->head.position);
    ef__json_member_time(w, "recorded_at", o->head.recorded_us);
    add_number(w, "events", o->head.position);
    add_number(w, "streams", o->facts.streams);
    add_number(w, "store_bytes", o->facts.store_bytes);
    add_number(w, "wal_bytes", o->facts.wal_bytes);
    add_number(w, "free_bytes", o->facts.free_bytes);
    ef__json_close(w, '}');
}

void ef__member_seconds(ef__json_writer *w, const char *key, int64_t ms)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
    ef__json_member_raw(w, key, ms < 0 ? (ef_str){NULL, 0} : ef_str_from(text));
}

void ef__rows_write(ef__json_writer *w, const ef_outbox_summary *rows, const char *oldest_key,
                    int64_t now_us)
{
    const ef_row_list *oldest = &rows->oldest;

    ef__shape_members(w, &ef__shape_summary, rows);
    ef__member_seconds(w, oldest_key,
                       ef__age_ms(now_us, oldest->count > 0 ? oldest->items[0].enqueued_us : 0));
    ef__member_seconds(w, "blocked_seconds", ef__age_ms(now_us, rows->blocked_oldest_us));
}

void ef__overview_write_runs(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "runs", '{');
    add_number(w, "queued", o->runs_queued);
    add_number(w, "running", o->runs_running);
    ef__json_close(w, '}');
}

void ef__overview_write_projections(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "projections", '[');
    for (size_t i = 0; i < o->projections.count; i++)
        ef__projection_write(w, &o->projections.items[i]);
    ef__json_close(w, ']');
    ef__json_member_int(w, "unaccounted",
                        o->unaccounted); /* a negative value is an error as well and is shown */
    ef__json_member_name(w, "views_error", ef_str_from(o->views_error.text));
}

static void write_counts(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "outbox", '{');
    ef__rows_write(w, &o->outbox, "lag_seconds", o->read_us);
    ef__json_close(w, '}');
    add_number(w, "partitions", o->facts.partitions);
    ef__json_member_open(w, "workers", '{');
    add_number(w, "live", (int64_t)o->workers_live);
    add_number(w, "known", (int64_t)o->workers.count);
    add_number(w, "idle", (int64_t)o->workers_idle);
    ef__json_close(w, '}');
    ef__overview_write_runs(w, o);
}

void ef__overview_write_health(ef__json_writer *w, const ef__overview *o)
{
    static const char *const names[] = {"well", "behind", "trouble"};
    char message[EF__HEALTH_TEXT];
    ef__health health = ef__overview_health(o, message);

    ef__json_member_open(w, "health", '{');
    ef__json_member_text(w, "state", names[health]);
    ef__json_member_text(w, "message", message);
    ef__json_close(w, '}');
}

void ef__overview_write(ef__json_writer *w, const ef__overview *o, const char *url)
{
    ef__json_member_text(w, "version", ef_version());
    ef__json_member_text(w, "mode", o->mode);
    write_journal(w, o, url);
    write_counts(w, o);
    ef__overview_write_projections(w, o);
}
