/*
 * parse_stmt.c - statements, and the blocks they stand in.
 */
#include "parse.h"

#include "../base/settings.h"

static ef__stmt *parse_body(ef__parser *p);

static ef__stmt *make_stmt(ef__parser *p, ef__stmt_kind kind, ef__span span)
{
    if (p->block->stmt_count == EF_FOLD_LIMIT_STATEMENTS) {
        ef__parse_error(p, span, NULL, "a block has at most %d statements",
                        EF_FOLD_LIMIT_STATEMENTS);
        return NULL;
    }
    ef__stmt *stmt = ef__parse_alloc(p, sizeof *stmt);
    if (!stmt)
        return NULL;
    stmt->kind = kind;
    stmt->span = span;
    stmt->slot = -1;
    stmt->number = p->block->stmt_count++;
    return stmt;
}

static bool refuse_target(ef__parser *p, const ef__expr *target)
{
    if (target->root == EF__ROOT_LET || target->root == EF__ROOT_LOOP)
        ef__parse_error(p, target->span, NULL,
                        "\"%.*s\" is a name of this handler and keeps its value; to write the "
                        "view's field, write view.%.*s",
                        EF_STR_ARG(target->text), EF_STR_ARG(target->text));
    else if (p->where & EF__IN_UPCAST)
        ef__parse_error(p, target->span, NULL, "an upcast changes data and nothing else");
    else
        ef__parse_error(p, target->span, NULL,
                        "the event is a fact and does not change; only an upcast may write to "
                        "data. The view's field is view.%s",
                        ef__root_name(target->root));
    return false;
}

static bool may_write(ef__parser *p, const ef__expr *target, ef__stmt_kind kind)
{
    ef__root wanted = p->where & EF__IN_UPCAST ? EF__ROOT_DATA : EF__ROOT_VIEW;

    if (target->root != wanted)
        return refuse_target(p, target);
    if (target->step_count > 0 || kind == EF__STMT_SET)
        return true;
    ef__parse_error(p, target->span, NULL,
                    "%s as a whole can only be set with =", ef__root_name(wanted));
    return false;
}

static bool operator_of_statement(ef__parser *p, ef__stmt_kind *out)
{
    static const struct {
        const char *text;
        ef__stmt_kind kind;
    } operators[] = {{"=", EF__STMT_SET},       {"+=", EF__STMT_INCREASE},
                     {"-=", EF__STMT_DECREASE}, {"push", EF__STMT_PUSH},
                     {"add", EF__STMT_ADD},     {"remove", EF__STMT_REMOVE}};
    static const char *const words[] = {"push", "add", "remove"};

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (ef__token_is(&p->token, operators[i].text) ||
            ef__token_word(&p->token, operators[i].text)) {
            *out = operators[i].kind;
            return true;
        }
    }
    ef__parse_unexpected(p, "=, +=, -=, push, add or remove",
                         p->token.kind == EF__TOKEN_NAME ? ef__suggest(p->token.text, words, 3)
                         : ef__token_is(&p->token, "==") ? "="
                                                         : NULL);
    return false;
}

static ef__stmt *parse_change(ef__parser *p)
{
    ef__span span = p->token.span;
    ef__stmt_kind kind;
    ef__expr *target = ef__parse_path(p);

    if (!target || !operator_of_statement(p, &kind) || !may_write(p, target, kind))
        return NULL;
    ef__parse_advance(p);
    ef__stmt *stmt = make_stmt(p, kind, span);
    if (!stmt || !(stmt->value = ef__parse_expr(p)))
        return NULL;
    stmt->target = target;
    if (kind == EF__STMT_PUSH && ef__parse_accept_word(p, "keep") &&
        !ef__parse_int(p, "keep", EF_FOLD_LIMIT_KEEP, &stmt->keep))
        return NULL;
    stmt->span = ef__span_join(span, p->last);
    return ef__parse_expect_line_end(p) ? stmt : NULL;
}

static ef__stmt *parse_unset(ef__parser *p, ef__span span)
{
    if (p->token.kind != EF__TOKEN_NAME) {
        ef__parse_unexpected(p, "a path", NULL);
        return NULL;
    }
    ef__stmt *stmt = make_stmt(p, EF__STMT_UNSET, span);
    if (!stmt || !(stmt->target = ef__parse_path(p)) || !may_write(p, stmt->target, EF__STMT_UNSET))
        return NULL;
    stmt->span = ef__span_join(span, p->last);
    return ef__parse_expect_line_end(p) ? stmt : NULL;
}

