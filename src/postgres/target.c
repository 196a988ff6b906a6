/*
 * target.c - see target.h. A URL may hold a password: no message repeats one.
 */
#include "target.h"

#include <everfold/str.h>

#include <libpq-fe.h>

#include <stdio.h>
#include <stdlib.h>

enum { SETTINGS_MAX = 64, CONNECTIONS_DEFAULT = 8, CONNECTIONS_MAX = 1000 };

/* What is set unless the URL says otherwise. A network that is gone shows after half a minute. */
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

bool ef__pg_is_url(const char *url)
{
    return starts_with(url, "postgres:") || starts_with(url, "postgresql:");
}

/* What our own settings say that is checked when all are read. */
typedef struct own_settings {
    bool insecure;
    ef_str schema, views_schema;
} own_settings;

static bool take_schema(ef_str setting, const char *key, ef_str *out)
{
    size_t length = strlen(key);

    if (setting.len < length || memcmp(setting.ptr, key, length) != 0)
        return false;
    *out = (ef_str){setting.ptr + length, setting.len - length};
    return true;
}

/* One of our own settings: ef_NAME=VALUE of `length` characters. */
static ef_status take_own(ef__pg_target *target, own_settings *own, const char *setting,
                          size_t length, ef_error *err)
{
    char text[64];
    char *end;
    long number;

    if (take_schema((ef_str){setting, length}, "ef_schema=", &own->schema) ||
        take_schema((ef_str){setting, length}, "ef_views_schema=", &own->views_schema))
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
    return ef_fail(err, EF_BAD_INPUT,
                   "the url has \"%s\": there are ef_prepare=on|off, ef_connections=1 to %d, "
                   "ef_schema=NAME, ef_views_schema=NAME and ef_insecure=1",
                   text, CONNECTIONS_MAX);
}

/* A copy of the URL without our own settings, which libpq would refuse. */
static ef_status strip_own(ef__pg_target *target, const char *url, own_settings *own, ef_error *err)
{
    char *copy = malloc(strlen(url) + 1);
    const char *query = strchr(url, '?');
    size_t used = query ? (size_t)(query - url) : strlen(url);
    char joint = '?';
    ef_status st = EF_OK;

    if (!copy)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a url");
    target->text = copy;
    memcpy(copy, url, used);
    for (const char *at = query ? query + 1 : NULL; at && *at && st == EF_OK;) {
        size_t length = strcspn(at, "&");

        if (starts_with(at, "ef_")) {
            st = take_own(target, own, at, length, err);
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

static const char *setting(const PQconninfoOption *options, const char *key, const char *variable)
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

static bool all_local(const char *hosts)
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

/* Where an address is left out of the list, libpq goes by the host in its place. What a service
 * names stands in a file that libpq reads when it connects: nobody knows before. */
static bool servers_are_local(const PQconninfoOption *options)
{
    const char *address = setting(options, "hostaddr", "PGHOSTADDR");
    const char *host = setting(options, "host", "PGHOST");

    if (setting(options, "service", "PGSERVICE"))
        return false;
    return address ? all_local(address) && (!has_gap(address) || all_local(host)) : all_local(host);
}

/* Verify-full unless every server is local. */
static ef_status choose_tls(const PQconninfoOption *options, bool insecure, const char **out,
                            ef_error *err)
{
    const char *mode = setting(options, "sslmode", "PGSSLMODE");

    *out = NULL;
    if (insecure || servers_are_local(options))
        return EF_OK;
    if (mode && strcmp(mode, "verify-full") != 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "sslmode is \"%.20s\" and a server is not local, or of a service: use "
                       "verify-full, or say ef_insecure=1 in the url",
                       mode);
    *out = "verify-full";
    return EF_OK;
}

static void put(ef__pg_target *target, int *count, const char *key, const char *value)
{
    if (*count < SETTINGS_MAX) {
        target->keys[*count] = key;
        target->values[*count] = value;
        *count += 1;
    }
}

static ef_status fill(ef__pg_target *target, bool insecure, ef_error *err)
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
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a url");
    for (PQconninfoOption *o = options; o->keyword; o++)
        if (o->val && o->val[0])
            put(target, &count, o->keyword, o->val);
    for (size_t i = 0; i < sizeof DEFAULTS / sizeof DEFAULTS[0]; i++)
        if (!setting(options, DEFAULTS[i][0], NULL))
            put(target, &count, DEFAULTS[i][0], DEFAULTS[i][1]);
    if (tls)
        put(target, &count, "sslmode", tls);
    put(target, &count, "client_encoding", "UTF8"); /* the last one counts */
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
        if (!target->parsed) /* libpq's words may repeat the url, and with it a password */
            st = ef_fail(err, EF_BAD_INPUT,
                         "the url is no address of a PostgreSQL server%s: write "
                         "postgres://USER@HOST/DATABASE",
                         message && strstr(message, "query parameter")
                             ? " (it has a setting that libpq does not know)"
                             : "");
    }
    if (st == EF_OK)
        st = fill(target, own.insecure, err);
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
