/*
 * client_priv.h - one call: a request and its response as JSON.
 *
 *     ef__client_call call = EF__CLIENT_CALL("GET", tenant);
 *     ef__client_call_path(&call, "/v1/projections/");
 *     ef__client_call_name(&call, name);
 *     st = ef__client_call_json(client, &call, arena, &json, err);
 *     ef__client_call_release(&call);
 */
#ifndef EF_CLIENT_CLIENT_PRIV_H
#define EF_CLIENT_CLIENT_PRIV_H

#include "../base/arena.h"
#include "../base/buf.h"
#include "../base/memory.h"
#include "../shape/shape.h"

#include <everfold/client.h>

#define EF__CALL_TARGET_MAX (1 << 20)
#define EF__CALL_BODY_MAX (256 << 20)    /* upper limit of server.body */
#define EF__CALL_RESPONSE_MAX (65 << 20) /* larger than any response of a server */
#define EF__CALL_SOCKET_MAX 108          /* path of a Unix socket, with its NUL */
#define EF__CALL_LONG_MS 600000 /* timeout of calls that read the whole journal or all views */

typedef struct ef__client_call {
    const char *method;
    ef_str tenant; /* "": no X-Tenant-Id */
    ef__buf target;
    bool has_parameter; /* the target has a parameter */
    ef__buf body;
    const char *type; /* of the body; NULL: application/json */
    int64_t wait_ms;  /* time that the server may wait by itself */
    ef__buf response;
    int64_t next;                     /* Everfold-Next; 0 without that header */
    bool more;                        /* Everfold-More */
    char socket[EF__CALL_SOCKET_MAX]; /* Everfold-Socket; "" without that header */
} ef__client_call;

#define EF__CLIENT_CALL(method_, tenant_)                                                          \
    {                                                                                              \
        .method = (method_), .tenant = (tenant_), .target = EF__BUF_INIT(EF__CALL_TARGET_MAX),     \
        .body = EF__BUF_INIT(EF__CALL_BODY_MAX), .response = EF__BUF_INIT(EF__CALL_RESPONSE_MAX)   \
    }

void ef__client_call_path(ef__client_call *call, const char *text); /* unescaped */
void ef__client_call_name(ef__client_call *call, ef_str name);      /* escaped */
/* Adds a parameter; "", 0 and false are omitted. */
void ef__client_call_text(ef__client_call *call, const char *key, ef_str value);
void ef__client_call_int(ef__client_call *call, const char *key, int64_t value);
void ef__client_call_flag(ef__client_call *call, const char *key, bool value);
static inline ef__json_writer ef__client_call_writer(ef__client_call *call)
{
    return (ef__json_writer)EF__JSON_WRITER(&call->body);
}
/* Adds a member of the body; "" and 0 are omitted. */
void ef__client_call_member(ef__json_writer *w, const char *key, ef_str value);
void ef__client_call_number(ef__json_writer *w, const char *key, int64_t value);

/* Sends the request. A problem response becomes an error with its status, detail and numbers. */
ef_status ef__client_call_run(ef_client *client, ef__client_call *call, ef_error *err);
/* Sends the request and parses the response: the tree and its strings are in `arena`. */
ef_status ef__client_call_json(ef_client *client, ef__client_call *call, ef__arena *arena,
                               const ef__json **out, ef_error *err);
/* As ef__client_call_json, for a path without parameters; the response lives in the memory of a
 * list. */
ef_status ef__client_get(ef_client *client, const char *path, struct ef__batch_memory **room,
                         const ef__json **out, ef_error *err);
void ef__client_call_release(ef__client_call *call);

/* Reads the items of an array (NULL: none) by their shape, and by `more` unless it is NULL. */
ef_status ef__items_read(const ef__json *array, const ef__shape *shape, const ef__shape *more,
                         ef__arena *arena, const void **out_items, size_t *out_count,
                         ef_error *err);

/* Sends a request whose response is one run. */
ef_status ef__client_call_one_run(ef_client *client, ef__client_call *call, ef_run_list *out,
                                  ef_error *err);

#endif
