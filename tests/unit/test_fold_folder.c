/*
 * test_fold_folder.c - the folder: batches, failures that leave no trace, C projections.
 */
#include "test_fold_fixture.h"

TEST(a_view_is_loaded_once_and_returned_once_per_batch)
{
    ef__outcome outcome;
    fixture f;

    open_program(&f, counting);
    put(&f, EF_STR("s"), EF_STR("{\"n\":5}"));
    for (int i = 0; i < 10; i++)
        CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome));
    CHECK_INT(1, f.loads);
    CHECK_INT(1, ef__folder_changed(f.folder));
    write_views(&f);
    CHECK_TEXT("{\"by\":{\"a\":10},\"list\":[1,1,1,1,1],\"n\":15,\"seen\":[\"a\"],\"total\":10}",
               view_text(&f, "s"));
    ef__folder_settle(f.folder);
    CHECK_INT(0, ef__folder_changed(f.folder));
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome));
    CHECK_INT(1, f.loads);
    ef__folder_reset(f.folder);
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome));
    CHECK_INT(2, f.loads);
    tear_down(&f);
}

TEST(events_without_a_handler_are_ignored_unread)
{
    ef__outcome outcome;
    fixture f;

    open_program(&f, counting);
    CHECK_INT(EF__FOLD_IGNORED, apply(&f, "other", "this is not JSON", &outcome));
    CHECK_INT(0, f.loads);
    CHECK_INT(EF__FOLD_FAILED, apply(&f, "e", "this is not JSON", &outcome));
    CHECK_INT(EF_BAD_JSON, outcome.error.status);
    tear_down(&f);
}

TEST(a_failure_names_handler_line_path_and_value)
{
    ef__outcome outcome;
    fixture f;

    open_program(&f, counting);
    CHECK_INT(EF__FOLD_FAILED, apply(&f, "e", "{\"x\":[1,2],\"k\":\"a\"}", &outcome));
    CHECK_TEXT("handler e, line 5: data.x is [1,2]: += needs a number", outcome.error.text);
    CHECK_INT(5, outcome.line);
    CHECK_INT(0, ef__folder_changed(f.folder));
    tear_down(&f);
}

TEST(a_failure_of_the_store_does_not_fail_the_event)
{
    ef_event event = event_of("e", "s", "{\"x\":1,\"k\":\"a\"}", 1);
    ef__outcome outcome;
    ef_error err = EF_ERROR_INIT;
    fixture f;

    open_program(&f, counting);
    f.load_status = EF_BUSY;
    CHECK_STATUS(EF_BUSY, ef__folder_apply(f.folder, &event, &outcome, &err), &err);
    CHECK_TEXT("the store is away", err.text);
    f.load_status = EF_OK;
    put(&f, EF_STR("s"), EF_STR("[not a view"));
    CHECK_STATUS(EF_DAMAGED, ef__folder_apply(f.folder, &event, &outcome, &err), &err);
    put(&f, EF_STR("s"), EF_STR("{\"n\":1}"));
    CHECK_STATUS(EF_OK, ef__folder_apply(f.folder, &event, &outcome, &err), &err);
    CHECK_INT(EF__FOLD_APPLIED, outcome.result);
    tear_down(&f);
}

TEST(a_view_created_and_deleted_within_a_batch_is_not_returned)
{
    ef__outcome outcome;
    ef__folded_view view;
    size_t at = 0;
    fixture f;

    open_program(&f, counting);
    apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome);
    apply(&f, "d", "{}", &outcome);
    CHECK_STATUS(EF_OK, ef__folder_next(f.folder, &at, &view, NULL), NULL);
    CHECK_INT(0, view.view_id.len);
    apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome);
    at = 0;
    CHECK_STATUS(EF_OK, ef__folder_next(f.folder, &at, &view, NULL), NULL);
    CHECK_STR("s", view.view_id);
    CHECK(!view.deleted && !view.existed);
    tear_down(&f);
}

