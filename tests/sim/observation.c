/*
 * observation.c - reads the stores, without the proxies, into the structs of the oracle.
 */
#include "sim.h"

#include <inttypes.h>

static void copy_text(sim_world *sim, char *out, size_t size, ef_str text)
{
    size_t length = text.len < size ? text.len : size - 1;

    if (text.len >= size)
        oracle_wrong(&sim->oracle, "a text of %zu bytes is in a store", text.len);
    if (length)
        memcpy(out, text.ptr, length);
    out[length] = '\0';
}

/* --- views ------------------------------------------------------------------------------------ */

typedef struct store_read {
    sim_world *sim;
    stored_generation *out;
} store_read;

static bool see_watermark(void *context, ef_str tenant, ef_str stream,
                          const ef__watermark *watermark)
{
    store_read *looking = context;
    char names[2][16];
    int at;

    copy_text(looking->sim, names[0], sizeof names[0], tenant);
    copy_text(looking->sim, names[1], sizeof names[1], stream);
    at = sim_stream_find(names[0], names[1]);
    if (at < 0) {
        oracle_wrong(&looking->sim->oracle, "there is a watermark of stream \"%s\"", names[1]);
        return false;
    }
    looking->out->applied_seq[at] = watermark->applied_seq;
    looking->out->next_seq[at] = watermark->expected_next_seq;
    return true;
}

static bool see_view(void *context, ef_str key, const ef__view *view)
{
    store_read *looking = context;
    stored_view *out = &looking->out->views[looking->out->view_count];

    (void)key;
    if (looking->out->view_count == SIM_VIEWS) {
        oracle_wrong(&looking->sim->oracle,
                     "a generation has more views than its program can make");
        return false;
    }
    copy_text(looking->sim, out->tenant, sizeof out->tenant, view->tenant);
    copy_text(looking->sim, out->id, sizeof out->id, view->id);
    copy_text(looking->sim, out->data, sizeof out->data, view->data);
    looking->out->view_count++;
    return true;
}

static stored_state state_of(ef__generation_state state)
{
    switch (state) {
    case EF__GENERATION_CATCHING_UP:
        return LOOK_CATCHING_UP;
    case EF__GENERATION_LIVE:
        return LOOK_LIVE;
    case EF__GENERATION_PAUSED:
        return LOOK_PAUSED;
    case EF__GENERATION_FAILED:
        return LOOK_FAILED;
    default:
        return LOOK_RETIRED;
    }
}

static ef_status see_tenants(sim_world *sim, int64_t generation, stored_generation *out)
{
    ef__tenant_cursor_list list = {0};
    ef_status st =
        sim->views->ops->tenant_cursor_ls(sim->views, generation, INT64_MAX, 100, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        char name[16];
        int t;
        copy_text(sim, name, sizeof name, list.items[i].tenant);
        t = sim_stream_find(name, sim_stream_name(0));
        if (t < 0 || out->tenants[t].own) {
            oracle_wrong(&sim->oracle, "there is a cursor of tenant \"%s\"", name);
            break;
        }
        out->tenants[t].own = true;
        out->tenants[t].position = list.items[i].cursor.position;
        out->tenants[t].waiting = list.items[i].cursor.waiting;
    }
    EF_RELEASE(&list);
    return st;
}

static ef_status see_generation(sim_world *sim, const ef__generation *generation,
                                stored_generation *out)
{
    store_read looking = {sim, out};
    char name[16];
    ef_status st;

    copy_text(sim, name, sizeof name, generation->name);
    /* Not the views: they are overwritten one by one. */
    memset(out, 0, offsetof(stored_generation, views));
    out->view_count = 0;
    out->id = generation->id;
    out->name = rule_name_find(name);
    out->version = generation->version;
    out->number = generation->number;
    out->by_log = generation->by_log;
    out->active = generation->active;
    out->state = state_of(generation->state);
    out->era = generation->era;
    out->position = generation->position;
    out->seam = generation->seam;
    out->applied = generation->applied;
    out->ignored = generation->ignored;
    out->skipped = generation->skipped;
    memcpy(out->digest, generation->digest, sizeof out->digest);
    st = see_tenants(sim, generation->id, out);
    if (st == EF_OK)
        st = sim->views->ops->watermark_scan(sim->views, generation->id, see_watermark, &looking,
                                             NULL);
    if (st == EF_OK)
        st = sim->views->ops->view_scan(
            sim->views,
            &(ef__view_scan){.generation = generation->id, .any_tenant = true, .index = -1},
            see_view, &looking, NULL);
    return st;
}

static void see_fences(sim_world *sim, stored_views *out)
{
    out->fence_count = sim->oracle.fence_count;
    for (int i = 0; i < out->fence_count; i++) {
        out->fences[i] = sim->oracle.fences[i];
        (void)sim->views->ops->fence_get(sim->views, ef_str_from(out->fences[i].scope),
                                         &out->fences[i].token, NULL);
    }
}

