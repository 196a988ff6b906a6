/*
 * oracle.c - see oracle.h.
 */
#include "oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void oracle_wrong(sim_oracle *oracle, const char *format, ...)
{
    va_list args;

    if (oracle->wrong[0])
        return;
    va_start(args, format);
    (void)vsnprintf(oracle->wrong, sizeof oracle->wrong, format, args);
    va_end(args);
}

void oracle_reset(sim_oracle *oracle)
{
    memset(oracle, 0, sizeof *oracle);
}

void oracle_program(sim_oracle *oracle, int name, int version, sim_rule rule)
{
    oracle->versions[oracle->version_count].name = name;
    oracle->versions[oracle->version_count].version = version;
    oracle->versions[oracle->version_count++].rule = rule;
}

/* --- the journal ------------------------------------------------------------------------------ */

void oracle_appended(sim_oracle *oracle, const sim_event *event, bool known)
{
    if (known) {
        const sim_event *first = &oracle->events[event->position];
        if (event->position < 1 || event->position > oracle->head ||
            first->stream != event->stream || first->seq != event->seq)
            oracle_wrong(oracle, "G12: a known event was answered with position %" PRId64,
                         event->position);
        return;
    }
    if (event->position != oracle->head + 1 ||
        event->seq != oracle->stream_seq[event->stream] + 1) {
        oracle_wrong(oracle,
                     "G5: position %" PRId64 " seq %" PRId64 " was given where %" PRId64
                     " and %" PRId64 " were next",
                     event->position, event->seq, oracle->head + 1,
                     oracle->stream_seq[event->stream] + 1);
        return;
    }
    oracle->head = event->position;
    oracle->stream_seq[event->stream] = event->seq;
    oracle->events[event->position] = *event;
}

/* --- one generation --------------------------------------------------------------------------- */

static const char *name_of(const stored_generation *generation)
{
    static char text[32];

    (void)snprintf(text, sizeof text, "%s v%d", rule_name(generation->name), generation->version);
    return text;
}

/* Was it skipped by an operator, or by the error policy? */
static bool is_skipped_by_rule(const sim_oracle *oracle, int name, bool by_log,
                               const sim_event *event)
{
    return oracle->may_skip[name + 1][event->position] ||
           (by_log && event->bad && oracle->skips_dead);
}

void oracle_noted(sim_oracle *oracle, int name, int version, int stream, int64_t seq)
{
    for (int64_t p = 1; p <= oracle->head; p++) {
        const sim_event *event = &oracle->events[p];
        if (event->stream != stream || event->seq != seq)
            continue;
        for (int v = 0; v < oracle->version_count; v++) {
            if (oracle->versions[v].name != name || oracle->versions[v].version != version)
                continue;
            if (!is_skipped_by_rule(oracle, name, rule_by_log(oracle->versions[v].rule), event))
                oracle_wrong(oracle, "G5: %s v%d is to pass position %" PRId64 ", says nobody",
                             rule_name(name), version, p);
            oracle->noted[v][p] = true;
            return;
        }
    }
    oracle_wrong(oracle, "%s v%d is to pass seq %" PRId64 " of \"%s\" %s, which is not there",
                 rule_name(name), version, seq, sim_tenant_of(stream), sim_stream_name(stream));
}

/* The events that one commit passed and that are not checked yet. */
typedef struct passed_count {
    int64_t skips;     /* number of skipped events … */
    int64_t skippable; /* … among those that may have been skipped … */
    int64_t failing;   /* … and those among them that must have been */
} passed_count;

static passed_count count_passed(const sim_oracle *oracle, const oracle_generation *generation,
                                 const stored_generation *now)
{
    passed_count p = {.skips = now->skipped - generation->skipped};

    for (int64_t at = 1; at <= oracle->head; at++) {
        const sim_event *event = &oracle->events[at];
        if (event->seq <= generation->seen.applied_seq[event->stream] ||
            event->seq > now->applied_seq[event->stream] || !oracle->noted[generation->program][at])
            continue;
        p.skippable++;
        p.failing += rule_verdict(generation->rule, event) == FOLDED_FAILED;
    }
    return p;
}

