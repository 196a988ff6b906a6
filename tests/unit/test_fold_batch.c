/*
 * test_fold_batch.c - one folder over many events: however they are cut into batches, wherever it
 * is settled or reset, and whatever fails on the way, the views end in the same bytes.
 */
#include "test_fold_fixture.h"

enum { RANDOM_EVENTS = 400, STREAMS = 8 };

typedef struct random_events {
    char texts[RANDOM_EVENTS][100];
    char streams[RANDOM_EVENTS][8];
    ef_event events[RANDOM_EVENTS];
} random_events;

/* Some fail: x is a text now and then. */
static void make_events(random_events *r)
{
    for (int i = 0; i < RANDOM_EVENTS; i++) {
        int kind = rand() % 20;
        (void)snprintf(r->streams[i], sizeof(r->streams[i]), "s%d", rand() % STREAMS);
        if (kind == 0)
            (void)snprintf(r->texts[i], sizeof(r->texts[i]), "{\"x\":\"bad\",\"k\":\"a\"}");
        else
            (void)snprintf(r->texts[i], sizeof(r->texts[i]), "{\"x\":%d.%d,\"k\":\"k%d\"}",
                           rand() % 100 - 50, rand() % 100, rand() % 5);
        r->events[i] = event_of(kind == 1 ? "d" : "e", r->streams[i], r->texts[i], i + 1);
    }
}

static int run_batches(fixture *f, const ef_event *events, size_t count, size_t batch)
{
    ef__outcome outcome;
    ef_error err = EF_ERROR_INIT;
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        CHECK_STATUS(EF_OK, ef__folder_apply(f->folder, &events[i], &outcome, &err), &err);
        failed += outcome.result == EF__FOLD_FAILED;
        if ((i + 1) % batch == 0 || i + 1 == count) {
            write_views(f);
            if (i % 2)
                ef__folder_settle(f->folder);
            else
                ef__folder_reset(f->folder);
        }
    }
    return failed;
}

static void check_same(fixture *a, fixture *b)
{
    for (size_t i = 0; i < a->count; i++)
        CHECK_TEXT(a->views[i].data ? a->views[i].data : "none", view_text(b, a->views[i].id));
    for (size_t i = 0; i < b->count; i++)
        CHECK_TEXT(b->views[i].data ? b->views[i].data : "none", view_text(a, b->views[i].id));
}

TEST(the_size_of_batches_never_changes_a_byte)
{
    static const size_t batches[] = {7, 100, RANDOM_EVENTS};
    static random_events r;
    static fixture one, other;

    srand(3);
    make_events(&r);
    open_program(&one, counting);
    int failed = run_batches(&one, r.events, RANDOM_EVENTS, 1);
    CHECK(failed > 5);
    for (size_t i = 0; i < 3; i++) {
        open_program(&other, counting);
        CHECK_INT(failed, run_batches(&other, r.events, RANDOM_EVENTS, batches[i]));
        check_same(&one, &other);
        tear_down(&other);
    }
    tear_down(&one);
}

TEST(failed_events_leave_no_trace)
{
    static random_events r;
    static ef_event good[RANDOM_EVENTS];
    static fixture with, without;
    size_t count = 0;

    srand(4);
    make_events(&r);
    for (int i = 0; i < RANDOM_EVENTS; i++)
        if (!strstr(r.texts[i], "bad") || r.events[i].type.ptr[0] == 'd')
            good[count++] = r.events[i];
    CHECK(count < RANDOM_EVENTS);
    open_program(&with, counting);
    open_program(&without, counting);
    CHECK(run_batches(&with, r.events, RANDOM_EVENTS, 50) > 0);
    CHECK_INT(0, run_batches(&without, good, count, 50));
    check_same(&with, &without);
    tear_down(&with);
    tear_down(&without);
}

/* A random order that keeps each stream's own. */
static void interleave(const random_events *r, ef_event *out)
{
    size_t next[STREAMS] = {0};

    for (size_t done = 0; done < RANDOM_EVENTS;) {
        int stream = rand() % STREAMS;
        while (next[stream] < RANDOM_EVENTS && r->streams[next[stream]][1] != '0' + stream)
            next[stream]++;
        if (next[stream] < RANDOM_EVENTS)
            out[done++] = r->events[next[stream]++];
    }
}

