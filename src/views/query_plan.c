/*
 * query_plan.c - chooses the range of an index to scan.
 *
 * The filter is a conjunction of one or more conditions. A condition that compares an indexed path,
 * or view_id, with a literal gives a range; views outside it cannot match. There are no statistics
 * about the number of views in a range, so the rule is fixed: a single value first, then a range
 * (preferably of the sort path), then the index of the sort path, then all views.
 */
#include "query_priv.h"

#include "../fold/ast.h"

#include <stdlib.h>

#define BOUND_MAX (64 * 1024)
enum { PATH_MAX_BYTES = 1024, INDEXES_MAX = EF_FOLD_LIMIT_INDEXES, BY_ID = INDEXES_MAX };

/* The range allowed by the conditions on one path. */
typedef struct range {
    bool used, has_low, has_high, low_open, high_open, is_point;
    int conditions; /* that it is made of, none of them cut */
    ef__buf low, high;
} range;

typedef struct planner {
    const ef__query *query;
    ef_str paths[INDEXES_MAX];
    int32_t path_count;
    int conditions;                /* of the filter */
    range ranges[INDEXES_MAX + 1]; /* the last one: of ids */
    ef__arena arena;
} planner;

/* --- paths ------------------------------------------------------------------------------------ */

static bool is_name(ef_str field)
{
    for (size_t i = 0; i < field.len; i++) {
        char c = field.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
              (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return field.len > 0;
}

/* "stats.total" for a path of plain names. False for other paths, which have several spellings. */
static bool path_text(const ef__expr *expr, char out[PATH_MAX_BYTES])
{
    size_t len = 0;

    if (expr->kind != EF__EXPR_PATH || expr->root != EF__ROOT_VIEW || !expr->steps)
        return false;
    for (const ef__path_step *step = expr->steps; step; step = step->next) {
        if (step->expr || !step->field.ptr || !is_name(step->field) ||
            len + step->field.len + 2 > PATH_MAX_BYTES)
            return false;
        if (len > 0)
            out[len++] = '.';
        memcpy(out + len, step->field.ptr, step->field.len);
        len += step->field.len;
    }
    out[len] = '\0';
    return true;
}

static void split_paths(planner *p)
{
    ef_str rest = p->query->index_paths;

    while (rest.len > 0 && p->path_count < INDEXES_MAX)
        p->paths[p->path_count++] = ef__str_trim(ef__str_split(&rest, ','));
}

/* The index of the expression, BY_ID for view_id, or -1. */
static int32_t index_of(const planner *p, const ef__expr *expr)
{
    char text[PATH_MAX_BYTES];

    if (expr->kind == EF__EXPR_PATH && expr->root == EF__ROOT_VIEW_ID && !expr->steps)
        return BY_ID;
    if (!path_text(expr, text))
        return -1;
    for (int32_t i = 0; i < p->path_count; i++)
        if (ef_str_equal(p->paths[i], ef_str_from(text)))
            return i;
    return -1;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* Not null, which equals a missing value and is not ordered. */
static bool literal_value(planner *p, const ef__expr *expr, ef__value *out)
{
    ef__number zero = ef__number_from_int64(0), negative;

    switch (expr->kind) {
    case EF__EXPR_BOOL:
        *out = ef__value_bool(expr->truth);
        return true;
    case EF__EXPR_TEXT:
        *out = ef__value_string(expr->text);
        return true;
    case EF__EXPR_NUMBER:
        return ef__value_from_number(&expr->number, &p->arena, out, NULL) == EF_OK;
    case EF__EXPR_NEGATE:
        return expr->args->kind == EF__EXPR_NUMBER &&
               ef__number_sub(&zero, &expr->args->number, &negative, NULL) == EF_OK &&
               ef__value_from_number(&negative, &p->arena, out, NULL) == EF_OK;
    default:
        return false;
    }
}

/* The key of a literal. False: the literal cannot bound a range. */
static bool bound_key(int32_t index, ef__value v, ef__buf *out, bool *out_cut)
{
    *out_cut = false;
    if (index == BY_ID)
        return v.kind == EF__VALUE_STRING && ef__buf_add_str(out, ef__value_text(v));
    return ef__sort_key(v, EF__KEY_BYTES, out, out_cut, NULL) == EF_OK && !out->failed;
}

/* Keeps the higher of two low ends, or the lower of two high ends; of equal ones the open one. */
static void narrow_bound(ef__buf *bound, bool *has, bool *open, ef_str key, bool key_open,
                         bool is_low)
{
    int order = *has ? ef__str_compare(key, ef__buf_str(bound)) : 0;

    if (*has && (is_low ? order < 0 : order > 0))
        return;
    *open = *has && order == 0 ? *open || key_open : key_open;
    *has = true;
    ef__buf_reset(bound);
    ef__buf_add_str(bound, key);
}

static ef__expr_kind mirror_comparison(ef__expr_kind kind)
{
    switch (kind) {
    case EF__EXPR_LT:
        return EF__EXPR_GT;
    case EF__EXPR_LE:
        return EF__EXPR_GE;
    case EF__EXPR_GT:
        return EF__EXPR_LT;
    case EF__EXPR_GE:
        return EF__EXPR_LE;
    default:
        return kind;
    }
}

static void add_range(planner *p, int32_t index, ef__expr_kind kind, ef__value v)
{
    range *r = &p->ranges[index];
    EF__AUTO(ef__buf) key = EF__BUF_INIT(BOUND_MAX);
    bool cut, open;

    if (bound_key(index, v, &key, &cut)) {
        /* A truncated key also stands for larger values, so the end must be inclusive. */
        open = !cut && (kind == EF__EXPR_LT || kind == EF__EXPR_GT);
        r->used = true;
        r->conditions += !cut;
        r->is_point = r->is_point || kind == EF__EXPR_EQ;
        if (kind == EF__EXPR_EQ || kind == EF__EXPR_GT || kind == EF__EXPR_GE)
            narrow_bound(&r->low, &r->has_low, &r->low_open, ef__buf_str(&key), open, true);
        if (kind == EF__EXPR_EQ || kind == EF__EXPR_LT || kind == EF__EXPR_LE)
            narrow_bound(&r->high, &r->has_high, &r->high_open, ef__buf_str(&key), open, false);
    }
}

static void read_conditions(planner *p, const ef__expr *expr)
{
    const ef__expr *left = expr->args, *right = left ? left->next : NULL;
    ef__expr_kind kind = expr->kind;
    ef__value v;
    int32_t index;

    if (kind == EF__EXPR_AND) {
        read_conditions(p, left);
        read_conditions(p, right);
        return;
    }
    p->conditions++;
    if (kind != EF__EXPR_EQ && (kind < EF__EXPR_LT || kind > EF__EXPR_GE))
        return;
    index = index_of(p, left);
    if (index < 0) {
        index = index_of(p, right);
        right = left;
        kind = mirror_comparison(kind);
    }
    if (index >= 0 && literal_value(p, right, &v))
        add_range(p, index, kind, v);
}

/* --- choosing --------------------------------------------------------------------------------- */

static int32_t choose_range(const planner *p, int32_t sorted_by)
{
    int32_t best = -1;

    for (int32_t i = BY_ID; i >= 0 && best < 0; i--)
        if (p->ranges[i].used && p->ranges[i].is_point)
            best = i;
    if (best < 0 && sorted_by >= 0 && p->ranges[sorted_by].used)
        best = sorted_by;
    for (int32_t i = 0; i <= BY_ID && best < 0; i++)
        if (p->ranges[i].used)
            best = i;
    if (best < 0)
        best = sorted_by;
    return best < 0 ? BY_ID : best;
}

/* Moves the chosen range into the plan, which then owns the bounds. */
static void take_range(planner *p, int32_t chosen, ef__query_plan *out)
{
    range *r = &p->ranges[chosen];

    out->index = chosen == BY_ID ? -1 : chosen;
    out->path = chosen == BY_ID ? EF_STR("view_id") : p->paths[chosen];
    out->has_low = r->has_low;
    out->has_high = r->has_high;
    out->low_open = r->low_open;
    out->high_open = r->high_open;
    out->covers = out->index >= 0 && r->conditions == p->conditions;
    out->is_point = r->is_point && ef_str_equal(ef__buf_str(&r->low), ef__buf_str(&r->high)) &&
                    !r->low_open && !r->high_open;
    out->low = r->low;
    out->high = r->high;
    r->low = r->high = (ef__buf)EF__BUF_INIT(BOUND_MAX);
}

ef_status ef__query_plan_make(const ef__query *query, ef__query_plan *out, ef_error *err)
{
    planner *p = calloc(1, sizeof *p);
    int32_t sorted_by = -1, chosen;

    if (!p)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a query");
    p->query = query;
    p->arena = (ef__arena)EF__ARENA_INIT(1024 * 1024);
    for (int32_t i = 0; i <= BY_ID; i++)
        p->ranges[i].low = p->ranges[i].high = (ef__buf)EF__BUF_INIT(BOUND_MAX);
    if (!query->no_index && !query->any_tenant) {
        split_paths(p);
        if (query->filter)
            read_conditions(p, query->filter->expr);
        /* Only with one sort key, because an index has one. */
        if (query->sort_count == 1)
            sorted_by = index_of(p, query->sorts[0].by->expr);
    }
    chosen = choose_range(p, sorted_by);
    *out = (ef__query_plan){0};
    take_range(p, chosen, out);
    if (query->sort_count == 0)
        out->in_order = out->index < 0 || out->is_point;
    else
        out->in_order = sorted_by >= 0 && sorted_by == chosen;
    out->descending = out->in_order && query->sort_count == 1 && query->sorts[0].descending;
    for (int32_t i = 0; i <= BY_ID; i++) {
        ef__buf_release(&p->ranges[i].low);
        ef__buf_release(&p->ranges[i].high);
    }
    ef__arena_release(&p->arena);
    free(p);
    return EF_OK;
}

void ef__query_plan_release(ef__query_plan *plan)
{
    ef__buf_release(&plan->low);
    ef__buf_release(&plan->high);
}

const ef__filter *ef__query_plan_store_filter(const ef__query *query, const ef__query_plan *plan)
{
    return query->no_index || plan->covers ? NULL : query->filter;
}

/* --- explaining ------------------------------------------------------------------------------- */

static const char *range_description(const ef__query_plan *plan)
{
    if (plan->is_point)
        return "one value";
    if (plan->has_low && plan->has_high)
        return "between two bounds";
    if (plan->has_low)
        return "from a lower bound";
    return plan->has_high ? "up to an upper bound" : "all of it";
}

static void explain_sort(const ef__query *query, const ef__query_plan *plan, ef__buf *out)
{
    if (plan->in_order) {
        ef__buf_printf(out, "sorted:    already%s\n", plan->descending ? ", backwards" : "");
        return;
    }
    ef__buf_add_text(out, "sorted:    by ");
    for (size_t i = 0; i < query->sort_count; i++)
        ef__buf_printf(out, "%.*s%s, ", EF_STR_ARG(ef__filter_source(query->sorts[i].by)),
                       query->sorts[i].descending ? " downwards" : "");
    ef__buf_printf(out, "%s%sview_id, keeping the first %zu\n", query->sort_count ? "then " : "",
                   query->any_tenant ? "tenant, " : "",
                   query->limit ? query->limit : (size_t)EF__QUERY_LIMIT_DEFAULT);
}

static void explain_store_filter(const ef_views *views, const ef__filter *filter, ef__buf *out)
{
    EF__AUTO(ef__buf) words = EF__BUF_INIT(out->max_bytes);

    if (filter && views->ops->filter_explain)
        views->ops->filter_explain(filter, &words);
    if (words.len > 0)
        ef__buf_printf(out, "by server: %.*s\n", EF_STR_ARG(ef__buf_str(&words)));
}

ef_status ef__query_explain(ef_views *views, const ef__query *query, ef__buf *out, ef_error *err)
{
    ef__query_plan plan;
    ef_str filter = query->filter ? ef__filter_source(query->filter) : EF_STR("nothing");
    ef_status st = ef__query_plan_make(query, &plan, err);

    if (st != EF_OK)
        return st;
    if (plan.index >= 0)
        ef__buf_printf(out, "scanned:   index %.*s, %s\n", EF_STR_ARG(plan.path),
                       range_description(&plan));
    else if (plan.has_low || plan.has_high)
        ef__buf_printf(out, "scanned:   view ids, %s\n", range_description(&plan));
    else
        ef__buf_printf(out, "scanned:   every view%s, no index matches\n",
                       query->any_tenant ? "" : " of the tenant");
    ef__buf_printf(out, "filtered:  %.*s\n", EF_STR_ARG(filter));
    explain_store_filter(views, ef__query_plan_store_filter(query, &plan), out);
    explain_sort(query, &plan, out);
    if (query->count)
        ef__buf_add_text(out, "counted:   every scanned view is read\n");
    ef__query_plan_release(&plan);
    return out->failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out for an explanation") : EF_OK;
}
