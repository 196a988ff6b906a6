/*
 * compare.h - the comparisons of a commit, and the errors for state that changed since it was read:
 * all back ends decide alike and return the same messages.
 */
#pragma once

#include "views.h"

/* `seen` is the highest token that wrote under the fence, 0 for none. EF_LEASE_LOST: it is higher
 * than the fence's token. A fence without a scope allows every write. */
ef_status ef__fence_compare(const ef__fence *fence, int64_t seen, ef_error *err);

/* The others return EF_CONFLICT. `asked` 0: not compared. */
ef_status ef__live_set_compare(int64_t asked, int64_t found, ef_error *err);
ef_status ef__era_compare(const ef__generation_change *change, bool is_there, int64_t era,
                          ef_error *err);
/* Compares only if the change moves the cursor. */
ef_status ef__cursor_compare(const ef__generation_change *change, int64_t position, ef_error *err);
/* `is` is the stored watermark, all zero if there is none. */
ef_status ef__watermark_compare(const ef__watermark_change *change, const ef__watermark *is,
                                ef_error *err);
/* `is` is the digest of the stored view; both 0 if there is none. */
ef_status ef__view_compare(const ef__view_change *change, const uint64_t is[2], ef_error *err);

/* The same errors, for back ends whose write statement compares. */
ef_status ef__fence_passed(ef_str scope, int64_t token, int64_t seen, ef_error *err);
ef_status ef__cursor_moved(const ef__generation_change *change, int64_t position, ef_error *err);
ef_status ef__watermark_moved(ef_str stream, ef_error *err);
ef_status ef__view_moved(ef_str id, ef_error *err);

bool ef__watermark_is_none(const ef__watermark *watermark);

/* A view that is created and deleted within a batch changes nothing. A stored view of that id was
 * written by another commit and must stay. */
static inline bool ef__view_change_is_nothing(const ef__view_change *change)
{
    return change->deleted && ef__digest_is_none(change->before);
}

/* The digest of the view after the change, and what the change adds to the number of views and the
 * digest of the generation. */
void ef__view_change_count(const ef__view_change *change, uint64_t out_digest[2], int64_t *views,
                           uint64_t sums[2]);

/* The head of the journal, for a generation that is about to go live. */
ef_status ef__commit_head(const ef__views_commit *commit, int64_t *out, ef_error *err);

/* The changes by their keys, so that neighbours share pages; to be freed. NULL: no memory. */
const ef__view_change **ef__views_sorted(const ef__generation_change *change);
const ef__watermark_change **ef__watermarks_sorted(const ef__generation_change *change);
