#include "compare.h"

#include <assert.h>
#include <stdlib.h>

ef_status ef__fence_passed(ef_str scope, int64_t token, int64_t seen, ef_error *err)
{
    return ef_fail_numbers(err, EF_LEASE_LOST, token, seen,
                           "token %lld of %.*s is old: %lld has written since", (long long)token,
                           EF_STR_ARG(scope), (long long)seen);
}

ef_status ef__fence_compare(const ef__fence *fence, int64_t seen, ef_error *err)
{
    if (fence->scope.len == 0 || seen <= fence->token)
        return EF_OK;
    return ef__fence_passed(fence->scope, fence->token, seen, err);
}

ef_status ef__live_set_compare(int64_t asked, int64_t found, ef_error *err)
{
    if (asked == 0 || asked == found)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, asked, found,
                           "the set of live generations is number %lld, %lld was read",
                           (long long)found, (long long)asked);
}

ef_status ef__era_compare(const ef__generation_change *change, bool is_there, int64_t era,
                          ef_error *err)
{
    if (!is_there)
        return ef_fail(err, EF_CONFLICT, "generation %lld was removed",
                       (long long)change->generation);
    if (era == change->era)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, change->era, era,
                           "generation %lld is in era %lld, %lld was read",
                           (long long)change->generation, (long long)era, (long long)change->era);
}

ef_status ef__cursor_moved(const ef__generation_change *change, int64_t position, ef_error *err)
{
    return ef_fail_numbers(err, EF_CONFLICT, change->cursor_before, position,
                           "the cursor of generation %lld is at %lld, %lld was read",
                           (long long)change->generation, (long long)position,
                           (long long)change->cursor_before);
}

ef_status ef__cursor_compare(const ef__generation_change *change, int64_t position, ef_error *err)
{
    if (change->cursor_after != 0 && position != change->cursor_before)
        return ef__cursor_moved(change, position, err);
    assert(change->cursor_after == 0 || change->cursor_after >= position); /* it only grows */
    return EF_OK;
}

ef_status ef__watermark_moved(ef_str stream, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "the watermark of stream \"%.*s\" is not what was read",
                   EF_STR_ARG(stream));
}

static bool same_watermark(const ef__watermark *a, const ef__watermark *b)
{
    return a->applied_seq == b->applied_seq && a->expected_next_seq == b->expected_next_seq &&
           memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

bool ef__watermark_is_none(const ef__watermark *watermark)
{
    return same_watermark(watermark, &(ef__watermark){0});
}

ef_status ef__watermark_compare(const ef__watermark_change *change, const ef__watermark *is,
                                ef_error *err)
{
    return same_watermark(is, &change->before) ? EF_OK : ef__watermark_moved(change->stream, err);
}

ef_status ef__view_moved(ef_str id, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "view \"%.*s\" was changed concurrently", EF_STR_ARG(id));
}

ef_status ef__view_compare(const ef__view_change *change, const uint64_t is[2], ef_error *err)
{
    if (ef__view_change_is_nothing(change) ||
        (is[0] == change->before[0] && is[1] == change->before[1]))
        return EF_OK;
    return ef__view_moved(change->view.id, err);
}

void ef__view_change_count(const ef__view_change *change, uint64_t out_digest[2], int64_t *views,
                           uint64_t sums[2])
{
    out_digest[0] = out_digest[1] = 0;
    if (!change->deleted)
        ef__view_digest(&change->view, out_digest);
    *views += (change->deleted ? 0 : 1) - (ef__digest_is_none(change->before) ? 0 : 1);
    ef__digest_subtract(sums, change->before);
    ef__digest_add(sums, out_digest);
}

ef_status ef__commit_head(const ef__views_commit *commit, int64_t *out, ef_error *err)
{
    if (!commit->head)
        return ef_fail(err, EF_MISUSE, "a commit with go_live needs a head to ask");
    return commit->head(commit->head_context, out, err);
}

/* --- order ------------------------------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
    const ef__view *x = &(*(const ef__view_change *const *)a)->view;
    const ef__view *y = &(*(const ef__view_change *const *)b)->view;
    int order = ef__str_compare(x->tenant, y->tenant);

    return order ? order : ef__str_compare(x->id, y->id);
}

static int by_stream(const void *a, const void *b)
{
    const ef__watermark_change *x = *(const ef__watermark_change *const *)a;
    const ef__watermark_change *y = *(const ef__watermark_change *const *)b;
    int order = ef__str_compare(x->tenant, y->tenant);

    return order ? order : ef__str_compare(x->stream, y->stream);
}

const ef__view_change **ef__views_sorted(const ef__generation_change *change)
{
    const ef__view_change **sorted = malloc((change->view_count + 1) * sizeof *sorted);

    for (size_t i = 0; sorted && i < change->view_count; i++)
        sorted[i] = &change->views[i];
    if (sorted)
        qsort(sorted, change->view_count, sizeof *sorted, by_id);
    /* A second change of a view would compare itself with what the first one wrote. */
    for (size_t i = 1; sorted && i < change->view_count; i++)
        assert(by_id(&sorted[i - 1], &sorted[i]) < 0);
    return sorted;
}

const ef__watermark_change **ef__watermarks_sorted(const ef__generation_change *change)
{
    const ef__watermark_change **sorted = malloc((change->watermark_count + 1) * sizeof *sorted);

    for (size_t i = 0; sorted && i < change->watermark_count; i++)
        sorted[i] = &change->watermarks[i];
    if (sorted)
        qsort(sorted, change->watermark_count, sizeof *sorted, by_stream);
    for (size_t i = 1; sorted && i < change->watermark_count; i++)
        assert(by_stream(&sorted[i - 1], &sorted[i]) < 0);
    return sorted;
}
