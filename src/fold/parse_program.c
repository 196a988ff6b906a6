/*
 * parse_program.c - the head of a program, its settings, and the blocks after them.
 */
#include "parse.h"

#include "../base/settings.h"
#include "../base/utf8.h"

enum { IN_HANDLER = EF__MAY_EVENT | EF__MAY_VIEW | EF__MAY_LOOKUP };

static bool expect_word(ef__parser *parser, const char *word, const char *what)
{
    if (ef__parse_accept_word(parser, word))
        return true;
    return ef__parse_unexpected(
        parser, what,
        parser->token.kind == EF__TOKEN_NAME ? ef__suggest(parser->token.text, &word, 1) : NULL);
}

static bool parse_head(ef__parser *parser)
{
    ef__program *program = parser->program;

    if (!expect_word(parser, "projection", "\"projection NAME version N\""))
        return false;
    program->name = parser->token.text;
    program->name_span = parser->token.span;
    if (parser->token.kind != EF__TOKEN_NAME || ef__parse_is_reserved(parser->token.text))
        return ef__parse_unexpected(parser, "the projection's name", NULL);
    if (parser->token.text.len > EF_FOLD_LIMIT_NAME_BYTES)
        return ef__parse_error(parser, parser->token.span, NULL,
                               "a projection's name has at most %d characters",
                               EF_FOLD_LIMIT_NAME_BYTES);
    ef__parse_advance(parser);
    return expect_word(parser, "version", "\"version N\"") &&
           ef__parse_int(parser, "a version", EF_FOLD_LIMIT_VERSION, &program->version) &&
           ef__parse_expect_line_end(parser);
}

static bool parse_order(ef__parser *parser)
{
    static const char *const words[] = {"stream", "log"};

    if (!expect_word(parser, "by", "\"by stream\" or \"by log\""))
        return false;
    if (ef__token_word(&parser->token, "log")) {
        parser->program->order = EF__FOLD_BY_LOG;
    } else if (!ef__token_word(&parser->token, "stream"))
        return ef__parse_unexpected(parser, "\"stream\" or \"log\"",
                                    ef__suggest(parser->token.text, words, 2));
    ef__parse_advance(parser);
    return true;
}

static bool parse_default_view(ef__parser *parser)
{
    ef__block none = {0};

    parser->block = &none;
    parser->where = EF__MAY_EVENT;
    parser->name_count = 0;
    parser->node_count = 0;
    parser->program->view_id = ef__parse_expr(parser);
    return parser->program->view_id != NULL;
}

static bool check_index(ef__parser *parser, const ef__expr *path)
{
    bool fits = path->root == EF__ROOT_VIEW && path->step_count > 0;

    for (const ef__path_step *step = path->steps; step; step = step->next)
        fits = fits && step->field.ptr;
    if (!fits)
        ef__parse_error(parser, path->span, NULL, "an index is a path of fields of the view");
    return fits;
}

static bool parse_index(ef__parser *parser, ef__index **end)
{
    ef__index *index = ef__parse_alloc(parser, sizeof *index);

    if (!index)
        return false;
    if (parser->token.kind != EF__TOKEN_NAME)
        return ef__parse_unexpected(parser, "a path of the view", NULL);
    /* An index is always the view's, so that its fields need no view. before them. */
    parser->where = EF__IN_QUERY;
    index->path = ef__parse_path(parser);
    if (!index->path || !check_index(parser, index->path))
        return false;
    /* view.total and total are the same index; view["in"] can be written in one way only. */
    ef_str field = index->path->steps->field;
    if (ef__name_is_plain(field) && !ef__parse_is_reserved(field))
        index->path->spelled = false;
    *end = index;
    return true;
}

/* "stats.total": the fields joined, as the name of the index. */
static bool name_index(ef__parser *parser, ef__index *index)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__expr_print(index->path, &text);
    index->text =
        text.failed ? (ef_str){NULL, 0} : ef__arena_copy(parser->arena, ef__buf_str(&text));
    parser->no_memory = parser->no_memory || !index->text.ptr;
    return !parser->no_memory;
}

static bool parse_indexes(ef__parser *parser)
{
    ef__index **end = &parser->program->indexes;
    int count = 0;

    do {
        if (count++ == EF_FOLD_LIMIT_INDEXES)
            return ef__parse_error(parser, parser->token.span, NULL,
                                   "a projection has at most %d indexes", EF_FOLD_LIMIT_INDEXES);
        if (!parse_index(parser, end) || !name_index(parser, *end))
            return false;
        end = &(*end)->next;
    } while (ef__parse_accept(parser, ","));
    return true;
}

