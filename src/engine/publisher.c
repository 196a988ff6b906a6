/*
 * publisher.c - the definitions of publishers, kept as settings of their lanes, and the files and
 * variables that a remote definition may name (see publisher.h).
 */
#include <everfold/publisher.h>

#include "publish.h"

#include "../base/arena.h"
#include "../base/file.h"
#include "../base/json.h"
#include "../base/limits.h"
#include "../base/same.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 60000
#define RETRY_MS_MAX (24LL * 3600 * 1000)
#define TIMEOUT_MS_MAX 300000
#define RETAIN_MS 3600000 /* time for an operator to check whether and when a message was sent */
/* Five times as long as a broker may keep messages unsynced; not longer, because a broker that lost
 * some gets all retained messages again. */
#define NATS_RETAIN_MS 600000
#define IN_FLIGHT 8
#define IN_FLIGHT_MAX 256
#define FILE_COUNT 10
#define SETTINGS_ARENA (1024u * 1024)
#define PAUSE_TRIES 100 /* each try fails only if the settings changed between read and write */

/* --- checking --------------------------------------------------------------------------------- */

static ef_publisher with_defaults(const ef_publisher *given)
{
    ef_publisher publisher = *given;

    if (!publisher.partition_by.len)
        publisher.partition_by = EF_STR("stream");
    if (!publisher.retry_ms)
        publisher.retry_ms = RETRY_MS;
    if (!publisher.retain_ms)
        publisher.retain_ms =
            ef__str_starts(publisher.url, "nats:") || ef__str_starts(publisher.url, "tls:")
                ? NATS_RETAIN_MS
                : RETAIN_MS;
    if (!publisher.timeout_ms)
        publisher.timeout_ms = EF__BUS_TIMEOUT_MS;
    if (!publisher.file_count)
        publisher.file_count = FILE_COUNT;
    if (!publisher.in_flight)
        publisher.in_flight = IN_FLIGHT;
    return publisher;
}

static ef_status check_range(const char *what, int64_t value, int64_t min, int64_t max,
                             ef_error *err)
{
    if (value >= min && value <= max)
        return EF_OK;
    return ef_fail_numbers(err, EF_BAD_INPUT, value, max,
                           "%s is %" PRId64 ": %" PRId64 " to %" PRId64 " is needed", what, value,
                           min, max);
}

static ef_status check_partition_by(ef_str by, ef_error *err)
{
    bool path = ef__str_starts(by, "data.") && by.len > 5 && by.ptr[by.len - 1] != '.' &&
                !memmem(by.ptr, by.len, "..", 2);

    if (path || ef_str_equal(by, EF_STR("stream")) || ef_str_equal(by, EF_STR("tenant")) ||
        ef_str_equal(by, EF_STR("type")))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT,
                   "partition by '%.*s': stream, tenant, type or a member of the data as "
                   "data.customer_id is needed",
                   EF_STR_ARG(by));
}

/* A pattern that matches no type would silently publish nothing. */
static ef_status check_types(ef_str types, ef_error *err)
{
    while (types.len) {
        ef_str one = ef__str_split(&types, ',');
        const char *star = memchr(one.ptr, '*', one.len);

        if (one.len == 0 || (types.ptr && types.len == 0) || memchr(one.ptr, ' ', one.len) ||
            (star && star + 1 != one.ptr + one.len))
            return ef_fail(err, EF_BAD_INPUT,
                           "types: '%.*s' matches no type; NAME or PREFIX*, with commas and no "
                           "spaces between them, is needed",
                           EF_STR_ARG(one));
    }
    return EF_OK;
}

static ef_status check_secret(ef_str secret, ef_error *err)
{
    if (!secret.len || (ef__str_starts(secret, "file:/") && secret.len > 6) ||
        (ef__str_starts(secret, "env:") && secret.len > 4))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT,
                   "a secret is given as file:/PATH or env:NAME, not in clear text");
}

