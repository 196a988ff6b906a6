/*
 * test_fold_explain.c - the graph of a program: equal expressions are one node, and statements
 * depend on what they read.
 */
#include "../../src/base/json.h"
#include "../../src/fold/ast.h"

#include "test.h"

#include <stdlib.h>

static const char shop[] = "projection shop version 2\n"
                           "  order by log\n"
                           "  view data.customer\n"
                           "  index total\n"
                           "\n"
                           "on order.placed when data.amount > 0\n"
                           "  let net = data.amount * 0.8\n"
                           "  total += net\n"
                           "  gross += data.amount\n"
                           "  if total > 100\n"
                           "    status = \"gold\"\n"
                           "  else\n"
                           "    status = \"new\"\n";

static ef__program *compile(const char *text)
{
    static ef__diagnostics found;
    ef_error err = EF_ERROR_INIT;
    ef__program *program;

    CHECK_STATUS(EF_OK, ef__program_compile(EF_STR("t"), ef_str_from(text), &program, &found, &err),
                 &err);
    return program;
}

static void explain(const char *text, ef__explain_as as, ef__buf *out)
{
    ef_error err = EF_ERROR_INIT;
    ef__program *program = compile(text);

    CHECK_STATUS(EF_OK, ef__program_explain(program, as, out, &err), &err);
    ef__program_close(program);
}

TEST(as_text_a_program_shows_its_order_and_what_is_shared)
{
    ef__buf out = EF__BUF_INIT(1 << 20);

    explain(shop, EF__EXPLAIN_TEXT, &out);
    CHECK_TEXT("projection shop version 2\n"
               "  order by log\n"
               "  view data.customer\n"
               "  index total\n"
               "  schema 1\n"
               "\n"
               "on order.placed when data.amount > 0    # line 6, 15 nodes\n"
               "  s0      7  let net = data.amount * 0.8\n"
               "  s1      8  total += net    # after s0 (net)\n"
               "  s2      9  gross += data.amount\n"
               "  s3     10  if total > 100    # after s1 (total)\n"
               "  s4     11    status = \"gold\"\n"
               "            else\n"
               "  s5     13    status = \"new\"    # after s4 (status)\n"
               "  n0         data.amount    # 3 times, computed once per event\n",
               out.ptr);
    ef__buf_release(&out);
}

/* Every edge leads from an existing node to a later one. */
static void check_edge(const ef__json *edge, size_t nodes, size_t statements)
{
    ef_str from = ef__json_get(edge, "from")->text;
    ef_str to = ef__json_get(edge, "to")->text;
    size_t a = strtoul(from.ptr + 1, NULL, 10);
    size_t b = strtoul(to.ptr + 1, NULL, 10);

    CHECK(a < (from.ptr[0] == 'n' ? nodes : statements));
    CHECK(b < (to.ptr[0] == 'n' ? nodes : statements));
    if (from.ptr[0] == to.ptr[0])
        CHECK(a < b);
    CHECK(!(from.ptr[0] == 's' && to.ptr[0] == 'n'));
}

TEST(the_json_graph_has_no_cycle)
{
    ef__buf out = EF__BUF_INIT(1 << 20);
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef_error err = EF_ERROR_INIT;
    ef__json *tree;

    explain(shop, EF__EXPLAIN_JSON, &out);
    CHECK_STATUS(EF_OK, ef__json_parse(ef__buf_str(&out), 1 << 20, &arena, &tree, &err), &err);
    CHECK_STR("shop", ef__json_get(tree, "projection")->text);
    CHECK_STR("log", ef__json_get(tree, "order")->text);
    const ef__json *block = ef__json_get(tree, "blocks")->first;
    const ef__json *edges = ef__json_get(block, "edges");
    size_t nodes = ef__json_get(block, "nodes")->count;
    size_t statements = ef__json_get(block, "statements")->count;
    CHECK_STR("handler", ef__json_get(block, "kind")->text);
    CHECK_INT(15, nodes);
    CHECK_INT(6, statements);
    CHECK(edges->count > 10);
    for (const ef__json *edge = edges->first; edge; edge = edge->next)
        check_edge(edge, nodes, statements);
    ef__arena_release(&arena);
    ef__buf_release(&out);
}

