/*
 * below.h - files that have to be below a directory.
 *
 * A path that came from elsewhere is compared with the directory as text, and opened from the
 * directory on, component by component: no symbolic link on the way is followed, so that nothing
 * that was changed since the comparison leads out of the directory.
 */
#ifndef EF_BASE_BELOW_H
#define EF_BASE_BELOW_H

#include <everfold/str.h>

#include <stdbool.h>

/* Is it a path below an absolute directory, without . and .. and empty components? */
bool ef__path_is_below(ef_str path, ef_str directory);

/*
 * Opens the folder that a file is in. With a `directory` ("" or NULL: without) the path is below
 * it, and no link is followed on the way from there. *out_name is the file's name in the folder, in
 * `path`. -1 and errno.
 */
int ef__parent_open(const char *path, const char *directory, const char **out_name);

#endif
