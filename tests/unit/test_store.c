/*
 * Showing URLs of stores: a password is never in what is shown.
 */
#include "test.h"

#include <everfold/store.h>

static const char *shown(const char *url)
{
    static char out[200];

    ef_url_show(url, out, sizeof out);
    return out;
}

TEST(a_url_without_a_password_is_shown_as_it_is)
{
    CHECK_TEXT("", shown(""));
    CHECK_TEXT("memory:", shown("memory:"));
    CHECK_TEXT("sqlite:/srv/a:b@c/password=x", shown("sqlite:/srv/a:b@c/password=x"));
    CHECK_TEXT("postgres://u@h:5432/db?sslmode=verify-full",
               shown("postgres://u@h:5432/db?sslmode=verify-full"));
    CHECK_TEXT("postgres:///db", shown("postgres:///db"));
}

TEST(a_password_is_not_shown)
{
    CHECK_TEXT("postgres://u:***@h/db", shown("postgres://u:secret@h/db"));
    CHECK_TEXT("postgres://u:***@h,i:1/db", shown("postgres://u:a@b:c@h,i:1/db"));
    CHECK_TEXT("postgres://h/db?password=***", shown("postgres://h/db?password=secret"));
    CHECK_TEXT("postgres://u:***@h/db?password=***&sslmode=disable&sslpassword=***",
               shown("postgres://u:x@h/db?password=y&sslmode=disable&sslpassword=z"));
}

TEST(a_printed_url_is_cut_at_the_size_of_its_buffer)
{
    char out[12];

    ef_url_show("postgres://user:secret@host/db", out, sizeof out);
    CHECK_TEXT("postgres://", out);
    ef_url_show("memory:", out, 1);
    CHECK_TEXT("", out);
}

TEST(a_file_store_has_no_schema_to_print)
{
    ef_text text = {0};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef_stores_schema("sqlite:j.db", "memory:", &text, &err), &err);
    CHECK_INT(0, text.len);
    EF_RELEASE(&text);
}

TEST_MAIN(TEST_CASE(a_url_without_a_password_is_shown_as_it_is), TEST_CASE(a_password_is_not_shown),
          TEST_CASE(a_printed_url_is_cut_at_the_size_of_its_buffer),
          TEST_CASE(a_file_store_has_no_schema_to_print))
