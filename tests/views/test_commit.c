/*
 * Commits: all or nothing; fences, eras, cursors, watermarks and views are compared; going live;
 * failures; digests.
 */
#include "views_fixture.h"

static ef_status commit_all(fixture *t, const ef__views_commit *commit)
{
    return t->views->ops->commit(t->views, commit, &t->err);
}

static int64_t token_of(fixture *t, const char *scope)
{
    int64_t token = -1;

    OK(t->views->ops->fence_get(t->views, str(scope), &token, &t->err));
    return token;
}

/* --- views ------------------------------------------------------------------------------------ */

CONTRACT(a_view_is_read_as_it_was_written)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__view_change view = {.view = {.tenant = str("t"),
                                     .id = str("v"),
                                     .data = str("{\"n\":1}"),
                                     .last_position = INT64_MAX,
                                     .last_seq = 5,
                                     .schema = 3}};
    ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};
    ef__view found;
    uint64_t digest[2];
    bool is_there;

    OK(commit_change(t, &change));
    OK(t->views->ops->view_get(t->views, g, str("t"), str("v"), &t->arena, &found, &is_there,
                               &t->err));
    CHECK(is_there);
    CHECK_STR("t", found.tenant);
    CHECK_STR("v", found.id);
    CHECK_STR("{\"n\":1}", found.data);
    CHECK(found.last_position == INT64_MAX);
    CHECK_INT(5, found.last_seq);
    CHECK_INT(3, found.schema);
    ef__view_digest(&view.view, digest);
    CHECK(found.digest[0] == digest[0] && found.digest[1] == digest[1]);
    CHECK_INT(1, generation(t, g).views);
}

CONTRACT(a_view_is_changed_and_deleted)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");

    put_view(t, g, "", "v", "1");
    put_view(t, g, "", "v", "2");
    CHECK_TEXT("2", view_data(t, g, "", "v"));
    CHECK_INT(1, generation(t, g).views);
    put_view(t, g, "", "v", NULL);
    CHECK(view_data(t, g, "", "v") == NULL);
    CHECK_INT(0, generation(t, g).views);
    put_view(t, g, "", "never", NULL); /* came and went within a batch */
    CHECK_INT(0, generation(t, g).views);
}

CONTRACT(a_concurrently_written_view_is_a_conflict)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__view_change new_one = change_of(t, g, "", "v", "1"), update, delete;
    ef__generation_change change = {.generation = g, .view_count = 1};

    put_view(t, g, "", "v", "2");
    change.views = &new_one;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    update = change_of(t, g, "", "v", "3");
    delete = change_of(t, g, "", "v", NULL);
    put_view(t, g, "", "v", "4");
    change.views = &update;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    change.views = &delete;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    CHECK_TEXT("4", view_data(t, g, "", "v"));
    put_view(t, g, "", "v", NULL);
    change.views = &update;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    CHECK(view_data(t, g, "", "v") == NULL);
}

CONTRACT(a_commit_is_all_or_nothing)
{
    fixture *t = *state;
    int64_t a = add_generation(t, "a", "x"), b = add_generation(t, "b", "");
    ef__index_key key = {0, str("k")};
    ef__view_change view = change_of(t, a, "", "v", "1");
    ef__watermark_change good = watermark_to(t, a, "", "s", 1),
                         bad = watermark_to(t, b, "", "s", 1);
    ef__failure failure = {.stream = str("s"), .seq = 9};
    ef__fence fence = {str("partition/1"), 5};
    ef__generation_change changes[2] = {
        {.generation = a,
         .era = 1,
         .cursor_after = 3,
         .applied = 1,
         .views = &view,
         .view_count = 1,
         .watermarks = &good,
         .watermark_count = 1,
         .failures = &failure,
         .failure_count = 1},
        {.generation = b, .era = 1, .watermarks = &bad, .watermark_count = 1}};
    ef__views_commit commit = {
        .fences = &fence, .fence_count = 1, .generations = changes, .generation_count = 2};
    ef__view_scan by_key = {.generation = a, .index = 0};
    ef__failure_list failures = {0};

    view.keys = &key;
    view.key_count = 1;
    bad.before.applied_seq = 4;
    REFUSED(EF_CONFLICT, commit_all(t, &commit));
    CHECK(view_data(t, a, "", "v") == NULL);
    CHECK_TEXT("", scan_text(t, &by_key, 10));
    CHECK_INT(0, token_of(t, "partition/1"));
    CHECK_INT(0, generation(t, a).position);
    CHECK_INT(0, generation(t, a).applied);
    CHECK_INT(0, watermark_to(t, a, "", "s", 1).before.applied_seq);
    OK(t->views->ops->failure_ls(t->views, a, NULL, false, 10, &failures, &t->err));
    CHECK_INT(0, failures.count);
    EF_RELEASE(&failures);

    bad.before.applied_seq = 0;
    OK(commit_all(t, &commit));
    CHECK_TEXT("1", view_data(t, a, "", "v"));
    CHECK_TEXT("k//v ", scan_text(t, &by_key, 10));
    CHECK_INT(5, token_of(t, "partition/1"));
    CHECK_INT(3, generation(t, a).position);
    CHECK_INT(1, watermark_to(t, b, "", "s", 1).before.applied_seq);
}