void observe_views(sim_world *sim, const sim_call *request)
{
    stored_views *out = &sim->look.views;
    ef__generation_list list = {0};
    ef_status st = ef__memory_prepare(&list.room, NULL);

    out->count = 0;
    if (st == EF_OK)
        st = sim->views->ops->generation_ls(sim->views, (ef_str){0}, &list, NULL);
    for (size_t i = 0; st == EF_OK && i < list.count && i < LOOK_GENERATIONS; i++)
        st = see_generation(sim, &list.items[i], &out->items[out->count++]);
    if (st != EF_OK || list.count > LOOK_GENERATIONS)
        oracle_wrong(&sim->oracle, "the view store cannot be looked at");
    EF_RELEASE(&list);
    see_fences(sim, out);
    oracle_views(&sim->oracle, out, request);
}

/* --- rows and leases -------------------------------------------------------------------------- */

static int lane_of(sim_world *sim, ef_str lane)
{
    char name[16];
    int at;

    if (ef_str_equal(lane, EF_STR(EF_LANE_APPLY)))
        return 0;
    copy_text(sim, name, sizeof name, lane);
    at = rule_name_find(name);
    if (at < 0)
        oracle_wrong(&sim->oracle, "there is a lane \"%s\"", name);
    return at + 1;
}

void observe_rows(sim_world *sim, const sim_call *request, bool append)
{
    stored_rows *out = &sim->look.rows;
    ef_row_list list = {0};
    ef_status st = ef_outbox_ls(
        sim->journal, &(ef_outbox_query){.any_tenant = true, .limit = LOOK_ROWS}, &list, NULL);

    memset(out, 0, sizeof *out);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef_row *row = &list.items[i];
        if (row->position < 1 || row->position > sim->oracle.head) {
            oracle_wrong(&sim->oracle, "there is a row of position %" PRId64, row->position);
            break;
        }
        if (sim->publishes && mail_is_of(row->lane))
            continue;
        out->at[lane_of(sim, row->lane)][row->position] =
            (stored_row){.there = true,
                         .status = row->status == EF_ROW_PENDING      ? LOOK_PENDING
                                   : row->status == EF_ROW_PROCESSING ? LOOK_PROCESSING
                                   : row->status == EF_ROW_DEAD       ? LOOK_DEAD
                                                                      : LOOK_FAILING,
                         .skip = row->skip,
                         .attempts = row->attempt_count,
                         .partition = row->partition};
        out->count++;
    }
    if (st != EF_OK)
        oracle_wrong(&sim->oracle, "the outbox cannot be looked at");
    else if (sim->publishes && !sim_failed(sim))
        mail_observe_rows(sim, &list);
    EF_RELEASE(&list);
    oracle_rows(&sim->oracle, out, request, append);
}

void observe_retry_rows(sim_world *sim, const ef_retry_row *rows, size_t count, int turn)
{
    for (size_t i = 0; i < count; i++)
        oracle_filed(&sim->oracle, lane_of(sim, rows[i].lane), rows[i].position, turn);
}

void observe_skip(sim_world *sim, const ef__skip_entry *entry)
{
    char tenant[16], stream[16];

    copy_text(sim, tenant, sizeof tenant, entry->tenant);
    copy_text(sim, stream, sizeof stream, entry->stream);
    oracle_noted(&sim->oracle, lane_of(sim, entry->projection) - 1, entry->version,
                 sim_stream_find(tenant, stream), entry->seq);
}

/* Reads the skips of the rows that were revised. */
void observe_skips(sim_world *sim, const ef__revision_request *revise, const ef_row_list *rows)
{
    for (size_t r = 0; r < rows->count; r++)
        for (size_t i = 0; i < revise->count; i++)
            for (size_t v = 0; rows->items[r].position == revise->rows[i].position &&
                               ef_str_equal(rows->items[r].lane, revise->rows[i].lane) &&
                               v < revise->rows[i].version_count;
                 v++)
                observe_skip(sim, &(ef__skip_entry){.projection = rows->items[r].lane,
                                                    .version = revise->rows[i].versions[v],
                                                    .tenant = rows->items[r].tenant,
                                                    .stream = rows->items[r].stream,
                                                    .seq = rows->items[r].seq});
}

void observe_leases(sim_world *sim, const sim_call *request)
{
    stored_leases *out = &sim->look.leases;
    ef_lease_list list = {0};
    ef_status st = ef_lease_ls(sim->journal, NULL, &list, NULL);

    out->count = 0;
    for (size_t i = 0; st == EF_OK && i < list.count && i < LOOK_LEASES; i++) {
        const ef_lease *lease = &list.items[i];
        stored_lease *l = &out->items[out->count++];
        (void)snprintf(l->key, sizeof l->key, "%s %.*s/%d",
                       ef_name_of(EF_NAMES_LEASE_KIND, lease->key.kind),
                       EF_STR_ARG(lease->key.name), (int)lease->key.partition);
        l->partition = lease->key.kind == EF_LEASE_PARTITION ? lease->key.partition : -1;
        copy_text(sim, l->owner, sizeof l->owner, lease->holder);
        l->token = lease->token;
        l->until_us = lease->until_us;
        l->updated_us = lease->updated_us;
    }
    if (st != EF_OK || list.count > LOOK_LEASES)
        oracle_wrong(&sim->oracle, "the leases cannot be looked at");
    EF_RELEASE(&list);
    oracle_leases(&sim->oracle, out, request, sim->wall_us);
}
