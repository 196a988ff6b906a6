/*
 * test_jet_subject.c - converts between subjects of JetStream and names.
 */
#include "../../src/journal/jetstream/jet.h"

#include "test.h"

static void check_both_ways(const char *tenant, const char *stream, const char *subject)
{
    ef__arena arena = EF__ARENA_INIT(65536);
    ef__buf made = EF__BUF_INIT(JET_SUBJECT_MAX);
    ef_str back_tenant, back_stream;
    ef_error err = EF_ERROR_INIT;

    CHECK(jet_subject_make(ef_str_from(tenant), ef_str_from(stream), &made));
    CHECK_TEXT(subject, made.ptr);
    CHECK_STATUS(EF_OK, jet_subject_parse(subject, &arena, &back_tenant, &back_stream, &err), &err);
    CHECK(ef_str_equal(ef_str_from(tenant), back_tenant));
    CHECK(ef_str_equal(ef_str_from(stream), back_stream));
    ef__buf_release(&made);
    ef__arena_release(&arena);
}

TEST(a_tenant_and_a_stream_have_one_subject)
{
    check_both_ways("acme", "order.17", "tenant.acme.aggregate.order.17");
    check_both_ways("", "order.17", "tenant._.aggregate.order.17");
    check_both_ways("_", "_._", "tenant.%5F.aggregate.%5F.%5F");
    check_both_ways("a.b", "order-1", "tenant.a%2Eb.aggregate._.order-1");
    check_both_ways("t", ".x", "tenant.t.aggregate._.%2Ex");
    check_both_ways("t", "x.", "tenant.t.aggregate._.x%2E");
    check_both_ways("t", "a.b.c", "tenant.t.aggregate.a.b%2Ec");
    check_both_ways("t", "a*>% b", "tenant.t.aggregate._.a%2A%3E%25%20b");
    check_both_ways("t", "\xc3\xa9.1", "tenant.t.aggregate.%C3%A9.1");
}

TEST(another_spelling_of_a_subject_is_refused)
{
    static const char *const wrong[] = {
        "tenant.a.aggregate.order",    "tenant.a.aggregate.order.1.2",
        "tenant.a.aggregates.order.1", "tenants.a.aggregate.order.1",
        "tenant.a.aggregate..1",       "tenant.%61.aggregate.order.1",
        "tenant.a.aggregate._.a%2Eb",  "tenant.a.aggregate.a%2Eb.c",
        "tenant.a.aggregate.a.%",      ""};
    ef_str tenant, stream;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ef__arena arena = EF__ARENA_INIT(65536);
        CHECK_STATUS(EF_BAD_INPUT, jet_subject_parse(wrong[i], &arena, &tenant, &stream, NULL),
                     NULL);
        ef__arena_release(&arena);
    }
}

static void check_filter(const char *given, const char *expected)
{
    char out[JET_SUBJECT_MAX] = "";

    CHECK_STATUS(expected ? EF_OK : EF_BAD_INPUT, jet_filter_parse(ef_str_from(given), out, NULL),
                 NULL);
    if (expected)
        CHECK_TEXT(expected, out);
}

TEST(a_filter_is_a_part_of_what_can_be_an_event)
{
    check_filter("tenant.>", "tenant.*.aggregate.*.*");
    check_filter(">", "tenant.*.aggregate.*.*");
    check_filter("tenant.acme.>", "tenant.acme.aggregate.*.*");
    check_filter("tenant.*.aggregate.order.*", "tenant.*.aggregate.order.*");
    check_filter("tenant.*.aggregate.order.>", "tenant.*.aggregate.order.*");
    check_filter("orders.>", NULL);
    check_filter("tenant.*.aggregate", NULL);
    check_filter("tenant..aggregate.*.*", NULL);
    check_filter("", NULL);
}

TEST(a_filter_is_restricted_to_a_tenant)
{
    char out[JET_SUBJECT_MAX];

    CHECK(jet_filter_tenant("tenant.*.aggregate.order.*", EF_STR("a.b"), out));
    CHECK_TEXT("tenant.a%2Eb.aggregate.order.*", out);
    CHECK(jet_filter_tenant("tenant.acme.aggregate.*.*", EF_STR("acme"), out));
    CHECK(!jet_filter_tenant("tenant.acme.aggregate.*.*", EF_STR("globex"), out));
    CHECK(jet_filter_has("tenant.*.aggregate.order.*", "tenant.a.aggregate.order.1"));
    CHECK(!jet_filter_has("tenant.*.aggregate.order.*", "tenant.a.aggregate.cart.1"));
}

TEST(a_jetstream_url_is_parsed_and_printed_without_its_password)
{
    jet_address a;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(
        EF_OK,
        jet_address_parse("tls://u:secret@h:4222/EVENTS?batch=7&subject=tenant.a.>", &a, &err),
        &err);
    CHECK_TEXT("tls://h:4222/EVENTS", a.shown);
    CHECK_TEXT("tls://u:secret@h:4222", a.server);
    CHECK_TEXT("EVENTS", a.stream);
    CHECK_TEXT("tenant.a.aggregate.*.*", a.filter);
    CHECK_INT(7, a.batch);
    CHECK(a.tls);
    CHECK_TEXT("h", a.host);
    CHECK_STATUS(EF_OK, jet_address_parse("nats://u:p@[::1]:4222/EVENTS", &a, &err), &err);
    CHECK_TEXT("::1", a.host);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://[::1/EVENTS", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://:4222/EVENTS", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h/A?ca=/ca.pem", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats:///EVENTS", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://token@h/EVENTS", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h/A.B", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h/A?batch=0", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h/A?batch=x", &a, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, jet_address_parse("nats://h/A?in_flight=9999999", &a, &err), &err);
}

TEST(the_position_of_a_message_is_in_its_reply_subject)
{
    jet_place p;

    CHECK(jet_place_parse("$JS.ACK.S.C.2.17.9.1500000000.3", &p));
    CHECK_INT(17, p.position);
    CHECK_INT(9, p.delivered);
    CHECK_INT(2, p.times);
    CHECK_INT(1500000, p.time_us);
    CHECK_INT(3, p.pending);
    CHECK(jet_place_parse("$JS.ACK.hub.ACC.S.C.1.18.10.1500000000.2.x", &p));
    CHECK_INT(18, p.position);
    CHECK(!jet_place_parse("$JS.ACK.S.C.2", &p));
    CHECK(!jet_place_parse("inbox.1", &p));
    CHECK(!jet_place_parse(NULL, &p));
}

TEST_MAIN(TEST_CASE(a_tenant_and_a_stream_have_one_subject),
          TEST_CASE(another_spelling_of_a_subject_is_refused),
          TEST_CASE(a_filter_is_a_part_of_what_can_be_an_event),
          TEST_CASE(a_filter_is_restricted_to_a_tenant),
          TEST_CASE(a_jetstream_url_is_parsed_and_printed_without_its_password),
          TEST_CASE(the_position_of_a_message_is_in_its_reply_subject))
