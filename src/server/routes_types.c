/*
 * routes_types.c - event types; and what is told of the store.
 */
#include "request.h"

#include <everfold/version.h>

static ef_status list_types(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_type_list types = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_type_ls(r->server->options.journal, &types, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < types.count; i++)
            ef__shape_write(&w, &ef__shape_type, &types.items[i]);
        ef__json_close(&w, ']');
    }
    ef_type_list_release(&types);
    return st;
}

static ef_status answer_type(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_type_list types = {0};
    ef_status st = ef_type_get(r->server->options.journal, r->parts[0], &types, err);

    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_type, &types.items[0]);
    ef_type_list_release(&types);
    return st;
}

static ef_status show_type(ef__request *r, ef_error *err)
{
    ef_status st = ef__request_no_more(r, err);

    return st == EF_OK ? answer_type(r, err) : st;
}

static ef_status read_type(ef__request *r, const ef__json *body, ef_type *type, ef_error *err)
{
    ef_str intent = {NULL, 0};
    ef_status st = ef__members_only(body, "name,intent,publish,alias_of", err);

    if (st == EF_OK)
        st = ef__member_text(body, "intent", false, &intent, err);
    if (st == EF_OK && intent.len > 0 && ef_intent_parse(intent, &type->intent) != 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "intent is '%.*s'; there are projection_and_replay, replay_only, audit_only",
                     EF_STR_ARG(intent));
    if (st == EF_OK)
        st = ef__member_bool(body, "publish", &type->publish, err);
    if (st == EF_OK)
        st = ef__member_text(body, "alias_of", false, &type->alias_of, err);
    type->name = r->parts[0];
    return st;
}

/* What the body does not name stays as it is. */
static ef_status set_type(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_type_list types = {0};
    ef_type type = {.name = r->parts[0]};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef_type_get(r->server->options.journal, r->parts[0], &types, err);
    if (st == EF_OK)
        type = types.items[0];
    if (st == EF_OK || st == EF_NOT_FOUND)
        st = read_type(r, body, &type, err);
    if (st == EF_OK)
        st = ef_type_set(r->server->options.journal, &type, err);
    ef_type_list_release(&types);
    return st == EF_OK ? answer_type(r, err) : st;
}

/* How much there is of all tenants is not for a request of one; the position is in its events. */
static void narrow(ef_head *head, ef_store_facts *facts)
{
    head->recorded_us = 0;
    facts->streams = facts->store_bytes = facts->wal_bytes = facts->free_bytes = -1;
}

/* The store and its head. */
static ef_status status(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_store_facts facts = {0};
    ef_head head = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_journal_head(r->server->options.journal, &head, err);
    if (st == EF_OK)
        st = ef_journal_facts(r->server->options.journal, &facts, err);
    if (st != EF_OK)
        return st;
    if (!r->any_tenant)
        narrow(&head, &facts);
    ef__json_open(&w, '{');
    ef__json_key(&w, "version");
    ef__json_str(&w, ef_str_from(ef_version()));
    ef__json_key(&w, "mode");
    ef__json_str(&w, ef_str_from(r->server->options.mode));
    ef__json_key(&w, "head");
    ef__shape_write(&w, &ef__shape_head, &head);
    ef__json_key(&w, "store");
    ef__shape_write(&w, &ef__shape_facts, &facts);
    ef__json_close(&w, '}');
    return EF_OK;
}

const ef__http_route ef__routes_types[] = {
    {"GET", "/v1/types", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_types, "listTypes",
     "event types", NULL, NULL, "Types", 0},
    {"GET", "/v1/types/{type}", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, show_type, "showType",
     "one event type", NULL, NULL, "Type", 0},
    {"PUT", "/v1/types/{type}", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY, set_type,
     "setType", "make or change an event type", NULL, "TypeChange", "Type", 0},
    {"GET", "/v1/status", EF__SCOPE_READ, EF__TENANCY_PART, 0, status, "status",
     "the store and its head", NULL, NULL, "Status", 0},
    {0},
};
