/*
 * front_types.c - the public API of streams and event types.
 */
#include "front_priv.h"

#include <inttypes.h>

/* --- streams ---------------------------------------------------------------------------------- */

ef_status ef_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err)
{
    int64_t seq = 0, position = 0;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("stream", stream, 1, false, err);
    if (st == EF_OK)
        st = journal->events->stream_head(journal, tenant, stream, &seq, &position, err);
    (void)ef__damage_note(journal, st, err);
    if (st != EF_OK)
        return st;
    if (out_seq)
        *out_seq = seq;
    if (out_position)
        *out_position = position;
    return EF_OK;
}

ef_status ef_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st != EF_OK)
        return st;
    out->next[0] = '\0';
    st = EF__LIST_PREPARE(out, err);
    if (st == EF_OK && !any_tenant)
        st = ef__name_parse("tenant", tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__str_check("after", after, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&limit, err);
    if (st == EF_OK)
        st = journal->events->stream_ls
                 ? journal->events->stream_ls(journal, tenant, any_tenant, after, limit, out, err)
                 : ef_fail(
                       err, EF_UNSUPPORTED,
                       "a journal on %s does not list its streams: list the subjects of the broker",
                       journal->store->name);
    (void)ef__damage_note(journal, st, err);
    return EF__LIST_FINISH(out, st);
}

/* --- types ------------------------------------------------------------------------------------ */

ef_status ef_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_type_set", err);

    if (st == EF_OK)
        st = ef__need(type, "type", err);
    if (st == EF_OK)
        st = ef__name_parse("type", type->name, 1, true, err);
    if (st == EF_OK)
        st = ef__name_parse("alias_of", type->alias_of, 0, true, err);
    if (st == EF_OK)
        st = ef__range_check("intent", type->intent, 0, EF_INTENT_AUDIT_ONLY, err);
    if (st != EF_OK)
        return st;
    if (memchr(type->name.ptr, '*', type->name.len))
        return ef_fail(err, EF_BAD_INPUT,
                       "type is \"%.*s\": a pattern is not the name of an event type",
                       EF_STR_ARG(type->name));
    if (type->alias_of.len && ef_str_equal(type->name, type->alias_of))
        return ef_fail(err, EF_BAD_INPUT, "type \"%.*s\" cannot be an alias of itself",
                       EF_STR_ARG(type->name));
    return journal->control->records->type_set(journal->control, type, err);
}

static ef_status list_types(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    return st == EF_OK ? journal->control->records->type_ls(journal->control, query, out, err) : st;
}

ef_status ef_type_get(ef_journal *journal, ef_str name, ef_type_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_parse("type", name, 1, true, err);
    if (st != EF_OK)
        return st;
    st = list_types(journal, &(ef__type_query){.name = name}, out, err);
    if (st == EF_OK && out->count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no type \"%.*s\"", EF_STR_ARG(name));
    return st;
}

ef_status ef_type_ls(ef_journal *journal, ef_type_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    return st == EF_OK ? list_types(journal, &(ef__type_query){0}, out, err) : st;
}

ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err)
{
    return list_types(journal, &(ef__type_query){.not_folded = true}, out, err);
}

ef_status ef__type_create_check(const ef_journal_options *options, ef_str tenant, ef_str type,
                                int64_t created, int64_t all, ef_error *err)
{
    int64_t most = options->types_max ? options->types_max : EF_TYPES_MAX;

    if (created >= most)
        return ef_fail_numbers(err, EF_UNKNOWN_TYPE, created, most,
                               "event type \"%.*s\" is not registered, and appends of tenant "
                               "\"%.*s\" have created %" PRId64 " types, which is the limit "
                               "(types.max): register the type, or raise the limit",
                               EF_STR_ARG(type), EF_STR_ARG(tenant), created);
    if (all >= EF_LIMIT_TYPES)
        return ef_fail_numbers(err, EF_UNKNOWN_TYPE, all, EF_LIMIT_TYPES,
                               "event type \"%.*s\" is not registered, and the journal has %" PRId64
                               " types, which is the limit",
                               EF_STR_ARG(type), all);
    return EF_OK;
}
