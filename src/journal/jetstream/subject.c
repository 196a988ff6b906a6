/*
 * subject.c - converts between subjects and names: tenant.T.aggregate.TYPE.ID.
 *
 * A token is a name in which bytes that a subject cannot hold are written as %XX; an empty name is
 * "_", and the name "_" is %5F. So the mapping is one to one; another spelling of the same names is
 * refused, because it would be another subject.
 */
#include "jet.h"

#include <string.h>

enum { TOKENS = 5 };

static const char *const parts[TOKENS] = {"tenant", "*", "aggregate", "*", "*"};

bool jet_subject_make(ef_str tenant, ef_str stream, ef__buf *out)
{
    const char *dot = memchr(stream.ptr, '.', stream.len);
    size_t at = dot ? (size_t)(dot - stream.ptr) : 0;
    bool split = at > 0 && at + 1 < stream.len;

    ef__buf_reset(out);
    ef__buf_add_text(out, "tenant.");
    ef__buf_add_token(out, tenant);
    ef__buf_add_text(out, ".aggregate.");
    ef__buf_add_token(out, (ef_str){stream.ptr, split ? at : 0});
    ef__buf_add_char(out, '.');
    ef__buf_add_token(out, split ? (ef_str){dot + 1, stream.len - at - 1} : stream);
    return !out->failed;
}

/* --- parsing ---------------------------------------------------------------------------------- */

/* Splits a subject or pattern; returns the number of tokens, or TOKENS + 1 when there are more. */
static size_t split_tokens(ef_str subject, ef_str out[TOKENS])
{
    size_t count = 0, from = 0;

    for (size_t i = 0; i <= subject.len; i++) {
        if (i < subject.len && subject.ptr[i] != '.')
            continue;
        if (count == TOKENS)
            return TOKENS + 1;
        out[count++] = (ef_str){subject.ptr + from, i - from};
        from = i + 1;
    }
    return count;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t decode_token(ef_str token, char *out)
{
    size_t count = 0;

    if (ef_str_equal(token, EF_STR("_")))
        return 0;
    for (size_t i = 0; i < token.len; i++) {
        int high = i + 2 < token.len && token.ptr[i] == '%' ? digit_of(token.ptr[i + 1]) : -1;
        int low = high >= 0 ? digit_of(token.ptr[i + 2]) : -1;
        out[count++] = low >= 0 ? (char)(high * 16 + low) : token.ptr[i];
        i += low >= 0 ? 2 : 0;
    }
    return count;
}

/* Is `subject` what jet_subject_make writes for these names? */
static bool is_canonical(const char *subject, ef_str tenant, ef_str stream)
{
    EF__AUTO(ef__buf) made = EF__BUF_INIT(JET_SUBJECT_MAX);

    return jet_subject_make(tenant, stream, &made) && strcmp(made.ptr, subject) == 0;
}

ef_status jet_subject_parse(const char *subject, ef__arena *arena, ef_str *out_tenant,
                            ef_str *out_stream, ef_error *err)
{
    ef_str tokens[TOKENS], text = ef_str_from(subject);
    size_t count = split_tokens(text, tokens), at;
    char *names;

    if (text.len >= JET_SUBJECT_MAX || count != TOKENS ||
        !ef_str_equal(tokens[0], EF_STR("tenant")) || !ef_str_equal(tokens[2], EF_STR("aggregate")))
        return ef_fail(err, EF_BAD_INPUT, "subject '%.200s' is not tenant.T.aggregate.TYPE.ID",
                       subject);
    names = ef__arena_alloc(arena, text.len + 1);
    if (!names)
        return ef__no_memory(err);
    *out_tenant = (ef_str){names, decode_token(tokens[1], names)};
    names += out_tenant->len;
    at = decode_token(tokens[3], names);
    if (at)
        names[at++] = '.';
    *out_stream = (ef_str){names, at + decode_token(tokens[4], names + at)};
    if (!is_canonical(subject, *out_tenant, *out_stream))
        return ef_fail(err, EF_BAD_INPUT,
                       "subject '%.200s' is not the canonical subject of its tenant and stream",
                       subject);
    return EF_OK;
}

/* --- filters ---------------------------------------------------------------------------------- */

static bool is_star(ef_str token)
{
    return ef_str_equal(token, EF_STR("*"));
}

static void join_tokens(const ef_str tokens[TOKENS], char out[JET_SUBJECT_MAX])
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(JET_SUBJECT_MAX - 1);

    for (size_t i = 0; i < TOKENS; i++) {
        if (i)
            ef__buf_add_char(&text, '.');
        ef__buf_add_str(&text, tokens[i]);
    }
    memcpy(out, text.failed ? "" : text.ptr, text.failed ? 1 : text.len + 1);
}

ef_status jet_filter_parse(ef_str given, char out[JET_SUBJECT_MAX], ef_error *err)
{
    ef_str tokens[TOKENS] = {{0}};
    size_t count = given.len < JET_SUBJECT_MAX ? split_tokens(given, tokens) : TOKENS + 1;
    bool fits = count <= TOKENS;

    if (fits && ef_str_equal(tokens[count - 1], EF_STR(">")))
        for (count--; count < TOKENS; count++)
            tokens[count] = ef_str_from(parts[count]);
    fits = fits && count == TOKENS;
    for (size_t i = 0; fits && i < TOKENS; i++)
        fits = tokens[i].len > 0 && !memchr(tokens[i].ptr, '>', tokens[i].len) &&
               (parts[i][0] == '*' || ef_str_equal(tokens[i], ef_str_from(parts[i])));
    if (!fits)
        return ef_fail(err, EF_BAD_INPUT,
                       "subject '%.*s' is not within tenant.*.aggregate.*.*, where events are",
                       EF_STR_ARG(given));
    join_tokens(tokens, out);
    return EF_OK;
}

bool jet_filter_tenant(const char *filter, ef_str tenant, char out[JET_SUBJECT_MAX])
{
    ef_str tokens[TOKENS];
    EF__AUTO(ef__buf) name = EF__BUF_INIT(JET_SUBJECT_MAX);
    bool has;

    ef__buf_add_token(&name, tenant);
    has = split_tokens(ef_str_from(filter), tokens) == TOKENS && !name.failed &&
          (is_star(tokens[1]) || ef_str_equal(tokens[1], ef__buf_str(&name)));
    if (has) {
        tokens[1] = ef__buf_str(&name);
        join_tokens(tokens, out);
    }
    return has;
}

bool jet_filter_has(const char *filter, const char *subject)
{
    ef_str wanted[TOKENS], tokens[TOKENS];

    if (split_tokens(ef_str_from(filter), wanted) != TOKENS ||
        split_tokens(ef_str_from(subject), tokens) != TOKENS)
        return false;
    for (size_t i = 0; i < TOKENS; i++)
        if (!is_star(wanted[i]) && !ef_str_equal(wanted[i], tokens[i]))
            return false;
    return true;
}
