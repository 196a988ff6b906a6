/*
 * route.h - which generation a name leads to, and how far it is for a tenant: kept for a moment.
 *
 * A read that asks for nothing special may be told an older place than it could be: what it shows
 * is at least as new. So the answer to "which generation, as of when" serves all reads of the next
 * few milliseconds. What this engine itself does to a projection is seen at once.
 */
#ifndef EF_ENGINE_ROUTE_H
#define EF_ENGINE_ROUTE_H

#include "engine_priv.h"

typedef struct ef__route {
    struct ef__route *next; /* of those that the engine keeps */
    int holders;            /* the engine, and reads under way */
    int64_t read_us;        /* when it was read */
    int64_t changes;        /* of the engine, then */
    const ef__generation *generation;
    bool migrates; /* some of its views may be older than its program */
    int64_t as_of;
    struct ef__lag *lag; /* read for those who wait (fresh.c), under their lock; or NULL, as of … */
    int64_t lag_us;      /* … then */
    ef__generation_list list; /* that owns it */
    bool any_tenant;          /* as_of is what all have */
    size_t tenant_len;
    char tenant[];
} ef__route;

/* The route of a name for a tenant, or NULL for all of them; `fresh`: read now. Give it back.
 * EF_NOT_FOUND */
ef_status ef__route_take(ef_engine *engine, ef_str name, const ef_str *tenant, bool fresh,
                         ef__route **out, ef_error *err);
void ef__route_give(ef_engine *engine, ef__route *route); /* NULL is fine */
/* Something was done through this engine: what is kept is not used again. */
void ef__routes_outdate(ef_engine *engine);
void ef__routes_release(ef_engine *engine);

#endif
