/*
 * test_publish.c - the publisher driver: order, failures, sinks that are unavailable or lose
 * messages, owners that crash between delivery and ack.
 */
#include "engine_fixture.h"

#include "../../src/engine/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DELIVERED_MAX 4096

/* A sink that records its messages, and fails where the test sets it to. */
typedef struct fake {
    ef__bus base;
    fixture *f;
    char got[DELIVERED_MAX]; /* "a1 b1 a2 " */
    char keys[DELIVERED_MAX];
    int64_t fails[8]; /* positions that fail */
    int64_t refuses;  /* one that is refused for good */
    bool down;
    int64_t takes_us;  /* duration of a call */
    size_t at_most;    /* messages of a call; 0: all */
    bool forgets;      /* it has lost something, which a look shows */
    int64_t forgotten; /* number of lost messages */
    int looks;         /* that asked it */
    char noted[64];    /* the sink position of the last check */
    const char *says;  /* its progress */
    ef_engine *other;  /* works while the next call lasts, and the sink forgets what it had */
    char queued[256];  /* overlapping: rows that were there while messages were on their way */
    int loses_at;      /* the call that finds that it has lost what it had */
    int calls;
    bool *closed;
} fake;

static bool fails_on(const fake *s, int64_t position)
{
    for (size_t i = 0; i < 8; i++)
        if (s->fails[i] == position)
            return true;
    return false;
}

static void remember(char *text, const char *format, ef_str name, int64_t seq)
{
    size_t len = strlen(text);

    (void)snprintf(text + len, DELIVERED_MAX - len, format, EF_STR_ARG(name), seq);
}

/* Another worker has the publisher by the time that the call is over. */
static void overtake(fake *s)
{
    fixture *f = s->f;
    ef_tick t;

    for (int i = 0; i < 4; i++)
        OK(ef_engine_work(s->other, NULL, &t, &f->err));
    s->other = NULL;
    s->takes_us = 0;
    s->base.lost = true;
}

/* Rows of the lane, in flight or not. */
static int64_t queued_of(fixture *f)
{
    ef_outbox_summary summary = summary_of(f, "mail");

    return summary.pending + summary.processing;
}

static void let_overlap(fake *s)
{
    size_t len = strlen(s->queued);

    while (ef__bus_meanwhile(&s->base))
        ;
    (void)snprintf(s->queued + len, sizeof s->queued - len, "%" PRId64 " ", queued_of(s->f));
}

static ef_status fake_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    fake *s = (fake *)bus;

    (void)now_us;
    s->calls++;
    bus->lost = bus->lost || s->calls == s->loses_at;
    if (bus->ops->overlaps && !bus->lost)
        let_overlap(s);
    if (s->down)
        return ef_fail(err, EF_IO, "it is down");
    for (size_t i = 0; i < count && !bus->lost; i++) {
        const ef_event *event = messages[i].event;
        bool behind = false;
        for (size_t j = 0; j < i; j++)
            behind = behind || (messages[j].group == messages[i].group &&
                                outcomes[j].verdict != EF__BUS_DELIVERED);
        if (behind || (s->at_most && i >= s->at_most))
            continue;
        if (event->position == s->refuses) {
            ef__bus_fail(&outcomes[i], EF__BUS_REFUSED, arena, "never");
        } else if (fails_on(s, event->position)) {
            ef__bus_fail(&outcomes[i], EF__BUS_FAILED, arena, "no");
        } else {
            outcomes[i].verdict = EF__BUS_DELIVERED;
            remember(s->got, "%.*s%" PRId64 " ", event->stream, event->seq);
            remember(s->keys, "%.*s/%" PRId64 " ", messages[i].key, event->seq);
        }
    }
    pass_time(s->f, s->takes_us);
    if (s->other)
        overtake(s);
    return EF_OK;
}

static void fake_close(ef__bus *bus)
{
    fake *s = (fake *)bus;

    if (s->closed)
        *s->closed = true;
    ef__bus_release(bus);
}

static ef_status fake_look(ef__bus *bus, ef_str progress, bool now, ef_error *err)
{
    fake *s = (fake *)bus;

    if (!now)
        return EF_OK;
    s->looks++;
    (void)snprintf(s->noted, sizeof s->noted, "%.*s", EF_STR_ARG(progress));
    if (s->down)
        return ef_fail(err, EF_IO, "it is down");
    bus->lost = bus->lost || s->forgets;
    bus->lost_count = s->forgotten;
    s->forgets = false;
    return EF_OK;
}

static ef_str fake_progress(ef__bus *bus)
{
    return ef_str_from(((fake *)bus)->says ? ((fake *)bus)->says : "");
}

static const ef__bus_ops fake_ops = {.name = "fake",
                                     .batch_max = 4000,
                                     .grouped = true,
                                     .deliver = fake_deliver,
                                     .check_loss = fake_look,
                                     .progress = fake_progress,
                                     .close = fake_close};

