/*
 * bus.c - finds the sink of an address, and functions that sinks share. See bus.h.
 */
#include "bus.h"

#include "../base/cloudevent.h"
#include "../base/same.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct sink_kind {
    const char *scheme;
    ef_status (*check)(const ef__bus_options *options, ef_error *err);
    ef_status (*open)(const ef__bus_options *options, ef__bus **out, ef_error *err);
} sink_kind;

static const sink_kind sink_kinds[] = {
    {"file:", ef__bus_file_check, ef__bus_file_open},
#ifdef EF_HAVE_CURL
    {"http://", ef__bus_webhook_check, ef__bus_webhook_open},
    {"https://", ef__bus_webhook_check, ef__bus_webhook_open},
#endif
#ifdef EF_HAVE_NATS
    {"nats://", ef__bus_nats_check, ef__bus_nats_open},
    {"tls://", ef__bus_nats_check, ef__bus_nats_open},
#endif
};

static ef_status find_kind(ef_str url, const sink_kind **out, ef_error *err)
{
    for (size_t i = 0; i < sizeof sink_kinds / sizeof *sink_kinds; i++)
        if (ef__str_starts(url, sink_kinds[i].scheme)) {
            *out = &sink_kinds[i];
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
    const sink_kind *found = NULL;
    ef_status st = find_kind(options->url, &found, err);

    for (size_t i = 0; st == EF_OK && i < options->url.len; i++)
        if ((unsigned char)options->url.ptr[i] <= ' ' || options->url.ptr[i] == 0x7f)
            st = ef_fail(err, EF_BAD_INPUT,
                         "the address contains a space or control character at byte %zu", i + 1);
    return st == EF_OK ? found->check(options, err) : st;
}

ef_status ef__bus_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    const sink_kind *found = NULL;
    ef_status st = ef__bus_check(options, err);

    *out = NULL;
    if (st == EF_OK)
        st = find_kind(options->url, &found, err);
    return st == EF_OK ? found->open(options, out, err) : st;
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

/* Escapes %, `other`, and all bytes that are not printable ASCII. */
static bool add_escaped(ef__buf *out, ef_str text, char other)
{
    size_t done = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c > ' ' && c < 0x7f && c != '%' && c != (unsigned char)other)
            continue;
        ef__buf_add(out, text.ptr + done, i - done);
        ef__buf_printf(out, "%%%02X", c);
        done = i + 1;
    }
    if (done < text.len)
        ef__buf_add(out, text.ptr + done, text.len - done);
    return !out->failed;
}

bool ef__bus_header(ef__buf *out, ef_str text)
{
    return add_escaped(out, text, '%');
}

bool ef__bus_id(ef__buf *out, const ef_event *event)
{
    ef__buf_reset(out);
    (void)add_escaped(out, event->tenant, '/');
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
