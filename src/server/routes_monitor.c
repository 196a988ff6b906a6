/*
 * routes_monitor.c - the monitor's page and the files that it is made of.
 *
 * They hold nothing of anybody's data, so they are open to all who may reach the server; what they
 * show they ask for by the routes that everybody uses, with the token that a person has given them.
 * The files of a build stay under its name for ever, so that a browser need not ask again; the page
 * itself is asked for each time, and names the build.
 */
#include "request.h"

#include "../monitor/monitor.h"

#include <stdio.h>

#define STATUS_REDIRECT 308
#define CONTENT_SECURITY_POLICY                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "              \
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

static void protect(ef__request *r)
{
    ef__request_add_header(r, "Content-Security-Policy", CONTENT_SECURITY_POLICY);
    ef__request_add_header(r, "Referrer-Policy", "no-referrer");
    ef__request_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    ef__request_add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
}

/* One that the browser has already is not sent again. */
static void answer(ef__request *r, const ef__asset *asset, const char *keep)
{
    ef_str known = ef__request_header(r, "If-None-Match");

    protect(r);
    ef__request_add_header(r, "ETag", asset->etag);
    ef__request_add_header(r, "Cache-Control", keep);
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
               : ef__request_no_more(r, err);
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

static ef_status page(ef__request *r, ef_error *err)
{
    const ef__asset *asset = ef__monitor_asset(EF_STR("index.html"));
    ef_status st = need_monitor(r, err);

    if (st == EF_OK && r->at_prefix)
        return redirect_to_page(r, err);
    if (st == EF_OK)
        answer(r, asset, "no-cache");
    return st;
}

static ef_status file(ef__request *r, ef_error *err)
{
    const ef__asset *asset = ef__monitor_asset(r->parts[1]);
    ef_status st = need_monitor(r, err);

    if (st == EF_OK && (!asset || !ef_str_equal(r->parts[0], ef_str_from(ef__monitor_build()))))
        st = ef_fail(err, EF_NOT_FOUND, "this server's monitor has no such file; load / again");
    if (st == EF_OK)
        answer(r, asset, "public, max-age=31536000, immutable");
    return st;
}

const ef__http_route ef__routes_monitor[] = {
    {"GET", "/", EF__SCOPE_OPEN, EF__TENANCY_NONE, EF__ROUTE_QUICK | EF__ROUTE_PAGE, page,
     "monitor", "the monitor", NULL, NULL, "Text", 0},
    {"GET", "/assets/{build}/{name}", EF__SCOPE_OPEN, EF__TENANCY_NONE,
     EF__ROUTE_QUICK | EF__ROUTE_PAGE, file, "monitorFile", "a file of the monitor", NULL, NULL,
     "Text", 0},
    {0},
};
