/*
 * fuzz_import.c - any bytes as a line of an import file.
 *
 * A decoded event must point into the line or the arena, and its data must be valid JSON.
 */
#include "../../src/base/json.h"
#include "../../src/base/limits.h"
#include "../../src/base/incoming.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void need_json(ef_str text, const char *line, size_t size)
{
    if (text.len == 0)
        return;
    if (text.ptr < line || text.ptr + text.len > line + size)
        abort();
    if (ef__json_check(text, EF_LIMIT_LINE_BYTES, NULL, NULL) != EF_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    ef__arena arena = EF__ARENA_INIT(8 * 1024 * 1024);
    ef_error err = EF_ERROR_INIT;
    ef_new_event event;
    /* A copy of exactly that size, so that the sanitizer reports a read past its end. */
    char *line = malloc(size ? size : 1);

    if (!line)
        return 0;
    memcpy(line, bytes, size);
    if (ef__event_decode((ef_str){line, size}, &(ef_new_event){.tenant = EF_STR("t")}, &arena,
                         &event, &err) == EF_OK) {
        need_json(event.data, line, size);
        need_json(event.meta, line, size);
        if (!event.stream.ptr || !event.type.ptr || event.data.len == 0)
            abort();
    } else if (err.text[0] == '\0') {
        abort();
    }
    free(line);
    ef__arena_release(&arena);
    return 0;
}
