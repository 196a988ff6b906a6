/*
 * limits.h - limits that several modules share, each with its reason. Limits of one module are next
 * to its code.
 */
#pragma once

#define EF_LIMIT_TYPES 1000000  /* of a journal: every process caches all of them */
#define EF_LIMIT_NAME_BYTES 255 /* tenant, stream, type, id, lane: fits every back end's keys */
#define EF_LIMIT_DATA_BYTES (1024 * 1024) /* an event is a fact, not a file */
#define EF_LIMIT_META_BYTES (64 * 1024)   /* ids and trace context, with space to spare */
#define EF_LIMIT_JSON_DEPTH 128      /* deeper than people nest, shallow enough for any stack */
#define EF_LIMIT_ENVELOPE_DEPTH 8    /* levels that requests and responses put around data */
#define EF_LIMIT_JSON_KEYS 10000     /* keys of one object: the duplicate check stays cheap */
#define EF_LIMIT_NUMBER_BYTES 128    /* characters of a JSON number; exact numbers fit in 50 */
#define EF_LIMIT_NUMBER_EXPONENT 999 /* an exponent past this is a mistake or an attack */
#define EF_LIMIT_APPEND_EVENTS 10000 /* events of one append: one transaction, one response */
#define EF_LIMIT_APPEND_BYTES (64 * 1024 * 1024) /* bytes of one append, in memory at once */
#define EF_LIMIT_BATCH_BYTES (256 * 1024 * 1024) /* bytes of one batch; a read stops early */
#define EF_LIMIT_GROUP_EVENTS 10000 /* events that share a commit: bounds its duration */
#define EF_LIMIT_ACTOR_BYTES 64     /* the actor of an audit entry, which is listed on one line */
#define EF_LIMIT_PARTITIONS 1024    /* leases that a worker may have to renew */
#define EF_LIMIT_PUBLISHER_PARTITIONS                                                              \
    16                              /* of its lane, and in stored rows: workers that share it */
#define EF_LIMIT_LEASE_CALLS 4096   /* a worker releases and acquires every partition, twice */
#define EF_LIMIT_ERROR_BYTES 1000   /* a stored last_error: a sentence or two, in every retry row */
#define EF_LIMIT_DETAIL_BYTES 16384 /* of a run: its request and its result, as JSON */
#define EF_LIMIT_REASON_BYTES 4096  /* an operator's reason, written by a person */
#define EF_LIMIT_RETAIN_US (366LL * 24 * 3600 * 1000000) /* published events, for a year */
#define EF_LIMIT_LEASE_NAME_BYTES 600                    /* tenant + projection + separators */
#define EF_LIMIT_LINE_BYTES (2 * EF_LIMIT_DATA_BYTES)    /* a line of an import file: one event */
#define EF_LIMIT_SETTINGS_BYTES (256 * 1024)             /* a settings file, read at once */
#define EF_LIMIT_LIST_ROWS 10000                         /* one page of a list, in memory at once */
#define EF_LIMIT_SCAN_ROWS 10000               /* outbox rows that one search reads: some 100 ms */
#define EF_LIMIT_CLAIM_ROWS 16000              /* of the outbox: one batch, one commit */
#define EF_LIMIT_LEASE_MS (24LL * 3600 * 1000) /* a lease longer than a day is a mistake */
#define EF_LIMIT_FOLLOWED_TENANTS 10000        /* of a generation: bounds what is recorded */
#define EF_LIMIT_CHANGES_KEPT 100000           /* records of a tenant: 15 minutes at 100 a second */
#define EF_LIMIT_CHANGES_LEFT 87500            /* of these, when the oldest are deleted: rarely */
#define EF_LIMIT_COMMIT_OUTCOMES                                                                   \
    (5 * EF_LIMIT_CLAIM_ROWS)                    /* events times projections of a commit */
#define EF_LIMIT_COMMIT_BYTES (24 * 1024 * 1024) /* of views that a commit changes, in memory */
