/*
 * Reading: by stream, by the log, by id; waiting; streams, types and aliases.
 */
#include "contract.h"

#include "../../src/journal/journal.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { LONG = 5000 };

static void append_many(contract *t, const char *const *streams, size_t stream_count, size_t count)
{
    ef_new_event *events = calloc(count, sizeof *events);
    ef_place *places = calloc(count, sizeof *places);

    for (size_t i = 0; i < count; i++)
        events[i] = event_of(streams[i % stream_count], "ticked");
    OK(ef_journal_append(t->journal, events, count, places, &t->err));
    free(places);
    free(events);
}

/* Reads and checks every seq, the number of events, and whether there are more. */
static void reads(contract *t, const char *stream, int64_t length, int64_t from_seq, size_t limit)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t rest = from_seq > length ? 0 : length - from_seq + 1;
    int64_t expected = rest < (int64_t)limit ? rest : (int64_t)limit;

    OK(ef_journal_read_stream(t->journal, str(""), str(stream), from_seq, limit, &batch, &t->err));
    CHECK_INT(expected, batch.count);
    CHECK_INT(rest > (int64_t)limit, batch.more);
    for (size_t i = 0; i < batch.count; i++) {
        CHECK_INT(from_seq + (int64_t)i, batch.events[i].seq);
        CHECK_STR(stream, batch.events[i].stream);
    }
    EF_RELEASE(&batch);
}

CONTRACT(a_long_stream_is_read_from_anywhere)
{
    contract *t = *state;
    static const char *const streams[] = {"long"};
    static const int64_t froms[] = {1,    2,    3,    63,   64,   65,       1023,
                                    1024, 2047, 2048, 2500, 4095, 4096,     4097,
                                    4998, 4999, 5000, 5001, 9999, INT64_MAX};
    static const size_t limits[] = {1, 2, 7, 100, 1024, 4999, 5000, 10000};

    append_many(t, streams, 1, LONG);
    for (size_t f = 0; f < sizeof froms / sizeof froms[0]; f++)
        for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++)
            reads(t, "long", LONG, froms[f], limits[l]);
    for (int64_t from = 1; from <= LONG; from += 37)
        reads(t, "long", LONG, from, 3);
}

CONTRACT(a_long_stream_is_read_the_same_after_opening_again)
{
    contract *t = *state;
    static const char *const streams[] = {"x", "y"};

    append_many(t, streams, 2, 3000);
    if (!survives(t))
        return;
    reopen(t);
    append_many(t, streams, 2, 100);
    for (int64_t from = 1; from <= 1551; from += 31) {
        reads(t, "x", 1550, from, 5);
        reads(t, "y", 1550, from, 2000);
    }
}

CONTRACT(interleaved_streams_are_read_apart)
{
    contract *t = *state;
    static const char *const streams[] = {"a", "b", "c", "d", "e"};

    append_many(t, streams, 5, 1000);
    for (int i = 0; i < 5; i++)
        for (int64_t from = 1; from <= 201; from += 20)
            reads(t, streams[i], 200, from, 50);
}

CONTRACT(a_stream_that_does_not_exist_is_not_found)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;
    int64_t seq = -1, position = -1;

    append(t, "a", "t");
    REFUSED(EF_NOT_FOUND,
            ef_journal_read_stream(t->journal, str(""), str("b"), 1, 10, &batch, &t->err));
    CHECK_INT(0, batch.count);
    REFUSED(EF_NOT_FOUND,
            ef_journal_read_stream(t->journal, str("acme"), str("a"), 1, 10, &batch, &t->err));
    OK(ef_stream_head(t->journal, str(""), str("b"), &seq, &position, &t->err));
    CHECK_INT(0, seq);
    CHECK_INT(0, position);
    EF_RELEASE(&batch);
}