static const ef__bus_ops overlapping_ops = {.name = "fake",
                                            .batch_max = 3,
                                            .grouped = true,
                                            .overlaps = true,
                                            .deliver = fake_deliver,
                                            .check_loss = fake_look,
                                            .progress = fake_progress,
                                            .close = fake_close};

static void publish_type(fixture *f, const char *type)
{
    OK(ef_type_set(f->journal, &(ef_type){.name = ef_str_from(type), .publish = true}, &f->err));
}

static ef_publisher to_file(fixture *f)
{
    static char url[160];

    (void)snprintf(url, sizeof url, "file:%s/out.ndjson", f->folder);
    return (ef_publisher){.name = EF_STR("mail"), .url = ef_str_from(url)};
}

static void set(fixture *f, ef_publisher p)
{
    OK(ef_publisher_set(f->journal, &p, &f->err));
}

static ef__publisher_task *publishing(ef_engine *engine)
{
    return engine->publishers.first;
}

/* Put the fake in the place of the sink of the only publisher. */
static void use_fake(fixture *f, ef_engine *engine, fake *s)
{
    ef__publisher_task *p;

    tick(f);
    p = publishing(engine);
    CHECK(p && p->bus);
    ef__bus_close(p->bus);
    s->f = f;
    OK(ef__bus_init(&s->base, &fake_ops, &(ef__bus_options){.url = EF_STR("fake:")}, &f->err));
    p->bus = &s->base;
}

/* A publisher with a fake sink. */
static void start(fixture *f, fake *s, ef_publisher more)
{
    ef_publisher p;

    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    publish_type(f, "sent");
    p = to_file(f);
    p.attempts_max = more.attempts_max;
    p.retain_ms = more.retain_ms;
    p.partition_by = more.partition_by;
    p.types = more.types;
    set(f, p);
    use_fake(f, f->engine, s);
}

static void send(fixture *f, const char *stream)
{
    append(f, stream, "sent", "{\"of\":\"a\"}");
}

/* With a sink that overlaps, in batches of three, and events of two streams in turns. */
static void start_overlapping(fixture *f, fake *s, int of_a, int of_b)
{
    start(f, s, (ef_publisher){.retain_ms = 60000});
    s->base.ops = &overlapping_ops;
    for (int i = 0; i < of_a || i < of_b; i++) {
        if (i < of_a)
            send(f, "a");
        if (i < of_b)
            send(f, "b");
    }
}

static ef_publisher_health health(fixture *f)
{
    ef_publisher_health is = {.name = ""};

    CHECK_INT(1, ef_engine_publishers(f->engine, &is, 1));
    return is;
}

/* --- order and failures ----------------------------------------------------------------------- */

static void published_events_are_delivered_in_order_and_their_rows_removed(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};
    ef_tick t;

    (void)state;
    start(f, &s, (ef_publisher){0});
    send(f, "a");
    append(f, "a", "secret", "{}");
    send(f, "b");
    send(f, "a");
    t = drain(f);
    CHECK_TEXT("a1 b1 a3 ", s.got);
    CHECK_INT(3, t.published);
    CHECK_INT(0, summary_of(f, "mail").pending);
    CHECK_INT(3, health(f).published);
    fixture_close(f);
}

static void a_failed_message_blocks_its_own_stream_only(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.fails = {1}};

    (void)state;
    start(f, &s, (ef_publisher){0});
    send(f, "a"); /* fails */
    send(f, "b");
    send(f, "a");
    CHECK_INT(1, drain(f).failed);
    CHECK_TEXT("b1 ", s.got);
    send(f, "a");
    send(f, "b");
    drain(f);
    CHECK_TEXT("b1 b2 ", s.got);
    CHECK_INT(1, summary_of(f, "mail").failed);
    CHECK_INT(2, summary_of(f, "mail").pending);
    s.fails[0] = 0;
    pass_time(f, 59 * SECOND);
    drain(f);
    CHECK_TEXT("b1 b2 ", s.got);
    pass_time(f, 2 * SECOND);
    drain(f);
    CHECK_TEXT("b1 b2 a1 a2 a3 ", s.got);
    CHECK_INT(0, summary_of(f, "mail").pending);
    fixture_close(f);
}

static void a_message_is_retried_up_to_its_attempt_limit(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.fails = {1}};
    ef_row_list rows = {0};

    (void)state;
    start(f, &s, (ef_publisher){.attempts_max = 3});
    send(f, "a");
    send(f, "a");
    for (int i = 0; i < 5; i++) {
        drain(f);
        pass_time(f, 61 * SECOND);
    }
    CHECK_INT(1, summary_of(f, "mail").dead);
    CHECK_INT(1, summary_of(f, "mail").blocked);
    CHECK_INT(3, health(f).failed);
    CHECK_INT(1, health(f).dead);
    s.fails[0] = 0;
    OK(ef_outbox_requeue_dead(
        f->journal, &(ef_outbox_bulk){.lane = EF_STR("mail"), .actor = EF_STR("me"), .limit = 10},
        NULL, &rows, &f->err));
    drain(f);
    CHECK_TEXT("a1 a2 ", s.got);
    EF_RELEASE(&rows);
    fixture_close(f);
}