TEST(commutative_programs_do_not_care_how_streams_are_interleaved)
{
    const char *text = "projection p version 1\n  view \"all\"\n\non e\n  n += 1\n"
                       "  total += data.x\n  seen add data.k\n  by[data.k] += data.x\n";
    static random_events r;
    static ef_event mixed[RANDOM_EVENTS];
    static fixture one, other;

    srand(5);
    make_events(&r);
    open_program(&one, text);
    run_batches(&one, r.events, RANDOM_EVENTS, 30);
    for (int round = 0; round < 5; round++) {
        interleave(&r, mixed);
        open_program(&other, text);
        run_batches(&other, mixed, RANDOM_EVENTS, 30);
        check_same(&one, &other);
        tear_down(&other);
    }
    tear_down(&one);
}

/* Values that views share with themselves, lists of objects, fields that come and go; and a last
 * statement that fails when `y` is missing, after all the others have changed something. */
static const char sharing[] =
    "projection p version 1\n\non e\n  n += 1\n  total += data.x\n"
    "  list push { x: data.x, k: data.k, at: time, n: n } keep 4\n"
    "  deep.by[data.k].last = { x: data.x, before: list }\n"
    "  deep.copy = deep.by[data.k]\n"
    "  deep.copy.last.x = \"changed in the copy\"\n"
    "  deep.by[data.k].seen add data.k\n"
    "  if n % 7 == 0\n    unset deep.by[data.k]\n"
    "  old = if n % 5 == 0 then list else old\n"
    "  list[0].n += 1\n"
    "  sum += data.y\n"
    "on d\n  delete\n"
    "on fan\n  for k in data.ks view k\n    n += 1\n    list push { k: k } keep 3\n";

static void make_sharing_events(random_events *r)
{
    for (int i = 0; i < RANDOM_EVENTS; i++) {
        int kind = rand() % 40;
        char *text = r->texts[i];
        size_t max = sizeof(r->texts[i]);
        (void)snprintf(r->streams[i], sizeof(r->streams[i]), "s%d", rand() % STREAMS);
        if (kind < 4)
            (void)snprintf(text, max, "{\"x\":%d,\"k\":\"k%d\"}", rand() % 9, rand() % 3);
        else if (kind < 8)
            (void)snprintf(text, max, "{\"ks\":[\"s%d\",\"s%d\",\"s%d\"]}", rand() % STREAMS,
                           rand() % STREAMS, rand() % STREAMS);
        else
            (void)snprintf(text, max, "{\"y\":%d.%02d,\"x\":%d,\"k\":\"k\\u00%d\"}",
                           rand() % 100 - 50, rand() % 100, rand() % 2000 - 1000, rand() % 5 + 10);
        const char *type = kind == 39 ? "d" : kind >= 4 && kind < 8 ? "fan" : "e";
        r->events[i] = event_of(type, r->streams[i], text, i + 1);
    }
}

/* Batches of random length; after each the folder keeps its views, or forgets them. */
static int run_at_random(fixture *f, const ef_event *events, size_t count)
{
    ef__outcome outcome;
    ef_error err = EF_ERROR_INIT;
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        CHECK_STATUS(EF_OK, ef__folder_apply(f->folder, &events[i], &outcome, &err), &err);
        failed += outcome.result == EF__FOLD_FAILED;
        if (rand() % 20 && i + 1 < count)
            continue;
        write_views(f);
        if (rand() % 3)
            ef__folder_settle(f->folder);
        else
            ef__folder_reset(f->folder);
    }
    return failed;
}

TEST(settling_and_resetting_at_random_points_never_changes_a_byte)
{
    static random_events r;
    static fixture one, other;

    for (unsigned seed = 1; seed <= 10; seed++) {
        print_message("# seed %u\n", seed);
        srand(seed);
        make_sharing_events(&r);
        open_program(&one, sharing);
        open_program(&other, sharing);
        int failed = run_batches(&one, r.events, RANDOM_EVENTS, 1);
        CHECK(failed > 5 && failed < RANDOM_EVENTS / 2);
        CHECK_INT(failed, run_at_random(&other, r.events, RANDOM_EVENTS));
        check_same(&one, &other);
        CHECK(other.loads < one.loads);
        tear_down(&one);
        tear_down(&other);
    }
}

