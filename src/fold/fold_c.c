/*
 * fold_c.c - projections written in C: the public calls on an ef_fold, which is the folder itself.
 *
 * Each call becomes the statement that a program would have, and runs through the same code: the
 * path is the target of the statement, and its value is in slot 0. So C and text cannot differ.
 */
#include "folder_priv.h"

#include "../base/limits.h"
#include "../base/utf8.h"

static ef__folder *folder_of(ef_fold *fold)
{
    return (ef__folder *)fold;
}

static ef_status no_memory(ef__folder *folder)
{
    return ef__eval_no_memory(&folder->ev);
}

void ef__program_use_function(ef__program *program, ef_fold_fn fn, void *context)
{
    program->fn = fn;
    program->fn_context = context;
}

/* --- paths ------------------------------------------------------------------------------------ */

static ef_status bad_path(const char *path, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "'%.200s' is not a path like total, stats.total or lines[0]",
                   path);
}

/* Reads [n] or [-n] at `*p` and moves past it. */
static bool read_index(const char **p, int64_t *out)
{
    const char *at = *p + 1;
    bool negative = *at == '-';
    int64_t index = 0;

    at += negative;
    const char *digits = at;
    for (; *at >= '0' && *at <= '9' && at - digits < 10; at++)
        index = index * 10 + (*at - '0');
    if (at == digits || *at != ']')
        return false;
    *out = negative ? -index : index;
    *p = at + 1;
    return true;
}

static ef_status read_path(ef__folder *folder, const char *path, ef__root root, ef__expr **out,
                           ef_error *err)
{
    size_t len = strlen(path);
    ef__expr *expr = ef__arena_zalloc(folder->ev.arena, 1, sizeof(*expr));
    ef__path_step **link = expr ? &expr->steps : NULL;

    if (!expr)
        return no_memory(folder);
    if (!ef__utf8_valid((ef_str){path, len}))
        return ef_fail(err, EF_BAD_INPUT, "a path is not valid UTF-8");
    *expr = (ef__expr){.kind = EF__EXPR_PATH, .memo = -1, .root = root};
    expr->span = (ef__span){.line = 1, .column = 1, .length = (uint32_t)len};
    for (const char *p = path; *p;) {
        ef__path_step *step = ef__arena_zalloc(folder->ev.arena, 1, sizeof(*step));
        if (!step)
            return no_memory(folder);
        step->span = (ef__span){(uint32_t)(p - path), 1, (uint32_t)(p - path) + 1, 1};
        if (*p == '[') {
            if (!read_index(&p, &step->index))
                return bad_path(path, err);
        } else {
            p += *p == '.' && p != path;
            size_t name = strcspn(p, ".[");
            if (name == 0)
                return bad_path(path, err);
            step->field = (ef_str){p, name};
            p += name;
        }
        *link = step;
        link = &step->next;
        expr->step_count++;
    }
    *out = expr;
    return EF_OK;
}

/* --- statements ------------------------------------------------------------------------------- */

static ef_status need_view(ef__folder *folder, ef_error *err)
{
    if (folder->ev.view)
        return EF_OK;
    return ef_fail(err, EF_MISUSE, "no view is selected: call ef_fold_view first");
}

/* A call that fails changes nothing, whether or not the handler continues. */
static ef_status run_or_undo(ef__folder *folder, const ef__block *block)
{
    size_t before = folder->changes.count;
    int64_t bytes = folder->ev.view->bytes;
    ef_status st = ef__run_block(&folder->ev, block);

    if (st != EF_OK) {
        ef__changes_undo(&folder->changes, before);
        folder->ev.view->bytes = bytes;
    }
    return st;
}

