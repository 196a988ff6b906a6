/*
 * overview.c - see panel.h.
 */
#include "panel.h"
#include "calls.h"

#include "../base/utf8.h"
#include "../shape/overview.h"

void cli_troubles_add(ef__troubles *t, int64_t at_us, const char *text)
{
    ef_str kept = ef__utf8_cut(ef_str_from(text), EF__TROUBLE_BYTES - 1);
    size_t at = 0, gone = 0;

    while (gone < t->count && !ef_str_equal(ef_str_from(t->items[gone].text), kept))
        gone++;
    if (gone < t->count && t->items[gone].at_us >= at_us)
        return;
    while (at < t->count && t->items[at].at_us > at_us)
        at++;
    if (at == EF__TROUBLES_MAX)
        return;
    if (gone == t->count)
        gone = t->count < EF__TROUBLES_MAX ? t->count++ : EF__TROUBLES_MAX - 1;
    memmove(&t->items[at + 1], &t->items[at], (gone - at) * sizeof t->items[0]);
    t->items[at].at_us = at_us;
    (void)snprintf(t->items[at].text, sizeof t->items[at].text, "%.*s", EF_STR_ARG(kept));
}

int64_t cli_overview_owned(const ef__overview *o, ef_str holder)
{
    int64_t count = 0;

    for (size_t i = 0; i < o->partitions.count; i++) {
        const ef_partition *p = &o->partitions.items[i];
        count += p->live && (holder.len == 0 || ef_str_equal(p->holder, holder)) ? 1 : 0;
    }
    return count;
}

/* --- views ------------------------------------------------------------------------------------ */

/* The newest open failures of one projection. */
static ef_status read_troubles(cli *c, const ef_projection *p, ef__troubles *out, ef_error *err)
{
    EF__AUTO(ef_failure_list) list = {0};
    ef_status st = cli_projection_failures(
        c, &(ef_failure_query){.projection = p->name, .limit = EF__TROUBLES_MAX}, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef_failure *f = &list.items[i];
        char text[2 * EF__TROUBLE_BYTES];
        (void)snprintf(text, sizeof text, "%.*s: %.*s seq %" PRId64 ": %.*s", EF_STR_ARG(p->name),
                       EF_STR_ARG(f->stream), f->seq, EF_STR_ARG(f->message));
        cli_troubles_add(out, f->recorded_us, text);
    }
    return st;
}

/* A journal without a view store is complete: another process may keep the views. */
static void read_projections(cli *c, ef__overview *o)
{
    ef_error *err = &o->views_error;
    ef_status st = c->engine || c->client ? EF_OK : cli_engine_open(c, false, true, err);

    if (st == EF_OK)
        st = cli_projection_ls(c, EF_STR(""), &o->projections, err);
    for (size_t i = 0; st == EF_OK && i < o->projections.count; i++) {
        const ef_projection *p = &o->projections.items[i];
        if (p->failures > 0)
            st = read_troubles(c, p, &o->troubles, err);
    }
    if (st != EF_OK)
        EF_RELEASE(&o->projections);
    if (st == EF_OK || st == EF_NOT_FOUND)
        *err = (ef_error)EF_ERROR_INIT;
}

/* --- journal ---------------------------------------------------------------------------------- */

static ef_status read_lanes(cli *c, ef__overview *o, ef_error *err)
{
    ef_status st = cli_lane_ls(c, &o->lane_names, err);

    if (st != EF_OK)
        return st;
    o->lanes = calloc(o->lane_names.count + 1, sizeof *o->lanes);
    if (!o->lanes)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while reading the lanes");
    for (; st == EF_OK && o->lane_count < o->lane_names.count; o->lane_count++) {
        ef__overview_lane *lane = &o->lanes[o->lane_count];
        lane->name = o->lane_names.items[o->lane_count].name;
        st = cli_outbox_summarise(c, &(ef_outbox_query){.any_tenant = true, .lane = lane->name},
                                  &lane->rows, err);
    }
    return st;
}

