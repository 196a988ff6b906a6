/*
 * overview.c - see overview.h.
 */
#include "overview.h"
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- what follows from what was read ------------------------------------------------------------
 */

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

ef__health ef__overview_health(const ef__overview *o, char out[EF__HEALTH_TEXT])
{
    ef__health_facts facts = {.outbox = &o->outbox,
                              .projections = &o->projections,
                              .workers_live = o->workers_live,
                              .shadow_only = strcmp(o->mode, "shadow_only") == 0,
                              .unaccounted = o->unaccounted,
                              .views_unreadable = o->views_error.status != EF_OK,
                              .disk = o->disk,
                              .damaged = o->facts.damaged,
                              .publisher_down = ef_str_from(o->publisher_down)};

    return ef__health_of(&facts, out);
}

void ef__overview_release(ef__overview *o)
{
    ef_row_list_release(&o->outbox.oldest);
    ef_worker_list_release(&o->workers);
    ef_run_list_release(&o->runs);
    ef_projection_list_release(&o->projections);
    ef_partition_list_release(&o->partitions);
    for (size_t i = 0; i < o->lane_count; i++)
        ef_row_list_release(&o->lanes[i].rows.oldest);
    free(o->lanes);
    ef_lane_list_release(&o->lane_names);
    *o = (ef__overview)EF__OVERVIEW_INIT;
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

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

static void add_seconds(ef__json_writer *w, const char *key, int64_t ms)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
    ef__json_key(w, key);
    if (ms < 0)
        ef__json_null(w);
    else
        ef__json_raw(w, ef_str_from(text));
}

static void write_counts(ef__json_writer *w, const ef__overview *o)
{
    ef__json_member_open(w, "outbox", '{');
    add_number(w, "pending", o->outbox.pending);
    add_number(w, "processing", o->outbox.processing);
    add_number(w, "failed", o->outbox.failed);
    add_number(w, "dead", o->outbox.dead);
    add_number(w, "blocked", o->outbox.blocked);
    add_seconds(w, "lag_seconds", o->oldest_ms);
    add_seconds(w, "blocked_seconds", o->blocked_ms);
    ef__json_close(w, '}');
    add_number(w, "partitions", o->facts.partitions);
    ef__json_member_open(w, "workers", '{');
    add_number(w, "live", (int64_t)o->workers_live);
    add_number(w, "known", (int64_t)o->workers.count);
    add_number(w, "idle", (int64_t)o->workers_idle);
    ef__json_close(w, '}');
    ef__json_member_open(w, "runs", '{');
    add_number(w, "queued", o->runs_queued);
    add_number(w, "running", o->runs_running);
    ef__json_close(w, '}');
}

void ef__overview_write_health(ef__json_writer *w, const ef__overview *o)
{
    char message[EF__HEALTH_TEXT];
    ef__health health = ef__overview_health(o, message);

    ef__json_member_open(w, "health", '{');
    ef__json_member_text(w, "state", ef__health_name(health));
    ef__json_member_text(w, "message", message);
    ef__json_close(w, '}');
}

void ef__overview_write(ef__json_writer *w, const ef__overview *o, const char *url)
{
    ef__json_member_text(w, "version", ef_version());
    ef__json_member_text(w, "mode", o->mode);
    write_journal(w, o, url);
    write_counts(w, o);
    ef__json_member_open(w, "projections", '[');
    for (size_t i = 0; i < o->projections.count; i++)
        ef__projection_write(w, &o->projections.items[i]);
    ef__json_close(w, ']');
    ef__json_key(w, "unaccounted");
    ef__json_int(w, o->unaccounted); /* a negative value is an error as well and is shown */
    ef__json_key(w, "views_error");
    if (o->views_error.status != EF_OK)
        ef__json_str(w, ef_str_from(o->views_error.text));
    else
        ef__json_null(w);
}
