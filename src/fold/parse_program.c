/*
 * parse_program.c - the head of a program, its settings, and what stands below them.
 */
#include "parse.h"

#include "../base/settings.h"
#include "../base/utf8.h"

enum { IN_HANDLER = EF__MAY_EVENT | EF__MAY_VIEW | EF__MAY_LOOKUP };

static bool expect_word(ef__parser *p, const char *word, const char *what)
{
    if (ef__parse_accept_word(p, word))
        return true;
    ef__parse_unexpected(
        p, what, p->token.kind == EF__TOKEN_NAME ? ef__suggest(p->token.text, &word, 1) : NULL);
    return false;
}

static bool parse_head(ef__parser *p)
{
    ef__program *program = p->program;

    if (!expect_word(p, "projection", "\"projection NAME version N\""))
        return false;
    program->name = p->token.text;
    program->name_span = p->token.span;
    if (p->token.kind != EF__TOKEN_NAME || ef__parse_is_reserved(p->token.text)) {
        ef__parse_unexpected(p, "the projection's name", NULL);
        return false;
    }
    if (p->token.text.len > EF_FOLD_LIMIT_NAME_BYTES) {
        ef__parse_error(p, p->token.span, NULL, "a projection's name has at most %d characters",
                        EF_FOLD_LIMIT_NAME_BYTES);
        return false;
    }
    ef__parse_advance(p);
    return expect_word(p, "version", "\"version N\"") &&
           ef__parse_int(p, "a version", EF_FOLD_LIMIT_VERSION, &program->version) &&
           ef__parse_expect_line_end(p);
}

static bool parse_order(ef__parser *p)
{
    static const char *const words[] = {"stream", "log"};

    if (!expect_word(p, "by", "\"by stream\" or \"by log\""))
        return false;
    if (ef__token_word(&p->token, "log")) {
        p->program->order = EF__FOLD_BY_LOG;
    } else if (!ef__token_word(&p->token, "stream")) {
        ef__parse_unexpected(p, "\"stream\" or \"log\"", ef__suggest(p->token.text, words, 2));
        return false;
    }
    ef__parse_advance(p);
    return true;
}

static bool parse_default_view(ef__parser *p)
{
    ef__block none = {0};

    p->block = &none;
    p->where = EF__MAY_EVENT;
    p->name_count = 0;
    p->node_count = 0;
    p->program->view_id = ef__parse_expr(p);
    return p->program->view_id != NULL;
}

static bool check_index(ef__parser *p, const ef__expr *path)
{
    bool fits = path->root == EF__ROOT_VIEW && path->step_count > 0;

    for (const ef__step *step = path->steps; step; step = step->next)
        fits = fits && step->field.ptr;
    if (!fits)
        ef__parse_error(p, path->span, NULL, "an index is a path of fields of the view");
    return fits;
}

static bool parse_index(ef__parser *p, ef__index **end)
{
    ef__index *index = ef__parse_alloc(p, sizeof *index);

    if (!index)
        return false;
    if (p->token.kind != EF__TOKEN_NAME) {
        ef__parse_unexpected(p, "a path of the view", NULL);
        return false;
    }
    /* An index is always the view's, so that its fields need no view. before them. */
    p->where = EF__IN_QUERY;
    index->path = ef__parse_path(p);
    if (!index->path || !check_index(p, index->path))
        return false;
    /* view.total and total are the same index; view["in"] can be written in one way only. */
    ef_str field = index->path->steps->field;
    if (ef__name_is_plain(field) && !ef__parse_is_reserved(field))
        index->path->spelled = false;
    *end = index;
    return true;
}

/* "stats.total": the fields joined, for those who name an index. */
static bool name_index(ef__parser *p, ef__index *index)
{
    ef__buf text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES);

    ef__expr_print(index->path, &text);
    index->text = text.failed ? (ef_str){NULL, 0} : ef__arena_copy(p->arena, ef__buf_str(&text));
    p->no_memory = p->no_memory || !index->text.ptr;
    ef__buf_release(&text);
    return !p->no_memory;
}

static bool parse_indexes(ef__parser *p)
{
    ef__index **end = &p->program->indexes;
    int count = 0;

    do {
        if (count++ == EF_FOLD_LIMIT_INDEXES) {
            ef__parse_error(p, p->token.span, NULL, "a projection has at most %d indexes",
                            EF_FOLD_LIMIT_INDEXES);
            return false;
        }
        if (!parse_index(p, end) || !name_index(p, *end))
            return false;
        end = &(*end)->next;
    } while (ef__parse_accept(p, ","));
    return true;
}

