/*
 * head.h - the position and hash of the last acknowledged event, in a file beside the database.
 *
 * SQLite drops commits without an error when a byte of its log is damaged, and cannot detect that a
 * file was replaced by an older copy. The head file detects both: an open compares it with the
 * database. It is written after a commit and not synced, so after a crash or power cut it may be
 * lower than the last event of the database, but never higher. A head that is higher means damage.
 *
 * Writes alternate between two records, each with a checksum, so that a torn write leaves one
 * whole.
 *
 * Several processes write the file, each after its own commits. A process that is late finds a
 * higher head and leaves it unchanged, so the head never decreases.
 *
 * The file also holds the record of damage that was found (sq_damage). It is not in the database,
 * because that may not be written any more; every process that appends has this file open; and a
 * backup is given a head file of its own, without the record.
 */
#pragma once

#include "../journal.h"

typedef struct sq_head_record {
    int64_t position;            /* 0: nothing has been acknowledged */
    uint8_t hash[EF_HASH_BYTES]; /* of that event */
    int64_t verified; /* up to here the chain was verified, or appended to a verified one */
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
/* Move the head from `from` to `to`, whose hash is given, unless it is there already. A failed
 * write loses protection, not data: it returns false, and the journal continues. */
bool sq_headfile_advance(sq_headfile *file, int64_t from, int64_t to,
                         const uint8_t hash[EF_HASH_BYTES]);
/* Write a record unless the head is higher. */
bool sq_headfile_raise(sq_headfile *file, const sq_head_record *record);
/* Write a record even if the head is higher, to accept the database as it is. */
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
