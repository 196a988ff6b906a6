/*
 * route.c - see route.h.
 */
#include "route.h"
#include "migrate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT_US 5000
#define ROUTES_MAX 64

/* The machine's own time, and coarse: a clock that a test holds still must not keep a route. */
static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void drop(ef__route *route)
{
    if (--route->holders > 0)
        return;
    ef__room_release(&route->list.room);
    free(route->lag);
    free(route);
}

void ef__route_give(ef_engine *e, ef__route *route)
{
    if (!route)
        return;
    pthread_mutex_lock(&e->lock);
    drop(route);
    pthread_mutex_unlock(&e->lock);
}

static ef_str tenant_of(const ef__route *route)
{
    return (ef_str){route->tenant, route->tenant_len};
}

static bool is_for(const ef__route *route, ef_str name, const ef_str *tenant)
{
    return ef_str_equal(route->generation->name, name) && route->any_tenant == !tenant &&
           (!tenant || ef_str_equal(tenant_of(route), *tenant));
}

/* Under the lock: the kept route of a name, if it will do. One that will not is let go. */
static ef__route *find(ef_engine *e, ef_str name, const ef_str *tenant, int64_t at_us)
{
    size_t count = 0;

    for (ef__route **at = &e->routes; *at; count++) {
        ef__route *route = *at;
        bool old =
            at_us - route->read_us > KEPT_US || route->changes != e->changes || count >= ROUTES_MAX;
        if (!old && is_for(route, name, tenant))
            return route;
        if (!old) {
            at = &route->next;
            continue;
        }
        *at = route->next;
        drop(route);
    }
    return NULL;
}

static ef_status read_route(ef_engine *e, ef_str name, ef__route *route, ef_error *err)
{
    ef_status st = ef__engine_routed(e, name, &route->list, &route->generation, err);
    ef_str tenant = tenant_of(route);

    if (st == EF_OK)
        st = ef__generation_migrates(e, route->generation, &route->migrates, err);
    return st == EF_OK ? ef__engine_as_of(e, route->generation, route->any_tenant ? NULL : &tenant,
                                          &route->as_of, err)
                       : st;
}

static ef__route *make(const ef_str *tenant, int64_t at_us, int64_t changes)
{
    size_t length = tenant ? tenant->len : 0;
    ef__route *route = calloc(1, sizeof *route + length);

    if (!route)
        return NULL;
    route->holders = 1;
    route->read_us = at_us;
    route->changes = changes;
    route->any_tenant = !tenant;
    route->tenant_len = length;
    if (length)
        memcpy(route->tenant, tenant->ptr, length);
    return route;
}

ef_status ef__route_take(ef_engine *e, ef_str name, const ef_str *tenant, bool fresh,
                         ef__route **out, ef_error *err)
{
    int64_t at_us = now_us();
    ef__route *route;
    ef_status st;

    *out = NULL;
    pthread_mutex_lock(&e->lock);
    route = fresh ? NULL : find(e, name, tenant, at_us);
    if (route)
        route->holders++;
    int64_t changes = e->changes;
    pthread_mutex_unlock(&e->lock);
    *out = route;
    if (route)
        return EF_OK;
    route = make(tenant, at_us, changes);
    if (!route)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a read");
    st = read_route(e, name, route, err);
    pthread_mutex_lock(&e->lock);
    if (st != EF_OK) {
        drop(route);
    } else {
        *out = route;
        route->holders++;
        route->next = e->routes;
        e->routes = route;
    }
    pthread_mutex_unlock(&e->lock);
    return st;
}

void ef__routes_outdate(ef_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->changes++;
    pthread_mutex_unlock(&e->lock);
}

void ef__routes_release(ef_engine *e)
{
    while (e->routes) {
        ef__route *next = e->routes->next;
        drop(e->routes);
        e->routes = next;
    }
}
