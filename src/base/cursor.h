/*
 * cursor.h - opaque paging cursors.
 *
 * A cursor is a kind and two numbers, with a checksum so that other text is refused. Letters,
 * digits, - and _ only.
 */
#pragma once

#include <everfold/journal.h>

void ef__cursor_format(char kind, int64_t a, int64_t b, char out[EF_CURSOR_MAX]);
/* "" results in 0, 0. EF_BAD_INPUT: the text is not a cursor of this kind. */
ef_status ef__cursor_parse(char kind, ef_str text, int64_t *out_a, int64_t *out_b, ef_error *err);