CONTRACT(an_event_is_read_by_its_id_and_tenant)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.placed");
    ef_batch batch = EF_BATCH_INIT;

    event.id = str("id-1");
    event.tenant = str("acme");
    append(t, "order-1", "order.placed");
    append_event(t, event);
    OK(ef_journal_read_id(t->journal, str("acme"), str("id-1"), &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_INT(2, batch.events[0].position);
    REFUSED(EF_NOT_FOUND, ef_journal_read_id(t->journal, str(""), str("id-1"), &batch, &t->err));
    CHECK_INT(0, batch.count);
    EF_RELEASE(&batch);
}

static void fill_log(contract *t)
{
    static const char *const types[] = {"order.placed", "order.paid", "cart.filled"};

    for (int i = 0; i < 30; i++) {
        ef_new_event event = event_of("s", types[i % 3]);
        event.tenant = str(i % 2 ? "acme" : "");
        append_event(t, event);
    }
}

CONTRACT(the_log_is_read_in_pages_by_position)
{
    contract *t = *state;
    int64_t reached = -1;
    ef_log_query query = {.any_tenant = true, .limit = 7, .out_reached = &reached};
    ef_batch batch = EF_BATCH_INIT;
    int64_t next = 1;

    fill_log(t);
    do {
        OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
        for (size_t i = 0; i < batch.count; i++)
            CHECK_INT(next++, batch.events[i].position);
        CHECK_INT(next - 1, reached);
        query.after = reached;
    } while (batch.more);
    CHECK_INT(31, next);
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(0, batch.count);
    CHECK(!batch.more);
    EF_RELEASE(&batch);
}

/* All positions of a filtered log, read page by page: their sum and number. */
static void read_filtered(contract *t, ef_log_query query, int64_t *count, int64_t *sum)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = 0;

    *count = *sum = 0;
    query.out_reached = &reached;
    do {
        OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
        for (size_t i = 0; i < batch.count; i++) {
            CHECK(batch.events[i].position > query.after);
            *sum += batch.events[i].position;
        }
        *count += (int64_t)batch.count;
        CHECK(reached >= query.after);
        query.after = reached;
    } while (batch.more);
    CHECK_INT(head_of(t), reached);
    EF_RELEASE(&batch);
}

/* The engine may ask for more at once than others may. */
CONTRACT(what_is_followed_has_no_limit_but_the_one_that_is_given)
{
    contract *t = *state;
    static const char *const streams[] = {"a", "b", "c"};
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = 0;

    for (int i = 0; i < 3; i++)
        append_many(t, streams, 3, LONG);
    OK(ef__journal_follow(
        t->journal, &(ef__follow){.reader = str("us"), .after = 1, .limit = EF_READ_LIMIT_MAX + 2},
        &batch, &reached, &t->err));
    CHECK_INT(EF_READ_LIMIT_MAX + 2, batch.count);
    CHECK_INT(EF_READ_LIMIT_MAX + 3, reached);
    CHECK(batch.more);
    for (size_t i = 0; i < batch.count; i++)
        CHECK_INT((int64_t)i + 2, batch.events[i].position);
    EF_RELEASE(&batch);
}

/* However early the follower reads: no event is left out, and each read makes progress. */
CONTRACT(a_waiting_follower_gets_all_events_in_pieces)
{
    contract *t = *state;
    static const char *const streams[] = {"a", "b", "c"};
    static const size_t leasts[] = {0, 1, 7, 50, 51};
    atomic_bool wanted = true;
    ef_batch batch = EF_BATCH_INIT;

    append_many(t, streams, 3, 200);
    for (size_t l = 0; l < sizeof leasts / sizeof leasts[0]; l++) {
        int64_t reached = 0;
        do {
            ef__follow follow = {.reader = str("us"),
                                 .after = reached,
                                 .limit = 50,
                                 .wanted = &wanted,
                                 .least = leasts[l]};
            OK(ef__journal_follow(t->journal, &follow, &batch, &reached, &t->err));
            CHECK(batch.count > 0 && batch.count <= 50);
            CHECK(!batch.more || batch.count >= (leasts[l] < 50 ? leasts[l] : 50));
            for (size_t i = 0; i < batch.count; i++)
                CHECK_INT(follow.after + 1 + (int64_t)i, batch.events[i].position);
            CHECK_INT(follow.after + (int64_t)batch.count, reached);
        } while (batch.more);
        CHECK_INT(200, reached);
    }
    EF_RELEASE(&batch);
}

/* Events of some tenants, streams and types, and of all sizes up to some pages of a store. */
static void append_motley(contract *t, int count)
{
    static char text[20000];
    char stream[16], type[16];

    for (int i = 0; i < count; i++) {
        ef_new_event event = {.tenant = str(i % 2 ? "acme" : ""), .schema = i % 3 + 1};
        (void)snprintf(stream, sizeof stream, "s-%d", i % 7);
        (void)snprintf(type, sizeof type, "t-%d", i % 20);
        (void)snprintf(text, sizeof text, "{\"n\":\"%0*d\"}", i * i * 5 + 1, i);
        event.stream = str(stream);
        event.type = str(type);
        event.data = str(text);
        append_event(t, event);
    }
}