/* --- fences, eras, cursors, watermarks -------------------------------------------------------- */

CONTRACT(a_fence_refuses_a_lower_token_and_keeps_the_highest)
{
    fixture *t = *state;
    ef__fence fences[2] = {{str("partition/1"), 5}, {str("partition/2"), 1}};
    ef__views_commit commit = {.fences = fences, .fence_count = 2};

    OK(commit_all(t, &commit));
    OK(commit_all(t, &commit)); /* the same token, again */
    fences[0].token = 4;
    fences[1].token = 2;
    REFUSED(EF_LEASE_LOST, commit_all(t, &commit));
    CHECK_INT(4, t->err.asked);
    CHECK_INT(5, t->err.found);
    CHECK_INT(1, token_of(t, "partition/2"));
    fences[0].token = 8;
    OK(commit_all(t, &commit));
    CHECK_INT(8, token_of(t, "partition/1"));
    CHECK_INT(2, token_of(t, "partition/2"));
    CHECK_INT(0, token_of(t, "partition/3"));
}

CONTRACT(an_empty_scope_needs_no_fence)
{
    fixture *t = *state;
    ef__fence fence = {str(""), 5};
    ef__views_commit commit = {.fences = &fence, .fence_count = 1};

    OK(commit_all(t, &commit));
    fence.token = 1;
    OK(commit_all(t, &commit));
    CHECK_INT(0, token_of(t, ""));
}

CONTRACT(long_fence_scopes_are_distinguished)
{
    fixture *t = *state;
    char one[601], other[601];
    ef__fence fence = {.token = 5};
    ef__views_commit commit = {.fences = &fence, .fence_count = 1};

    memset(one, 'x', sizeof one);
    memset(other, 'x', sizeof other);
    one[600] = other[600] = '\0';
    other[599] = 'y';
    fence.scope = str(one);
    OK(commit_all(t, &commit));
    CHECK_INT(5, token_of(t, one));
    CHECK_INT(0, token_of(t, other));
    fence.token = 4;
    REFUSED(EF_LEASE_LOST, commit_all(t, &commit));
    fence.scope = str(other);
    OK(commit_all(t, &commit));
}

CONTRACT(a_lost_lease_leaves_no_view)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__view_change view = change_of(t, g, "", "v", "1");
    ef__fence fence = {str("partition/1"), 5};
    ef__generation_change change = {.generation = g, .era = 1, .views = &view, .view_count = 1};
    ef__views_commit commit = {.fences = &fence, .fence_count = 1};

    OK(commit_all(t, &commit));
    fence.token = 4;
    commit.generations = &change;
    commit.generation_count = 1;
    REFUSED(EF_LEASE_LOST, commit_all(t, &commit));
    CHECK(view_data(t, g, "", "v") == NULL);
}

CONTRACT(another_era_is_a_conflict)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__generation_change change = {.generation = g, .era = 1, .applied = 1};
    ef__views_commit commit = {.generations = &change, .generation_count = 1};

    OK(commit_all(t, &commit));
    OK(t->views->ops->generation_change(t->views, g, 0, EF__GENERATION_PAUSED, NULL, &t->err));
    REFUSED(EF_CONFLICT, commit_all(t, &commit));
    CHECK_INT(1, generation(t, g).applied);
    OK(remove_generation(t, g, 0));
    REFUSED(EF_CONFLICT, commit_all(t, &commit));
}

