/*
 * front.c - the public API of the journal as a whole: opening by URL, waiting, verification, facts,
 * backups and copies; and the checks that all calls share.
 */
#include "front_priv.h"

#include "../base/logger.h"
#include "../base/utf8.h"

#include <inttypes.h>

#define KNOWN_URLS                                                                                 \
    "\"sqlite:PATH\", \"postgres://HOST/DATABASE\", \"nats://HOST:PORT/STREAM\" or \"memory:\""

/* --- opening ---------------------------------------------------------------------------------- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A scheme is a letter, then letters, digits, '+', '-' and '.', up to the first colon. */
static size_t scheme_length(const char *url)
{
    size_t n = 0;

    for (; url[n] && url[n] != ':'; n++) {
        char c = url[n];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && !(n > 0 && other))
            return 0;
    }
    return url[n] == ':' ? n : 0;
}

static ef_status open_sqlite(const ef_journal_options *options, const char *path, ef_journal **out,
                             ef_error *err)
{
    if (path[0] == '\0')
        return ef_fail(err, EF_BAD_INPUT, "url \"sqlite:\" has no path: write sqlite:PATH");
#ifdef EF_HAVE_SQLITE
    return ef__journal_sqlite_open(options, path, out, err);
#else
    return ef_fail(err, EF_UNSUPPORTED, "url \"sqlite:%.200s\": this build has no SQLite", path);
#endif
}

static bool is_postgres(const char *url)
{
    return has_prefix(url, "postgres:") || has_prefix(url, "postgresql:");
}

static ef_status open_postgres(const ef_journal_options *options, ef_journal **out, ef_error *err)
{
#ifdef EF_HAVE_POSTGRES
    return ef__journal_postgres_open(options, out, err);
#else
    return ef_fail(err, EF_UNSUPPORTED, "this build has no PostgreSQL");
#endif
}

static bool is_jetstream(const char *url)
{
    return has_prefix(url, "nats://") || has_prefix(url, "tls://");
}

static ef_status open_jetstream(const ef_journal_options *options, ef_journal **out, ef_error *err)
{
#ifdef EF_HAVE_NATS
    return ef__journal_jetstream_open(options, out, err);
#else
    return ef_fail(err, EF_UNSUPPORTED, "this build has no NATS");
#endif
}

static ef_status open_by_url(const char *url, const ef_journal_options *options, ef_journal **out,
                             ef_error *err)
{
    size_t scheme = scheme_length(url);

    if (strcmp(url, "memory:") == 0)
        return ef__journal_memory_open(options, out, err);
    if (has_prefix(url, "memory:"))
        return ef_fail(err, EF_BAD_INPUT, "url \"%.200s\": nothing may follow \"memory:\"", url);
    if (has_prefix(url, "sqlite:"))
        return open_sqlite(options, url + strlen("sqlite:"), out, err);
    if (is_postgres(url))
        return open_postgres(options, out, err);
    if (is_jetstream(url))
        return open_jetstream(options, out, err);
    if (scheme == 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "url \"%.150s\" is a plain path: write \"sqlite:%.150s\" to open that file",
                       url, url);
    return ef_fail(err, EF_BAD_INPUT, "url \"%.200s\": unknown scheme \"%.*s\", write " KNOWN_URLS,
                   url, (int)(scheme < 40 ? scheme : 40), url);
}

static ef_status resolve_options(const ef_journal_options *given, ef_journal_options *out,
                                 ef_error *err)
{
    ef_status st;

    *out = *given;
    st = ef__range_check("partitions", given->partitions, 0, EF_LIMIT_PARTITIONS, err);
    if (st == EF_OK)
        st = ef__range_check("busy_ms", given->busy_ms, 0, EF_LIMIT_LEASE_MS, err);
    if (st != EF_OK)
        return st;
    if (out->partitions == 0)
        out->partitions = 16;
    if (out->busy_ms == 0)
        out->busy_ms = 10000;
    if (!out->clock)
        out->clock = ef_clock_system();
    if (!out->clock->wall_us || !out->clock->mono_us)
        return ef_fail(err, EF_BAD_INPUT, "clock lacks a function: wall_us and mono_us are needed");
    /* A read-only journal is never created. */
    if (out->read_only)
        out->create = false;
    return EF_OK;
}