static void is_same(const ef_event *a, const ef_event *b)
{
    CHECK_INT(a->position, b->position);
    CHECK_INT(a->seq, b->seq);
    CHECK_INT(a->schema, b->schema);
    CHECK_INT(a->time_us, b->time_us);
    CHECK_INT(a->recorded_us, b->recorded_us);
    CHECK(ef_str_equal(a->tenant, b->tenant) && ef_str_equal(a->stream, b->stream));
    CHECK(ef_str_equal(a->id, b->id) && ef_str_equal(a->type, b->type));
    CHECK(ef_str_equal(a->data, b->data) && ef_str_equal(a->meta, b->meta));
    CHECK(memcmp(a->hash, b->hash, sizeof a->hash) == 0);
}

/* A store may have a way of its own for who follows. After opening again nothing is remembered of
 * streams: their names are looked up on the way. */
CONTRACT(who_follows_gets_the_events_that_others_read)
{
    contract *t = *state;
    ef_type alias = {.name = str("t-3"), .alias_of = str("t-4")};
    ef_log_query query = {.any_tenant = true, .limit = 100};
    ef_batch followed = EF_BATCH_INIT, read = EF_BATCH_INIT;
    int64_t reached = 0;

    append_motley(t, 60);
    OK(ef_type_set(t->journal, &alias, &t->err));
    if (survives(t))
        reopen(t);
    OK(ef__journal_follow(t->journal, &(ef__follow){.limit = 100}, &followed, &reached, &t->err));
    OK(ef_journal_read_log(t->journal, &query, &read, &t->err));
    CHECK_INT(60, reached);
    CHECK_INT(60, followed.count);
    CHECK_INT(60, read.count);
    CHECK_STR("t-4", followed.events[3].type);
    for (size_t i = 0; i < 60; i++) {
        is_same(&read.events[i], &followed.events[i]);
        CHECK_INT('\0', followed.events[i].data.ptr[followed.events[i].data.len]);
    }
    EF_RELEASE(&read);
    EF_RELEASE(&followed);
}

/* Events of a page share what is remembered of streams and types, and there are more of these than
 * a short page remembers. */
CONTRACT(each_event_of_a_page_has_its_own_names)
{
    contract *t = *state;
    ef_log_query query = {.any_tenant = true, .limit = 3};
    ef_batch batch = EF_BATCH_INIT;
    int64_t at = 0;
    char stream[16], type[16];

    for (int i = 0; i < 60; i++) {
        ef_new_event event = {.tenant = str(i % 2 ? "acme" : "")};
        (void)snprintf(stream, sizeof stream, "s-%d", i % 7);
        (void)snprintf(type, sizeof type, "t-%d", i % 20);
        event.stream = str(stream);
        event.type = str(type);
        append_event(t, event);
    }
    do {
        OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
        for (size_t i = 0; i < batch.count; i++, at++) {
            (void)snprintf(stream, sizeof stream, "s-%d", (int)(at % 7));
            (void)snprintf(type, sizeof type, "t-%d", (int)(at % 20));
            CHECK_STR(at % 2 ? "acme" : "", batch.events[i].tenant);
            CHECK_STR(stream, batch.events[i].stream);
            CHECK_STR(type, batch.events[i].type);
        }
        query.after = at;
        query.limit = query.limit < 40 ? query.limit * 2 : 40;
    } while (batch.more);
    CHECK_INT(60, at);
    EF_RELEASE(&batch);
}

CONTRACT(the_log_is_filtered_by_tenant_and_type)
{
    contract *t = *state;
    int64_t count, sum;

    fill_log(t);
    read_filtered(t, (ef_log_query){.limit = 4}, &count, &sum);
    CHECK_INT(15, count);
    CHECK_INT(225, sum);
    read_filtered(t, (ef_log_query){.any_tenant = true, .type = str("order.*"), .limit = 3}, &count,
                  &sum);
    CHECK_INT(20, count);
    read_filtered(t, (ef_log_query){.any_tenant = true, .type = str("cart.filled"), .limit = 1},
                  &count, &sum);
    CHECK_INT(10, count);
    CHECK_INT(165, sum);
    read_filtered(t, (ef_log_query){.tenant = str("acme"), .type = str("cart*")}, &count, &sum);
    CHECK_INT(5, count);
    read_filtered(t, (ef_log_query){.any_tenant = true, .type = str("order")}, &count, &sum);
    CHECK_INT(0, count);
}

