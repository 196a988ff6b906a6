/*
 * status.h - the statuses of calls, and the next action of the caller.
 *
 * Every call that can fail returns an ef_status and puts the details in an ef_error of the caller
 * (or NULL). One table generates the enum, the stable code for programs, the exit code of the
 * command line, the HTTP status and the message.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

EF_C_BEGIN

/* The next action of the caller. */
typedef enum ef_next {
    EF_NEXT_CONTINUE, /* success */
    EF_NEXT_DECIDE,   /* read again, then decide */
    EF_NEXT_FIX,      /* change the request */
    EF_NEXT_RETRY,    /* nothing was written: the same call may succeed later */
    EF_NEXT_CHECK,    /* the result is unknown: check it before repeating */
    EF_NEXT_ABANDON,  /* another worker has the work: drop it */
    EF_NEXT_STOP      /* a person has to intervene: do not continue */
} ef_next;

/* status, next action, stable code, exit code, HTTP status, message */
#define EF_STATUS_MAP(X)                                                                           \
    X(EF_OK, EF_NEXT_CONTINUE, "ok", 0, 200, "ok")                                                 \
    X(EF_CONFLICT, EF_NEXT_DECIDE, "seq_conflict", 4, 409, "seq conflict")                         \
    X(EF_ID_CONFLICT, EF_NEXT_FIX, "id_conflict", 4, 409,                                          \
      "the event id belongs to an event with other content")                                       \
    X(EF_EXISTS, EF_NEXT_DECIDE, "exists", 4, 409, "already exists")                               \
    X(EF_NOT_FOUND, EF_NEXT_DECIDE, "not_found", 3, 404, "not found")                              \
    X(EF_LEASE_HELD, EF_NEXT_RETRY, "lease_held", 4, 409, "another worker holds the lease")        \
    X(EF_LEASE_LOST, EF_NEXT_ABANDON, "lease_lost", 4, 409, "lease lost")                          \
    X(EF_BUSY, EF_NEXT_RETRY, "busy", 5, 503, "store busy")                                        \
    X(EF_TIMEOUT, EF_NEXT_RETRY, "timeout", 5, 504, "timed out")                                   \
    X(EF_UNSURE, EF_NEXT_CHECK, "unsure", 1, 502, "result unknown")                                \
    X(EF_BAD_INPUT, EF_NEXT_FIX, "bad_input", 2, 400, "invalid argument")                          \
    X(EF_BAD_JSON, EF_NEXT_FIX, "bad_json", 2, 400, "invalid JSON")                                \
    X(EF_TOO_LARGE, EF_NEXT_FIX, "too_large", 2, 413, "limit exceeded")                            \
    X(EF_UNKNOWN_TYPE, EF_NEXT_FIX, "unknown_type", 2, 422, "the event type is not registered")    \
    X(EF_UNSUPPORTED, EF_NEXT_FIX, "unsupported", 2, 501, "not supported by this store")           \
    X(EF_FULL, EF_NEXT_RETRY, "disk_full", 1, 507, "disk full")                                    \
    X(EF_IO, EF_NEXT_STOP, "io_error", 1, 500, "input/output error")                               \
    X(EF_DAMAGED, EF_NEXT_STOP, "damaged", 6, 500, "the journal is damaged")                       \
    X(EF_WRONG_STORE, EF_NEXT_FIX, "wrong_store", 1, 500, "the file is not an Everfold store")     \
    X(EF_NEWER_SCHEMA, EF_NEXT_FIX, "newer_schema", 1, 500,                                        \
      "the store was written by a newer version of Everfold")                                      \
    X(EF_NO_MEMORY, EF_NEXT_RETRY, "no_memory", 1, 500, "out of memory")                           \
    X(EF_MISUSE, EF_NEXT_FIX, "misuse", 1, 500, "the call is not allowed here")                    \
    X(EF_UNAUTHORIZED, EF_NEXT_FIX, "unauthorized", 2, 401, "missing or invalid token")            \
    X(EF_FORBIDDEN, EF_NEXT_FIX, "forbidden", 2, 403, "not allowed for this token or origin")      \
    X(EF_BAD_METHOD, EF_NEXT_FIX, "method_not_allowed", 2, 405,                                    \
      "the path does not have this method")                                                        \
    X(EF_BAD_MEDIA_TYPE, EF_NEXT_FIX, "unsupported_media_type", 2, 415,                            \
      "the media type is not supported")                                                           \
    X(EF_MISDIRECTED, EF_NEXT_FIX, "misdirected", 2, 421, "the request names another host")        \
    X(EF_BLOCKED, EF_NEXT_STOP, "blocked", 4, 424, "an earlier event of the stream failed")        \
    X(EF_OVER_BUDGET, EF_NEXT_FIX, "over_budget", 2, 422, "the request exceeds its work budget")

typedef enum ef_status {
#define EF__STATUS_NAME(name, next, code, exit_code, http, words) name,
    EF_STATUS_MAP(EF__STATUS_NAME)
#undef EF__STATUS_NAME
        EF_STATUS_COUNT
} ef_status;

#define EF_ERROR_TEXT_MAX 512 /* bytes: a sentence with a name of 255 bytes, on the stack */

/*
 * The details of a failure, in memory of the caller, so that running out of memory can be reported
 * too. Start from EF_ERROR_INIT, or pass NULL where the status is enough.
 */
typedef struct ef_error {
    ef_status status;
    bool has_numbers;             /* `asked` and `found` are set */
    int64_t asked;                /* the requested value: a seq, a token, a size … */
    int64_t found;                /* the actual value */
    char text[EF_ERROR_TEXT_MAX]; /* a message for people; always ends with NUL */
} ef_error;

#define EF_ERROR_INIT                                                                              \
    {                                                                                              \
        EF_OK, false, 0, 0,                                                                        \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* A row of the table. */
typedef struct ef_status_info {
    const char *name; /* "EF_CONFLICT" */
    ef_next next;
    const char *code; /* "seq_conflict": stable, for programs */
    int exit_code;    /* of the command line */
    int http;
    const char *message; /* "seq conflict" */
} ef_status_info;

/* Never NULL: a number that is not a status has a row too. */
const ef_status_info *ef_status_describe(ef_status status);

/*
 * Fills in `err` (unless NULL) and returns `status`, so that a failure is one line:
 *     return ef_fail(err, EF_BAD_INPUT, "lease_ms is %" PRId64 ", minimum is 1", ms);
 */
ef_status ef_fail(ef_error *err, ef_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the requested and the actual value as numbers for programs. */
ef_status ef_fail_numbers(ef_error *err, ef_status status, int64_t asked, int64_t found,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

EF_C_END
