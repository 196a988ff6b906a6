/*
 * keys.h - the index keys of a view, packed into its row: the entries to delete when it changes.
 *
 *     idx (1 byte)  length (4 bytes, big-endian)  key       … for each
 */
#pragma once

#include "views.h"

#define EF__PACKED_MAX (64 * 1024 * 1024) /* keys come out of one view */

/* The keys of the changed view; none if it is deleted. Check out->failed. */
void ef__keys_pack(ef__buf *out, const ef__view_change *change);
/* The next key of `*rest`; false at its end. A truncated key ends it: the deep check finds entries
 * without a view. */
bool ef__keys_next(ef_str *rest, ef__index_key *out);
/* The next key of `*rest` that is not among `others`. */
bool ef__keys_next_other(ef_str *rest, ef_str others, ef__index_key *out);