/* An event that the watermark has passed. Recorded skips are known, except for one that was
 * recorded while its batch was in flight: then the oracle assumes failing events first, then those
 * whose row still has the skip, then others in order. */
static void pass_event(sim_oracle *oracle, oracle_generation *generation, const sim_event *event,
                       passed_count *left)
{
    bool can = oracle->noted[generation->program][event->position],
         fails = rule_verdict(generation->rule, event) == FOLDED_FAILED;
    bool says_so = oracle->rows.at[generation->seen.name + 1][event->position].skip;
    bool skip =
        can && left->skips > 0 &&
        (fails || left->skips == left->skippable || (says_so && left->skips > left->failing));
    folded verdict;

    left->skippable -= can;
    left->failing -= can && fails;
    if (generation->fate[event->position] != FATE_NONE)
        oracle_wrong(oracle, "G4: %s has passed position %" PRId64 " twice",
                     name_of(&generation->seen), event->position);
    if (skip) {
        left->skips--;
        generation->skipped++;
        generation->fate[event->position] = FATE_SKIPPED;
        return;
    }
    verdict = rule_fold(generation->rule, event, &generation->model);
    if (verdict == FOLDED_FAILED)
        oracle_wrong(oracle, "G5: %s has passed position %" PRId64 ", on which its program fails",
                     name_of(&generation->seen), event->position);
    generation->applied += verdict == FOLDED_APPLIED;
    generation->ignored += verdict == FOLDED_IGNORED;
    generation->fate[event->position] = verdict == FOLDED_APPLIED ? FATE_APPLIED : FATE_IGNORED;
}

static void check_watermarks(sim_oracle *oracle, const stored_generation *before,
                             const stored_generation *now, const sim_call *request)
{
    for (int s = 0; s < SIM_STREAMS; s++) {
        if (now->applied_seq[s] < before->applied_seq[s])
            oracle_wrong(oracle, "G4: the watermark of %s went back from %" PRId64 " to %" PRId64,
                         name_of(now), before->applied_seq[s], now->applied_seq[s]);
        if (now->applied_seq[s] > oracle->stream_seq[s])
            oracle_wrong(oracle, "G5: the watermark of %s is beyond its stream", name_of(now));
        if (now->next_seq[s] != (now->applied_seq[s] ? now->applied_seq[s] + 1 : 0))
            oracle_wrong(oracle, "G5: %s expects seq %" PRId64 " behind %" PRId64, name_of(now),
                         now->next_seq[s], now->applied_seq[s]);
        if (now->applied_seq[s] != before->applied_seq[s] && request->operates)
            oracle_wrong(oracle, "G4: %s by an operator moved a watermark", request->call);
    }
}

/* Events of the queue are applied under the token of their partition. */
static void check_fenced(sim_oracle *oracle, const sim_event *event, const sim_call *request)
{
    bool fenced = request->unfenced;
    char scope[32];

    (void)snprintf(scope, sizeof scope, "partition/%d", oracle->partition[event->position]);
    for (int f = 0; f < request->fence_count; f++)
        fenced = fenced || strcmp(scope, request->fences[f].scope) == 0;
    if (!fenced)
        oracle_wrong(oracle, "G6: %s applied position %" PRId64 " without a token of %s",
                     request->who, event->position, scope);
}

/* The position of a log-ordered projection for the tenant of a stream. */
static int64_t cursor_of(const stored_generation *generation, int stream)
{
    int tenant = stream % SIM_TENANTS;

    return generation->tenants[tenant].own ? generation->tenants[tenant].position
                                           : generation->position;
}