static ef__stmt *parse_delete(ef__parser *p, ef__span span)
{
    if (p->where & (EF__IN_UPCAST | EF__IN_MIGRATE)) {
        ef__parse_error(p, span, NULL, "delete works in handlers only");
        return NULL;
    }
    ef__stmt *stmt = make_stmt(p, EF__STMT_DELETE, span);
    return stmt && ef__parse_expect_line_end(p) ? stmt : NULL;
}

/* The name comes into scope behind its own value: let a = a reads the view's a. */
static ef__stmt *parse_let(ef__parser *p, ef__span span)
{
    ef__token name = p->token;
    ef__stmt *stmt = make_stmt(p, EF__STMT_LET, span);

    if (!stmt)
        return NULL;
    if (name.kind != EF__TOKEN_NAME) {
        ef__parse_unexpected(p, "a name behind let", NULL);
        return NULL;
    }
    ef__parse_advance(p);
    if (!ef__parse_expect(p, "=", "\"=\"") || !(stmt->value = ef__parse_expr(p)))
        return NULL;
    stmt->name = name.text;
    stmt->slot = ef__parse_declare(p, name, false, stmt->value);
    stmt->span = ef__span_join(span, p->last);
    return stmt->slot >= 0 && ef__parse_expect_line_end(p) ? stmt : NULL;
}

static ef__stmt *parse_if(ef__parser *p, ef__span span);

static bool parse_else(ef__parser *p, ef__stmt *stmt)
{
    ef__span span = p->token.span;

    if (!ef__parse_accept_word(p, "if")) {
        stmt->otherwise = ef__parse_expect_line_end(p) ? parse_body(p) : NULL;
        return stmt->otherwise != NULL;
    }
    if (++p->depth > EF_FOLD_LIMIT_DEPTH)
        ef__parse_error(p, span, NULL, "this chain of else if is too long");
    else
        stmt->otherwise = parse_if(p, span);
    p->depth--;
    return stmt->otherwise != NULL;
}

static ef__stmt *parse_if(ef__parser *p, ef__span span)
{
    ef__stmt *stmt = make_stmt(p, EF__STMT_IF, span);

    if (!stmt || !(stmt->value = ef__parse_expr(p)))
        return NULL;
    stmt->span = ef__span_join(span, p->last);
    if (!ef__parse_expect_line_end(p))
        return NULL;
    stmt->body = parse_body(p);
    /* An else below a broken body is still an else. */
    if (ef__parse_accept_word(p, "else") && !parse_else(p, stmt))
        return NULL;
    return stmt->body ? stmt : NULL;
}

/* A view's id is known before its view is, so it cannot read one. */
static ef__expr *parse_view_id(ef__parser *p)
{
    uint32_t where = p->where;
    ef__expr *id = NULL;

    if (where & (EF__IN_UPCAST | EF__IN_MIGRATE)) {
        ef__parse_error(p, p->last, NULL, "a view is chosen in handlers only");
        return NULL;
    }
    p->where &= ~(uint32_t)EF__MAY_VIEW;
    id = ef__parse_expr(p);
    p->where = where;
    return id;
}

static bool parse_for_head(ef__parser *p, ef__stmt *stmt)
{
    ef__token name = p->token;

    if (name.kind != EF__TOKEN_NAME) {
        ef__parse_unexpected(p, "a name behind for", NULL);
        return false;
    }
    ef__parse_advance(p);
    if (!ef__parse_accept_word(p, "in")) {
        ef__parse_unexpected(p, "\"in\"", NULL);
        return false;
    }
    if (!(stmt->value = ef__parse_expr(p)))
        return false;
    if (stmt->value->uses & (EF__USES_VIEW | EF__USES_LOOKUP)) {
        ef__parse_error(p, stmt->value->span, NULL,
                        "a loop runs over an array of the event, not of a view");
        return false;
    }
    stmt->name = name.text;
    stmt->slot = ef__parse_declare(p, name, true, stmt->value);
    if (stmt->slot < 0)
        return false;
    if (ef__parse_accept_word(p, "when") && !(stmt->when = ef__parse_expr(p)))
        return false;
    return !ef__parse_accept_word(p, "view") || (stmt->view_id = parse_view_id(p)) != NULL;
}

