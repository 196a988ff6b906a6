/*
 * read_requirement.c - see read_requirement.h.
 */
#include "read_requirement.h"

#include <stdlib.h>

static int compare_streams(const void *a, const void *b)
{
    const ef__wanted_stream *x = a, *y = b;
    int by_tenant = ef__str_compare(x->tenant, y->tenant);
    int by_name = by_tenant ? by_tenant : ef__str_compare(x->name, y->name);

    return by_name ? by_name : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Keeps each stream once, with its highest seq. */
static void merge_streams(ef__waiting_read *read)
{
    size_t kept = 0;

    if (read->count)
        qsort(read->streams, read->count, sizeof *read->streams, compare_streams);
    for (size_t i = 0; i < read->count; i++) {
        ef__wanted_stream *before = kept ? &read->streams[kept - 1] : NULL;
        if (before && ef_str_equal(before->tenant, read->streams[i].tenant) &&
            ef_str_equal(before->name, read->streams[i].name))
            *before = read->streams[i];
        else
            read->streams[kept++] = read->streams[i];
    }
    read->count = kept;
}

static ef_status add_events(ef__waiting_read *read, const ef_batch *batch, int64_t last,
                            ef_error *err)
{
    for (size_t i = 0; i < batch->count && batch->events[i].position <= last; i++) {
        const ef_event *event = &batch->events[i];
        ef__wanted_stream *to = &read->streams[read->count];
        *to = (ef__wanted_stream){ef__arena_copy(&read->arena, event->tenant),
                                  ef__arena_copy(&read->arena, event->stream), event->seq,
                                  event->position};
        if (!to->tenant.ptr || !to->name.ptr)
            return ef__no_memory(err);
        read->count++;
    }
    return EF_OK;
}

/* The streams of the events of a range of positions. */
static ef_status require_range(ef_engine *engine, const ef_token *token, const ef_str *tenant,
                               ef__waiting_read *read, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t after = token->first - 1, reached = after;
    size_t most = (size_t)(token->position - token->first + 1);
    ef_status st = EF_OK;

    read->streams = ef__arena_zalloc(&read->arena, most + 1, sizeof *read->streams);
    if (!read->streams)
        return ef__no_memory(err);
    while (st == EF_OK && after < token->position) {
        st = ef_journal_read_log(engine->journal,
                                 &(ef_log_query){.any_tenant = !tenant,
                                                 .tenant = tenant ? *tenant : EF_STR(""),
                                                 .after = after,
                                                 .limit = 1000,
                                                 .out_reached = &reached},
                                 &batch, err);
        if (st == EF_OK)
            st = add_events(read, &batch, token->position, err);
        if (reached == after)
            break;
        after = reached;
    }
    ef_batch_release(&batch);
    merge_streams(read);
    return st;
}

static ef_status require_stream(const ef_token *token, const ef_str *tenant, ef__waiting_read *read,
                                ef_error *err)
{
    ef__wanted_stream *to = ef__arena_zalloc(&read->arena, 2, sizeof *to);

    if (tenant && !ef_str_equal(*tenant, ef_str_from(token->tenant)))
        return ef_fail(err, EF_BAD_INPUT,
                       "the token belongs to tenant \"%s\", the read to tenant \"%.*s\"",
                       token->tenant, EF_STR_ARG(*tenant));
    if (!to)
        return ef__no_memory(err);
    *to = (ef__wanted_stream){ef__arena_copy(&read->arena, ef_str_from(token->tenant)),
                              ef__arena_copy(&read->arena, ef_str_from(token->stream)), token->seq,
                              token->position};
    read->streams = to;
    read->count = 1;
    return to->tenant.ptr && to->name.ptr ? EF_OK : ef__no_memory(err);
}

ef_status ef__read_requirement_set(ef_engine *engine, const ef_freshness *freshness,
                                   const ef_str *tenant, ef__waiting_read *read, ef_error *err)
{
    ef_token token = {0};
    ef_head head;
    ef_status st = EF_OK;

    if (freshness->at_least.len)
        st = ef_token_parse(freshness->at_least, &token, err);
    if (st == EF_OK && token.by_stream)
        st = require_stream(&token, tenant, read, err);
    else if (st == EF_OK && token.first)
        st = require_range(engine, &token, tenant, read, err);
    else
        read->position = token.position;
    if (st == EF_OK && freshness->current) {
        st = ef_journal_head(engine->journal, &head, err);
        read->position = head.position > read->position ? head.position : read->position;
    }
    if (st == EF_OK && read->count) {
        read->watermarks = ef__arena_zalloc(&read->arena, read->count, sizeof *read->watermarks);
        st = read->watermarks ? EF_OK : ef__no_memory(err);
    }
    return st;
}
