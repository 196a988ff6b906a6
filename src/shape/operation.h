/*
 * operation.h - the operations of the HTTP interface, each described once.
 *
 * An operation is a table entry: method and path, what it may be called by, and its inputs with
 * their place in a request struct. The server reads a request into the struct, the client writes a
 * request from the same struct, and the router and /openapi.json are made from the same entry.
 */
#pragma once

#include "shape.h"

enum ef__scope_bits {
    EF__SCOPE_OPEN = 0, /* no token is needed */
    EF__SCOPE_APPEND = 1,
    EF__SCOPE_READ = 2,
    EF__SCOPE_WORK = 4,
    EF__SCOPE_OPERATE = 8,
    EF__SCOPE_ADMIN = 16, /* includes all others, and tokens */
    EF__SCOPE_ALL = 31
};

enum ef__route_flags {
    EF__ROUTE_QUICK = 1,        /* runs in the network thread: never waits */
    EF__ROUTE_STREAM = 2,       /* the response is a subscription */
    EF__ROUTE_BODY = 4,         /* has a body */
    EF__ROUTE_QUICK_PLAIN = 8,  /* quick if the request has no parameter */
    EF__ROUTE_LOCAL = 16,       /* needs no token on this machine */
    EF__ROUTE_PAGE = 64,        /* files of the monitor: not in /openapi.json */
    EF__ROUTE_APPEND = 128,     /* appends: small ones are committed together */
    EF__ROUTE_PROBE = 256,      /* answered for every Host header; reveals no data */
    EF__ROUTE_WORKER = 512,     /* also served by a worker, which serves nothing else */
    EF__ROUTE_RESERVED = 1024,  /* runs in a thread reserved for probes */
    EF__ROUTE_ANY_QUERY = 2048, /* unknown parameters are ignored */
    EF__ROUTE_LONG = 4096       /* may read the whole journal: the client waits longer */
};

/* What a token that is bound to one tenant gets of an operation. Each operation declares it: the
 * server does not start with one that does not, and any value that is not listed here is refused to
 * such a token. `any_tenant` of a request is false if it is of one tenant. */
typedef enum ef__tenancy {
    EF__TENANCY_UNDECLARED,
    EF__TENANCY_NONE,   /* the response has no data of tenants */
    EF__TENANCY_QUERY,  /* every read and write of a store names the tenant of the request */
    EF__TENANCY_PART,   /* covers all tenants; a bound token gets the part of its tenant */
    EF__TENANCY_UNBOUND /* about all tenants: refused to a bound token */
} ef__tenancy;

typedef enum ef__input_kind {
    EF__INPUT_TEXT,     /* ef_str */
    EF__INPUT_INT,      /* int64_t, int32_t or size_t, by `size` */
    EF__INPUT_BOOL,     /* bool */
    EF__INPUT_TIME,     /* int64_t, microseconds: an RFC 3339 string */
    EF__INPUT_DURATION, /* int64_t, milliseconds: "500ms", "10s", "5m" */
} ef__input_kind;

typedef enum ef__input_place {
    EF__INPUT_PATH,       /* a name in braces of the pattern, in their order */
    EF__INPUT_QUERY,      /* a parameter */
    EF__INPUT_MEMBER,     /* a member of the body, a JSON object */
    EF__INPUT_CONTENT,    /* the body itself; `name` is its media type */
    EF__INPUT_TENANT,     /* of the token or of X-Tenant-Id */
    EF__INPUT_ANY_TENANT, /* bool: neither names a tenant */
    EF__INPUT_ACTOR       /* of the token, with Everfold-Actor; not sent */
} ef__input_place;

typedef struct ef__input {
    const char *name;
    ef__input_place place;
    ef__input_kind kind;
    size_t offset, size; /* of the field in the request struct */
    int64_t min, max;    /* INT; DURATION: only max */
    int64_t otherwise;   /* INT: the value if it is not given */
    bool required;
    bool keeps_empty; /* TEXT: "" is sent unless its pointer is NULL */
} ef__input;

typedef struct ef__operation {
    const char *method;
    const char *pattern; /* "/v1/views/{projection}/{id}": a name in braces is a segment */
    unsigned scope;
    ef__tenancy tenancy;
    unsigned flags;
    const char *id; /* operationId */
    const char *summary;
    const ef__input *inputs;       /* ends with a NULL name; NULL: none */
    size_t size;                   /* of the request struct; 0: the handler reads the request */
    const char *body;              /* name of the schema of its body; NULL: none */
    const char *answer;            /* name of the schema of its response */
    int answer_status;             /* 0: 200 */
    const ef__shape *shape, *more; /* of the objects in the response that the client reads */
    const char *member;            /* the response is an object, and they are this member; "":
                                    * it is one of them; NULL: it is an array of them */
} ef__operation;

