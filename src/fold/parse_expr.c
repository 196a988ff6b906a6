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

static ef__expr *parse_binary(ef__parser *parser, int binding);

/* Every way down comes through here, so no text can use up the stack. */
static bool enter_level(ef__parser *parser)
{
    if (++parser->depth <= 3 * EF_FOLD_LIMIT_DEPTH)
        return true;
    return ef__parse_error(parser, parser->token.span, NULL,
                           "this expression is nested too deeply");
}

static ef__expr *make_expr(ef__parser *parser, ef__expr_kind kind, ef__span span)
{
    if (++parser->node_count > EF_FOLD_LIMIT_NODES)
        return ef__parse_error(parser, span, NULL, "a block has at most %d expressions",
                               EF_FOLD_LIMIT_NODES);
    ef__expr *expr = ef__expr_new(parser->arena, kind, span);
    if (!expr)
        parser->no_memory = true;
    return expr;
}

static ef__expr *finish_expr(ef__parser *parser, ef__expr *expr)
{
    ef__expr_settle(expr);
    if (expr->height <= EF_FOLD_LIMIT_HEIGHT)
        return expr;
    return ef__parse_error(
        parser, expr->span, NULL,
        "this expression is too long a chain; give a part of it a name with let");
}

/* An operation on one to three operands; NULL when the last one is: why was reported. */
static ef__expr *make_operation(ef__parser *parser, ef__expr_kind kind, ef__span start,
                                ef__expr *const operands[], size_t count)
{
    ef__expr *expr =
        operands[count - 1] ? make_expr(parser, kind, ef__span_join(start, parser->last)) : NULL;

    if (!expr)
        return NULL;
    expr->args = operands[0];
    expr->arg_count = count;
    for (size_t i = 1; i < count; i++)
        operands[i - 1]->next = operands[i];
    return finish_expr(parser, expr);
}

static ef__expr *parse_if(ef__parser *parser, ef__span span)
{
    ef__expr *parts[3] = {ef__parse_expr(parser), NULL, NULL};

    if (!parts[0])
        return NULL;
    if (!ef__parse_accept_word(parser, "then"))
        return ef__parse_unexpected(parser, "\"then\"", NULL);
    parts[1] = ef__parse_expr(parser);
    if (!parts[1])
        return NULL;
    if (!ef__parse_accept_word(parser, "else"))
        return ef__parse_unexpected(parser, "\"else\": an if that is a value has both sides", NULL);
    parts[2] = ef__parse_expr(parser);
    return make_operation(parser, EF__EXPR_IF, span, parts, 3);
}

static bool parse_key(ef__parser *parser, const ef__expr *parent, ef_str *out_key)
{
    if (parser->token.kind != EF__TOKEN_NAME && parser->token.kind != EF__TOKEN_TEXT)
        return ef__parse_unexpected(parser, "a key", NULL);
    *out_key = parser->token.text;
    for (const ef__expr *arg = parent->args; arg; arg = arg->next) {
        if (ef_str_equal(arg->key, *out_key))
            return ef__parse_error(parser, parser->token.span, NULL,
                                   "the key \"%.*s\" is there twice", EF_STR_ARG(*out_key));
    }
    ef__parse_advance(parser);
    return ef__parse_expect(parser, ":", "\":\" after a key");
}

/* Parses items up to `close`, which is consumed. A comma may follow the last one. */
static bool parse_items(ef__parser *parser, ef__expr *parent, const char *close, bool keys)
{
    ef__expr **end = &parent->args;

    while (!ef__parse_accept(parser, close)) {
        ef_str key = {NULL, 0};

        if (parent->arg_count == EF_FOLD_LIMIT_ITEMS)
            return ef__parse_error(parser, parser->token.span, NULL, "at most %d items",
                                   EF_FOLD_LIMIT_ITEMS);
        if (keys && !parse_key(parser, parent, &key))
            return false;
        ef__expr *item = ef__parse_expr(parser);
        if (!item)
            return false;
        item->key = key;
        *end = item;
        end = &item->next;
        parent->arg_count++;
        if (!ef__parse_accept(parser, ",") && !ef__token_is(&parser->token, close)) {
            char what[] = "\",\" or \")\"";
            what[8] = close[0];
            return ef__parse_unexpected(parser, what, NULL);
        }
    }
    parent->span = ef__span_join(parent->span, parser->last);
    return true;
}

