/*
 * deploy.h - what deploying beside and in place share.
 */
#ifndef EF_ENGINE_DEPLOY_H
#define EF_ENGINE_DEPLOY_H

#include "engine_priv.h"

/* The program_hash of its generations. */
uint64_t ef__deploy_hash(const ef__program *program);
/* Its indexes as a generation keeps them: paths with commas between. */
ef_status ef__deploy_indexes(const ef__program *program, ef__buf *out, ef_error *err);
/* Together with the other programs there are: none looks into itself, also not by others. */
ef_status ef__deploy_check_lookups(ef_engine *engine, const ef__program *program, ef_error *err);

/*
 * Pausing stops the feed, and resuming catches up by cursor. The queue does not move the cursor, so
 * it is brought to where the generation stands before the feed stops: what lies below is applied,
 * for rows of the queue go only after the commit of the views. What failed, and anything that does
 * not add up, keeps the cursor lower; then events are read again that were applied, which changes
 * nothing. EF_CONFLICT: it is another generation than the one that was read.
 */
ef_status ef__deploy_keep_place(ef_engine *engine, const ef__generation *generation, ef_error *err);

/* See ef_projection_deploy_in_place. */
ef_status ef__deploy_in_place(ef_engine *engine, const ef__program *program, ef_str text,
                              ef_error *err);

#endif
