/*
 * parse_expr.c - expressions, by the binding of their operators.
 *
 *     loosest   if C then A else B
 *               or
 *               and
 *               not A
 *               == != < <= > >= in      (do not chain: a < b < c is refused)
 *               + -
 *               * / %
 *               -A
 *               A ?? B                  (a default belongs to the path before it)
 *     tightest  path, literal, call, brackets
 */
#include "parse.h"

#include <string.h>

static ef__expr *parse_binary(ef__parser *p, int binding);

/* Every way down comes through here, so no text can use up the stack. */
static bool deeper(ef__parser *p)
{
    if (++p->depth <= 3 * EF_FOLD_LIMIT_DEPTH)
        return true;
    ef__parse_error(p, p->token.span, NULL, "this expression is nested too deeply");
    return false;
}

static ef__expr *make(ef__parser *p, ef__expr_kind kind, ef__span span)
{
    if (++p->node_count > EF_FOLD_LIMIT_NODES) {
        ef__parse_error(p, span, NULL, "a block has at most %d expressions", EF_FOLD_LIMIT_NODES);
        return NULL;
    }
    ef__expr *expr = ef__expr_new(p->arena, kind, span);
    if (!expr)
        p->no_memory = true;
    return expr;
}

static ef__expr *settled(ef__parser *p, ef__expr *expr)
{
    ef__expr_settle(expr);
    if (expr->height <= EF_FOLD_LIMIT_HEIGHT)
        return expr;
    ef__parse_error(p, expr->span, NULL,
                    "this expression is too long a chain; give a part of it a name with let");
    return NULL;
}

static ef__expr *make_unary(ef__parser *p, ef__expr_kind kind, ef__span span, ef__expr *arg)
{
    ef__expr *expr = arg ? make(p, kind, ef__span_join(span, p->last)) : NULL;

    if (!expr)
        return NULL;
    expr->args = arg;
    expr->arg_count = 1;
    return settled(p, expr);
}

static ef__expr *make_binary(ef__parser *p, ef__expr_kind kind, ef__expr *left, ef__expr *right)
{
    ef__expr *expr = right ? make(p, kind, ef__span_join(left->span, p->last)) : NULL;

    if (!expr)
        return NULL;
    expr->args = left;
    left->next = right;
    expr->arg_count = 2;
    return settled(p, expr);
}

static ef__expr *parse_if(ef__parser *p, ef__span span)
{
    ef__expr *condition = ef__parse_expr(p);
    ef__expr *yes, *no, *expr;

    if (!condition)
        return NULL;
    if (!ef__parse_accept_word(p, "then")) {
        ef__parse_unexpected(p, "\"then\"", NULL);
        return NULL;
    }
    yes = ef__parse_expr(p);
    if (!yes)
        return NULL;
    if (!ef__parse_accept_word(p, "else")) {
        ef__parse_unexpected(p, "\"else\": an if that is a value has both sides", NULL);
        return NULL;
    }
    no = ef__parse_expr(p);
    expr = no ? make(p, EF__EXPR_IF, ef__span_join(span, p->last)) : NULL;
    if (!expr)
        return NULL;
    expr->args = condition;
    condition->next = yes;
    yes->next = no;
    expr->arg_count = 3;
    return settled(p, expr);
}

/* Items up to `close`, which is taken. A comma may stand behind the last one. */
static bool parse_items(ef__parser *p, ef__expr *parent, const char *close, bool keys);

static bool parse_key(ef__parser *p, const ef__expr *parent, ef_str *out_key)
{
    if (p->token.kind != EF__TOKEN_NAME && p->token.kind != EF__TOKEN_TEXT) {
        ef__parse_unexpected(p, "a key", NULL);
        return false;
    }
    *out_key = p->token.text;
    for (const ef__expr *arg = parent->args; arg; arg = arg->next) {
        if (ef_str_equal(arg->key, *out_key)) {
            ef__parse_error(p, p->token.span, NULL, "the key \"%.*s\" is there twice",
                            EF_STR_ARG(*out_key));
            return false;
        }
    }
    ef__parse_advance(p);
    return ef__parse_expect(p, ":", "\":\" behind a key");
}