static ef__expr *parse_literal_items(ef__parser *parser, ef__expr_kind kind)
{
    ef__expr *expr = make_expr(parser, kind, parser->token.span);

    ef__parse_advance(parser);
    if (!expr ||
        !parse_items(parser, expr, kind == EF__EXPR_ARRAY ? "]" : "}", kind == EF__EXPR_OBJECT))
        return NULL;
    return finish_expr(parser, expr);
}

static ef__expr *check_arg_count(ef__parser *parser, ef__expr *call)
{
    const ef__function *f = call->function;

    if (call->arg_count >= f->min_args && call->arg_count <= f->max_args)
        return finish_expr(parser, call);
    if (f->min_args == f->max_args)
        ef__parse_error(parser, call->span, NULL, "%s takes %d argument%s, not %zu: %s", f->name,
                        f->min_args, f->min_args == 1 ? "" : "s", call->arg_count, f->example);
    else
        ef__parse_error(parser, call->span, NULL, "%s takes %d to %d arguments, not %zu: %s",
                        f->name, f->min_args, f->max_args, call->arg_count, f->example);
    return NULL;
}

static ef__expr *parse_call(ef__parser *parser, ef__lexeme name)
{
    const ef__function *function = ef__function_find(name.text);
    ef__expr *call;

    if (!function)
        return ef__parse_error(parser, name.span, ef__function_suggest(name.text),
                               "there is no function \"%.*s\"", EF_STR_ARG(name.text));
    call = make_expr(parser, EF__EXPR_CALL, name.span);
    ef__parse_advance(parser);
    if (!call)
        return NULL;
    call->function = function;
    return parse_items(parser, call, ")", false) ? check_arg_count(parser, call) : NULL;
}

/* lookup(projection, id): the projection is a name or a text, never computed, so that the
 * dependencies between projections are known at deployment. */
static ef__expr *parse_lookup(ef__parser *parser, ef__lexeme name)
{
    ef__expr *expr = make_expr(parser, EF__EXPR_LOOKUP, name.span);
    ef__lexeme projection;

    if (!(parser->where & EF__MAY_LOOKUP))
        return ef__parse_error(parser, name.span, NULL, "lookup is allowed in handlers only");
    ef__parse_advance(parser);
    projection = parser->token;
    if (!expr || (projection.kind != EF__TOKEN_NAME && projection.kind != EF__TOKEN_TEXT) ||
        projection.text.len == 0)
        return ef__parse_unexpected(parser, "the name of a projection", NULL);
    ef__parse_advance(parser);
    if (!ef__parse_note_lookup(parser, projection) ||
        !ef__parse_expect(parser, ",", "\",\" and the id of a view"))
        return NULL;
    expr->text = projection.text;
    if (!parse_items(parser, expr, ")", false))
        return NULL;
    if (expr->arg_count == 1)
        return finish_expr(parser, expr);
    return ef__parse_error(parser, expr->span, NULL, "lookup takes a projection and one view id");
}

/* [EXPR]: a literal is a field or an index at once, all else is computed. */
static bool parse_bracket_step(ef__parser *parser, ef__path_step *step)
{
    ef__expr *expr = ef__parse_expr(parser);

    if (!expr || !ef__parse_expect(parser, "]", "\"]\""))
        return false;
    if (expr->kind == EF__EXPR_TEXT) {
        step->field = expr->text.ptr ? expr->text : EF_STR("");
    } else if (expr->kind == EF__EXPR_NUMBER) {
        if (!ef__number_is_int64(&expr->number, &step->index) || step->index > INT32_MAX ||
            step->index < INT32_MIN)
            return ef__parse_error(parser, expr->span, NULL, "an index is a whole number");
    } else if (!(expr->kinds & (EF__KIND_TEXT | EF__KIND_NUMBER))) {
        return ef__parse_error(parser, expr->span, NULL, "brackets hold a key or an index");
    } else {
        step->expr = expr;
    }
    return true;
}

