/*
 * Generations: adding, numbers, states, routes, eras, the live set, and removing.
 */
#include "views_fixture.h"

static ef_status set_state(fixture *t, int64_t id, ef__generation_state state)
{
    return t->views->ops->generation_change(t->views, id, 0, state, NULL, &t->err);
}

static ef_status route(fixture *t, int64_t id)
{
    return t->views->ops->generation_activate(t->views, id, 0, 0, &t->err);
}

CONTRACT(a_new_generation_is_kept_as_it_was_given)
{
    fixture *t = *state;
    ef__generation given = {.name = str("orders"),
                            .version = 3,
                            .by_log = true,
                            .program = str("projection orders version 3"),
                            .program_hash = UINT64_C(0xffffffffffffffff),
                            .index_paths = str("status,stats.total"),
                            .schema = 7,
                            .state = EF__GENERATION_PAUSED,
                            .position = 12,
                            .seam = 11,
                            .created_us = 99};
    ef__generation found;
    int64_t id = 0;

    OK(t->views->ops->generation_add(t->views, &given, &id, &t->err));
    found = generation(t, id);
    CHECK_STR("orders", found.name);
    CHECK_INT(3, found.version);
    CHECK_INT(1, found.number);
    CHECK(found.by_log);
    CHECK_STR("projection orders version 3", found.program);
    CHECK(found.program_hash == given.program_hash);
    CHECK_STR("status,stats.total", found.index_paths);
    CHECK_INT(7, found.schema);
    CHECK_INT(EF__GENERATION_PAUSED, found.state);
    CHECK(!found.active);
    CHECK_INT(1, found.era);
    CHECK_INT(12, found.position);
    CHECK_INT(11, found.seam);
    CHECK_INT(99, found.created_us);
    CHECK_INT(t->now_us, found.updated_us);
    CHECK_INT(0, found.views);
}

CONTRACT(generations_are_listed_by_name_and_number)
{
    fixture *t = *state;
    ef__generation_list list = {0};

    add_generation(t, "b", "");
    add_generation(t, "a", "");
    add_generation(t, "b", "");
    OK(t->views->ops->generation_ls(t->views, str(""), &list, &t->err));
    CHECK_INT(3, list.count);
    CHECK_STR("a", list.items[0].name);
    CHECK_INT(1, list.items[0].number);
    CHECK_STR("b", list.items[1].name);
    CHECK_INT(1, list.items[1].number);
    CHECK_INT(2, list.items[2].number);
    OK(t->views->ops->generation_ls(t->views, str("b"), &list, &t->err));
    CHECK_INT(2, list.count);
    OK(t->views->ops->generation_ls(t->views, str("c"), &list, &t->err));
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
}

CONTRACT(an_id_is_never_given_again)
{
    fixture *t = *state;
    int64_t first = add_generation(t, "a", ""), second;

    OK(remove_generation(t, first, 0));
    second = add_generation(t, "a", "");
    CHECK(second > first);
}

CONTRACT(a_number_that_is_given_has_to_be_the_next)
{
    fixture *t = *state;
    ef__generation g = {.name = str("a"), .version = 1, .program = str("p"), .number = 2};
    int64_t id;

    REFUSED(EF_CONFLICT, t->views->ops->generation_add(t->views, &g, &id, &t->err));
    CHECK_INT(0, generation_count(t));
    g.number = 1;
    OK(t->views->ops->generation_add(t->views, &g, &id, &t->err));
    CHECK_INT(1, generation(t, id).number);
    REFUSED(EF_CONFLICT, t->views->ops->generation_add(t->views, &g, &id, &t->err));
    CHECK_INT(1, generation_count(t));
}

CONTRACT(a_state_is_set_and_the_era_grows)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "");

    OK(set_state(t, id, EF__GENERATION_FAILED));
    CHECK_INT(EF__GENERATION_FAILED, generation(t, id).state);
    CHECK_INT(2, generation(t, id).era);
    REFUSED(EF_NOT_FOUND, set_state(t, id + 1, EF__GENERATION_LIVE));
}

