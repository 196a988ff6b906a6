/*
 * store.h - where journals and views are kept, as URLs: showing one, and making its schema by hand.
 */
#ifndef EVERFOLD_STORE_H
#define EVERFOLD_STORE_H

#include <everfold/projection.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The URL as it may be shown: "***" stands for a password in it, in front of the host or as a
 * setting behind it. Cut where `out` ends. */
void ef_url_show(const char *url, char *out, size_t size);

/* What makes the stores of these URLs and brings new ones up to date, as SQL, for those who migrate
 * by hand. Empty when neither is on a server. */
ef_status ef_stores_schema(const char *journal_url, const char *views_url, ef_text *out,
                           ef_error *err);

#ifdef __cplusplus
}
#endif

#endif
