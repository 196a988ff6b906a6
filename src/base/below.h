/*
 * below.h - opens files that must be below a directory.
 *
 * A path from outside is compared with the directory as text, and opened from the directory on,
 * component by component. No symbolic link is followed on the way, so that a change after the
 * comparison cannot lead out of the directory.
 */
#ifndef EF_BASE_BELOW_H
#define EF_BASE_BELOW_H

#include <everfold/str.h>

#include <stdbool.h>

/* Is it a path below an absolute directory, without . and .. and empty components? */
bool ef__path_is_below(ef_str path, ef_str directory);

/*
 * Opens the folder of a file. With a `directory` ("" or NULL: none) the path is below it, and no
 * link is followed from there on. *out_name is the file name, in `path`. -1 and errno.
 */
int ef__parent_open(const char *path, const char *directory, const char **out_name);

#endif
