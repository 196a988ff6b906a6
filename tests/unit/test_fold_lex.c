/*
 * test_fold_lex.c - text as tokens: lines, indents, brackets, and what is no token.
 */
#include "../../src/fold/token.h"

#include "test.h"

/* Tokens separated by spaces: > and < for indents, ; for the end of a line, ! for an invalid one.
 */
static void check_tokens(const char *source, const char *expected)
{
    static const char *const signs[] = {"$", ";", ">", "<", NULL, NULL, NULL, NULL, NULL, "!"};
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__buf seen = EF__BUF_INIT(1 << 16);
    ef__lexer lexer;
    ef__lexeme token;

    ef__lexer_init(&lexer, ef_str_from(source), &arena);
    do {
        CHECK(ef__lexer_next(&lexer, &token));
        if (seen.len > 0)
            ef__buf_add_char(&seen, ' ');
        if (signs[token.kind])
            ef__buf_add_text(&seen, signs[token.kind]);
        else
            ef__buf_add_str(&seen, token.text);
    } while (token.kind != EF__TOKEN_END && seen.len < 1000);
    CHECK_TEXT(expected, seen.ptr);
    ef__buf_release(&seen);
    ef__arena_release(&arena);
}

/* The first invalid token: its location and its message. */
static void check_wrong(const char *source, uint32_t line, uint32_t column, uint32_t length,
                        const char *says)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__lexer lexer;
    ef__lexeme token;

    ef__lexer_init(&lexer, ef_str_from(source), &arena);
    do
        CHECK(ef__lexer_next(&lexer, &token));
    while (token.kind != EF__TOKEN_WRONG && token.kind != EF__TOKEN_END);
    CHECK_INT(EF__TOKEN_WRONG, token.kind);
    CHECK_INT(line, token.span.line);
    CHECK_INT(column, token.span.column);
    CHECK_INT(length, token.span.length);
    if (!strstr(token.wrong, says))
        print_error("\"%s\" does not say \"%s\"\n", token.wrong, says);
    CHECK(strstr(token.wrong, says) != NULL);
    ef__arena_release(&arena);
}

TEST(an_empty_text_is_only_its_end)
{
    check_tokens("", "$");
    check_tokens("\n\n   \n# nothing\n", "$");
}

TEST(a_line_ends_in_a_newline_even_at_the_end_of_the_text)
{
    check_tokens("a", "a ; $");
    check_tokens("a\nb\n", "a ; b ; $");
    check_tokens("a\r\nb\r\n", "a ; b ; $");
}

TEST(deeper_lines_open_a_block_and_shallower_ones_close_it)
{
    check_tokens("a\n  b\n  c\nd", "a ; > b ; c ; < d ; $");
    check_tokens("a\n b\n   c\n d\n", "a ; > b ; > c ; < d ; < $");
    check_tokens("a\n b\n   c\nd", "a ; > b ; > c ; < < d ; $");
}

TEST(blank_lines_and_comments_do_not_affect_blocks)
{
    check_tokens("a\n  b\n\n# x\n      # y\n  c # z\n", "a ; > b ; c ; < $");
}

TEST(lines_continue_inside_brackets)
{
    check_tokens("a = [1,\n 2, # two\n\n   3]\nb", "a = [ 1 , 2 , 3 ] ; b ; $");
    check_tokens("f(\n{a:\n1}\n)", "f ( { a : 1 } ) ; $");
}

TEST(the_longest_operator_is_read)
{
    check_tokens("a+=b-=c<=d>=e==f!=g??h", "a += b -= c <= d >= e == f != g ?? h ; $");
    check_tokens("a<b>c=d.e:f", "a < b > c = d . e : f ; $");
}

TEST(texts_are_unescaped)
{
    check_tokens("\"a\\\"b\\u00e9\\n\"", "a\"b\xc3\xa9\n ; $");
    check_tokens("\"# no comment\"", "# no comment ; $");
}

TEST(numbers_are_exact)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__buf text = EF__BUF_INIT(100);
    ef__lexer lexer;
    ef__lexeme token;

    ef__lexer_init(&lexer, EF_STR("12345678901234567890.123456789012345678"), &arena);
    CHECK(ef__lexer_next(&lexer, &token));
    CHECK_INT(EF__TOKEN_NUMBER, token.kind);
    CHECK(ef__number_format(&token.number, &text));
    CHECK_TEXT("12345678901234567890.123456789012345678", text.ptr);
    ef__buf_release(&text);
    ef__arena_release(&arena);
}

TEST(columns_count_characters)
{
    check_wrong("\"\xc3\xa9\xc3\xa9\" ; x", 1, 6, 1, "ends with its line");
    check_wrong("a\n  \"\xe2\x82\xac", 2, 3, 2, "no closing quote");
}

TEST(an_invalid_token_has_a_reason)
{
    check_wrong("\ta = 1", 1, 1, 1, "this is a tab");
    check_wrong("a =\t1", 1, 4, 1, "this is a tab");
    check_wrong("a && b", 1, 3, 2, "\"&&\" is written as a word");
    check_wrong("a = 'b'", 1, 5, 1, "double quotes");
    check_wrong("a = \"b\\q\"", 1, 5, 5, "not a JSON string");
    check_wrong("a = \"\\ud800\"", 1, 5, 8, "not a JSON string");
    check_wrong("a = 01", 1, 5, 2, "not a JSON number");
    check_wrong("a = 1x", 1, 5, 2, "a name starts");
    check_wrong("a = 1.", 1, 5, 2, "not a JSON number");
    check_wrong("a = 1234567890123456789012345678901234567890", 1, 5, 40, "38");
    check_wrong("gr\xc3\xb6\xc3\x9f"
                "e = 1",
                1, 3, 1, "names consist of");
    check_wrong("a\n    b\n  c", 3, 3, 1, "matches no line above");
    check_wrong("a = (1,\n2", 1, 5, 1, "not closed");
    check_wrong("a @ b", 1, 3, 1, "not allowed");
}

TEST(a_type_is_read_up_to_white_space_or_a_comma)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__lexer lexer;
    ef__lexeme token;

    ef__lexer_init(&lexer, EF_STR("order-v2.2fa/placed:x.*,b"), &arena);
    CHECK(ef__lexer_next(&lexer, &token));
    ef__lexer_type(&lexer, &token);
    CHECK_INT(EF__TOKEN_TYPE, token.kind);
    CHECK_STR("order-v2.2fa/placed:x.*", token.text);
    CHECK(ef__lexer_next(&lexer, &token));
    CHECK(ef__token_is(&token, ","));
    ef__arena_release(&arena);
}

TEST(a_byte_order_mark_is_skipped)
{
    check_tokens("\xef\xbb\xbf"
                 "a\n b",
                 "a ; > b ; < $");
}

TEST_MAIN(TEST_CASE(an_empty_text_is_only_its_end),
          TEST_CASE(a_line_ends_in_a_newline_even_at_the_end_of_the_text),
          TEST_CASE(deeper_lines_open_a_block_and_shallower_ones_close_it),
          TEST_CASE(blank_lines_and_comments_do_not_affect_blocks),
          TEST_CASE(lines_continue_inside_brackets), TEST_CASE(the_longest_operator_is_read),
          TEST_CASE(texts_are_unescaped), TEST_CASE(numbers_are_exact),
          TEST_CASE(columns_count_characters), TEST_CASE(an_invalid_token_has_a_reason),
          TEST_CASE(a_type_is_read_up_to_white_space_or_a_comma),
          TEST_CASE(a_byte_order_mark_is_skipped))
