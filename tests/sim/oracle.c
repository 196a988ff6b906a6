/*
 * oracle.c - see oracle.h.
 */
#include "oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void oracle_wrong(oracle *o, const char *format, ...)
{
    va_list args;

    if (o->wrong[0])
        return;
    va_start(args, format);
    (void)vsnprintf(o->wrong, sizeof o->wrong, format, args);
    va_end(args);
}

void oracle_reset(oracle *o)
{
    memset(o, 0, sizeof *o);
}

void oracle_program(oracle *o, int name, int version, sim_rule rule)
{
    o->versions[o->version_count].name = name;
    o->versions[o->version_count].version = version;
    o->versions[o->version_count++].rule = rule;
}

/* --- the journal -------------------------------------------------------------------------------
 */

void oracle_appended(oracle *o, const sim_event *e, bool known)
{
    if (known) {
        const sim_event *first = &o->events[e->position];
        if (e->position < 1 || e->position > o->head || first->stream != e->stream ||
            first->seq != e->seq)
            oracle_wrong(o, "G12: a known event was answered with position %" PRId64, e->position);
        return;
    }
    if (e->position != o->head + 1 || e->seq != o->stream_seq[e->stream] + 1) {
        oracle_wrong(o,
                     "G5: position %" PRId64 " seq %" PRId64 " was given where %" PRId64
                     " and %" PRId64 " were next",
                     e->position, e->seq, o->head + 1, o->stream_seq[e->stream] + 1);
        return;
    }
    o->head = e->position;
    o->stream_seq[e->stream] = e->seq;
    o->events[e->position] = *e;
}

/* --- one generation ----------------------------------------------------------------------------
 */

static const char *name_of(const look_generation *g)
{
    static char text[32];

    (void)snprintf(text, sizeof text, "%s v%d", rule_name(g->name), g->version);
    return text;
}

/* An operator has let it pass, or nobody needs to. */
static bool is_let_pass(const oracle *o, int name, bool by_log, const sim_event *e)
{
    return o->may_skip[name + 1][e->position] || (by_log && e->bad && o->passes_over);
}

void oracle_noted(oracle *o, int name, int version, int stream, int64_t seq)
{
    for (int64_t p = 1; p <= o->head; p++) {
        const sim_event *e = &o->events[p];
        if (e->stream != stream || e->seq != seq)
            continue;
        for (int v = 0; v < o->version_count; v++) {
            if (o->versions[v].name != name || o->versions[v].version != version)
                continue;
            if (!is_let_pass(o, name, rule_by_log(o->versions[v].rule), e))
                oracle_wrong(o, "G5: %s v%d is to pass position %" PRId64 ", says nobody",
                             rule_name(name), version, p);
            o->noted[v][p] = true;
            return;
        }
    }
    oracle_wrong(o, "%s v%d is to pass seq %" PRId64 " of \"%s\" %s, which is not there",
                 rule_name(name), version, seq, sim_tenant_of(stream), sim_stream_name(stream));
}

/* What was passed in one commit and not looked at yet. */
typedef struct passing {
    int64_t skips;     /* so many were skipped … */
    int64_t skippable; /* … of those that may have been … */
    int64_t failing;   /* … and of these, so many that have to */
} passing;

static passing count_passed(const oracle *o, const oracle_generation *g, const look_generation *now)
{
    passing p = {.skips = now->skipped - g->skipped};

    for (int64_t at = 1; at <= o->head; at++) {
        const sim_event *e = &o->events[at];
        if (e->seq <= g->seen.applied_seq[e->stream] || e->seq > now->applied_seq[e->stream] ||
            !o->noted[g->program][at])
            continue;
        p.skippable++;
        p.failing += rule_verdict(g->rule, e) == FOLDED_FAILED;
    }
    return p;
}

/* An event that the watermark has passed. Skipped are those that were noted, but for one whose note
 * came while its batch was under way: then which is a guess. Those that fail; then those whose row
 * says so still, then as they come. */