static void a_message_refused_for_good_is_dead_at_once_and_can_be_skipped(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.refuses = 1};
    ef_row_list rows = {0};
    ef_outbox_action act = {.stream = EF_STR("a"),
                            .seq = 1,
                            .lane = EF_STR("mail"),
                            .actor = EF_STR("me"),
                            .reason = EF_STR("too large for them")};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    send(f, "a");
    drain(f);
    CHECK_INT(1, summary_of(f, "mail").dead);
    OK(ef__outbox_skip(f->journal, &act, &rows, &f->err));
    drain(f);
    CHECK_TEXT("a2 ", s.got);
    CHECK_INT(0, summary_of(f, "mail").dead);
    EF_RELEASE(&rows);
    fixture_close(f);
}

/* --- an unavailable sink ---------------------------------------------------------------------- */

static void a_sink_that_is_down_costs_no_attempts_and_nothing_is_lost(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = true};

    (void)state;
    start(f, &s, (ef_publisher){.attempts_max = 1});
    send(f, "a");
    send(f, "a");
    for (int i = 0; i < 20; i++) {
        drain(f);
        pass_time(f, 31 * SECOND);
    }
    CHECK_INT(20, s.calls + s.looks); /* the next holder checks first */
    CHECK_INT(EF_PUBLISHER_RETRYING, health(f).state);
    CHECK_TEXT("it is down", health(f).last_error.text);
    CHECK_INT(0, summary_of(f, "mail").failed);
    CHECK_INT(2, summary_of(f, "mail").pending + summary_of(f, "mail").processing);
    s.down = false;
    drain(f);
    CHECK_TEXT("a1 a2 ", s.got);
    CHECK_INT(EF_PUBLISHER_IDLE, health(f).state);
    CHECK_INT(0, health(f).failures_in_a_row);
    fixture_close(f);
}

static void a_message_that_was_not_tried_in_time_stays_queued(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.at_most = 2};

    (void)state;
    start(f, &s, (ef_publisher){0});
    for (int i = 0; i < 5; i++)
        send(f, "a");
    drain(f);
    CHECK_TEXT("a1 a2 a3 a4 a5 ", s.got);
    CHECK_INT(0, summary_of(f, "mail").failed);
    fixture_close(f);
}

/* The stored sink position. */
static void check_noted(fixture *f, const char *expected)
{
    ef_lane_list lanes = {0};

    OK(ef_lane_ls(f->journal, &lanes, &f->err));
    for (size_t i = 0; i < lanes.count; i++)
        if (ef_str_equal(lanes.items[i].name, EF_STR("mail")))
            CHECK_STR(expected, lanes.items[i].progress);
    EF_RELEASE(&lanes);
}

/* --- batches that overlap --------------------------------------------------------------------- */

static void a_batch_is_acknowledged_while_the_next_one_is_delivered(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.says = "{\"at\":1}"};

    (void)state;
    start_overlapping(f, &s, 4, 4);
    tick(f);
    CHECK_TEXT("a1 b1 a2 b2 a3 b3 a4 b4 ", s.got);
    CHECK_TEXT("8 5 2 ", s.queued);
    CHECK_INT(0, queued_of(f));
    CHECK_INT(8, health(f).published);
    drain(f);
    CHECK_INT(3, s.calls);
    fixture_close(f);
}

/* What was taken behind it was taken too early: it is taken again, and waits for its stream. */
static void rows_claimed_ahead_are_blocked_by_a_failure(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.fails = {1}};

    (void)state;
    start_overlapping(f, &s, 4, 4);
    drain(f);
    CHECK_TEXT("b1 b2 b3 b4 ", s.got);
    s.fails[0] = 0;
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK_TEXT("b1 b2 b3 b4 a1 a2 a3 a4 ", s.got);
    CHECK_INT(8, health(f).published);
    fixture_close(f);
}

static void a_sink_that_goes_down_between_batches_loses_nothing(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.at_most = 2};

    (void)state;
    start_overlapping(f, &s, 7, 0);
    tick(f); /* the third is not tried in time: it ends there */
    CHECK_TEXT("a1 a2 ", s.got);
    CHECK_INT(5, queued_of(f));
    s.at_most = 0;
    s.down = true;
    tick(f);
    CHECK_INT(5, queued_of(f));
    s.down = false;
    pass_time(f, 31 * SECOND);
    drain(f);
    CHECK_TEXT("a1 a2 a3 a4 a5 a6 a7 ", s.got);
    CHECK_INT(0, queued_of(f));
    fixture_close(f);
}

/* An ack without the sink position would hide the loss from a worker that takes over before the
 * redelivery. */