CONTRACT(another_live_set_is_a_conflict)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__generation_change change = {.generation = g, .era = 1, .applied = 1};
    ef__views_commit commit = {
        .generations = &change, .generation_count = 1, .live_set = live_set(t)};

    OK(commit_all(t, &commit));
    OK(t->views->ops->generation_change(t->views, add_generation(t, "b", ""), 0,
                                        EF__GENERATION_LIVE, NULL, &t->err));
    REFUSED(EF_CONFLICT, commit_all(t, &commit));
    CHECK_INT(1, generation(t, g).applied);
    commit.live_set = 0;
    OK(commit_all(t, &commit));
}

CONTRACT(a_cursor_moves_only_from_where_it_was_read)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__generation_change change = {.generation = g, .cursor_after = 10};

    OK(commit_change(t, &change));
    CHECK_INT(10, generation(t, g).position);
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    change.cursor_before = 10;
    change.cursor_after = 20;
    OK(commit_change(t, &change));
    change.cursor_after = 0; /* stays, and is not compared */
    change.applied = 2;
    change.ignored = 3;
    change.skipped = 4;
    OK(commit_change(t, &change));
    OK(commit_change(t, &change));
    CHECK_INT(20, generation(t, g).position);
    CHECK_INT(4, generation(t, g).applied);
    CHECK_INT(6, generation(t, g).ignored);
    CHECK_INT(8, generation(t, g).skipped);
}

CONTRACT(a_watermark_moves_only_from_where_it_was_read)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__watermark_change first = watermark_to(t, g, "", "s", 1), next, other;
    ef__generation_change change = {.generation = g, .watermarks = &first, .watermark_count = 1};

    OK(commit_change(t, &change));
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    next = watermark_to(t, g, "", "s", 2);
    CHECK_INT(1, next.before.applied_seq);
    CHECK_INT(2, next.before.expected_next_seq);
    CHECK_INT(2, next.before.hash[EF_HASH_BYTES - 1]);
    change.watermarks = &other;
    other = next;
    other.before.hash[3] ^= 1;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    other = next;
    other.before.expected_next_seq++;
    REFUSED(EF_CONFLICT, commit_change(t, &change));
    other = next;
    OK(commit_change(t, &change));
    CHECK_INT(2, watermark_to(t, g, "", "s", 3).before.applied_seq);
}

static bool add_watermark(void *context, ef_str tenant, ef_str stream, const ef__watermark *w)
{
    char *text = context;
    size_t used = strlen(text);

    (void)snprintf(text + used, 200 - used, "%.*s/%.*s:%d ", EF_STR_ARG(tenant), EF_STR_ARG(stream),
                   (int)w->applied_seq);
    return strlen(text) < 20;
}

CONTRACT(watermarks_are_listed_by_tenant_and_stream)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), other = add_generation(t, "b", "");
    ef__watermark_change w[4] = {watermark_to(t, g, "t", "a", 1), watermark_to(t, g, "", "z", 2),
                                 watermark_to(t, g, "", "a", 3), watermark_to(t, g, "u", "x", 4)};
    ef__generation_change change = {.generation = g, .watermarks = w, .watermark_count = 4};
    char text[200] = "";

    OK(commit_change(t, &change));
    OK(t->views->ops->watermark_scan(t->views, g, add_watermark, text, &t->err));
    CHECK_TEXT("/a:3 /z:2 t/a:1 u/x:4 ", text);
    text[0] = '\0';
    OK(t->views->ops->watermark_scan(t->views, other, add_watermark, text, &t->err));
    CHECK_TEXT("", text);
}

/* --- going live ------------------------------------------------------------------------------- */

static ef_status head_is(void *context, int64_t *out_position, ef_error *err)
{
    *out_position = *(int64_t *)context;
    return *out_position < 0 ? ef_fail(err, EF_IO, "the journal is gone") : EF_OK;
}

