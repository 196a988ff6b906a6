/*
 * parse.c - the current token, and messages about unexpected ones.
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

static void next_token(ef__parser *parser)
{
    if (parser->no_memory || !ef__lexer_next(&parser->lexer, &parser->token)) {
        parser->no_memory = true;
        parser->token.kind = EF__TOKEN_END;
    }
}

void ef__parse_begin(ef__parser *parser, ef_str source)
{
    ef__lexer_init(&parser->lexer, source, parser->arena);
    next_token(parser);
}

/* The digest covers the meaning of a token, not its location. */
static void add_to_digest(ef__parser *parser)
{
    if (!parser->digest)
        return;
    ef__buf_printf(parser->digest, "%d %zu ", (int)parser->token.kind, parser->token.text.len);
    if (parser->token.kind != EF__TOKEN_NEWLINE && parser->token.text.len > 0)
        ef__buf_add_str(parser->digest, parser->token.text);
}

void ef__parse_advance(ef__parser *parser)
{
    add_to_digest(parser);
    parser->last = parser->token.span;
    parser->last_kind = parser->token.kind;
    parser->taken++;
    next_token(parser);
}

bool ef__parse_accept(ef__parser *parser, const char *mark)
{
    if (!ef__token_is(&parser->token, mark))
        return false;
    ef__parse_advance(parser);
    return true;
}

bool ef__parse_accept_word(ef__parser *parser, const char *word)
{
    if (!ef__token_word(&parser->token, word))
        return false;
    ef__parse_advance(parser);
    return true;
}

void *ef__parse_error(ef__parser *parser, ef__span span, const char *suggestion, const char *format,
                      ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ef__diagnostics_add(parser->diagnostics, EF__SEVERITY_ERROR, span, suggestion, "%s", text);
    return NULL;
}

static void describe_token(const ef__lexeme *token, char *out, size_t size)
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

void *ef__parse_unexpected(ef__parser *parser, const char *what, const char *suggestion)
{
    char found[80];

    if (parser->token.kind == EF__TOKEN_WRONG)
        return ef__parse_error(parser, parser->token.span, parser->token.suggestion, "%s",
                               parser->token.wrong);
    describe_token(&parser->token, found, sizeof found);
    return ef__parse_error(parser, parser->token.span, suggestion, "expected %s, found %s", what,
                           found);
}

bool ef__parse_expect(ef__parser *parser, const char *mark, const char *what)
{
    if (ef__parse_accept(parser, mark))
        return true;
    return ef__parse_unexpected(parser, what, NULL);
}

bool ef__parse_expect_line_end(ef__parser *parser)
{
    if (parser->token.kind == EF__TOKEN_NEWLINE) {
        ef__parse_advance(parser);
        return true;
    }
    if (ef__token_word(&parser->token, "then"))
        return ef__parse_unexpected(parser,
                                    "the end of the line: the statements of an if stand below it, "
                                    "deeper, without \"then\"",
                                    NULL);
    return ef__parse_unexpected(parser, "the end of the line",
                                ef__token_is(&parser->token, "=") ? "==" : NULL);
}

bool ef__parse_int(ef__parser *parser, const char *what, int64_t max, int64_t *out)
{
    if (parser->token.kind != EF__TOKEN_NUMBER)
        return ef__parse_unexpected(parser, what, NULL);
    if (!ef__number_is_int64(&parser->token.number, out) || *out < 1 || *out > max)
        return ef__parse_error(parser, parser->token.span, NULL,
                               "%s is a whole number from 1 to %" PRId64, what, max);
    ef__parse_advance(parser);
    return true;
}

/* Skips the rest of the line and the block below it, or the block that starts here. */
static void skip_statement(ef__parser *parser)
{
    int depth = 0;

    ef__lexer_recover(&parser->lexer);
    while (parser->token.kind != EF__TOKEN_END) {
        bool line_ends = parser->token.kind == EF__TOKEN_NEWLINE && depth == 0;

        if (parser->token.kind == EF__TOKEN_INDENT)
            depth++;
        if (parser->token.kind == EF__TOKEN_DEDENT && depth-- == 0)
            return;
        bool block_ends = parser->token.kind == EF__TOKEN_DEDENT && depth == 0;
        next_token(parser);
        ef__lexer_recover(&parser->lexer);
        if (block_ends || (line_ends && parser->token.kind != EF__TOKEN_INDENT))
            return;
    }
}

void ef__parse_recover(ef__parser *parser, size_t taken_before)
{
    bool line_begins =
        parser->last_kind == EF__TOKEN_NEWLINE || parser->last_kind == EF__TOKEN_DEDENT;

    /* At the start of a line the mistake was before it, and the line itself may be correct. */
    if (!line_begins || parser->taken == taken_before)
        skip_statement(parser);
}

void *ef__parse_alloc(ef__parser *parser, size_t size)
{
    void *memory = ef__arena_zalloc(parser->arena, 1, size);

    if (!memory)
        parser->no_memory = true;
    return memory;
}