static bool parse_step(ef__parser *parser, ef__path_step *step)
{
    step->span = parser->token.span;
    if (ef__parse_accept(parser, "[")) {
        if (!parse_bracket_step(parser, step))
            return false;
    } else {
        ef__parse_advance(parser); /* the point */
        if (parser->token.kind != EF__TOKEN_NAME)
            return ef__parse_unexpected(parser, "a field after \".\"", NULL);
        step->field = parser->token.text;
        ef__parse_advance(parser);
    }
    step->span = ef__span_join(step->span, parser->last);
    return true;
}

static ef__expr *wrap_in_path(ef__parser *parser, ef__expr *base)
{
    ef__expr *path = make_expr(parser, EF__EXPR_PATH, base->span);

    if (!path)
        return NULL;
    path->root = EF__ROOT_EXPR;
    path->base = base;
    return path;
}

static ef__expr *parse_steps(ef__parser *parser, ef__expr *expr)
{
    ef__path_step **end;

    if (!ef__token_is(&parser->token, ".") && !ef__token_is(&parser->token, "["))
        return expr->kind == EF__EXPR_PATH ? finish_expr(parser, expr) : expr;
    if (expr->kind != EF__EXPR_PATH && !(expr = wrap_in_path(parser, expr)))
        return NULL;
    for (end = &expr->steps; *end; end = &(*end)->next)
        continue;
    while (ef__token_is(&parser->token, ".") || ef__token_is(&parser->token, "[")) {
        if (expr->step_count == EF_FOLD_LIMIT_DEPTH)
            return ef__parse_error(parser, parser->token.span, NULL, "a path has at most %d steps",
                                   EF_FOLD_LIMIT_DEPTH);
        *end = ef__parse_alloc(parser, sizeof **end);
        if (!*end || !parse_step(parser, *end))
            return NULL;
        end = &(*end)->next;
        expr->step_count++;
    }
    expr->span = ef__span_join(expr->span, parser->last);
    return finish_expr(parser, expr);
}

ef__expr *ef__parse_path(ef__parser *parser)
{
    ef__lexeme name = parser->token;
    ef__expr *path = make_expr(parser, EF__EXPR_PATH, name.span);

    if (!path || !ef__parse_root(parser, name, path))
        return NULL;
    ef__parse_advance(parser);
    return parse_steps(parser, path);
}

static ef__expr *make_word(ef__parser *parser, ef__expr_kind kind, bool truth)
{
    ef__expr *expr = make_expr(parser, kind, parser->token.span);

    ef__parse_advance(parser);
    if (!expr)
        return NULL;
    expr->truth = truth;
    return finish_expr(parser, expr);
}

static ef__expr *parse_name(ef__parser *parser)
{
    ef__lexeme name = parser->token;
    ef__expr *expr;

    if (ef__token_word(&name, "true") || ef__token_word(&name, "false"))
        return make_word(parser, EF__EXPR_BOOL, name.text.ptr[0] == 't');
    if (ef__token_word(&name, "null"))
        return make_word(parser, EF__EXPR_NULL, false);
    if (ef__parse_is_reserved(name.text) && !ef__token_word(&name, "view") &&
        !ef__token_word(&name, "lookup"))
        return ef__parse_unexpected(parser, "a value", NULL);
    if (!ef__lexer_follows(&parser->lexer, "("))
        return ef__parse_path(parser);
    ef__parse_advance(parser);
    expr = ef__token_word(&name, "lookup") ? parse_lookup(parser, name) : parse_call(parser, name);
    return expr ? parse_steps(parser, expr) : NULL;
}

static ef__expr *parse_constant(ef__parser *parser)
{
    bool number = parser->token.kind == EF__TOKEN_NUMBER;
    ef__expr *expr =
        make_expr(parser, number ? EF__EXPR_NUMBER : EF__EXPR_TEXT, parser->token.span);

    if (!expr)
        return NULL;
    if (number)
        expr->number = parser->token.number;
    else
        expr->text = parser->token.text;
    ef__parse_advance(parser);
    return finish_expr(parser, expr);
}