TEST(a_deleted_view_stays_deleted_after_the_folder_was_settled)
{
    ef__outcome outcome;
    ef__folded_view view;
    fixture f;

    open_program(&f, counting);
    put(&f, EF_STR("s"), EF_STR("{\"n\":5}"));
    apply(&f, "d", "{}", &outcome);
    write_views(&f);
    CHECK_TEXT("none", view_text(&f, "s"));
    ef__folder_settle(f.folder);
    apply(&f, "e", "{\"x\":1,\"k\":\"a\"}", &outcome);
    size_t at = 0;
    CHECK_STATUS(EF_OK, ef__folder_next(f.folder, &at, &view, NULL), NULL);
    CHECK(!view.existed && !view.deleted);
    CHECK_STR("{\"by\":{\"a\":1},\"list\":[1],\"n\":1,\"seen\":[\"a\"],\"total\":1}", view.data);
    CHECK_INT(1, f.loads);
    tear_down(&f);
}

/* --- memory that ends ------------------------------------------------------------------------- */

enum { NOTE_BYTES_MAX = 20000, FOLDER_BYTES = 640 * 1024 };

/* Event i has a unique text, so that a lost or duplicate one is found; of any length, so that
 * memory runs out at many places. */
static ef_event note_event(char data[NOTE_BYTES_MAX + 100], int i)
{
    static char stream[8];
    size_t note_bytes = (size_t)i * 7919 % NOTE_BYTES_MAX;

    (void)snprintf(stream, sizeof(stream), "s%d", i % STREAMS);
    int len = snprintf(data, NOTE_BYTES_MAX + 100, "{\"note\":\"%06d", i);
    memset(data + len, 'x', note_bytes);
    memcpy(data + len + note_bytes, "\"}", 3);
    return event_of("e", stream, data, i + 1);
}

/* How often the folder was full: then its views are written, and the event is folded again. */
static int run_notes(fixture *f)
{
    char data[NOTE_BYTES_MAX + 100];
    ef__outcome outcome;
    ef_error err = EF_ERROR_INIT;
    int full = 0;

    for (int i = 0; i < RANDOM_EVENTS; i++) {
        ef_event event = note_event(data, i);
        ef_status st = ef__folder_apply(f->folder, &event, &outcome, &err);
        if (st == EF_NO_MEMORY) {
            CHECK(ef__folder_bytes(f->folder) > FOLDER_BYTES / 2);
            full++;
            write_views(f);
            ef__folder_reset(f->folder);
            st = ef__folder_apply(f->folder, &event, &outcome, &err);
        }
        CHECK_STATUS(EF_OK, st, &err);
        CHECK_INT(EF__FOLD_APPLIED, outcome.result);
    }
    write_views(f);
    return full;
}

TEST(a_folder_that_is_full_in_the_middle_of_a_batch_has_lost_nothing)
{
    const char *text = "projection p version 1\n\non e\n  n += 1\n  first = first ?? data.note\n"
                       "  list push { n: n, note: data.note } keep 12\n  last.note = data.note\n";
    static fixture narrow, wide;

    open_within(&narrow, text, FOLDER_BYTES);
    open_program(&wide, text);
    CHECK_INT(0, run_notes(&wide));
    CHECK(run_notes(&narrow) > 5);
    check_same(&wide, &narrow);
    tear_down(&narrow);
    tear_down(&wide);
}

TEST_MAIN(TEST_CASE(the_size_of_batches_never_changes_a_byte),
          TEST_CASE(failed_events_leave_no_trace),
          TEST_CASE(commutative_programs_do_not_care_how_streams_are_interleaved),
          TEST_CASE(settling_and_resetting_at_random_points_never_changes_a_byte),
          TEST_CASE(a_deleted_view_stays_deleted_after_the_folder_was_settled),
          TEST_CASE(a_folder_that_is_full_in_the_middle_of_a_batch_has_lost_nothing))
