/*
 * parse.c - the token in hand, and what to say when it is the wrong one.
 */
#include "parse.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const reserved[] = {"true", "false", "null", "and",   "or",     "not",
                                       "in",   "if",    "then", "else",  "for",    "let",
                                       "view", "on",    "when", "unset", "delete", "lookup"};

bool ef__parse_is_reserved(ef_str name)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (ef_str_equal(name, ef_str_from(reserved[i])))
            return true;
    return false;
}

static void next_token(ef__parser *p)
{
    if (p->no_memory || !ef__lexer_next(&p->lexer, &p->token)) {
        p->no_memory = true;
        p->token.kind = EF__TOKEN_END;
    }
}

void ef__parse_begin(ef__parser *p, ef_str source)
{
    ef__lexer_init(&p->lexer, source, p->arena);
    next_token(p);
}

/* What a token means goes into the digest, and where it stands does not. */
static void note_token(ef__parser *p)
{
    if (!p->digest)
        return;
    ef__buf_printf(p->digest, "%d %zu ", (int)p->token.kind, p->token.text.len);
    if (p->token.kind != EF__TOKEN_NEWLINE && p->token.text.len > 0)
        ef__buf_add_str(p->digest, p->token.text);
}

void ef__parse_advance(ef__parser *p)
{
    note_token(p);
    p->last = p->token.span;
    p->last_kind = p->token.kind;
    p->taken++;
    next_token(p);
}

bool ef__parse_accept(ef__parser *p, const char *mark)
{
    if (!ef__token_is(&p->token, mark))
        return false;
    ef__parse_advance(p);
    return true;
}

bool ef__parse_accept_word(ef__parser *p, const char *word)
{
    if (!ef__token_word(&p->token, word))
        return false;
    ef__parse_advance(p);
    return true;
}

void ef__parse_error(ef__parser *p, ef__span span, const char *suggestion, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ef__diagnostics_add(p->diagnostics, EF__SEVERITY_ERROR, span, suggestion, "%s", text);
}

static void describe_token(const ef__token *token, char *out, size_t size)
{
    static const char *const words[] = {
        [EF__TOKEN_END] = "the end of the text",
        [EF__TOKEN_NEWLINE] = "the end of the line",
        [EF__TOKEN_INDENT] = "a deeper indent",
        [EF__TOKEN_DEDENT] = "the end of the block",
    };

    if (token->kind <= EF__TOKEN_DEDENT)
        (void)snprintf(out, size, "%s", words[token->kind]);
    else if (token->kind == EF__TOKEN_TEXT)
        (void)snprintf(out, size, "a text");
    else
        (void)snprintf(out, size, "\"%.*s\"", (int)(token->text.len > 60 ? 60 : token->text.len),
                       token->text.ptr);
}

void ef__parse_unexpected(ef__parser *p, const char *what, const char *suggestion)
{
    char found[80];

    if (p->token.kind == EF__TOKEN_WRONG) {
        ef__parse_error(p, p->token.span, p->token.suggestion, "%s", p->token.wrong);
        return;
    }
    describe_token(&p->token, found, sizeof found);
    ef__parse_error(p, p->token.span, suggestion, "expected %s, found %s", what, found);
}

bool ef__parse_expect(ef__parser *p, const char *mark, const char *what)
{
    if (ef__parse_accept(p, mark))
        return true;
    ef__parse_unexpected(p, what, NULL);
    return false;
}

bool ef__parse_expect_line_end(ef__parser *p)
{
    if (p->token.kind == EF__TOKEN_NEWLINE) {
        ef__parse_advance(p);
        return true;
    }
    if (ef__token_word(&p->token, "then"))
        ef__parse_unexpected(p,
                             "the end of the line: the statements of an if stand below it, "
                             "deeper, without \"then\"",
                             NULL);
    else if (ef__token_is(&p->token, "="))
        ef__parse_unexpected(p, "the end of the line", "==");
    else
        ef__parse_unexpected(p, "the end of the line", NULL);
    return false;
}

bool ef__parse_int(ef__parser *p, const char *what, int64_t max, int64_t *out)
{
    if (p->token.kind != EF__TOKEN_NUMBER) {
        ef__parse_unexpected(p, what, NULL);
        return false;
    }
    if (!ef__number_is_int64(&p->token.number, out) || *out < 1 || *out > max) {
        ef__parse_error(p, p->token.span, NULL, "%s is a whole number from 1 to %" PRId64, what,
                        max);
        return false;
    }
    ef__parse_advance(p);
    return true;
}

/* Skip the rest of the line and the block below it, or the block that begins here. */
static void skip_statement(ef__parser *p)
{
    int depth = 0;

    ef__lexer_recover(&p->lexer);
    while (p->token.kind != EF__TOKEN_END) {
        bool line_ends = p->token.kind == EF__TOKEN_NEWLINE && depth == 0;

        if (p->token.kind == EF__TOKEN_INDENT)
            depth++;
        if (p->token.kind == EF__TOKEN_DEDENT && depth-- == 0)
            return;
        bool block_ends = p->token.kind == EF__TOKEN_DEDENT && depth == 0;
        next_token(p);
        ef__lexer_recover(&p->lexer);
        if (block_ends || (line_ends && p->token.kind != EF__TOKEN_INDENT))
            return;
    }
}

void ef__parse_recover(ef__parser *p, size_t taken_before)
{
    bool line_begins = p->last_kind == EF__TOKEN_NEWLINE || p->last_kind == EF__TOKEN_DEDENT;

    /* At the beginning of a line the mistake lies behind us, and what follows is innocent. */
    if (!line_begins || p->taken == taken_before)
        skip_statement(p);
}

void *ef__parse_alloc(ef__parser *p, size_t size)
{
    void *memory = ef__arena_zalloc(p->arena, 1, size);

    if (!memory)
        p->no_memory = true;
    return memory;
}
