/*
 * store.h - URLs of stores: printing one, and creating a schema by hand.
 */
#pragma once

#include <everfold/projection.h>

#include <stddef.h>

EF_C_BEGIN

/* The URL for messages: "***" replaces a password, before the host or as a parameter. Cut at
 * `size`.
 */
void ef_url_show(const char *url, char *out, size_t size);

/* The SQL that creates and migrates the stores of these URLs, for migration by hand. Empty when
 * neither is on a server. */
ef_status ef_stores_schema(const char *journal_url, const char *views_url, ef_text *out,
                           ef_error *err);

EF_C_END
