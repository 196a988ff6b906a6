/*
 * disk.h - free space of the stores: the file system with the least, of those of journal and views.
 */
#ifndef EF_SHAPE_DISK_H
#define EF_SHAPE_DISK_H

#include <everfold/everfold.h>

#define EF__DISK_PATH 512
/* Below this a store has no space for its WAL and a checkpoint: not ready. */
#define EF__DISK_FREE_MIN (INT64_C(64) << 20)
/* Below this nothing can be written. */
#define EF__DISK_FULL (INT64_C(1) << 20)

typedef struct ef__disk {
    char path[EF__DISK_PATH]; /* path of the store; "" if it is not local */
    int64_t free_bytes;       /* -1: unknown */
    bool refused;             /* a write failed for lack of space or a quota */
} ef__disk;

/* Determined from the URLs: sqlite:PATH and lmdb:PATH are local. */
ef__disk ef__disk_of(const char *journal_url, const char *views_url);

static inline bool ef__disk_is_low(const ef__disk *disk)
{
    return disk->refused || (disk->free_bytes >= 0 && disk->free_bytes < EF__DISK_FREE_MIN);
}

static inline bool ef__disk_is_full(const ef__disk *disk)
{
    return disk->refused || (disk->free_bytes >= 0 && disk->free_bytes < EF__DISK_FULL);
}

#endif
