/*
 * The cursors of single tenants: compared, counted, listed, and removed when the tenant has caught
 * up.
 */
#include "views_fixture.h"

static ef__tenant_cursor cursor_of(fixture *t, int64_t g, const char *tenant)
{
    ef__tenant_cursor_item item;
    bool found;

    OK(t->views->ops->tenant_cursor_get(t->views, g, str(tenant), &item, &found, &t->err));
    CHECK_STR(tenant, item.tenant);
    CHECK_INT(found, !ef__tenant_cursor_is_none(&item.cursor));
    return item.cursor;
}

/* One tenant's cursor from where it is to somewhere else; the generation's from 0 to `cursor`. */
static ef_status move(fixture *t, int64_t g, const char *tenant, ef__tenant_cursor to,
                      int64_t cursor)
{
    ef__tenant_cursor_change tenants = {
        .tenant = str(tenant), .before = cursor_of(t, g, tenant), .after = to};
    ef__generation_change change = {.generation = g,
                                    .cursor_before = generation(t, g).position,
                                    .cursor_after = cursor,
                                    .tenants = &tenants,
                                    .tenant_count = 1};

    return commit_change(t, &change);
}

CONTRACT(a_tenant_gets_a_cursor_of_its_own_with_the_commit_that_goes_past_it)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__tenant_cursor_item item;
    bool found;

    CHECK_INT(0, cursor_of(t, g, "t").position);
    OK(move(t, g, "t", (ef__tenant_cursor){.position = 6, .waiting = 2, .attempts = 1, .due_us = 9},
            10));
    OK(t->views->ops->tenant_cursor_get(t->views, g, str("t"), &item, &found, &t->err));
    CHECK(found);
    CHECK_INT(6, item.cursor.position);
    CHECK_INT(2, item.cursor.waiting);
    CHECK_INT(1, item.cursor.attempts);
    CHECK_INT(9, item.cursor.due_us);
    CHECK_INT(t->now_us, item.updated_us);
    CHECK_INT(10, generation(t, g).position);
    CHECK_INT(0, cursor_of(t, g, "").position);
}

CONTRACT(a_tenant_that_stands_before_the_first_event_is_there)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");

    OK(move(t, g, "", (ef__tenant_cursor){.waiting = 1, .attempts = 1}, 5));
    CHECK_INT(1, cursor_of(t, g, "").waiting);
    CHECK_INT(1, generation(t, g).own_cursors);
    CHECK_INT(0, generation(t, g).own_lowest);
}

CONTRACT(a_tenants_cursor_moves_only_from_where_it_was_read)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__tenant_cursor_change moved = {
        .tenant = str("t"), .after = {.position = 4, .waiting = 3, .attempts = 2, .due_us = 7}};
    ef__generation_change change = {
        .generation = g, .cursor_after = 10, .tenants = &moved, .tenant_count = 1};

    OK(commit_change(t, &change));
    change.cursor_before = 10;
    change.cursor_after = 20;
    REFUSED(EF_CONFLICT, commit_change(t, &change)); /* there is one by now */
    CHECK_INT(10, generation(t, g).position);
    moved.after.position = 5;
    for (int i = 0; i < 4; i++) {
        int64_t *parts[] = {&moved.before.position, &moved.before.waiting, &moved.before.attempts,
                            &moved.before.due_us};
        moved.before = cursor_of(t, g, "t");
        *parts[i] += 1;
        REFUSED(EF_CONFLICT, commit_change(t, &change));
    }
    moved.after.position = 20; /* nor does it come up */
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    CHECK_INT(4, cursor_of(t, g, "t").position);
    moved.before = cursor_of(t, g, "t");
    moved.after.position = 5;
    OK(commit_change(t, &change));
    CHECK_INT(5, cursor_of(t, g, "t").position);
    CHECK_INT(20, generation(t, g).position);
}

