/*
 * below.c - see below.h.
 */
#include "below.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static bool is_plain(ef_str component)
{
    return component.len > 0 && !ef_str_equal(component, EF_STR(".")) &&
           !ef_str_equal(component, EF_STR(".."));
}

bool ef__path_is_below(ef_str path, ef_str directory)
{
    while (directory.len > 1 && directory.ptr[directory.len - 1] == '/')
        directory.len--;
    if (directory.len == 0 || directory.ptr[0] != '/' || path.len <= directory.len + 1 ||
        memcmp(path.ptr, directory.ptr, directory.len) != 0 || path.ptr[directory.len] != '/' ||
        memchr(path.ptr, '\0', path.len))
        return false;
    path = (ef_str){path.ptr + directory.len + 1, path.len - directory.len - 1};
    for (;;) {
        const char *slash = memchr(path.ptr, '/', path.len);
        size_t len = slash ? (size_t)(slash - path.ptr) : path.len;
        if (!is_plain((ef_str){path.ptr, len}))
            return false;
        if (!slash)
            return true;
        path = (ef_str){slash + 1, path.len - len - 1};
    }
}

/* Opens the folders of `path` one by one and closes `folder`; `path` ends before the file name. */
static int open_folders(int folder, char *path)
{
    char *rest = NULL;

    for (char *part = strtok_r(path, "/", &rest); folder >= 0 && part;
         part = strtok_r(NULL, "/", &rest)) {
        int next = openat(folder, part, FOLDER_FLAGS | O_NOFOLLOW);
        int why = errno;
        (void)close(folder);
        folder = next;
        errno = why;
    }
    return folder;
}

int ef__parent_open(const char *path, const char *directory, const char **out_name)
{
    const char *slash = strrchr(path, '/');
    size_t base = directory ? strlen(directory) : 0;
    char folder[PATH_MAX];

    *out_name = slash ? slash + 1 : path;
    if (!slash)
        return open(".", FOLDER_FLAGS);
    if (snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (base == 0)
        return open(folder[0] ? folder : "/", FOLDER_FLAGS);
    if (!ef__path_is_below(ef_str_from(path), ef_str_from(directory))) {
        errno = EACCES;
        return -1;
    }
    return open_folders(open(directory, FOLDER_FLAGS), folder + base);
}