/* A log-ordered projection has exactly the events up to its cursor, tenant by tenant. */
static void check_log_order(sim_oracle *oracle, const stored_generation *before,
                            const stored_generation *now)
{
    int64_t waiting[SIM_TENANTS] = {0};

    for (int64_t p = 1; p <= oracle->head; p++) {
        const sim_event *event = &oracle->events[p];
        int64_t cursor = cursor_of(now, event->stream);
        waiting[event->stream % SIM_TENANTS] += p > cursor && p <= now->position;
        if ((event->seq <= now->applied_seq[event->stream]) != (p <= cursor))
            oracle_wrong(oracle,
                         "G3: %s has its cursor at %" PRId64 " and has %sapplied position %" PRId64,
                         name_of(now), cursor, p > cursor ? "" : "not ", p);
    }
    for (int t = 0; t < SIM_TENANTS; t++) {
        if (waiting[t] != now->tenants[t].waiting)
            oracle_wrong(oracle,
                         "G5: %s has %" PRId64 " events waiting for tenant %d, right is %" PRId64,
                         name_of(now), now->tenants[t].waiting, t, waiting[t]);
        if (cursor_of(now, t) < cursor_of(before, t))
            oracle_wrong(oracle, "G5: the cursor of %s went back for tenant %d", name_of(now), t);
        if (now->tenants[t].own && !before->tenants[t].own && now->position == before->position)
            oracle_wrong(oracle, "G3: tenant %d of %s was left behind by nobody", t, name_of(now));
    }
}

/* A stream-ordered projection: no tenant has its own cursor. */
static void check_no_tenants(sim_oracle *oracle, const stored_generation *now)
{
    for (int t = 0; t < SIM_TENANTS; t++)
        if (now->tenants[t].own)
            oracle_wrong(oracle, "%s is by stream, and tenant %d has a cursor", name_of(now), t);
}

static const model_view *find_view(const oracle_generation *generation, const stored_view *view)
{
    for (int i = 0; i < generation->model.count; i++) {
        const model_view *v = &generation->model.views[i];
        if (v->there && strcmp(v->id, view->id) == 0 &&
            strcmp(sim_tenant_of(v->tenant), view->tenant) == 0)
            return v;
    }
    return NULL;
}

static void compare_views(sim_oracle *oracle, const oracle_generation *generation,
                          const stored_generation *now)
{
    int there = 0;

    for (int i = 0; i < generation->model.count; i++)
        there += generation->model.views[i].there;
    if (there != now->view_count)
        oracle_wrong(oracle, "G4: %s has %d views, %d are right", name_of(now), now->view_count,
                     there);
    for (int i = 0; i < now->view_count; i++) {
        const model_view *view = find_view(generation, &now->views[i]);
        char text[160];
        if (!view) {
            oracle_wrong(oracle, "G4: %s has a view \"%s\" that nothing made", name_of(now),
                         now->views[i].id);
            return;
        }
        rule_print(generation->rule, view, text, sizeof text);
        if (strcmp(text, now->views[i].data) != 0)
            oracle_wrong(oracle, "G4: view \"%s\" of %s is %s, right is %s", now->views[i].id,
                         name_of(now), now->views[i].data, text);
    }
}

static void check_generation(sim_oracle *oracle, oracle_generation *generation,
                             const stored_generation *now, const sim_call *request)
{
    passed_count left;

    if (now->era < generation->seen.era || now->position < generation->seen.position)
        oracle_wrong(oracle, "G5: the era or the cursor of %s went back", name_of(now));
    check_watermarks(oracle, &generation->seen, now, request);
    left = count_passed(oracle, generation, now);
    for (int64_t p = 1; p <= oracle->head && !oracle->wrong[0]; p++) {
        const sim_event *event = &oracle->events[p];
        if (event->seq <= generation->seen.applied_seq[event->stream] ||
            event->seq > now->applied_seq[event->stream])
            continue;
        check_fenced(oracle, event, request);
        pass_event(oracle, generation, event, &left);
    }
    if (now->by_log)
        check_log_order(oracle, &generation->seen, now);
    else
        check_no_tenants(oracle, now);
    if (generation->applied != now->applied || generation->ignored != now->ignored ||
        generation->skipped != now->skipped)
        oracle_wrong(oracle,
                     "G5: %s counts %" PRId64 " applied, %" PRId64 " ignored, %" PRId64
                     " skipped; right is %" PRId64 ", %" PRId64 ", %" PRId64,
                     name_of(now), now->applied, now->ignored, now->skipped, generation->applied,
                     generation->ignored, generation->skipped);
    compare_views(oracle, generation, now);
    generation->seen = *now;
}

