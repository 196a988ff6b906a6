/*
 * limits.h - every limit of the house in one place, with a line each on why that much.
 */
#ifndef EF_BASE_LIMITS_H
#define EF_BASE_LIMITS_H

#define EF_LIMIT_TYPES 1000000  /* of a journal: every process has all of them in memory */
#define EF_LIMIT_NAME_BYTES 255 /* tenant, stream, type, id, lane: fits every back end's keys */
#define EF_LIMIT_DATA_BYTES (1024 * 1024) /* an event is a fact, not a file */
#define EF_LIMIT_META_BYTES (64 * 1024)   /* ids and trace context, with room to spare */
#define EF_LIMIT_JSON_DEPTH 128      /* deeper than people nest, shallow enough for any stack */
#define EF_LIMIT_ENVELOPE_DEPTH 8    /* what requests and responses put around data */
#define EF_LIMIT_JSON_KEYS 10000     /* keys of one object: the duplicate check stays cheap */
#define EF_LIMIT_NUMBER_BYTES 128    /* characters of a JSON number; exact numbers fit in 50 */
#define EF_LIMIT_NUMBER_EXPONENT 999 /* an exponent past this is a mistake or an attack */
#define EF_LIMIT_APPEND_EVENTS 10000 /* events of one append: one transaction, one answer */
#define EF_LIMIT_APPEND_BYTES (64 * 1024 * 1024) /* bytes of one append, held in memory at once */
#define EF_LIMIT_BATCH_BYTES (256 * 1024 * 1024) /* what one read may hold; a read stops early */
#define EF_LIMIT_GROUP_EVENTS 10000 /* events that share a commit: bounds how long it takes */
#define EF_LIMIT_ACTOR_BYTES 64     /* the name of whoever operates: a line of a record shows it */
#define EF_LIMIT_PARTITIONS 1024    /* leases a worker may have to renew */
#define EF_LIMIT_LEASE_CALLS 4096   /* a worker gives back and takes every partition, twice over */
#define EF_LIMIT_ERROR_BYTES 1000   /* of a stored last_error */
#define EF_LIMIT_DETAIL_BYTES 16384 /* of a run: what was asked for and what came of it */
#define EF_LIMIT_REASON_BYTES 4096  /* what an operator may say */
#define EF_LIMIT_RETAIN_US (366LL * 24 * 3600 * 1000000) /* what was published, for a year */
#define EF_LIMIT_LEASE_NAME_BYTES 600                    /* tenant + projection + separators */
#define EF_LIMIT_LINE_BYTES (2 * EF_LIMIT_DATA_BYTES)    /* a line of an import file */
#define EF_LIMIT_SETTINGS_BYTES (256 * 1024)             /* a settings file */
#define EF_LIMIT_LIST_ROWS 10000                         /* rows of one page of any list */
#define EF_LIMIT_LOOK_ROWS 10000 /* rows of the outbox that one search looks at: some 100 ms */
#define EF_LIMIT_TAKE_ROWS 16000 /* of the outbox: one batch, one commit */
#define EF_LIMIT_LEASE_MS (24LL * 3600 * 1000) /* a lease longer than a day is a mistake */

#endif