CONTRACT(a_tenant_that_has_come_up_goes_by_the_generations_cursor)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__tenant_cursor_change late = {.tenant = str("t")};
    ef__generation_change change = {.generation = g,
                                    .cursor_before = 12,
                                    .cursor_after = 15,
                                    .tenants = &late,
                                    .tenant_count = 1};

    OK(move(t, g, "t", (ef__tenant_cursor){.position = 4, .waiting = 3}, 10));
    /* It has come to where the generation's was when it began; that one is elsewhere by now. */
    OK(move(t, g, "t", (ef__tenant_cursor){.position = 10}, 12));
    CHECK_INT(10, cursor_of(t, g, "t").position);
    late.before = late.after = cursor_of(t, g, "t");
    OK(move(t, g, "t", (ef__tenant_cursor){.position = 12}, 0));
    CHECK_INT(0, cursor_of(t, g, "t").position);
    CHECK_INT(0, generation(t, g).own_cursors);
    /* A commit that excluded its events meanwhile would lose them. */
    late.after.waiting++;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    CHECK_INT(12, generation(t, g).position);
}

CONTRACT(one_that_never_fell_behind_leaves_no_row)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");

    OK(move(t, g, "t", (ef__tenant_cursor){.position = 10}, 10));
    CHECK_INT(0, generation(t, g).own_cursors);
}

CONTRACT(cursors_are_added_up_and_listed_by_when_they_are_due)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    ef__tenant_cursor_list list = {0};

    OK(move(t, g, "t", (ef__tenant_cursor){.position = 6, .waiting = 1, .due_us = 30}, 10));
    OK(move(t, g, "u", (ef__tenant_cursor){.position = 3, .waiting = 2, .due_us = 10}, 0));
    OK(move(t, g, "s", (ef__tenant_cursor){.position = 8, .waiting = 4, .due_us = 10}, 0));
    OK(move(t, other, "t", (ef__tenant_cursor){.position = 1, .waiting = 50}, 2));
    CHECK_INT(3, generation(t, g).own_cursors);
    CHECK_INT(3, generation(t, g).own_lowest);
    CHECK_INT(7, generation(t, g).own_waiting);
    CHECK_INT(1, generation(t, other).own_cursors);
    OK(t->views->ops->tenant_cursor_ls(t->views, g, 29, 10, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_STR("s", list.items[0].tenant);
    CHECK_STR("u", list.items[1].tenant);
    CHECK_INT(3, list.items[1].cursor.position);
    CHECK_INT(t->now_us, list.items[1].updated_us);
    OK(t->views->ops->tenant_cursor_ls(t->views, g, 30, 10, &list, &t->err));
    CHECK_INT(3, list.count);
    CHECK_STR("t", list.items[2].tenant);
    OK(t->views->ops->tenant_cursor_ls(t->views, g, INT64_MAX, 1, &list, &t->err));
    CHECK_INT(1, list.count);
    OK(t->views->ops->tenant_cursor_ls(t->views, g, 9, 10, &list, &t->err));
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
}

CONTRACT(cursors_go_with_what_is_removed_and_outlive_the_rest)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    ef__tenant_cursor at = {.position = 6, .waiting = 1, .attempts = 6, .due_us = 30};

    OK(move(t, g, "t", at, 10));
    OK(move(t, other, "t", at, 10));
    OK(t->views->ops->generation_change(t->views, g, 0, EF__GENERATION_PAUSED, NULL, &t->err));
    OK(t->views->ops->generation_activate(t->views, g, 0, 0, &t->err));
    if (survives(t))
        reopen(t);
    CHECK_INT(6, cursor_of(t, g, "t").attempts);
    OK(remove_generation(t, other, 0));
    CHECK_INT(0, cursor_of(t, other, "t").attempts);
    CHECK_INT(6, cursor_of(t, g, "t").attempts);
}

CONTRACT_MAIN(CASE(a_tenant_gets_a_cursor_of_its_own_with_the_commit_that_goes_past_it),
              CASE(a_tenant_that_stands_before_the_first_event_is_there),
              CASE(a_tenants_cursor_moves_only_from_where_it_was_read),
              CASE(a_tenant_that_has_come_up_goes_by_the_generations_cursor),
              CASE(one_that_never_fell_behind_leaves_no_row),
              CASE(cursors_are_added_up_and_listed_by_when_they_are_due),
              CASE(cursors_go_with_what_is_removed_and_outlive_the_rest))