static void pass_event(oracle *o, oracle_generation *g, const sim_event *e, passing *left)
{
    bool can = o->noted[g->program][e->position], fails = rule_verdict(g->rule, e) == FOLDED_FAILED;
    bool says_so = o->rows.at[g->seen.name + 1][e->position].skip;
    bool skip =
        can && left->skips > 0 &&
        (fails || left->skips == left->skippable || (says_so && left->skips > left->failing));
    folded verdict;

    left->skippable -= can;
    left->failing -= can && fails;
    if (g->fate[e->position] != FATE_NONE)
        oracle_wrong(o, "G4: %s has passed position %" PRId64 " twice", name_of(&g->seen),
                     e->position);
    if (skip) {
        left->skips--;
        g->skipped++;
        g->fate[e->position] = FATE_SKIPPED;
        return;
    }
    verdict = rule_fold(g->rule, e, &g->model);
    if (verdict == FOLDED_FAILED)
        oracle_wrong(o, "G5: %s has passed position %" PRId64 ", on which its program fails",
                     name_of(&g->seen), e->position);
    g->applied += verdict == FOLDED_APPLIED;
    g->ignored += verdict == FOLDED_IGNORED;
    g->fate[e->position] = verdict == FOLDED_APPLIED ? FATE_APPLIED : FATE_IGNORED;
}

static void check_watermarks(oracle *o, const look_generation *before, const look_generation *now,
                             const sim_deed *deed)
{
    for (int s = 0; s < SIM_STREAMS; s++) {
        if (now->applied_seq[s] < before->applied_seq[s])
            oracle_wrong(o, "G4: the watermark of %s went back from %" PRId64 " to %" PRId64,
                         name_of(now), before->applied_seq[s], now->applied_seq[s]);
        if (now->applied_seq[s] > o->stream_seq[s])
            oracle_wrong(o, "G5: the watermark of %s is beyond its stream", name_of(now));
        if (now->next_seq[s] != (now->applied_seq[s] ? now->applied_seq[s] + 1 : 0))
            oracle_wrong(o, "G5: %s expects seq %" PRId64 " behind %" PRId64, name_of(now),
                         now->next_seq[s], now->applied_seq[s]);
        if (now->applied_seq[s] != before->applied_seq[s] && deed->operates)
            oracle_wrong(o, "G4: %s by an operator moved a watermark", deed->call);
    }
}

/* The queue's events are applied under the token of the partition that each is in. */
static void check_fenced(oracle *o, const sim_event *e, const sim_deed *deed)
{
    bool fenced = deed->unfenced;
    char scope[32];

    (void)snprintf(scope, sizeof scope, "partition/%d", o->partition[e->position]);
    for (int f = 0; f < deed->fence_count; f++)
        fenced = fenced || strcmp(scope, deed->fences[f].scope) == 0;
    if (!fenced)
        oracle_wrong(o, "G6: %s applied position %" PRId64 " without a token of %s", deed->who,
                     e->position, scope);
}

/* How far a projection by log has read for the tenant of a stream. */
static int64_t cursor_of(const look_generation *g, int stream)
{
    int tenant = stream % SIM_TENANTS;

    return g->tenants[tenant].own ? g->tenants[tenant].position : g->position;
}

/* A projection in the order of the log has exactly the events up to its cursor, tenant by tenant.
 */
static void check_log_order(oracle *o, const look_generation *before, const look_generation *now)
{
    int64_t waiting[SIM_TENANTS] = {0};

    for (int64_t p = 1; p <= o->head; p++) {
        const sim_event *e = &o->events[p];
        int64_t cursor = cursor_of(now, e->stream);
        waiting[e->stream % SIM_TENANTS] += p > cursor && p <= now->position;
        if ((e->seq <= now->applied_seq[e->stream]) != (p <= cursor))
            oracle_wrong(o,
                         "G3: %s has its cursor at %" PRId64 " and has %sapplied position %" PRId64,
                         name_of(now), cursor, p > cursor ? "" : "not ", p);
    }
    for (int t = 0; t < SIM_TENANTS; t++) {
        if (waiting[t] != now->tenants[t].waiting)
            oracle_wrong(o,
                         "G5: %s has %" PRId64 " events waiting for tenant %d, right is %" PRId64,
                         name_of(now), now->tenants[t].waiting, t, waiting[t]);
        if (cursor_of(now, t) < cursor_of(before, t))
            oracle_wrong(o, "G5: the cursor of %s went back for tenant %d", name_of(now), t);
        if (now->tenants[t].own && !before->tenants[t].own && now->position == before->position)
            oracle_wrong(o, "G3: tenant %d of %s was left behind by nobody", t, name_of(now));
    }
}