/* --- the view store --------------------------------------------------------------------------- */

static oracle_generation *find_generation(sim_oracle *oracle, int64_t id)
{
    for (int i = 0; i < oracle->generation_count; i++)
        if (oracle->generations[i].seen.id == id)
            return &oracle->generations[i];
    return NULL;
}

static oracle_generation *add_generation(sim_oracle *oracle, const stored_generation *now,
                                         const sim_call *request)
{
    oracle_generation *generation = &oracle->generations[oracle->generation_count];

    *generation =
        (oracle_generation){.seen = {.id = now->id, .name = now->name, .version = now->version}};
    if (!request->operates)
        oracle_wrong(oracle, "a generation was made by %s", request->call);
    for (int v = 0; v < oracle->version_count; v++) {
        if (oracle->versions[v].name == now->name && oracle->versions[v].version == now->version) {
            generation->program = v;
            generation->rule = oracle->versions[v].rule;
            oracle->generation_count++;
            return generation;
        }
    }
    oracle_wrong(oracle, "%s was never deployed", name_of(now));
    return generation;
}

static stored_fence *fence_of(sim_oracle *oracle, const char *scope)
{
    for (int i = 0; i < oracle->fence_count; i++)
        if (strcmp(oracle->fences[i].scope, scope) == 0)
            return &oracle->fences[i];
    (void)snprintf(oracle->fences[oracle->fence_count].scope, sizeof oracle->fences[0].scope, "%s",
                   scope);
    return &oracle->fences[oracle->fence_count++];
}

static void check_grant(sim_oracle *oracle, const sim_call *request, const stored_fence *fence)
{
    int partition = (int)strtol(fence->scope + strlen("partition/"), NULL, 10);

    if (strncmp(fence->scope, "partition/", strlen("partition/")) != 0)
        return;
    for (int i = 0; i < oracle->grant_count; i++)
        if (oracle->grants[i].partition == partition && oracle->grants[i].token == fence->token &&
            strcmp(oracle->grants[i].owner, request->who) == 0)
            return;
    oracle_wrong(oracle, "G6: %s wrote under token %" PRId64 " of %s, which it was never given",
                 request->who, fence->token, fence->scope);
}

/* The presented token belongs to the writer, and no higher one has written. */
static void accept_tokens(sim_oracle *oracle, const sim_call *request)
{
    for (int i = 0; i < request->fence_count; i++) {
        stored_fence *highest = fence_of(oracle, request->fences[i].scope);
        if (request->fences[i].token < highest->token)
            oracle_wrong(oracle, "G6: %s wrote under token %" PRId64 " of %s after %" PRId64,
                         request->who, request->fences[i].token, highest->scope, highest->token);
        check_grant(oracle, request, &request->fences[i]);
        highest->token = request->fences[i].token;
    }
}

static void check_fences(sim_oracle *oracle, const stored_views *now)
{
    for (int i = 0; i < now->fence_count; i++) {
        const stored_fence *known = fence_of(oracle, now->fences[i].scope);
        if (known->token != now->fences[i].token)
            oracle_wrong(oracle, "G6: the fence %s is at %" PRId64 ", %" PRId64 " has written",
                         known->scope, now->fences[i].token, known->token);
    }
}