CONTRACT(one_generation_of_a_name_is_active)
{
    fixture *t = *state;
    int64_t old = add_generation(t, "a", ""), new = add_generation(t, "a", "");
    int64_t other = add_generation(t, "b", "");

    OK(route(t, other));
    OK(route(t, old));
    CHECK(generation(t, old).active);
    OK(route(t, new));
    CHECK(!generation(t, old).active);
    CHECK(generation(t, new).active);
    CHECK(generation(t, other).active);
    CHECK_INT(3, generation(t, old).era);
    CHECK_INT(2, generation(t, new).era);
    OK(route(t, new)); /* there already */
    CHECK_INT(2, generation(t, new).era);
    REFUSED(EF_NOT_FOUND, route(t, new + 99));
}

CONTRACT(a_generation_can_be_active_as_it_is_added)
{
    fixture *t = *state;
    ef__generation given = {.name = str("a"), .program = str(""), .active = true};
    int64_t old = 0, new = 0;

    OK(t->views->ops->generation_add(t->views, &given, &old, &t->err));
    OK(t->views->ops->generation_add(t->views, &given, &new, &t->err));
    CHECK(!generation(t, old).active);
    CHECK(generation(t, new).active);
}

CONTRACT(an_activation_stores_the_rollback_target_and_when_the_other_was_superseded)
{
    fixture *t = *state;
    int64_t old = add_generation(t, "a", ""), new = add_generation(t, "a", "");
    const ef__views_ops *ops = t->views->ops;

    OK(ops->generation_activate(t->views, old, 0, 0, &t->err));
    CHECK_INT(0, generation(t, old).replaced);
    CHECK_INT(0, generation(t, new).superseded_us);
    t->now_us += 5;
    OK(ops->generation_activate(t->views, new, 0, 1, &t->err));
    CHECK_INT(1, generation(t, new).replaced);
    CHECK_INT(t->now_us, generation(t, old).superseded_us);
    OK(ops->generation_activate(t->views, new, 0, 7, &t->err)); /* it is active already */
    CHECK_INT(1, generation(t, new).replaced);
    t->now_us += 5;
    OK(ops->generation_activate(t->views, old, 0, 2, &t->err));
    CHECK_INT(2, generation(t, old).replaced);
    CHECK_INT(0, generation(t, old).superseded_us);
    CHECK_INT(t->now_us, generation(t, new).superseded_us);
}

CONTRACT(on_error_is_the_same_in_all_generations_of_a_projection)
{
    fixture *t = *state;
    ef__generation given = {.name = str("c"), .program = str(""), .on_error = EF_ON_ERROR_SKIP};
    int64_t a = add_generation(t, "a", ""), b = add_generation(t, "b", ""), second, c;
    ef__generation before = generation(t, a);

    OK(t->views->ops->on_error_set(t->views, str("a"), EF_ON_ERROR_SKIP, &t->err));
    OK(t->views->ops->on_error_set(t->views, str("none"), EF_ON_ERROR_SKIP, &t->err));
    second = add_generation(t, "a", "");
    CHECK_INT(EF_ON_ERROR_SKIP, generation(t, a).on_error);
    CHECK_INT(EF_ON_ERROR_SKIP, generation(t, second).on_error);
    CHECK_INT(EF_ON_ERROR_STOP, generation(t, b).on_error);
    CHECK_INT(before.era, generation(t, a).era);
    OK(t->views->ops->generation_add(t->views, &given, &c, &t->err));
    CHECK_INT(EF_ON_ERROR_SKIP, generation(t, c).on_error);
    OK(t->views->ops->on_error_set(t->views, str("a"), EF_ON_ERROR_STOP, &t->err));
    CHECK_INT(EF_ON_ERROR_STOP, generation(t, a).on_error);
    CHECK_INT(EF_ON_ERROR_STOP, generation(t, second).on_error);
}

static bool is_retired(fixture *t, const char *name, int32_t version)
{
    bool retired;

    OK(t->views->ops->version_is_retired(t->views, str(name), version, &retired, &t->err));
    return retired;
}

CONTRACT(a_retired_version_is_recorded_after_its_generation_is_removed)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "");

    CHECK(!is_retired(t, "a", 1));
    OK(t->views->ops->version_retire(t->views, str("a"), 1, &t->err));
    OK(t->views->ops->version_retire(t->views, str("a"), 1, &t->err));
    OK(remove_generation(t, id, 0));
    CHECK(is_retired(t, "a", 1));
    CHECK(!is_retired(t, "a", 2));
    CHECK(!is_retired(t, "b", 1));
}