/* A projection without one: nobody has a cursor of his own. */
static void check_no_tenants(oracle *o, const look_generation *now)
{
    for (int t = 0; t < SIM_TENANTS; t++)
        if (now->tenants[t].own)
            oracle_wrong(o, "%s is by stream, and tenant %d has a cursor", name_of(now), t);
}

static const model_view *find_view(const oracle_generation *g, const look_view *view)
{
    for (int i = 0; i < g->model.count; i++) {
        const model_view *v = &g->model.views[i];
        if (v->there && strcmp(v->id, view->id) == 0 &&
            strcmp(sim_tenant_of(v->tenant), view->tenant) == 0)
            return v;
    }
    return NULL;
}

static void compare_views(oracle *o, const oracle_generation *g, const look_generation *now)
{
    int there = 0;

    for (int i = 0; i < g->model.count; i++)
        there += g->model.views[i].there;
    if (there != now->view_count)
        oracle_wrong(o, "G4: %s has %d views, %d are right", name_of(now), now->view_count, there);
    for (int i = 0; i < now->view_count; i++) {
        const model_view *v = find_view(g, &now->views[i]);
        char text[160];
        if (!v) {
            oracle_wrong(o, "G4: %s has a view \"%s\" that nothing made", name_of(now),
                         now->views[i].id);
            return;
        }
        rule_print(g->rule, v, text, sizeof text);
        if (strcmp(text, now->views[i].data) != 0)
            oracle_wrong(o, "G4: view \"%s\" of %s is %s, right is %s", now->views[i].id,
                         name_of(now), now->views[i].data, text);
    }
}

static void check_generation(oracle *o, oracle_generation *g, const look_generation *now,
                             const sim_deed *deed)
{
    passing left;

    if (now->era < g->seen.era || now->position < g->seen.position)
        oracle_wrong(o, "G5: the era or the cursor of %s went back", name_of(now));
    check_watermarks(o, &g->seen, now, deed);
    left = count_passed(o, g, now);
    for (int64_t p = 1; p <= o->head && !o->wrong[0]; p++) {
        const sim_event *e = &o->events[p];
        if (e->seq <= g->seen.applied_seq[e->stream] || e->seq > now->applied_seq[e->stream])
            continue;
        check_fenced(o, e, deed);
        pass_event(o, g, e, &left);
    }
    if (now->by_log)
        check_log_order(o, &g->seen, now);
    else
        check_no_tenants(o, now);
    if (g->applied != now->applied || g->ignored != now->ignored || g->skipped != now->skipped)
        oracle_wrong(o,
                     "G5: %s counts %" PRId64 " applied, %" PRId64 " ignored, %" PRId64
                     " skipped; right is %" PRId64 ", %" PRId64 ", %" PRId64,
                     name_of(now), now->applied, now->ignored, now->skipped, g->applied, g->ignored,
                     g->skipped);
    compare_views(o, g, now);
    g->seen = *now;
}

/* --- the view store ----------------------------------------------------------------------------
 */

static oracle_generation *find_generation(oracle *o, int64_t id)
{
    for (int i = 0; i < o->generation_count; i++)
        if (o->generations[i].seen.id == id)
            return &o->generations[i];
    return NULL;
}

static oracle_generation *add_generation(oracle *o, const look_generation *now,
                                         const sim_deed *deed)
{
    oracle_generation *g = &o->generations[o->generation_count];

    *g = (oracle_generation){.seen = {.id = now->id, .name = now->name, .version = now->version}};
    if (!deed->operates)
        oracle_wrong(o, "a generation was made by %s", deed->call);
    for (int v = 0; v < o->version_count; v++) {
        if (o->versions[v].name == now->name && o->versions[v].version == now->version) {
            g->program = v;
            g->rule = o->versions[v].rule;
            o->generation_count++;
            return g;
        }
    }
    oracle_wrong(o, "%s was never deployed", name_of(now));
    return g;
}

static look_fence *fence_of(oracle *o, const char *scope)
{
    for (int i = 0; i < o->fence_count; i++)
        if (strcmp(o->fences[i].scope, scope) == 0)
            return &o->fences[i];
    (void)snprintf(o->fences[o->fence_count].scope, sizeof o->fences[0].scope, "%s", scope);
    return &o->fences[o->fence_count++];
}

