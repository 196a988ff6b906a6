/*
 * request.h - a request and its response, for handlers.
 *
 * A handler reads the request, writes the response into `out` and returns EF_OK; or it fails, and
 * the error becomes problem+json with the HTTP code of its status. It does not use the network.
 */
#pragma once

#include "../base/auto.h"
#include "../base/buf.h"
#include "../shape/operation.h"
#include "../shape/shape.h"
#include "server_priv.h"

#define EF__REQUEST_PARTS 4       /* names in a path: {stream}, {projection} and {id} … */
#define EF__REQUEST_PARAMETERS 32 /* of the query; more is an error */
#define EF__REQUEST_HEADERS 8     /* that an answer may add */
#define EF__REQUEST_ARENA (4 << 20)
#define EF__ANSWER_BYTES_MAX (64 << 20) /* a page of the largest views; more is an error */

typedef struct ef__request ef__request;
typedef struct ef__http_route ef__http_route;

typedef struct ef__parameter {
    ef_str name, value;
} ef__parameter;

typedef struct ef__header {
    const char *name;
    const char *value; /* in the request's arena, or static */
} ef__header;

/* The kind of the Host header. The owner of a name can make it resolve to any address (DNS
 * rebinding); an address cannot be redirected. */
typedef enum ef__host_kind {
    EF__HOST_OURS,    /* the server's address, or one of server.hosts */
    EF__HOST_ADDRESS, /* another address, as probes and scrapers use */
    EF__HOST_OTHER    /* another name, or none */
} ef__host_kind;

struct ef__request {
    ef__server *server;
    void *connection;           /* http.c's; NULL in tests */
    ef__connection *client;     /* of connections.c; may be NULL */
    const ef__operation *route; /* of `handler` */
    const ef__http_route *handler;
    ef_str method;
    ef_str path;                     /* raw, without the query */
    ef_str parts[EF__REQUEST_PARTS]; /* values of the names in the route's pattern, decoded */
    size_t parameter_count;
    ef__principal who;
    ef_str tenant;
    bool any_tenant; /* all tenants: the principal is not bound, and the request names none */
    ef__buf body;
    ef__arena arena; /* memory of the request */
    int64_t began_us;

    int status;       /* of the response; 0: 200, or that of the error */
    const char *type; /* of the response; NULL: application/json */
    ef__buf out;
    int64_t answer_bytes; /* set when it is sent, for the log */
    ef__header headers[EF__REQUEST_HEADERS];
    size_t header_count;
    ef__peer peer;
    bool head;          /* HEAD: handled as GET, answered without a body */
    bool at_prefix;     /* the path was server.path itself, without a trailing slash */
    bool lists_methods; /* OPTIONS: the response is the header Allow */
    ef__host_kind host_kind;
    bool at_once;                   /* its handler runs in the network thread */
    struct ef__request *next_ready; /* used by loop.c */
    struct ef__follower *follower;  /* a subscription: the response does not end by itself */
    struct ef__waiting {
        struct ef__request *next;
        bool parks;       /* the handler has returned without a response */
        int64_t began_us; /* of the first run; 0: this is the first run */
        int64_t end_us, after;
        int64_t position; /* of `current`: the head of the journal at the first run */
        ef_view_wait *view;
    } waiting;            /* used by waiters.c */
    uint64_t header_bits; /* used by http.c: ef__header_bit of all headers */

    ef__parameter parameters[EF__REQUEST_PARAMETERS]; /* parameter_count of them are set */
    ef_error error;                                   /* of dispatch or of the handler */
};

/* A hash bit of a header name, ignoring case: a quick test that a header is absent, as most are.
 * With these factors, no name that this server reads shares its bit with a common header. */
static inline uint64_t ef__header_bit(const char *name, size_t length)
{
    unsigned first = length ? name[0] | 0x20u : 0, last = length ? name[length - 1] | 0x20u : 0;

    return UINT64_C(1) << ((6 * length + first + 3 * last) & 63);
}

/* A header of the request; "": absent. */
ef_str ef__request_header(const ef__request *r, const char *name);
/* Each header, until `each` returns false. */
void ef__request_each_header(const ef__request *r,
                             bool (*each)(void *context, ef_str name, ef_str value), void *context);
/* Adds a header to the response; at most EF__REQUEST_HEADERS, more are a bug and dropped. */
void ef__request_add_header(ef__request *r, const char *name, const char *value);

/* Parses the target: path, and parameters decoded into the arena. */
ef_status ef__request_target(ef__request *r, ef_str target, ef_error *err);
/* Decodes %XX. EF_BAD_INPUT: a bad escape or a NUL. `plus`: + is a space. */
ef_status ef__request_decode(ef__request *r, ef_str text, bool plus, ef_str *out, ef_error *err);

/* --- inputs of the operation (input.c) -------------------------------------------------------- */

/* Reads the inputs of the operation into its request struct. An input that is not given, or is
 * null, leaves its field unchanged. EF_BAD_INPUT names the input and what is needed. */
