/*
 * match.c - evaluates the expressions of a query on one view after another. The view is read in its
 * parsed tree; only values that are needed are converted.
 */
#include "match.h"

#include "eval.h"

#include <stdlib.h>

#define BYTES_IN_A_STEP 64 /* of a view that is read */

struct ef__match {
    ef__eval ev; /* first, as everywhere */
    ef__arena arena;
    ef__target row;
    ef_str data;
    int64_t used; /* steps since ef__match_used */
};

static ef_status no_view(ef__eval *ev, ef_str view_id, ef__target **out)
{
    (void)out, (void)view_id;
    return ef_fail(ev->err, EF_MISUSE, "a query selects no view");
}

static ef_status no_lookup(ef__eval *ev, ef_str projection, ef_str view_id, ef_str *out)
{
    (void)out, (void)projection, (void)view_id;
    return ef_fail(ev->err, EF_MISUSE, "a query looks up no other projection");
}

static const ef__eval_ops match_ops = {.select = no_view, .lookup = no_lookup};

ef_status ef__match_open(ef__match **out, ef_error *err)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return ef_fail(err, EF_NO_MEMORY, "no memory for a query");
    (*out)->arena = (ef__arena)EF__ARENA_INIT(EF_FOLD_LIMIT_EVENT_ARENA_BYTES);
    (*out)->ev = (ef__eval){.ops = &match_ops, .arena = &(*out)->arena, .lenient = true};
    (*out)->ev.view = &(*out)->row;
    return EF_OK;
}

void ef__match_close(ef__match *match)
{
    if (!match)
        return;
    ef__arena_release(&match->arena);
    free(match);
}

ef_status ef__match_row(ef__match *match, ef_str view_id, int64_t last_seq, ef_str data,
                        ef_error *err)
{
    ef__json *json;

    ef__arena_reset(&match->arena);
    match->used += (int64_t)data.len / BYTES_IN_A_STEP;
    match->row.root = EF__MISSING;
    match->ev.view_id = view_id;
    match->ev.last_seq = last_seq;
    ef_status st = ef__json_parse(data, 2 * EF_FOLD_LIMIT_VIEW_BYTES, &match->arena, &json, err);
    if (st == EF_OK)
        match->row.root = ef__value_from_json(json);
    return st;
}

static ef_status evaluate_expr(ef__match *match, ef_str source, const ef__expr *expr,
                               ef__value *out, ef_error *err)
{
    ef__eval *ev = &match->ev;

    ev->source = source;
    ev->steps_left = EF_FOLD_LIMIT_STEPS;
    ev->output_left = EF_FOLD_LIMIT_OUTPUT_BYTES;
    ev->err = err;
    ef_status st = ef__eval_expr(ev, expr, out);
    match->used += EF_FOLD_LIMIT_STEPS - ev->steps_left;
    return st;
}

int64_t ef__match_used(ef__match *match)
{
    int64_t used = match->used;

    match->used = 0;
    return used;
}

ef_status ef__match_value(ef__match *match, const ef__filter *filter, ef__value *out, ef_error *err)
{
    return evaluate_expr(match, filter->source, filter->expr, out, err);
}

ef_status ef__match_test(ef__match *match, const ef__filter *filter, bool *out, ef_error *err)
{
    ef__value v = EF__NULL;
    ef_status st = ef__match_value(match, filter, &v, err);

    *out = st == EF_OK && v.kind == EF__VALUE_TRUE;
    return st;
}

ef_status ef__match_index(ef__match *match, const ef__program *program, size_t index,
                          ef__value *out, ef_error *err)
{
    const ef__index *declared = program->indexes;

    while (declared && index-- > 0)
        declared = declared->next;
    if (!declared)
        return ef_fail(err, EF_MISUSE, "the program has no such index");
    return evaluate_expr(match, program->source, declared->path, out, err);
}