static void check_grant(oracle *o, const sim_deed *deed, const look_fence *fence)
{
    int partition = (int)strtol(fence->scope + strlen("partition/"), NULL, 10);

    if (strncmp(fence->scope, "partition/", strlen("partition/")) != 0)
        return;
    for (int i = 0; i < o->grant_count; i++)
        if (o->grants[i].partition == partition && o->grants[i].token == fence->token &&
            strcmp(o->grants[i].owner, deed->who) == 0)
            return;
    oracle_wrong(o, "G6: %s wrote under token %" PRId64 " of %s, which it was never given",
                 deed->who, fence->token, fence->scope);
}

/* The token that was presented is nobody's but the writer's, and no higher one has written. */
static void let_in(oracle *o, const sim_deed *deed)
{
    for (int i = 0; i < deed->fence_count; i++) {
        look_fence *highest = fence_of(o, deed->fences[i].scope);
        if (deed->fences[i].token < highest->token)
            oracle_wrong(o, "G6: %s wrote under token %" PRId64 " of %s after %" PRId64, deed->who,
                         deed->fences[i].token, highest->scope, highest->token);
        check_grant(o, deed, &deed->fences[i]);
        highest->token = deed->fences[i].token;
    }
}

static void check_fences(oracle *o, const look_views *now)
{
    for (int i = 0; i < now->fence_count; i++) {
        const look_fence *known = fence_of(o, now->fences[i].scope);
        if (known->token != now->fences[i].token)
            oracle_wrong(o, "G6: the fence %s is at %" PRId64 ", %" PRId64 " has written",
                         known->scope, now->fences[i].token, known->token);
    }
}

static bool same_generation(const look_generation *a, const look_generation *b)
{
    bool same = a->id == b->id && a->state == b->state && a->routed == b->routed &&
                a->era == b->era && a->position == b->position && a->seam == b->seam &&
                a->applied == b->applied && a->ignored == b->ignored && a->skipped == b->skipped &&
                a->view_count == b->view_count && memcmp(a->digest, b->digest, 16) == 0 &&
                memcmp(a->applied_seq, b->applied_seq, sizeof a->applied_seq) == 0;

    for (int t = 0; same && t < SIM_TENANTS; t++)
        same = a->tenants[t].own == b->tenants[t].own &&
               a->tenants[t].position == b->tenants[t].position &&
               a->tenants[t].waiting == b->tenants[t].waiting;
    for (int i = 0; same && i < a->view_count; i++)
        same = strcmp(a->views[i].id, b->views[i].id) == 0 &&
               strcmp(a->views[i].data, b->views[i].data) == 0;
    return same;
}

static void check_unchanged(oracle *o, const look_views *now, const sim_deed *deed)
{
    bool same = now->count == o->generation_count;

    for (int i = 0; same && i < now->count; i++) {
        const oracle_generation *g = find_generation(o, now->items[i].id);
        same = g && same_generation(&g->seen, &now->items[i]);
    }
    if (!same)
        oracle_wrong(o, "G6: %s of %s was refused and yet changed something", deed->call,
                     deed->who);
}

/* Only an operator, or a run for him, removes a generation, and never the one that is routed. */
static void drop_removed(oracle *o, const look_views *now, const sim_deed *deed)
{
    for (int i = o->generation_count - 1; i >= 0; i--) {
        const look_generation *g = &o->generations[i].seen;
        bool there = false;
        for (int n = 0; n < now->count && !there; n++)
            there = now->items[n].id == g->id;
        if (there)
            continue;
        if (!deed->operates || g->routed)
            oracle_wrong(o, "G8: %s is gone by %s", name_of(g), deed->call);
        o->generations[i] = o->generations[--o->generation_count];
    }
}

/* Rows are kept for the active generation and those that were made after it. */
static bool keeps_rows(const oracle *o, const look_generation *g)
{
    for (int i = 0; i < o->generation_count; i++)
        if (o->generations[i].seen.routed && o->generations[i].seen.name == g->name &&
            o->generations[i].seen.number > g->number)
            return false;
    return true;
}

static bool waits_nowhere(const oracle *o, const look_generation *g, int64_t p)
{
    const sim_event *e = &o->events[p];
    bool by_cursor = g->by_log || g->state != LOOK_LIVE;

    return e->seq > g->applied_seq[e->stream] && !o->rows.at[0][p].there &&
           !o->rows.at[g->name + 1][p].there && !(by_cursor && p > cursor_of(g, e->stream));
}

