/*
 * token.c - a program's text as tokens.
 */
#include "token.h"

#include "../base/utf8.h"
#include "../base/json.h"
#include "../base/same.h"

#include <string.h>

/* Longest first, so that "<=" is not read as "<". */
static const char *const marks[] = {"==", "!=", "<=", ">=", "+=", "-=", "??", "=",
                                    "<",  ">",  "+",  "-",  "*",  "/",  "%",  "(",
                                    ")",  "[",  "]",  "{",  "}",  ",",  ":",  "."};

/* Words of other languages, for suggestions. */
static const struct {
    const char *text, *wrong, *suggestion;
} foreign[] = {
    {"&&", "\"&&\" is written as a word here", "and"},
    {"||", "\"||\" is written as a word here", "or"},
    {"!", "\"!\" is written as a word here", "not"},
    {"'", "a text needs double quotes", "\""},
    {"`", "a text needs double quotes", "\""},
    {";", "a statement ends with its line; there is no \";\"", NULL},
    {"\t", "this is a tab; use spaces", NULL},
};

static bool name_begins(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool name_goes_on(char c)
{
    return name_begins(c) || is_digit(c);
}

static ef_str source_rest(const ef__lexer *lexer)
{
    ef_str text = {lexer->source.ptr + lexer->offset, lexer->source.len - lexer->offset};
    return text;
}

static char peek_char(const ef__lexer *lexer)
{
    return lexer->offset < lexer->source.len ? lexer->source.ptr[lexer->offset] : '\0';
}

/* Characters, not bytes: the source is valid UTF-8. */
static uint32_t character_count(const char *ptr, size_t len)
{
    uint32_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)ptr[i] & 0xc0) != 0x80;
    return count;
}

/* The token of `len` bytes at lexer->offset; the lexer moves past it. */
static void lexer_take_token(ef__lexer *lexer, ef__token_kind kind, size_t len, ef__lexeme *out)
{
    const char *ptr = lexer->source.ptr + lexer->offset;
    uint32_t characters = character_count(ptr, len);

    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->source.ptr = ptr;
    out->source.len = len;
    out->text = out->source;
    out->span.offset = (uint32_t)lexer->offset;
    out->span.line = lexer->line;
    out->span.column = lexer->seen_column + character_count(lexer->source.ptr + lexer->seen_offset,
                                                            lexer->offset - lexer->seen_offset);
    out->span.length = characters ? characters : 1;
    lexer->seen_offset = lexer->offset;
    lexer->seen_column = out->span.column;
    lexer->offset += len;
}

static void take_wrong(ef__lexer *lexer, size_t len, const char *wrong, ef__lexeme *out)
{
    lexer_take_token(lexer, EF__TOKEN_WRONG, len, out);
    out->wrong = wrong;
}

void ef__lexer_init(ef__lexer *lexer, ef_str source, ef__arena *arena)
{
    memset(lexer, 0, sizeof *lexer);
    lexer->source = source;
    lexer->arena = arena;
    lexer->line = 1;
    lexer->seen_column = 1;
    lexer->line_begins = true;
    lexer->indent_count = 1; /* indents[0] is 0 */
    if (ef__str_starts(source, "\xef\xbb\xbf"))
        lexer->offset = lexer->line_offset = lexer->seen_offset =
            3; /* a byte order mark has no meaning in UTF-8 */
}

static void next_line(ef__lexer *lexer)
{
    lexer->offset++;
    lexer->line++;
    lexer->line_offset = lexer->offset;
    lexer->seen_offset = lexer->offset;
    lexer->seen_column = 1;
    lexer->line_begins = lexer->open_count == 0;
    if (lexer->line_begins)
        lexer->any = false;
}

/* Spaces and comments, and line breaks where they are white space. */
static void skip_white(ef__lexer *lexer)
{
    for (;;) {
        char c = peek_char(lexer);
        bool blank_line = lexer->open_count > 0 || !lexer->any;

        if (lexer->offset >= lexer->source.len)
            return;
        if (c == '#')
            while (lexer->offset < lexer->source.len && peek_char(lexer) != '\n')
                lexer->offset++;
        else if (c == ' ' || (c == '\r' && ef__str_starts(source_rest(lexer), "\r\n")))
            lexer->offset++;
        else if (c == '\n' && blank_line)
            next_line(lexer);
        else
            return;
    }
}

