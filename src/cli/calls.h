/*
 * calls.h - the calls that commands make, on open stores or through a server.
 *
 * cli_X(c, ...) is ef_client_X with c->client through a server, otherwise the public function of
 * the store. The build makes either.h from the prototypes of both (src/callgen.py). The actor of a
 * call is that of the command; through a server, it is that of the token. Only the functions here
 * distinguish stores and a server.
 */
#pragma once

#include "cli.h"

#include <everfold/generation.h>
#include <everfold/replay.h>

#include "either.h"

/* Deploys a program; `path` is for messages. A server receives `on_error` with the program; for a
 * store the caller sets it afterwards. */
ef_status cli_projection_deploy(cli *c, const ef_deploy *deploy, const char *on_error,
                                ef_projection_list *out, ef_text *out_report, ef_error *err);
/* Position up to which the projection has applied the events of a tenant; NULL: of all tenants. */
ef_status cli_projection_reached(cli *c, ef_str name, const ef_str *tenant, int64_t *out,
                                 ef_error *err);
/* As ef_engine_run. Through a server, its workers drive the run and this call only polls it. */
ef_status cli_engine_run(cli *c, ef_str id, const ef_run_options *options, ef_run_list *out,
                         ef_error *err);
/* EF_UNSUPPORTED through a server. */
static inline ef_status cli_stream_head(cli *c, ef_str tenant, ef_str stream, int64_t *out_seq,
                                        int64_t *out_position)
{
    return c->client ? EF_UNSUPPORTED
                     : ef_stream_head(c->journal, tenant, stream, out_seq, out_position, NULL);
}
