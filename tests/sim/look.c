/*
 * look.c - reading the stores, past all proxies, into what the oracle can see.
 */
#include "sim.h"

#include <inttypes.h>

static void copy_text(sim *s, char *out, size_t size, ef_str text)
{
    size_t length = text.len < size ? text.len : size - 1;

    if (text.len >= size)
        oracle_wrong(&s->oracle, "a text of %zu bytes is in a store", text.len);
    if (length)
        memcpy(out, text.ptr, length);
    out[length] = '\0';
}

/* --- views -------------------------------------------------------------------------------------
 */

typedef struct looking {
    sim *sim;
    look_generation *out;
} looking;

static bool see_watermark(void *context, ef_str tenant, ef_str stream,
                          const ef__watermark *watermark)
{
    looking *l = context;
    char names[2][16];
    int at;

    copy_text(l->sim, names[0], sizeof names[0], tenant);
    copy_text(l->sim, names[1], sizeof names[1], stream);
    at = sim_stream_find(names[0], names[1]);
    if (at < 0) {
        oracle_wrong(&l->sim->oracle, "there is a watermark of stream \"%s\"", names[1]);
        return false;
    }
    l->out->applied_seq[at] = watermark->applied_seq;
    l->out->next_seq[at] = watermark->expected_next_seq;
    return true;
}

static bool see_view(void *context, ef_str key, const ef__view *view)
{
    looking *l = context;
    look_view *out = &l->out->views[l->out->view_count];

    (void)key;
    if (l->out->view_count == SIM_VIEWS) {
        oracle_wrong(&l->sim->oracle, "a generation has more views than its program can make");
        return false;
    }
    copy_text(l->sim, out->tenant, sizeof out->tenant, view->tenant);
    copy_text(l->sim, out->id, sizeof out->id, view->id);
    copy_text(l->sim, out->data, sizeof out->data, view->data);
    l->out->view_count++;
    return true;
}

static look_state state_of(ef__generation_state state)
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

static ef_status see_tenants(sim *s, int64_t generation, look_generation *out)
{
    ef__tenant_cursor_list list = {0};
    ef_status st =
        s->views->ops->tenant_cursor_ls(s->views, generation, INT64_MAX, 100, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        char name[16];
        int t;
        copy_text(s, name, sizeof name, list.items[i].tenant);
        t = sim_stream_find(name, sim_stream_name(0));
        if (t < 0 || out->tenants[t].own) {
            oracle_wrong(&s->oracle, "there is a cursor of tenant \"%s\"", name);
            break;
        }
        out->tenants[t].own = true;
        out->tenants[t].position = list.items[i].cursor.position;
        out->tenants[t].waiting = list.items[i].cursor.waiting;
    }
    ef__tenant_cursor_list_release(&list);
    return st;
}

static ef_status see_generation(sim *s, const ef__generation *g, look_generation *out)
{
    looking l = {s, out};
    char name[16];
    ef_status st;

    copy_text(s, name, sizeof name, g->name);
    /* Not the views: they are written over one by one. */
    memset(out, 0, offsetof(look_generation, views));
    out->view_count = 0;
    out->id = g->id;
    out->name = rule_name_find(name);
    out->version = g->version;
    out->number = g->number;
    out->by_log = g->by_log;
    out->routed = g->routed;
    out->state = state_of(g->state);
    out->era = g->era;
    out->position = g->position;
    out->seam = g->seam;
    out->applied = g->applied;
    out->ignored = g->ignored;
    out->skipped = g->skipped;
    memcpy(out->digest, g->digest, sizeof out->digest);
    st = see_tenants(s, g->id, out);
    if (st == EF_OK)
        st = s->views->ops->watermark_scan(s->views, g->id, see_watermark, &l, NULL);
    if (st == EF_OK)
        st = s->views->ops->view_scan(
            s->views, &(ef__view_scan){.generation = g->id, .any_tenant = true, .index = -1},
            see_view, &l, NULL);
    return st;
}

static void see_fences(sim *s, look_views *out)
{
    out->fence_count = s->oracle.fence_count;
    for (int i = 0; i < out->fence_count; i++) {
        out->fences[i] = s->oracle.fences[i];
        (void)s->views->ops->fence_get(s->views, ef_str_from(out->fences[i].scope),
                                       &out->fences[i].token, NULL);
    }
}

