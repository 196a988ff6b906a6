#include "head.h"

#include "../../base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

static uint64_t record_sum(const struct record *r)
{
    return ef__xxh3((ef_str){(const char *)r, offsetof(struct record, sum)}, 0);
}

/* A name that was never synced is gone after a power cut, and a journal without its head file is
 * refused. */
static bool sync_directory(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int fd, rc;

    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                   slash ? path : ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        (void)close(fd);
    return rc == 0;
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
    if (create && !sync_directory(path))
        return ef_fail(err, EF_IO, "the directory of %s cannot be synced: %s", path,
                       strerror(errno));
    return EF_OK;
}

static bool read_record(const sq_headfile *file, int slot, struct record *out)
{
    ssize_t n = pread(file->fd, out, sizeof *out, slot * RECORD_APART);

    return n == (ssize_t)sizeof *out && memcmp(out->magic, MAGIC, sizeof MAGIC) == 0 &&
           out->sum == record_sum(out);
}

ef_status sq_headfile_read(sq_headfile *file, sq_head_record *out, ef_error *err)
{
    struct record r;
    bool found = false;

    *out = (sq_head_record){0};
    for (int slot = 0; slot < 2; slot++) {
        if (!read_record(file, slot, &r) || (found && r.position < out->position))
            continue;
        out->position = r.position;
        if (!found || r.verified > out->verified)
            out->verified = r.verified;
        memcpy(out->hash, r.hash, sizeof r.hash);
        file->turn = (unsigned)slot + 1;
        found = true;
    }
    file->last = *out;
    return found ? EF_OK : ef_fail(err, EF_DAMAGED, "the head file holds no whole record");
}

bool sq_headfile_write(sq_headfile *file, const sq_head_record *record)
{
    struct record r = {.position = record->position, .verified = record->verified};

    memcpy(r.magic, MAGIC, sizeof MAGIC);
    memcpy(r.hash, record->hash, sizeof r.hash);
    r.sum = record_sum(&r);
    file->last = *record;
    /* The first one is synced: what follows writes over its sector or beside it, so a power cut
     * leaves at least one of them. */
    return pwrite(file->fd, &r, sizeof r, (off_t)(file->turn++ & 1) * RECORD_APART) ==
               (ssize_t)sizeof r &&
           (record->position > 0 || fsync(file->fd) == 0);
}

void sq_headfile_close(sq_headfile *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}