CONTRACT(a_generation_goes_live_when_the_head_is_at_its_cursor)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), head = 11, before = 0, after = 0;
    bool live = true;
    ef__generation_change change = {.generation = g, .era = 1, .cursor_after = 10, .go_live = true};
    ef__views_commit commit = {.generations = &change,
                               .generation_count = 1,
                               .head = head_is,
                               .head_context = &head,
                               .out_live = &live};

    OK(commit_all(t, &commit));
    CHECK(!live);
    CHECK_INT(10, generation(t, g).position);
    CHECK_INT(EF__GENERATION_CATCHING_UP, generation(t, g).state);
    CHECK_INT(0, generation(t, g).seam);
    CHECK_INT(1, generation(t, g).era);

    change.cursor_before = 10;
    change.cursor_after = 11;
    before = live_set(t);
    OK(commit_all(t, &commit));
    CHECK(live);
    CHECK_INT(EF__GENERATION_LIVE, generation(t, g).state);
    CHECK_INT(11, generation(t, g).seam);
    CHECK_INT(2, generation(t, g).era);
    after = live_set(t);
    CHECK_INT(before + 1, after);
}

CONTRACT(a_head_that_cannot_be_read_leaves_nothing)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), head = -1;
    bool live = true;
    ef__generation_change change = {.generation = g, .era = 1, .cursor_after = 10, .go_live = true};
    ef__views_commit commit = {.generations = &change,
                               .generation_count = 1,
                               .head = head_is,
                               .head_context = &head,
                               .out_live = &live};

    REFUSED(EF_IO, commit_all(t, &commit));
    CHECK(!live);
    CHECK_INT(0, generation(t, g).position);
    commit.head = NULL;
    REFUSED(EF_MISUSE, commit_all(t, &commit));
    CHECK_INT(0, generation(t, g).position);
}

/* --- failures --------------------------------------------------------------------------------- */

static ef__failure_list failures_of(fixture *t, int64_t g, bool open_only)
{
    ef__failure_list list = {0};

    OK(t->views->ops->failure_ls(t->views, g, NULL, open_only, 100, &list, &t->err));
    return list;
}

static void fail_event(fixture *t, int64_t g, const char *stream, int64_t seq, const char *message)
{
    ef__failure failure = {.stream = str(stream),
                           .seq = seq,
                           .position = 100 + seq,
                           .event_id = str("e"),
                           .code = str("fold_error"),
                           .message = str(message),
                           .line = (int32_t)strlen(message),
                           .attempts = 77};
    ef__generation_change change = {.generation = g, .failures = &failure, .failure_count = 1};

    OK(commit_change(t, &change));
}

CONTRACT(a_failure_is_open_once_and_counts_up)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", ""), first_us = t->now_us;
    ef__failure_list list;

    fail_event(t, g, "s", 3, "once");
    t->now_us += 5;
    fail_event(t, g, "s", 3, "twice");
    fail_event(t, g, "s", 4, "another");
    list = failures_of(t, g, true);
    CHECK_INT(2, list.count);
    CHECK_INT(4, list.items[0].seq); /* newest first */
    CHECK_INT(1, list.items[0].attempts);
    CHECK_INT(3, list.items[1].seq);
    CHECK_INT(103, list.items[1].position);
    CHECK_INT(g, list.items[1].generation);
    CHECK_INT(2, list.items[1].attempts);
    CHECK_STR("twice", list.items[1].message);
    CHECK_INT(5, list.items[1].line);
    CHECK_INT(7, list.items[0].line);
    CHECK_STR("fold_error", list.items[1].code);
    CHECK_STR("e", list.items[1].event_id);
    CHECK(list.items[1].open);
    CHECK_INT(first_us, list.items[1].recorded_us);
    CHECK_INT(0, list.items[1].resolved_us);
    EF_RELEASE(&list);
}

