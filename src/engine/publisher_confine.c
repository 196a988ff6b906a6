/*
 * publisher_confine.c - the files and variables that a publisher may name if its definition is
 * remote (see publisher.h).
 */
#include <everfold/publisher.h>

#include "../base/below.h"

#include <string.h>

static bool has_prefix(ef_str text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.ptr, with, len) == 0;
}

/* Splits off the text before the first `mark`. */
static ef_str split_off(ef_str *rest, char mark)
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
        ef_str directory = split_off(&rest, ',');
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

static ef_status confine_sink(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str path = {publisher->url.ptr + 5, publisher->url.len - 5};

    if (ef_str_equal(path, EF_STR("-")))
        return EF_OK;
    if (has_prefix(path, "///"))
        path = (ef_str){path.ptr + 2, path.len - 2};
    return find_directory("the file of the publisher", path, directories, &publisher->directory,
                          err);
}

/* ca=FILE and creds=FILE of a NATS URL. libnats opens them, so links are followed there. */
static ef_status confine_query(const ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str query = publisher->url, ignored;
    ef_status st = EF_OK;

    (void)split_off(&query, '?');
    while (st == EF_OK && query.len) {
        ef_str value = split_off(&query, '&');
        ef_str key = split_off(&value, '=');
        if (ef_str_equal(key, EF_STR("ca")) || ef_str_equal(key, EF_STR("creds")))
            st = find_directory("a file of the address", value, directories, &ignored, err);
    }
    return st;
}

static ef_status confine_secret(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_str named = {publisher->secret.ptr + 5, publisher->secret.len - 5};

    if (has_prefix(publisher->secret, "file:"))
        return find_directory("the file of the secret", named, directories,
                              &publisher->secret_directory, err);
    if (has_prefix(publisher->secret, "env:") &&
        !has_prefix(publisher->secret, "env:" EF_SECRET_ENV))
        return ef_fail(err, EF_FORBIDDEN,
                       "the secret is %.*s: a variable whose name begins with " EF_SECRET_ENV
                       " is needed",
                       EF_STR_ARG(publisher->secret));
    return EF_OK;
}

ef_status ef_publisher_confine(ef_publisher *publisher, ef_str directories, ef_error *err)
{
    ef_status st = EF_OK;

    if (!publisher)
        return ef_fail(err, EF_BAD_INPUT, "publisher is NULL");
    publisher->directory = publisher->secret_directory = (ef_str){0};
    if (has_prefix(publisher->url, "file:"))
        st = confine_sink(publisher, directories, err);
    else if (has_prefix(publisher->url, "nats:") || has_prefix(publisher->url, "tls:"))
        st = confine_query(publisher, directories, err);
    return st == EF_OK ? confine_secret(publisher, directories, err) : st;
}