ef_status ef__request_read(ef__request *r, void *request, ef_error *err);
/* EF_BAD_INPUT names a parameter that the operation does not have. */
ef_status ef__request_check_parameters(const ef__request *r, ef_error *err);
/* Runs the handler of the operation. */
ef_status ef__request_serve(ef__request *r, ef_error *err);
/* Reads the events of the body, appends them and writes their places. (append.c) */
ef_status ef__append_events(ef__request *r, ef_error *err);

/* Value of a parameter; "" if it was not given. */
ef_str ef__request_text(const ef__request *r, const char *name);
bool ef__request_given(const ef__request *r, const char *name);
/* EF_BAD_INPUT if `all` is requested and the token or X-Tenant-Id names a tenant. */
ef_status ef__request_check_all_tenants(const ef__request *r, bool all, ef_error *err);

/* The media type of the body in lower case, without parameters. */
ef_str ef__request_media(ef__request *r);
static inline ef__json_writer ef__request_writer(ef__request *r)
{
    return (ef__json_writer)EF__JSON_WRITER(&r->out);
}

/* A JSON value of at most 1,023 bytes. The arguments are not escaped: they need no escapes. */
__attribute__((format(printf, 2, 3))) void ef__json_printf(ef__json_writer *w, const char *format,
                                                           ...);
/* Writes an object of one number. */
void ef__request_write_count(ef__request *r, const char *key, int64_t count);
/* Writes objects as the operation describes its response: an array of its shape, or one. */
void ef__request_write(ef__request *r, const void *items, size_t count);
/* The same with `list`, which this declares for `call` to read into. The status of the call. */
#define EF__ANSWER(r, type, list, call)                                                            \
    ({                                                                                             \
        type list = {0};                                                                           \
        ef_status st_ = (call);                                                                    \
        if (st_ == EF_OK)                                                                          \
            ef__request_write(r, list.items, list.count);                                          \
        EF_RELEASE(&list);                                                                         \
        st_;                                                                                       \
    })

static inline ef_journal *ef__request_journal(const ef__request *r)
{
    return r->server->options.journal;
}

static inline ef_engine *ef__request_engine(const ef__request *r)
{
    return r->server->options.engine;
}

/* Adds an audit entry about `what` by the principal, for actions whose library call adds none. */
ef_status ef__request_note(ef__request *r, const char *action, ef_str what, ef_str reason,
                           ef_error *err);

void ef__request_release(ef__request *r);

/* Whether the client has closed the connection: seen within a second while the request waits. */
bool ef__request_is_abandoned(const ef__request *r);
/* The budget of a query or a history; it is used up when the client disconnects. */
ef_budget ef__request_budget(ef__request *r);

/* --- routes: the handlers of the operations --------------------------------------------------- */

/* The handler of an operation: one of `run` and `serve`. `serve` gets the request struct of the
 * operation; `run` reads the request itself, after unknown parameters were refused. */
struct ef__http_route {
    const ef__operation *operation;
    ef_status (*run)(ef__request *r, ef_error *err);
    ef_status (*serve)(ef__request *r, void *request, ef_error *err);
};

/* After an action that returned `st`, writes the projection of the path: its active generation, and
 * all generations. (routes_projections.c) */
ef_status ef__answer_projection(ef__request *r, ef_status st, ef_error *err);
/* After an action on rows of the outbox: {"mode":VERB,KEY:N,"rows":[…]}. (routes_outbox.c) */
ef_status ef__answer_rows(ef__request *r, ef_status st, const char *key, int64_t count,
                          const ef_row_list *rows);
/* The dead rows that a request selects. */
const ef_outbox_bulk *ef__bulk_of(void *request);

#define EF__RUN(name, handler)                                                                     \
    {                                                                                              \
        &ef__op_##name, handler, NULL                                                              \
    }
#define EF__SERVE(name, handler)                                                                   \
    {                                                                                              \
        &ef__op_##name, NULL, handler                                                              \
    }
/* The handler is made from a row of serves.txt; it is a `run` if it needs nothing of the request.
 */
#define EF__SERVED(name) EF__SERVE(name, ef__serve_##name)
#define EF__LISTED(name) EF__RUN(name, ef__serve_##name)
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
extern const ef__http_route ef__routes_events[], ef__routes_views[], ef__routes_projections[],
    ef__routes_outbox[], ef__routes_runs[], ef__routes_workers[], ef__routes_subscribe[],
    ef__routes_health[], ef__routes_metrics[], ef__routes_openapi[], ef__routes_history[],
    ef__routes_monitor[], ef__routes_publishers[], ef__routes_tokens[];
extern const ef__http_route *const ef__route_tables[]; /* all of them; ends in NULL */

#define EF__ROUTE_METHODS_MAX 64

/* EF_MISUSE names a route of `tables` (NULL: ef__route_tables) that declares no tenancy. */
ef_status ef__routes_check(const ef__http_route *const *tables, ef_error *err);

/* A route by its number among all, in their order; NULL after the last. */
const ef__http_route *ef__route_at(size_t number);
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
