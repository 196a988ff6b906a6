/*
 * routes_monitor.c - the page of the monitor and its files.
 *
 * They contain no data of tenants, so they need no token; the page reads its data through the other
 * routes, with the token that the user entered. The files of a build have its name in their path
 * and never change, so that a browser caches them; the page names the build and is always read
 * again.
 */
#include "request.h"

#include "../monitor/monitor.h"
#include "../shape/operation_table.h"

#define STATUS_REDIRECT 308
#define CONTENT_SECURITY_POLICY                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "              \
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

static void add_security_headers(ef__request *r)
{
    ef__request_add_header(r, "Content-Security-Policy", CONTENT_SECURITY_POLICY);
    ef__request_add_header(r, "Referrer-Policy", "no-referrer");
    ef__request_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    ef__request_add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
}

/* 304 if the browser has it already. */
static void answer_asset(ef__request *r, const ef__asset *asset, const char *cache_control)
{
    ef_str known = ef__request_header(r, "If-None-Match");

    add_security_headers(r);
    ef__request_add_header(r, "ETag", asset->etag);
    ef__request_add_header(r, "Cache-Control", cache_control);
    r->type = asset->type;
    if (ef_str_equal(known, ef_str_from(asset->etag)))
        r->status = 304;
    else
        ef__buf_add(&r->out, asset->bytes, asset->len);
}

static ef_status need_monitor(ef__request *r, ef_error *err)
{
    return r->server->options.no_monitor
               ? ef_fail(err, EF_NOT_FOUND, "the monitor is off (server.monitor)")
               : EF_OK;
}

/* The links of the page are relative: it has to be at the prefix and a slash. */
static ef_status redirect_to_page(ef__request *r, ef_error *err)
{
    const char *path = r->server->options.path;
    size_t size = strlen(path) + 2;
    char *location = ef__arena_alloc(&r->arena, size);

    if (!location)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    (void)snprintf(location, size, "%s/", path);
    ef__request_add_header(r, "Location", location);
    r->status = STATUS_REDIRECT;
    return EF_OK;
}

static ef_status show_page(ef__request *r, ef_error *err)
{
    const ef__asset *asset = ef__monitor_asset(EF_STR("index.html"));
    ef_status st = need_monitor(r, err);

    if (st == EF_OK && r->at_prefix)
        return redirect_to_page(r, err);
    if (st == EF_OK)
        answer_asset(r, asset, "no-cache");
    return st;
}

static ef_status show_file(ef__request *r, ef_error *err)
{
    const ef__asset *asset = ef__monitor_asset(r->parts[1]);
    ef_status st = need_monitor(r, err);

    if (st == EF_OK && (!asset || !ef_str_equal(r->parts[0], ef_str_from(ef__monitor_build()))))
        st = ef_fail(err, EF_NOT_FOUND, "this server's monitor has no such file; load / again");
    if (st == EF_OK)
        answer_asset(r, asset, "public, max-age=31536000, immutable");
    return st;
}

#define PAGE EF__SCOPE_OPEN, EF__TENANCY_NONE, EF__ROUTE_QUICK | EF__ROUTE_PAGE

const ef__http_route ef__routes_monitor[] = {
    EF__RUN_OPERATION(show_page, GET, "/", PAGE, "monitor", "the monitor", ANSWER("Text")),
    EF__RUN_OPERATION(show_file, GET, "/assets/{build}/{name}", PAGE, "monitorFile",
                      "a file of the monitor", ANSWER("Text")),
    {0},
};
