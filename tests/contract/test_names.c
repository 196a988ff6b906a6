/*
 * Names that must not collide: every pair of odd tenants and streams, and of odd ids.
 */
#include "contract.h"

#define LONG_NAME                                                                                  \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"        \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"        \
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

_Static_assert(sizeof(LONG_NAME) == 256, "a name of 255 bytes");

static const char *const odd[] = {
    "a",          "A",      "a:b",    "a/b",   "a b", " a",      "a ",   "%",      "%25",
    "_",          "*",      "'",      "\"",    "a'b", "--",      ";",    "\\",     "\\0",
    "a\tb",       "a\n",    "0",      "00",    "-1",  "NULL",    "null", "\u00e9", "e\u0301",
    "\U0001F600", "\u00c4", "\u00e4", "a:b:c", "..",  LONG_NAME,
};
enum { ODD = sizeof odd / sizeof odd[0] };

/* Tenants may be empty too; index ODD is that one. */
static ef_str tenant_at(size_t i)
{
    return i == ODD ? str("") : str(odd[i]);
}

CONTRACT(every_pair_of_odd_tenant_and_stream_is_a_stream_of_its_own)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    for (size_t i = 0; i <= ODD; i++)
        for (size_t s = 0; s < ODD; s++) {
            ef_new_event event = {.tenant = tenant_at(i), .stream = str(odd[s]), .type = str("t")};
            ef_place place;
            event.expected_seq = ef_expect_seq(0);
            place = append_event(t, event);
            CHECK_INT(1, place.seq);
        }
    for (size_t i = 0; i <= ODD; i++)
        for (size_t s = 0; s < ODD; s++) {
            OK(ef_journal_read_stream(t->journal, tenant_at(i), str(odd[s]), 1, 10, &batch,
                                      &t->err));
            CHECK_INT(1, batch.count);
            CHECK_INT(i * ODD + s + 1, batch.events[0].position);
            CHECK(ef_str_equal(tenant_at(i), batch.events[0].tenant));
            CHECK(ef_str_equal(str(odd[s]), batch.events[0].stream));
        }
    EF_RELEASE(&batch);
}

CONTRACT(a_character_moved_from_tenant_to_stream_makes_another_stream)
{
    contract *t = *state;
    ef_new_event one = {.tenant = str("ab"), .stream = str("c"), .type = str("t")};
    ef_new_event two = {.tenant = str("a"), .stream = str("bc"), .type = str("t")};
    ef_new_event three = {.tenant = str(""), .stream = str("abc"), .type = str("t")};

    CHECK_INT(1, append_event(t, one).seq);
    CHECK_INT(1, append_event(t, two).seq);
    CHECK_INT(1, append_event(t, three).seq);
}

CONTRACT(odd_ids_are_apart_and_found_again)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    for (size_t i = 0; i <= ODD; i++)
        for (size_t d = 0; d < ODD; d++) {
            ef_new_event event = {.tenant = tenant_at(i), .stream = str("s"), .type = str("t")};
            event.id = str(odd[d]);
            CHECK(!append_event(t, event).duplicate);
        }
    for (size_t i = 0; i <= ODD; i++)
        for (size_t d = 0; d < ODD; d++) {
            OK(ef_journal_read_id(t->journal, tenant_at(i), str(odd[d]), &batch, &t->err));
            CHECK_INT(i * ODD + d + 1, batch.events[0].position);
        }
    EF_RELEASE(&batch);
}

CONTRACT(a_tenant_is_filtered_by_its_whole_name)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    for (size_t i = 0; i <= ODD; i++) {
        ef_new_event event = {.tenant = tenant_at(i), .stream = str("s"), .type = str("t")};
        append_event(t, event);
    }
    for (size_t i = 0; i <= ODD; i++) {
        ef_log_query query = {.tenant = tenant_at(i)};
        OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
        CHECK_INT(1, batch.count);
        CHECK_INT(i + 1, batch.events[0].position);
    }
    EF_RELEASE(&batch);
}

CONTRACT(a_percent_sign_or_underscore_in_a_type_matches_only_itself)
{
    contract *t = *state;
    ef_log_query query = {.type = str("a_*")};
    ef_batch batch = EF_BATCH_INIT;

    append(t, "s", "a_b");
    append(t, "s", "axb");
    append(t, "s", "a%b");
    append(t, "s", "A_b");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(1, batch.count);
    query.type = str("a%b");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_INT(3, batch.events[0].position);
    EF_RELEASE(&batch);
}

CONTRACT(a_name_of_255_bytes_is_accepted_and_one_of_256_is_refused)
{
    contract *t = *state;
    ef_new_event event = {.tenant = str(LONG_NAME),
                          .stream = str(LONG_NAME),
                          .type = str(LONG_NAME),
                          .id = str(LONG_NAME)};

    append_event(t, event);
    event.id = str(LONG_NAME "n");
    CHECK(try_append(t, event, NULL) != EF_OK);
    CHECK_INT(1, head_of(t));
}

CONTRACT_MAIN(CASE(every_pair_of_odd_tenant_and_stream_is_a_stream_of_its_own),
              CASE(a_character_moved_from_tenant_to_stream_makes_another_stream),
              CASE(odd_ids_are_apart_and_found_again), CASE(a_tenant_is_filtered_by_its_whole_name),
              CASE(a_percent_sign_or_underscore_in_a_type_matches_only_itself),
              CASE(a_name_of_255_bytes_is_accepted_and_one_of_256_is_refused))
