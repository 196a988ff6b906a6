/*
 * publisher_confine.c - which files and variables a publisher may name whose definition comes from
 * elsewhere (see publisher.h).
 */
#include <everfold/publisher.h>

#include "../base/below.h"

#include <string.h>

static bool begins(ef_str text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

/* Splits off what is before the first `mark`. */
static ef_str split(ef_str *rest, char mark)
{
    const char *end = memchr(rest->ptr, mark, rest->len);
    ef_str first = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    size_t used = first.len + (end != NULL);

    *rest = (ef_str){rest->ptr + used, rest->len - used};
    return first;
}

static ef_status find_directory(const char *what, ef_str path, ef_str directories, ef_str *out,
                                ef_error *err)
{
    ef_str rest = directories;

    while (rest.len) {
        ef_str directory = split(&rest, ',');
        while (directory.len > 1 && directory.ptr[directory.len - 1] == '/')
            directory.len--;
        if (!ef__path_is_below(path, directory))
            continue;
        *out = directory;
        return EF_OK;
    }
    if (!directories.len)
        return ef_fail(err, EF_FORBIDDEN,
                       "%s is %.*s: no directory is set that such files may be in "
                       "(publish.directories)",
                       what, EF_STR_ARG(path));
    return ef_fail(err, EF_FORBIDDEN,
                   "%s is %.*s: it has to be below one of %.*s (publish.directories), as a whole "
                   "path without . and ..",
                   what, EF_STR_ARG(path), EF_STR_ARG(directories));
}

static ef_status confine_sink(ef_publisher *p, ef_str directories, ef_error *err)
{
    ef_str path = {p->url.ptr + 5, p->url.len - 5};

    if (ef_str_equal(path, EF_STR("-")))
        return EF_OK;
    if (begins(path, "///"))
        path = (ef_str){path.ptr + 2, path.len - 2};
    return find_directory("the file of the publisher", path, directories, &p->directory, err);
}

/* ca=FILE and creds=FILE of a NATS address. libnats opens them, so links are followed there. */
static ef_status confine_query(const ef_publisher *p, ef_str directories, ef_error *err)
{
    ef_str query = p->url, ignored;
    ef_status st = EF_OK;

    (void)split(&query, '?');
    while (st == EF_OK && query.len) {
        ef_str value = split(&query, '&');
        ef_str key = split(&value, '=');
        if (ef_str_equal(key, EF_STR("ca")) || ef_str_equal(key, EF_STR("creds")))
            st = find_directory("a file of the address", value, directories, &ignored, err);
    }
    return st;
}

static ef_status confine_secret(ef_publisher *p, ef_str directories, ef_error *err)
{
    ef_str named = {p->secret.ptr + 5, p->secret.len - 5};

    if (begins(p->secret, "file:"))
        return find_directory("the file of the secret", named, directories, &p->secret_directory,
                              err);
    if (begins(p->secret, "env:") && !begins(p->secret, "env:" EF_SECRET_ENV))
        return ef_fail(err, EF_FORBIDDEN,
                       "the secret is %.*s: a variable whose name begins with " EF_SECRET_ENV
                       " is needed",
                       EF_STR_ARG(p->secret));
    return EF_OK;
}

ef_status ef_publisher_confine(ef_publisher *p, ef_str directories, ef_error *err)
{
    ef_status st = EF_OK;

    if (!p)
        return ef_fail(err, EF_BAD_INPUT, "publisher is NULL");
    p->directory = p->secret_directory = (ef_str){0};
    if (begins(p->url, "file:"))
        st = confine_sink(p, directories, err);
    else if (begins(p->url, "nats:") || begins(p->url, "tls:"))
        st = confine_query(p, directories, err);
    return st == EF_OK ? confine_secret(p, directories, err) : st;
}
