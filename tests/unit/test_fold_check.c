/*
 * test_fold_check.c - programs with mistakes, and their diagnostics.
 */
#include "../../src/fold/fold.h"

#include "test.h"

static ef__diagnostics found;

typedef struct mistake {
    const char *body; /* of `on a`, when it begins with a space; else all below the head */
    uint32_t line, column, length;
    const char *says;
    const char *suggestion;
} mistake;

static void compile(const char *text, ef__program **out)
{
    ef__buf source = EF__BUF_INIT(1 << 18);
    ef_error err = EF_ERROR_INIT;

    ef__buf_printf(&source, "%s%s%s",
                   strncmp(text, "projection", 10) == 0 ? "" : "projection t version 1\n",
                   text[0] == ' ' ? "on a\n" : "", text);
    ef_status st = ef__program_compile(EF_STR("t.fold"), ef__buf_str(&source), out, &found, &err);
    CHECK_INT(found.errors > 0 ? EF_BAD_INPUT : EF_OK, st);
    CHECK((*out == NULL) == (st != EF_OK));
    ef__buf_release(&source);
}

static void check_found(const mistake *m, ef__severity severity)
{
    ef__program *program;

    compile(m->body, &program);
    if (found.count == 0)
        print_error("nothing was found in: %s\n", m->body);
    CHECK(found.count > 0);
    const ef__diagnostic *first = &found.items[0];
    if (!strstr(first->message, m->says) || first->span.line != m->line ||
        first->span.column != m->column || first->span.length != m->length)
        print_error("%s\n%u:%u+%u %s; %s?\n", m->body, first->span.line, first->span.column,
                    first->span.length, first->message, first->suggestion);
    CHECK(strstr(first->message, m->says) != NULL);
    CHECK_INT(m->line, first->span.line);
    CHECK_INT(m->column, first->span.column);
    CHECK_INT(m->length, first->span.length);
    CHECK_TEXT(m->suggestion, first->suggestion);
    CHECK_INT(severity, first->severity);
    ef__program_close(program);
}

static void check_all(const mistake *list, size_t count, ef__severity severity)
{
    for (size_t i = 0; i < count; i++)
        check_found(&list[i], severity);
}

#define CHECK_ALL(list, severity) check_all(list, sizeof(list) / sizeof *(list), severity)

