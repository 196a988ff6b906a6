#include "head.h"

#include "../../base/hash.h"
#include "../../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* magic | position | verified | hash | XXH3 of what stands before it */
struct record {
    char magic[8];
    int64_t position;
    int64_t verified;
    uint8_t hash[EF_HASH_BYTES];
    uint64_t sum;
};

static const char MAGIC[8] = {'E', 'F', 'H', 'E', 'A', 'D', '0', '1'};

#define RECORD_APART 512 /* a sector each */
#define WAKE_AT (2 * RECORD_APART)
#define DAMAGE_AT (3 * RECORD_APART) /* a sector of its own: nothing else is written over it */

/* All zero: no damage is recorded. */
struct damage_record {
    char magic[8];
    int64_t at_open;
    ef__damage damage;
    uint64_t sum;
};

static const char DAMAGE_MAGIC[8] = {'E', 'F', 'D', 'A', 'M', 'G', '0', '1'};

_Static_assert(sizeof(struct damage_record) <= RECORD_APART, "it fits a sector");

static uint64_t record_sum(const struct record *r)
{
    return ef__xxh3((ef_str){(const char *)r, offsetof(struct record, sum)}, 0);
}

ef_status sq_headfile_open(sq_headfile *file, const char *database_path, bool create,
                           bool read_only, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-head", database_path);
    int how = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);

    *file = (sq_headfile){.fd = -1};
    if (n < 0 || (size_t)n >= sizeof path)
        return ef_fail(err, EF_BAD_INPUT, "the path of the journal is too long");
    file->fd = open(path, how, 0600);
    if (file->fd < 0)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s: %s", path,
                       strerror(errno));
    if (create)
        ef__owner_inherit(path);
    /* A journal without its head file is refused: the file must not be lost in a power cut. */
    if (create && !ef__parent_sync(path))
        return ef_fail(err, EF_IO, "the directory of %s cannot be synced: %s", path,
                       strerror(errno));
    return EF_OK;
}

static bool is_whole(const struct record *r)
{
    return memcmp(r->magic, MAGIC, sizeof MAGIC) == 0 && r->sum == record_sum(r);
}

ef_status sq_headfile_read(sq_headfile *file, sq_head_record *out, ef_error *err)
{
    char both[RECORD_APART + sizeof(struct record)] = {0};
    bool found = false;

    *out = (sq_head_record){0};
    if (pread(file->fd, both, sizeof both, 0) < 0) /* a missing record is not whole */
        return ef_fail(err, EF_IO, "the head file could not be read: %s", strerror(errno));
    for (int slot = 0; slot < 2; slot++) {
        struct record r;
        memcpy(&r, both + slot * RECORD_APART, sizeof r);
        if (!is_whole(&r) || (found && r.position < out->position))
            continue;
        out->position = r.position;
        if (!found || r.verified > out->verified)
            out->verified = r.verified;
        memcpy(out->hash, r.hash, sizeof r.hash);
        file->turn = (unsigned)slot + 1;
        found = true;
    }
    return found ? EF_OK : ef_fail(err, EF_DAMAGED, "the head file holds no whole record");
}

bool sq_headfile_write(sq_headfile *file, const sq_head_record *record)
{
    struct record r = {.position = record->position, .verified = record->verified};

    memcpy(r.magic, MAGIC, sizeof MAGIC);
    memcpy(r.hash, record->hash, sizeof r.hash);
    r.sum = record_sum(&r);
    /* The first one is synced: what follows writes over its sector or beside it, so a power cut
     * leaves at least one of them. */
    return pwrite(file->fd, &r, sizeof r, (off_t)(file->turn++ & 1) * RECORD_APART) ==
               (ssize_t)sizeof r &&
           (record->position > 0 || fsync(file->fd) == 0);
}

static void set_lock(const sq_headfile *file, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_len = 1};

    while (fcntl(file->fd, F_OFD_SETLKW, &lock) != 0 && errno == EINTR)
        ;
}

bool sq_headfile_raise(sq_headfile *file, const sq_head_record *record)
{
    sq_head_record now;
    bool written = true;

    set_lock(file, F_WRLCK);
    if (sq_headfile_read(file, &now, NULL) != EF_OK || now.position <= record->position)
        written = sq_headfile_write(file, record);
    set_lock(file, F_UNLCK);
    return written;
}