CONTRACT(the_live_set_grows_when_it_changes_and_only_then)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", ""), number = live_set(t);

    CHECK(number >= 1);
    OK(set_state(t, id, EF__GENERATION_PAUSED));
    CHECK_INT(number, live_set(t));
    OK(set_state(t, id, EF__GENERATION_LIVE));
    CHECK_INT(number + 1, live_set(t));
    OK(set_state(t, id, EF__GENERATION_LIVE));
    CHECK_INT(number + 1, live_set(t));
    OK(route(t, id));
    CHECK_INT(number + 2, live_set(t));
    put_view(t, id, "", "v", "{}");
    CHECK_INT(number + 2, live_set(t));
}

static void fill(fixture *t, int64_t id)
{
    ef__watermark_change watermark = watermark_to(t, id, "", "s", 5);
    ef__failure failure = {.stream = str("s"), .seq = 9, .code = str("fold_error")};
    ef__generation_change change = {.generation = id,
                                    .cursor_after = 7,
                                    .applied = 1,
                                    .ignored = 2,
                                    .skipped = 3,
                                    .watermarks = &watermark,
                                    .watermark_count = 1,
                                    .failures = &failure,
                                    .failure_count = 1};

    OK(commit_change(t, &change));
    put_indexed(t, id, "", "v", "{\"a\":1}", (const char *[]){"k"}, 1);
}

CONTRACT(another_program_takes_over_the_views)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "x"), set;
    ef__generation before, after,
        with = {.version = 9,
                .program = str("another text, longer than the first"),
                .program_hash = UINT64_C(0xfffffffffffffff0),
                .schema = 4,
                .state = EF__GENERATION_CATCHING_UP,
                .replaced = 3,
                .superseded_us = 99};

    fill(t, id);
    OK(route(t, id));
    OK(set_state(t, id, EF__GENERATION_LIVE));
    before = generation(t, id);
    set = live_set(t);
    REFUSED(EF_CONFLICT, t->views->ops->generation_change(t->views, id, before.era + 1, with.state,
                                                          &with, &t->err));
    CHECK_INT(before.version, generation(t, id).version);
    OK(t->views->ops->generation_change(t->views, id, before.era, with.state, &with, &t->err));
    after = generation(t, id);
    CHECK_INT(9, after.version);
    CHECK_STR("another text, longer than the first", after.program);
    CHECK(after.program_hash == with.program_hash);
    CHECK_INT(4, after.schema);
    CHECK_INT(EF__GENERATION_CATCHING_UP, after.state);
    CHECK_INT(3, after.replaced);
    CHECK_INT(99, after.superseded_us);
    CHECK_INT(before.era + 1, after.era);
    CHECK_INT(set + 1, live_set(t));
    CHECK(after.active);
    CHECK_STR("a", after.name);
    CHECK_STR("x", after.index_paths);
    CHECK_INT(before.position, after.position);
    CHECK_INT(before.views, after.views);
    CHECK(memcmp(before.digest, after.digest, sizeof after.digest) == 0);
    CHECK_TEXT("{\"a\":1}", view_data(t, id, "", "v"));
    REFUSED(EF_NOT_FOUND,
            t->views->ops->generation_change(t->views, 99, 0, with.state, &with, &t->err));
}

CONTRACT(a_generation_is_removed_with_all_that_is_its_own)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "x");
    ef__view_scan scan = {.generation = id, .any_tenant = true, .index = -1};

    fill(t, id);
    OK(remove_generation(t, id, 0));
    CHECK_INT(0, generation_count(t));
    CHECK_TEXT("", scan_text(t, &scan, 10));
    REFUSED(EF_NOT_FOUND, remove_generation(t, id, 0));
}

CONTRACT(a_generation_is_removed_in_slices_and_goes_with_the_last)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "x"), other = add_generation(t, "a", "x");
    bool more = true;
    int slices = 0;

    fill(t, id);
    fill(t, other);
    OK(set_state(t, id, EF__GENERATION_RETIRED));
    for (; more && slices < 100; slices++) {
        CHECK_INT(2, generation_count(t));
        OK(t->views->ops->generation_remove(t->views, id, 2, 2, &more, &t->err));
    }
    CHECK(slices > 1 && !more);
    CHECK_INT(1, generation_count(t));
    CHECK(view_data(t, other, "", "v") != NULL);
    REFUSED(EF_NOT_FOUND, t->views->ops->generation_remove(t->views, id, 0, 2, &more, &t->err));
}

