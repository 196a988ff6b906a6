/*
 * copy.c - copies the events of one journal to another, unchanged.
 *
 * The target computes each hash from its own last one and compares it with the hash of the event in
 * the source. So a copy has the same hash chain, whatever the two back ends are, and the head of
 * the target alone determines where an interrupted copy continues.
 */
#include "front_priv.h"

#include <inttypes.h>
#include <stdlib.h>

#define COPY_EVENTS 1000 /* per read and append: one transaction of the target, in memory */

typedef struct copy_job {
    ef_journal *from, *to;
    int64_t upto;
    ef_batch batch;
    ef__arrival arrivals[COPY_EVENTS];
    ef_place places[COPY_EVENTS];
} copy_job;

/* --- checks ----------------------------------------------------------------------------------- */

static ef_status check_stores(const copy_job *job, ef_error *err)
{
    if (ef__journal_is_sparse(job->from) || ef__journal_is_sparse(job->to))
        return ef_fail(err, EF_UNSUPPORTED,
                       "a journal on JetStream has no positions and hashes of its own to copy");
    return EF_OK;
}

static ef_status check_no_publisher(ef_journal *to, ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    ef_status st = ef_lane_ls(to, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (lanes.items[i].kind == EF_LANE_KIND_PUBLISHER)
            st = ef_fail(err, EF_EXISTS,
                         "the target has publisher \"%.*s\", which would send the copied events "
                         "again: remove it, and add it after the copy",
                         EF_STR_ARG(lanes.items[i].name));
    return st;
}

static ef_status report_not_a_prefix(int64_t position, int64_t source, ef_error *err)
{
    return ef_fail_numbers(err, EF_EXISTS, source, position,
                           "the target is not a prefix of the source: they differ at or before "
                           "position %" PRId64 "; nothing was copied",
                           position);
}

/* Does the source have the target's last event at the same position? */
static ef_status check_prefix(copy_job *job, const ef_head *head, ef_error *err)
{
    ef_log_query query = {.any_tenant = true, .after = head->position - 1, .limit = 1};
    ef_status st;

    if (head->position == 0)
        return EF_OK;
    if (head->position > job->upto)
        return ef_fail_numbers(err, EF_EXISTS, job->upto, head->position,
                               "the target is not a prefix of the source: it has %" PRId64
                               " events, the source %" PRId64 "; nothing was copied",
                               head->position, job->upto);
    st = ef_journal_read_log(job->from, &query, &job->batch, err);
    if (st != EF_OK)
        return st;
    if (job->batch.count != 1 || memcmp(job->batch.events[0].hash, head->hash, EF_HASH_BYTES) != 0)
        return report_not_a_prefix(head->position, job->upto, err);
    return EF_OK;
}

/* --- types ------------------------------------------------------------------------------------ */

/* Canonical types first: an alias needs the type that it refers to. */
static ef_status copy_types(const copy_job *job, ef_error *err)
{
    EF__AUTO(ef_type_list) types = {0};
    ef_status st = ef_type_ls(job->from, NULL, &types, err);

    for (int aliases = 0; aliases < 2; aliases++)
        for (size_t i = 0; st == EF_OK && i < types.count; i++)
            if ((types.items[i].alias_of.len > 0) == (aliases == 1))
                st = ef_type_set(job->to, &types.items[i], err);
    return st;
}

/* --- events ----------------------------------------------------------------------------------- */

static ef__arrival make_sealed_arrival(const ef_event *event)
{
    return (ef__arrival){.event = {.tenant = event->tenant,
                                   .stream = event->stream,
                                   .type = event->type,
                                   .id = event->id,
                                   .expected_seq = ef_expect_seq(event->seq - 1),
                                   .schema = event->schema,
                                   .time_us = event->time_us,
                                   .data = event->data,
                                   .meta = event->meta},
                         .time_given = true,
                         .sealed = event};
}

/* Copies one page: reads from the source, appends to the target. *out_count 0: the copy is done. */
static ef_status copy_page(copy_job *job, int64_t after, size_t *out_count, ef_error *err)
{
    int64_t left = job->upto - after;
    ef_log_query query = {.any_tenant = true,
                          .after = after,
                          .stored_types = true,
                          .limit = left < COPY_EVENTS ? (size_t)left : COPY_EVENTS};
    ef_status st;

    *out_count = 0;
    if (left <= 0)
        return EF_OK;
    st = ef_journal_read_log(job->from, &query, &job->batch, err);
    if (st != EF_OK || job->batch.count == 0)
        return st;
    for (size_t i = 0; i < job->batch.count; i++)
        job->arrivals[i] = make_sealed_arrival(&job->batch.events[i]);
    st = ef__damage_refuse(job->to, err);
    if (st == EF_OK)
        st = job->to->events->append(job->to, job->arrivals, job->batch.count, job->places, err);
    *out_count = st == EF_OK ? job->batch.count : 0;
    return st;
}

static ef_status copy_events(copy_job *job, const ef_copy_options *options, ef_copy_result *out,
                             ef_error *err)
{
    size_t count = 1;
    ef_status st = EF_OK;

    while (st == EF_OK && count > 0) {
        if (options->progress && !options->progress(options->context, out->position, job->upto))
            return EF_OK;
        st = copy_page(job, out->position, &count, err);
        if (count > 0)
            memcpy(out->hash, job->batch.events[count - 1].hash, EF_HASH_BYTES);
        out->position += (int64_t)count;
        out->copied += (int64_t)count;
    }
    return st;
}

ef_status ef_journal_copy(ef_journal *from, ef_journal *to, const ef_copy_options *options,
                          ef_copy_result *out, ef_error *err)
{
    ef_head source, target;
    copy_job *job;
    ef_status st = ef__need_journal(from, err);

    if (st == EF_OK)
        st = ef__need_writable(to, "ef_journal_copy", err);
    if (st == EF_OK)
        st = ef__need(options, "options", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st != EF_OK)
        return st;
    *out = (ef_copy_result){0};
    job = calloc(1, sizeof *job);
    if (!job)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while copying a journal");
    job->from = from;
    job->to = to;
    st = check_stores(job, err);
    if (st == EF_OK)
        st = ef_journal_head(from, &source, err);
    if (st == EF_OK)
        st = ef_journal_head(to, &target, err);
    if (st == EF_OK) {
        job->upto =
            options->upto && options->upto < source.position ? options->upto : source.position;
        out->position = target.position;
        memcpy(out->hash, target.hash, EF_HASH_BYTES);
        out->upto = job->upto;
        st = check_prefix(job, &target, err);
    }
    if (st == EF_OK)
        st = check_no_publisher(to, err);
    if (st == EF_OK)
        st = copy_types(job, err);
    if (st == EF_OK)
        st = copy_events(job, options, out, err);
    EF_RELEASE(&job->batch);
    free(job);
    return st;
}