bool sq_headfile_advance(sq_headfile *file, int64_t from, int64_t to,
                         const uint8_t hash[EF_HASH_BYTES])
{
    sq_head_record record;
    bool written = true;

    set_lock(file, F_WRLCK);
    (void)sq_headfile_read(file, &record, NULL);
    if (record.position < to) {
        /* Events that this process appended after a verified head need no verification. */
        if (record.verified == from)
            record.verified = to;
        record.position = to;
        memcpy(record.hash, hash, sizeof record.hash);
        written = sq_headfile_write(file, &record);
    }
    set_lock(file, F_UNLCK);
    return written;
}

int64_t sq_headfile_wake(const sq_headfile *file)
{
    int64_t number;

    return pread(file->fd, &number, sizeof number, WAKE_AT) == (ssize_t)sizeof number ? number : 0;
}

/* The number is random: two processes that wake at once need no lock to write one that differs from
 * the number seen before, in whichever order they write. The file times change too, so that
 * processes that wait for wake-ups alone notice it and sleep through appends. */
bool sq_headfile_set_wake(const sq_headfile *file)
{
    int64_t number;

    return getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number &&
           pwrite(file->fd, &number, sizeof number, WAKE_AT) == (ssize_t)sizeof number &&
           futimens(file->fd, NULL) == 0;
}

/* --- damage ----------------------------------------------------------------------------------- */

static uint64_t damage_sum(const struct damage_record *r)
{
    return ef__xxh3((ef_str){(const char *)r, offsetof(struct damage_record, sum)}, 0);
}

/* A record that is not whole was one: only damage is ever written there. */
static void describe_torn(const sq_headfile *file, sq_damage *out)
{
    struct stat st = {0};

    (void)fstat(file->fd, &st);
    *out = (sq_damage){.damage = {.found_us = st.st_mtim.tv_sec * INT64_C(1000000) + 1,
                                  .text = "what was found cannot be read: its record in the head "
                                          "file is damaged too"}};
}

void sq_headfile_damage(const sq_headfile *file, sq_damage *out)
{
    static const struct damage_record none;
    struct damage_record r = {0};

    *out = (sq_damage){0};
    if (file->fd < 0 || pread(file->fd, &r, sizeof r, DAMAGE_AT) <= 0 ||
        memcmp(&r, &none, sizeof r) == 0)
        return;
    if (memcmp(r.magic, DAMAGE_MAGIC, sizeof DAMAGE_MAGIC) != 0 || r.sum != damage_sum(&r)) {
        describe_torn(file, out);
        return;
    }
    *out = (sq_damage){.damage = r.damage, .at_open = r.at_open != 0};
    out->damage.text[sizeof out->damage.text - 1] = '\0';
}

static bool write_damage(const sq_headfile *file, const sq_damage *damage)
{
    struct damage_record r;

    memset(&r, 0, sizeof r);
    if (damage->damage.found_us) {
        memcpy(r.magic, DAMAGE_MAGIC, sizeof DAMAGE_MAGIC);
        r.at_open = damage->at_open;
        r.damage = damage->damage;
        r.sum = damage_sum(&r);
    }
    return pwrite(file->fd, &r, sizeof r, DAMAGE_AT) == (ssize_t)sizeof r && fsync(file->fd) == 0;
}

static bool is_same_file(const sq_headfile *a, const sq_headfile *b)
{
    struct stat one, other;

    return fstat(a->fd, &one) == 0 && fstat(b->fd, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

ef_status sq_headfile_set_damage(const sq_headfile *file, const char *database_path,
                                 const sq_damage *damage, ef_error *err)
{
    sq_headfile writable;
    sq_damage now;
    ef_status st = sq_headfile_open(&writable, database_path, false, false, err);

    if (st != EF_OK)
        return st;
    if (!is_same_file(file, &writable)) {
        sq_headfile_close(&writable);
        return ef_fail(err, EF_NOT_FOUND, "%s-head is not the file that was opened", database_path);
    }
    set_lock(&writable, F_WRLCK);
    sq_headfile_damage(&writable, &now);
    bool is_kept = damage->damage.found_us && now.damage.found_us && !now.at_open;
    if (!is_kept && !write_damage(&writable, damage))
        st =
            ef_fail(err, EF_IO, "%s-head could not be written: %s", database_path, strerror(errno));
    set_lock(&writable, F_UNLCK);
    sq_headfile_close(&writable);
    return st;
}

void sq_headfile_close(sq_headfile *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}