static bool parse_setting(ef__parser *parser, uint32_t *seen)
{
    static const char *const words[] = {"order", "view", "index", "schema"};
    ef__lexeme word = parser->token;
    size_t which = 0;

    while (which < 4 && !ef__token_word(&word, words[which]))
        which++;
    if (which == 4)
        return ef__parse_unexpected(parser, "order, view, index or schema",
                                    word.kind == EF__TOKEN_NAME ? ef__suggest(word.text, words, 4)
                                                                : NULL);
    if (*seen & 1u << which)
        return ef__parse_error(parser, word.span, NULL, "%s is set twice", words[which]);
    *seen |= 1u << which;
    ef__parse_advance(parser);
    if (which == 0)
        return parse_order(parser);
    if (which == 1)
        return parse_default_view(parser);
    if (which == 2)
        return parse_indexes(parser);
    return ef__parse_int(parser, "a schema", EF_FOLD_LIMIT_VERSION, &parser->program->schema);
}

static void parse_settings(ef__parser *parser)
{
    uint32_t seen = 0;

    if (parser->token.kind != EF__TOKEN_INDENT)
        return;
    ef__parse_advance(parser);
    while (parser->token.kind != EF__TOKEN_DEDENT && parser->token.kind != EF__TOKEN_END) {
        size_t taken = parser->taken;
        if (!parse_setting(parser, &seen) || !ef__parse_expect_line_end(parser))
            ef__parse_recover(parser, taken);
    }
    if (parser->token.kind == EF__TOKEN_DEDENT)
        ef__parse_advance(parser);
}

/* A type as a word, or as a text where it has characters that words cannot have. */
static bool parse_type(ef__parser *parser, const char *what, ef_str *out, ef__span *out_span)
{
    ef_error err = EF_ERROR_INIT;

    ef__lexer_type(&parser->lexer, &parser->token);
    if (parser->token.kind != EF__TOKEN_TYPE && parser->token.kind != EF__TOKEN_TEXT)
        return ef__parse_unexpected(parser, what, NULL);
    if (ef__name_check("type", parser->token.text, 1, true, &err) != EF_OK)
        return ef__parse_error(parser, parser->token.span, NULL, "%s", err.text);
    *out = parser->token.text;
    *out_span = parser->token.span;
    ef__parse_advance(parser);
    return true;
}

static bool parse_pattern(ef__parser *parser, ef__pattern *pattern)
{
    bool quoted = parser->token.kind == EF__TOKEN_TEXT;

    if (!parse_type(parser, "an event type, PREFIX.* or *", &pattern->text, &pattern->span))
        return false;
    const char *star = memchr(pattern->text.ptr, '*', pattern->text.len);
    if (!star || quoted)
        return true;
    size_t before = (size_t)(star - pattern->text.ptr);
    if (before + 1 != pattern->text.len || (before > 0 && star[-1] != '.'))
        return ef__parse_error(parser, pattern->span, NULL,
                               "a * must be alone, or at the end after a point: order.*");
    pattern->prefix = true;
    pattern->text.len = before;
    return true;
}

static bool parse_patterns(ef__parser *parser, ef__handler *handler)
{
    ef__pattern **end = &handler->patterns;
    int count = 0;

    do {
        if (count++ == EF_FOLD_LIMIT_PATTERNS)
            return ef__parse_error(parser, parser->token.span, NULL,
                                   "a handler has at most %d types", EF_FOLD_LIMIT_PATTERNS);
        if (parser->type_count++ >= EF_FOLD_LIMIT_TYPES)
            return ef__parse_error(parser, parser->token.span, NULL,
                                   "the handlers of a program have at most %d types",
                                   EF_FOLD_LIMIT_TYPES);
        *end = ef__parse_alloc(parser, sizeof **end);
        if (!*end || !parse_pattern(parser, *end))
            return false;
        end = &(*end)->next;
    } while (ef__parse_accept(parser, ","));
    return true;
}

static bool parse_handler(ef__parser *parser, ef__span span)
{
    ef__handler **end = &parser->program->handlers;
    ef__handler *handler = ef__parse_alloc(parser, sizeof *handler);

    if (!handler || !parse_patterns(parser, handler))
        return false;
    parser->block = &handler->block;
    parser->where = IN_HANDLER;
    parser->name_count = 0;
    parser->node_count = 0;
    if (ef__parse_accept_word(parser, "when") && !(handler->when = ef__parse_expr(parser)))
        return false;
    handler->span = ef__span_join(span, parser->last);
    if (!ef__parse_expect_line_end(parser) || !ef__parse_block(parser, &handler->block, IN_HANDLER))
        return false;
    handler->number = parser->program->handler_count++;
    while (*end)
        end = &(*end)->next;
    *end = handler;
    return true;
}