static bool same_generation(const stored_generation *a, const stored_generation *b)
{
    bool same = a->id == b->id && a->state == b->state && a->active == b->active &&
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

static void check_unchanged(sim_oracle *oracle, const stored_views *now, const sim_call *request)
{
    bool same = now->count == oracle->generation_count;

    for (int i = 0; same && i < now->count; i++) {
        const oracle_generation *generation = find_generation(oracle, now->items[i].id);
        same = generation && same_generation(&generation->seen, &now->items[i]);
    }
    if (!same)
        oracle_wrong(oracle, "G6: %s of %s was refused and yet changed something", request->call,
                     request->who);
}

/* Only an operator or a run removes a generation, and never the active one. */
static void drop_removed(sim_oracle *oracle, const stored_views *now, const sim_call *request)
{
    for (int i = oracle->generation_count - 1; i >= 0; i--) {
        const stored_generation *generation = &oracle->generations[i].seen;
        bool there = false;
        for (int n = 0; n < now->count && !there; n++)
            there = now->items[n].id == generation->id;
        if (there)
            continue;
        if (!request->operates || generation->active)
            oracle_wrong(oracle, "G8: %s is gone by %s", name_of(generation), request->call);
        oracle->generations[i] = oracle->generations[--oracle->generation_count];
    }
}

/* Rows are kept for the active generation and those created after it. */
static bool keeps_rows(const sim_oracle *oracle, const stored_generation *generation)
{
    for (int i = 0; i < oracle->generation_count; i++)
        if (oracle->generations[i].seen.active &&
            oracle->generations[i].seen.name == generation->name &&
            oracle->generations[i].seen.number > generation->number)
            return false;
    return true;
}

static bool waits_nowhere(const sim_oracle *oracle, const stored_generation *generation, int64_t p)
{
    const sim_event *event = &oracle->events[p];
    bool by_cursor = generation->by_log || generation->state != LOOK_LIVE;

    return event->seq > generation->applied_seq[event->stream] && !oracle->rows.at[0][p].there &&
           !oracle->rows.at[generation->name + 1][p].there &&
           !(by_cursor && p > cursor_of(generation, event->stream));
}

/* A generation that is active again after it was superseded: have all missing rows been added? */
static void check_missing_rows(sim_oracle *oracle, oracle_generation *generation)
{
    generation->owed = !generation->seen.by_log && !keeps_rows(oracle, &generation->seen);
    for (int64_t p = 1; p <= oracle->head && !generation->owed; p++)
        generation->owed = waits_nowhere(oracle, &generation->seen, p);
}

/* G5 and G8: each event that a generation has not passed has a row. */
static void check_nothing_dropped(sim_oracle *oracle)
{
    for (int i = 0; i < oracle->generation_count; i++) {
        const stored_generation *generation = &oracle->generations[i].seen;
        if (oracle->generations[i].owed ||
            (!generation->by_log && !keeps_rows(oracle, generation))) {
            check_missing_rows(oracle, &oracle->generations[i]);
            continue;
        }
        for (int64_t p = 1; p <= oracle->head && generation->state != LOOK_RETIRED; p++) {
            const sim_event *event = &oracle->events[p];
            if (waits_nowhere(oracle, generation, p))
                oracle_wrong(oracle,
                             "G8: %s has not passed position %" PRId64 " (seq %" PRId64 " of "
                             "\"%s\" %s), which waits nowhere",
                             name_of(generation), p, event->seq, sim_tenant_of(event->stream),
                             sim_stream_name(event->stream));
        }
    }
}

void oracle_views(sim_oracle *oracle, const stored_views *now, const sim_call *request)
{
    if (oracle->wrong[0])
        return;
    if (request->refused) {
        check_unchanged(oracle, now, request);
    } else {
        accept_tokens(oracle, request);
        for (int i = 0; i < now->count && !oracle->wrong[0]; i++) {
            oracle_generation *generation = find_generation(oracle, now->items[i].id);
            if (!generation)
                generation = add_generation(oracle, &now->items[i], request);
            check_generation(oracle, generation, &now->items[i], request);
        }
        drop_removed(oracle, now, request);
        check_nothing_dropped(oracle);
    }
    check_fences(oracle, now);
}

/* --- the outbox ------------------------------------------------------------------------------- */

void oracle_filed(sim_oracle *oracle, int lane, int64_t position, int turn)
{
    oracle->filed[lane][position] = turn;
}

/* A worker that finishes a row which was filed again since its claim must leave the row. Calls are
 * nested: what happened since the claim has a later turn. */
static bool is_filed_again(const sim_oracle *oracle, int lane, int64_t p, const stored_row *now,
                           const sim_call *request)
{
    return oracle->filed[lane][p] > request->turn && now->status == LOOK_PENDING &&
           now->attempts == 0;
}

/* Has every generation that rows are kept for the event? */
static bool is_superfluous(const sim_oracle *oracle, int lane, int64_t p)
{
    const sim_event *event = &oracle->events[p];

    for (int i = 0; i < oracle->generation_count; i++) {
        const oracle_generation *generation = &oracle->generations[i];
        if (generation->seen.name == lane - 1 && generation->seen.state != LOOK_RETIRED &&
            !generation->owed && keeps_rows(oracle, &generation->seen) &&
            event->seq > generation->seen.applied_seq[event->stream])
            return false;
    }
    return true;
}

/* Only an operator changes a dead row; but a row that no generation needs may be removed. */
static void check_kept(sim_oracle *oracle, int lane, int64_t p, const stored_row *was,
                       const stored_row *now, const sim_call *request)
{
    const char *name = rule_name(lane - 1);

    if (request->removes && !now->there && is_superfluous(oracle, lane, p))
        return;
    if (was->status == LOOK_DEAD && (!now->there || now->status != LOOK_DEAD))
        oracle_wrong(oracle, "G8: the dead row %" PRId64 " of lane %s was changed by %s of %s", p,
                     name, request->call, request->who);
    if (now->there &&
        ((now->attempts < was->attempts && !is_filed_again(oracle, lane, p, now, request)) ||
         (now->skip && !was->skip)))
        oracle_wrong(oracle, "G8: the row %" PRId64 " of lane %s lost attempts by %s of %s", p,
                     name, request->call, request->who);
}

static void check_row(sim_oracle *oracle, int lane, int64_t p, const stored_row *now,
                      const sim_call *request, bool append)
{
    const stored_row *was = &oracle->rows.at[lane][p];
    bool own = lane > 0;
    const char *name = own ? rule_name(lane - 1) : "*";

    if (request->refused && (was->there != now->there || was->attempts != now->attempts ||
                             was->skip != now->skip || (own && was->status != now->status)))
        oracle_wrong(oracle, "G6: %s was refused and yet changed position %" PRId64 " of lane %s",
                     request->call, p, name);
    if (now->there && !was->there && !own && p <= oracle->rows_head)
        oracle_wrong(oracle, "G1: position %" PRId64 " came into lane * by %s", p, request->call);
    if (!now->there && was->there && (append || request->operates))
        oracle_wrong(oracle, "G8: position %" PRId64 " left lane %s by %s", p, name, request->call);
    if (own && was->there && !request->operates && oracle->turn[lane][p] != request->turn)
        check_kept(oracle, lane, p, was, now, request);
    if (!request->operates && (was->there != now->there || was->attempts != now->attempts))
        oracle->turn[lane][p] = request->turn;
    oracle->may_skip[lane][p] = oracle->may_skip[lane][p] || now->skip;
    if (now->there)
        oracle->partition[p] = now->partition;
}

void oracle_rows(sim_oracle *oracle, const stored_rows *now, const sim_call *request, bool append)
{
    if (oracle->wrong[0])
        return;
    for (int lane = 0; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= oracle->head; p++)
            check_row(oracle, lane, p, &now->at[lane][p], request, append);
    for (int64_t p = oracle->rows_head + 1; p <= oracle->head; p++) {
        if (!now->at[0][p].there)
            oracle_wrong(oracle, "G1: position %" PRId64 " has no row", p);
    }
    oracle->rows_head = oracle->head;
    oracle->rows = *now;
    if (!request->refused)
        check_nothing_dropped(oracle);
}

/* --- leases ----------------------------------------------------------------------------------- */

static stored_lease *find_lease(sim_oracle *oracle, const char *key)
{
    for (int i = 0; i < oracle->leases.count; i++)
        if (strcmp(oracle->leases.items[i].key, key) == 0)
            return &oracle->leases.items[i];
    return NULL;
}

/* A token is given once, even if the lease was pruned in between. */
static void note_grant(sim_oracle *oracle, const stored_lease *lease, bool known)
{
    if (lease->partition < 0 || !lease->owner[0] || oracle->grant_count == ORACLE_GRANTS)
        return;
    for (int i = 0; i < oracle->grant_count && !known; i++)
        if (oracle->grants[i].partition == lease->partition &&
            oracle->grants[i].token >= lease->token)
            oracle_wrong(oracle, "G6: token %" PRId64 " of %s was given again", lease->token,
                         lease->key);
    oracle->grants[oracle->grant_count].partition = lease->partition;
    oracle->grants[oracle->grant_count].token = lease->token;
    (void)snprintf(oracle->grants[oracle->grant_count++].owner, sizeof oracle->grants[0].owner,
                   "%s", lease->owner);
}

/* A clock that was set back by more than the length of the lease ends it too. */
static bool is_live(const stored_lease *lease, int64_t wall_us)
{
    int64_t length_us = lease->until_us - lease->updated_us;

    return lease->owner[0] && lease->until_us > wall_us && wall_us >= lease->updated_us - length_us;
}

static void check_lease(sim_oracle *oracle, const stored_lease *now, const sim_call *request,
                        int64_t wall_us)
{
    const stored_lease *was = find_lease(oracle, now->key);

    if (was && now->token < was->token)
        oracle_wrong(oracle, "G6: the token of %s fell from %" PRId64 " to %" PRId64, now->key,
                     was->token, now->token);
    if (was && was->owner[0] && now->owner[0] && strcmp(was->owner, now->owner) != 0) {
        if (now->token == was->token)
            oracle_wrong(oracle, "G6: %s passed to %s under the same token", now->key, now->owner);
        if (is_live(was, wall_us))
            oracle_wrong(oracle, "G6: %s was taken from %s while it was live", now->key,
                         was->owner);
    }
    if (request->refused && (!was || was->token != now->token || was->until_us != now->until_us))
        oracle_wrong(oracle, "G6: %s was refused and yet changed %s", request->call, now->key);
    if (!was || was->token != now->token || strcmp(was->owner, now->owner) != 0)
        note_grant(oracle, now, was && was->token == now->token);
}

void oracle_leases(sim_oracle *oracle, const stored_leases *now, const sim_call *request,
                   int64_t wall_us)
{
    if (oracle->wrong[0])
        return;
    for (int i = 0; i < now->count; i++)
        check_lease(oracle, &now->items[i], request, wall_us);
    oracle->leases = *now;
}

void oracle_marked(sim_oracle *oracle, const sim_call *request, int64_t wall_us)
{
    for (int i = 0; i < request->fence_count && !oracle->wrong[0]; i++) {
        const stored_lease *lease = NULL;
        int partition = (int)strtol(request->fences[i].scope + strlen("partition/"), NULL, 10);
        for (int l = 0; l < oracle->leases.count && !lease; l++)
            if (oracle->leases.items[l].partition == partition)
                lease = &oracle->leases.items[l];
        if (!lease || lease->token != request->fences[i].token || !is_live(lease, wall_us) ||
            strcmp(lease->owner, request->who) != 0)
            oracle_wrong(
                oracle, "G6: %s by %s was let in under token %" PRId64 " of %s, which is not live",
                request->call, request->who, request->fences[i].token, request->fences[i].scope);
    }
}

void oracle_let_go(sim_oracle *oracle, const char *owner, int64_t wall_us)
{
    for (int i = 0; i < oracle->leases.count; i++)
        if (strcmp(oracle->leases.items[i].owner, owner) == 0 &&
            is_live(&oracle->leases.items[i], wall_us))
            oracle_wrong(oracle, "%s has closed and holds %s", owner, oracle->leases.items[i].key);
}

/* --- at the end ------------------------------------------------------------------------------- */

bool oracle_settled(const sim_oracle *oracle, char *why, size_t size)
{
    for (int lane = 0; lane < LOOK_LANES; lane++) {
        for (int64_t p = 1; p <= oracle->head; p++) {
            const stored_row *row = &oracle->rows.at[lane][p];
            if (!row->there)
                continue;
            (void)snprintf(why, size,
                           "position %" PRId64 " waits in lane %s, status %d, %d attempts", p,
                           lane ? rule_name(lane - 1) : "*", row->status, row->attempts);
            return false;
        }
    }
    for (int i = 0; i < oracle->generation_count; i++) {
        const stored_generation *generation = &oracle->generations[i].seen;
        if (generation->state == LOOK_RETIRED || !keeps_rows(oracle, generation))
            continue;
        if (generation->state != LOOK_LIVE) {
            (void)snprintf(why, size, "%s is in state %d", name_of(generation), generation->state);
            return false;
        }
        for (int s = 0; s < SIM_STREAMS; s++) {
            if (generation->applied_seq[s] == oracle->stream_seq[s])
                continue;
            (void)snprintf(why, size, "%s is at seq %" PRId64 " of %" PRId64 " in \"%s\" %s",
                           name_of(generation), generation->applied_seq[s], oracle->stream_seq[s],
                           sim_tenant_of(s), sim_stream_name(s));
            return false;
        }
    }
    return true;
}

/* The expected cursor of the tenant: before the first event that fails, or at the head. */
static int64_t right_cursor(const sim_oracle *oracle, const oracle_generation *generation,
                            int tenant)
{
    for (int64_t p = 1; p <= oracle->head; p++) {
        const sim_event *event = &oracle->events[p];
        if (event->stream % SIM_TENANTS == tenant && generation->fate[p] != FATE_SKIPPED &&
            rule_verdict(generation->rule, event) == FOLDED_FAILED)
            return oracle->skips_dead ? oracle->head : p - 1;
    }
    return oracle->head;
}

bool oracle_apart(const sim_oracle *oracle, char *why, size_t size)
{
    for (int i = 0; i < oracle->generation_count; i++) {
        const oracle_generation *generation = &oracle->generations[i];
        if (!generation->seen.by_log || generation->seen.state == LOOK_RETIRED)
            continue;
        for (int t = 0; t < SIM_TENANTS; t++) {
            int64_t right = right_cursor(oracle, generation, t);
            if (cursor_of(&generation->seen, t) == right)
                continue;
            (void)snprintf(why, size, "%s is at %" PRId64 " for tenant %d, right is %" PRId64,
                           name_of(&generation->seen), cursor_of(&generation->seen, t), t, right);
            return false;
        }
    }
    return true;
}

void oracle_digests(sim_oracle *oracle)
{
    for (int i = 0; i < oracle->generation_count; i++) {
        for (int j = 0; j < i; j++) {
            const oracle_generation *a = &oracle->generations[i], *b = &oracle->generations[j];
            if (a->rule == b->rule && a->seen.state != LOOK_RETIRED &&
                b->seen.state != LOOK_RETIRED && a->skipped + b->skipped == 0 &&
                (a->seen.by_log ||
                 (keeps_rows(oracle, &a->seen) && keeps_rows(oracle, &b->seen))) &&
                memcmp(a->seen.digest, b->seen.digest, sizeof a->seen.digest) != 0)
                oracle_wrong(oracle, "G9: %s and version %d have other digests", name_of(&a->seen),
                             b->seen.version);
        }
    }
}
