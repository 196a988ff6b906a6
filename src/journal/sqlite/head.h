/*
 * head.h - the journal's head, kept apart from the database.
 *
 * SQLite drops commits in silence when a byte of its log is damaged, and cannot know that an older
 * copy of a file was put in its place. So the position and hash of the last acknowledged event are
 * also written to a small file beside it: after the commit and with no sync of its own, so it may
 * trail the database (by what a crash or power cut kept from it) but never lead it. At the start
 * the two are compared.
 *
 * Two records take turns, each with a sum, so that a torn write leaves the other.
 *
 * Several processes write it, each after its own commits, and may come late: one that was stopped
 * between its commit and this finds the head farther on and leaves it alone. So the head never goes
 * back, and what it does not say yet is only what was committed and not answered. A head that
 * trails is no damage; one that leads is.
 *
 * The file also holds the record of damage that was found (sq_damage). It is not in the database,
 * because that may not be written any more; every process that appends has this file open; and a
 * backup is given a head file of its own, without the record.
 */
#ifndef EF_JOURNAL_SQLITE_HEAD_H
#define EF_JOURNAL_SQLITE_HEAD_H

#include "../journal.h"

typedef struct sq_head_record {
    int64_t position;            /* 0: nothing has been acknowledged */
    uint8_t hash[EF_HASH_BYTES]; /* of that event */
    int64_t verified;            /* up to here the chain has been recomputed or was made by us */
} sq_head_record;

typedef struct sq_damage {
    ef__damage damage;
    /* It was found by comparing the journal with this file. Every open compares them again, so the
     * record is removed by the next one that finds nothing wrong. */
    bool at_open;
} sq_damage;

typedef struct sq_headfile {
    int fd;
    unsigned turn;
} sq_headfile;

/* PATH-head beside the database, 0600. `create` makes an empty one; EF_NOT_FOUND otherwise. */
ef_status sq_headfile_open(sq_headfile *file, const char *database_path, bool create,
                           bool read_only, ef_error *err);
/* EF_DAMAGED: neither record is whole. */
ef_status sq_headfile_read(sq_headfile *file, sq_head_record *out, ef_error *err);
/* Move the head from `from` to `to`, whose hash is given, unless it is there already. Failing to
 * write costs protection, never data: it is reported and life goes on. */
bool sq_headfile_advance(sq_headfile *file, int64_t from, int64_t to,
                         const uint8_t hash[EF_HASH_BYTES]);
/* Write a record unless the head is farther on … */
bool sq_headfile_raise(sq_headfile *file, const sq_head_record *record);
/* … and whatever it is, to accept what there is. */
bool sq_headfile_write(sq_headfile *file, const sq_head_record *record);
/* A counter that changes with every wake-up. It is stored after the records and is not one of
 * them. 0: there was no wake-up yet, or it cannot be read. */
int64_t sq_headfile_wake(const sq_headfile *file);
bool sq_headfile_set_wake(const sq_headfile *file);
/* Damage that was recorded; found_us 0: none. */
void sq_headfile_damage(const sq_headfile *file, sq_damage *out);
/* Record damage, unless damage is recorded already, or remove the record (found_us 0). On the disk
 * when it returns. `file` may be open for reading only: the file is opened again by the path of the
 * database, and must be the same one. EF_NOT_FOUND: it is not. */
ef_status sq_headfile_set_damage(const sq_headfile *file, const char *database_path,
                                 const sq_damage *damage, ef_error *err);
void sq_headfile_close(sq_headfile *file);

#endif
