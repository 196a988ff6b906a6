/*
 * worker_metrics.h - /metrics, /livez and /readyz of a worker.
 */
#ifndef EF_CLI_WORKER_METRICS_H
#define EF_CLI_WORKER_METRICS_H

#include "cli.h"
#include "../server/server.h"

/* Serves them at worker.metrics_listen, by the rules of `serve`: an address that is not loopback
 * needs TLS and a token. *out is NULL without that setting. `tokens` is a buffer for the path of
 * the token file and outlives the server. */
ef_status cli_metrics_start(cli *c, ef_supervisor *supervisor, char tokens[PATH_MAX],
                            ef__server **out, ef_error *err);

#endif
