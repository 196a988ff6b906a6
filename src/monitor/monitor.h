/*
 * monitor.h - the files of the monitor, as they were when this was built.
 *
 * They are plain HTML, CSS and modules of ours (web/), embedded by embed.py. The page names the
 * build, a sum over all files, in every address that it loads: a file of a build never changes.
 */
#pragma once

#include <everfold/str.h>

typedef struct ef__asset {
    const char *name; /* "app.js" */
    const char *type; /* of its content */
    const char *etag; /* in quotes */
    const char *bytes;
    size_t len;
} ef__asset;

/* NULL: there is no such file. */
const ef__asset *ef__monitor_asset(ef_str name);
/* 16 hexadecimal digits. */
const char *ef__monitor_build(void);