static bool parse_setting(ef__parser *p, uint32_t *seen)
{
    static const char *const words[] = {"order", "view", "index", "schema"};
    ef__token word = p->token;
    size_t which = 0;

    while (which < 4 && !ef__token_word(&word, words[which]))
        which++;
    if (which == 4) {
        ef__parse_unexpected(p, "order, view, index or schema",
                             word.kind == EF__TOKEN_NAME ? ef__suggest(word.text, words, 4) : NULL);
        return false;
    }
    if (*seen & 1u << which) {
        ef__parse_error(p, word.span, NULL, "%s is said twice", words[which]);
        return false;
    }
    *seen |= 1u << which;
    ef__parse_advance(p);
    if (which == 0)
        return parse_order(p);
    if (which == 1)
        return parse_default_view(p);
    if (which == 2)
        return parse_indexes(p);
    return ef__parse_int(p, "a schema", EF_FOLD_LIMIT_VERSION, &p->program->schema);
}

static void parse_settings(ef__parser *p)
{
    uint32_t seen = 0;

    if (p->token.kind != EF__TOKEN_INDENT)
        return;
    ef__parse_advance(p);
    while (p->token.kind != EF__TOKEN_DEDENT && p->token.kind != EF__TOKEN_END) {
        size_t taken = p->taken;
        if (!parse_setting(p, &seen) || !ef__parse_expect_line_end(p))
            ef__parse_recover(p, taken);
    }
    if (p->token.kind == EF__TOKEN_DEDENT)
        ef__parse_advance(p);
}

/* A type as it is written, or a text where it holds characters that words cannot. */
static bool parse_type(ef__parser *p, const char *what, ef_str *out, ef__span *out_span)
{
    ef_error err = EF_ERROR_INIT;

    ef__lexer_type(&p->lexer, &p->token);
    if (p->token.kind != EF__TOKEN_TYPE && p->token.kind != EF__TOKEN_TEXT) {
        ef__parse_unexpected(p, what, NULL);
        return false;
    }
    if (ef__name_check("type", p->token.text, 1, true, &err) != EF_OK) {
        ef__parse_error(p, p->token.span, NULL, "%s", err.text);
        return false;
    }
    *out = p->token.text;
    *out_span = p->token.span;
    ef__parse_advance(p);
    return true;
}

static bool parse_pattern(ef__parser *p, ef__pattern *pattern)
{
    bool quoted = p->token.kind == EF__TOKEN_TEXT;

    if (!parse_type(p, "an event type, PREFIX.* or *", &pattern->text, &pattern->span))
        return false;
    const char *star = memchr(pattern->text.ptr, '*', pattern->text.len);
    if (!star || quoted)
        return true;
    size_t before = (size_t)(star - pattern->text.ptr);
    if (before + 1 != pattern->text.len || (before > 0 && star[-1] != '.')) {
        ef__parse_error(p, pattern->span, NULL,
                        "a * stands alone or at the end, behind a point: order.*");
        return false;
    }
    pattern->prefix = true;
    pattern->text.len = before;
    return true;
}

static bool parse_patterns(ef__parser *p, ef__handler *handler)
{
    ef__pattern **end = &handler->patterns;
    int count = 0;

    do {
        if (count++ == EF_FOLD_LIMIT_PATTERNS) {
            ef__parse_error(p, p->token.span, NULL, "a handler has at most %d types",
                            EF_FOLD_LIMIT_PATTERNS);
            return false;
        }
        if (p->type_count++ >= EF_FOLD_LIMIT_TYPES) {
            ef__parse_error(p, p->token.span, NULL,
                            "the handlers of a program have at most %d types", EF_FOLD_LIMIT_TYPES);
            return false;
        }
        *end = ef__parse_alloc(p, sizeof **end);
        if (!*end || !parse_pattern(p, *end))
            return false;
        end = &(*end)->next;
    } while (ef__parse_accept(p, ","));
    return true;
}

static bool parse_handler(ef__parser *p, ef__span span)
{
    ef__handler **end = &p->program->handlers;
    ef__handler *handler = ef__parse_alloc(p, sizeof *handler);

    if (!handler || !parse_patterns(p, handler))
        return false;
    p->block = &handler->block;
    p->where = IN_HANDLER;
    p->name_count = 0;
    p->node_count = 0;
    if (ef__parse_accept_word(p, "when") && !(handler->when = ef__parse_expr(p)))
        return false;
    handler->span = ef__span_join(span, p->last);
    if (!ef__parse_expect_line_end(p) || !ef__parse_block(p, &handler->block, IN_HANDLER))
        return false;
    handler->number = p->program->handler_count++;
    while (*end)
        end = &(*end)->next;
    *end = handler;
    return true;
}

