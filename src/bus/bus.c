/*
 * bus.c - finds the sink of an address, and functions that sinks share. See bus.h.
 */
#include "bus.h"

#include "../base/cloudevent.h"
#include "../base/same.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct sink_kind {
    const char *scheme;
    const ef__bus_ops *ops;
} sink_kinds[] = {
    {"file:", &ef__file_sink},
#ifdef EF_HAVE_CURL
    {"http://", &ef__webhook_sink}, {"https://", &ef__webhook_sink},
#endif
#ifdef EF_HAVE_NATS
    {"nats://", &ef__nats_sink},    {"tls://", &ef__nats_sink},
#endif
};

static ef_status find_sink(ef_str url, const ef__bus_ops **out, ef_error *err)
{
    for (size_t i = 0; i < sizeof sink_kinds / sizeof *sink_kinds; i++)
        if (ef__str_starts(url, sink_kinds[i].scheme)) {
            *out = sink_kinds[i].ops;
            return EF_OK;
        }
    if (ef__str_starts(url, "http://") || ef__str_starts(url, "https://") ||
        ef__str_starts(url, "nats://") || ef__str_starts(url, "tls://"))
        return ef_fail(err, EF_UNSUPPORTED, "'%.*s': this build does not have that sink",
                       EF_STR_ARG(url));
    return ef_fail(err, EF_BAD_INPUT,
                   "'%.*s' is not an address to publish to: use file:PATH, https://HOST/PATH or "
                   "nats://HOST:PORT/SUBJECT",
                   EF_STR_ARG(url));
}

ef_status ef__bus_check(const ef__bus_options *options, ef_error *err)
{
    const ef__bus_ops *found = NULL;
    ef_status st = find_sink(options->url, &found, err);

    for (size_t i = 0; st == EF_OK && i < options->url.len; i++)
        if ((unsigned char)options->url.ptr[i] <= ' ' || options->url.ptr[i] == 0x7f)
            st = ef_fail(err, EF_BAD_INPUT,
                         "the address contains a space or control character at byte %zu", i + 1);
    return st == EF_OK ? found->check(options, err) : st;
}

void ef__bus_close(ef__bus *bus)
{
    if (bus)
        bus->ops->close(bus);
}

/* --- for sinks -------------------------------------------------------------------------------- */

static bool copy_text(ef_str *text)
{
    char *copy = malloc(text->len + 1);

    if (copy) {
        if (text->len)
            memcpy(copy, text->ptr, text->len);
        copy[text->len] = '\0';
    }
    text->ptr = copy;
    return copy != NULL;
}

ef_status ef__bus_init(ef__bus *bus, const ef__bus_ops *ops, const ef__bus_options *options,
                       ef_error *err)
{
    bool copied;

    bus->ops = ops;
    bus->options = *options;
    if (bus->options.timeout_ms <= 0)
        bus->options.timeout_ms = EF__BUS_TIMEOUT_MS;
    if (!bus->options.clock)
        bus->options.clock = ef_clock_system();
    copied = copy_text(&bus->options.url);
    copied = copy_text(&bus->options.secret) && copied;
    copied = copy_text(&bus->options.directory) && copied;
    copied = copy_text(&bus->options.progress) && copied;
    return copied ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
}

void ef__bus_release(ef__bus *bus)
{
    free((char *)bus->options.url.ptr);
    free((char *)bus->options.secret.ptr);
    free((char *)bus->options.directory.ptr);
    free((char *)bus->options.progress.ptr);
}

ef_status ef__bus_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    const ef__bus_ops *found = NULL;
    ef__bus *bus;
    ef_status st = ef__bus_check(options, err);

    *out = NULL;
    if (st == EF_OK)
        st = find_sink(options->url, &found, err);
    if (st != EF_OK)
        return st;
    bus = calloc(1, found->bytes);
    if (!bus)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
    st = ef__bus_init(bus, found, options, err);
    if (st != EF_OK) {
        ef__bus_release(bus);
        free(bus);
        return st;
    }
    st = found->open(bus, err);
    if (st == EF_OK)
        *out = bus;
    else
        found->close(bus);
    return st;
}

bool ef__bus_meanwhile(ef__bus *bus)
{
    if (!bus->meanwhile)
        return false;
    if (!bus->meanwhile(bus->meanwhile_context))
        bus->meanwhile = NULL;
    return true;
}

bool ef__bus_stopping(const ef__bus *bus)
{
    return bus->options.stop && atomic_load(bus->options.stop);
}

int64_t ef__bus_mono_us(const ef__bus *bus)
{
    return bus->options.clock->mono_us(bus->options.clock->context);
}

static void replace_with_space(char *text, size_t len, char what)
{
    for (char *end = text + len, *c = text; (c = memchr(c, what, (size_t)(end - c))) != NULL; c++)
        *c = ' ';
}

bool ef__bus_write(ef__buf *out, const ef__bus_message *message)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    size_t start = out->len;

    ef__cloudevent_write(&w, message->event, &message->key);
    if (out->failed)
        return false;
    /* Line breaks inside strings are escaped, so these are between tokens. */
    replace_with_space(out->ptr + start, out->len - start, '\n');
    replace_with_space(out->ptr + start, out->len - start, '\r');
    return true;
}

bool ef__bus_header(ef__buf *out, ef_str text)
{
    return ef__buf_add_escaped(out, text, "%");
}

bool ef__bus_id(ef__buf *out, const ef_event *event)
{
    ef__buf_reset(out);
    (void)ef__buf_add_escaped(out, event->tenant, "%/");
    ef__buf_add_char(out, '/');
    return ef__bus_header(out, event->id);
}

void ef__bus_fail(ef__bus_outcome *outcome, ef__bus_verdict verdict, ef__arena *arena,
                  const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    outcome->verdict = verdict;
    outcome->error = ef__arena_copy(arena, ef_str_from(text));
    if (!outcome->error.ptr)
        outcome->error = EF_STR("");
}

/* --- public addresses ------------------------------------------------------------------------- */

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

bool ef__address_is_public(const struct sockaddr *address, size_t len)
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