static void a_message_lost_between_batches_is_not_acknowledged(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.says = "{\"at\":3}", .loses_at = 2};

    (void)state;
    start_overlapping(f, &s, 7, 0);
    tick(f);
    CHECK_TEXT("a1 a2 a3 ", s.got);
    CHECK_INT(7, queued_of(f));
    check_noted(f, "");
    drain(f);
    CHECK_TEXT("a1 a2 a3 a1 a2 a3 a4 a5 a6 a7 ", s.got);
    CHECK_INT(7, health(f).published);
    check_noted(f, "{\"at\":3}");
    fixture_close(f);
}

/* Both batches that it had in doubt come again, in order. */
static void a_lease_lost_between_batches_delivers_them_again(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.takes_us = 0};

    (void)state;
    start_overlapping(f, &s, 7, 0);
    s.takes_us = 3600 * SECOND;
    tick(f);
    s.takes_us = 0;
    drain(f);
    CHECK_TEXT("a1 a2 a3 a1 a2 a3 a4 a5 a6 a7 ", s.got);
    CHECK_INT(0, queued_of(f));
    fixture_close(f);
}

/* --- owners that vanish ----------------------------------------------------------------------- */

static void a_lease_lost_before_the_ack_delivers_again(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.takes_us = 3600 * SECOND};

    (void)state;
    start(f, &s, (ef_publisher){0});
    send(f, "a");
    send(f, "a");
    tick(f); /* delivered, but the ack came too late */
    CHECK_TEXT("a1 a2 ", s.got);
    s.takes_us = 0;
    drain(f);
    CHECK(strcmp(s.got, "a1 a2 a1 a2 ") == 0 || strcmp(s.got, "a1 a2 a1 a2 a2 ") == 0);
    CHECK_INT(0, summary_of(f, "mail").pending);
    fixture_close(f);
}

/* A second worker, with a fake sink of its own, that has heard of the first and been heard. */
static ef_engine *second_worker(fixture *f, fake *sink)
{
    ef_engine *engine = fixture_engine(f, "second");
    ef_tick t;

    for (int i = 0; i < 8; i++) {
        OK(ef_engine_work(engine, NULL, &t, &f->err));
        if (i == 0) {
            ef__bus_close(publishing(engine)->bus);
            sink->f = f;
            OK(ef__bus_init(&sink->base, &fake_ops, &(ef__bus_options){.url = EF_STR("fake:")},
                            &f->err));
            publishing(engine)->bus = &sink->base;
        }
        tick(f);
        pass_time(f, 11 * SECOND);
    }
    return engine;
}

static void send_many(fixture *f, ef_engine *second, int from, int to)
{
    ef_tick t;

    for (int i = from; i < to; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d-", i);
        send(f, name);
    }
    for (int i = 0; i < 4; i++) {
        OK(ef_engine_work(second, NULL, &t, &f->err));
        tick(f);
    }
}

static void one_worker_at_a_time_holds_a_publisher(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.says = "{\"at\":40}"}, other = {.says = "{\"at\":40}"};
    ef_engine *second;
    bool first;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    if (!fixture_has_files(f)) {
        fixture_close(f);
        return;
    }
    publish_type(f, "sent");
    set(f, to_file(f));
    use_fake(f, f->engine, &s);
    second = second_worker(f, &other);
    send_many(f, second, 0, 40);
    CHECK_INT(0, summary_of(f, "mail").pending);
    CHECK(!s.got[0] != !other.got[0]);
    first = s.got[0];
    ef_engine_close(s.got[0] ? f->engine : second);
    if (s.got[0])
        f->engine = second;
    pass_time(f, 11 * SECOND);
    send_many(f, f->engine, 40, 80);
    CHECK_INT(0, summary_of(f, "mail").pending);
    CHECK(s.got[0] && other.got[0]);
    CHECK_TEXT("{\"at\":40}", first ? other.noted : s.noted); /* what the first one noted */
    fixture_close(f);
}

/* How often `name` was delivered. */
static int times_got(const fake *s, const char *name)
{
    int times = 0;

    for (const char *at = s->got; (at = strstr(at, name)); at++)
        times += at == s->got || at[-1] == ' ';
    return times;
}

static void divide(ef_engine *engine)
{
    static ef__bus_ops divided_ops;

    divided_ops = fake_ops;
    divided_ops.spreads = true;
    divided_ops.check_loss = NULL;
    divided_ops.progress = NULL;
    ((fake *)publishing(engine)->bus)->base.ops = &divided_ops;
    publishing(engine)->membership.next_beat_us = 0;
}