static ef_status read_journal(cli *c, bool all, ef__overview *o, ef_error *err)
{
    ef_status st = cli_head(c, &o->head, err);

    (void)snprintf(o->mode, sizeof(o->mode), "%s", cli_mode_name(c->mode));
    if (st == EF_OK && c->client)
        st = ef_client_mode(c->client, o->mode, err);

    if (st == EF_OK)
        st = cli_facts(c, &o->facts, err);
    if (st == EF_OK)
        st = cli_outbox_summarise(c, &(ef_outbox_query){.any_tenant = true}, &o->outbox, err);
    if (st == EF_OK)
        st = cli_worker_ls(c, &o->workers, err);
    if (st == EF_OK)
        st = cli_run_ls(c, &(ef_run_query){.open_only = true, .limit = EF__OVERVIEW_RUNS_MAX},
                        &o->runs, err);
    if (st == EF_OK && all)
        st = read_lanes(c, o, err);
    if (st == EF_OK && all)
        st = cli_partition_ls(c, &o->partitions, err);
    return st;
}

/* Through a server, the free space is the one that the server reports. */
static ef__disk read_disk(const cli *c, const ef_store_facts *facts)
{
    return c->client ? (ef__disk){.free_bytes = facts->free_bytes}
                     : ef__disk_of(c->journal_url, c->views_url);
}

ef_status cli_overview_read(cli *c, bool all, ef__overview *o, ef_error *err)
{
    ef_status st;

    *o = (ef__overview)EF__OVERVIEW_INIT;
    st = read_journal(c, all, o, err);
    if (st != EF_OK) {
        ef__overview_release(o);
        return st;
    }
    read_projections(c, o);
    ef__health_publisher_down(c->client ? NULL : c->engine, o->publisher_down);
    o->disk = read_disk(c, &o->facts);
    o->read_us = cli_wall_us();
    ef__overview_derive(o);
    return EF_OK;
}

/* Clears the slots that were skipped. */
static void advance_slots(cli_rate *rate, int64_t now_us)
{
    int64_t second = (now_us - rate->started_us) / 1000000;

    if (second - rate->second > CLI_RATE_SECONDS_MAX)
        rate->second = second - CLI_RATE_SECONDS_MAX;
    while (rate->second < second)
        rate->slots[++rate->second % CLI_RATE_SECONDS_MAX] = 0;
}

static int64_t slot_count(const cli_rate *rate, int64_t second)
{
    return second < 0 ? 0 : rate->slots[second % CLI_RATE_SECONDS_MAX];
}

void cli_rate_add(cli_rate *rate, int64_t now_us, int64_t count)
{
    advance_slots(rate, now_us);
    rate->slots[rate->second % CLI_RATE_SECONDS_MAX] += count;
}

void cli_rate_spread(cli_rate *rate, int64_t since_us, int64_t now_us, int64_t count)
{
    int64_t seconds, whole;

    advance_slots(rate, now_us);
    seconds = rate->second - (since_us - rate->started_us) / 1000000;
    seconds = seconds < CLI_RATE_SECONDS_MAX ? seconds : CLI_RATE_SECONDS_MAX;
    whole = seconds > 1 ? count / seconds : 0;
    for (int64_t i = 1; i < seconds; i++)
        rate->slots[(rate->second - i) % CLI_RATE_SECONDS_MAX] += whole;
    rate->slots[rate->second % CLI_RATE_SECONDS_MAX] +=
        count - (seconds > 1 ? seconds - 1 : 0) * whole;
}

double cli_rate_over(cli_rate *rate, int64_t now_us, int64_t seconds)
{
    int64_t sum = 0, span_us = now_us - rate->started_us;

    advance_slots(rate, now_us);
    seconds = seconds < CLI_RATE_SECONDS_MAX ? seconds : CLI_RATE_SECONDS_MAX;
    for (int64_t i = 0; i < seconds; i++)
        sum += slot_count(rate, rate->second - i);
    /* The current slot is not full: it counts for the time it has been open. */
    if (span_us > seconds * 1000000)
        span_us = (seconds - 1) * 1000000 + span_us % 1000000;
    return span_us > 0 ? (double)sum * 1e6 / (double)(span_us < 1000000 ? 1000000 : span_us) : 0;
}

void cli_rate_history(cli_rate *rate, int64_t now_us, int64_t *out, size_t count)
{
    advance_slots(rate, now_us);
    for (size_t i = 0; i < count; i++)
        out[i] = slot_count(rate, rate->second - (int64_t)(count - i));
}
