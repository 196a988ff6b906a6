/*
 * request.h - one request, from its first line to its answer, as the handlers see it.
 *
 * A handler reads the request, writes its answer into `out` and returns EF_OK; or it fails, and the
 * error becomes problem+json with the status's HTTP code. It knows nothing of the network.
 */
#ifndef EF_SERVER_REQUEST_H
#define EF_SERVER_REQUEST_H

#include "../base/arena.h"
#include "../base/buf.h"
#include "../shape/shape.h"
#include "route.h"
#include "server_priv.h"

#define EF__REQUEST_PARTS 4       /* names in a path: {stream}, {projection} and {id} … */
#define EF__REQUEST_PARAMETERS 32 /* of the query; more is an error */
#define EF__REQUEST_HEADERS 8     /* that an answer may add */
#define EF__REQUEST_ARENA (4 << 20)
#define EF__ANSWER_BYTES_MAX (64 << 20) /* a page of the largest views; more is an error */

typedef struct ef__parameter {
    ef_str name, value;
    bool asked; /* a handler has looked at it: one that nobody asks for is an error */
} ef__parameter;

typedef struct ef__header {
    const char *name;
    const char *value; /* lives in the request's arena, or for ever */
} ef__header;

/* What the Host header names. A name can be pointed at any address by whoever owns it (DNS
 * rebinding); an address cannot. */
typedef enum ef__host_kind {
    EF__HOST_OURS,    /* our address, or one of server.hosts */
    EF__HOST_ADDRESS, /* another address: how probes and scrapers call */
    EF__HOST_OTHER    /* another name, or none */
} ef__host_kind;

typedef struct ef__request {
    ef__server *server;
    void *connection;       /* http.c's; NULL in tests */
    ef__connection *client; /* the same for connections.c; may be NULL */
    const ef__http_route *route;
    ef_str method;
    ef_str path;                     /* as it came, without the query */
    ef_str parts[EF__REQUEST_PARTS]; /* what stands for the names of the route, decoded */
    size_t parameter_count;
    ef__principal who;
    ef_str tenant;
    bool any_tenant; /* the principal may see all, and named none */
    ef__buf body;
    ef__arena arena; /* for the request's own memory */
    int64_t began_us;

    int status;       /* of the answer; 0: 200, or what the error says */
    const char *type; /* of the answer; NULL: application/json */
    ef__buf out;
    int64_t answer_bytes; /* when it is sent, for the log */
    ef__header headers[EF__REQUEST_HEADERS];
    size_t header_count;
    ef__peer peer;
    bool head;          /* HEAD: handled as GET, answered without a body */
    bool at_prefix;     /* the path was server.path itself, without a slash behind it */
    bool lists_methods; /* OPTIONS: answered by Allow alone */
    ef__host_kind host_kind;
    bool at_once;                   /* its handler runs in the thread of the network */
    struct ef__request *next_ready; /* loop.c's */
    struct ef__follower *follower;  /* a subscription: the answer never ends by itself */
    struct ef__waiting {
        struct ef__request *next;
        bool parks;       /* the handler has returned without an answer */
        int64_t began_us; /* of the first run; 0: this is it */
        int64_t end_us, after;
        int64_t position; /* of `current`: where the journal ended at the first run */
        ef_view_wait *view;
    } waiting;            /* waiters.c */
    uint64_t header_bits; /* http.c's: ef__header_bit of all that it has */

    ef__parameter parameters[EF__REQUEST_PARAMETERS]; /* as far as parameter_count */
    ef_error error; /* of the way to the handler, or of the handler */
} ef__request;

/* A bit for a name, in any case of letters: most names that are asked for are not there, and this
 * says so at once. With these factors no name that we ask for has the bit of another that requests
 * usually have. */
static inline uint64_t ef__header_bit(const char *name, size_t length)
{
    unsigned first = length ? name[0] | 0x20u : 0, last = length ? name[length - 1] | 0x20u : 0;

    return UINT64_C(1) << ((6 * length + first + 3 * last) & 63);
}