/* One that was superseded and is not any more: has all that it lacks been filed? */
static void look_at_owed(oracle *o, oracle_generation *g)
{
    g->owed = !g->seen.by_log && !keeps_rows(o, &g->seen);
    for (int64_t p = 1; p <= o->head && !g->owed; p++)
        g->owed = waits_nowhere(o, &g->seen, p);
}

/* G5 and G8: whatever a generation has not passed waits for it somewhere. */
static void check_nothing_dropped(oracle *o)
{
    for (int i = 0; i < o->generation_count; i++) {
        const look_generation *g = &o->generations[i].seen;
        if (o->generations[i].owed || (!g->by_log && !keeps_rows(o, g))) {
            look_at_owed(o, &o->generations[i]);
            continue;
        }
        for (int64_t p = 1; p <= o->head && g->state != LOOK_RETIRED; p++) {
            const sim_event *e = &o->events[p];
            if (waits_nowhere(o, g, p))
                oracle_wrong(o,
                             "G8: %s has not passed position %" PRId64 " (seq %" PRId64 " of "
                             "\"%s\" %s), which waits nowhere",
                             name_of(g), p, e->seq, sim_tenant_of(e->stream),
                             sim_stream_name(e->stream));
        }
    }
}

void oracle_views(oracle *o, const look_views *now, const sim_deed *deed)
{
    if (o->wrong[0])
        return;
    if (deed->refused) {
        check_unchanged(o, now, deed);
    } else {
        let_in(o, deed);
        for (int i = 0; i < now->count && !o->wrong[0]; i++) {
            oracle_generation *g = find_generation(o, now->items[i].id);
            if (!g)
                g = add_generation(o, &now->items[i], deed);
            check_generation(o, g, &now->items[i], deed);
        }
        drop_removed(o, now, deed);
        check_nothing_dropped(o);
    }
    check_fences(o, now);
}

/* --- the outbox --------------------------------------------------------------------------------
 */

void oracle_filed(oracle *o, int lane, int64_t position, int turn)
{
    o->filed[lane][position] = turn;
}

/* Who is through with a row that was filed again since it took it leaves it as a new one. Calls are
 * nested: what happened since it took it has a later turn. */
static bool is_anew(const oracle *o, int lane, int64_t p, const look_row *now, const sim_deed *deed)
{
    return o->filed[lane][p] > deed->turn && now->status == LOOK_PENDING && now->attempts == 0;
}

/* Does no generation that rows are kept for lack the event? */
static bool is_superfluous(const oracle *o, int lane, int64_t p)
{
    const sim_event *e = &o->events[p];

    for (int i = 0; i < o->generation_count; i++) {
        const oracle_generation *g = &o->generations[i];
        if (g->seen.name == lane - 1 && g->seen.state != LOOK_RETIRED && !g->owed &&
            keeps_rows(o, &g->seen) && e->seq > g->seen.applied_seq[e->stream])
            return false;
    }
    return true;
}

/* Only an operator changes a dead row; but one that nobody needs any more may go. */
static void check_kept(oracle *o, int lane, int64_t p, const look_row *was, const look_row *now,
                       const sim_deed *deed)
{
    const char *name = rule_name(lane - 1);

    if (deed->removes && !now->there && is_superfluous(o, lane, p))
        return;
    if (was->status == LOOK_DEAD && (!now->there || now->status != LOOK_DEAD))
        oracle_wrong(o, "G8: the dead row %" PRId64 " of lane %s was changed by %s of %s", p, name,
                     deed->call, deed->who);
    if (now->there && ((now->attempts < was->attempts && !is_anew(o, lane, p, now, deed)) ||
                       (now->skip && !was->skip)))
        oracle_wrong(o, "G8: the row %" PRId64 " of lane %s lost attempts by %s of %s", p, name,
                     deed->call, deed->who);
}

