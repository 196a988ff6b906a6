/*
 * import.h - one line of an import file into one event. No I/O: the fuzzer uses it too.
 */
#ifndef EF_CLI_IMPORT_H
#define EF_CLI_IMPORT_H

#include "../base/arena.h"

#include <everfold/event.h>

/*
 * A line is a JSON object: stream, type, data, and optional tenant, id, expected_seq, meta, schema,
 * time. `data` and `meta` of `out` are the bytes as they stand in the line; the other texts are in
 * the line or, where they had escapes, in `arena`. expected_seq 0 means that the stream must be
 * new, as on the command line. `tenant` is for lines that name none. Names and sizes are left to
 * ef_event_check.
 *
 * EF_BAD_JSON, EF_BAD_INPUT (the message names the key), EF_TOO_LARGE
 */
ef_status cli_import_decode(ef_str line, ef_str tenant, ef__arena *arena, ef_new_event *out,
                            ef_error *err);

#endif
