/*
 * route.h - which handler a method and a path lead to, and who may go there.
 *
 * The table of routes is the server: what is answered, what is refused, and /openapi.json are all
 * made from it.
 */
#ifndef EF_SERVER_ROUTE_H
#define EF_SERVER_ROUTE_H

#include <everfold/status.h>
#include <everfold/str.h>

struct ef__request;

enum ef__scope_bits {
    EF__SCOPE_OPEN = 0, /* anybody */
    EF__SCOPE_APPEND = 1,
    EF__SCOPE_READ = 2,
    EF__SCOPE_WORK = 4,
    EF__SCOPE_OPERATE = 8,
    EF__SCOPE_ADMIN = 16, /* all of them, and tokens */
    EF__SCOPE_ALL = 31
};

enum ef__route_flags {
    EF__ROUTE_QUICK = 1,       /* answered in the thread of the network: never waits */
    EF__ROUTE_STREAM = 2,      /* the answer is a subscription */
    EF__ROUTE_BODY = 4,        /* has a body */
    EF__ROUTE_QUICK_PLAIN = 8, /* quick as long as it has no parameter */
    EF__ROUTE_LOCAL = 16,      /* this machine itself needs no token for it */
    EF__ROUTE_PAGE = 64,       /* the monitor's files: for people, and not in /openapi.json */
    EF__ROUTE_APPEND = 128,    /* appends: small ones are committed together */
    EF__ROUTE_PROBE = 256,     /* answered whatever host is asked for; reveals no data */
    EF__ROUTE_RESERVED = 1024, /* runs in a thread of its own kind, however busy the others are */
    EF__ROUTE_WORKER = 512     /* answered also by a worker, which serves nothing else */
};

/* What a token that is bound to one tenant gets of a route. Every route declares it: the server
 * does not start with one that does not, and a value that is not listed here is refused to such a
 * token. `r->any_tenant` false: the request is of `r->tenant` alone. */
typedef enum ef__tenancy {
    EF__TENANCY_UNDECLARED,
    EF__TENANCY_NONE,   /* the answer holds no tenant's data */
    EF__TENANCY_QUERY,  /* every read and write of a store names r->tenant */
    EF__TENANCY_PART,   /* the answer is over all tenants; one tenant gets its part of it */
    EF__TENANCY_UNBOUND /* about all tenants: refused to a bound token */
} ef__tenancy;

typedef struct ef__http_route {
    const char *method;
    const char *pattern; /* "/v1/views/{projection}/{id}": a name in braces is a segment */
    unsigned scope;
    ef__tenancy tenancy;
    unsigned flags;
    ef_status (*run)(struct ef__request *r, ef_error *err);
    const char *id;         /* operationId */
    const char *summary;    /* for people */
    const char *parameters; /* of the query: "from_seq:integer limit:integer type:string" */
    const char *body;       /* name of its schema in openapi.c; NULL: none */
    const char *answer;     /* name of its schema */
    int answer_status;      /* 0: 200 */
} ef__http_route;

/* The tables of the handlers' files; each ends in a NULL method. */
extern const ef__http_route ef__routes_events[];
extern const ef__http_route ef__routes_views[];
extern const ef__http_route ef__routes_projections[];
extern const ef__http_route ef__routes_generations[];
extern const ef__http_route ef__routes_types[];
extern const ef__http_route ef__routes_outbox[];
extern const ef__http_route ef__routes_runs[];
extern const ef__http_route ef__routes_workers[];
extern const ef__http_route ef__routes_subscribe[];
extern const ef__http_route ef__routes_health[];
extern const ef__http_route ef__routes_metrics[];
extern const ef__http_route ef__routes_openapi[];
extern const ef__http_route ef__routes_overview[];
extern const ef__http_route ef__routes_trial[];
extern const ef__http_route ef__routes_history[];
extern const ef__http_route ef__routes_monitor[];
extern const ef__http_route ef__routes_publishers[];
extern const ef__http_route ef__routes_tokens[];
extern const ef__http_route ef__routes_streams[];
extern const ef__http_route *const ef__route_tables[]; /* all of them; ends in NULL */

#define EF__ROUTES_MAX 128 /* of all tables; a test counts them */
#define EF__ROUTE_METHODS_MAX 64

/* EF_MISUSE names a route of `tables` (NULL: ef__route_tables) that declares no tenancy. */
ef_status ef__routes_check(const ef__http_route *const *tables, ef_error *err);

/* Its place among all routes; EF__ROUTES_MAX for NULL. */
size_t ef__route_number(const ef__http_route *route);

/*
 * The route of a method and a raw path; `parts` gets the raw segments of the names. HEAD finds the
 * route of GET, OPTIONS the first route of the path. `allowed` lists the methods of the path.
 *
 * EF_NOT_FOUND   no route has this path
 * EF_BAD_METHOD  a route has it, but not with that method
 */
ef_status ef__route_find(ef_str method, ef_str path, const ef__http_route **out, ef_str *parts,
                         size_t part_max, char allowed[EF__ROUTE_METHODS_MAX], ef_error *err);

#endif
