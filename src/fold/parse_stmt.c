/*
 * parse_stmt.c - statements and blocks.
 */
#include "parse.h"

#include "../base/settings.h"

static ef__stmt *parse_body(ef__parser *parser);

static ef__stmt *make_stmt(ef__parser *parser, ef__stmt_kind kind, ef__span span)
{
    if (parser->block->stmt_count == EF_FOLD_LIMIT_STATEMENTS)
        return ef__parse_error(parser, span, NULL, "a block has at most %d statements",
                               EF_FOLD_LIMIT_STATEMENTS);
    ef__stmt *stmt = ef__parse_alloc(parser, sizeof *stmt);
    if (!stmt)
        return NULL;
    stmt->kind = kind;
    stmt->span = span;
    stmt->slot = -1;
    stmt->number = parser->block->stmt_count++;
    return stmt;
}

static bool refuse_target(ef__parser *parser, const ef__expr *target)
{
    if (target->root == EF__ROOT_LET || target->root == EF__ROOT_LOOP)
        ef__parse_error(parser, target->span, NULL,
                        "\"%.*s\" is a name of this handler and keeps its value; to write the "
                        "view's field, write view.%.*s",
                        EF_STR_ARG(target->text), EF_STR_ARG(target->text));
    else if (parser->where & EF__IN_UPCAST)
        ef__parse_error(parser, target->span, NULL, "an upcast changes data and nothing else");
    else
        ef__parse_error(parser, target->span, NULL,
                        "the event is a fact and does not change; only an upcast may write to "
                        "data. The view's field is view.%s",
                        ef__root_name(target->root));
    return false;
}

static bool may_write(ef__parser *parser, const ef__expr *target, ef__stmt_kind kind)
{
    ef__root wanted = parser->where & EF__IN_UPCAST ? EF__ROOT_DATA : EF__ROOT_VIEW;

    if (target->root != wanted)
        return refuse_target(parser, target);
    if (target->step_count > 0 || kind == EF__STMT_SET)
        return true;
    return ef__parse_error(parser, target->span, NULL,
                           "%s as a whole can only be set with =", ef__root_name(wanted));
}

static bool operator_of_statement(ef__parser *parser, ef__stmt_kind *out)
{
    static const struct {
        const char *text;
        ef__stmt_kind kind;
    } operators[] = {{"=", EF__STMT_SET},       {"+=", EF__STMT_INCREASE},
                     {"-=", EF__STMT_DECREASE}, {"push", EF__STMT_PUSH},
                     {"add", EF__STMT_ADD},     {"remove", EF__STMT_REMOVE}};
    static const char *const words[] = {"push", "add", "remove"};

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (ef__token_is(&parser->token, operators[i].text) ||
            ef__token_word(&parser->token, operators[i].text)) {
            *out = operators[i].kind;
            return true;
        }
    }
    return ef__parse_unexpected(parser, "=, +=, -=, push, add or remove",
                                parser->token.kind == EF__TOKEN_NAME
                                    ? ef__suggest(parser->token.text, words, 3)
                                : ef__token_is(&parser->token, "==") ? "="
                                                                     : NULL);
}

static ef__stmt *parse_change(ef__parser *parser)
{
    ef__span span = parser->token.span;
    ef__stmt_kind kind = EF__STMT_SET;
    ef__expr *target = ef__parse_path(parser);

    if (!target || !operator_of_statement(parser, &kind) || !may_write(parser, target, kind))
        return NULL;
    ef__parse_advance(parser);
    ef__stmt *stmt = make_stmt(parser, kind, span);
    if (!stmt || !(stmt->value = ef__parse_expr(parser)))
        return NULL;
    stmt->target = target;
    if (kind == EF__STMT_PUSH && ef__parse_accept_word(parser, "keep") &&
        !ef__parse_int(parser, "keep", EF_FOLD_LIMIT_KEEP, &stmt->keep))
        return NULL;
    stmt->span = ef__span_join(span, parser->last);
    return ef__parse_expect_line_end(parser) ? stmt : NULL;
}

