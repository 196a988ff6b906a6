/*
 * journal.h - the interface of the journal back ends.
 *
 * Five interfaces, one header each: events.h (the event source), outbox.h, lease.h (leases,
 * workers, partitions), record.h (types, runs, audit entries, skips), and the store as a whole
 * here. A back end has one const table per interface.
 *
 * The public API (front*.c) checks every argument, fills in defaults and generates ids, so a back
 * end can rely on it: names and JSON are valid, limits are kept, `limit` is 1 … EF_LIMIT_LIST_ROWS,
 * lists are empty and have their memory, `out` pointers are not NULL.
 *
 * The contract suite (tests/contract) defines what every back end must do. "One transaction" in
 * these headers means: all of it or nothing, whichever process crashes at whatever time.
 */
#pragma once

#include "events.h"
#include "lease.h"
#include "outbox.h"
#include "record.h"

enum { EF__JOURNAL_SHOWN_MAX = 256 }; /* bytes of a URL in messages, which have 512 */

enum { EF__JOURNAL_DATABASE_MAX = 64 }; /* bytes: a cluster id and a database id */

enum ef__journal_caps {
    /* Positions have gaps, the seq of an event is its position, and there is no queue: projections
     * read it by their cursors. An unreadable message has an empty type, and the reason as data. */
    EF__JOURNAL_SPARSE = 1,
    /* Readers acknowledge what they have read (`followed`), and the store may forget it then: the
     * reader must have synced its result before. */
    EF__JOURNAL_ACKNOWLEDGED = 2,
    EF__JOURNAL_REMOTE = 4, /* a read waits for another process */
    /* `append` reads the record of damage in its transaction, so that callers need not. */
    EF__JOURNAL_REFUSES_DAMAGED = 8
};

/* Damage of a journal, as it is recorded in the store. */
typedef struct ef__damage {
    int64_t found_us;          /* 0: none */
    char text[EF_DAMAGE_TEXT]; /* what was found; ends with NUL */
} ef__damage;

typedef struct ef__store_ops {
    const char *name;
    void (*close)(ef_journal *journal);
    ef_status (*facts)(ef_journal *journal, ef_store_facts *out, ef_error *err);
    /* Records damage in the store, for every process that has it open or opens it. Damage that is
     * recorded already stays. Also where the journal is read-only. `damage` NULL: removes the
     * record. The function is NULL: only this handle knows. */
    ef_status (*damage_set)(ef_journal *journal, const ef__damage *damage, ef_error *err);
    /* found_us 0: none. Every append calls it, unless the journal is REFUSES_DAMAGED: then its
     * append reads the record in its own transaction, and refuses with ef__damage_fail. */
    ef_status (*damage_get)(ef_journal *journal, ef__damage *out, ef_error *err);
    /* As ef_journal_backup. NULL: use the tools of the store. */
    ef_status (*backup)(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                        ef_error *err);
    /* As ef__journal_copied and ef_journal_adopt. Both NULL: it cannot be a copy. */
    ef_status (*copied_get)(ef_journal *journal, int64_t *out_us, ef_error *err);
    ef_status (*adopt)(ef_journal *journal, ef_error *err);
    /* A globally unique id of its database; "": unknown. NULL: ef__outbox_ops.ack takes no
     * connection of another store. */
    ef_status (*database)(ef_journal *journal, char out[EF__JOURNAL_DATABASE_MAX], ef_error *err);
} ef__store_ops;

/* *out_us: as ef_store_facts.copied_us. */
ef_status ef__journal_copied(ef_journal *journal, int64_t *out_us, ef_error *err);

/* The struct of every back end begins with this one. */
struct ef_journal {
    const ef__store_ops *store;
    const ef__events_ops *events;
    /* The journal that serves the interfaces below: this one, or that of a store of events only. */
    ef_journal *control;
    const ef__outbox_ops *outbox;
    const ef__lease_ops *leases;
    const ef__record_ops *records;
    unsigned caps;
    ef_journal_options options; /* with clock, log and busy_ms; without url */
    /* Connection epoch, incremented on reconnect: readers must revalidate their position, because
     * the store may have lost events. */
    _Atomic int64_t epoch;
    char shown[EF__JOURNAL_SHOWN_MAX]; /* the URL without a password, for messages */
    struct {
        _Atomic int state; /* see damage.c */
        ef__damage found;
        atomic_bool logged;
    } damage; /* the first damage that a call found and that is not recorded in the store */
};

static inline bool ef__journal_is_sparse(const ef_journal *journal)
{
    return (journal->caps & EF__JOURNAL_SPARSE) != 0;
}

static inline bool ef__journal_is_acknowledged(const ef_journal *journal)
{
    return (journal->caps & EF__JOURNAL_ACKNOWLEDGED) != 0;
}

/* Opening a back end; ef_journal_open fills in `journal->options` afterwards. */
ef_status ef__journal_memory_open(const ef_journal_options *options, ef_journal **out,
                                  ef_error *err);
ef_status ef__journal_sqlite_open(const ef_journal_options *options, const char *path,
                                  ef_journal **out, ef_error *err);
/* options->url names the server. */
ef_status ef__journal_postgres_open(const ef_journal_options *options, ef_journal **out,
                                    ef_error *err);
/* options->url names the broker and the stream, options->control the control journal. */
ef_status ef__journal_jetstream_open(const ef_journal_options *options, ef_journal **out,
                                     ef_error *err);
/* The SQL that creates the schema of a store on a server, for migration by hand. Only the kind and
 * the schemas of `url` are used. EF_UNSUPPORTED: the store is a file, or this build does not
 * support it. */
ef_status ef__journal_schema(const char *url, ef__buf *out, ef_error *err);
ef_status ef__journal_postgres_schema(const char *url, ef__buf *out, ef_error *err);
/* EF_DAMAGED: the journal at `shown` is known to be damaged, so an append is refused (damage.c). */
ef_status ef__damage_fail(const char *shown, const ef__damage *damage, ef_error *err);
