/*
 * views.c - opens a view store by its URL; functions shared by back ends.
 */
#include "views.h"

#include "../base/hash.h"

#include <endian.h>
#include <stddef.h>

#define KNOWN_URLS "\"sqlite:PATH\", \"lmdb:FOLDER\", \"postgres://…\" or \"memory:\""

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_postgres(const char *url)
{
    return ef__str_starts(ef_str_from(url), "postgres:") ||
           ef__str_starts(ef_str_from(url), "postgresql:");
}

ef_status ef__views_open(const ef__views_options *options, ef_views **out, ef_error *err)
{
    ef__views_options taken = *options;
    const char *url = options->url;

    *out = NULL;
    if (!url || url[0] == '\0')
        return ef_fail(err, EF_BAD_INPUT, "url is missing: write " KNOWN_URLS);
    if (taken.busy_ms == 0)
        taken.busy_ms = 10000;
    if (!taken.clock)
        taken.clock = ef_clock_system();
    /* A read-only store is never created. */
    if (taken.read_only)
        taken.create = false;
    if (strcmp(url, "memory:") == 0)
        return ef__views_memory_open(&taken, out, err);
    if (strcmp(url, "sqlite:") == 0)
        return ef_fail(err, EF_BAD_INPUT, "url \"sqlite:\" names no file: write sqlite:PATH");
    if (strcmp(url, "lmdb:") == 0)
        return ef_fail(err, EF_BAD_INPUT, "url \"lmdb:\" names no folder: write lmdb:FOLDER");
    if (ef__str_starts(ef_str_from(url), "sqlite:"))
        return ef__views_sqlite_open(&taken, url + strlen("sqlite:"), out, err);
    if (ef__str_starts(ef_str_from(url), "lmdb:"))
        return ef__views_lmdb_open(&taken, url + strlen("lmdb:"), out, err);
    if (is_postgres(url))
        return ef__views_postgres_open(&taken, out, err);
    return ef_fail(err, EF_BAD_INPUT,
                   "url \"%.200s\": there is no such view store, write " KNOWN_URLS, url);
}

ef_status ef__views_schema(const char *url, ef__buf *out, ef_error *err)
{
    return is_postgres(url) ? ef__views_postgres_schema(url, out, err) : EF_OK;
}

void ef__views_close(ef_views *views)
{
    if (views)
        views->ops->close(views);
}

/* --- what back ends do alike ------------------------------------------------------------------ */

const ef__texts ef__generation_texts = {3,
                                        {offsetof(ef__generation, name),
                                         offsetof(ef__generation, program),
                                         offsetof(ef__generation, index_paths)}};
const ef__texts ef__view_texts = {
    3, {offsetof(ef__view, tenant), offsetof(ef__view, id), offsetof(ef__view, data)}};
const ef__texts ef__failure_texts = {5,
                                     {offsetof(ef__failure, tenant), offsetof(ef__failure, stream),
                                      offsetof(ef__failure, event_id), offsetof(ef__failure, code),
                                      offsetof(ef__failure, message)}};

/* Two seeds give two sums of 64 bits. The sums of views are added, so a change costs one
 * subtraction and one addition, and the digest does not depend on the order of changes. */
#define SEED_A UINT64_C(0x76696577732d3031)
#define SEED_B UINT64_C(0x9e3779b97f4a7c15)

/*
 * Each part is hashed separately, and the hashes are concatenated with the lengths:
 *
 *     lengths of tenant, id, data · schema · XXH3 of tenant, id, data       8 bytes each
 *
 * This is as strong as hashing the parts with their lengths, and copies no data.
 */
static uint64_t view_sum(const ef__view *view, uint64_t seed)
{
    uint64_t parts[] = {htobe64(view->tenant.len),
                        htobe64(view->id.len),
                        htobe64(view->data.len),
                        htobe64((uint64_t)view->schema),
                        htobe64(ef__xxh3(view->tenant, seed)),
                        htobe64(ef__xxh3(view->id, seed)),
                        htobe64(ef__xxh3(view->data, seed))};

    return ef__xxh3((ef_str){(const char *)parts, sizeof parts}, seed);
}

void ef__view_digest(const ef__view *view, uint64_t out[2])
{
    out[0] = view_sum(view, SEED_A);
    out[1] = view_sum(view, SEED_B);
    if (out[0] == 0 && out[1] == 0)
        out[0] = 1; /* both 0 means that there is no view */
}

void ef__digest_bytes(const uint64_t sums[2], uint8_t out[EF__DIGEST_BYTES])
{
    uint64_t wire[2] = {htobe64(sums[0]), htobe64(sums[1])};

    memcpy(out, wire, sizeof wire);
}

void ef__digest_sums(const uint8_t bytes[EF__DIGEST_BYTES], uint64_t out[2])
{
    uint64_t wire[2];

    memcpy(wire, bytes, sizeof wire);
    out[0] = be64toh(wire[0]);
    out[1] = be64toh(wire[1]);
}

ef_status ef__tenant_cursor_moved(ef_str tenant, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "the cursor of tenant \"%.*s\" is not what was read",
                   EF_STR_ARG(tenant));
}

ef_status ef__generation_missing(int64_t id, ef_error *err)
{
    return ef_fail_numbers(err, EF_NOT_FOUND, id, 0, "generation %lld does not exist",
                           (long long)id);
}

ef_status ef__generation_is_active(int64_t id, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "generation %lld is active: queries read it", (long long)id);
}

ef_status ef__generation_number_exists(ef_str name, int32_t wanted, ef_error *err)
{
    return ef_fail(
        err, EF_CONFLICT,
        "%d is not the next generation number of \"%.*s\": generations were added or removed "
        "concurrently; read them again",
        (int)wanted, EF_STR_ARG(name));
}

ef_status ef__generation_moved(int64_t id, int64_t era, int64_t found, ef_error *err)
{
    return ef_fail_numbers(err, EF_CONFLICT, era, found,
                           "generation %lld was changed concurrently: read it again",
                           (long long)id);
}
