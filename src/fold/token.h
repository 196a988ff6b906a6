/*
 * token.h - splits source text into tokens, lines and indents included.
 *
 * Lines are indented by spaces; a deeper line opens a block (INDENT), a shallower one closes it
 * (DEDENT). Inside brackets a line break is white space. A # starts a comment. Invalid text is
 * EF__TOKEN_WRONG with the reason; the parser reports it when it reaches it.
 */
#pragma once

#include "diagnostic.h"

#include "../base/arena.h"
#include "../base/number.h"

typedef enum ef__token_kind {
    EF__TOKEN_END,
    EF__TOKEN_NEWLINE,
    EF__TOKEN_INDENT,
    EF__TOKEN_DEDENT,
    EF__TOKEN_NAME,
    EF__TOKEN_NUMBER,
    EF__TOKEN_TEXT,
    EF__TOKEN_TYPE,   /* only from ef__lexer_type */
    EF__TOKEN_SYMBOL, /* an operator or bracket, by its text */
    EF__TOKEN_WRONG
} ef__token_kind;

typedef struct ef__lexeme {
    ef__token_kind kind;
    ef__span span;
    ef_str source; /* as written */
    ef_str text;   /* TEXT: unescaped; else as written */
    ef__number number;
    const char *wrong;      /* WRONG: a sentence */
    const char *suggestion; /* WRONG: the suggested text, or NULL */
} ef__lexeme;

typedef struct ef__lexer {
    ef_str source;
    ef__arena *arena; /* for texts with escapes */
    size_t offset;
    size_t line_offset; /* start of the line */
    uint32_t line;
    size_t seen_offset; /* a place in the line whose column is known: counting starts there */
    uint32_t seen_column;
    bool line_begins; /* the indent has not been read yet */
    bool any;         /* the line has a token, so it ends in NEWLINE */
    int32_t dedents;  /* still to be given */
    int32_t indent_count;
    uint32_t indents[EF_FOLD_LIMIT_DEPTH + 2];
    int32_t open_count;
    ef__span open[EF_FOLD_LIMIT_DEPTH + 2]; /* brackets that are not closed yet */
} ef__lexer;

/* `source` is valid UTF-8 and stays. */
void ef__lexer_init(ef__lexer *lexer, ef_str source, ef__arena *arena);

/* The next token; END again and again at the end. False when memory ran out. */
bool ef__lexer_next(ef__lexer *lexer, ef__lexeme *out);

/*
 * Reads `token`, the last one returned, again as an event type, up to white space or a comma. A
 * TEXT stays a TEXT. A token that cannot start a type stays as it is.
 */
void ef__lexer_type(ef__lexer *lexer, ef__lexeme *token);

/* Whether this symbol comes next in the line, after white space. */
bool ef__lexer_follows(const ef__lexer *lexer, const char *symbol);

/* Forgets open brackets: the parser gives up the statement and continues with the next line. */
void ef__lexer_recover(ef__lexer *lexer);

bool ef__token_is(const ef__lexeme *token, const char *symbol); /* a SYMBOL */
bool ef__token_word(const ef__lexeme *token, const char *word); /* a NAME */

/* The span from the beginning of `first` to the end of `last`, within one line. */
ef__span ef__span_join(ef__span first, ef__span last);
