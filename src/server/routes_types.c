/*
 * routes_types.c - event types, and facts about the store.
 */
#include "request.h"

#include <everfold/version.h>

static ef_status list_types(ef__request *r, ef_error *err)
{
    ef_type_list types = {0};
    ef_status st = ef_type_ls(ef__request_journal(r), &types, err);

    if (st == EF_OK)
        ef__request_write_array(r, &ef__shape_type, types.items, types.count);
    ef_type_list_release(&types);
    return st;
}

static ef_status show_type(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_type_list types = {0};
    ef_status st = ef_type_get(ef__request_journal(r), r->parts[0], &types, err);

    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_type, &types.items[0]);
    ef_type_list_release(&types);
    return st;
}

static ef_status read_type(ef__request *r, ef__type_request *out, ef_error *err)
{
    ef_status st = ef__request_read(r, out, err);

    if (st == EF_OK && out->intent.len > 0 && ef_intent_parse(out->intent, &out->type.intent) != 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "intent is '%.*s'; there are projection_and_replay, replay_only, audit_only",
                     EF_STR_ARG(out->intent));
    return st;
}

/* Members that the body does not have keep their values. */
static ef_status set_type(ef__request *r, ef_error *err)
{
    ef__type_request asked = {.intent = {NULL, 0}};
    ef_type_list types = {0};
    ef_status st = ef_type_get(ef__request_journal(r), r->parts[0], &types, err);

    if (st == EF_OK)
        asked.type = types.items[0];
    if (st == EF_OK || st == EF_NOT_FOUND)
        st = read_type(r, &asked, err);
    if (st == EF_OK)
        st = ef_type_set(ef__request_journal(r), &asked.type, err);
    ef_type_list_release(&types);
    return st == EF_OK ? show_type(r, err) : st;
}

/* A request of one tenant gets no totals over all tenants. It knows positions from its events. */
static void narrow_facts(ef_head *head, ef_store_facts *facts)
{
    head->recorded_us = 0;
    facts->streams = facts->store_bytes = facts->wal_bytes = facts->free_bytes = -1;
}

static ef_status show_status(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_store_facts facts = {0};
    ef_head head = {0};
    ef_status st = ef_journal_head(r->server->options.journal, &head, err);

    if (st == EF_OK)
        st = ef_journal_facts(r->server->options.journal, &facts, err);
    if (st != EF_OK)
        return st;
    if (!r->any_tenant)
        narrow_facts(&head, &facts);
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "version", ef_version());
    ef__json_member_text(&w, "mode", r->server->options.mode);
    ef__json_key(&w, "head");
    ef__shape_write(&w, &ef__shape_head, &head);
    ef__json_key(&w, "store");
    ef__shape_write(&w, &ef__shape_facts, &facts);
    ef__json_close(&w, '}');
    return EF_OK;
}

const ef__http_route ef__routes_types[] = {
    EF__RUN(list_types, list_types),
    EF__RUN(show_type, show_type),
    EF__RUN(set_type, set_type),
    EF__RUN(status, show_status),
    {0},
};