CONTRACT(a_active_generation_is_not_removed)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "");

    OK(route(t, id));
    REFUSED(EF_CONFLICT, remove_generation(t, id, 0));
    CHECK_INT(1, generation_count(t));
}

CONTRACT(everything_is_there_after_opening_again)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "x");
    ef__view_scan by_key = {.generation = id, .index = 0};
    uint8_t digest[EF__DIGEST_BYTES];

    if (!survives(t))
        return;
    fill(t, id);
    memcpy(digest, generation(t, id).digest, sizeof digest);
    reopen(t);
    CHECK_INT(7, generation(t, id).position);
    assert_memory_equal(digest, generation(t, id).digest, sizeof digest);
    CHECK_TEXT("k//v ", scan_text(t, &by_key, 10));
}

CONTRACT(a_store_that_was_opened_read_only_is_not_changed)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", "");

    if (!survives(t))
        return;
    put_view(t, id, "", "v", "{}");
    t->options.read_only = true;
    reopen(t);
    CHECK_TEXT("{}", view_data(t, id, "", "v"));
    REFUSED(EF_MISUSE, set_state(t, id, EF__GENERATION_LIVE));
}

CONTRACT(a_store_that_is_not_there_is_not_found)
{
    fixture *t = *state;
    ef_views *views = NULL;
    char url[300];
    ef__views_options options = {.url = url};

    (void)snprintf(url, sizeof url, "sqlite:%s/nothing.db", t->dir[0] ? t->dir : "no-such-folder");
    REFUSED(EF_NOT_FOUND, ef__views_open(&options, &views, &t->err));
    CHECK(views == NULL);
    options.url = "postgres:x";
    REFUSED(EF_BAD_INPUT, ef__views_open(&options, &views, &t->err));
    options.url = "sqlite:";
    REFUSED(EF_BAD_INPUT, ef__views_open(&options, &views, &t->err));
    options.url = NULL;
    REFUSED(EF_BAD_INPUT, ef__views_open(&options, &views, &t->err));
}

CONTRACT(a_change_with_an_outdated_era_is_a_conflict)
{
    fixture *t = *state;
    int64_t id = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    const ef__views_ops *ops = t->views->ops;
    int64_t era = 1;

    while (ops->generation_change(t->views, id, era, EF__GENERATION_LIVE, NULL, &t->err) ==
               EF_CONFLICT &&
           era < 100)
        era++; /* the one it is in; then it moves on */
    CHECK(era < 100);
    REFUSED(EF_CONFLICT,
            ops->generation_change(t->views, id, era, EF__GENERATION_PAUSED, NULL, &t->err));
    REFUSED(EF_CONFLICT, ops->generation_activate(t->views, id, era, 0, &t->err));
    REFUSED(EF_CONFLICT, remove_generation(t, id, era));
    OK(ops->generation_change(t->views, id, era + 1, EF__GENERATION_PAUSED, NULL, &t->err));
    OK(ops->generation_activate(t->views, other, 0, 0, &t->err));
}

CONTRACT_MAIN(CASE(a_change_with_an_outdated_era_is_a_conflict),
              CASE(a_new_generation_is_kept_as_it_was_given),
              CASE(generations_are_listed_by_name_and_number), CASE(an_id_is_never_given_again),
              CASE(a_number_that_is_given_has_to_be_the_next),
              CASE(a_state_is_set_and_the_era_grows), CASE(one_generation_of_a_name_is_active),
              CASE(a_generation_can_be_active_as_it_is_added),
              CASE(an_activation_stores_the_rollback_target_and_when_the_other_was_superseded),
              CASE(on_error_is_the_same_in_all_generations_of_a_projection),
              CASE(a_retired_version_is_recorded_after_its_generation_is_removed),
              CASE(the_live_set_grows_when_it_changes_and_only_then),
              CASE(another_program_takes_over_the_views),
              CASE(a_generation_is_removed_with_all_that_is_its_own),
              CASE(a_generation_is_removed_in_slices_and_goes_with_the_last),
              CASE(a_active_generation_is_not_removed),
              CASE(everything_is_there_after_opening_again),
              CASE(a_store_that_was_opened_read_only_is_not_changed),
              CASE(a_store_that_is_not_there_is_not_found))