ef_status ef_journal_open(const ef_journal_options *options, ef_journal **out_journal,
                          ef_error *err)
{
    ef_journal_options resolved;
    ef_status st;

    if ((st = ef__need(out_journal, "out_journal", err)) != EF_OK)
        return st;
    *out_journal = NULL;
    if ((st = ef__need(options, "options", err)) != EF_OK)
        return st;
    if (!options->url || options->url[0] == '\0')
        return ef_fail(err, EF_BAD_INPUT, "url is missing: write " KNOWN_URLS);
    if ((st = resolve_options(options, &resolved, err)) != EF_OK)
        return st;

    st = open_by_url(options->url, &resolved, out_journal, err);
    if (st != EF_OK) {
        *out_journal = NULL;
        return st;
    }
    resolved.url = resolved.control = NULL; /* borrowed for this call only */
    (*out_journal)->options = resolved;
    ef_url_show(options->url, (*out_journal)->shown, sizeof(*out_journal)->shown);
    return EF_OK;
}

ef_status ef__journal_schema(const char *url, ef__buf *out, ef_error *err)
{
#ifdef EF_HAVE_POSTGRES
    if (is_postgres(url))
        return ef__journal_postgres_schema(url, out, err);
#endif
    (void)url, (void)out;
    return ef_fail(err, EF_UNSUPPORTED, "only a journal on PostgreSQL has a schema to print");
}

void ef_journal_close(ef_journal *journal)
{
    if (journal)
        journal->store->close(journal);
}

/* --- the journal as a whole ------------------------------------------------------------------- */

ef_status ef_journal_wait(ef_journal *journal, int64_t after, int64_t timeout_ms, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__range_check("after", after, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("timeout_ms", timeout_ms, 0, EF_LIMIT_LEASE_MS, err);
    return st == EF_OK ? journal->events->wait(journal, after, NULL, timeout_ms, err) : st;
}

ef_status ef__journal_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                           ef_error *err)
{
    return journal->events->wait(journal, after, wake, timeout_ms, err);
}

void ef__journal_wake(ef_journal *journal)
{
    ef_error why = EF_ERROR_INIT;

    if (!journal->options.read_only &&
        journal->control->leases->wake(journal->control, &why) != EF_OK)
        ef__log(journal->options.log, EF_LOG_WARN, "wake-up failed, workers will poll",
                EF_LOG_TEXT_FIELD("error", ef_str_from(why.text)));
}

ef_status ef__journal_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    return journal->control->leases->partition_count(journal->control, out, err);
}

ef_status ef__wake_on_success(ef_journal *journal, ef_status st)
{
    if (st == EF_OK)
        ef__journal_wake(journal);
    return st;
}

ef_status ef_journal_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    return st == EF_OK ? ef__damage_note(journal, journal->events->head(journal, out, err), err)
                       : st;
}

ef_status ef_journal_verify(ef_journal *journal, int64_t from,
                            bool (*progress)(void *context, int64_t done, int64_t total),
                            void *context, ef_verify_result *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = ef__range_check("from", from, 0, INT64_MAX, err);
    if (st != EF_OK)
        return st;
    *out = (ef_verify_result){0};
    if (!journal->events->verify)
        return ef_fail(err, EF_UNSUPPORTED, "a journal on %s has no hash chain to verify",
                       journal->store->name);
    st = journal->events->verify(journal, from, progress, context, out, err);
    return ef__damage_note(journal, st, err);
}

ef_status ef__journal_copied(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    *out_us = 0;
    return journal->store->copied_get ? journal->store->copied_get(journal, out_us, err) : EF_OK;
}

ef_status ef_journal_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    ef__damage damage;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = journal->store->facts(journal, out, err);
    if (st == EF_OK)
        st = ef__journal_copied(journal, &out->copied_us, err);
    if (st == EF_OK && (out->damaged = ef__damage_find(journal, &damage))) {
        out->damaged_us = damage.found_us;
        memcpy(out->damage, damage.text, sizeof out->damage);
    }
    return st;
}

/* --- copies ----------------------------------------------------------------------------------- */

