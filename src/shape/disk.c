/*
 * disk.c - see disk.h.
 */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static const char *path_of(const char *url)
{
    static const char *const kinds[] = {"sqlite:", "lmdb:"};

    for (size_t i = 0; url && i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(url, kinds[i], strlen(kinds[i])) == 0)
            return url + strlen(kinds[i]);
    return NULL;
}

static void add_store(ef__disk *disk, const char *url)
{
    const char *path = path_of(url);
    struct statvfs is;
    int64_t free_bytes;
    char *whole;

    if (!path || statvfs(path, &is) != 0)
        return;
    free_bytes = (int64_t)(is.f_bavail * is.f_frsize);
    if (disk->free_bytes >= 0 && disk->free_bytes <= free_bytes)
        return;
    disk->free_bytes = free_bytes;
    whole = realpath(path, NULL);
    (void)snprintf(disk->path, sizeof disk->path, "%s", whole ? whole : path);
    free(whole);
}

ef__disk ef__disk_of(const char *journal_url, const char *views_url)
{
    ef__disk disk = {.free_bytes = -1};

    add_store(&disk, journal_url);
    add_store(&disk, views_url);
    return disk;
}