static bool parse_from_to(ef__parser *parser, int64_t *from, int64_t *to)
{
    if (!expect_word(parser, "from", "\"from N to M\"") ||
        !ef__parse_int(parser, "a schema", EF_FOLD_LIMIT_VERSION, from) ||
        !expect_word(parser, "to", "\"to M\"") ||
        !ef__parse_int(parser, "a schema", EF_FOLD_LIMIT_VERSION, to))
        return false;
    if (*to > *from)
        return true;
    return ef__parse_error(parser, parser->last, NULL, "the version must increase: from 1 to 2");
}

static bool parse_schema_step(ef__parser *parser, ef__span span, bool upcast)
{
    ef__step **end = upcast ? &parser->program->upcasts : &parser->program->migrations;
    uint32_t where = upcast ? EF__MAY_EVENT | EF__IN_UPCAST : EF__MAY_VIEW | EF__IN_MIGRATE;
    ef__step *step = ef__parse_alloc(parser, sizeof *step);
    ef__span type_span;

    if (!step || (upcast && !parse_type(parser, "an event type", &step->type, &type_span)) ||
        !parse_from_to(parser, &step->from, &step->to))
        return false;
    step->span = ef__span_join(span, parser->last);
    if (!ef__parse_expect_line_end(parser) || !ef__parse_block(parser, &step->block, where))
        return false;
    while (*end)
        end = &(*end)->next;
    *end = step;
    return true;
}

static bool parse_alias(ef__parser *parser)
{
    ef__alias **end = &parser->program->aliases;
    ef__alias *alias = ef__parse_alloc(parser, sizeof *alias);
    ef__span to_span;

    if (!alias || !parse_type(parser, "an event type", &alias->from, &alias->span) ||
        !ef__parse_expect(parser, "=", "\"=\" and the type that is meant") ||
        !parse_type(parser, "an event type", &alias->to, &to_span) ||
        !ef__parse_expect_line_end(parser))
        return false;
    while (*end)
        end = &(*end)->next;
    *end = alias;
    return true;
}

static bool parse_item(ef__parser *parser)
{
    static const char *const words[] = {"on", "upcast", "alias", "migrate"};
    ef__span span = parser->token.span;

    if (ef__parse_accept_word(parser, "on"))
        return parse_handler(parser, span);
    if (ef__parse_accept_word(parser, "upcast"))
        return parse_schema_step(parser, span, true);
    if (ef__parse_accept_word(parser, "migrate"))
        return parse_schema_step(parser, span, false);
    if (ef__parse_accept_word(parser, "alias"))
        return parse_alias(parser);
    if (ef__token_word(&parser->token, "projection"))
        ef__parse_error(parser, span, NULL, "a program has one projection");
    else if (parser->token.kind == EF__TOKEN_INDENT)
        ef__parse_error(parser, span, NULL,
                        "this line is indented, and nothing above it opens a block");
    else
        ef__parse_unexpected(parser, "on, upcast, alias or migrate",
                             parser->token.kind == EF__TOKEN_NAME
                                 ? ef__suggest(parser->token.text, words, 4)
                                 : NULL);
    return false;
}

void ef__parse_program(ef__parser *parser)
{
    int32_t items = 0;

    if (!parse_head(parser) && parser->token.kind != EF__TOKEN_END) {
        /* The settings below a broken head are still settings. */
        while (parser->token.kind != EF__TOKEN_NEWLINE && parser->token.kind != EF__TOKEN_END)
            ef__parse_advance(parser);
        if (parser->token.kind == EF__TOKEN_NEWLINE)
            ef__parse_advance(parser);
    }
    parse_settings(parser);
    while (parser->token.kind != EF__TOKEN_END && !parser->no_memory) {
        size_t taken = parser->taken;

        if (++items > EF_FOLD_LIMIT_HANDLERS) {
            ef__parse_error(parser, parser->token.span, NULL,
                            "a program has at most %d handlers and blocks", EF_FOLD_LIMIT_HANDLERS);
            return;
        }
        if (parser->token.kind == EF__TOKEN_DEDENT || parser->token.kind == EF__TOKEN_NEWLINE)
            ef__parse_advance(parser);
        else if (!parse_item(parser))
            ef__parse_recover(parser, taken);
    }
}
