/*
 * parse.h - parses source text to a tree. Internal to the parser.
 *
 * Recursive descent with one token of lookahead. A function that finds a mistake reports it and
 * returns NULL (or false); the statement is given up, and parsing continues with the next line, so
 * that one run finds several mistakes. Names are resolved during parsing.
 */
#pragma once

#include "ast.h"
#include "expr.h"
#include "token.h"

/* The values that an expression may read, by its context. */
enum {
    EF__MAY_EVENT = 1,
    EF__MAY_VIEW = 2,
    EF__MAY_LOOKUP = 4,
    EF__IN_QUERY = 8, /* every bare name is the view's */
    EF__IN_UPCAST = 16,
    EF__IN_MIGRATE = 32
};

typedef struct ef__scope_name {
    ef_str name;
    bool loop;
    int32_t slot;
    uint32_t uses;
    uint32_t kinds;
} ef__scope_name;

typedef struct ef__parser {
    ef__arena *arena;
    ef__diagnostics *diagnostics;
    ef__program *program; /* NULL for a query */
    ef__lexer lexer;
    ef__lexeme token; /* the current one */
    ef__span last;    /* of the token before it */
    ef__token_kind last_kind;
    size_t taken;    /* tokens so far */
    ef__buf *digest; /* every consumed token is added; NULL for a query */
    bool no_memory;
    uint32_t where;     /* EF__MAY_… */
    int32_t depth;      /* of recursion */
    int32_t node_count; /* of the block */
    int32_t type_count; /* of all handlers so far */
    ef__block *block;
    int32_t name_count; /* in scope */
    ef__scope_name names[EF_FOLD_LIMIT_SLOTS];
} ef__parser;

/* parse.c: tokens and mistakes. */
void ef__parse_begin(ef__parser *parser, ef_str source);
void ef__parse_advance(ef__parser *parser);
bool ef__parse_accept(ef__parser *parser, const char *mark);
bool ef__parse_accept_word(ef__parser *parser, const char *word);
/* False, with "expected …, found …", when it is not there. */
bool ef__parse_expect(ef__parser *parser, const char *mark, const char *what);
bool ef__parse_expect_line_end(ef__parser *parser);
bool ef__parse_int(ef__parser *parser, const char *what, int64_t max, int64_t *out);
/* Adds a mistake. NULL, or false to a caller that returns a bool. */
void *ef__parse_error(ef__parser *parser, ef__span span, const char *suggestion, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));
/* The same: "expected WHAT, found …" at the current token. */
void *ef__parse_unexpected(ef__parser *parser, const char *what, const char *suggestion);
/* Gives up the construct that started when `taken` had this value, and continues after it. */
void ef__parse_recover(ef__parser *parser, size_t taken_before);
void *ef__parse_alloc(ef__parser *parser, size_t size);
bool ef__parse_is_reserved(ef_str name);

/* parse_expr.c. NULL after a mistake. */
ef__expr *ef__parse_expr(ef__parser *parser);
/* Parses a path that starts with the current name: the target of a statement. */
ef__expr *ef__parse_path(ef__parser *parser);

/* parse_name.c: resolves names. */
bool ef__parse_root(ef__parser *parser, ef__lexeme name, ef__expr *path);
/* Put a let or loop name into scope; -1 after a mistake. */
int32_t ef__parse_declare(ef__parser *parser, ef__lexeme name, bool loop, const ef__expr *value);
bool ef__parse_note_lookup(ef__parser *parser, ef__lexeme name);

/* parse_stmt.c: the indented statements below a line, which ends here. */
bool ef__parse_block(ef__parser *parser, ef__block *block, uint32_t where);

/* parse_program.c */
void ef__parse_program(ef__parser *parser);