ef_status ef_journal_backup(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                            ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(options, "options", err);
    if (st == EF_OK)
        st = ef__need(options->path, "path", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st != EF_OK)
        return st;
    *out = (ef_head){0};
    if (!journal->store->backup)
        return ef_fail(err, EF_UNSUPPORTED,
                       "a journal on %s cannot be copied to a file: use the backup of that store",
                       journal->store->name);
    return journal->store->backup(journal, options, out, err);
}

ef_status ef_journal_adopt(ef_journal *journal, ef_str actor, ef_str reason, ef_error *err)
{
    int64_t copied_us = 0;
    ef_status st = ef__need_writable(journal, "ef_journal_adopt", err);

    if (st == EF_OK)
        st = ef__journal_copied(journal, &copied_us, err);
    if (st == EF_OK && copied_us == 0)
        return ef_fail(err, EF_EXISTS, "the journal is not a copy: its publishers send already");
    if (st == EF_OK && actor.len > 0)
        st = ef_audit_add(
            journal, &(ef_audit_entry){.action = EF_STR("adopt"), .actor = actor, .reason = reason},
            err);
    if (st == EF_OK)
        st = journal->store->adopt(journal, err);
    return ef__wake_on_success(journal, st);
}

/* --- checks ----------------------------------------------------------------------------------- */

ef_status ef__need(const void *argument, const char *what, ef_error *err)
{
    return argument ? EF_OK : ef_fail(err, EF_BAD_INPUT, "%s is NULL", what);
}

ef_status ef__need_journal(const ef_journal *journal, ef_error *err)
{
    return ef__need(journal, "journal", err);
}

ef_status ef__need_writable(const ef_journal *journal, const char *call, ef_error *err)
{
    if (!journal)
        return ef__need_journal(journal, err);
    if (journal->options.read_only)
        return ef_fail(err, EF_MISUSE, "the journal was opened read-only: %s is refused", call);
    return EF_OK;
}

ef_status ef__limit_resolve(size_t *limit, ef_error *err)
{
    if (*limit > EF_LIMIT_LIST_ROWS)
        return ef_fail_numbers(err, EF_BAD_INPUT, EF_LIMIT_LIST_ROWS, (int64_t)*limit,
                               "limit is %zu, at most %d is allowed", *limit, EF_LIMIT_LIST_ROWS);
    if (*limit == 0)
        *limit = EF__LIMIT_DEFAULT;
    return EF_OK;
}

ef_status ef__range_check(const char *what, int64_t value, int64_t min, int64_t max, ef_error *err)
{
    if (value < min)
        return ef_fail_numbers(err, EF_BAD_INPUT, min, value,
                               "%s is %" PRId64 ", at least %" PRId64 " is needed", what, value,
                               min);
    if (value > max)
        return ef_fail_numbers(err, EF_BAD_INPUT, max, value,
                               "%s is %" PRId64 ", at most %" PRId64 " is allowed", what, value,
                               max);
    return EF_OK;
}

ef_status ef__str_check(const char *what, ef_str text, ef_error *err)
{
    if (text.len > 0 && !text.ptr)
        return ef_fail(err, EF_BAD_INPUT, "%s has a length of %zu and a NULL pointer", what,
                       text.len);
    return EF_OK;
}

ef_status ef__name_parse(const char *what, ef_str name, size_t min_bytes, bool no_space,
                         ef_error *err)
{
    ef_status st = ef__str_check(what, name, err);

    return st == EF_OK ? ef__name_check(what, name, min_bytes, no_space, err) : st;
}

ef_status ef__text_check(const char *what, ef_str text, size_t max_bytes, ef_error *err)
{
    ef_status st = ef__str_check(what, text, err);

    if (st != EF_OK)
        return st;
    if (text.len > max_bytes)
        return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)max_bytes, (int64_t)text.len,
                               "%s has %zu bytes, at most %zu are allowed", what, text.len,
                               max_bytes);
    if (text.len > 0 && memchr(text.ptr, '\0', text.len))
        return ef_fail(err, EF_BAD_INPUT, "%s contains a NUL character", what);
    if (!ef__utf8_valid(text))
        return ef_fail(err, EF_BAD_INPUT, "%s is not valid UTF-8", what);
    return EF_OK;
}