static ef__stmt *parse_for(ef__parser *p, ef__span span)
{
    int32_t outer_names = p->name_count;
    ef__stmt *stmt = make_stmt(p, EF__STMT_FOR, span);

    if (!stmt)
        return NULL;
    if (p->where & EF__IN_MIGRATE) {
        ef__parse_error(p, span, NULL,
                        "a loop runs over an array of an event, and a migration has "
                        "none");
        return NULL;
    }
    if (parse_for_head(p, stmt)) {
        stmt->span = ef__span_join(span, p->last);
        stmt->body = ef__parse_expect_line_end(p) ? parse_body(p) : NULL;
    }
    p->name_count = outer_names;
    return stmt->body ? stmt : NULL;
}

static ef__stmt *parse_view(ef__parser *p, ef__span span)
{
    ef__stmt *stmt = make_stmt(p, EF__STMT_VIEW, span);

    if (!stmt || !(stmt->view_id = parse_view_id(p)))
        return NULL;
    stmt->span = ef__span_join(span, p->last);
    stmt->body = ef__parse_expect_line_end(p) ? parse_body(p) : NULL;
    return stmt->body ? stmt : NULL;
}

/* `view` begins a block, or a path that is written out: view.total = 1. */
static bool view_is_path(const ef__parser *p)
{
    static const char *const marks[] = {".", "[", "=", "+=", "-="};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (ef__lexer_follows(&p->lexer, marks[i]))
            return true;
    return false;
}

static ef__stmt *refuse_start(ef__parser *p)
{
    if (ef__token_word(&p->token, "else"))
        ef__parse_error(p, p->token.span, NULL,
                        "this else belongs to no if; it stands as deep as its if");
    else if (p->token.kind == EF__TOKEN_INDENT)
        ef__parse_error(p, p->token.span, NULL, "this line is indented deeper than the one above");
    else
        ef__parse_unexpected(p, "a statement", NULL);
    return NULL;
}

static ef__stmt *parse_stmt(ef__parser *p)
{
    ef__span span = p->token.span;

    if (p->token.kind != EF__TOKEN_NAME)
        return refuse_start(p);
    if (ef__token_word(&p->token, "view") && view_is_path(p))
        return parse_change(p);
    if (ef__parse_accept_word(p, "unset"))
        return parse_unset(p, span);
    if (ef__parse_accept_word(p, "delete"))
        return parse_delete(p, span);
    if (ef__parse_accept_word(p, "let"))
        return parse_let(p, span);
    if (ef__parse_accept_word(p, "if"))
        return parse_if(p, span);
    if (ef__parse_accept_word(p, "for"))
        return parse_for(p, span);
    if (ef__parse_accept_word(p, "view"))
        return parse_view(p, span);
    return ef__parse_is_reserved(p->token.text) ? refuse_start(p) : parse_change(p);
}

/* Statements one level deeper. NULL when there is none that is right; names go out of scope. */
static ef__stmt *parse_body(ef__parser *p)
{
    int32_t outer_names = p->name_count;
    ef__stmt *first = NULL;
    ef__stmt **end = &first;

    if (p->token.kind != EF__TOKEN_INDENT) {
        ef__parse_unexpected(p, "statements below, indented deeper", NULL);
        return NULL;
    }
    ef__parse_advance(p);
    while (p->token.kind != EF__TOKEN_DEDENT && p->token.kind != EF__TOKEN_END) {
        size_t taken = p->taken;

        *end = parse_stmt(p);
        if (*end)
            end = &(*end)->next;
        else
            ef__parse_recover(p, taken);
    }
    p->name_count = outer_names;
    if (p->token.kind == EF__TOKEN_DEDENT)
        ef__parse_advance(p);
    return first;
}

bool ef__parse_block(ef__parser *p, ef__block *block, uint32_t where)
{
    p->block = block;
    p->where = where;
    p->name_count = 0;
    p->node_count = 0;
    block->first = parse_body(p);
    return block->first != NULL;
}