/* A header of the request; "" when it is not there. */
ef_str ef__request_header(const ef__request *r, const char *name);
/* Each header, until `each` returns false. */
void ef__request_each_header(const ef__request *r,
                             bool (*each)(void *context, ef_str name, ef_str value), void *context);
/* Add one to the answer; dropped when there are too many, which is a bug. */
void ef__request_add_header(ef__request *r, const char *name, const char *value);

/* Take the target apart: path, and parameters decoded into the arena. */
ef_status ef__request_target(ef__request *r, ef_str target, ef_error *err);
/* %XX decoded; EF_BAD_INPUT for a bad escape or a NUL. `plus`: + is a space. */
ef_status ef__request_decode(ef__request *r, ef_str text, bool plus, ef_str *out, ef_error *err);

/* Parameters of the query. Each says what it wants, so that the message names it. */
ef_str ef__request_text(ef__request *r, const char *name); /* "" when it was not given */
bool ef__request_given(ef__request *r, const char *name);
ef_status ef__request_int(ef__request *r, const char *name, int64_t min, int64_t max, int64_t *out,
                          ef_error *err);
ef_status ef__request_bool(ef__request *r, const char *name, bool *out, ef_error *err);
/* `all_tenants`: EF_BAD_INPUT where the token or X-Tenant-Id names one. */
ef_status ef__request_all_tenants(ef__request *r, bool *out, ef_error *err);
/* 500ms, 10s, 5m; a bare number is milliseconds. */
ef_status ef__request_duration(ef__request *r, const char *name, int64_t max_ms, int64_t *out_ms,
                               ef_error *err);
/* A parameter that no handler knows is an error that names it. Call it after the others. */
ef_status ef__request_no_more(ef__request *r, ef_error *err);

/* The media type of the body, without its parameters, in lower case. */
ef_str ef__request_media(ef__request *r);
/* The body is the program of the projection that the path names. (program.c) */
ef_status ef__request_program(ef__request *r, ef_str text, ef_error *err);
/* Answer with the program's mistakes, each with its place, beside the problem. */
ef_status ef__request_mistakes(ef__request *r, ef_str text, ef_error *err);
/* The body as a JSON object; an empty one is an object without members. */
ef_status ef__request_object(ef__request *r, const ef__json **out, ef_error *err);

/* Members of the body; what is not there, or null, leaves `out` alone. (member.c) */
ef_status ef__member_text(const ef__json *body, const char *key, bool needed, ef_str *out,
                          ef_error *err);
ef_status ef__member_int(const ef__json *body, const char *key, bool needed, int64_t min,
                         int64_t max, int64_t *out, ef_error *err);
ef_status ef__member_bool(const ef__json *body, const char *key, bool *out, ef_error *err);
/* EF_BAD_INPUT names a member that is not in the comma list. */
ef_status ef__members_only(const ef__json *body, const char *keys, ef_error *err);
/* The body {"reason", …} of an act on a path without parameters; what it may hold stands in `keys`.
 */
ef_status ef__request_reason(ef__request *r, const char *keys, const ef__json **out_body,
                             ef_str *out_reason, ef_error *err);
/* "rows":[row…] */
void ef__request_rows(ef__json_writer *w, const ef_row_list *rows);
/* The counts of the outbox, and its oldest row. */
void ef__request_summary(ef__json_writer *w, const ef_outbox_summary *summary);

static inline ef__json_writer ef__request_writer(ef__request *r)
{
    return (ef__json_writer)EF__JSON_WRITER(&r->out);
}

/* Note in the journal what was done, by whom and why, for GET /v1/audit: a word, and what it was
 * done to. For acts that leave no note by themselves. */
ef_status ef__request_note(ef__request *r, const char *act, ef_str what, ef_str reason,
                           ef_error *err);

void ef__request_release(ef__request *r);

/* Its client has closed the connection: the answer is not wanted any more. Noticed within a second
 * while the request waits or runs. */
bool ef__request_is_abandoned(const ef__request *r);
/* What a query or a look into the past may cost this request; it ends when the client has gone. */
ef_budget ef__request_budget(ef__request *r);

#endif