/* The first worker, then both, then the second one, which takes over what the first one leaves. */
static void workers_share_a_publisher_whose_sink_permits_it(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false}, other = {.down = false};
    ef_partition_sync_result changed;
    ef_engine *second;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    if (!fixture_has_files(f)) {
        fixture_close(f);
        return;
    }
    publish_type(f, "sent");
    set(f, to_file(f));
    use_fake(f, f->engine, &s);
    second = second_worker(f, &other);
    divide(f->engine);
    divide(second);
    for (int i = 0; i < 8; i++) { /* leases move */
        pass_time(f, 2 * SECOND);
        send_many(f, second, i * 5, i * 5 + 5);
    }
    OK(ef_partition_sync(f->journal, &(ef_partition_change){.count = 5}, &changed, &f->err));
    send_many(f, second, 0, 40);
    send_many(f, second, 0, 40);
    CHECK_INT(0, summary_of(f, "mail").pending);
    CHECK(publishing(f->engine)->health.published > 20);
    CHECK(publishing(second)->health.published > 20);
    for (int i = 0; i < 40; i++) {
        char third[16], whole[16];
        (void)snprintf(third, sizeof third, "s%d-3 ", i);
        (void)snprintf(whole, sizeof whole, "s%d-", i);
        CHECK_INT(3, times_got(&s, whole) + times_got(&other, whole));
        CHECK_INT(1, times_got(&s, third) + times_got(&other, third));
    }
    ef_engine_close(f->engine);
    f->engine = second;
    pass_time(f, 4 * SECOND); /* a beat of the queue, not of the publisher */
    send_many(f, f->engine, 0, 40);
    CHECK_INT(0, summary_of(f, "mail").pending);
    CHECK_INT(160, publishing(second)->health.published + times_got(&s, "s"));
    fixture_close(f);
}

static void a_change_of_the_partition_count_keeps_the_order_of_streams(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = true};
    ef_partition_sync_result changed;

    (void)state;
    start(f, &s, (ef_publisher){0});
    send(f, "a");
    drain(f);
    OK(ef_partition_sync(f->journal, &(ef_partition_change){.count = 31}, &changed, &f->err));
    send(f, "a"); /* in another partition of "*" than the one before it */
    s.down = false;
    pass_time(f, 31 * SECOND);
    drain(f);
    CHECK_TEXT("a1 a2 ", s.got);
    fixture_close(f);
}

/* --- operators -------------------------------------------------------------------------------- */

static void a_paused_publisher_queues_and_continues_when_resumed(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};
    ef_publisher p;
    bool closed = false;

    (void)state;
    s.closed = &closed;
    start(f, &s, (ef_publisher){0});
    send(f, "a");
    drain(f);
    p = to_file(f);
    p.paused = true;
    set(f, p);
    send(f, "a");
    drain(f);
    CHECK(closed);
    CHECK_TEXT("a1 ", s.got);
    CHECK_INT(EF_PUBLISHER_PAUSED, health(f).state);
    CHECK_INT(1, summary_of(f, "mail").pending);
    p.paused = false;
    set(f, p);
    use_fake(f, f->engine, &s);
    drain(f);
    CHECK_INT(0, summary_of(f, "mail").pending);
    fixture_close(f);
}

static void a_removed_publisher_leaves_no_lease(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.fails = {1}};
    ef_lease_kind kind = EF_LEASE_PUBLISHER;
    ef_lease_list leases = {0};

    (void)state;
    start(f, &s, (ef_publisher){0});
    send(f, "a");
    drain(f);
    REFUSED(EF_EXISTS, ef_publisher_remove(f->journal, EF_STR("mail"), false, NULL, &f->err));
    OK(ef_publisher_remove(f->journal, EF_STR("mail"), true, NULL, &f->err));
    REFUSED(EF_NOT_FOUND, ef_publisher_remove(f->journal, EF_STR("mail"), true, NULL, &f->err));
    drain(f);
    tick(f);
    CHECK(!publishing(f->engine));
    OK(ef_lease_ls(f->journal, &kind, &leases, &f->err));
    for (size_t i = 0; i < leases.count; i++)
        CHECK(!leases.items[i].live);
    EF_RELEASE(&leases);
    fixture_close(f);
}

static void lost_messages_are_redelivered_before_new_ones(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    send(f, "b");
    drain(f);
    CHECK_TEXT("a1 b1 ", s.got);
    s.base.lost = true;
    send(f, "a");
    drain(f);
    CHECK_TEXT("a1 b1 a1 b1 a2 ", s.got);
    CHECK_INT(2, health(f).republished);
    pass_time(f, 71 * SECOND); /* what is kept no longer cannot be */
    drain(f);
    s.base.lost = true;
    drain(f);
    CHECK_TEXT("a1 b1 a1 b1 a2 ", s.got);
    fixture_close(f);
}