#define EF__INPUT(type, member, name_, place_, kind_, ...)                                         \
    {                                                                                              \
        .name = (name_), .place = EF__INPUT_##place_, .kind = EF__INPUT_##kind_,                   \
        .offset = offsetof(type, member), .size = sizeof(((type *)0)->member), __VA_ARGS__         \
    }
/* Documented only: the handler reads it. */
#define EF__INPUT_ONLY(name_, place_, kind_)                                                       \
    {                                                                                              \
        .name = (name_), .place = EF__INPUT_##place_, .kind = EF__INPUT_##kind_                    \
    }
#define EF__INPUT_END                                                                              \
    {                                                                                              \
        0                                                                                          \
    }

/* --- request structs that are not public ------------------------------------------------------ */

/* An object by its name, and what many operations on one object have. */
typedef struct ef__object_request {
    ef_str name, tenant, actor, reason;
    int64_t limit;
    bool flag; /* runs: open only; failures: resolved; publishers: discard; replay: validate */
} ef__object_request;

/* Status and partition as text, because the query has pointers to their values. */
typedef struct ef__rows_request {
    ef_outbox_query query;
    ef_str status, partition;
} ef__rows_request;

typedef struct ef__bulk_request {
    ef_outbox_bulk bulk;
    bool any_tenant, all;
} ef__bulk_request;

typedef struct ef__replay_request {
    ef_replay replay;
    bool validate;
    int64_t limit; /* warnings */
} ef__replay_request;

typedef struct ef__token_request {
    ef_str scopes, tenant, note; /* tenant: NULL pointer for all tenants */
    int64_t expires_s;
} ef__token_request;

typedef struct ef__type_request {
    ef_type type;
    ef_str intent;
} ef__type_request;

typedef struct ef__deploy_request {
    ef_deploy deploy;
    ef_str name, on_error;
} ef__deploy_request;

typedef struct ef__draft_request {
    ef_draft draft;
    ef_str name, tenant;
    bool any_tenant;
} ef__draft_request;

typedef struct ef__diff_request {
    ef_generation_choice left, right;
    int64_t limit;
} ef__diff_request;

typedef struct ef__seed_request {
    ef_str name, views, actor, reason;
    int64_t position;
} ef__seed_request;

/* One view, or the events of a stream. */
typedef struct ef__view_request {
    ef_str projection, tenant, id;
    ef_freshness freshness;
    int64_t position, limit;
} ef__view_request;

typedef struct ef__stream_request {
    ef_str tenant, stream;
    int64_t from_seq;
    size_t limit;
} ef__stream_request;

typedef struct ef__log_request {
    ef_log_query query;
    int64_t wait_ms;
} ef__log_request;

extern const ef__operation ef__op_report_outbox, ef__op_group_outbox, ef__op_requeue, ef__op_skip,
    ef__op_replay_row, ef__op_requeue_dead, ef__op_skip_dead, ef__op_audit;
extern const ef__operation ef__op_look_at_replay, ef__op_replay, ef__op_list_gaps,
    ef__op_repair_gaps, ef__op_list_runs, ef__op_show_run, ef__op_cancel_run;
extern const ef__operation ef__op_list_lanes, ef__op_list_leases, ef__op_list_workers,
    ef__op_list_partitions, ef__op_sync_partitions;

extern const ef__operation ef__op_list_publishers, ef__op_show_publisher, ef__op_pause_publisher,
    ef__op_resume_publisher, ef__op_set_publisher, ef__op_remove_publisher;
extern const ef__operation ef__op_list_tokens, ef__op_create_token, ef__op_revoke_token;
extern const ef__operation ef__op_list_types, ef__op_show_type, ef__op_set_type, ef__op_status;
extern const ef__operation ef__op_list_projections, ef__op_show_projection, ef__op_show_scope,
    ef__op_list_failures, ef__op_deploy_projection, ef__op_try_draft, ef__op_pause_projection,
    ef__op_resume_projection, ef__op_rebuild_projection, ef__op_verify_projection,
    ef__op_switch_projection, ef__op_rollback_projection, ef__op_retire_projection,
    ef__op_seed_projection, ef__op_diff_projection;
extern const ef__operation ef__op_get_view, ef__op_find_views, ef__op_explain_view;
extern const ef__operation ef__op_append_to_stream, ef__op_append_many, ef__op_read_stream,
    ef__op_read_log, ef__op_read_event;
