/*
 * test_health.c - the summary of the health: the most serious problem first.
 */
#include "../../src/shape/overview.h"

#include "test.h"

static const ef_projection behind[] = {
    {.name = {"slow", 4}, .active = true, .state = {"live", 4}, .lag_events = 1, .lag_us = 2500000},
    {.name = {"fast", 4}, .active = true, .state = {"live", 4}},
};
static const ef_projection failed[] = {{.name = {"bad", 3}, .state = {"failed", 6}}};
static const ef_projection paused[] = {{.name = {"cold", 4}, .state = {"paused", 6}}};

static ef__overview calm(void)
{
    return (ef__overview){.workers_live = 1, .disk = {.free_bytes = -1}};
}

static void check_says(ef__health health, const char *words, const ef__overview *o)
{
    char text[EF__HEALTH_TEXT];

    CHECK_INT(health, ef__overview_health(o, text));
    CHECK_TEXT(words, text);
}

TEST(all_is_well)
{
    ef__overview o = calm();

    check_says(EF__HEALTH_WELL, "All is well; no projection is deployed yet.", &o);
    o.projections = (ef_projection_list){.items = &behind[1], .count = 1};
    check_says(EF__HEALTH_WELL, "All is well: every event is in every view.", &o);
}

TEST(what_may_heal_by_itself_is_behind)
{
    ef__overview o = calm();

    o.projections = (ef_projection_list){.items = behind, .count = 2};
    check_says(EF__HEALTH_BEHIND, "Catching up: slow lags by 1 event, 2 s.", &o);
    o.outbox.failed = 2;
    check_says(EF__HEALTH_BEHIND, "2 events failed and will be retried.", &o);
    (void)snprintf(o.publisher_down, sizeof o.publisher_down, "mail");
    check_says(EF__HEALTH_BEHIND, "Publisher mail cannot deliver and retries.", &o);
    o = calm();
    o.projections = (ef_projection_list){.items = paused, .count = 1};
    check_says(EF__HEALTH_BEHIND, "Projection cold is paused.", &o);
}

TEST(health_is_trouble_when_an_operator_is_needed)
{
    ef__overview o = calm();

    o.outbox.pending = 3;
    o.workers_live = 0;
    check_says(EF__HEALTH_TROUBLE, "No worker is running, and 3 events are queued.", &o);
    (void)snprintf(o.mode, sizeof o.mode, "shadow_only"); /* rows stay queued by design */
    check_says(EF__HEALTH_WELL, "All is well; no projection is deployed yet.", &o);
    o = calm();
    o.projections = (ef_projection_list){.items = failed, .count = 1};
    check_says(EF__HEALTH_TROUBLE, "Projection bad has failed and is stopped.", &o);
    o.outbox.dead = 1;
    check_says(EF__HEALTH_TROUBLE, "1 event is dead and needs an operator.", &o);
    o.outbox.blocked = 2;
    check_says(EF__HEALTH_TROUBLE, "1 event is dead and needs an operator; 2 events are blocked.",
               &o);
    o.unaccounted = 4;
    check_says(EF__HEALTH_TROUBLE, "4 events are neither applied nor queued: this must be 0.", &o);
    o.views_error.status = EF_IO;
    check_says(EF__HEALTH_TROUBLE, "The views cannot be read; see: everfold doctor.", &o);
}

/* The sum is read from two stores, so it moves while events are folded. */
TEST(unaccounted_events_are_not_reported_while_events_are_folded)
{
    ef__overview o = calm();

    o.unaccounted = 4;
    o.outbox.processing = 1;
    check_says(EF__HEALTH_WELL, "All is well; no projection is deployed yet.", &o);
    o.outbox.processing = 0;
    o.projections = (ef_projection_list){.items = behind, .count = 2};
    check_says(EF__HEALTH_BEHIND, "Catching up: slow lags by 1 event, 2 s.", &o);
}

TEST(blocked_events_are_apart_from_the_lag)
{
    static const ef_scope tenants[] = {{.any_tenant = true, .state = {"live", 4}},
                                       {.tenant = {"t", 1}, .state = {"failed", 6}}};
    static const ef_scope retries[] = {{.tenant = {"t", 1}, .state = {"retrying", 8}}};
    ef_projection p[] = {{.name = {"a", 1},
                          .active = true,
                          .state = {"live", 4},
                          .lag_events = 9,
                          .blocked_events = 5,
                          .blocked_streams = 2},
                         {.name = {"b", 1}, .active = true, .state = {"live", 4}, .by_log = true},
                         {.name = {"b", 1}, .state = {"live", 4}, .blocked_events = 100}};
    ef__overview o = calm();

    o.projections = (ef_projection_list){.items = p, .count = 3};
    o.outbox.failed = 1;
    check_says(EF__HEALTH_BEHIND,
               "1 event failed and will be retried; 5 events of 2 streams are blocked.", &o);
    o.outbox.dead = 2;
    p[1].blocked_events = p[1].blocked_streams = 1;
    check_says(EF__HEALTH_TROUBLE,
               "2 events are dead and need an operator; 6 events of 2 streams and 1 tenant are "
               "blocked.",
               &o);
    o.facts.damaged = true;
    check_says(EF__HEALTH_TROUBLE,
               "The journal is damaged and refuses appends; see: everfold doctor --deep.", &o);
    o = calm();
    p[0] = p[1];
    p[0].scopes = retries;
    p[0].scope_count = 1;
    o.projections = (ef_projection_list){.items = p, .count = 1};
    check_says(EF__HEALTH_BEHIND,
               "Projection b fails for a tenant and is retried; 1 event of 1 tenant is blocked.",
               &o);
    p[0].scopes = tenants;
    p[0].scope_count = 2;
    check_says(
        EF__HEALTH_TROUBLE,
        "Projection b fails for a tenant and needs an operator; 1 event of 1 tenant is blocked.",
        &o);
}

TEST(a_full_disk_is_named_before_what_follows_from_it)
{
    ef__overview o = calm();

    o.projections = (ef_projection_list){.items = behind, .count = 2};
    o.disk = (ef__disk){.path = "/data/views.db", .free_bytes = EF__DISK_FREE_MIN};
    check_says(EF__HEALTH_BEHIND, "Catching up: slow lags by 1 event, 2 s.", &o);
    o.disk.free_bytes--;
    check_says(EF__HEALTH_TROUBLE,
               "The disk is almost full: /data/views.db, 63 MiB free. Free space on it; work "
               "continues by itself.",
               &o);
    o.disk.free_bytes = 0;
    check_says(EF__HEALTH_TROUBLE,
               "The disk is full: /data/views.db, 0 MiB free. Free space on it; work continues by "
               "itself.",
               &o);
    o.disk = (ef__disk){.free_bytes = -1, .refused = true};
    check_says(EF__HEALTH_TROUBLE,
               "The disk is full: the journal's. Free space on it; work continues by itself.", &o);
}

TEST_MAIN(TEST_CASE(blocked_events_are_apart_from_the_lag),
          TEST_CASE(a_full_disk_is_named_before_what_follows_from_it), TEST_CASE(all_is_well),
          TEST_CASE(what_may_heal_by_itself_is_behind),
          TEST_CASE(health_is_trouble_when_an_operator_is_needed),
          TEST_CASE(unaccounted_events_are_not_reported_while_events_are_folded))