ef__bus_options ef__publisher_bus_options(const ef_publisher *publisher)
{
    return (ef__bus_options){.url = publisher->url,
                             .timeout_ms = publisher->timeout_ms,
                             .file_bytes = publisher->file_bytes,
                             .file_count = publisher->file_count,
                             .in_flight = publisher->in_flight,
                             .directory = publisher->directory,
                             .allow_private = publisher->allow_private};
}

static ef_status check_publisher(const ef_publisher *publisher, ef_error *err)
{
    ef__bus_options bus = ef__publisher_bus_options(publisher);
    ef_status st = ef__bus_check(&bus, err);

    if (st == EF_OK)
        st = check_partition_by(publisher->partition_by, err);
    if (st == EF_OK)
        st = check_types(publisher->types, err);
    if (st == EF_OK)
        st = check_secret(publisher->secret, err);
    if (st == EF_OK)
        st = check_range("retry_ms", publisher->retry_ms, 1, RETRY_MS_MAX, err);
    if (st == EF_OK)
        st = check_range("attempts_max", publisher->attempts_max, 0, INT32_MAX, err);
    if (st == EF_OK)
        st = check_range("retain_ms", publisher->retain_ms, EF_RETAIN_NONE,
                         EF_LIMIT_RETAIN_US / 1000, err);
    if (st == EF_OK)
        st = check_range("timeout_ms", publisher->timeout_ms, 1, TIMEOUT_MS_MAX, err);
    return st == EF_OK ? check_range("in_flight", publisher->in_flight, 1, IN_FLIGHT_MAX, err) : st;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void write_settings(ef__buf *out, const ef_publisher *publisher)
{
    ef__json_writer writer = EF__JSON_WRITER(out);

    ef__json_open(&writer, '{');
    ef__json_member_str(&writer, "url", publisher->url);
    ef__json_member_str(&writer, "partition_by", publisher->partition_by);
    ef__json_member_int(&writer, "retry_ms", publisher->retry_ms);
    ef__json_member_int(&writer, "attempts_max", publisher->attempts_max);
    ef__json_member_int(&writer, "timeout_ms", publisher->timeout_ms);
    ef__json_member_int(&writer, "file_bytes", publisher->file_bytes);
    ef__json_member_int(&writer, "file_count", publisher->file_count);
    ef__json_member_int(&writer, "in_flight", publisher->in_flight);
    ef__json_member_str(&writer, "secret", publisher->secret);
    ef__json_member_bool(&writer, "allow_private", publisher->allow_private);
    ef__json_member_bool(&writer, "paused", publisher->paused);
    if (publisher->directory.len)
        ef__json_member_str(&writer, "directory", publisher->directory);
    if (publisher->secret_directory.len)
        ef__json_member_str(&writer, "secret_directory", publisher->secret_directory);
    ef__json_close(&writer, '}');
}

/* With `expected`, only if the lane still has these settings. */
static ef_status write_publisher(ef_journal *journal, const ef_publisher *publisher,
                                 const ef_lane *expected, ef_error *err)
{
    EF__AUTO(ef__buf) settings = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES);
    ef_status st = EF_OK;

    write_settings(&settings, publisher);
    if (settings.failed)
        st = ef_fail(err, EF_TOO_LARGE, "the settings of a publisher have more than %d bytes",
                     EF_LIMIT_DETAIL_BYTES);
    if (st == EF_OK)
        st = ef__lane_replace(
            journal, expected,
            &(ef_lane){.name = publisher->name,
                       .kind = EF_LANE_KIND_PUBLISHER,
                       .enabled = true,
                       .types = publisher->types,
                       .settings = ef__buf_str(&settings),
                       .retain_us = publisher->retain_ms > 0 ? publisher->retain_ms * 1000 : 0},
            err);
    return st;
}

