/*
 * type.c - types of events on PostgreSQL.
 */
#include "store.h"

static ef_status check_alias(ef__pg_conn *conn, const ef_type *type, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st;

    ef__pg_add_str(&params, type->name);
    ef__pg_add_str(&params, type->alias_of);
    st = ef__pg_query(conn, PJ_TYPE_ALIAS_CHECK, &params, &result, err);
    if (st == EF_OK && ef__pg_bool(result, 0, 0))
        st = ef__refuse_alias_of_alias(type->name, type->alias_of, err);
    if (st == EF_OK && ef__pg_bool(result, 0, 1))
        st = ef__refuse_alias(type->name, err);
    PQclear(result);
    return st;
}

static ef_status send_types(ef__pg_conn *conn, const ef_type *type, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names, tenants;
    ef_status st;

    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_str(&names, type->name);
    ef__pg_array_null(&tenants);
    if (type->alias_of.len) { /* creates the canonical type too */
        ef__pg_array_str(&names, type->alias_of);
        ef__pg_array_null(&tenants);
    }
    ef__pg_add_array(&params, &names);
    ef__pg_add_array(&params, &tenants);
    st = ef__pg_send(conn, PJ_TYPE_INSERT, &params, err);
    ef__pg_array_release(&names);
    ef__pg_array_release(&tenants);
    return st;
}

static ef_status set_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const ef_type *type = context;
    ef__pg_params params = {0};
    ef_status st = ef__pg_send(conn, PJ_TYPE_LOCK, NULL, err);

    if (st == EF_OK && type->alias_of.len)
        st = check_alias(conn, type, err);
    if (st == EF_OK)
        st = send_types(conn, type, err);
    ef__pg_add_str(&params, type->name);
    ef__pg_add_int(&params, type->intent);
    ef__pg_add_bool(&params, type->publish);
    ef__pg_add_str(&params, type->alias_of);
    return st == EF_OK ? ef__pg_send(conn, PJ_TYPE_UPDATE, &params, err) : st;
}

ef_status pg_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    return pg_write_idempotent(pg_store_of(journal), set_work, (void *)type, err);
}

ef_status pg_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                     ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_type *items = NULL;
    ef_status st;

    ef__pg_add_str(&params, query->name);
    st = query->not_folded ? pg_read(pg_store_of(journal), PJ_TYPE_NOT_FOLDED, NULL, &result, err)
                           : pg_read(pg_store_of(journal), PJ_TYPE_ALL, &params, &result, err);
    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        items[i] = (ef_type){.name = pg_copy_text(result, i, 0, arena),
                             .intent = (ef_intent)ef__pg_int(result, i, 1),
                             .publish = ef__pg_bool(result, i, 2),
                             .alias_of = pg_copy_text(result, i, 3, arena)};
        if (!items[i].name.ptr || !items[i].alias_of.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}
