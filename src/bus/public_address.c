/*
 * public_address.c - see public_address.h.
 */
#include "public_address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct range4 {
    uint32_t net;
    int bits;
} range4;

typedef struct range6 {
    uint8_t net[16];
    int bits;
} range6;

/* Special-purpose addresses of IANA, and addresses that do not belong to a single host. */
static const range4 special4[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* shared: carrier-grade NAT */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* link-local: metadata services of clouds */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* protocol assignments */
    {0xc0000200, 24}, /* documentation */
    {0xc0586300, 24}, /* 6to4 relays */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* benchmarks */
    {0xc6336400, 24}, /* documentation */
    {0xcb007100, 24}, /* documentation */
    {0xe0000000, 4},  /* multicast */
    {0xf0000000, 4},  /* reserved, and broadcast */
};

static const range6 special6[] = {
    {{0}, 96},                            /* unspecified, loopback, v4-compatible */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48}, /* translation within a site */
    {{0x01, 0x00}, 64},                   /* discard */
    {{0x20, 0x01, 0x00}, 23},             /* protocol assignments, Teredo among them */
    {{0x20, 0x01, 0x0d, 0xb8}, 32},       /* documentation */
    {{0x3f, 0xff, 0x00}, 20},             /* documentation */
    {{0x5f, 0x00}, 16},                   /* segment routing */
    {{0xfc}, 7},                          /* unique local */
    {{0xfe, 0x80}, 10},                   /* link-local */
    {{0xfe, 0xc0}, 10},                   /* site-local */
    {{0xff}, 8},                          /* multicast */
};

static bool is_public4(uint32_t address)
{
    for (size_t i = 0; i < sizeof special4 / sizeof *special4; i++)
        if ((address ^ special4[i].net) >> (32 - special4[i].bits) == 0)
            return false;
    return true;
}

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool is_within(const uint8_t address[16], const range6 *range)
{
    int whole = range->bits / 8, rest = range->bits % 8;

    return memcmp(address, range->net, (size_t)whole) == 0 &&
           (rest == 0 || (address[whole] ^ range->net[whole]) >> (8 - rest) == 0);
}

static bool is_public6(const uint8_t address[16])
{
    static const range6 mapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
    static const range6 translated = {{0x00, 0x64, 0xff, 0x9b}, 96};
    static const range6 six_to_four = {{0x20, 0x02}, 16};

    /* Forms that contain an IPv4 address: that is the destination. */
    if (is_within(address, &mapped) || is_within(address, &translated))
        return is_public4(word_at(address + 12));
    if (is_within(address, &six_to_four))
        return is_public4(word_at(address + 2));
    for (size_t i = 0; i < sizeof special6 / sizeof *special6; i++)
        if (is_within(address, &special6[i]))
            return false;
    return true;
}

bool ef__address_is_public(const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    if (address->sa_family == AF_INET && len >= sizeof four) {
        memcpy(&four, address, sizeof four);
        return is_public4(ntohl(four.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6 && len >= sizeof six) {
        memcpy(&six, address, sizeof six);
        return is_public6(six.sin6_addr.s6_addr);
    }
    return false;
}