static bool close_blocks(ef__lexer *lexer, uint32_t width, ef__lexeme *out)
{
    while (lexer->indent_count > 1 && lexer->indents[lexer->indent_count - 1] > width) {
        lexer->indent_count--;
        lexer->dedents++;
    }
    if (lexer->indents[lexer->indent_count - 1] == width)
        return false;
    lexer->indents[lexer->indent_count - 1] = width;
    take_wrong(lexer, 0, "the indent of this line matches no line above it", out);
    return true;
}

/* At the first token of a line: does it open or close a block? True when `out` was filled. */
static bool take_indent(ef__lexer *lexer, ef__lexeme *out)
{
    uint32_t width = (uint32_t)(lexer->offset - lexer->line_offset);
    uint32_t before = lexer->indents[lexer->indent_count - 1];

    lexer->line_begins = false;
    lexer->any = true;
    if (width < before)
        return close_blocks(lexer, width, out);
    if (width == before)
        return false;
    if (lexer->indent_count > EF_FOLD_LIMIT_DEPTH) {
        take_wrong(lexer, 0, "blocks are nested too deeply here", out);
        return true;
    }
    lexer->indents[lexer->indent_count++] = width;
    lexer_take_token(lexer, EF__TOKEN_INDENT, 0, out);
    return true;
}

static bool take_end(ef__lexer *lexer, ef__lexeme *out)
{
    bool newline = lexer->any && !lexer->line_begins;

    lexer->any = false;
    lexer->open_count = 0;
    if (newline) {
        lexer_take_token(lexer, EF__TOKEN_NEWLINE, 0, out);
    } else if (lexer->indent_count > 1) {
        lexer->indent_count--;
        lexer_take_token(lexer, EF__TOKEN_DEDENT, 0, out);
    } else {
        lexer_take_token(lexer, EF__TOKEN_END, 0, out);
    }
    return true;
}

static bool take_number(ef__lexer *lexer, ef__lexeme *out)
{
    ef__number_parts parts;
    ef__number number;
    ef_str text = source_rest(lexer);
    ef_status st = ef__number_scan(text, &parts);
    size_t len = parts.len;

    while (len < text.len && name_goes_on(text.ptr[len]))
        len++;
    if (st == EF_OK && len > parts.len) {
        take_wrong(lexer, len, "a name starts right after a number; put a space between", out);
    } else if (st != EF_OK) {
        take_wrong(lexer, len ? len : 1, "this is not a JSON number", out);
    } else if (ef__number_parse((ef_str){text.ptr, len}, &number, NULL) != EF_OK) {
        take_wrong(lexer, len, "this number has too many digits; 38 are exact", out);
    } else {
        lexer_take_token(lexer, EF__TOKEN_NUMBER, len, out);
        out->number = number;
    }
    return true;
}

/* The end of a text, after its closing quote; 0: it does not end in its line. */
static size_t text_length(ef_str text)
{
    for (size_t i = 1; i < text.len && text.ptr[i] != '\n'; i++) {
        if (text.ptr[i] == '"')
            return i + 1;
        if (text.ptr[i] == '\\')
            i++;
    }
    return 0;
}

static bool take_text(ef__lexer *lexer, ef__lexeme *out)
{
    ef_str text = source_rest(lexer);
    size_t len = text_length(text);
    ef__json *value = NULL;
    ef_status st;

    if (len == 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        take_wrong(lexer, end ? (size_t)(end - text.ptr) : text.len,
                   "this text has no closing quote in its line", out);
        return true;
    }
    st = ef__json_parse((ef_str){text.ptr, len}, len, lexer->arena, &value, NULL);
    if (st == EF_NO_MEMORY)
        return false;
    if (st != EF_OK) {
        take_wrong(
            lexer, len,
            "this text is not a JSON string: a backslash starts \\\" \\\\ \\/ \\b \\f \\n \\r "
            "\\t or \\uXXXX",
            out);
        return true;
    }
    lexer_take_token(lexer, EF__TOKEN_TEXT, len, out);
    out->text = value->text;
    return true;
}

static bool take_name(ef__lexer *lexer, ef__lexeme *out)
{
    ef_str text = source_rest(lexer);
    size_t len = 1;

    while (len < text.len && name_goes_on(text.ptr[len]))
        len++;
    lexer_take_token(lexer, EF__TOKEN_NAME, len, out);
    return true;
}