CONTRACT(a_batch_that_ends_exactly_at_its_limit_says_whether_there_is_more)
{
    contract *t = *state;
    ef_log_query query = {.any_tenant = true, .limit = 10};
    ef_batch batch = EF_BATCH_INIT;

    for (int i = 0; i < 10; i++)
        append(t, "a", "t");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(10, batch.count);
    CHECK(!batch.more);
    append(t, "a", "t");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK(batch.more);
    EF_RELEASE(&batch);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void *append_soon(void *context)
{
    contract *t = context;
    struct timespec nap = {0, 50 * 1000000};
    ef_new_event event = event_of("late", "t");
    ef_place place;
    ef_error err = EF_ERROR_INIT;

    (void)nanosleep(&nap, NULL); /* so that the other thread is most likely waiting already */
    return ef_journal_append(t->journal, &event, 1, &place, &err) == EF_OK ? t : NULL;
}

CONTRACT(waiting_ends_when_another_thread_appends)
{
    contract *t = *state;
    pthread_t thread;
    void *appended = NULL;

    CHECK_INT(0, pthread_create(&thread, NULL, append_soon, t));
    OK(ef_journal_wait(t->journal, 0, 30000, &t->err));
    CHECK_INT(0, pthread_join(thread, &appended));
    CHECK(appended == t);
    CHECK_INT(1, head_of(t));
}

CONTRACT(waiting_ends_at_once_or_in_time)
{
    contract *t = *state;

    REFUSED(EF_TIMEOUT, ef_journal_wait(t->journal, 0, 20, &t->err));
    append(t, "a", "t");
    OK(ef_journal_wait(t->journal, 0, 0, &t->err));
    REFUSED(EF_TIMEOUT, ef_journal_wait(t->journal, 1, 0, &t->err));
}

static void *wake_soon(void *context)
{
    contract *t = context;
    struct timespec nap = {0, 50 * 1000000};

    (void)nanosleep(&nap, NULL);
    ef__journal_wake(t->journal);
    return t;
}

CONTRACT(a_wake_ends_a_wait_that_minds_it)
{
    contract *t = *state;
    int64_t wake = 0, other = 0;
    pthread_t thread;

    REFUSED(EF_TIMEOUT, ef__journal_wait(t->journal, 0, &wake, 0, &t->err));
    CHECK_INT(0, pthread_create(&thread, NULL, wake_soon, t));
    OK(ef__journal_wait(t->journal, 0, &wake, 30000, &t->err));
    CHECK_INT(0, pthread_join(thread, NULL));

    /* Each waiter sees the wake-up once, however late it waits. */
    REFUSED(EF_TIMEOUT, ef__journal_wait(t->journal, 0, &wake, 0, &t->err));
    OK(ef__journal_wait(t->journal, 0, &other, 0, &t->err));
    REFUSED(EF_TIMEOUT, ef__journal_wait(t->journal, 0, &other, 0, &t->err));
    ef__journal_wake(t->journal);
    REFUSED(EF_TIMEOUT, ef_journal_wait(t->journal, 0, 20, &t->err));
    OK(ef__journal_wait(t->journal, 0, &wake, 30000, &t->err));
}

/* A waiter for wake-ups only is not woken by appends. PostgreSQL notifies both on one channel. */
CONTRACT(a_wait_for_wakes_alone_does_not_end_with_an_append)
{
    contract *t = *state;
    int64_t wake = 0;
    pthread_t thread;

    append(t, "a", "t");
    if (strcmp(t->backend, "postgres") != 0)
        REFUSED(EF_TIMEOUT, ef__journal_wait(t->journal, EF__NO_APPENDS, &wake, 20, &t->err));
    CHECK_INT(0, pthread_create(&thread, NULL, wake_soon, t));
    OK(ef__journal_wait(t->journal, EF__NO_APPENDS, &wake, 30000, &t->err));
    CHECK_INT(0, pthread_join(thread, NULL));
}

/* A wake-up outlives the handle that sent it, and works on every journal. */
CONTRACT(a_wake_is_seen_through_another_handle)
{
    contract *t = *state;
    ef_journal *other;
    int64_t wake = 0;

    if (!survives(t))
        return;
    append(t, "a", "t");
    OK(ef_journal_open(&t->options, &other, &t->err));
    REFUSED(EF_TIMEOUT, ef__journal_wait(other, 1, &wake, 50, &t->err));
    ef__journal_wake(t->journal);
    OK(ef__journal_wait(other, 1, &wake, 30000, &t->err));
    REFUSED(EF_TIMEOUT, ef__journal_wait(other, 1, &wake, 0, &t->err));
    ef_journal_close(other);
    reopen(t);
    append(t, "a", "t");
    CHECK_INT(2, head_of(t));
}

static void *append_hundred(void *context)
{
    contract *t = context;
    char stream[32];
    ef_error err = EF_ERROR_INIT;
    static atomic_int number;

    (void)snprintf(stream, sizeof stream, "thread-%d", atomic_fetch_add(&number, 1));
    for (int i = 0; i < 100; i++) {
        ef_new_event event = event_of(stream, "t");
        ef_place place;
        event.expected_seq = ef_expect_seq(i);
        if (ef_journal_append(t->journal, &event, 1, &place, &err) != EF_OK || place.seq != i + 1)
            return NULL;
    }
    return t;
}

CONTRACT(threads_append_side_by_side_without_a_hole)
{
    contract *t = *state;
    pthread_t threads[4];
    void *done = NULL;
    ef_verify_result result;

    for (int i = 0; i < 4; i++)
        CHECK_INT(0, pthread_create(&threads[i], NULL, append_hundred, t));
    for (int i = 0; i < 4; i++) {
        CHECK_INT(0, pthread_join(threads[i], &done));
        CHECK(done == t);
    }
    CHECK_INT(400, head_of(t));
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(400, result.checked);
}

/* --- streams and types ------------------------------------------------------------------------ */

CONTRACT(streams_are_listed_in_pages_in_the_order_of_their_first_event)
{
    contract *t = *state;
    ef_stream_list list = {0};
    char name[32], after[EF_CURSOR_MAX] = "";
    int seen = 0, pages = 0;

    for (int i = 0; i < 25; i++) {
        (void)snprintf(name, sizeof name, "stream-%d", (i * 7) % 25);
        append(t, name, "t");
    }
    append(t, "stream-0", "t");
    do {
        OK(ef_stream_ls(t->journal, str(""), false, str(after), 10, &list, &t->err));
        for (size_t i = 0; i < list.count; i++, seen++) {
            (void)snprintf(name, sizeof name, "stream-%d", (seen * 7) % 25);
            CHECK_STR(name, list.items[i].name);
            CHECK_INT(seen == 0 ? 2 : 1, list.items[i].seq);
            CHECK_INT(seen == 0 ? 26 : seen + 1, list.items[i].position);
        }
        (void)snprintf(after, sizeof after, "%s", list.next);
        pages++;
    } while (after[0]);
    CHECK_INT(25, seen);
    CHECK_INT(3, pages);
    EF_RELEASE(&list);
}

CONTRACT(a_page_that_ends_with_the_last_stream_has_no_next)
{
    contract *t = *state;
    ef_stream_list list = {0};

    append(t, "a", "t");
    append(t, "b", "t");
    OK(ef_stream_ls(t->journal, str(""), false, str(""), 2, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_TEXT("", list.next);
    OK(ef_stream_ls(t->journal, str(""), false, str(""), 1, &list, &t->err));
    CHECK(list.next[0] != '\0');
    EF_RELEASE(&list);
}

CONTRACT(streams_are_listed_by_tenant)
{
    contract *t = *state;
    ef_stream_list list = {0};

    fill_log(t);
    OK(ef_stream_ls(t->journal, str("acme"), false, str(""), 10, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("acme", list.items[0].tenant);
    CHECK_INT(15, list.items[0].seq);
    CHECK_TEXT("", list.next);
    OK(ef_stream_ls(t->journal, str(""), true, str(""), 10, &list, &t->err));
    CHECK_INT(2, list.count);
    OK(ef_stream_ls(t->journal, str("nobody"), false, str(""), 10, &list, &t->err));
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
}

CONTRACT(a_type_is_registered_by_its_first_event)
{
    contract *t = *state;
    ef_type_list list = {0};

    REFUSED(EF_NOT_FOUND, ef_type_ls(t->journal, &EF_STR("order.placed"), &list, &t->err));
    append(t, "a", "order.placed");
    OK(ef_type_ls(t->journal, &EF_STR("order.placed"), &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_INT(EF_INTENT_PROJECTION_AND_REPLAY, list.items[0].intent);
    CHECK(!list.items[0].publish);
    CHECK_STR("", list.items[0].alias_of);
    EF_RELEASE(&list);
}

CONTRACT(types_are_set_changed_and_listed_by_name)
{
    contract *t = *state;
    ef_type zebra = {.name = str("zebra"), .intent = EF_INTENT_AUDIT_ONLY, .publish = true};
    ef_type_list list = {0};

    OK(ef_type_set(t->journal, &zebra, &t->err));
    append(t, "a", "middle");
    append(t, "a", "Alpha");
    OK(ef_type_ls(t->journal, NULL, &list, &t->err));
    CHECK_INT(3, list.count);
    CHECK_STR("Alpha", list.items[0].name);
    CHECK_STR("middle", list.items[1].name);
    CHECK_STR("zebra", list.items[2].name);
    CHECK_INT(EF_INTENT_AUDIT_ONLY, list.items[2].intent);
    CHECK(list.items[2].publish);
    zebra.publish = false;
    OK(ef_type_set(t->journal, &zebra, &t->err));
    OK(ef_type_ls(t->journal, &EF_STR("zebra"), &list, &t->err));
    CHECK(!list.items[0].publish);
    EF_RELEASE(&list);
}

CONTRACT(an_event_of_an_alias_is_read_under_the_canonical_name)
{
    contract *t = *state;
    ef_type canonical = {.name = str("order.placed")};
    ef_type alias = {.name = str("OrderPlaced"), .alias_of = str("order.placed")};
    ef_log_query query = {.type = str("order.placed")};
    ef_batch batch = EF_BATCH_INIT;
    ef_verify_result result;

    append(t, "a", "OrderPlaced");
    OK(ef_type_set(t->journal, &canonical, &t->err));
    OK(ef_type_set(t->journal, &alias, &t->err));
    append(t, "a", "OrderPlaced");
    append(t, "a", "order.placed");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(3, batch.count);
    for (size_t i = 0; i < 3; i++)
        CHECK_STR("order.placed", batch.events[i].type);
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    EF_RELEASE(&batch);
}

CONTRACT(an_alias_points_at_no_alias_and_not_at_itself)
{
    contract *t = *state;
    ef_type canonical = {.name = str("c")};
    ef_type alias = {.name = str("b"), .alias_of = str("c")};
    ef_type bad = {.name = str("a"), .alias_of = str("b")};

    OK(ef_type_set(t->journal, &canonical, &t->err));
    OK(ef_type_set(t->journal, &alias, &t->err));
    REFUSED(EF_BAD_INPUT, ef_type_set(t->journal, &bad, &t->err));
    bad = (ef_type){.name = str("a"), .alias_of = str("a")};
    REFUSED(EF_BAD_INPUT, ef_type_set(t->journal, &bad, &t->err));
    bad = (ef_type){.name = str("c"), .alias_of = str("d")};
    REFUSED(EF_BAD_INPUT, ef_type_set(t->journal, &bad, &t->err));
}

CONTRACT_MAIN(
    CASE(a_long_stream_is_read_from_anywhere),
    CASE(a_long_stream_is_read_the_same_after_opening_again),
    CASE(interleaved_streams_are_read_apart), CASE(a_stream_that_does_not_exist_is_not_found),
    CASE(an_event_is_read_by_its_id_and_tenant), CASE(the_log_is_read_in_pages_by_position),
    CASE(what_is_followed_has_no_limit_but_the_one_that_is_given),
    CASE(a_waiting_follower_gets_all_events_in_pieces),
    CASE(who_follows_gets_the_events_that_others_read),
    CASE(each_event_of_a_page_has_its_own_names), CASE(the_log_is_filtered_by_tenant_and_type),
    CASE(a_batch_that_ends_exactly_at_its_limit_says_whether_there_is_more),
    CASE(waiting_ends_when_another_thread_appends), CASE(waiting_ends_at_once_or_in_time),
    CASE(a_wake_ends_a_wait_that_minds_it), CASE(a_wake_is_seen_through_another_handle),
    CASE(a_wait_for_wakes_alone_does_not_end_with_an_append),
    CASE(threads_append_side_by_side_without_a_hole),
    CASE(streams_are_listed_in_pages_in_the_order_of_their_first_event),
    CASE(a_page_that_ends_with_the_last_stream_has_no_next), CASE(streams_are_listed_by_tenant),
    CASE(a_type_is_registered_by_its_first_event), CASE(types_are_set_changed_and_listed_by_name),
    CASE(an_event_of_an_alias_is_read_under_the_canonical_name),
    CASE(an_alias_points_at_no_alias_and_not_at_itself))