static void a_late_worker_stores_no_sink_position_and_redelivers_nothing(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.says = "{\"at\":3}"}, other = {.says = "{\"at\":3}"};
    fake *late, *now;
    ef_publisher p;
    ef_engine *second;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    if (!fixture_has_files(f)) {
        fixture_close(f);
        return;
    }
    publish_type(f, "sent");
    p = to_file(f);
    p.retain_ms = 36000000;
    set(f, p);
    use_fake(f, f->engine, &s);
    second = second_worker(f, &other);
    send_many(f, second, 0, 3);
    late = s.got[0] ? &s : &other;
    now = s.got[0] ? &other : &s;
    check_noted(f, "{\"at\":3}");
    late->says = "{\"at\":4}";
    now->says = "{\"at\":9}";
    late->takes_us = 3600 * SECOND;
    late->other = s.got[0] ? second : f->engine;
    send_many(f, second, 3, 4);
    CHECK(!late->other && !late->base.lost); /* another worker holds it now */
    CHECK_TEXT("s3-1 ", now->got);
    check_noted(f, "{\"at\":9}");
    send_many(f, second, 4, 5);
    CHECK_TEXT("s3-1 s4-1 ", now->got);
    CHECK_INT(0,
              publishing(f->engine)->health.republished + publishing(second)->health.republished);
    ef_engine_close(second);
    fixture_close(f);
}

static void the_sink_position_is_stored_with_every_batch(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.says = "{\"at\":1}"};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    drain(f);
    check_noted(f, "{\"at\":1}");
    s.says = "{\"at\":2}"; /* at once, as far as clocks go */
    send(f, "a");
    drain(f);
    check_noted(f, "{\"at\":2}");
    fixture_close(f);
}

static void purging_keeps_up_with_publishing(void **state)
{
    enum { ROUND = 7000 }; /* in batches of 1,000, 2,000 and 4,000 at first */
    static ef_new_event events[ROUND];
    static ef_place places[ROUND];
    fixture fx, *f = &fx;
    fake s = {.down = false};
    int64_t kept;

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 1000});
    for (int i = 0; i < ROUND; i++)
        events[i] = (ef_new_event){
            .stream = EF_STR("a"), .type = EF_STR("sent"), .data = EF_STR("{\"of\":\"a\"}")};
    for (int round = 0; round < 4; round++) {
        OK(ef_journal_append(f->journal, events, ROUND, places, &f->err));
        drain(f);
        pass_time(f, 11 * SECOND);
    }
    OK(ef_published_count(f->journal, EF_STR("mail"), 100000, &kept, &f->err));
    CHECK(kept >= ROUND && kept < 2 * ROUND);
    fixture_close(f);
}

static void a_sink_is_checked_before_retained_rows_are_purged(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    send(f, "b");
    drain(f);
    s.forgets = true; /* nothing new comes that would show it */
    for (int i = 0; i < 9; i++) {
        pass_time(f, 9 * SECOND);
        drain(f);
    }
    CHECK_TEXT("a1 b1 a1 b1 ", s.got);
    s.down = true; /* whether it has them is unknown */
    for (int i = 0; i < 10; i++) {
        pass_time(f, 31 * SECOND);
        drain(f);
    }
    CHECK_INT(EF_PUBLISHER_RETRYING, health(f).state);
    s.down = false;
    s.forgets = true;
    pass_time(f, 31 * SECOND);
    drain(f);
    CHECK_TEXT("a1 b1 a1 b1 a1 b1 ", s.got);
    fixture_close(f);
}

static void an_idle_sink_is_checked_only_before_a_purge(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    drain(f);
    s.looks = 0;
    for (int i = 0; i < 60; i++) {
        pass_time(f, 1 * SECOND);
        drain(f);
    }
    CHECK(s.looks > 0 && s.looks <= 6);
    s.down = true;
    pass_time(f, 11 * SECOND);
    drain(f);
    CHECK_INT(1, health(f).failures_in_a_row);
    s.down = false;
    pass_time(f, 11 * SECOND);
    drain(f);
    CHECK_INT(0, health(f).failures_in_a_row);
    fixture_close(f);
}

/* The last warning or error that was logged. */
typedef struct told {
    ef_log_level level;
    char text[160];
} told;

static void hear(void *context, ef_log_level level, const char *text, const ef_log_field *fields,
                 size_t count)
{
    told *t = context;

    (void)fields;
    (void)count;
    if (level < EF_LOG_WARN)
        return;
    t->level = level;
    (void)snprintf(t->text, sizeof t->text, "%s", text);
}

static void lost_messages_that_are_not_retained_are_an_error(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.forgotten = 2};
    told t = {.text = ""};
    ef_log log = {.write = hear, .context = &t};

    (void)state;
    start(f, &s, (ef_publisher){.retain_ms = 60000});
    send(f, "a");
    send(f, "b");
    drain(f);
    f->engine->options.log = &log;
    s.forgets = true;
    pass_time(f, 11 * SECOND);
    drain(f);
    CHECK_INT(EF_LOG_WARN, t.level);
    CHECK_TEXT("sink lost messages, redelivering", t.text);
    s.forgets = true;
    s.forgotten = 3;
    pass_time(f, 11 * SECOND);
    drain(f);
    CHECK_INT(EF_LOG_ERROR, t.level);
    CHECK_TEXT("a1 b1 a1 b1 a1 b1 ", s.got);
    fixture_close(f);
}