static bool take_unknown(ef__lexer *lexer, ef__lexeme *out)
{
    ef_str text = source_rest(lexer);
    uint32_t code = 0;
    size_t len = ef__character(text, &code);

    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (ef__str_starts(text, foreign[i].text)) {
            take_wrong(lexer, strlen(foreign[i].text), foreign[i].wrong, out);
            out->suggestion = foreign[i].suggestion;
            return true;
        }
    }
    take_wrong(lexer, len ? len : 1,
               code >= 0x80 ? "names consist of a to z, digits and _; other keys are written as "
                              "[\"…\"]"
                            : "this character is not allowed here",
               out);
    return true;
}

/* Open brackets are recorded: lines continue inside them, and a message can name the open one. */
static void note_bracket(ef__lexer *lexer, ef__lexeme *token)
{
    char c = token->text.ptr[0];

    if (c == '(' || c == '[' || c == '{') {
        if (lexer->open_count > EF_FOLD_LIMIT_DEPTH) {
            token->kind = EF__TOKEN_WRONG;
            token->wrong = "brackets are nested too deeply here";
            return;
        }
        lexer->open[lexer->open_count++] = token->span;
    } else if ((c == ')' || c == ']' || c == '}') && lexer->open_count > 0) {
        lexer->open_count--;
    }
}

static bool take_mark(ef__lexer *lexer, ef__lexeme *out)
{
    ef_str text = source_rest(lexer);

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (ef__str_starts(text, marks[i])) {
            lexer_take_token(lexer, EF__TOKEN_SYMBOL, strlen(marks[i]), out);
            note_bracket(lexer, out);
            return true;
        }
    }
    return take_unknown(lexer, out);
}

/* An open bracket makes the rest of the program part of it: name the bracket, not the end. */
static bool take_unclosed(ef__lexer *lexer, ef__lexeme *out)
{
    ef__span open = lexer->open[lexer->open_count - 1];

    lexer->open_count = 0;
    take_wrong(lexer, 0, "this bracket is not closed", out);
    out->span = open;
    return true;
}

bool ef__lexer_next(ef__lexer *lexer, ef__lexeme *out)
{
    if (lexer->dedents > 0) {
        lexer->dedents--;
        lexer_take_token(lexer, EF__TOKEN_DEDENT, 0, out);
        return true;
    }
    skip_white(lexer);
    if (lexer->offset >= lexer->source.len)
        return lexer->open_count > 0 ? take_unclosed(lexer, out) : take_end(lexer, out);
    if (lexer->line_begins && take_indent(lexer, out))
        return true;
    if (lexer->dedents > 0)
        return ef__lexer_next(lexer, out);

    char c = peek_char(lexer);
    if (c == '\n') {
        lexer_take_token(lexer, EF__TOKEN_NEWLINE, 0, out);
        next_line(lexer);
        return true;
    }
    if (is_digit(c))
        return take_number(lexer, out);
    if (c == '"')
        return take_text(lexer, out);
    return name_begins(c) ? take_name(lexer, out) : take_mark(lexer, out);
}

void ef__lexer_type(ef__lexer *lexer, ef__lexeme *token)
{
    size_t len = 0;
    ef_str text = {lexer->source.ptr + token->span.offset, lexer->source.len - token->span.offset};

    if (token->kind != EF__TOKEN_NAME && token->kind != EF__TOKEN_NUMBER &&
        token->kind != EF__TOKEN_WRONG && !ef__token_is(token, "*"))
        return;
    while (len < text.len && !strchr(" \t\r\n,=()[]{}\"'#", text.ptr[len]) && text.ptr[len] != '\0')
        len++;
    if (len == 0)
        return;
    lexer->offset = token->span.offset;
    lexer_take_token(lexer, EF__TOKEN_TYPE, len, token);
}

bool ef__lexer_follows(const ef__lexer *lexer, const char *mark)
{
    ef_str text = source_rest(lexer);

    while (text.len > 0 && text.ptr[0] == ' ') {
        text.ptr++;
        text.len--;
    }
    return ef__str_starts(text, mark);
}

void ef__lexer_recover(ef__lexer *lexer)
{
    lexer->open_count = 0;
}

bool ef__token_is(const ef__lexeme *token, const char *mark)
{
    return token->kind == EF__TOKEN_SYMBOL && ef_str_equal(token->text, ef_str_from(mark));
}

bool ef__token_word(const ef__lexeme *token, const char *word)
{
    return token->kind == EF__TOKEN_NAME && ef_str_equal(token->text, ef_str_from(word));
}

ef__span ef__span_join(ef__span first, ef__span last)
{
    if (first.line == last.line && last.column >= first.column)
        first.length = last.column + last.length - first.column;
    return first;
}
