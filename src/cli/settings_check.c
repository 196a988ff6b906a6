/*
 * settings_check.c - checks of settings that depend on each other: workers, retries, schemas.
 */
#include "cli.h"
#include "../base/schema_name.h"
#include "../server/server.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const retry_kinds[] = {"apply", "cursor", "publish"};

/* 0 means a value derived from worker.lease_ttl. */
static int64_t lease_time(const ef__settings *settings, const char *key)
{
    int64_t given = ef__settings_int(settings, key);
    int64_t lease_ms = ef__settings_int(settings, "worker.lease_ttl");

    if (given > 0)
        return given;
    return strcmp(key, "worker.lease_renew") == 0 ? lease_ms / 3 : 2 * lease_ms;
}

static int64_t retry_number(const ef__settings *settings, const char *kind, const char *what)
{
    char key[64];

    (void)snprintf(key, sizeof key, "retry.%s.%s", kind, what);
    return ef__settings_int(settings, key);
}

static ef_status check_leases(const ef__settings *settings, ef_error *err)
{
    int64_t lease_ms = ef__settings_int(settings, "worker.lease_ttl");
    int64_t renew_ms = lease_time(settings, "worker.lease_renew");
    int64_t heartbeat_ms = lease_time(settings, "worker.heartbeat_ttl");

    if (renew_ms >= lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.lease_renew is %" PRId64 "ms and worker.lease_ttl is %" PRId64
                       "ms: a lease must be renewed before it expires",
                       renew_ms, lease_ms);
    if (heartbeat_ms < lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.heartbeat_ttl is %" PRId64 "ms and worker.lease_ttl is %" PRId64
                       "ms: a heartbeat must last as long as a lease",
                       heartbeat_ms, lease_ms);
    if (renew_ms >= heartbeat_ms / 2)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.lease_renew is %" PRId64 "ms and worker.heartbeat_ttl is %" PRId64
                       "ms: a worker is late after half of its heartbeat time without a renewal",
                       renew_ms, heartbeat_ms);
    return EF_OK;
}

ef_status cli_settings_check(const ef__settings *settings, ef_error *err)
{
    for (size_t i = 0; i < sizeof retry_kinds / sizeof retry_kinds[0]; i++) {
        int64_t base_ms = retry_number(settings, retry_kinds[i], "base");
        int64_t cap_ms = retry_number(settings, retry_kinds[i], "cap");
        if (cap_ms < base_ms)
            return ef_fail(err, EF_BAD_INPUT,
                           "retry.%s.cap is %" PRId64 "ms and retry.%s.base is %" PRId64
                           "ms: the longest delay must not be shorter than the first",
                           retry_kinds[i], cap_ms, retry_kinds[i], base_ms);
    }
    ef__schema_names schemas;
    ef_status st = ef__schema_names_init(&schemas, ef__settings_text(settings, "postgres.schema"),
                                         ef__settings_text(settings, "postgres.views_schema"), err);
    if (st == EF_OK)
        st = check_leases(settings, err);
    return st == EF_OK ? ef__server_path_check(ef__settings_text(settings, "server.path"), err)
                       : st;
}

ef_str cli_lease_time_shown(const cli *c, const ef__setting_view *view)
{
    static char texts[2][24];
    bool renews = strcmp(view->spec->key, "worker.lease_renew") == 0;
    int64_t ms = lease_time(c->settings, view->spec->key);
    char *text = texts[renews];

    if (ef__settings_int(c->settings, view->spec->key) > 0)
        return view->value;
    (void)snprintf(text, sizeof texts[0], ms % 1000 ? "%" PRId64 "ms" : "%" PRId64 "s",
                   ms % 1000 ? ms : ms / 1000);
    return ef_str_from(text);
}

ef_retry_options cli_retry_options(const cli *c, const char *kind)
{
    int64_t attempts = retry_number(c->settings, kind, "attempts");

    return (ef_retry_options){.base_ms = retry_number(c->settings, kind, "base"),
                              .factor = retry_number(c->settings, kind, "factor"),
                              .cap_ms = retry_number(c->settings, kind, "cap"),
                              .attempts_max = attempts > 0 ? attempts : -1};
}

ef_work_options cli_work_options(const cli *c)
{
    const ef__settings *settings = c->settings;

    return (ef_work_options){.batch = (size_t)ef__settings_int(settings, "worker.batch"),
                             .lease_ms = ef__settings_int(settings, "worker.lease_ttl"),
                             .renew_ms = lease_time(settings, "worker.lease_renew"),
                             .heartbeat_ms = lease_time(settings, "worker.heartbeat_ttl")};
}