ef_status ef_publisher_set(ef_journal *journal, const ef_publisher *publisher, ef_error *err)
{
    ef_publisher p;
    ef_status st;

    if (!journal || !publisher)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", journal ? "publisher" : "journal");
    p = with_defaults(publisher);
    st = check_publisher(&p, err);
    return st == EF_OK ? write_publisher(journal, &p, NULL, err) : st;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int64_t get_int(const ef__json *object, const char *key)
{
    int64_t number = 0;

    (void)ef__json_int64(ef__json_get(object, key), &number);
    return number;
}

static bool get_bool(const ef__json *object, const char *key)
{
    const ef__json *value = ef__json_get(object, key);

    return value && value->kind == EF__JSON_TRUE;
}

ef_status ef__publisher_read(const ef_lane *lane, ef__arena *arena, ef_publisher *out,
                             ef_error *err)
{
    ef_str name = lane->name, types = lane->types, text = lane->settings;
    ef__json *s = NULL;
    ef_status st = ef__arena_own(arena, err, &name, &types, &text, NULL);

    if (st == EF_OK)
        st = ef__json_parse(text, EF_LIMIT_DETAIL_BYTES, arena, &s, err);
    if (st != EF_OK)
        return st;
    *out = (ef_publisher){.name = name,
                          .url = ef__json_text(s, "url"),
                          .types = types,
                          .partition_by = ef__json_text(s, "partition_by"),
                          .retry_ms = get_int(s, "retry_ms"),
                          .attempts_max = get_int(s, "attempts_max"),
                          .retain_ms = lane->retain_us ? lane->retain_us / 1000 : EF_RETAIN_NONE,
                          .timeout_ms = get_int(s, "timeout_ms"),
                          .file_bytes = get_int(s, "file_bytes"),
                          .file_count = (int32_t)get_int(s, "file_count"),
                          .in_flight = (int32_t)get_int(s, "in_flight"),
                          .secret = ef__json_text(s, "secret"),
                          .allow_private = get_bool(s, "allow_private"),
                          .paused = get_bool(s, "paused"),
                          .directory = ef__json_text(s, "directory"),
                          .secret_directory = ef__json_text(s, "secret_directory")};
    return EF_OK;
}

bool ef__lane_is_publisher(const ef_lane *lane)
{
    return lane->kind == EF_LANE_KIND_PUBLISHER && lane->enabled && lane->settings.len > 0;
}

const ef_lane *ef__publisher_lane(const ef_lane_list *lanes, ef_str name)
{
    for (size_t i = 0; i < lanes->count; i++)
        if (ef__lane_is_publisher(&lanes->items[i]) && ef_str_equal(name, lanes->items[i].name))
            return &lanes->items[i];
    return NULL;
}

static ef_status not_found(ef_str name, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "not found: publisher \"%.*s\"", EF_STR_ARG(name));
}

ef_status ef_publisher_ls(ef_journal *journal, const ef_str *name, ef_publisher_list *out,
                          ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    ef_publisher *items = NULL;
    size_t count = 0;
    ef_status st =
        out ? ef_lane_ls(journal, &lanes, err) : ef_fail(err, EF_BAD_INPUT, "out is NULL");

    if (st == EF_OK)
        st = ef__list_prepare(out, err);
    if (st == EF_OK &&
        !(items = ef__arena_zalloc(&out->room->arena, lanes.count + 1, sizeof *items)))
        st = ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef__lane_is_publisher(&lanes.items[i]) &&
            (!name || ef_str_equal(*name, lanes.items[i].name)))
            st = ef__publisher_read(&lanes.items[i], &out->room->arena, &items[count++], err);
    if (st == EF_OK && name && count == 0)
        return not_found(*name, err);
    if (st == EF_OK) {
        out->items = items;
        out->count = count;
    }
    return st;
}

static ef_status pause_once(ef_journal *journal, ef_str name, bool paused, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(SETTINGS_ARENA);
    EF__AUTO(ef_lane_list) lanes = {0};
    const ef_lane *found;
    ef_publisher publisher;
    ef_status st = ef_lane_ls(journal, &lanes, err);

    found = ef__publisher_lane(&lanes, name);
    if (st == EF_OK && !found)
        st = not_found(name, err);
    if (st == EF_OK)
        st = ef__publisher_read(found, &arena, &publisher, err);
    if (st == EF_OK && publisher.paused != paused) {
        publisher.paused = paused;
        st = write_publisher(journal, &publisher, found, err);
    }
    return st;
}

