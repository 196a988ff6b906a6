/*
 * client_priv.h - one call: what is asked, and its answer as JSON.
 *
 *     ef__ask call = EF__ASK("GET", tenant);
 *     ef__ask_path(&call, "/v1/projections/");
 *     ef__ask_name(&call, name);
 *     st = ef__ask_json(client, &call, arena, &json, err);
 *     ef__ask_release(&call);
 */
#ifndef EF_CLIENT_CLIENT_PRIV_H
#define EF_CLIENT_CLIENT_PRIV_H

#include "../base/arena.h"
#include "../base/buf.h"
#include "../base/room.h"
#include "../shape/shape.h"

#include <everfold/client.h>

#define EF__ASK_TARGET_MAX (1 << 20)
#define EF__ASK_BODY_MAX (256 << 20)  /* the most that a server can be set to take */
#define EF__ASK_ANSWER_MAX (65 << 20) /* the most that it answers */
#define EF__ASK_LONG_MS 600000        /* what goes through the whole journal, or all views */

typedef struct ef__ask {
    const char *method;
    ef_str tenant; /* "": none is named */
    ef__buf target;
    bool asked; /* there is a parameter */
    ef__buf body;
    const char *type; /* of the body; NULL: application/json */
    int64_t wait_ms;  /* the server may take so long by itself */
    ef__buf answer;
    int64_t next; /* Everfold-Next; 0: there was none */
    bool more;    /* Everfold-More */
} ef__ask;

#define EF__ASK(method_, tenant_)                                                                  \
    {                                                                                              \
        .method = (method_), .tenant = (tenant_), .target = EF__BUF_INIT(EF__ASK_TARGET_MAX),      \
        .body = EF__BUF_INIT(EF__ASK_BODY_MAX), .answer = EF__BUF_INIT(EF__ASK_ANSWER_MAX)         \
    }

void ef__ask_path(ef__ask *call, const char *text); /* as it is */
void ef__ask_name(ef__ask *call, ef_str name);      /* escaped */
/* Parameters; what is "", 0 or false is left out. */
void ef__ask_text(ef__ask *call, const char *key, ef_str value);
void ef__ask_int(ef__ask *call, const char *key, int64_t value);
void ef__ask_flag(ef__ask *call, const char *key, bool value);
static inline ef__json_writer ef__ask_writer(ef__ask *call)
{
    return (ef__json_writer)EF__JSON_WRITER(&call->body);
}
/* Members of the body; what is "" or 0 is left out. */
void ef__ask_member(ef__json_writer *w, const char *key, ef_str value);
void ef__ask_number(ef__json_writer *w, const char *key, int64_t value);

/* Ask. An answer that is a problem is an error with its status, words and numbers. */
ef_status ef__ask_run(ef_client *client, ef__ask *call, ef_error *err);
/* The same, and read the answer: the tree and all that it points to are in `arena`. */
ef_status ef__ask_json(ef_client *client, ef__ask *call, ef__arena *arena, const ef__json **out,
                       ef_error *err);
/* The same for a path that needs no more, into the room of a list. */
ef_status ef__client_ask(ef_client *client, const char *method, const char *path,
                         struct ef__batch_room **room, const ef__json **out, ef_error *err);
void ef__ask_release(ef__ask *call);

/* Items of an array (NULL: none) by their shape, and by `more` unless that is NULL. */
ef_status ef__items_read(const ef__json *array, const ef__shape *shape, const ef__shape *more,
                         ef__arena *arena, const void **out_items, size_t *out_count,
                         ef_error *err);

/* An answer that is one run. */
ef_status ef__ask_one_run(ef_client *client, ef__ask *call, ef_run_list *out, ef_error *err);

#endif