static bool parse_from_to(ef__parser *p, int64_t *from, int64_t *to)
{
    if (!expect_word(p, "from", "\"from N to M\"") ||
        !ef__parse_int(p, "a schema", EF_FOLD_LIMIT_VERSION, from) ||
        !expect_word(p, "to", "\"to M\"") ||
        !ef__parse_int(p, "a schema", EF_FOLD_LIMIT_VERSION, to))
        return false;
    if (*to > *from)
        return true;
    ef__parse_error(p, p->last, NULL, "it has to go up: from 1 to 2");
    return false;
}

static bool parse_upcast(ef__parser *p, ef__span span)
{
    ef__upcast **end = &p->program->upcasts;
    ef__upcast *upcast = ef__parse_alloc(p, sizeof *upcast);
    ef__span type_span;

    if (!upcast || !parse_type(p, "an event type", &upcast->type, &type_span) ||
        !parse_from_to(p, &upcast->from, &upcast->to))
        return false;
    upcast->span = ef__span_join(span, p->last);
    if (!ef__parse_expect_line_end(p) ||
        !ef__parse_block(p, &upcast->block, EF__MAY_EVENT | EF__IN_UPCAST))
        return false;
    while (*end)
        end = &(*end)->next;
    *end = upcast;
    return true;
}

static bool parse_migration(ef__parser *p, ef__span span)
{
    ef__migration **end = &p->program->migrations;
    ef__migration *migration = ef__parse_alloc(p, sizeof *migration);

    if (!migration || !parse_from_to(p, &migration->from, &migration->to))
        return false;
    migration->span = ef__span_join(span, p->last);
    if (!ef__parse_expect_line_end(p) ||
        !ef__parse_block(p, &migration->block, EF__MAY_VIEW | EF__IN_MIGRATE))
        return false;
    while (*end)
        end = &(*end)->next;
    *end = migration;
    return true;
}

static bool parse_alias(ef__parser *p)
{
    ef__alias **end = &p->program->aliases;
    ef__alias *alias = ef__parse_alloc(p, sizeof *alias);
    ef__span to_span;

    if (!alias || !parse_type(p, "an event type", &alias->from, &alias->span) ||
        !ef__parse_expect(p, "=", "\"=\" and the type that is meant") ||
        !parse_type(p, "an event type", &alias->to, &to_span) || !ef__parse_expect_line_end(p))
        return false;
    while (*end)
        end = &(*end)->next;
    *end = alias;
    return true;
}

static bool parse_item(ef__parser *p)
{
    static const char *const words[] = {"on", "upcast", "alias", "migrate"};
    ef__span span = p->token.span;

    if (ef__parse_accept_word(p, "on"))
        return parse_handler(p, span);
    if (ef__parse_accept_word(p, "upcast"))
        return parse_upcast(p, span);
    if (ef__parse_accept_word(p, "migrate"))
        return parse_migration(p, span);
    if (ef__parse_accept_word(p, "alias"))
        return parse_alias(p);
    if (ef__token_word(&p->token, "projection"))
        ef__parse_error(p, span, NULL, "one text holds one projection");
    else if (p->token.kind == EF__TOKEN_INDENT)
        ef__parse_error(p, span, NULL, "this line is indented, and nothing above it opens a block");
    else
        ef__parse_unexpected(p, "on, upcast, alias or migrate",
                             p->token.kind == EF__TOKEN_NAME ? ef__suggest(p->token.text, words, 4)
                                                             : NULL);
    return false;
}

void ef__parse_program(ef__parser *p)
{
    int32_t items = 0;

    if (!parse_head(p) && p->token.kind != EF__TOKEN_END) {
        /* The settings below a broken head are still settings. */
        while (p->token.kind != EF__TOKEN_NEWLINE && p->token.kind != EF__TOKEN_END)
            ef__parse_advance(p);
        if (p->token.kind == EF__TOKEN_NEWLINE)
            ef__parse_advance(p);
    }
    parse_settings(p);
    while (p->token.kind != EF__TOKEN_END && !p->no_memory) {
        size_t taken = p->taken;

        if (++items > EF_FOLD_LIMIT_HANDLERS) {
            ef__parse_error(p, p->token.span, NULL, "a program has at most %d handlers and blocks",
                            EF_FOLD_LIMIT_HANDLERS);
            return;
        }
        if (p->token.kind == EF__TOKEN_DEDENT || p->token.kind == EF__TOKEN_NEWLINE)
            ef__parse_advance(p);
        else if (!parse_item(p))
            ef__parse_recover(p, taken);
    }
}