TEST(upcast_data_that_was_read_is_not_undone_by_a_later_failure)
{
    ef_event event = event_of("e", "s", "{\"first\":\"a\",\"last\":\"b\",\"n\":0}", 1);
    ef__buf seen = EF__BUF_INIT(1 << 10);
    ef__outcome outcome;
    int64_t schema;
    fixture f;

    open_program(&f, "projection p version 1\n  view stream\n"
                     "upcast e from 1 to 2\n  data.name = data.first + data.last\n"
                     "on e\n  name = data.name\n  share = 1 / data.n\n");
    for (int i = 0; i < 3; i++) {
        ef__buf_reset(&seen);
        CHECK_STATUS(EF_OK, ef__folder_seen(f.folder, &event, &seen, &schema, NULL), NULL);
        CHECK_STR("{\"first\":\"a\",\"last\":\"b\",\"n\":0,\"name\":\"ab\"}", ef__buf_str(&seen));
        CHECK_INT(2, schema);
        CHECK_STATUS(EF_OK, ef__folder_apply(f.folder, &event, &outcome, NULL), NULL);
        CHECK_INT(EF__FOLD_FAILED, outcome.result);
        CHECK(strstr(outcome.error.text, "line 7: "));
    }
    ef__buf_release(&seen);
    tear_down(&f);
}

TEST(an_event_may_touch_a_thousand_views_and_no_more)
{
    ef__buf data = EF__BUF_INIT(1 << 20);
    ef__outcome outcome;
    fixture f;

    open_program(&f, counting);
    ef__buf_add_text(&data, "{\"ks\":[0");
    for (int i = 1; i < 1000; i++)
        ef__buf_printf(&data, ",%d", i);
    ef__buf_add_text(&data, "]}");
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "fan", data.ptr, &outcome));
    CHECK_INT(1000, ef__folder_changed(f.folder));
    data.len -= 2;
    ef__buf_add_text(&data, ",1000]}");
    CHECK_INT(EF__FOLD_FAILED, apply(&f, "fan", data.ptr, &outcome));
    CHECK(strstr(outcome.error.text, "more than 1000 views for one event"));
    ef__buf_release(&data);
    tear_down(&f);
}

TEST(a_view_cannot_grow_past_its_limit)
{
    char *text = malloc(400100);
    char *data = malloc(400200);
    ef__outcome outcome;
    fixture f;

    CHECK(text && data);
    open_program(&f, "projection p version 1\n\non e\n  list push data.x\n");
    memset(text, 'x', 400000);
    text[400000] = '\0';
    (void)snprintf(data, 400200, "{\"x\":\"%s\"}", text);
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", data, &outcome));
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", data, &outcome));
    CHECK_INT(EF__FOLD_FAILED, apply(&f, "e", data, &outcome));
    CHECK(strstr(outcome.error.text, "the view would have 1200"));
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", "{\"x\":1}", &outcome));
    free(text);
    free(data);
    tear_down(&f);
}

/* --- C projections ---------------------------------------------------------------------------- */

static ef_status count_orders(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    ef_str customer;
    ef_str amount;
    ef_status st;

    (void)context;
    if (!ef_str_equal(event->type, EF_STR("order")))
        return ef_fold_ignore(fold);
    st = ef_fold_data_text(fold, "customer.id", &customer, err);
    if (st == EF_OK)
        st = ef_fold_view(fold, customer, err);
    if (st == EF_OK)
        st = ef_fold_add_int(fold, "stats.orders", 1, err);
    if (st == EF_OK)
        st = ef_fold_push(fold, "recent", event->data, 2, err);
    if (st == EF_OK)
        st = ef_fold_data(fold, "lines[-1].amount", &amount, err);
    return st == EF_OK ? ef_fold_add(fold, "stats.total", amount, err) : st;
}