TEST(names_that_do_not_exist_are_errors_with_a_suggestion)
{
    static const mistake list[] = {
        {" total = totl + 1\n", 3, 10, 4, "there is no \"totl\"", "total"},
        {" total = dta.amount\n", 3, 10, 10, "there is no \"dta\"", "data"},
        {" n = lenght(type)\n", 3, 6, 6, "there is no function \"lenght\"", "length"},
        {" n = frobnicate(1)\n", 3, 6, 10, "there is no function", ""},
        {" n psh 1\n", 3, 4, 3, "expected =, +=, -=, push, add or remove", "push"},
        {" n == 1\n", 3, 4, 2, "expected =", "="},
        {"onn a\n n = 1\n", 2, 1, 3, "expected on, upcast, alias or migrate", "on"},
        {"projection t version 1\n  oder by log\non a\n n = 1\n", 2, 3, 4, "expected order",
         "order"},
        {"projection t version 1\n  order by lgo\non a\n n = 1\n", 2, 12, 3, "expected \"stream\"",
         "log"},
        {"projection t vresion 1\non a\n n = 1\n", 1, 14, 7, "expected \"version N\"", "version"},
        {"projection t version 1\n  index m\non a\n n = 1\n", 2, 9, 1, "there is no \"m\"", ""},
        {"projection t version 1\n  view customer\non a\n n = 1\n", 2, 8, 8,
         "would be a field of the view", "data.customer"},
        {"on a when n > 1 and b == 1\n n = 1\n", 2, 21, 1, "there is no \"b\"", ""},
        {" n = 1\n unset x_y_z\n", 4, 8, 5, "there is no \"x_y_z\"", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(texts_that_are_not_programs_are_errors)
{
    static const mistake list[] = {
        {"projection t version 1\n", 1, 12, 1, "no handler", ""},
        {"projection t version 0\non a\n n = 1\n", 1, 22, 1, "a whole number from 1", ""},
        {"projection if version 1\non a\n n = 1\n", 1, 12, 2, "the projection's name", ""},
        {"on a\n", 3, 1, 1, "statements below, indented deeper", ""},
        {"on a b\n n = 1\n", 2, 6, 1, "expected the end of the line", ""},
        {"on a.*b\n n = 1\n", 2, 4, 4, "a * must be alone, or at the end", ""},
        {"on a*\n n = 1\n", 2, 4, 2, "a * must be alone, or at the end", ""},
        {"on \"a b\"\n n = 1\n", 2, 4, 5, "has a space", ""},
        {"alias b = c\n  n = 1\non a\n n = 1\n", 3, 3, 1, "nothing above it opens a block", ""},
        {" n = \n", 3, 6, 1, "expected a value, found the end of the line", ""},
        {" n = 1 2\n", 3, 8, 1, "expected the end of the line, found \"2\"", ""},
        {" n = [1, 2\n m = 1\n", 4, 2, 1, "expected \",\" or \"]\"", ""},
        {" n = {a 1}\n", 3, 9, 1, "\":\" after a key", ""},
        {" n = {a: 1, a: 2}\n", 3, 13, 1, "the key \"a\" is there twice", ""},
        {" n = 1 < 2 < 3\n", 3, 12, 1, "comparisons do not chain", ""},
        {" n = if true then 1\n", 3, 20, 1, "an if that is a value has both sides", ""},
        {" if true then n = 1\n", 3, 10, 4, "without \"then\"", ""},
        {" n = 1\n   m = 2\n", 4, 4, 1, "indented deeper than the one above", ""},
        {" else\n  n = 1\n", 3, 2, 4, "this else has no if", ""},
        {" n push 1 keep 0\n", 3, 16, 1, "keep is a whole number from 1 to", ""},
        {" n push 1 keep m\n", 3, 16, 1, "expected keep", ""},
        {"\tn = 1\n", 2, 1, 1, "this is a tab", ""},
        {" n = substr(\"a\")\n", 3, 6, 11, "substr takes 2 to 3 arguments, not 1", ""},
        {" n = lower()\n", 3, 6, 7, "lower takes 1 argument, not 0", ""},
        {" n = data.\n", 3, 11, 1, "a field after \".\"", ""},
        {" n = data[1.5]\n", 3, 11, 3, "an index is a whole number", ""},
        {"projection t version 1\n  schema 2\n  schema 3\non a\n n = 1\n", 3, 3, 6, "set twice",
         ""},
        {"on a\n n = 1\nprojection u version 1\n", 4, 1, 10, "one projection", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(writing_to_a_read_only_target_is_an_error)
{
    static const mistake list[] = {
        {" data.x = 1\n", 3, 2, 6, "the event is a fact", ""},
        {" time = 1\n", 3, 2, 4, "view.time", ""},
        {" let x = 1\n x = 2\n", 4, 2, 1, "keeps its value", ""},
        {" let x = 1\n let x = 2\n", 4, 6, 1, "has a value already", ""},
        {" let data = 1\n", 3, 6, 4, "is a field of the event", ""},
        {" for i in data.l\n  i = 1\n", 4, 3, 1, "keeps its value", ""},
        {" unset view\n", 3, 8, 4, "as a whole", ""},
        {"upcast a from 1 to 2\n total = 1\n", 3, 2, 5, "an upcast has no view", "data.total"},
        {"upcast a from 1 to 2\n meta.x = 1\n", 3, 2, 6, "changes data and nothing else", ""},
        {"upcast a from 1 to 2\n delete\n", 3, 2, 6, "in handlers only", ""},
        {"upcast a from 1 to 2\n data.x = lookup(b, id)\n", 3, 11, 6, "in handlers only", ""},
        {"migrate from 1 to 2\n n = data.x\n", 3, 6, 4, "a migration has none", ""},
        {"migrate from 1 to 2\n view id\n  n = 1\n", 3, 2, 4, "in handlers only", ""},
        {" n = [1]\n for i in n\n  m = 1\n", 4, 11, 1, "an array of the event", ""},
        {" n = [1]\n let l = n\n for i in l\n  m = 1\n", 5, 11, 1, "an array of the event", ""},
        {" n = 1\n view n\n  m = 1\n", 4, 7, 1, "cannot depend on a view", "data.n"},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(operands_of_the_wrong_kind_are_errors)
{
    static const mistake list[] = {
        {" n = 1 + \"a\"\n", 3, 6, 7, "cannot add a number and a text", ""},
        {" n += \"a\"\n", 3, 7, 3, "+= needs a number, this is a text", ""},
        {" n = [1] > 2\n", 3, 6, 7, "cannot compare an array with a number", ""},
        {" n = type * 2\n", 3, 6, 4, "* needs a number, this is a text", ""},
        {" n = seq / 0\n", 3, 12, 1, "divides by zero", ""},
        {" n = seq % 0.0\n", 3, 12, 3, "divides by zero", ""},
        {" n = lower(seq)\n", 3, 12, 3, "lower needs a text, this is a number", ""},
        {" n = type.x\n", 3, 10, 2, "type is a text and has no members", ""},
        {" n = count([1]).x\n", 3, 16, 2, "this is a number and has no members", ""},
        {" if 1\n  n = 1\n", 3, 5, 1, "a condition needs a boolean, this is a number", ""},
        {"on a when \"x\"\n n = 1\n", 2, 11, 3, "a condition needs a boolean", ""},
        {" n = not 1\n", 3, 10, 1, "a condition needs a boolean", ""},
        {" n = 1 in 2\n", 3, 11, 1, "in needs a text, an array or an object", ""},
        {" for i in seq\n  n = 1\n", 3, 11, 3, "for needs an array", ""},
        {" view [1]\n  n = 1\n", 3, 10, 1, "expected =", ""},
        {" view {a: 1}\n  n = 1\n", 3, 7, 6, "a view's id needs a number or a text", ""},
        {" let x = \"a\"\n n = x - 1\n", 4, 6, 1, "- needs a number, this is a text", ""},
        {" n = -\"a\"\n", 3, 7, 3, "- needs a number", ""},
        {" view = 1\n", 3, 9, 1, "a view needs an object", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(handlers_that_no_event_reaches_are_errors)
{
    static const mistake list[] = {
        {"on a\n n = 1\non a\n n = 2\n", 4, 1, 4, "the handler in line 2 matches all of them", ""},
        {"on *\n n = 1\non a.b\n n = 2\n", 4, 1, 6, "no event reaches", ""},
        {"on a.*\n n = 1\non a.b.*, a.c\n n = 2\n", 4, 1, 13, "no event reaches", ""},
        {"on a when seq > 1\n n = 1\non a when seq>1\n n = 2\n", 4, 1, 15, "no event reaches", ""},
        {"on a\n n = 1\nalias a = b\n", 2, 4, 1, "is an alias", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(a_suspicious_but_valid_statement_is_a_warning)
{
    static const mistake list[] = {
        {" delete\n n = 1\n", 4, 2, 5, "after delete", ""},
        {" n = type == 1\n", 3, 6, 9, "always false", ""},
        {" n = seq != \"a\"\n", 3, 6, 10, "always true", ""},
        {"on a, a\n n = 1\n", 2, 7, 1, "already", ""},
        {"on a\n n = 1\non a, b\n n = 2\n", 4, 4, 1, "the handler in line 2 matches these", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_WARNING);
}

TEST(schemas_that_do_not_fit_together_are_errors)
{
    static const mistake list[] = {
        {"on a\n n = 1\nupcast a from 1 to 2\n data.x = 1\nupcast a from 3 to 4\n data.x = 1\n", 4,
         1, 20, "there is a gap", ""},
        {"on a\n n = 1\nupcast a from 1 to 2\n data.x = 1\nupcast a from 1 to 3\n data.x = 1\n", 4,
         1, 20, "there is a gap", ""},
        {"on a\n n = 1\nupcast a from 1 to 2\n data.x = 1\nupcast a from 1 to 2\n data.x = 1\n", 6,
         1, 20, "an upcast from 1 already, in line 4", ""},
        {"on a\n n = 1\nupcast a from 2 to 1\n data.x = 1\n", 4, 20, 1, "the version must increase",
         ""},
        {"on a\n n = 1\nmigrate from 1 to 2\n n = 1\n", 4, 1, 19, "say schema 2", ""},
        {"projection t version 1\n schema 3\non a\n n = 1\nmigrate from 1 to 2\n n = 1\n", 5, 1, 19,
         "there is a gap", ""},
        {"on a\n n = 1\nalias b = c\nalias b = d\n", 5, 7, 1, "has an alias already", ""},
        {"on a\n n = 1\nalias b = c\nalias c = a\n", 4, 7, 1, "is an alias itself", ""},
        {"on a\n n = 1\nalias b = b\n", 4, 7, 1, "refers to itself", ""},
        {"projection t version 1\n index n, n\non a\n n = 1\n", 2, 11, 1, "indexed already", ""},
        {" n = lookup(t, id)\n", 3, 13, 1, "cannot look itself up", ""},
    };
    CHECK_ALL(list, EF__SEVERITY_ERROR);
}

TEST(programs_without_a_mistake_have_no_diagnostics)
{
    static const char *const list[] = {
        " n = 1\n",
        " n = data.a + data.b\n",
        " n = type + \" \" + id\n",
        " view[data.key] = 1\n n = anything\n",
        " view = merge(view, data)\n n = other\n",
        "on a when seq > 1\n n = 1\non a\n n = 2\non *\n n = 3\n",
        "on a\n n = 1\nupcast a from 1 to 2\n data.x = 1\nupcast a from 2 to 3\n for i in data.l\n"
        "  data.n = (data.n ?? 0) + i\n",
        "projection t version 1\n schema 2\non a\n n = 1\nmigrate from 1 to 2\n n = old\n unset "
        "old\n",
        " if data.a\n  n = 1\n else if data.b\n  n = 2\n else\n  n = 3\n",
        " let x = data.x\n if x > 1\n  let y = x\n  n = y\n else\n  let y = 2\n  n = y\n",
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        ef__program *program;
        compile(list[i], &program);
        if (found.count > 0)
            print_error("%s\n%s\n", list[i], found.items[0].message);
        CHECK_INT(0, found.count);
        ef__program_close(program);
    }
}

TEST(one_run_finds_several_mistakes_in_the_order_of_the_source)
{
    ef__program *program;

    compile("on a\n n = \n m = 1\n o psh 2\non b\n if\n  p = 1\n q = 'x'\n", &program);
    CHECK_INT(4, found.count);
    CHECK_INT(3, found.items[0].span.line);
    CHECK_INT(5, found.items[1].span.line);
    CHECK_INT(7, found.items[2].span.line);
    CHECK_INT(9, found.items[3].span.line);
}

TEST(past_twenty_diagnostics_they_are_counted)
{
    ef__buf text = EF__BUF_INIT(10000);
    ef__program *program;

    for (int i = 0; i < 50; i++)
        ef__buf_add_text(&text, " n psh 1\n");
    compile(text.ptr, &program);
    CHECK_INT(20, found.count);
    CHECK_INT(30, found.left_out);
    CHECK_INT(50, found.errors);
    ef__buf_release(&text);
}

static void check_rendered(const char *source, const char *expected)
{
    ef__program *program;
    ef__buf out = EF__BUF_INIT(1 << 16);

    (void)ef__program_compile(EF_STR("shop.fold"), ef_str_from(source), &program, &found, NULL);
    CHECK(ef__diagnostics_render(&found, ef_str_from(source), &out));
    CHECK_TEXT(expected, out.ptr);
    ef__buf_release(&out);
    ef__program_close(program);
}

TEST(a_diagnostic_shows_the_line_and_a_caret)
{
    check_rendered("projection t version 1\non a\n  amount = amout + 1\n",
                   "shop.fold:3:12: error: there is no \"amout\" in the event fields, and nothing "
                   "writes it to the view; did you mean \"amount\"?\n"
                   "  amount = amout + 1\n"
                   "           ^~~~~\n");
    check_rendered("projection t version 1\non a\n\tn = 1\n",
                   "shop.fold:3:1: error: this is a tab; use spaces\n"
                   " n = 1\n"
                   "^\n");
    check_rendered("projection t version 1\non a\n  n = \"\xc3\xa9\xc3\xa9\" + nn\n",
                   "shop.fold:3:14: error: there is no \"nn\" in the event fields, and nothing "
                   "writes it to the view; did you mean \"n\"?\n"
                   "  n = \"\xc3\xa9\xc3\xa9\" + nn\n"
                   "             ^~\n");
}

TEST(a_text_that_is_not_utf8_is_refused_at_its_place)
{
    ef__program *program;

    CHECK_INT(EF_BAD_INPUT,
              ef__program_compile(EF_STR("t"), EF_STR("a\n\xc3\xa9 \xff"), &program, &found, NULL));
    CHECK_INT(2, found.items[0].span.line);
    CHECK_INT(3, found.items[0].span.column);
}

TEST(diagnostics_are_json_for_programs)
{
    ef__program *program;
    ef__buf out = EF__BUF_INIT(1 << 16);
    ef__json_writer w = EF__JSON_WRITER(&out);

    compile(" n = lenght(type)\n", &program);
    ef__diagnostics_json(&found, &w);
    CHECK_TEXT("[{\"file\":\"t.fold\",\"line\":3,\"column\":6,\"length\":6,\"severity\":\"error\","
               "\"message\":\"there is no function \\\"lenght\\\"\",\"suggestion\":\"length\"}]",
               out.ptr);
    ef__buf_release(&out);
}

TEST(a_query_with_a_mistake_has_a_diagnostic_with_its_location)
{
    static const struct {
        const char *text;
        uint32_t column;
        const char *says;
    } list[] = {
        {"total >", 8, "expected a value"},
        {"total > 1 and", 14, "expected a value"},
        {"total = 1", 7, "expected the end"},
        {"(a", 1, "not closed"},
        {"a b", 3, "expected the end"},
        {"", 1, "expected a value"},
        {"lookup(x, 1).y == 1", 1, "handlers only"},
        {"1 + \"a\" > 2", 1, "cannot add"},
        {"a == 1\nb == 2", 1, "the end of the"},
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        ef_error err = EF_ERROR_INIT;
        ef__filter *filter;
        CHECK_STATUS(EF_BAD_INPUT,
                     ef__filter_compile(ef_str_from(list[i].text), &filter, &found, &err), &err);
        CHECK(filter == NULL);
        if (!strstr(found.items[0].message, list[i].says))
            print_error("%s: %s\n", list[i].text, found.items[0].message);
        CHECK(strstr(found.items[0].message, list[i].says) != NULL);
        CHECK_INT(list[i].column, found.items[0].span.column);
    }
}

static ef__program *looking(const char *name, const char *into)
{
    ef__buf text = EF__BUF_INIT(1000);
    ef__program *program;

    ef__buf_printf(&text, "projection %s version 1\non a\n n = %s\n", name, into);
    compile(text.ptr, &program);
    CHECK(program != NULL);
    ef__buf_release(&text);
    return program;
}

TEST(programs_that_look_each_other_up_in_a_cycle_are_refused)
{
    ef_error err = EF_ERROR_INIT;
    ef__program *p[] = {looking("a", "lookup(b, id).n"), looking("b", "lookup(c, id).n"),
                        looking("c", "lookup(b, id).n"), looking("d", "lookup(a, id).n")};
    const ef__program *line[] = {p[0], p[1], p[3]};
    const ef__program *circle[] = {p[0], p[1], p[2]};

    CHECK_STATUS(EF_OK, ef__fold_check_cycles(line, 3, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, ef__fold_check_cycles(circle, 3, &err), &err);
    CHECK(strstr(err.text, "b -> c -> b") != NULL);
    CHECK_STATUS(EF_OK, ef__fold_check_cycles(NULL, 0, &err), &err);
    for (size_t i = 0; i < 4; i++)
        ef__program_close(p[i]);
}

TEST_MAIN(TEST_CASE(names_that_do_not_exist_are_errors_with_a_suggestion),
          TEST_CASE(texts_that_are_not_programs_are_errors),
          TEST_CASE(writing_to_a_read_only_target_is_an_error),
          TEST_CASE(operands_of_the_wrong_kind_are_errors),
          TEST_CASE(handlers_that_no_event_reaches_are_errors),
          TEST_CASE(a_suspicious_but_valid_statement_is_a_warning),
          TEST_CASE(schemas_that_do_not_fit_together_are_errors),
          TEST_CASE(programs_without_a_mistake_have_no_diagnostics),
          TEST_CASE(one_run_finds_several_mistakes_in_the_order_of_the_source),
          TEST_CASE(past_twenty_diagnostics_they_are_counted),
          TEST_CASE(a_diagnostic_shows_the_line_and_a_caret),
          TEST_CASE(a_text_that_is_not_utf8_is_refused_at_its_place),
          TEST_CASE(diagnostics_are_json_for_programs),
          TEST_CASE(a_query_with_a_mistake_has_a_diagnostic_with_its_location),
          TEST_CASE(programs_that_look_each_other_up_in_a_cycle_are_refused))
