/*
 * proxy_views.c - a view store as one worker sees it.
 */
#include "sim.h"

static sim_actor *hand_of(ef_views *views)
{
    return ((proxy_views *)views)->actor;
}

#define READ(op, ...)                                                                              \
    sim_actor *h = hand_of(views);                                                                 \
    ef_views *inner = h->sim->views;                                                               \
    ef_status st = gate_before(h, #op, false, err);                                                \
    if (st != EF_OK)                                                                               \
        return st;                                                                                 \
    st = inner->ops->op(inner, __VA_ARGS__);                                                       \
    return gate_after(h, #op, false, st, err)

#define OPERATE(op, ...)                                                                           \
    sim_actor *h = hand_of(views);                                                                 \
    ef_views *inner = h->sim->views;                                                               \
    ef_status st = gate_before(h, #op, true, err);                                                 \
    if (st != EF_OK)                                                                               \
        return st;                                                                                 \
    st = inner->ops->op(inner, __VA_ARGS__);                                                       \
    observe_views(h->sim, &(sim_call){.call = #op,                                                 \
                                      .who = h->name,                                              \
                                      .turn = h->turn,                                             \
                                      .operates = true,                                            \
                                      .refused = st != EF_OK});                                    \
    return gate_after(h, #op, true, st, err)

static void proxy_close(ef_views *views)
{
    (void)views; /* the store stays open */
}

static ef_status proxy_generation_add(ef_views *views, const ef__generation *generation,
                                      int64_t *out_id, ef_error *err)
{
    OPERATE(generation_add, generation, out_id, err);
}

static ef_status proxy_generation_ls(ef_views *views, ef_str only_name, ef__generation_list *out,
                                     ef_error *err)
{
    READ(generation_ls, only_name, out, err);
}

static ef_status proxy_generation_change(ef_views *views, int64_t id, int64_t era,
                                         ef__generation_state state, const ef__generation *with,
                                         ef_error *err)
{
    OPERATE(generation_change, id, era, state, with, err);
}

static ef_status proxy_generation_activate(ef_views *views, int64_t id, int64_t era,
                                           int32_t replaced, ef_error *err)
{
    OPERATE(generation_activate, id, era, replaced, err);
}

static ef_status proxy_generation_remove(ef_views *views, int64_t id, int64_t era, int64_t limit,
                                         bool *out_more, ef_error *err)
{
    OPERATE(generation_remove, id, era, limit, out_more, err);
}

static ef_status proxy_on_error_set(ef_views *views, ef_str name, ef_on_error on_error,
                                    ef_error *err)
{
    OPERATE(on_error_set, name, on_error, err);
}

static ef_status proxy_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    OPERATE(version_retire, name, version, err);
}

static ef_status proxy_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                          ef_error *err)
{
    READ(version_is_retired, name, version, out, err);
}

/* --- commits ---------------------------------------------------------------------------------- */

static sim_call commit_act(const sim_actor *actor, const ef__views_commit *commit)
{
    sim_call a = {
        .call = "commit", .who = actor->name, .turn = actor->turn, .unfenced = actor->folds_inline};

    for (size_t i = 0; i < commit->fence_count && i < sizeof a.fences / sizeof a.fences[0]; i++) {
        (void)snprintf(a.fences[i].scope, sizeof a.fences[i].scope, "%.*s",
                       EF_STR_ARG(commit->fences[i].scope));
        a.fences[i].token = commit->fences[i].token;
        a.fence_count++;
    }
    for (size_t g = 0; g < commit->generation_count; g++)
        a.unfenced = a.unfenced || commit->generations[g].cursor_after != 0 ||
                     commit->generations[g].tenant_count != 0;
    return a;
}

/* A commit with tokens raised to the highest that the store has seen. */
static ef_status commit_forged(sim_world *sim, ef__views_commit commit, ef_error *err)
{
    ef__fence forged[8];

    for (size_t i = 0; i < commit.fence_count; i++) {
        forged[i] = commit.fences[i];
        (void)sim->views->ops->fence_get(sim->views, forged[i].scope, &forged[i].token, NULL);
    }
    commit.fences = forged;
    return sim->views->ops->commit(sim->views, &commit, err);
}

static ef_status claim_the_head(void *context, int64_t *out_position, ef_error *err)
{
    const ef__views_commit *commit = context;

    (void)err;
    *out_position = commit->generations[0].cursor_after;
    return EF_OK;
}

/* Only the counters: anything else in a commit would be compared and refused. */
static void count_again(sim_world *sim, const ef__views_commit *commit)
{
    ef__generation_change again = {.generation = commit->generations[0].generation,
                                   .era = commit->generations[0].era,
                                   .applied = commit->generations[0].applied};

    (void)sim->views->ops->commit(
        sim->views, &(ef__views_commit){.generations = &again, .generation_count = 1}, NULL);
}

/* The cursor of the generation, as if the tenant had reached it. */
static ef__tenant_cursor_change called_level(const sim_world *sim,
                                             const ef__generation_change *change)
{
    ef__tenant_cursor_change level = change->tenants[0];

    for (int i = 0; i < sim->oracle.generation_count; i++)
        if (sim->oracle.generations[i].seen.id == change->generation)
            level.after.position = sim->oracle.generations[i].seen.position;
    return level;
}

static ef_status do_commit(sim_world *sim, const ef__views_commit *commit, ef_error *err)
{
    ef__views_commit c = *commit;
    ef__generation_change first;
    ef__tenant_cursor_change level;
    ef_status st;

    if (c.generation_count) {
        first = c.generations[0];
        if (sim->cheat == CHEAT_LOSE_WATERMARK && c.generation_count == 1) {
            first.watermark_count = 0;
            c.generations = &first;
        } else if (sim->cheat == CHEAT_LOSE_VIEW && c.generation_count == 1 && first.view_count) {
            first.view_count--;
            c.generations = &first;
        } else if (sim->cheat == CHEAT_LOSE_TENANT && first.tenant_count) {
            first.tenant_count = 0;
            c.generations = &first;
        } else if (sim->cheat == CHEAT_EARLY_JOIN && first.tenant_count == 1 &&
                   !first.cursor_after) {
            level = called_level(sim, &first);
            first.tenants = &level;
            c.generations = &first;
        } else if (sim->cheat == CHEAT_EARLY_LIVE && first.go_live) {
            c.head = claim_the_head;
            c.head_context = &c;
        }
    }
    st = sim->views->ops->commit(sim->views, &c, err);
    if (st == EF_LEASE_LOST && sim->cheat == CHEAT_FORGE_TOKEN)
        st = commit_forged(sim, c, err);
    if (st == EF_LEASE_LOST && sim->cheat == CHEAT_DROP_FENCES) {
        c.fence_count = 0;
        st = sim->views->ops->commit(sim->views, &c, err);
    }
    if (st == EF_OK && sim->cheat == CHEAT_COMMIT_TWICE && c.generation_count)
        count_again(sim, &c);
    return st;
}

static void note_commit(const sim_actor *actor, const sim_call *request, ef_status st)
{
    char tokens[96] = "no token";
    size_t used = 0;

    for (int i = 0; i < request->fence_count && used < sizeof tokens; i++)
        used +=
            (size_t)snprintf(tokens + used, sizeof tokens - used, "%s%s token %d", i ? ", " : "",
                             request->fences[i].scope, (int)request->fences[i].token);
    sim_note(actor->sim, "  %s commit under %s: %s", actor->name, tokens,
             ef_status_describe(st)->name);
}

static ef_status proxy_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    sim_actor *actor = hand_of(views);
    sim_call a = commit_act(actor, commit);
    ef_status st = gate_before(actor, "commit", true, err);

    if (st != EF_OK)
        return st;
    actor->in_commit = true;
    st = do_commit(actor->sim, commit, err);
    actor->in_commit = false;
    a.refused = st != EF_OK;
    note_commit(actor, &a, st);
    observe_views(actor->sim, &a);
    return gate_after(actor, "commit", true, st, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status proxy_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                                ef__arena *arena, ef__view *out, bool *out_found, ef_error *err)
{
    READ(view_get, generation, tenant, id, arena, out, out_found, err);
}

static ef_status proxy_view_scan(ef_views *views, const ef__view_scan *scan,
                                 bool (*each)(void *context, ef_str key, const ef__view *view),
                                 void *context, ef_error *err)
{
    READ(view_scan, scan, each, context, err);
}

static ef_status proxy_watermark_get(ef_views *views, int64_t generation, ef_str tenant,
                                     ef_str stream, ef__watermark *out, bool *out_found,
                                     ef_error *err)
{
    READ(watermark_get, generation, tenant, stream, out, out_found, err);
}

static ef_status proxy_watermark_scan(ef_views *views, int64_t generation,
                                      bool (*each)(void *context, ef_str tenant, ef_str stream,
                                                   const ef__watermark *watermark),
                                      void *context, ef_error *err)
{
    READ(watermark_scan, generation, each, context, err);
}

static ef_status proxy_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                                         ef__tenant_cursor_item *out, bool *out_found,
                                         ef_error *err)
{
    READ(tenant_cursor_get, generation, tenant, out, out_found, err);
}

static ef_status proxy_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us,
                                        size_t limit, ef__tenant_cursor_list *out, ef_error *err)
{
    READ(tenant_cursor_ls, generation, due_us, limit, out, err);
}

