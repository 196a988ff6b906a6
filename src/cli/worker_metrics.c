/*
 * worker_metrics.c - see worker_metrics.h.
 */
#include "worker_metrics.h"

#define THREADS 4
#define CONNECTIONS 64

ef_status cli_metrics_start(cli *c, ef_supervisor *supervisor, char tokens[PATH_MAX],
                            ef__server **out, ef_error *err)
{
    const char *listen = cli_setting_text(c, "worker.metrics_listen");
    ef_status st = listen ? cli_tokens_path(c, tokens, err) : EF_OK;

    *out = NULL;
    if (!listen || st != EF_OK)
        return st;
    return ef__server_start(
        &(ef__server_options){.journal = c->journal,
                              .engine = c->engine,
                              .supervisor = supervisor,
                              .listen = listen,
                              .tls_certificate = cli_setting_text(c, "server.tls_certificate"),
                              .tls_key = cli_setting_text(c, "server.tls_key"),
                              .tokens = tokens,
                              .hosts = cli_setting_text(c, "server.hosts"),
                              .mode = cli_mode_name(c->mode),
                              .url = c->journal_shown,
                              .views_url = c->views_shown,
                              .threads_max = THREADS,
                              .connections_max = CONNECTIONS,
                              .probes_only = true,
                              .log = &c->log},
        out, err);
}
