/*
 * read_requirement.h - the requirement of a waiting read: streams up to a seq, or a position.
 */
#ifndef EF_ENGINE_READ_REQUIREMENT_H
#define EF_ENGINE_READ_REQUIREMENT_H

#include "engine_priv.h"

typedef struct ef__wanted_stream {
    ef_str tenant, name;
    int64_t seq, position; /* position 0: not known */
} ef__wanted_stream;

/* A waiting read. */
typedef struct ef__waiting_read {
    struct ef__waiting_read *next; /* in the list of reads that wait for streams */
    int64_t generation;            /* whose watermarks it waits for; 0: none yet */
    int64_t position;              /* required; 0: it waits for streams */
    ef__wanted_stream *streams;    /* those that are not covered yet */
    size_t count;
    ef__watermark *watermarks; /* of these streams … */
    int64_t read_us;           /* … as of this time */
    bool shares;               /* takes part in the current lookup */
    int64_t blocked_read_us;   /* when it last checked whether a stream is blocked */
    int64_t round_us;          /* lookups from this time on count for it; 0: from now on */
    ef__arena arena;
} ef__waiting_read;

/* Sets the streams or the position that `freshness` requires, in the arena of `read`. `tenant`
 * NULL: any. EF_BAD_INPUT: an invalid token, or one of another tenant. */
ef_status ef__read_requirement_set(ef_engine *engine, const ef_freshness *freshness,
                                   const ef_str *tenant, ef__waiting_read *read, ef_error *err);

#endif