CONTRACT(failures_of_a_tenant_are_listed_before_the_list_is_cut)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__failure failures[] = {{.tenant = str("acme"), .stream = str("s"), .seq = 1},
                              {.stream = str("s"), .seq = 2},
                              {.stream = str("s"), .seq = 3}};
    ef__generation_change change = {.generation = g, .failures = failures, .failure_count = 3};
    ef_str acme = str("acme"), blank = str("");
    ef__failure_list list = {0};

    OK(commit_change(t, &change));
    OK(t->views->ops->failure_ls(t->views, g, &acme, true, 1, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_INT(1, list.items[0].seq);
    OK(t->views->ops->failure_ls(t->views, g, &blank, false, 10, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_INT(3, list.items[0].seq);
    EF_RELEASE(&list);
}

CONTRACT(a_watermark_resolves_the_failures_that_it_passes)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__watermark_change w;
    ef__generation_change change = {.generation = g, .watermarks = &w, .watermark_count = 1};
    ef__failure_list list;

    w = watermark_to(t, g, "", "s", 2);
    OK(commit_change(t, &change));
    fail_event(t, g, "s", 2, "applied already, with another hash");
    fail_event(t, g, "s", 3, "passed");
    fail_event(t, g, "s", 5, "still ahead");
    fail_event(t, g, "other", 3, "of another stream");
    w = watermark_to(t, g, "", "s", 4);
    OK(commit_change(t, &change));
    list = failures_of(t, g, true);
    CHECK_INT(3, list.count);
    CHECK_STR("of another stream", list.items[0].message);
    CHECK_STR("still ahead", list.items[1].message);
    CHECK_STR("applied already, with another hash", list.items[2].message);
    EF_RELEASE(&list);
    list = failures_of(t, g, false);
    CHECK_INT(4, list.count);
    CHECK(!list.items[2].open);
    CHECK_INT(t->now_us, list.items[2].resolved_us);
    EF_RELEASE(&list);

    fail_event(t, g, "s", 3, "once more"); /* a new one: the old one is history */
    list = failures_of(t, g, false);
    CHECK_INT(5, list.count);
    CHECK_INT(1, list.items[0].attempts);
    EF_RELEASE(&list);
}

/* The stream is held at seq 2: the watermark expects it again. */
CONTRACT(a_watermark_that_was_held_resolves_the_failure_it_was_held_by)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef__watermark_change w;
    ef__generation_change change = {.generation = g, .watermarks = &w, .watermark_count = 1};
    ef__failure_list list;

    w = watermark_to(t, g, "", "s", 2);
    OK(commit_change(t, &change));
    fail_event(t, g, "s", 2, "another hash");
    w.before = w.after;
    w.after.expected_next_seq = 2;
    OK(commit_change(t, &change));
    list = failures_of(t, g, true);
    CHECK_INT(1, list.count);
    EF_RELEASE(&list);
    w.before = w.after;
    w.after.expected_next_seq = 3;
    OK(commit_change(t, &change));
    list = failures_of(t, g, true);
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
}

CONTRACT(failures_are_listed_up_to_the_limit_and_per_generation)
{
    fixture *t = *state;
    int64_t a = add_generation(t, "a", ""), b = add_generation(t, "b", "");
    ef__failure_list list = {0};

    for (int i = 1; i <= 40; i++)
        fail_event(t, a, "s", i, "x");
    fail_event(t, b, "s", 1, "y");
    OK(t->views->ops->failure_ls(t->views, a, NULL, false, 33, &list, &t->err));
    CHECK_INT(33, list.count);
    CHECK_INT(40, list.items[0].seq);
    CHECK_INT(8, list.items[32].seq);
    OK(t->views->ops->failure_ls(t->views, b, NULL, true, 33, &list, &t->err));
    CHECK_INT(1, list.count);
    EF_RELEASE(&list);
}

/* --- digests ---------------------------------------------------------------------------------- */

CONTRACT(the_digest_of_a_view_depends_on_every_part_and_on_where_parts_end)
{
    ef__view base = {.tenant = str("ab"), .id = str("c"), .data = str("{}"), .schema = 1};
    ef__view others[5] = {base, base, base, base, base};
    uint64_t is[2], other[2];

    others[0].tenant = str("a"), others[0].id = str("bc");
    others[1].tenant = str(""), others[1].id = str("abc");
    others[2].data = str("{} ");
    others[3].schema = 2;
    others[4].id = str("d");
    ef__view_digest(&base, is);
    for (int i = 0; i < 5; i++) {
        ef__view_digest(&others[i], other);
        CHECK(is[0] != other[0] && is[1] != other[1]);
    }
    others[0] = base;
    others[0].last_position = 9;
    others[0].last_seq = 9;
    ef__view_digest(&others[0], other);
    CHECK(is[0] == other[0] && is[1] == other[1]);
}

CONTRACT(the_digest_does_not_depend_on_the_order_of_changes)
{
    fixture *t = *state;
    int64_t a = add_generation(t, "a", ""), b = add_generation(t, "b", "");
    ef__generation one, other;

    put_view(t, a, "", "x", "1");
    put_view(t, a, "", "x", "2");
    put_view(t, a, "", "gone", "3");
    put_view(t, a, "", "y", "4");
    put_view(t, a, "", "gone", NULL);
    put_view(t, b, "", "y", "4");
    put_view(t, b, "", "x", "2");
    one = generation(t, a);
    other = generation(t, b);
    assert_memory_equal(one.digest, other.digest, sizeof one.digest);
    put_view(t, b, "", "x", "1");
    other = generation(t, b);
    assert_memory_not_equal(one.digest, other.digest, sizeof one.digest);
}

/* --- snapshots -------------------------------------------------------------------------------- */

CONTRACT(a_snapshot_does_not_change_during_other_writes)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef_views *own = t->views, *other, *snapshot;
    ef__view view;
    ef__watermark mark;
    bool found;

    if (!own->ops->snapshot_open)
        return; /* a store without snapshots is read as it is */
    put_view(t, g, "", "v", "1");
    OK(ef__views_open(&t->options, &other, &t->err));
    OK(own->ops->snapshot_open(own, &snapshot, &t->err));
    OK(snapshot->ops->view_get(snapshot, g, str(""), str("v"), &t->arena, &view, &found, &t->err));
    CHECK_STR("1", view.data);
    t->views = other;
    put_view(t, g, "", "v", "2");
    put_view(t, g, "", "new", "3");
    t->views = own;
    OK(snapshot->ops->view_get(snapshot, g, str(""), str("v"), &t->arena, &view, &found, &t->err));
    CHECK_STR("1", view.data);
    OK(snapshot->ops->view_get(snapshot, g, str(""), str("new"), &t->arena, &view, &found,
                               &t->err));
    CHECK(!found);
    OK(snapshot->ops->watermark_get(snapshot, g, str(""), str("s"), &mark, &found, &t->err));
    CHECK(!found);
    ef__views_close(snapshot);
    CHECK_TEXT("2", view_data(t, g, "", "v"));
    put_view(t, g, "", "v", "4");
    CHECK_TEXT("4", view_data(t, g, "", "v"));
    ef__views_close(other);
}