static ef__stmt *parse_unset(ef__parser *parser, ef__span span)
{
    if (parser->token.kind != EF__TOKEN_NAME)
        return ef__parse_unexpected(parser, "a path", NULL);
    ef__stmt *stmt = make_stmt(parser, EF__STMT_UNSET, span);
    if (!stmt || !(stmt->target = ef__parse_path(parser)) ||
        !may_write(parser, stmt->target, EF__STMT_UNSET))
        return NULL;
    stmt->span = ef__span_join(span, parser->last);
    return ef__parse_expect_line_end(parser) ? stmt : NULL;
}

static ef__stmt *parse_delete(ef__parser *parser, ef__span span)
{
    if (parser->where & (EF__IN_UPCAST | EF__IN_MIGRATE))
        return ef__parse_error(parser, span, NULL, "delete is allowed in handlers only");
    ef__stmt *stmt = make_stmt(parser, EF__STMT_DELETE, span);
    return stmt && ef__parse_expect_line_end(parser) ? stmt : NULL;
}

/* The name is in scope only after its value: let a = a reads the view's a. */
static ef__stmt *parse_let(ef__parser *parser, ef__span span)
{
    ef__lexeme name = parser->token;
    ef__stmt *stmt = make_stmt(parser, EF__STMT_LET, span);

    if (!stmt)
        return NULL;
    if (name.kind != EF__TOKEN_NAME)
        return ef__parse_unexpected(parser, "a name after let", NULL);
    ef__parse_advance(parser);
    if (!ef__parse_expect(parser, "=", "\"=\"") || !(stmt->value = ef__parse_expr(parser)))
        return NULL;
    stmt->name = name.text;
    stmt->slot = ef__parse_declare(parser, name, false, stmt->value);
    stmt->span = ef__span_join(span, parser->last);
    return stmt->slot >= 0 && ef__parse_expect_line_end(parser) ? stmt : NULL;
}

static ef__stmt *parse_if(ef__parser *parser, ef__span span);

static bool parse_else(ef__parser *parser, ef__stmt *stmt)
{
    ef__span span = parser->token.span;

    if (!ef__parse_accept_word(parser, "if")) {
        stmt->otherwise = ef__parse_expect_line_end(parser) ? parse_body(parser) : NULL;
        return stmt->otherwise != NULL;
    }
    if (++parser->depth > EF_FOLD_LIMIT_DEPTH)
        ef__parse_error(parser, span, NULL, "this chain of else if is too long");
    else
        stmt->otherwise = parse_if(parser, span);
    parser->depth--;
    return stmt->otherwise != NULL;
}

static ef__stmt *parse_if(ef__parser *parser, ef__span span)
{
    ef__stmt *stmt = make_stmt(parser, EF__STMT_IF, span);

    if (!stmt || !(stmt->value = ef__parse_expr(parser)))
        return NULL;
    stmt->span = ef__span_join(span, parser->last);
    if (!ef__parse_expect_line_end(parser))
        return NULL;
    stmt->body = parse_body(parser);
    /* An else below a broken body is still an else. */
    if (ef__parse_accept_word(parser, "else") && !parse_else(parser, stmt))
        return NULL;
    return stmt->body ? stmt : NULL;
}

/* A view's id is known before its view is, so it cannot read one. */
static ef__expr *parse_view_id(ef__parser *parser)
{
    uint32_t where = parser->where;
    ef__expr *id = NULL;

    if (where & (EF__IN_UPCAST | EF__IN_MIGRATE))
        return ef__parse_error(parser, parser->last, NULL, "a view is selected in handlers only");
    parser->where &= ~(uint32_t)EF__MAY_VIEW;
    id = ef__parse_expr(parser);
    parser->where = where;
    return id;
}

static bool parse_for_head(ef__parser *parser, ef__stmt *stmt)
{
    ef__lexeme name = parser->token;

    if (name.kind != EF__TOKEN_NAME)
        return ef__parse_unexpected(parser, "a name after for", NULL);
    ef__parse_advance(parser);
    if (!ef__parse_accept_word(parser, "in"))
        return ef__parse_unexpected(parser, "\"in\"", NULL);
    if (!(stmt->value = ef__parse_expr(parser)))
        return false;
    if (stmt->value->uses & (EF__USES_VIEW | EF__USES_LOOKUP))
        return ef__parse_error(parser, stmt->value->span, NULL,
                               "a loop runs over an array of the event, not of a view");
    stmt->name = name.text;
    stmt->slot = ef__parse_declare(parser, name, true, stmt->value);
    if (stmt->slot < 0)
        return false;
    if (ef__parse_accept_word(parser, "when") && !(stmt->when = ef__parse_expr(parser)))
        return false;
    return !ef__parse_accept_word(parser, "view") ||
           (stmt->view_id = parse_view_id(parser)) != NULL;
}

