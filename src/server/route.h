/*
 * route.h - the handlers of the operations, and the lookup of an operation by method and path.
 */
#ifndef EF_SERVER_ROUTE_H
#define EF_SERVER_ROUTE_H

#include "../shape/operation.h"

struct ef__request;

/* The handler of an operation: one of `run` and `serve`. `serve` gets the request struct of the
 * operation; `run` reads the request itself, after unknown parameters were refused. */
typedef struct ef__http_route {
    const ef__operation *operation;
    ef_status (*run)(struct ef__request *r, ef_error *err);
    ef_status (*serve)(struct ef__request *r, void *request, ef_error *err);
} ef__http_route;

#define EF__RUN(name, handler)                                                                     \
    {                                                                                              \
        &ef__op_##name, handler, NULL                                                              \
    }
#define EF__SERVE(name, handler)                                                                   \
    {                                                                                              \
        &ef__op_##name, NULL, handler                                                              \
    }
/* An operation that only the server knows. */
#define EF__RUN_OPERATION(handler, ...)                                                            \
    {                                                                                              \
        &(const ef__operation){__VA_ARGS__}, handler, NULL                                         \
    }
#define EF__SERVE_OPERATION(handler, ...)                                                          \
    {                                                                                              \
        &(const ef__operation){__VA_ARGS__}, NULL, handler                                         \
    }

/* The tables of the handlers' files; each ends with a NULL operation. */
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

/* Index of the operation among all routes; EF__ROUTES_MAX for NULL. */
size_t ef__route_number(const ef__operation *operation);

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