TEST(a_c_projection_folds_like_a_program)
{
    ef__outcome outcome;
    fixture f;

    open_function(&f, count_orders);
    CHECK_INT(EF__FOLD_APPLIED,
              apply(&f, "order", "{\"customer\":{\"id\":\"ada\"},\"lines\":[{\"amount\":1.50}]}",
                    &outcome));
    CHECK_INT(EF__FOLD_FAILED,
              apply(&f, "order", "{\"customer\":{\"id\":\"ada\"},\"lines\":[{\"amount\":\"x\"}]}",
                    &outcome));
    CHECK_TEXT("C handler order: stats.total is \"x\": += needs a number", outcome.error.text);
    CHECK_INT(EF__FOLD_FAILED, apply(&f, "order", "{}", &outcome));
    CHECK_TEXT("C handler order: there is nothing at customer.id", outcome.error.text);
    CHECK_INT(EF__FOLD_IGNORED, apply(&f, "other", "{}", &outcome));
    write_views(&f);
    CHECK_TEXT("{\"recent\":[{\"customer\":{\"id\":\"ada\"},\"lines\":[{\"amount\":1.5}]}],"
               "\"stats\":{\"orders\":1,\"total\":1.5}}",
               view_text(&f, "ada"));
    tear_down(&f);
}

static ef_status use_everything(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    ef_str json;
    int64_t n = 0;

    (void)context, (void)event;
    CHECK_STATUS(EF_MISUSE, ef_fold_set_int(fold, "a", 1, err), err);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_view(fold, EF_STR(""), err), err);
    CHECK_STATUS(EF_OK, ef_fold_view(fold, EF_STR("v"), err), err);
    CHECK_STATUS(EF_NOT_FOUND, ef_fold_get(fold, "", &json, err), err);
    CHECK_STATUS(EF_OK, ef_fold_set(fold, "", EF_STR("{\"old\":[1,2,3]}"), err), err);
    CHECK_STATUS(EF_OK, ef_fold_set_text(fold, "t", EF_STR("a \"text\""), err), err);
    CHECK_STATUS(EF_OK, ef_fold_set_int(fold, "old[0]", -7, err), err);
    CHECK_STATUS(EF_OK, ef_fold_unset(fold, "old[1]", err), err);
    CHECK_STATUS(EF_OK, ef_fold_get_int(fold, "old[0]", &n, err), err);
    CHECK_INT(-7, n);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_get_int(fold, "t", &n, err), err);
    CHECK_STATUS(EF_OK, ef_fold_get(fold, "old", &json, err), err);
    CHECK_STR("[-7,3]", json);
    CHECK_STATUS(EF_BAD_JSON, ef_fold_set(fold, "x", EF_STR("{"), err), err);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_set(fold, "a..b", EF_STR("1"), err), err);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_set(fold, "new.path.old[5]", EF_STR("1"), err), err);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_set(fold, "", EF_STR("5"), err), err);
    CHECK_STATUS(EF_BAD_INPUT, ef_fold_set_text(fold, "x", EF_STR("\xff"), err), err);
    CHECK_STATUS(EF_OK, ef_fold_view(fold, EF_STR("w"), err), err);
    CHECK_STATUS(EF_OK, ef_fold_add_int(fold, "n", 1, err), err);
    return ef_fold_delete(fold, err);
}

TEST(every_call_of_a_c_projection_changes_the_view)
{
    ef__outcome outcome;
    fixture f;

    open_function(&f, use_everything);
    put(&f, EF_STR("w"), EF_STR("{\"n\":1}"));
    CHECK_INT(EF__FOLD_APPLIED, apply(&f, "e", "{}", &outcome));
    write_views(&f);
    CHECK_TEXT("{\"old\":[-7,3],\"t\":\"a \\\"text\\\"\"}", view_text(&f, "v"));
    CHECK_TEXT("none", view_text(&f, "w"));
    tear_down(&f);
}

TEST_MAIN(TEST_CASE(a_view_is_loaded_once_and_returned_once_per_batch),
          TEST_CASE(events_without_a_handler_are_ignored_unread),
          TEST_CASE(a_failure_names_handler_line_path_and_value),
          TEST_CASE(a_failure_of_the_store_does_not_fail_the_event),
          TEST_CASE(a_view_created_and_deleted_within_a_batch_is_not_returned),
          TEST_CASE(upcast_data_that_was_read_is_not_undone_by_a_later_failure),
          TEST_CASE(an_event_may_touch_a_thousand_views_and_no_more),
          TEST_CASE(a_view_cannot_grow_past_its_limit),
          TEST_CASE(a_c_projection_folds_like_a_program),
          TEST_CASE(every_call_of_a_c_projection_changes_the_view))