static void check_row(oracle *o, int lane, int64_t p, const look_row *now, const sim_deed *deed,
                      bool append)
{
    const look_row *was = &o->rows.at[lane][p];
    bool own = lane > 0;
    const char *name = own ? rule_name(lane - 1) : "*";

    if (deed->refused && (was->there != now->there || was->attempts != now->attempts ||
                          was->skip != now->skip || (own && was->status != now->status)))
        oracle_wrong(o, "G6: %s was refused and yet changed position %" PRId64 " of lane %s",
                     deed->call, p, name);
    if (now->there && !was->there && !own && p <= o->rows_head)
        oracle_wrong(o, "G1: position %" PRId64 " came into lane * by %s", p, deed->call);
    if (!now->there && was->there && (append || deed->operates))
        oracle_wrong(o, "G8: position %" PRId64 " left lane %s by %s", p, name, deed->call);
    if (own && was->there && !deed->operates && o->turn[lane][p] != deed->turn)
        check_kept(o, lane, p, was, now, deed);
    if (!deed->operates && (was->there != now->there || was->attempts != now->attempts))
        o->turn[lane][p] = deed->turn;
    o->may_skip[lane][p] = o->may_skip[lane][p] || now->skip;
    if (now->there)
        o->partition[p] = now->partition;
}

void oracle_rows(oracle *o, const look_rows *now, const sim_deed *deed, bool append)
{
    if (o->wrong[0])
        return;
    for (int lane = 0; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= o->head; p++)
            check_row(o, lane, p, &now->at[lane][p], deed, append);
    for (int64_t p = o->rows_head + 1; p <= o->head; p++) {
        if (!now->at[0][p].there)
            oracle_wrong(o, "G1: position %" PRId64 " has no row", p);
    }
    o->rows_head = o->head;
    o->rows = *now;
    if (!deed->refused)
        check_nothing_dropped(o);
}

/* --- leases ------------------------------------------------------------------------------------
 */

static look_lease *find_lease(oracle *o, const char *key)
{
    for (int i = 0; i < o->leases.count; i++)
        if (strcmp(o->leases.items[i].key, key) == 0)
            return &o->leases.items[i];
    return NULL;
}

/* A token is given once, also when the lease was pruned in between. */
static void note_grant(oracle *o, const look_lease *lease, bool known)
{
    if (lease->partition < 0 || !lease->owner[0] || o->grant_count == ORACLE_GRANTS)
        return;
    for (int i = 0; i < o->grant_count && !known; i++)
        if (o->grants[i].partition == lease->partition && o->grants[i].token >= lease->token)
            oracle_wrong(o, "G6: token %" PRId64 " of %s was given again", lease->token,
                         lease->key);
    o->grants[o->grant_count].partition = lease->partition;
    o->grants[o->grant_count].token = lease->token;
    (void)snprintf(o->grants[o->grant_count++].owner, sizeof o->grants[0].owner, "%s",
                   lease->owner);
}

/* A clock that was set back by more than the lease is long ends it too. */
static bool is_live(const look_lease *lease, int64_t wall_us)
{
    int64_t length_us = lease->until_us - lease->updated_us;

    return lease->owner[0] && lease->until_us > wall_us && wall_us >= lease->updated_us - length_us;
}

static void check_lease(oracle *o, const look_lease *now, const sim_deed *deed, int64_t wall_us)
{
    const look_lease *was = find_lease(o, now->key);

    if (was && now->token < was->token)
        oracle_wrong(o, "G6: the token of %s fell from %" PRId64 " to %" PRId64, now->key,
                     was->token, now->token);
    if (was && was->owner[0] && now->owner[0] && strcmp(was->owner, now->owner) != 0) {
        if (now->token == was->token)
            oracle_wrong(o, "G6: %s passed to %s under the same token", now->key, now->owner);
        if (is_live(was, wall_us))
            oracle_wrong(o, "G6: %s was taken from %s while it was live", now->key, was->owner);
    }
    if (deed->refused && (!was || was->token != now->token || was->until_us != now->until_us))
        oracle_wrong(o, "G6: %s was refused and yet changed %s", deed->call, now->key);
    if (!was || was->token != now->token || strcmp(was->owner, now->owner) != 0)
        note_grant(o, now, was && was->token == now->token);
}

void oracle_leases(oracle *o, const look_leases *now, const sim_deed *deed, int64_t wall_us)
{
    if (o->wrong[0])
        return;
    for (int i = 0; i < now->count; i++)
        check_lease(o, &now->items[i], deed, wall_us);
    o->leases = *now;
}

