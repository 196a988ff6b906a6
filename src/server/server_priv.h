/*
 * server_priv.h - the server's own things, seen by its room only.
 */
#ifndef EF_SERVER_SERVER_PRIV_H
#define EF_SERVER_SERVER_PRIV_H

#include "metrics.h"
#include "server.h"

#include "../base/logger.h"
#include "../shape/disk.h"

#include <everfold/view.h>

#include <pthread.h>
#include <sys/types.h>

struct ef__request;
typedef struct ef__connection ef__connection;

/* Connections that one token may keep waiting, and as many for its subscriptions. */
#define EF__OF_ONE_TOKEN(max) ((max) > 4 ? (max) / 4 : 1)

/* Where a request comes from, which decides what it may do without a token. */
typedef enum ef__peer_kind {
    EF__PEER_REMOTE, /* another machine, or a proxy that forwards for one */
    EF__PEER_LOCAL,  /* this machine */
    EF__PEER_OWNER /* over a Unix socket, and the process is of the server's own user or of root */
} ef__peer_kind;

typedef struct ef__peer {
    ef__peer_kind kind;
    bool has_uid; /* it came over a Unix socket */
    unsigned uid;
} ef__peer;

/* A Unix socket that listens (socket.c). */
typedef struct ef__socket {
    int fd;
    char path[108]; /* of its file; "": none */
    ino_t inode;
} ef__socket;

/* Who asks: what the token allows, and whom it is bound to. */
typedef struct ef__principal {
    unsigned scopes;
    bool owner; /* the server's own user, without a token */
    bool bound; /* to `tenant` */
    char tenant[256];
    char name[160]; /* for acts and logs: "token ID", "loopback" or "uid N"; with the name that the
                     * caller goes by, "alice (token ID)" */
    char token[40]; /* the token's id; "": it came without one */
} ef__principal;

/* How many there are just now, and how many connections were closed for being slow. Atomic. */
typedef struct ef__server_counts {
    int64_t in_flight, connections, followers;
    int64_t refused;
} ef__server_counts;

struct ef__server {
    ef__server_options options; /* defaults filled in */
    char url[300];
    char host[256]; /* the address it listens on */
    bool loopback;
    ef__socket socket;
    struct ef__http *http;
    struct ef__connections *connections;
    struct ef__loop *loop;
    struct ef__pool *pool, *probes;
    struct ef__waiters *waiters;
    struct ef__committer *committer;
    struct ef__tokens *tokens;
    struct ef__tls *tls; /* NULL: plain HTTP */
    struct ef__hub *hub;
    struct ef__tracer *tracer; /* NULL: nobody wants traces */
    struct ef__history *history;
    ef_view_reader *reader; /* the network's thread's own, and … */
    ef_view_list found;     /* … what it has read */
    int64_t round_us;       /* when the network's present round began; atomic */
    ef__server_counts counts;
    ef__server_meter meter;
    int64_t started_us;
    bool reads_at_once; /* a plain read of a view never waits for another process */
    bool stopping;      /* atomic */
};

int64_t ef__server_now(const ef__server *server);   /* wall */
int64_t ef__server_mono(const ef__server *server);  /* for durations */
ef__disk ef__server_disk(const ef__server *server); /* the room of the stores */

/* --- http.c, loop.c: the only ones that know the HTTP library
 * ---------------------------------------- */

ef_status ef__http_start(ef__server *server, ef_error *err);
void ef__http_quiesce(ef__server *server); /* take no new connection */
void ef__http_stop(ef__server *server);
/* The answer is ready: the network's thread goes on with the request. From any thread. */
void ef__http_ready(struct ef__request *r);

/* --- pool.c: threads for what may wait ---------------------------------------------------------
 */

typedef struct ef__pool ef__pool;
ef_status ef__pool_start(ef__server *server, ef_error *err);
/* Hand it over: r's handler runs in a thread of the pool, then ef__http_ready. False: too many are
 * waiting already. */