CONTRACT_MAIN(CASE(a_view_is_read_as_it_was_written), CASE(a_view_is_changed_and_deleted),
              CASE(a_concurrently_written_view_is_a_conflict), CASE(a_commit_is_all_or_nothing),
              CASE(a_fence_refuses_a_lower_token_and_keeps_the_highest),
              CASE(an_empty_scope_needs_no_fence), CASE(long_fence_scopes_are_distinguished),
              CASE(a_lost_lease_leaves_no_view), CASE(another_era_is_a_conflict),
              CASE(another_live_set_is_a_conflict),
              CASE(a_cursor_moves_only_from_where_it_was_read),
              CASE(a_watermark_moves_only_from_where_it_was_read),
              CASE(watermarks_are_listed_by_tenant_and_stream),
              CASE(a_generation_goes_live_when_the_head_is_at_its_cursor),
              CASE(a_head_that_cannot_be_read_leaves_nothing),
              CASE(a_failure_is_open_once_and_counts_up),
              CASE(failures_of_a_tenant_are_listed_before_the_list_is_cut),
              CASE(a_watermark_resolves_the_failures_that_it_passes),
              CASE(a_watermark_that_was_held_resolves_the_failure_it_was_held_by),
              CASE(failures_are_listed_up_to_the_limit_and_per_generation),
              CASE(the_digest_of_a_view_depends_on_every_part_and_on_where_parts_end),
              CASE(the_digest_does_not_depend_on_the_order_of_changes),
              CASE(a_snapshot_does_not_change_during_other_writes))