static ef_status proxy_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant,
                                  bool open_only, size_t limit, ef__failure_list *out,
                                  ef_error *err)
{
    READ(failure_ls, generation, tenant, open_only, limit, out, err);
}

static ef_status proxy_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                              ef__follow_row *out, ef_error *err)
{
    OPERATE(follow, generation, tenant, until_us, out, err);
}

static ef_status proxy_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                                 size_t limit, ef__change_list *out, ef_error *err)
{
    READ(change_ls, generation, tenant, after, limit, out, err);
}

static ef_status proxy_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err)
{
    READ(fence_get, scope, out_token, err);
}

const ef__views_ops proxy_views_ops = {
    .name = "simulated",
    .close = proxy_close,
    .generation_add = proxy_generation_add,
    .generation_ls = proxy_generation_ls,
    .generation_change = proxy_generation_change,
    .generation_activate = proxy_generation_activate,
    .generation_remove = proxy_generation_remove,
    .on_error_set = proxy_on_error_set,
    .version_retire = proxy_version_retire,
    .version_is_retired = proxy_version_is_retired,
    .commit = proxy_commit,
    .follow = proxy_follow,
    .change_ls = proxy_change_ls,
    .view_get = proxy_view_get,
    .view_scan = proxy_view_scan,
    .watermark_get = proxy_watermark_get,
    .watermark_scan = proxy_watermark_scan,
    .tenant_cursor_get = proxy_tenant_cursor_get,
    .tenant_cursor_ls = proxy_tenant_cursor_ls,
    .failure_ls = proxy_failure_ls,
    .fence_get = proxy_fence_get,
};
