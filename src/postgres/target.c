/*
 * target.c - see target.h. A URL can contain a password: no message repeats the URL.
 */
#include "target.h"

#include <everfold/str.h>

#include <libpq-fe.h>

#include <stdio.h>
#include <stdlib.h>

enum { SETTINGS_MAX = 64, CONNECTIONS_DEFAULT = 8, CONNECTIONS_MAX = 1000 };

/* Defaults. A broken network is detected after half a minute. */
static const char *const DEFAULTS[][2] = {
    {"target_session_attrs", "read-write"}, {"connect_timeout", "10"},
    {"application_name", "everfold"},       {"keepalives_idle", "10"},
    {"keepalives_interval", "5"},           {"keepalives_count", "3"},
    {"tcp_user_timeout", "30000"},
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Settings of Everfold that are checked after all were parsed. */
typedef struct own_settings {
    bool insecure;
    ef_str schema, views_schema;
} own_settings;

static bool parse_schema(ef_str setting, const char *key, ef_str *out)
{
    size_t length = strlen(key);

    if (setting.len < length || memcmp(setting.ptr, key, length) != 0)
        return false;
    *out = (ef_str){setting.ptr + length, setting.len - length};
    return true;
}

/* A setting of Everfold: ef_NAME=VALUE of `length` characters. */
static ef_status parse_own(ef__pg_target *target, own_settings *own, const char *setting,
                           size_t length, ef_error *err)
{
    char text[64];
    char *end;
    long number;

    if (parse_schema((ef_str){setting, length}, "ef_schema=", &own->schema) ||
        parse_schema((ef_str){setting, length}, "ef_views_schema=", &own->views_schema))
        return EF_OK;
    (void)snprintf(text, sizeof text, "%.*s", (int)(length < 63 ? length : 63), setting);
    if (strcmp(text, "ef_prepare=off") == 0 || strcmp(text, "ef_prepare=on") == 0) {
        target->prepare = strcmp(text, "ef_prepare=on") == 0;
        return EF_OK;
    }
    if (strcmp(text, "ef_insecure=1") == 0) {
        own->insecure = true;
        return EF_OK;
    }
    if (starts_with(text, "ef_connections=")) {
        number = strtol(text + strlen("ef_connections="), &end, 10);
        if (*end == '\0' && number >= 1 && number <= CONNECTIONS_MAX) {
            target->connections_max = (int32_t)number;
            return EF_OK;
        }
    }
    return ef_fail(
        err, EF_BAD_INPUT,
        "unknown setting \"%s\" in the url: allowed are ef_prepare=on|off, ef_connections=1 to %d, "
        "ef_schema=NAME, ef_views_schema=NAME and ef_insecure=1",
        text, CONNECTIONS_MAX);
}

/* A copy of the URL without the settings of Everfold, which libpq would reject. */
static ef_status strip_own(ef__pg_target *target, const char *url, own_settings *own, ef_error *err)
{
    char *copy = malloc(strlen(url) + 1);
    const char *query = strchr(url, '?');
    size_t used = query ? (size_t)(query - url) : strlen(url);
    char joint = '?';
    ef_status st = EF_OK;

    if (!copy)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a url");
    target->text = copy;
    memcpy(copy, url, used);
    for (const char *at = query ? query + 1 : NULL; at && *at && st == EF_OK;) {
        size_t length = strcspn(at, "&");

        if (starts_with(at, "ef_")) {
            st = parse_own(target, own, at, length, err);
        } else if (length > 0) {
            copy[used++] = joint;
            memcpy(copy + used, at, length);
            used += length;
            joint = '&';
        }
        at += length + (at[length] == '&');
    }
    copy[used] = '\0';
    return st;
}

static const char *find_setting(const PQconninfoOption *options, const char *key,
                                const char *variable)
{
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (strcmp(o->keyword, key) == 0 && o->val && o->val[0])
            return o->val;
    return variable ? getenv(variable) : NULL;
}

static bool host_is_local(const char *host, size_t length)
{
    ef_str name = {host, length};

    return length == 0 || host[0] == '/' || host[0] == '@' ||
           ef_str_equal(name, EF_STR("localhost")) || ef_str_equal(name, EF_STR("::1")) ||
           (length > 4 && memcmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length);
}

static bool hosts_are_local(const char *hosts)
{
    for (const char *at = hosts; at;) {
        size_t length = strcspn(at, ",");

        if (!host_is_local(at, length))
            return false;
        at = at[length] ? at + length + 1 : NULL;
    }
    return true;
}

static bool has_gap(const char *list)
{
    size_t length = strlen(list);

    return length == 0 || list[0] == ',' || list[length - 1] == ',' || strstr(list, ",,");
}

/* For an empty entry of hostaddr, libpq uses the host at the same index. The hosts of a service are
 * in a file that libpq reads when it connects, so they are unknown here. */
static bool servers_are_local(const PQconninfoOption *options)
{
    const char *address = find_setting(options, "hostaddr", "PGHOSTADDR");
    const char *host = find_setting(options, "host", "PGHOST");

    if (find_setting(options, "service", "PGSERVICE"))
        return false;
    return address ? hosts_are_local(address) && (!has_gap(address) || hosts_are_local(host))
                   : hosts_are_local(host);
}

/* Verify-full unless every server is local. */
static ef_status choose_tls(const PQconninfoOption *options, bool insecure, const char **out,
                            ef_error *err)
{
    const char *mode = find_setting(options, "sslmode", "PGSSLMODE");

    *out = NULL;
    if (insecure || servers_are_local(options))
        return EF_OK;
    if (mode && strcmp(mode, "verify-full") != 0)
        return ef_fail(
            err, EF_BAD_INPUT,
            "sslmode is \"%.20s\" and a server is not local, or from a service file: use "
            "sslmode=verify-full, or add ef_insecure=1 to the url",
            mode);
    *out = "verify-full";
    return EF_OK;
}

static void add_setting(ef__pg_target *target, int *count, const char *key, const char *value)
{
    if (*count < SETTINGS_MAX) {
        target->keys[*count] = key;
        target->values[*count] = value;
        *count += 1;
    }
}

static ef_status build_settings(ef__pg_target *target, bool insecure, ef_error *err)
{
    PQconninfoOption *options = target->parsed;
    const char *tls = NULL;
    int count = 0;
    ef_status st = choose_tls(options, insecure, &tls, err);

    if (st != EF_OK)
        return st;
    target->keys = calloc(SETTINGS_MAX + 1, sizeof *target->keys);
    target->values = calloc(SETTINGS_MAX + 1, sizeof *target->values);
    if (!target->keys || !target->values)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a url");
    for (PQconninfoOption *o = options; o->keyword; o++)
        if (o->val && o->val[0])
            add_setting(target, &count, o->keyword, o->val);
    for (size_t i = 0; i < sizeof DEFAULTS / sizeof DEFAULTS[0]; i++)
        if (!find_setting(options, DEFAULTS[i][0], NULL))
            add_setting(target, &count, DEFAULTS[i][0], DEFAULTS[i][1]);
    if (tls)
        add_setting(target, &count, "sslmode", tls);
    add_setting(target, &count, "client_encoding", "UTF8"); /* libpq uses the last one */
    return EF_OK;
}

ef_status ef__pg_target_init(ef__pg_target *target, const char *url, ef_error *err)
{
    own_settings own = {0};
    char *message = NULL;
    ef_status st;

    *target = (ef__pg_target){.prepare = true, .connections_max = CONNECTIONS_DEFAULT};
    st = strip_own(target, url, &own, err);
    if (st == EF_OK)
        st = ef__schema_names_init(&target->schemas, own.schema, own.views_schema, err);
    if (st == EF_OK) {
        target->parsed = PQconninfoParse(target->text, &message);
        if (!target->parsed) /* the message of libpq can contain the url, and with it a password */
            st = ef_fail(
                err, EF_BAD_INPUT,
                "invalid PostgreSQL url%s: write "
                "postgres://USER@HOST/DATABASE",
                message && strstr(message, "query parameter") ? " (unknown query parameter)" : "");
    }
    if (st == EF_OK)
        st = build_settings(target, own.insecure, err);
    PQfreemem(message);
    if (st != EF_OK)
        ef__pg_target_release(target);
    return st;
}

void ef__pg_target_release(ef__pg_target *target)
{
    free(target->keys);
    free(target->values);
    free(target->text);
    PQconninfoFree(target->parsed);
    *target = (ef__pg_target){0};
}