static bool parse_items(ef__parser *p, ef__expr *parent, const char *close, bool keys)
{
    ef__expr **end = &parent->args;

    while (!ef__parse_accept(p, close)) {
        ef_str key = {NULL, 0};

        if (parent->arg_count == EF_FOLD_LIMIT_ITEMS) {
            ef__parse_error(p, p->token.span, NULL, "at most %d items", EF_FOLD_LIMIT_ITEMS);
            return false;
        }
        if (keys && !parse_key(p, parent, &key))
            return false;
        ef__expr *item = ef__parse_expr(p);
        if (!item)
            return false;
        item->key = key;
        *end = item;
        end = &item->next;
        parent->arg_count++;
        if (!ef__parse_accept(p, ",") && !ef__token_is(&p->token, close)) {
            char what[] = "\",\" or \")\"";
            what[8] = close[0];
            ef__parse_unexpected(p, what, NULL);
            return false;
        }
    }
    parent->span = ef__span_join(parent->span, p->last);
    return true;
}

static ef__expr *parse_literal_items(ef__parser *p, ef__expr_kind kind)
{
    ef__expr *expr = make(p, kind, p->token.span);

    ef__parse_advance(p);
    if (!expr || !parse_items(p, expr, kind == EF__EXPR_ARRAY ? "]" : "}", kind == EF__EXPR_OBJECT))
        return NULL;
    return settled(p, expr);
}

static ef__expr *check_arg_count(ef__parser *p, ef__expr *call)
{
    const ef__function *f = call->function;

    if (call->arg_count >= f->min_args && call->arg_count <= f->max_args)
        return settled(p, call);
    if (f->min_args == f->max_args)
        ef__parse_error(p, call->span, NULL, "%s takes %d argument%s, not %zu: %s", f->name,
                        f->min_args, f->min_args == 1 ? "" : "s", call->arg_count, f->example);
    else
        ef__parse_error(p, call->span, NULL, "%s takes %d to %d arguments, not %zu: %s", f->name,
                        f->min_args, f->max_args, call->arg_count, f->example);
    return NULL;
}

static ef__expr *parse_call(ef__parser *p, ef__token name)
{
    const ef__function *function = ef__function_find(name.text);
    ef__expr *call;

    if (!function) {
        ef__parse_error(p, name.span, ef__function_suggest(name.text),
                        "there is no function \"%.*s\"", EF_STR_ARG(name.text));
        return NULL;
    }
    call = make(p, EF__EXPR_CALL, name.span);
    ef__parse_advance(p);
    if (!call)
        return NULL;
    call->function = function;
    return parse_items(p, call, ")", false) ? check_arg_count(p, call) : NULL;
}

/* lookup(projection, id): the projection is a name or a text, never computed, so that deploying can
 * see who looks into whom. */
static ef__expr *parse_lookup(ef__parser *p, ef__token name)
{
    ef__expr *expr = make(p, EF__EXPR_LOOKUP, name.span);
    ef__token projection;

    if (!(p->where & EF__MAY_LOOKUP)) {
        ef__parse_error(p, name.span, NULL, "lookup works in handlers only");
        return NULL;
    }
    ef__parse_advance(p);
    projection = p->token;
    if (!expr || (projection.kind != EF__TOKEN_NAME && projection.kind != EF__TOKEN_TEXT) ||
        projection.text.len == 0) {
        ef__parse_unexpected(p, "the name of a projection", NULL);
        return NULL;
    }
    ef__parse_advance(p);
    if (!ef__parse_note_lookup(p, projection) ||
        !ef__parse_expect(p, ",", "\",\" and the id of a view"))
        return NULL;
    expr->text = projection.text;
    if (!parse_items(p, expr, ")", false))
        return NULL;
    if (expr->arg_count == 1)
        return settled(p, expr);
    ef__parse_error(p, expr->span, NULL, "lookup takes a projection and one view id");
    return NULL;
}

