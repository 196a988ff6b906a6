/*
 * fuzz_eval.c - the evaluator against anything: the first byte picks a program, the second how many
 * events make a batch, the rest are the events' data, divided by newlines. Odd first bytes make the
 * program from the input too: a line of it becomes an expression. What must hold: every event ends
 * within its budgets, a failed one leaves the views as they were, every view that comes out is
 * canonical JSON of the size that was counted, and read again it is the same.
 */
#include "../../src/fold/folder.h"
#include "../../src/fold/match.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const programs[] = {
    "projection a version 1\n  view data.id ?? stream\n\non e\n  n += data.x\n"
    "  list push data.y keep 3\n  tags add data.z\n  by[text(data.k)] += 1\n  all = data\n"
    "on d\n  delete\n",
    "projection b version 1\n\non e\n  for item in data.items view item.id\n    n += item.n\n"
    "    last = [last, item]\n    tags remove item.n\n    unset last[0]\n",
    "projection c version 1\n\non e\n  let x = [data, data.a, list]\n  list push x\n"
    "  a = sort(unique(x))\n  b = merge({k: data.a}, {k: list})\n  a[0] = list\n  c = text(a)\n"
    "  d = [hash(a), keys(b), reverse(x), slice(x, 1), a == b, data.a in list]\n",
    "projection d version 1\n\nupcast e from 1 to 2\n  data.v = [data.v, data.v]\n  unset data.w\n"
    "on e\n  v = data.v\n  w = number(text(data.n)) / 7 * data.n % 3\n"
    "  s = substr(replace(text(data.s), \"a\", \"bb\"), data.n, 5)\n",
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static ef__program *compile(ef_str text)
{
    static ef__diagnostics diagnostics;
    ef__program *program = NULL;

    (void)ef__program_compile(EF_STR("fuzz"), text, &program, &diagnostics, NULL);
    return program;
}

/* r = EXPR, written so that what is wrong in the line stays in it. */
static ef__program *compile_line(ef_str line)
{
    ef__buf text = EF__BUF_INIT(1 << 16);

    ef__buf_printf(&text, "projection x version 1\n\non e\n  old = r\n  r = (%.*s)\n",
                   EF_STR_ARG(line));
    ef__program *program = text.failed ? NULL : compile(ef__buf_str(&text));
    ef__buf_release(&text);
    return program;
}

static ef_str next_line(ef_str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    ef_str line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};

    rest->ptr += line.len + (end != NULL);
    rest->len -= line.len + (end != NULL);
    return line;
}

/* All views that changed, as one text; each is checked on the way. */
static void print_all(ef__folder *folder, ef__buf *out)
{
    ef__arena arena = EF__ARENA_INIT(64 << 20);
    ef__buf again = EF__BUF_INIT(4 << 20);
    ef__folded_view view;

    ef__buf_reset(out);
    for (size_t at = 0;;) {
        ef__json *json;
        must(ef__folder_next(folder, &at, &view, NULL) == EF_OK);
        if (view.view_id.len == 0)
            break;
        ef__buf_add_str(out, view.view_id);
        ef__buf_add_str(out, view.data);
        if (view.deleted)
            continue;
        must(view.data.len <= EF_FOLD_LIMIT_VIEW_BYTES);
        must(ef__json_parse(view.data, 4 << 20, &arena, &json, NULL) == EF_OK);
        ef__buf_reset(&again);
        must(ef__value_print(ef__value_from_json(json), &again, NULL) == EF_OK);
        must(ef_str_equal(ef__buf_str(&again), view.data));
        ef__arena_reset(&arena);
    }
    ef__buf_release(&again);
    ef__arena_release(&arena);
}

static void run(const ef__program *program, ef_str lines, size_t batch)
{
    ef__folder_options options = {.program = program, .max_bytes = 256 << 20};
    ef__buf before = EF__BUF_INIT(64 << 20);
    ef__buf after = EF__BUF_INIT(64 << 20);
    ef__folder *folder;

    must(ef__folder_open(&options, &folder, NULL) == EF_OK);
    for (int64_t i = 1; lines.len > 0 && i < 200; i++) {
        ef_str data = next_line(&lines);
        ef__outcome outcome;
        ef_event event = {.stream = EF_STR("s"), .id = EF_STR("i"), .seq = i, .position = i};
        event.type = i % 11 == 10 ? EF_STR("d") : EF_STR("e");
        event.schema = 1;
        event.time_us = INT64_C(1789000000000000);
        event.data = data;
        /* The journal has only valid JSON; what is none is refused, or fails the event. */
        must(ef__folder_apply(folder, &event, &outcome, NULL) == EF_OK);
        print_all(folder, &after);
        if (outcome.result != EF__FOLD_APPLIED)
            must(ef_str_equal(ef__buf_str(&before), ef__buf_str(&after)));
        if ((size_t)i % batch == 0) {
            ef__folder_settle(folder);
            ef__buf_reset(&after);
        }
        ef__buf_reset(&before);
        ef__buf_add_str(&before, ef__buf_str(&after));
    }
    ef__folder_close(folder);
    ef__buf_release(&before);
    ef__buf_release(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    ef_str rest = {(const char *)data + 2, size - 2};
    ef__program *program = data[0] % 2 ? compile_line(next_line(&rest))
                                       : compile(ef_str_from(programs[data[0] / 2 % 4]));
    if (program)
        run(program, rest, 1 + data[1] % 8);
    ef__program_close(program);
    return 0;
}
