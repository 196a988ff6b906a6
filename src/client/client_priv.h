/*
 * client_priv.h - one call: an operation, its request struct, and the response as JSON.
 */
#pragma once

#include "../base/auto.h"
#include "../base/buf.h"
#include "../shape/operation.h"

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
    ef__buf body;
    const char *type; /* of the body; NULL: application/json */
    int64_t wait_ms;  /* time that the server may wait by itself */
    ef__buf response;
    int64_t next;                     /* Everfold-Next; 0 without that header */
    bool more;                        /* Everfold-More */
    char socket[EF__CALL_SOCKET_MAX]; /* Everfold-Socket; "" without that header */
} ef__client_call;

#define EF__CLIENT_CALL                                                                            \
    {                                                                                              \
        .target = EF__BUF_INIT(EF__CALL_TARGET_MAX), .body = EF__BUF_INIT(EF__CALL_BODY_MAX),      \
        .response = EF__BUF_INIT(EF__CALL_RESPONSE_MAX)                                            \
    }

static inline ef__json_writer ef__client_call_writer(ef__client_call *call)
{
    return (ef__json_writer)EF__JSON_WRITER(&call->body);
}

/* Sends the request. A problem response becomes an error with its status, detail and numbers. */
ef_status ef__client_call_run(ef_client *client, ef__client_call *call, ef_error *err);
/* Sends the request and parses the response: the tree and its strings are in `arena`. */
ef_status ef__client_call_json(ef_client *client, ef__client_call *call, ef__arena *arena,
                               const ef__json **out, ef_error *err);
void ef__client_call_release(ef__client_call *call);
EF__AUTO_TYPE(ef__client_call, ef__client_call_release)

/* --- operations (operation.c) ----------------------------------------------------------------- */

/* A response. `items` are its objects by the shape of the operation, in the memory of a list. */
typedef struct ef__reply {
    const ef__json *json;
    const void *items;
    size_t count;
    int64_t next;                  /* Everfold-Next */
    bool more;                     /* Everfold-More */
    struct ef__batch_memory *room; /* of a caller that has no list */
} ef__reply;
EF__AUTO_LIST(ef__reply)

/* Writes the path, the parameters and the members of a request from its request struct. */
void ef__operation_write(const ef__operation *operation, const void *request,
                         ef__client_call *call);
/* Calls an operation and parses its response into `room`. `request`: NULL without inputs. */
ef_status ef__operation_call(ef_client *client, const ef__operation *operation, const void *request,
                             struct ef__batch_memory **room, ef__reply *out, ef_error *err);
/* Calls an operation and ignores its response. */
ef_status ef__operation_act(ef_client *client, const ef__operation *operation, const void *request,
                            ef_error *err);
/* The same, and reads one number of the response; `out` may be NULL. */
ef_status ef__operation_number(ef_client *client, const ef__operation *operation,
                               const void *request, const char *key, int64_t *out, ef_error *err);

/* Calls an operation and sets items and count of a list. `reply` is an ef__reply. */
#define EF__OPERATION_LIST(client, operation, request, out, reply, err)                            \
    ({                                                                                             \
        ef__reply *reply_ = (reply);                                                               \
        ef_status st_ = ef__operation_call(client, operation, request, &(out)->room, reply_, err); \
        (out)->items = reply_->items;                                                              \
        (out)->count = reply_->count;                                                              \
        st_;                                                                                       \
    })
/* The same where the rest of the response is not needed. */
#define EF__OPERATION_ITEMS(client, operation, request, out, err)                                  \
    EF__OPERATION_LIST(client, operation, request, out, &(ef__reply){.json = NULL}, err)

/* A member of a response; "" or 0 without it. */
ef_str ef__reply_text(const ef__json *json, const char *key);
int64_t ef__reply_int(const ef__json *json, const char *key);
/* Reads the items of an array (NULL: none) by their shape, and by `more` unless it is NULL. */
ef_status ef__items_read(const ef__json *array, const ef__shape *shape, const ef__shape *more,
                         ef__arena *arena, const void **out_items, size_t *out_count,
                         ef_error *err);
/* The runs of a response: a detail of {} becomes "". */
ef_status ef__operation_runs(ef_client *client, const ef__operation *operation, const void *request,
                             ef_run_list *out, ef_error *err);
/* The events of a response. *out_next: Everfold-Next, where the next page begins. */
ef_status ef__operation_batch(ef_client *client, const ef__operation *operation,
                              const void *request, ef_batch *out, int64_t *out_next, ef_error *err);
#define EF__OPERATION_BATCH(client, operation, request, out, err)                                  \
    ef__operation_batch(client, operation, request, out, &(int64_t){0}, err)
/* One view. */
ef_status ef__operation_view(ef_client *client, const ef__operation *operation, const void *request,
                             ef_view_list *out, ef_error *err);
/* The rows of a response that is one page. */
ef_status ef__operation_rows(ef_client *client, const ef__operation *operation, const void *request,
                             ef_row_list *out, ef_error *err);
/* The response is an array of tokens, or one token. */
ef_status ef__operation_tokens(ef_client *client, const ef__operation *operation,
                               const void *request, ef_client_token_list *out, ef_error *err);