static ef_status run_statement(ef_fold *fold, ef__stmt_kind kind, const char *path, ef__value value,
                               size_t keep, ef_error *err)
{
    ef__folder *folder = folder_of(fold);
    ef__expr in_slot = {.kind = EF__EXPR_PATH, .memo = -1, .root = EF__ROOT_LET};
    ef__stmt stmt = {.kind = kind, .value = &in_slot, .keep = (int64_t)keep};
    ef__block block = {.first = &stmt};
    ef_error ignored = EF_ERROR_INIT;
    ef_error *saved = folder->ev.err;
    ef_status st = need_view(folder, err);

    if (st == EF_OK && keep > EF_FOLD_LIMIT_KEEP)
        st = ef_fail(err, EF_BAD_INPUT, "keep is %zu, at most %d are kept", keep,
                     EF_FOLD_LIMIT_KEEP);
    folder->ev.err = err ? err : &ignored;
    if (st == EF_OK)
        st = read_path(folder, path, EF__ROOT_VIEW, &stmt.target, folder->ev.err);
    if (st == EF_OK) {
        folder->ev.source = ef_str_from(path);
        folder->ev.slots[0] = value;
        in_slot.span = stmt.target->span;
        st = run_or_undo(folder, &block);
    }
    folder->ev.err = saved;
    return st;
}

static ef_status parse_value(ef__folder *folder, ef_str json, ef__value *out, ef_error *err)
{
    ef__json *tree;
    ef_str copy = ef__arena_copy(folder->ev.arena, json);

    if (!copy.ptr)
        return no_memory(folder);
    ef_status st = ef__json_parse(copy, EF_FOLD_LIMIT_VIEW_BYTES, folder->ev.arena, &tree, err);
    if (st == EF_OK)
        *out = ef__value_from_json(tree);
    return st;
}

static ef_status run_json(ef_fold *fold, ef__stmt_kind kind, const char *path, ef_str json,
                          size_t keep, ef_error *err)
{
    ef__value value;
    ef_status st = parse_value(folder_of(fold), json, &value, err);

    return st == EF_OK ? run_statement(fold, kind, path, value, keep, err) : st;
}

ef_status ef_fold_ignore(ef_fold *fold)
{
    folder_of(fold)->ignored = true;
    return EF_OK;
}

ef_status ef_fold_view(ef_fold *fold, ef_str view_id, ef_error *err)
{
    ef__folder *folder = folder_of(fold);
    ef_error *saved = folder->ev.err;
    ef_error ignored = EF_ERROR_INIT;
    ef__decoded_view *view = NULL;
    ef_status st = ef__name_check("view id", view_id, 1, false, err);

    if (st != EF_OK)
        return st;
    folder->ev.err = err ? err : &ignored;
    st = ef__folder_touch(folder, view_id, &view);
    folder->ev.err = saved;
    folder->ev.view = view ? &view->target : NULL;
    return st;
}

ef_status ef_fold_set(ef_fold *fold, const char *path, ef_str json, ef_error *err)
{
    return run_json(fold, EF__STMT_SET, path, json, 0, err);
}

ef_status ef_fold_set_int(ef_fold *fold, const char *path, int64_t value, ef_error *err)
{
    return run_statement(fold, EF__STMT_SET, path, ef__value_int(value), 0, err);
}

ef_status ef_fold_set_text(ef_fold *fold, const char *path, ef_str text, ef_error *err)
{
    if (text.len > EF_FOLD_LIMIT_VIEW_BYTES)
        return ef_fail(err, EF_TOO_LARGE, "the text is longer than a view may be");
    if (!ef__utf8_valid(text) || (text.len && memchr(text.ptr, '\0', text.len)))
        return ef_fail(err, EF_BAD_INPUT, "the text is not UTF-8, or contains a NUL");
    return run_statement(fold, EF__STMT_SET, path, ef__value_string(text), 0, err);
}

ef_status ef_fold_add(ef_fold *fold, const char *path, ef_str number, ef_error *err)
{
    return run_json(fold, EF__STMT_INCREASE, path, number, 0, err);
}

