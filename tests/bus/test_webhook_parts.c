/*
 * test_webhook_parts.c - which addresses are public, and how a webhook is signed.
 */
#include "test.h"

#include "../../src/bus/bus.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

static bool is_public(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return ef__address_is_public((struct sockaddr *)&four, sizeof four);
    CHECK_INT(1, inet_pton(AF_INET6, text, &six.sin6_addr));
    return ef__address_is_public((struct sockaddr *)&six, sizeof six);
}

static void addresses_of_ones_own_are_not_public(void **state)
{
    static const char *const own[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.1.2.3",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:c0a8:1::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "3fff::1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_public(own[i]))
            fail_msg("%s passes for public", own[i]);
}

static void addresses_of_the_world_are(void **state)
{
    static const char *const world[] = {
        "1.1.1.1",      "9.255.255.255",  "11.0.0.0",         "100.63.255.255",  "100.128.0.0",
        "126.0.0.1",    "128.0.0.1",      "169.253.1.1",      "172.15.0.1",      "172.32.0.1",
        "192.167.1.1",  "198.17.0.1",     "198.20.0.1",       "223.255.255.255", "2606:4700::1111",
        "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2001:4860::8888",
    };
    struct sockaddr_un path = {.sun_family = AF_UNIX};

    (void)state;
    for (size_t i = 0; i < sizeof world / sizeof *world; i++)
        if (!is_public(world[i]))
            fail_msg("%s does not pass for public", world[i]);
    CHECK(!ef__address_is_public((struct sockaddr *)&path, sizeof path));
}

/* The example of the Standard Webhooks specification. */
static void a_signature_is_as_the_convention_has_it(void **state)
{
    char signature[EF__SIGN_TEXT_MAX];

    (void)state;
    CHECK(ef__webhook_sign(EF_STR("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                           EF_STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                           EF_STR("{\"test\": 2432232314}"), signature));
    CHECK_TEXT("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature);
    CHECK(!ef__webhook_sign(EF_STR("whsec_!"), EF_STR("a"), 1, EF_STR("{}"), signature));
    CHECK(ef__webhook_sign(EF_STR("plain"), EF_STR("a"), 1, EF_STR("{}"), signature));
}

static void an_id_cannot_begin_another_header(void **state)
{
    ef__buf out = EF__BUF_INIT(1024);

    (void)state;
    CHECK(ef__bus_header(&out, EF_STR("a\r\nX: 1%\xc3\xa4")));
    CHECK_TEXT("a%0D%0AX:%201%25%C3%A4", out.ptr);
    ef__buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_ones_own_are_not_public),
        cmocka_unit_test(addresses_of_the_world_are),
        cmocka_unit_test(a_signature_is_as_the_convention_has_it),
        cmocka_unit_test(an_id_cannot_begin_another_header),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