ef_status ef_publisher_pause(ef_journal *journal, ef_str name, bool paused, ef_error *err)
{
    ef_status st;
    int tries = PAUSE_TRIES;

    do
        st = pause_once(journal, name, paused, err);
    while (st == EF_CONFLICT && --tries > 0);
    return st;
}

ef_status ef_publisher_remove(ef_journal *journal, ef_str name, bool discard, int64_t *out_rows,
                              ef_error *err)
{
    EF__AUTO(ef_publisher_list) found = {0};
    ef_status st = ef_publisher_ls(journal, &name, &found, err);

    return st == EF_OK ? ef__lane_drop(journal, name, discard, out_rows, err) : st;
}

/* --- files and variables of a remote definition ----------------------------------------------- */

static ef_status find_directory(const char *what, ef_str path, ef_str directories, ef_str *out,
                                ef_error *err)
{
    ef_str rest = directories;

    while (rest.len) {
        ef_str directory = ef__str_split(&rest, ',');
        while (directory.len > 1 && directory.ptr[directory.len - 1] == '/')
            directory.len--;
        if (!ef__path_is_below(path, directory))
            continue;
        *out = directory;
        return EF_OK;
    }
    if (!directories.len)
        return ef_fail(err, EF_FORBIDDEN,
                       "%s is %.*s: no directory is set that such files may be in "
                       "(publish.directories)",
                       what, EF_STR_ARG(path));
    return ef_fail(err, EF_FORBIDDEN,
                   "%s is %.*s: it has to be below one of %.*s (publish.directories), as a whole "
                   "path without . and ..",
                   what, EF_STR_ARG(path), EF_STR_ARG(directories));
}

static ef_status confine_sink(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str path = {publisher->url.ptr + 5, publisher->url.len - 5};

    if (ef_str_equal(path, EF_STR("-")))
        return EF_OK;
    if (ef__str_starts(path, "///"))
        path = (ef_str){path.ptr + 2, path.len - 2};
    return find_directory("the file of the publisher", path, directories, &publisher->directory,
                          err);
}

/* ca=FILE and creds=FILE of a NATS URL. libnats opens them, so links are followed there. */
static ef_status confine_query(const ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str query = publisher->url, ignored;
    ef_status st = EF_OK;

    (void)ef__str_split(&query, '?');
    while (st == EF_OK && query.len) {
        ef_str value = ef__str_split(&query, '&');
        ef_str key = ef__str_split(&value, '=');
        if (ef_str_equal(key, EF_STR("ca")) || ef_str_equal(key, EF_STR("creds")))
            st = find_directory("a file of the address", value, directories, &ignored, err);
    }
    return st;
}

static ef_status confine_secret(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str named = {publisher->secret.ptr + 5, publisher->secret.len - 5};

    if (ef__str_starts(publisher->secret, "file:"))
        return find_directory("the file of the secret", named, directories,
                              &publisher->secret_directory, err);
    if (ef__str_starts(publisher->secret, "env:") &&
        !ef__str_starts(publisher->secret, "env:" EF_SECRET_ENV))
        return ef_fail(err, EF_FORBIDDEN,
                       "the secret is %.*s: a variable whose name begins with " EF_SECRET_ENV
                       " is needed",
                       EF_STR_ARG(publisher->secret));
    return EF_OK;
}

ef_status ef_publisher_confine(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_status st = EF_OK;

    if (!publisher)
        return ef_fail(err, EF_BAD_INPUT, "publisher is NULL");
    publisher->directory = publisher->secret_directory = (ef_str){0};
    if (ef__str_starts(publisher->url, "file:"))
        st = confine_sink(publisher, directories, err);
    else if (ef__str_starts(publisher->url, "nats:") || ef__str_starts(publisher->url, "tls:"))
        st = confine_query(publisher, directories, err);
    return st == EF_OK ? confine_secret(publisher, directories, err) : st;
}