/* [EXPR]: a literal is a field or an index at once, all else is computed. */
static bool parse_bracket_step(ef__parser *p, ef__step *step)
{
    ef__expr *expr = ef__parse_expr(p);

    if (!expr || !ef__parse_expect(p, "]", "\"]\""))
        return false;
    if (expr->kind == EF__EXPR_TEXT) {
        step->field = expr->text.ptr ? expr->text : EF_STR("");
    } else if (expr->kind == EF__EXPR_NUMBER) {
        if (!ef__number_is_int64(&expr->number, &step->index) || step->index > INT32_MAX ||
            step->index < INT32_MIN) {
            ef__parse_error(p, expr->span, NULL, "an index is a whole number");
            return false;
        }
    } else if (!(expr->kinds & (EF__KIND_TEXT | EF__KIND_NUMBER))) {
        ef__parse_error(p, expr->span, NULL, "in brackets stands a key or an index");
        return false;
    } else {
        step->expr = expr;
    }
    return true;
}

static bool parse_step(ef__parser *p, ef__step *step)
{
    step->span = p->token.span;
    if (ef__parse_accept(p, "[")) {
        if (!parse_bracket_step(p, step))
            return false;
    } else {
        ef__parse_advance(p); /* the point */
        if (p->token.kind != EF__TOKEN_NAME) {
            ef__parse_unexpected(p, "a field behind \".\"", NULL);
            return false;
        }
        step->field = p->token.text;
        ef__parse_advance(p);
    }
    step->span = ef__span_join(step->span, p->last);
    return true;
}

static ef__expr *wrap_in_path(ef__parser *p, ef__expr *base)
{
    ef__expr *path = make(p, EF__EXPR_PATH, base->span);

    if (!path)
        return NULL;
    path->root = EF__ROOT_EXPR;
    path->base = base;
    return path;
}

static ef__expr *parse_steps(ef__parser *p, ef__expr *expr)
{
    ef__step **end;

    if (!ef__token_is(&p->token, ".") && !ef__token_is(&p->token, "["))
        return expr->kind == EF__EXPR_PATH ? settled(p, expr) : expr;
    if (expr->kind != EF__EXPR_PATH && !(expr = wrap_in_path(p, expr)))
        return NULL;
    for (end = &expr->steps; *end; end = &(*end)->next)
        continue;
    while (ef__token_is(&p->token, ".") || ef__token_is(&p->token, "[")) {
        if (expr->step_count == EF_FOLD_LIMIT_DEPTH) {
            ef__parse_error(p, p->token.span, NULL, "a path has at most %d steps",
                            EF_FOLD_LIMIT_DEPTH);
            return NULL;
        }
        *end = ef__parse_alloc(p, sizeof **end);
        if (!*end || !parse_step(p, *end))
            return NULL;
        end = &(*end)->next;
        expr->step_count++;
    }
    expr->span = ef__span_join(expr->span, p->last);
    return settled(p, expr);
}

ef__expr *ef__parse_path(ef__parser *p)
{
    ef__token name = p->token;
    ef__expr *path = make(p, EF__EXPR_PATH, name.span);

    if (!path || !ef__parse_root(p, name, path))
        return NULL;
    ef__parse_advance(p);
    return parse_steps(p, path);
}

static ef__expr *make_word(ef__parser *p, ef__expr_kind kind, bool truth)
{
    ef__expr *expr = make(p, kind, p->token.span);

    ef__parse_advance(p);
    if (!expr)
        return NULL;
    expr->truth = truth;
    return settled(p, expr);
}

static ef__expr *parse_name(ef__parser *p)
{
    ef__token name = p->token;
    ef__expr *expr;

    if (ef__token_word(&name, "true") || ef__token_word(&name, "false"))
        return make_word(p, EF__EXPR_BOOL, name.text.ptr[0] == 't');
    if (ef__token_word(&name, "null"))
        return make_word(p, EF__EXPR_NULL, false);
    if (ef__parse_is_reserved(name.text) && !ef__token_word(&name, "view") &&
        !ef__token_word(&name, "lookup")) {
        ef__parse_unexpected(p, "a value", NULL);
        return NULL;
    }
    if (!ef__lexer_follows(&p->lexer, "("))
        return ef__parse_path(p);
    ef__parse_advance(p);
    expr = ef__token_word(&name, "lookup") ? parse_lookup(p, name) : parse_call(p, name);
    return expr ? parse_steps(p, expr) : NULL;
}