TEST(as_dot_every_brace_closes_and_quotes_are_escaped)
{
    ef__buf out = EF__BUF_INIT(1 << 20);

    explain(shop, EF__EXPLAIN_DOT, &out);
    CHECK(strncmp(out.ptr, "digraph shop {\n", 15) == 0);
    CHECK(strstr(out.ptr, "b0s4 [shape=box, label=\"status = \\\"gold\\\"\"];") != NULL);
    CHECK(strstr(out.ptr, "b0s1 -> b0s3 [style=dashed, label=\"total\"];") != NULL);
    CHECK_TEXT("  }\n}\n", out.ptr + out.len - 6);
    ef__buf_release(&out);
}

TEST(an_expression_of_the_event_that_occurs_twice_is_computed_once)
{
    ef__program *p =
        compile("projection t version 1\non a\n  x = data.a * 2\n  y = 1 + data.a * 2\n");
    const ef__stmt *first = p->handlers->block.first;
    const ef__expr *again = first->next->value->args->next;

    CHECK_INT(first->value->node, again->node);
    CHECK(first->value->memo >= 0);
    CHECK_INT(first->value->memo, again->memo);
    CHECK(first->value->memo != first->value->args->memo);
    CHECK_INT(2, p->handlers->block.memo_count);
    ef__program_close(p);
}

TEST(an_expression_of_the_view_is_shared_within_a_statement_only)
{
    ef__program *p = compile("projection t version 1\non a\n  x = x + x\n  y = x + 1\n");
    const ef__stmt *first = p->handlers->block.first;

    CHECK_INT(first->value->args->node, first->value->args->next->node);
    CHECK(first->value->args->node != first->next->value->args->node);
    CHECK_INT(-1, first->value->args->memo);
    CHECK_INT(0, p->handlers->block.memo_count);
    ef__program_close(p);
}

TEST(an_upcast_caches_no_value_of_the_event_that_it_changes)
{
    ef__program *p =
        compile("projection t version 1\non a\n  n = 1\nupcast a from 1 to 2\n"
                "  data.x = data.y + 1\n  data.y = data.y + 1\n  data.z = data.y + 1\n");
    const ef__stmt *first = p->upcasts->block.first;

    CHECK_INT(0, p->upcasts->block.memo_count);
    CHECK_INT(-1, first->value->memo);
    CHECK(first->value->node != first->next->next->value->node);
    ef__program_close(p);
}

TEST(writes_to_the_same_field_stay_in_order)
{
    ef__buf out = EF__BUF_INIT(1 << 20);

    explain(
        "projection t version 1\non a\n  a.b = 1\n  a[data.k] = 2\n  x = a.c\n  y = b\n  delete\n"
        "  b = 1\n",
        EF__EXPLAIN_TEXT, &out);
    CHECK(strstr(out.ptr, "a[data.k] = 2    # after s0 (a[data.k])") != NULL);
    CHECK(strstr(out.ptr, "x = a.c    # after s1 (a.c)\n") != NULL);
    CHECK(strstr(out.ptr, "y = b\n") != NULL);
    CHECK(strstr(out.ptr, "delete    # after s0 (the view), s1 (the view)") != NULL);
    ef__buf_release(&out);
}

TEST(an_explanation_past_the_limit_is_refused)
{
    ef__buf out = EF__BUF_INIT(100);
    ef_error err = EF_ERROR_INIT;
    ef__program *program = compile(shop);

    CHECK_STATUS(EF_TOO_LARGE, ef__program_explain(program, EF__EXPLAIN_JSON, &out, &err), &err);
    ef__program_close(program);
    ef__buf_release(&out);
}

TEST_MAIN(TEST_CASE(as_text_a_program_shows_its_order_and_what_is_shared),
          TEST_CASE(the_json_graph_has_no_cycle),
          TEST_CASE(as_dot_every_brace_closes_and_quotes_are_escaped),
          TEST_CASE(an_expression_of_the_event_that_occurs_twice_is_computed_once),
          TEST_CASE(an_expression_of_the_view_is_shared_within_a_statement_only),
          TEST_CASE(an_upcast_caches_no_value_of_the_event_that_it_changes),
          TEST_CASE(writes_to_the_same_field_stay_in_order),
          TEST_CASE(an_explanation_past_the_limit_is_refused))