/* The run goes to its end, over two events, and nothing goes out again. */
static void check_silent(fixture *f, const fake *s, ef_run_list *run)
{
    char id[64];

    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(run->items[0].id));
    drain(f);
    OK(test_run_read(f->journal, id, run, &f->err));
    CHECK_INT(EF_RUN_COMPLETED, run->items[0].state);
    CHECK_INT(2, run->items[0].processed);
    CHECK_TEXT("a2 ", s->got);
}

static void runs_publish_nothing(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.down = false};
    ef_run_list run = {0};

    (void)state;
    start(f, &s, (ef_publisher){0});
    deploy(f, SUMS);
    append(f, "a", "added", GOOD);
    send(f, "a");
    drain(f);
    CHECK_TEXT("a2 ", s.got);
    OK(ef_replay_request(f->engine, &(ef_replay){.any_tenant = true}, &run, &f->err));
    check_silent(f, &s, &run);
    OK(ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("sums")}, &run,
                             &f->err));
    check_silent(f, &s, &run);
    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("sums"), .verify = true, .actor = EF_STR("ana")}, &run,
        &f->err));
    check_silent(f, &s, &run);
    EF_RELEASE(&run);
    fixture_close(f);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void the_key_of_a_message_is_computed_by_the_partitioner(void **state)
{
    static const char *const by[] = {"stream", "tenant", "type", "data.of.id"};
    static const char *const keys[] = {"s/1 s/2 ", "/1 /2 ", "sent/1 sent/2 ", "c7/1 s/2 "};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fixture fx, *f = &fx;
        fake s = {.down = false};

        start(f, &s, (ef_publisher){.partition_by = ef_str_from(by[i])});
        append(f, "s", "sent", "{\"of\":{\"id\":\"c7\"}}");
        append(f, "s", "sent", "{\"of\":[1]}");
        drain(f);
        CHECK_TEXT(keys[i], s.keys);
        fixture_close(f);
    }
}

/* As docs/reference/publishing.md has it: what waits is of a stream, whatever the key. */
static void a_failure_blocks_its_stream_and_not_its_key(void **state)
{
    fixture fx, *f = &fx;
    fake s = {.fails = {1}};

    (void)state;
    start(f, &s, (ef_publisher){.partition_by = EF_STR("data.of")});
    send(f, "a"); /* fails */
    send(f, "b");
    send(f, "a");
    drain(f);
    CHECK_TEXT("b1 ", s.got);
    s.fails[0] = 0;
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK_TEXT("b1 a1 a2 ", s.got);
    fixture_close(f);
}

static void messages_of_a_stream_or_a_key_keep_their_order(void **state)
{
    ef_event events[5] = {{.stream = EF_STR("a"), .type = EF_STR("x")},
                          {.stream = EF_STR("b"), .type = EF_STR("y")},
                          {.stream = EF_STR("c"), .type = EF_STR("x")},
                          {.stream = EF_STR("d"), .type = EF_STR("z")},
                          {.stream = EF_STR("b"), .type = EF_STR("x")}};
    ef__bus_message m[5] = {{0}};
    ef__arena arena = EF__ARENA_INIT(1u << 20);
    ef_publisher p = {.partition_by = EF_STR("type")};

    (void)state;
    for (size_t i = 0; i < 5; i++)
        m[i].event = &events[i];
    CHECK(ef__publish_keys(&p, m, 5, true, &arena, NULL) == EF_OK);
    CHECK_INT(0, m[0].group);
    CHECK_INT(0, m[1].group); /* by its stream it is joined with the last, by type with the first */
    CHECK_INT(0, m[2].group);
    CHECK_INT(3, m[3].group);
    CHECK_INT(0, m[4].group);
    p.partition_by = EF_STR("stream");
    CHECK(ef__publish_keys(&p, m, 5, true, &arena, NULL) == EF_OK);
    CHECK_INT(1, m[4].group);
    CHECK_INT(2, m[2].group);
    ef__arena_release(&arena);
}

/* --- definitions ------------------------------------------------------------------------------ */