static ef__expr *parse_primary(ef__parser *parser)
{
    ef__expr *expr;

    if (parser->token.kind == EF__TOKEN_NUMBER || parser->token.kind == EF__TOKEN_TEXT)
        return parse_constant(parser);
    if (parser->token.kind == EF__TOKEN_NAME)
        return parse_name(parser);
    if (ef__token_is(&parser->token, "["))
        expr = parse_literal_items(parser, EF__EXPR_ARRAY);
    else if (ef__token_is(&parser->token, "{"))
        expr = parse_literal_items(parser, EF__EXPR_OBJECT);
    else if (ef__parse_accept(parser, "("))
        expr =
            (expr = ef__parse_expr(parser)) && ef__parse_expect(parser, ")", "\")\"") ? expr : NULL;
    else
        return ef__parse_unexpected(parser, "a value", NULL);
    return expr ? parse_steps(parser, expr) : NULL;
}

static ef__expr *parse_unary(ef__parser *parser)
{
    ef__span span = parser->token.span;
    ef__expr *arg;

    if (!ef__parse_accept(parser, "-"))
        return parse_primary(parser);
    arg = parse_binary(parser, EF__BIND_DEFAULT);
    if (!arg || arg->kind != EF__EXPR_NUMBER)
        return make_operation(parser, EF__EXPR_NEGATE, span, &arg, 1);
    arg->number.coefficient = -arg->number.coefficient;
    arg->span = ef__span_join(span, arg->span);
    return arg;
}

static bool current_operator(const ef__parser *parser, ef__expr_kind *out)
{
    if (parser->token.kind != EF__TOKEN_SYMBOL && parser->token.kind != EF__TOKEN_NAME)
        return false;
    for (ef__expr_kind kind = EF__EXPR_DEFAULT; kind <= EF__EXPR_MOD; kind++) {
        if (ef_str_equal(parser->token.text, ef_str_from(ef__expr_operator(kind)))) {
            *out = kind;
            return true;
        }
    }
    return false;
}

static ef__expr *parse_not(ef__parser *parser)
{
    ef__span span = parser->token.span;

    ef__parse_advance(parser);
    ef__expr *arg = parse_binary(parser, EF__BIND_NOT);
    return make_operation(parser, EF__EXPR_NOT, span, &arg, 1);
}

static bool refuse_chain(ef__parser *parser, ef__expr_kind before, ef__expr_kind kind)
{
    if (ef__expr_binding(before) != EF__BIND_COMPARE || ef__expr_binding(kind) != EF__BIND_COMPARE)
        return false;
    ef__parse_error(parser, parser->token.span, NULL,
                    "comparisons do not chain; put \"and\" between two of them");
    return true;
}

/* What binds at least as tight as `binding`. */
static ef__expr *parse_operators(ef__parser *parser, int binding)
{
    bool negation = ef__token_word(&parser->token, "not") && binding <= EF__BIND_NOT;
    ef__expr *left = negation ? parse_not(parser) : parse_unary(parser);
    ef__expr_kind kind, before = EF__EXPR_NULL;

    while (left && current_operator(parser, &kind)) {
        int own = ef__expr_binding(kind);
        if (own < binding)
            break;
        if (refuse_chain(parser, before, kind))
            return NULL;
        ef__parse_advance(parser);
        ef__expr *sides[] = {left, parse_binary(parser, kind == EF__EXPR_DEFAULT ? own : own + 1)};
        left = make_operation(parser, kind, left->span, sides, 2);
        before = kind;
    }
    return left;
}

static ef__expr *parse_binary(ef__parser *parser, int binding)
{
    ef__expr *expr = enter_level(parser) ? parse_operators(parser, binding) : NULL;

    parser->depth--;
    return expr;
}

ef__expr *ef__parse_expr(ef__parser *parser)
{
    ef__span span = parser->token.span;
    ef__expr *expr;

    if (!ef__parse_accept_word(parser, "if"))
        return parse_binary(parser, EF__BIND_OR);
    expr = enter_level(parser) ? parse_if(parser, span) : NULL;
    parser->depth--;
    return expr;
}