bool ef__pool_put(ef__pool *pool, struct ef__request *r);
void ef__pool_stop(ef__server *server);  /* what is in hand is answered; nothing more is taken */
void ef__pool_close(ef__server *server); /* the memory, when the network's thread has ended */

/* --- waiters.c: requests that wait for an event or a fold --------------------------------------
 */

ef_status ef__waiters_start(ef__server *server, ef_error *err);
/* From a handler, which returns EF_OK behind it: the request waits without a thread, and its
 * handler runs again when it need not wait, or at `end_us`. False: it is late already, or the
 * server stops. For events behind position `after`; or for views, and then `view` is the waiters'.
 */
bool ef__waiters_park(struct ef__request *r, int64_t end_us, int64_t after, ef_view_wait *view);
void ef__waiters_put(struct ef__request *r); /* by the pool, when the handler has returned */
void ef__waiters_stop(ef__server *server);   /* all of them go on at once … */
void ef__waiters_close(ef__server *server);  /* … and none comes any more */

/* --- committer.c: appends, many at a time -------------------------------------------------------
 */

#define EF__COMMITTED_BYTES_MAX 65536 /* of a body; a larger one takes long to read */

typedef struct ef__committer ef__committer;
ef_status ef__committer_start(ef__server *server, ef_error *err);
/* As ef__pool_put, for an append whose body is small. It is begun by ef__committer_go. */
bool ef__committer_put(ef__committer *committer, struct ef__request *r);
void ef__committer_go(ef__committer *committer);
void ef__committer_stop(ef__server *server); /* and close: as the pool's */
void ef__committer_close(ef__server *server);

/* --- dispatch.c: from the headers to the handler -----------------------------------------------
 */

/* After the headers: find the route, and check who asks and where from. On failure the request has
 * its answer already. */
ef_status ef__dispatch_begin(struct ef__request *r);
/* After the body: run the handler, here. */
void ef__dispatch_run(struct ef__request *r);
/* What the handler returned becomes the answer. */
void ef__dispatch_end(struct ef__request *r, ef_status st);
/* r->error becomes the answer. */
void ef__dispatch_problem(struct ef__request *r);

/* --- hub.c: who follows what --------------------------------------------------------------------
 */

ef_status ef__hub_start(ef__server *server, ef_error *err);
void ef__hub_stop(ef__server *server);  /* every subscription ends */
void ef__hub_close(ef__server *server); /* the memory, when nobody follows any more */

/* --- history.c: the last hour --------------------------------------------------------------------
 */

ef_status ef__history_start(ef__server *server, ef_error *err);
void ef__history_stop(ef__server *server);

/* --- tls.c: certificate and key ------------------------------------------------------------------
 */

/* Reads them when the options name them; both or none. */
ef_status ef__tls_open(ef__server *server, ef_error *err);
/* From the files again. On failure the old ones stay. */
ef_status ef__tls_reload(ef__server *server, ef_error *err);
void ef__tls_close(ef__server *server); /* when the network's thread has ended */

/* --- auth.c -------------------------------------------------------------------------------------
 */

/* Who it is, by the Authorization header, or without one by where it comes from: EF_OK, or
 * EF_UNAUTHORIZED. `now_us` as ef__server_mono has it. */
ef_status ef__token_check(ef__server *server, ef_str authorization, const ef__peer *peer,
                          int64_t now_us, ef__principal *out, ef_error *err);
/* Would it be let in again? No: its token was revoked or has expired; or there is a token by now,
 * and it came without one. */
bool ef__principal_stands(ef__server *server, const ef__principal *who);
ef_status ef__tokens_open(ef__server *server, ef_error *err);
ef_status ef__tokens_reload(ef__server *server, ef_error *err);
bool ef__tokens_any(const ef__server *server);
void ef__tokens_close(ef__server *server);

#endif