static void a_publisher_is_stored_with_its_defaults(void **state)
{
    fixture fx, *f = &fx;
    ef_publisher_list list = {0};

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    set(f, (ef_publisher){.name = EF_STR("m"),
                          .url = EF_STR("file:/tmp/x"),
                          .types = EF_STR("order.*"),
                          .secret = EF_STR("env:KEY"),
                          .file_bytes = 7});
    OK(ef_publisher_ls(f->journal, &EF_STR("m"), &list, &f->err));
    CHECK_STR("file:/tmp/x", list.items[0].url);
    CHECK_STR("order.*", list.items[0].types);
    CHECK_STR("stream", list.items[0].partition_by);
    CHECK_STR("env:KEY", list.items[0].secret);
    CHECK_INT(60000, list.items[0].retry_ms);
    CHECK_INT(0, list.items[0].attempts_max);
    CHECK_INT(3600000, list.items[0].retain_ms);
    CHECK_INT(7, list.items[0].file_bytes);
    set(f, (ef_publisher){
               .name = EF_STR("m"), .url = EF_STR("file:/tmp/x"), .retain_ms = EF_RETAIN_NONE});
    OK(ef_publisher_ls(f->journal, &EF_STR("m"), &list, &f->err));
    CHECK_INT(EF_RETAIN_NONE, list.items[0].retain_ms);
    REFUSED(EF_NOT_FOUND, ef_publisher_ls(f->journal, &EF_STR("*"), &list, &f->err));
    EF_RELEASE(&list);
    fixture_close(f);
}

static void an_invalid_publisher_is_refused(void **state)
{
    static const ef_publisher bad[] = {
        {.url = EF_STR("ftp://x")},
        {.url = EF_STR("file:")},
        {.url = EF_STR("file:/a b")},
        {.url = EF_STR("file:/x"), .partition_by = EF_STR("weekday")},
        {.url = EF_STR("file:/x"), .partition_by = EF_STR("data.")},
        {.url = EF_STR("file:/x"), .secret = EF_STR("hunter2")},
        {.url = EF_STR("file:/x"), .retry_ms = -1},
        {.url = EF_STR("file:/x"), .attempts_max = -1},
        {.url = EF_STR("file:/x"), .retain_ms = -2},
        {.url = EF_STR("file:/x"), .file_bytes = -1},
        {.url = EF_STR("file:/x"), .in_flight = 257},
        {.url = EF_STR("file:/x"), .types = EF_STR(",")},
        {.url = EF_STR("file:/x"), .types = EF_STR("a,,b")},
        {.url = EF_STR("file:/x"), .types = EF_STR("a, b")},
        {.url = EF_STR("file:/x"), .types = EF_STR("a*b")},
    };
    fixture fx, *f = &fx;
    ef_publisher_list list = {0};

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ef_publisher p = bad[i];
        p.name = EF_STR("m");
        REFUSED(EF_BAD_INPUT, ef_publisher_set(f->journal, &p, &f->err));
    }
    OK(ef_publisher_ls(f->journal, NULL, &list, &f->err));
    CHECK_INT(0, list.count);
    EF_RELEASE(&list);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_events_are_delivered_in_order_and_their_rows_removed),
        cmocka_unit_test(a_failed_message_blocks_its_own_stream_only),
        cmocka_unit_test(a_message_is_retried_up_to_its_attempt_limit),
        cmocka_unit_test(a_message_refused_for_good_is_dead_at_once_and_can_be_skipped),
        cmocka_unit_test(a_sink_that_is_down_costs_no_attempts_and_nothing_is_lost),
        cmocka_unit_test(a_message_that_was_not_tried_in_time_stays_queued),
        cmocka_unit_test(a_batch_is_acknowledged_while_the_next_one_is_delivered),
        cmocka_unit_test(rows_claimed_ahead_are_blocked_by_a_failure),
        cmocka_unit_test(a_sink_that_goes_down_between_batches_loses_nothing),
        cmocka_unit_test(a_message_lost_between_batches_is_not_acknowledged),
        cmocka_unit_test(a_lease_lost_between_batches_delivers_them_again),
        cmocka_unit_test(a_lease_lost_before_the_ack_delivers_again),
        cmocka_unit_test(one_worker_at_a_time_holds_a_publisher),
        cmocka_unit_test(workers_share_a_publisher_whose_sink_permits_it),
        cmocka_unit_test(a_change_of_the_partition_count_keeps_the_order_of_streams),
        cmocka_unit_test(a_paused_publisher_queues_and_continues_when_resumed),
        cmocka_unit_test(a_removed_publisher_leaves_no_lease),
        cmocka_unit_test(lost_messages_are_redelivered_before_new_ones),
        cmocka_unit_test(a_late_worker_stores_no_sink_position_and_redelivers_nothing),
        cmocka_unit_test(the_sink_position_is_stored_with_every_batch),
        cmocka_unit_test(purging_keeps_up_with_publishing),
        cmocka_unit_test(a_sink_is_checked_before_retained_rows_are_purged),
        cmocka_unit_test(an_idle_sink_is_checked_only_before_a_purge),
        cmocka_unit_test(lost_messages_that_are_not_retained_are_an_error),
        cmocka_unit_test(runs_publish_nothing),
        cmocka_unit_test(the_key_of_a_message_is_computed_by_the_partitioner),
        cmocka_unit_test(a_failure_blocks_its_stream_and_not_its_key),
        cmocka_unit_test(messages_of_a_stream_or_a_key_keep_their_order),
        cmocka_unit_test(a_publisher_is_stored_with_its_defaults),
        cmocka_unit_test(an_invalid_publisher_is_refused),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
