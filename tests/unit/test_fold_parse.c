/*
 * test_fold_parse.c - parses programs to trees, and refuses texts past the limits.
 */
#include "../../src/fold/ast.h"
#include "../../src/fold/expr.h"

#include "test.h"

static ef__diagnostics found;

static ef__program *compile(const char *text)
{
    ef_error err = EF_ERROR_INIT;
    ef__program *program;

    if (ef__program_compile(EF_STR("t.fold"), ef_str_from(text), &program, &found, &err) != EF_OK)
        print_error("%s\n", err.text);
    CHECK(program != NULL);
    return program;
}

/* The statements of the first handler, printed one to a line. */
static void check_printed(const char *statements, const char *expected)
{
    ef__buf text = EF__BUF_INIT(1 << 16);
    ef__buf out = EF__BUF_INIT(1 << 16);

    ef__buf_printf(&text, "projection t version 1\non a\n  view[\"any\"][type] = 1\n%s",
                   statements);
    ef__buf_add_text(&text, "  view = {a: 1}\n");
    ef__program *program = compile(text.ptr);
    for (const ef__stmt *s = program->handlers->block.first->next; s->next; s = s->next) {
        ef__stmt_print(s, &out);
        ef__buf_add_char(&out, '\n');
    }
    CHECK_TEXT(expected, out.ptr);
    ef__program_close(program);
    ef__buf_release(&text);
    ef__buf_release(&out);
}

static void check_query(const char *text, const char *expected)
{
    ef_error err = EF_ERROR_INIT;
    ef__buf out = EF__BUF_INIT(1 << 16);
    ef__filter *filter;

    CHECK_STATUS(EF_OK, ef__filter_compile(ef_str_from(text), &filter, &found, &err), &err);
    ef__expr_print(filter->expr, &out);
    CHECK_TEXT(expected, out.ptr);
    ef__filter_close(filter);
    ef__buf_release(&out);
}

/* The expression fully in brackets, so that the binding can be seen. */
static void bracket(const ef__expr *expr, ef__buf *out)
{
    const char *sign = ef__expr_operator(expr->kind);

    if (sign) {
        ef__buf_add_char(out, '(');
        bracket(expr->args, out);
        ef__buf_printf(out, " %s ", sign);
        bracket(expr->args->next, out);
        ef__buf_add_char(out, ')');
    } else if (expr->kind == EF__EXPR_NOT || expr->kind == EF__EXPR_NEGATE) {
        ef__buf_add_text(out, expr->kind == EF__EXPR_NOT ? "(not " : "(-");
        bracket(expr->args, out);
        ef__buf_add_char(out, ')');
    } else {
        ef__expr_print(expr, out);
    }
}