ef_status ef_fold_add_int(ef_fold *fold, const char *path, int64_t value, ef_error *err)
{
    return run_statement(fold, EF__STMT_INCREASE, path, ef__value_int(value), 0, err);
}

ef_status ef_fold_push(ef_fold *fold, const char *path, ef_str json, size_t keep, ef_error *err)
{
    return run_json(fold, EF__STMT_PUSH, path, json, keep, err);
}

ef_status ef_fold_unset(ef_fold *fold, const char *path, ef_error *err)
{
    if (path[0] == '\0')
        return ef_fail(err, EF_BAD_INPUT,
                       "the path is empty: ef_fold_delete deletes the whole view");
    return run_statement(fold, EF__STMT_UNSET, path, EF__NULL, 0, err);
}

ef_status ef_fold_delete(ef_fold *fold, ef_error *err)
{
    return run_statement(fold, EF__STMT_DELETE, "", EF__NULL, 0, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status read_value(ef_fold *fold, const char *path, ef__root root, ef__value *out,
                            ef_error *err)
{
    ef__folder *folder = folder_of(fold);
    ef_error ignored = EF_ERROR_INIT;
    ef_error *saved = folder->ev.err;
    ef__expr *expr;

    folder->ev.err = err ? err : &ignored;
    ef_status st = read_path(folder, path, root, &expr, folder->ev.err);
    if (st == EF_OK)
        st = ef__eval_expr(&folder->ev, expr, out);
    folder->ev.err = saved;
    if (st == EF_OK && out->kind == EF__VALUE_MISSING)
        return ef_fail(err, EF_NOT_FOUND, "there is nothing at %s", path[0] ? path : "the root");
    return st;
}

static ef_status print_value(ef__folder *folder, ef__value v, ef_str *out, ef_error *err)
{
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    ef_status st = ef__value_print(v, &buf, err);

    if (st == EF_OK) {
        *out = ef__arena_copy(folder->ev.arena, ef__buf_str(&buf));
        st = out->ptr ? EF_OK : no_memory(folder);
    }
    return st;
}

ef_status ef_fold_get(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err)
{
    ef__value v;
    ef_status st = need_view(folder_of(fold), err);

    if (st == EF_OK)
        st = read_value(fold, path, EF__ROOT_VIEW, &v, err);
    return st == EF_OK ? print_value(folder_of(fold), v, out_json, err) : st;
}

static ef_status to_int(ef__value v, const char *path, int64_t *out, ef_error *err)
{
    if (v.kind != EF__VALUE_INT)
        return ef_fail(err, EF_BAD_INPUT, "%s is %s, not an integer", path, ef__value_kind_name(v));
    *out = v.as.integer;
    return EF_OK;
}

ef_status ef_fold_get_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err)
{
    ef__value v;
    ef_status st = need_view(folder_of(fold), err);

    if (st == EF_OK)
        st = read_value(fold, path, EF__ROOT_VIEW, &v, err);
    return st == EF_OK ? to_int(v, path, out, err) : st;
}

ef_status ef_fold_data(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err)
{
    ef__value v;
    ef_status st = read_value(fold, path, EF__ROOT_DATA, &v, err);

    return st == EF_OK ? print_value(folder_of(fold), v, out_json, err) : st;
}

ef_status ef_fold_data_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err)
{
    ef__value v;
    ef_status st = read_value(fold, path, EF__ROOT_DATA, &v, err);

    return st == EF_OK ? to_int(v, path, out, err) : st;
}

ef_status ef_fold_data_text(ef_fold *fold, const char *path, ef_str *out, ef_error *err)
{
    ef__value v;
    ef_status st = read_value(fold, path, EF__ROOT_DATA, &v, err);

    if (st == EF_OK && v.kind != EF__VALUE_STRING)
        return ef_fail(err, EF_BAD_INPUT, "%s is %s, not a text", path, ef__value_kind_name(v));
    if (st == EF_OK)
        *out = ef__value_text(v);
    return st;
}