void look_at_views(sim *s, const sim_deed *deed)
{
    look_views *out = &s->look.views;
    ef__generation_list list = {0};
    ef_status st = ef__room_ready(&list.room, NULL);

    out->count = 0;
    if (st == EF_OK)
        st = s->views->ops->generation_ls(s->views, (ef_str){0}, &list, NULL);
    for (size_t i = 0; st == EF_OK && i < list.count && i < LOOK_GENERATIONS; i++)
        st = see_generation(s, &list.items[i], &out->items[out->count++]);
    if (st != EF_OK || list.count > LOOK_GENERATIONS)
        oracle_wrong(&s->oracle, "the view store cannot be looked at");
    ef__generation_list_release(&list);
    see_fences(s, out);
    oracle_views(&s->oracle, out, deed);
}

/* --- rows and leases ---------------------------------------------------------------------------
 */

static int lane_of(sim *s, ef_str lane)
{
    char name[16];
    int at;

    if (ef_str_equal(lane, EF_STR(EF_LANE_APPLY)))
        return 0;
    copy_text(s, name, sizeof name, lane);
    at = rule_name_find(name);
    if (at < 0)
        oracle_wrong(&s->oracle, "there is a lane \"%s\"", name);
    return at + 1;
}

void look_at_rows(sim *s, const sim_deed *deed, bool append)
{
    look_rows *out = &s->look.rows;
    ef_row_list list = {0};
    ef_status st = ef_outbox_ls(
        s->journal, &(ef_outbox_query){.any_tenant = true, .limit = LOOK_ROWS}, &list, NULL);

    memset(out, 0, sizeof *out);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef_row *row = &list.items[i];
        if (row->position < 1 || row->position > s->oracle.head) {
            oracle_wrong(&s->oracle, "there is a row of position %" PRId64, row->position);
            break;
        }
        if (s->publishes && mail_is_of(row->lane))
            continue;
        out->at[lane_of(s, row->lane)][row->position] =
            (look_row){.there = true,
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
        oracle_wrong(&s->oracle, "the outbox cannot be looked at");
    else if (s->publishes && !sim_failed(s))
        mail_look(s, &list);
    ef_row_list_release(&list);
    oracle_rows(&s->oracle, out, deed, append);
}

void look_at_filed(sim *s, const ef_exception *rows, size_t count, int turn)
{
    for (size_t i = 0; i < count; i++)
        oracle_filed(&s->oracle, lane_of(s, rows[i].lane), rows[i].position, turn);
}

void look_at_skip(sim *s, const ef__skip_entry *entry)
{
    char tenant[16], stream[16];

    copy_text(s, tenant, sizeof tenant, entry->tenant);
    copy_text(s, stream, sizeof stream, entry->stream);
    oracle_noted(&s->oracle, lane_of(s, entry->projection) - 1, entry->version,
                 sim_stream_find(tenant, stream), entry->seq);
}

/* Of the rows that were revised. */
void look_at_skips(sim *s, const ef__revise *revise, const ef_row_list *rows)
{
    for (size_t r = 0; r < rows->count; r++)
        for (size_t i = 0; i < revise->count; i++)
            for (size_t v = 0; rows->items[r].position == revise->rows[i].position &&
                               ef_str_equal(rows->items[r].lane, revise->rows[i].lane) &&
                               v < revise->rows[i].version_count;
                 v++)
                look_at_skip(s, &(ef__skip_entry){.projection = rows->items[r].lane,
                                                  .version = revise->rows[i].versions[v],
                                                  .tenant = rows->items[r].tenant,
                                                  .stream = rows->items[r].stream,
                                                  .seq = rows->items[r].seq});
}

void look_at_leases(sim *s, const sim_deed *deed)
{
    look_leases *out = &s->look.leases;
    ef_lease_list list = {0};
    ef_status st = ef_lease_ls(s->journal, NULL, &list, NULL);

    out->count = 0;
    for (size_t i = 0; st == EF_OK && i < list.count && i < LOOK_LEASES; i++) {
        const ef_lease *lease = &list.items[i];
        look_lease *l = &out->items[out->count++];
        (void)snprintf(l->key, sizeof l->key, "%s %.*s/%d", ef_lease_kind_name(lease->key.kind),
                       EF_STR_ARG(lease->key.name), (int)lease->key.partition);
        l->partition = lease->key.kind == EF_LEASE_PARTITION ? lease->key.partition : -1;
        copy_text(s, l->owner, sizeof l->owner, lease->owner);
        l->token = lease->token;
        l->until_us = lease->until_us;
        l->updated_us = lease->updated_us;
    }
    if (st != EF_OK || list.count > LOOK_LEASES)
        oracle_wrong(&s->oracle, "the leases cannot be looked at");
    ef_lease_list_release(&list);
    oracle_leases(&s->oracle, out, deed, s->wall_us);
}