void oracle_marked(oracle *o, const sim_deed *deed, int64_t wall_us)
{
    for (int i = 0; i < deed->fence_count && !o->wrong[0]; i++) {
        const look_lease *lease = NULL;
        int partition = (int)strtol(deed->fences[i].scope + strlen("partition/"), NULL, 10);
        for (int l = 0; l < o->leases.count && !lease; l++)
            if (o->leases.items[l].partition == partition)
                lease = &o->leases.items[l];
        if (!lease || lease->token != deed->fences[i].token || !is_live(lease, wall_us) ||
            strcmp(lease->owner, deed->who) != 0)
            oracle_wrong(o,
                         "G6: %s by %s was let in under token %" PRId64 " of %s, which is not live",
                         deed->call, deed->who, deed->fences[i].token, deed->fences[i].scope);
    }
}

void oracle_let_go(oracle *o, const char *owner, int64_t wall_us)
{
    for (int i = 0; i < o->leases.count; i++)
        if (strcmp(o->leases.items[i].owner, owner) == 0 && is_live(&o->leases.items[i], wall_us))
            oracle_wrong(o, "%s has closed and holds %s", owner, o->leases.items[i].key);
}

/* --- in the end --------------------------------------------------------------------------------
 */

bool oracle_settled(const oracle *o, char *why, size_t size)
{
    for (int lane = 0; lane < LOOK_LANES; lane++) {
        for (int64_t p = 1; p <= o->head; p++) {
            const look_row *row = &o->rows.at[lane][p];
            if (!row->there)
                continue;
            (void)snprintf(why, size,
                           "position %" PRId64 " waits in lane %s, status %d, %d attempts", p,
                           lane ? rule_name(lane - 1) : "*", row->status, row->attempts);
            return false;
        }
    }
    for (int i = 0; i < o->generation_count; i++) {
        const look_generation *g = &o->generations[i].seen;
        if (g->state == LOOK_RETIRED || !keeps_rows(o, g))
            continue;
        if (g->state != LOOK_LIVE) {
            (void)snprintf(why, size, "%s is in state %d", name_of(g), g->state);
            return false;
        }
        for (int s = 0; s < SIM_STREAMS; s++) {
            if (g->applied_seq[s] == o->stream_seq[s])
                continue;
            (void)snprintf(why, size, "%s is at seq %" PRId64 " of %" PRId64 " in \"%s\" %s",
                           name_of(g), g->applied_seq[s], o->stream_seq[s], sim_tenant_of(s),
                           sim_stream_name(s));
            return false;
        }
    }
    return true;
}

/* Where the tenant has to stand: before the first event that the program fails on, or at the head.
 */
static int64_t right_cursor(const oracle *o, const oracle_generation *g, int tenant)
{
    for (int64_t p = 1; p <= o->head; p++) {
        const sim_event *e = &o->events[p];
        if (e->stream % SIM_TENANTS == tenant && g->fate[p] != FATE_SKIPPED &&
            rule_verdict(g->rule, e) == FOLDED_FAILED)
            return o->passes_over ? o->head : p - 1;
    }
    return o->head;
}

bool oracle_apart(const oracle *o, char *why, size_t size)
{
    for (int i = 0; i < o->generation_count; i++) {
        const oracle_generation *g = &o->generations[i];
        if (!g->seen.by_log || g->seen.state == LOOK_RETIRED)
            continue;
        for (int t = 0; t < SIM_TENANTS; t++) {
            int64_t right = right_cursor(o, g, t);
            if (cursor_of(&g->seen, t) == right)
                continue;
            (void)snprintf(why, size, "%s is at %" PRId64 " for tenant %d, right is %" PRId64,
                           name_of(&g->seen), cursor_of(&g->seen, t), t, right);
            return false;
        }
    }
    return true;
}

void oracle_digests(oracle *o)
{
    for (int i = 0; i < o->generation_count; i++) {
        for (int j = 0; j < i; j++) {
            const oracle_generation *a = &o->generations[i], *b = &o->generations[j];
            if (a->rule == b->rule && a->seen.state != LOOK_RETIRED &&
                b->seen.state != LOOK_RETIRED && a->skipped + b->skipped == 0 &&
                (a->seen.by_log || (keeps_rows(o, &a->seen) && keeps_rows(o, &b->seen))) &&
                memcmp(a->seen.digest, b->seen.digest, sizeof a->seen.digest) != 0)
                oracle_wrong(o, "G9: %s and version %d have other digests", name_of(&a->seen),
                             b->seen.version);
        }
    }
}
