/*
 * deployment.h - what deploying beside and in place share.
 */
#ifndef EF_ENGINE_DEPLOYMENT_H
#define EF_ENGINE_DEPLOYMENT_H

#include "engine_priv.h"

/* The program_hash of generations of the program. */
uint64_t ef__deploy_hash(const ef__program *program);
/* The indexes as a generation stores them: paths separated by commas. */
ef_status ef__deploy_indexes(const ef__program *program, ef__buf *out, ef_error *err);
/* EF_BAD_INPUT: with the deployed programs, the lookups of the program form a cycle. */
ef_status ef__deploy_check_lookups(ef_engine *engine, const ef__program *program, ef_error *err);

/*
 * Stores the cursor of a queue-fed generation before its feed stops (pause, new program): from
 * there it catches up when it is resumed. The queue does not move the cursor. Every event up to the
 * stored position is applied, because rows are acknowledged only after the commit of the views.
 * Failed events, or counts that do not add up, lower the position; events that are read again are
 * duplicates. EF_CONFLICT: the generation has changed since it was read.
 */
ef_status ef__deploy_keep_place(ef_engine *engine, const ef__generation *generation, ef_error *err);

/* See ef_deploy.in_place. */
ef_status ef__deploy_in_place(ef_engine *engine, const ef__program *program, ef_str text,
                              ef_error *err);

#endif
