/*
 * front_record.c - the public API of records: event types, runs, the audit log; and skips.
 */
#include "front_priv.h"

#include "refusal.h"

#include "../base/hash.h"
#include "../base/json.h"
#include "../base/utf8.h"

#include <assert.h>
#include <inttypes.h>

#define DETAIL_BYTES (1 << 20) /* the JSON tree of a run's detail, which has at most 16 KiB */

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

ef_status ef_type_ls(ef_journal *journal, const ef_str *name, ef_type_list *out, ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK && name)
        st = ef__name_parse("type", *name, 1, true, err);
    if (st == EF_OK)
        st = journal->control->records->type_ls(
            journal->control, &(ef__type_query){.name = name ? *name : EF_STR("")}, out, err);
    if (st == EF_OK && name && out->count == 0)
        st = ef__refuse_unknown("type", *name, err);
    return EF__LIST_FINISH(out, st);
}

ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err)
{
    ef_status st = ef__list_prepare(out, err);

    return st == EF_OK ? journal->control->records->type_ls(
                             journal->control, &(ef__type_query){.not_folded = true}, out, err)
                       : st;
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

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status check_request(const ef_run *run, ef_error *err)
{
    ef_status st = ef__range_check("mode", run->mode, 0, EF_RUN_SEED, err);

    /* A verify run without a projection checks the journal itself. */
    bool for_all = run->mode == EF_RUN_VERIFY || run->mode == EF_RUN_REPLAY;
    if (st == EF_OK)
        st = ef__name_parse("projection", run->projection, for_all ? 0 : 1, false, err);
    if (st == EF_OK)
        st = ef__name_parse("tenant", run->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__range_check("from", run->from, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("to", run->to, run->to == 0 ? 0 : run->from, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("total", run->total, -1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__text_check("reason", run->reason, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__name_parse("requester", run->requester, 0, false, err);
    if (st == EF_OK)
        st = ef__text_check("detail", run->detail, EF_LIMIT_DETAIL_BYTES, err);
    return st;
}

ef_status ef__run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err)
{
    char id[EF_EVENT_ID_TEXT_MAX];
    ef_run made;
    ef_status st = ef__need_writable(journal, "ef__run_request", err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = ef__list_prepare(out, err);
    if (st == EF_OK)
        st = ef__need(run, "run", err);
    if (st == EF_OK)
        st = check_request(run, err);
    if (st != EF_OK)
        return st;
    const ef_clock *clock = journal->options.clock;
    if (!ef__uuid7(clock->wall_us(clock->context), id))
        return ef_fail(err, EF_IO, "cannot create a run id: no random numbers from the system");
    made = *run;
    made.id = ef_str_from(id);
    st = ef__wake_on_success(
        journal, journal->control->records->run_request(journal->control, &made, out, err));
    return EF__LIST_FINISH(out, st);
}

ef_status ef__run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                         int64_t token, ef_error *err)
{
    ef_run stored = *run;
    ef_status st = ef__need_writable(journal, "ef__run_update", err);

    assert(lease || run->state == EF_RUN_CANCELLED);
    stored.error = ef__utf8_cut(run->error, EF_LIMIT_ERROR_BYTES);
    if (st == EF_OK)
        st = ef__text_check("error", stored.error, EF_LIMIT_ERROR_BYTES, err);
    if (st == EF_OK)
        st = ef__text_check("detail", stored.detail, EF_LIMIT_DETAIL_BYTES, err);
    return st == EF_OK
               ? journal->control->records->run_update(journal->control, &stored, lease, token, err)
               : st;
}

ef_status ef_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_run_cancel", err);

    if (st == EF_OK)
        st = ef__name_parse("id", id, 1, false, err);
    return st == EF_OK ? ef__wake_on_success(journal, journal->control->records->run_cancel(
                                                          journal->control, id, err))
                       : st;
}

static bool asks_for_all_tenants(ef_str detail)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(DETAIL_BYTES);
    ef__json *tree = NULL;
    const ef__json *all;

    if (detail.len == 0)
        return false;
    if (ef__json_parse(detail, EF_LIMIT_DETAIL_BYTES, &arena, &tree, NULL) != EF_OK)
        return true; /* a detail that cannot be read must not be shown to one tenant */
    all = ef__json_get(tree, "all_tenants");
    return all && all->kind == EF__JSON_TRUE;
}

bool ef__run_is_of(const ef_run *run, ef_str tenant)
{
    if (!ef_str_equal(run->tenant, tenant))
        return false;
    return tenant.len > 0 || (run->mode == EF_RUN_REPLAY && !asks_for_all_tenants(run->detail));
}

ef_status ef_run_ls(ef_journal *journal, const ef_run_query *query, ef_run_list *out, ef_error *err)
{
    ef_run_query asked = query ? *query : (ef_run_query){0};
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK && asked.id)
        st = ef__name_parse("id", *asked.id, 1, false, err);
    if (st == EF_OK && asked.tenant)
        st = ef__name_parse("tenant", *asked.tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&asked.limit, err);
    if (st == EF_OK)
        st = journal->control->records->run_ls(journal->control, &asked, out, err);
    if (st == EF_OK && asked.id &&
        (out->count == 0 || (asked.tenant && !ef__run_is_of(&out->items[0], *asked.tenant))))
        st = ef__refuse_unknown("run", *asked.id, err);
    return EF__LIST_FINISH(out, st);
}

/* --- skips ------------------------------------------------------------------------------------ */

ef_status ef__skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    return journal->control->records->skip_add(journal->control, entry, err);
}

ef_status ef__skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                      size_t limit, ef__skip_list *out, ef_error *err)
{
    ef_status st = ef__list_prepare(out, err);

    return st == EF_OK ? journal->control->records->skip_ls(journal->control, projection, version,
                                                            after, limit, out, err)
                       : st;
}

/* --- the audit log ---------------------------------------------------------------------------- */

ef_status ef_audit_add(ef_journal *journal, const ef_audit_entry *entry, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_audit_add", err);

    if (st == EF_OK)
        st = ef__need(entry, "entry", err);
    if (st == EF_OK)
        st = ef__name_parse("action", entry->action, 1, false, err);
    if (st == EF_OK)
        st = ef__name_parse("actor", entry->actor, 0, false, err);
    if (st == EF_OK)
        st = ef__text_check("reason", entry->reason, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__name_parse("lane", entry->lane, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("tenant", entry->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("stream", entry->stream, 0, false, err);
    return st == EF_OK ? journal->control->records->audit_add(journal->control, entry, err) : st;
}

ef_status ef_audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                      ef_error *err)
{
    ef_audit_query whole = query ? *query : (ef_audit_query){0};
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK)
        st = ef__limit_resolve(&whole.limit, err);
    if (st != EF_OK)
        return st;
    if (whole.before <= 0)
        whole.before = INT64_MAX;
    st = journal->control->records->audit_ls(journal->control, &whole, out, err);
    return EF__LIST_FINISH(out, st);
}
