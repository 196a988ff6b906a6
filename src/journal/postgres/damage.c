/*
 * damage.c - the record of damage that was found, in the state row.
 *
 * An append reads the row anyway, in its own transaction (sequencer_begin, sequencer_guess), so
 * that it costs no statement. everfold.append has a trigger for it.
 */
#include "store.h"

#include "../../base/utf8.h"

void pg_damage_read(const PGresult *result, int text, ef__damage *out)
{
    ef_str found = ef__utf8_cut(ef__pg_str(result, 0, text), sizeof out->text - 1);

    *out = (ef__damage){.found_us = ef__pg_int(result, 0, text + 1)};
    if (out->found_us)
        memcpy(out->text, found.ptr, found.len);
}

static ef_status set_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const ef__damage *damage = context;
    ef__pg_params params = {0};

    if (!damage)
        return ef__pg_query(conn, PJ_STATE_DAMAGE_CLEAR, NULL, NULL, err);
    ef__pg_add_str(&params, ef_str_from(damage->text));
    ef__pg_add_int(&params, damage->found_us);
    return ef__pg_query(conn, PJ_STATE_DAMAGE_SET, &params, NULL, err);
}

ef_status pg_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    return ef__pg_transaction(pg_store_of(journal)->pool, EF__PG_WRITE, set_work, (void *)damage,
                              err);
}

ef_status pg_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_read(pg_store_of(journal)->pool, PJ_STATE_DAMAGE, NULL, &result, err);

    if (st == EF_OK)
        pg_damage_read(result, 0, out);
    PQclear(result);
    return st;
}