static ef__stmt *parse_for(ef__parser *parser, ef__span span)
{
    int32_t outer_names = parser->name_count;
    ef__stmt *stmt = make_stmt(parser, EF__STMT_FOR, span);

    if (!stmt)
        return NULL;
    if (parser->where & EF__IN_MIGRATE)
        return ef__parse_error(parser, span, NULL,
                               "a loop runs over an array of an event, and a migration has "
                               "none");
    if (parse_for_head(parser, stmt)) {
        stmt->span = ef__span_join(span, parser->last);
        stmt->body = ef__parse_expect_line_end(parser) ? parse_body(parser) : NULL;
    }
    parser->name_count = outer_names;
    return stmt->body ? stmt : NULL;
}

static ef__stmt *parse_view(ef__parser *parser, ef__span span)
{
    ef__stmt *stmt = make_stmt(parser, EF__STMT_VIEW, span);

    if (!stmt || !(stmt->view_id = parse_view_id(parser)))
        return NULL;
    stmt->span = ef__span_join(span, parser->last);
    stmt->body = ef__parse_expect_line_end(parser) ? parse_body(parser) : NULL;
    return stmt->body ? stmt : NULL;
}

/* `view` starts a block, or a path with its root: view.total = 1. */
static bool view_is_path(const ef__parser *parser)
{
    static const char *const marks[] = {".", "[", "=", "+=", "-="};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (ef__lexer_follows(&parser->lexer, marks[i]))
            return true;
    return false;
}

static ef__stmt *refuse_start(ef__parser *parser)
{
    if (ef__token_word(&parser->token, "else"))
        ef__parse_error(parser, parser->token.span, NULL,
                        "this else has no if: indent it like its if");
    else if (parser->token.kind == EF__TOKEN_INDENT)
        ef__parse_error(parser, parser->token.span, NULL,
                        "this line is indented deeper than the one above");
    else
        ef__parse_unexpected(parser, "a statement", NULL);
    return NULL;
}

static ef__stmt *parse_stmt(ef__parser *parser)
{
    ef__span span = parser->token.span;

    if (parser->token.kind != EF__TOKEN_NAME)
        return refuse_start(parser);
    if (ef__token_word(&parser->token, "view") && view_is_path(parser))
        return parse_change(parser);
    if (ef__parse_accept_word(parser, "unset"))
        return parse_unset(parser, span);
    if (ef__parse_accept_word(parser, "delete"))
        return parse_delete(parser, span);
    if (ef__parse_accept_word(parser, "let"))
        return parse_let(parser, span);
    if (ef__parse_accept_word(parser, "if"))
        return parse_if(parser, span);
    if (ef__parse_accept_word(parser, "for"))
        return parse_for(parser, span);
    if (ef__parse_accept_word(parser, "view"))
        return parse_view(parser, span);
    return ef__parse_is_reserved(parser->token.text) ? refuse_start(parser) : parse_change(parser);
}

/* Statements one level deeper. NULL: none is valid; names go out of scope. */
static ef__stmt *parse_body(ef__parser *parser)
{
    int32_t outer_names = parser->name_count;
    ef__stmt *first = NULL;
    ef__stmt **end = &first;

    if (parser->token.kind != EF__TOKEN_INDENT)
        return ef__parse_unexpected(parser, "statements below, indented deeper", NULL);
    ef__parse_advance(parser);
    while (parser->token.kind != EF__TOKEN_DEDENT && parser->token.kind != EF__TOKEN_END) {
        size_t taken = parser->taken;

        *end = parse_stmt(parser);
        if (*end)
            end = &(*end)->next;
        else
            ef__parse_recover(parser, taken);
    }
    parser->name_count = outer_names;
    if (parser->token.kind == EF__TOKEN_DEDENT)
        ef__parse_advance(parser);
    return first;
}

bool ef__parse_block(ef__parser *parser, ef__block *block, uint32_t where)
{
    parser->block = block;
    parser->where = where;
    parser->name_count = 0;
    parser->node_count = 0;
    block->first = parse_body(parser);
    return block->first != NULL;
}