static ef__expr *parse_constant(ef__parser *p)
{
    bool number = p->token.kind == EF__TOKEN_NUMBER;
    ef__expr *expr = make(p, number ? EF__EXPR_NUMBER : EF__EXPR_TEXT, p->token.span);

    if (!expr)
        return NULL;
    if (number)
        expr->number = p->token.number;
    else
        expr->text = p->token.text;
    ef__parse_advance(p);
    return settled(p, expr);
}

static ef__expr *parse_primary(ef__parser *p)
{
    ef__expr *expr;

    if (p->token.kind == EF__TOKEN_NUMBER || p->token.kind == EF__TOKEN_TEXT)
        return parse_constant(p);
    if (p->token.kind == EF__TOKEN_NAME)
        return parse_name(p);
    if (ef__token_is(&p->token, "["))
        expr = parse_literal_items(p, EF__EXPR_ARRAY);
    else if (ef__token_is(&p->token, "{"))
        expr = parse_literal_items(p, EF__EXPR_OBJECT);
    else if (ef__parse_accept(p, "("))
        expr = (expr = ef__parse_expr(p)) && ef__parse_expect(p, ")", "\")\"") ? expr : NULL;
    else {
        ef__parse_unexpected(p, "a value", NULL);
        return NULL;
    }
    return expr ? parse_steps(p, expr) : NULL;
}

static ef__expr *parse_unary(ef__parser *p)
{
    ef__span span = p->token.span;
    ef__expr *arg;

    if (!ef__parse_accept(p, "-"))
        return parse_primary(p);
    arg = parse_binary(p, ef__expr_binding(EF__EXPR_DEFAULT));
    if (!arg || arg->kind != EF__EXPR_NUMBER)
        return make_unary(p, EF__EXPR_NEGATE, span, arg);
    arg->number.coefficient = -arg->number.coefficient;
    arg->span = ef__span_join(span, arg->span);
    return arg;
}

static bool operator_in_hand(const ef__parser *p, ef__expr_kind *out)
{
    if (p->token.kind != EF__TOKEN_MARK && p->token.kind != EF__TOKEN_NAME)
        return false;
    for (ef__expr_kind kind = EF__EXPR_DEFAULT; kind <= EF__EXPR_MOD; kind++) {
        if (ef_str_equal(p->token.text, ef_str_from(ef__expr_operator(kind)))) {
            *out = kind;
            return true;
        }
    }
    return false;
}

static ef__expr *parse_not(ef__parser *p, int binding)
{
    ef__span span = p->token.span;

    ef__parse_advance(p);
    return make_unary(p, EF__EXPR_NOT, span, parse_binary(p, binding));
}

static bool refuse_chain(ef__parser *p, ef__expr_kind before, ef__expr_kind kind)
{
    int comparing = ef__expr_binding(EF__EXPR_EQ);

    if (ef__expr_binding(before) != comparing || ef__expr_binding(kind) != comparing)
        return false;
    ef__parse_error(p, p->token.span, NULL,
                    "comparisons do not chain; put \"and\" between two of them");
    return true;
}

/* What binds at least as tight as `binding`. */
static ef__expr *parse_operators(ef__parser *p, int binding)
{
    bool negation = ef__token_word(&p->token, "not") && binding <= ef__expr_binding(EF__EXPR_NOT);
    ef__expr *left = negation ? parse_not(p, ef__expr_binding(EF__EXPR_NOT)) : parse_unary(p);
    ef__expr_kind kind, before = EF__EXPR_NULL;

    while (left && operator_in_hand(p, &kind)) {
        int own = ef__expr_binding(kind);
        if (own < binding)
            break;
        if (refuse_chain(p, before, kind))
            return NULL;
        ef__parse_advance(p);
        left =
            make_binary(p, kind, left, parse_binary(p, kind == EF__EXPR_DEFAULT ? own : own + 1));
        before = kind;
    }
    return left;
}

static ef__expr *parse_binary(ef__parser *p, int binding)
{
    ef__expr *expr = deeper(p) ? parse_operators(p, binding) : NULL;

    p->depth--;
    return expr;
}

ef__expr *ef__parse_expr(ef__parser *p)
{
    ef__span span = p->token.span;
    ef__expr *expr;

    if (!ef__parse_accept_word(p, "if"))
        return parse_binary(p, ef__expr_binding(EF__EXPR_OR));
    expr = deeper(p) ? parse_if(p, span) : NULL;
    p->depth--;
    return expr;
}