TEST(operators_bind_as_documented)
{
    static const struct {
        const char *text, *bound;
    } cases[] = {
        {"a + b * c", "(a + (b * c))"},
        {"a - b - c", "((a - b) - c)"},
        {"a / b * c % d", "(((a / b) * c) % d)"},
        {"a ?? 0 + 1", "((a ?? 0) + 1)"},
        {"a ?? b ?? c", "(a ?? (b ?? c))"},
        {"-a ?? 0", "(-(a ?? 0))"},
        {"a ?? -1", "(a ?? -1)"},
        {"- -a", "(-(-a))"},
        {"a - -1", "(a - -1)"},
        {"not a == b", "(not (a == b))"},
        {"not a and b", "((not a) and b)"},
        {"a or b and c or d", "((a or (b and c)) or d)"},
        {"a + 1 > b and c in [1]", "(((a + 1) > b) and (c in [1]))"},
        {"(a or b) and c", "((a or b) and c)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ef__buf out = EF__BUF_INIT(1000);
        ef_error err = EF_ERROR_INIT;
        ef__filter *filter;

        CHECK_STATUS(EF_OK, ef__filter_compile(ef_str_from(cases[i].text), &filter, &found, &err),
                     &err);
        bracket(filter->expr, &out);
        CHECK_TEXT(cases[i].bound, out.ptr);
        ef__filter_close(filter);
        ef__buf_release(&out);
    }
}

TEST(a_printed_expression_parses_to_the_same_expression)
{
    static const char *const cases[] = {
        "a - (b - c)",
        "(a or b) and not (c and d)",
        "(if a then 1 else 2) + 3",
        "if a then if b then 1 else 2 else 3",
        "(a == b) == true",
        "(a ?? {}).b ?? (-1)",
        "{a: [1, null, true], \"b c\": {}}.a[0]",
        "a[\"b c\"].d[-1][e.f]",
        "first(a).b + count([1, 2])",
        "format(\"{} \\\"of\\\" {}\", a, view_id) in view",
        "(a ?? b) ?? c",
        "(not a) == b",
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ef__filter *once, *twice;
        ef__buf text = EF__BUF_INIT(1000);

        CHECK_INT(EF_OK, ef__filter_compile(ef_str_from(cases[i]), &once, &found, NULL));
        ef__expr_print(once->expr, &text);
        CHECK_INT(EF_OK, ef__filter_compile(ef__buf_str(&text), &twice, &found, NULL));
        if (!ef__expr_equal(once->expr, twice->expr))
            print_error("%s is not %s\n", cases[i], text.ptr);
        CHECK(ef__expr_equal(once->expr, twice->expr));
        CHECK(ef__expr_hash(once->expr) == ef__expr_hash(twice->expr));
        ef__filter_close(once);
        ef__filter_close(twice);
        ef__buf_release(&text);
    }
}

TEST(every_statement_is_read)
{
    check_printed("  a.b = 1\n", "a.b = 1\n");
    check_printed("  a += data.x\n  a -= 2.50\n", "a += data.x\na -= 2.5\n");
    check_printed("  a push {x: 1} keep 3\n", "a push {x: 1} keep 3\n");
    check_printed("  a add \"x\"\n  a remove \"x\"\n", "a add \"x\"\na remove \"x\"\n");
    check_printed("  unset a[\"b c\"]\n", "unset a[\"b c\"]\n");
    check_printed("  let x = seq\n  a = x\n", "let x = seq\na = x\n");
    check_printed("  for i in data.items when i.ok view i.sku\n    a += i.n\n",
                  "for i in data.items when i.ok view i.sku\n");
    check_printed("  view data.other\n    a = 1\n", "view data.other\n");
    check_printed("  view.type = type\n", "view.type = type\n");
    check_printed("  push push push keep 2\n", "push push push keep 2\n");
    check_printed("  a = lookup(\"other one\", id).b\n", "a = lookup(\"other one\", id).b\n");
}

TEST(names_are_resolved_let_first_then_event_then_view)
{
    ef__program *p = compile("projection t version 1\non a\n  total = 1\n  let x = total + seq\n"
                             "  total = x\n  for y in data.list\n    total += y\n");
    const ef__stmt *let = p->handlers->block.first->next;

    CHECK_INT(EF__ROOT_VIEW, let->value->args->root);
    CHECK_INT(EF__ROOT_SEQ, let->value->args->next->root);
    CHECK_INT(EF__ROOT_LET, let->next->value->root);
    CHECK_INT(let->slot, let->next->value->slot);
    CHECK_INT(EF__ROOT_LOOP, let->next->next->body->value->root);
    CHECK_INT(let->next->next->slot, let->next->next->body->value->slot);
    CHECK_INT(2, p->handlers->block.slot_count);
    ef__program_close(p);
}

TEST(the_head_is_read)
{
    ef__program *p = compile("projection shop version 12\n  order by log\n  view data.k\n"
                             "  index total, by.day\n  schema 3\n\non a.b, c.*, *\n  total = 1\n"
                             "  by.day = lookup(x, id).n\n\nalias old-1 = a.b\n");

    CHECK_STR("shop", ef__program_name(p));
    CHECK_INT(12, ef__program_version(p));
    CHECK_INT(3, ef__program_schema(p));
    CHECK(ef__program_by_log(p));
    CHECK_INT(2, ef__program_index_count(p));
    CHECK_STR("by.day", ef__program_index(p, 1));
    CHECK_STR("a.b", p->handlers->patterns->text);
    CHECK(!p->handlers->patterns->prefix);
    CHECK_STR("c.", p->handlers->patterns->next->text);
    CHECK(p->handlers->patterns->next->prefix);
    CHECK_STR("", p->handlers->patterns->next->next->text);
    CHECK(p->handlers->patterns->next->next->prefix);
    CHECK_STR("old-1", p->aliases->from);
    CHECK_STR("x", p->lookups->name);
    CHECK(p->lookups->next == NULL);
    CHECK_STR("a.b", ef__program_route(p, EF_STR("old-1"))->type);
    CHECK_STR("t.fold", p->file);
    ef__program_close(p);
}

typedef struct shown {
    char text[64];
} shown;

/* The numbers of the handlers that are tried for an event stored with this type. */
static shown handlers_of(const ef__program *p, ef_str stored)
{
    const ef__type_route *route = ef__program_route(p, stored);
    const ef__handler *h;
    shown out = {""};
    size_t at = 0;

    while ((h = ef__route_next(route, stored, &at)) != NULL)
        sprintf(out.text + strlen(out.text), "%d ", h->number);
    return out;
}

TEST(handlers_are_found_in_their_order)
{
    ef__program *p =
        compile("projection t version 1\non a.b when seq > 1\n  n = 1\non a.*\n  n = 2\n"
                "on *\n  n = 3\n");

    CHECK_STR("0 1 2 ", ef_str_from(handlers_of(p, EF_STR("a.b")).text));
    CHECK_STR("1 2 ", ef_str_from(handlers_of(p, EF_STR("a.c")).text));
    CHECK_STR("2 ", ef_str_from(handlers_of(p, EF_STR("a")).text));
    CHECK_STR("2 ", ef_str_from(handlers_of(p, EF_STR("")).text));
    ef__program_close(p);
}

TEST(a_type_without_a_handler_is_not_handled)
{
    ef__program *p = compile("projection t version 1\non a.b\n  n = 1\nalias x = a.b\n");

    CHECK_STR("0 ", ef_str_from(handlers_of(p, EF_STR("a.b")).text));
    CHECK_STR("0 ", ef_str_from(handlers_of(p, EF_STR("x")).text));
    CHECK_STR("", ef_str_from(handlers_of(p, EF_STR("a.bc")).text));
    CHECK_STR("", ef_str_from(handlers_of(p, EF_STR("a.")).text));
    ef__program_close(p);
}

TEST(a_handler_knows_whether_it_needs_the_events_own_view)
{
    ef__program *p = compile("projection t version 1\non a\n  for i in data.l view i\n    n += 1\n"
                             "on b\n  n += 1\non c when n > 1\n  view id\n    n = 2\n"
                             "on d\n  view id\n    delete\non e\n  if true\n    delete\n");
    static const bool expected[] = {false, true, true, false, true};
    size_t i = 0;

    for (const ef__handler *h = p->handlers; h; h = h->next)
        CHECK_INT(expected[i++], h->uses_view);
    CHECK_INT(5, i);
    ef__program_close(p);
}

TEST(an_index_is_named_as_a_query_would_write_it)
{
    ef__program *p =
        compile("projection t version 1\n  index view.total, a[\"b c\"], view[\"in\"], type\n"
                "on a\n  total = 1\n  a = {}\n  view[\"in\"] = 1\n  view.type = type\n");

    CHECK_INT(4, ef__program_index_count(p));
    CHECK_STR("total", ef__program_index(p, 0));
    CHECK_STR("a[\"b c\"]", ef__program_index(p, 1));
    CHECK_STR("view.in", ef__program_index(p, 2));
    CHECK_STR("type", ef__program_index(p, 3));
    for (size_t i = 0; i < 4; i++) {
        ef__filter *filter;
        CHECK_INT(EF_OK, ef__filter_compile(ef__program_index(p, i), &filter, &found, NULL));
        ef__filter_close(filter);
    }
    ef__program_close(p);
}

TEST(the_example_of_every_function_compiles)
{
    for (size_t i = 0; i < EF__FN_COUNT_ALL; i++) {
        ef__buf text = EF__BUF_INIT(1000);

        CHECK_INT(i, ef__functions[i].id);
        CHECK(ef__function_find(ef_str_from(ef__functions[i].name)) == &ef__functions[i]);
        ef__buf_printf(&text, "projection t version 1\non a\n  x = %s\n", ef__functions[i].example);
        ef__program *p = compile(text.ptr);
        CHECK_INT(0, found.count);
        CHECK(p->handlers->block.first->value->function == &ef__functions[i]);
        ef__program_close(p);
        ef__buf_release(&text);
    }
}

TEST(the_program_hash_covers_tokens_and_not_their_layout)
{
    static const char *const same[] = {
        "projection t version 1\non a\n  n = [1, 2]\n",
        "# a comment\nprojection   t version 1\n\n\non a # x\n        n=[1,\n2]\n",
        "projection t version 1\r\non a\r\n  n = [1, 2]",
    };
    static const char *const other[] = {
        "projection t version 2\non a\n  n = [1, 2]\n",
        "projection t version 1\non a\n  n = [12]\n",
        "projection t version 1\non a\n  n = [1, \"2\"]\n",
        "projection t version 1\non a\n  n = [1, 2]\n  m = 1\n",
    };
    ef__program *first = compile(same[0]);

    CHECK_INT(64, ef__program_hash(first).len);
    for (size_t i = 0; i < 3; i++) {
        ef__program *p = compile(same[i]);
        CHECK(ef_str_equal(ef__program_hash(first), ef__program_hash(p)));
        ef__program_close(p);
    }
    for (size_t i = 0; i < 4; i++) {
        ef__program *p = compile(other[i]);
        CHECK(!ef_str_equal(ef__program_hash(first), ef__program_hash(p)));
        ef__program_close(p);
    }
    ef__program_close(first);
}

TEST(a_bare_name_in_a_query_is_a_field_of_the_view)
{
    check_query("type == \"a\" and total > 1.50", "type == \"a\" and total > 1.5");
    check_query("  view_id in [\"a\"]\n", "view_id in [\"a\"]");
    check_query("last_event_sequence >= 7 or view[\"in\"] == 1",
                "last_event_sequence >= 7 or view.in == 1");
}

TEST(texts_and_chains_past_the_limits_are_refused)
{
    ef_error err = EF_ERROR_INIT;
    ef__buf text = EF__BUF_INIT(EF_FOLD_LIMIT_SOURCE_BYTES + 10);
    ef__filter *filter;
    ef__program *program;

    for (int i = 0; i < 3000; i++)
        ef__buf_add_text(&text, "(");
    CHECK_STATUS(EF_BAD_INPUT, ef__filter_compile(ef__buf_str(&text), &filter, &found, &err), &err);
    ef__buf_reset(&text);
    for (int i = 0; i < 3000; i++)
        ef__buf_add_text(&text, "-");
    CHECK_STATUS(EF_BAD_INPUT, ef__filter_compile(ef__buf_str(&text), &filter, &found, &err), &err);
    ef__buf_reset(&text);
    for (int i = 0; i < 3000; i++)
        ef__buf_add_text(&text, "a+");
    ef__buf_add_text(&text, "a");
    CHECK_STATUS(EF_BAD_INPUT, ef__filter_compile(ef__buf_str(&text), &filter, &found, &err), &err);
    CHECK(strstr(err.text, "too long a chain") != NULL);
    while (text.len <= EF_FOLD_LIMIT_SOURCE_BYTES)
        ef__buf_add_char(&text, '#');
    CHECK_STATUS(EF_TOO_LARGE,
                 ef__program_compile(EF_STR(""), ef__buf_str(&text), &program, &found, &err), &err);
    CHECK(program == NULL);
    ef__buf_release(&text);
}

TEST_MAIN(TEST_CASE(operators_bind_as_documented),
          TEST_CASE(a_printed_expression_parses_to_the_same_expression),
          TEST_CASE(every_statement_is_read),
          TEST_CASE(names_are_resolved_let_first_then_event_then_view), TEST_CASE(the_head_is_read),
          TEST_CASE(handlers_are_found_in_their_order),
          TEST_CASE(a_type_without_a_handler_is_not_handled),
          TEST_CASE(a_handler_knows_whether_it_needs_the_events_own_view),
          TEST_CASE(an_index_is_named_as_a_query_would_write_it),
          TEST_CASE(the_example_of_every_function_compiles),
          TEST_CASE(the_program_hash_covers_tokens_and_not_their_layout),
          TEST_CASE(a_bare_name_in_a_query_is_a_field_of_the_view),
          TEST_CASE(texts_and_chains_past_the_limits_are_refused))
