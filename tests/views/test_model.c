/*
 * The same random acts on memory and on another back end: the same answers, and the same store
 * after each stretch. Digests are also made from nothing. The seed is printed when something
 * differs.
 */
#include "views_fixture.h"

#include "../../src/base/buf.h"

#include <stdlib.h>

enum { TENANTS = 3, IDS = 40, STREAMS = 12, KEYS = 6, GENERATIONS = 4, VIEWS_A_COMMIT = 30 };

static const char *backend = "sqlite"; /* the one that is compared with memory */

typedef struct pair {
    fixture memory, other;
    dice dice;
} pair;

static const char *const TENANT[TENANTS] = {"", "t", "t/1"};

/* --- the state of a store as text ------------------------------------------------------------- */

static bool print_view(void *context, ef_str key, const ef__view *v)
{
    ef__buf *out = context;

    ef__buf_printf(out, "%.*s|%.*s|%.*s|%.*s|%lld|%lld|%d\n", EF_STR_ARG(key),
                   EF_STR_ARG(v->tenant), EF_STR_ARG(v->id), EF_STR_ARG(v->data),
                   (long long)v->last_position, (long long)v->last_seq, (int)v->schema);
    return true;
}

static bool print_watermark(void *context, ef_str tenant, ef_str stream, const ef__watermark *w)
{
    ef__buf_printf(context, "%.*s|%.*s|%lld|%lld|%d\n", EF_STR_ARG(tenant), EF_STR_ARG(stream),
                   (long long)w->applied_seq, (long long)w->expected_next_seq, w->hash[0]);
    return true;
}

static void print_cursors(fixture *t, int64_t g, ef__buf *out)
{
    ef__tenant_cursor_list list = {0};

    OK(t->views->ops->tenant_cursor_ls(t->views, g, INT64_MAX, 1000, &list, &t->err));
    for (size_t i = 0; i < list.count; i++) {
        const ef__tenant_cursor_item *c = &list.items[i];
        ef__buf_printf(out, "%.*s at %lld waiting %lld attempts %lld due %lld updated %lld\n",
                       EF_STR_ARG(c->tenant), (long long)c->cursor.position,
                       (long long)c->cursor.waiting, (long long)c->cursor.attempts,
                       (long long)c->cursor.due_us, (long long)c->updated_us);
    }
    EF_RELEASE(&list);
}

static void print_failures(fixture *t, int64_t g, ef__buf *out)
{
    ef__failure_list list = {0};

    OK(t->views->ops->failure_ls(t->views, g, NULL, false, 1000, &list, &t->err));
    for (size_t i = 0; i < list.count; i++) {
        const ef__failure *f = &list.items[i];
        ef__buf_printf(out, "%.*s|%.*s|%lld|%.*s|%d|%d|%lld|%lld\n", EF_STR_ARG(f->tenant),
                       EF_STR_ARG(f->stream), (long long)f->seq, EF_STR_ARG(f->message),
                       (int)f->attempts, f->open, (long long)f->recorded_us,
                       (long long)f->resolved_us);
    }
    EF_RELEASE(&list);
}

static void print_generation(fixture *t, const ef__generation *g, ef__buf *out)
{
    ef__view_scan scan = {.generation = g->id, .any_tenant = true, .index = -1};
    uint8_t digest[EF__DIGEST_BYTES];

    digest_from_scratch(t, g->id, digest);
    assert_memory_equal(digest, g->digest, sizeof digest);
    ef__buf_printf(out, "%lld %.*s %d state %d routed %d era %lld at %lld seam %lld updated %lld\n",
                   (long long)g->id, EF_STR_ARG(g->name), (int)g->number, (int)g->state, g->active,
                   (long long)g->era, (long long)g->position, (long long)g->seam,
                   (long long)g->updated_us);
    ef__buf_printf(out, "views %lld applied %lld ignored %lld skipped %lld\n", (long long)g->views,
                   (long long)g->applied, (long long)g->ignored, (long long)g->skipped);
    ef__buf_printf(out, "cursors %lld lowest %lld waiting %lld\n", (long long)g->own_cursors,
                   (long long)g->own_lowest, (long long)g->own_waiting);
    for (size_t i = 0; i < sizeof g->digest; i++)
        ef__buf_printf(out, "%02x", g->digest[i]);
    ef__buf_add_char(out, '\n');
    OK(t->views->ops->view_scan(t->views, &scan, print_view, out, &t->err));
    for (int32_t i = 0; i < 2 * TENANTS; i++) {
        scan = (ef__view_scan){
            .generation = g->id, .tenant = str(TENANT[i % TENANTS]), .index = i / TENANTS};
        OK(t->views->ops->view_scan(t->views, &scan, print_view, out, &t->err));
    }
    OK(t->views->ops->watermark_scan(t->views, g->id, print_watermark, out, &t->err));
    print_cursors(t, g->id, out);
    print_failures(t, g->id, out);
}

static ef__buf print_store(fixture *t)
{
    ef__buf out = EF__BUF_INIT(16 * 1024 * 1024);
    ef__generation_list list = {0};

    OK(t->views->ops->generation_ls(t->views, str(""), &list, &t->err));
    ef__buf_printf(&out, "live set %lld\n", (long long)list.live_set);
    for (size_t i = 0; i < list.count; i++)
        print_generation(t, &list.items[i], &out);
    EF_RELEASE(&list);
    CHECK(!out.failed);
    return out;
}

static void check_same(pair *p)
{
    ef__buf a = print_store(&p->memory), b = print_store(&p->other);

    CHECK_TEXT(a.ptr, b.ptr);
    ef__buf_release(&a);
    ef__buf_release(&b);
    ef__arena_reset(&p->memory.arena);
    ef__arena_reset(&p->other.arena);
}

/* --- acts ------------------------------------------------------------------------------------- */

/* Everything that a commit points at. */
typedef struct plan {
    ef__view_change views[VIEWS_A_COMMIT];
    ef__index_key keys[VIEWS_A_COMMIT][2];
    char data[VIEWS_A_COMMIT][32];
    char key_text[VIEWS_A_COMMIT][2][16];
    char ids[IDS][24];
    char streams[STREAMS][24];
    ef__watermark_change watermarks[STREAMS];
    ef__tenant_cursor_change tenants[TENANTS];
    ef__failure failure;
    ef__fence fence;
    ef__generation_change change;
    ef__views_commit commit;
    int64_t head;
    bool live;
} plan;

static ef_status plan_head(void *context, int64_t *out_position, ef_error *err)
{
    (void)err;
    *out_position = ((plan *)context)->head;
    return EF_OK;
}

static void plan_view(pair *p, plan *c, int64_t g, size_t at, size_t id)
{
    const char *tenant = TENANT[id % TENANTS];
    bool deleted = roll(&p->dice, 8) == 0;
    ef__view_change *view = &c->views[at];

    (void)snprintf(c->ids[id], sizeof c->ids[id], "v%zu", id);
    (void)snprintf(c->data[at], sizeof c->data[at], "{\"n\":%u}", roll(&p->dice, 1000));
    *view = change_of(&p->memory, g, tenant, c->ids[id], deleted ? NULL : c->data[at]);
    if (roll(&p->dice, 200) == 0)
        view->before[roll(&p->dice, 2)] ^= 1; /* as if another transaction had written it */
    view->view.last_position = roll(&p->dice, 1000);
    view->view.last_seq = roll(&p->dice, 100);
    view->keys = c->keys[at];
    for (int32_t i = 0; i < 2 && !deleted; i++) {
        if (roll(&p->dice, 4) == 0)
            continue;
        (void)snprintf(c->key_text[at][i], sizeof c->key_text[at][i], "k%u", roll(&p->dice, KEYS));
        c->keys[at][view->key_count++] = (ef__index_key){i, str(c->key_text[at][i])};
    }
}

static void plan_watermark(pair *p, plan *c, int64_t g, size_t stream)
{
    ef__watermark_change *w = &c->watermarks[c->change.watermark_count++];

    (void)snprintf(c->streams[stream], sizeof c->streams[stream], "s%zu", stream);
    *w = watermark_to(&p->memory, g, TENANT[stream % TENANTS], c->streams[stream], 0);
    w->after.applied_seq = w->before.applied_seq + 1 + roll(&p->dice, 3);
    w->after.expected_next_seq = w->after.applied_seq + 1;
    memset(w->after.hash, (int)(1 + roll(&p->dice, 200)), sizeof w->after.hash);
    if (roll(&p->dice, 60) == 0)
        w->before.applied_seq += 1;
}

static void plan_tenant(pair *p, plan *c, const ef__generation *g, size_t tenant)
{
    ef__tenant_cursor_change *change = &c->tenants[c->change.tenant_count++];
    ef__tenant_cursor_item item;
    fixture *t = &p->memory;
    bool found;

    OK(t->views->ops->tenant_cursor_get(t->views, g->id, str(TENANT[tenant]), &item, &found,
                                        &t->err));
    *change = (ef__tenant_cursor_change){.tenant = str(TENANT[tenant]), .before = item.cursor};
    change->after = (ef__tenant_cursor){.position = g->position + roll(&p->dice, 4),
                                        .waiting = 1 + roll(&p->dice, 9),
                                        .attempts = roll(&p->dice, 3),
                                        .due_us = roll(&p->dice, 3)};
    if (roll(&p->dice, 20) == 0)
        change->before.waiting++;
}

static void plan_failure(pair *p, plan *c)
{
    size_t stream = roll(&p->dice, STREAMS);

    (void)snprintf(c->streams[stream], sizeof c->streams[stream], "s%zu", stream);
    c->failure = (ef__failure){.tenant = str(TENANT[stream % TENANTS]),
                               .stream = str(c->streams[stream]),
                               .seq = 1 + roll(&p->dice, 30),
                               .code = str("fold_error"),
                               .message = str(roll(&p->dice, 2) ? "one" : "two")};
    c->change.failures = &c->failure;
    c->change.failure_count = 1;
}

static void make_plan(pair *p, plan *c, const ef__generation *g)
{
    size_t id = roll(&p->dice, IDS), stream = roll(&p->dice, STREAMS);

    c->change = (ef__generation_change){.generation = g->id,
                                        .era = g->era - (roll(&p->dice, 40) == 0),
                                        .cursor_before = g->position,
                                        .applied = roll(&p->dice, 5),
                                        .ignored = roll(&p->dice, 5),
                                        .skipped = roll(&p->dice, 2),
                                        .views = c->views,
                                        .watermarks = c->watermarks,
                                        .tenants = c->tenants};
    c->change.view_count = roll(&p->dice, VIEWS_A_COMMIT);
    for (size_t i = 0; i < c->change.view_count; i++)
        plan_view(p, c, g->id, i, (id + 7 * i) % IDS);
    for (size_t n = roll(&p->dice, STREAMS); n > 0; n--)
        plan_watermark(p, c, g->id, (stream + n) % STREAMS);
    if (roll(&p->dice, 3) == 0)
        plan_failure(p, c);
    if (roll(&p->dice, 3) == 0)
        c->change.cursor_after = g->position + roll(&p->dice, 4);
    if (roll(&p->dice, 30) == 0)
        c->change.cursor_before++;
    if (roll(&p->dice, 4) == 0)
        for (size_t n = roll(&p->dice, TENANTS); n > 0; n--)
            plan_tenant(p, c, g, n);
    c->change.go_live = roll(&p->dice, 12) == 0;
    c->head = g->position + roll(&p->dice, 4);
    c->fence =
        (ef__fence){str(roll(&p->dice, 2) ? "partition/1" : "partition/2"), 10 + roll(&p->dice, 4)};
    c->commit = (ef__views_commit){.generations = &c->change,
                                   .generation_count = 1,
                                   .fences = &c->fence,
                                   .fence_count = roll(&p->dice, 10) == 0,
                                   .head = plan_head,
                                   .head_context = c,
                                   .out_live = &c->live};
}

static void act_commit(pair *p, const ef__generation *g)
{
    plan *c = calloc(1, sizeof *c);
    ef_status memory, other;
    bool live;

    CHECK(c != NULL);
    make_plan(p, c, g);
    memory = p->memory.views->ops->commit(p->memory.views, &c->commit, &p->memory.err);
    live = c->live;
    other = p->other.views->ops->commit(p->other.views, &c->commit, &p->other.err);
    if (memory != other)
        print_error("memory: %s, %s: %s\n", p->memory.err.text, p->other.backend,
                    p->other.err.text);
    CHECK_INT(memory, other);
    CHECK_INT(live, c->live);
    free(c);
}

static ef_status act_on(fixture *t, uint32_t what, int64_t id, uint32_t number)
{
    const ef__views_ops *ops = t->views->ops;

    switch (what) {
    case 0:
        return ops->generation_activate(t->views, id, 0, 0, &t->err);
    case 1:
        return ops->generation_change(t->views, id, 0, (ef__generation_state)number, NULL, &t->err);
    default:
        return remove_generation(t, id, 0);
    }
}

static void act(pair *p, uint32_t step)
{
    static const char *const NAME[3] = {"a", "b", "c"};
    uint32_t what = roll(&p->dice, 60), number = roll(&p->dice, 5);
    ef__generation_list list = {0};
    fixture *t = &p->memory;

    p->memory.now_us += 10;
    p->other.now_us += 10;
    OK(t->views->ops->generation_ls(t->views, str(""), &list, &t->err));
    if (list.count < GENERATIONS) {
        const char *name = NAME[roll(&p->dice, 3)];
        CHECK_INT(add_generation(&p->memory, name, "x,y"), add_generation(&p->other, name, "x,y"));
    } else {
        const ef__generation *g = &list.items[roll(&p->dice, (uint32_t)list.count)];
        if (what < 4 && (what < 2 || roll(&p->dice, 3) == 0))
            CHECK_INT(act_on(&p->memory, what, g->id, number),
                      act_on(&p->other, what, g->id, number));
        else
            act_commit(p, g);
    }
    EF_RELEASE(&list);
    if (step % 200 == 199)
        reopen(&p->other);
}

static void run(uint64_t seed, uint32_t steps)
{
    pair *p = calloc(1, sizeof *p);

    CHECK(p != NULL);
    print_message("# seed %llu\n", (unsigned long long)seed);
    p->dice.state = seed;
    fixture_open(&p->memory, "memory");
    fixture_open(&p->other, backend);
    for (uint32_t step = 0; step < steps; step++) {
        act(p, step);
        if (step % 50 == 49)
            check_same(p);
    }
    check_same(p);
    fixture_close(&p->memory);
    fixture_close(&p->other);
    free(p);
}

TEST(random_acts_leave_the_same_store_on_both)
{
    const char *seed = getenv("EF_SEED");

    if (seed) {
        run(strtoull(seed, NULL, 10), 2000);
        return;
    }
    for (uint64_t i = 1; i <= 4; i++)
        run(i * 7919, 600);
}

/* --- long keys and names ---------------------------------------------------------------------- */

/*
 * Keys that agree in nearly all of their bytes, around the place where a back end may have to cut
 * them; ids and tenants up to the longest. Bytes are those that are easily mistaken for an end.
 */
enum { LONG_VIEWS = 120, LONG_TENANTS = 3, LONG_NAME = 255 };

typedef struct long_text {
    size_t len;
    char bytes[EF__KEY_BYTES];
} long_text;

static ef_str long_str(const long_text *text)
{
    return (ef_str){text->bytes, text->len};
}

/* Bytes of `all`; `agree` of the same kind first, then a few at random. */
static long_text long_roll(dice *d, const char *all, size_t kinds, const size_t *agree,
                           size_t agrees, size_t max)
{
    long_text text = {.len = agree[roll(d, (uint32_t)agrees)]};

    memset(text.bytes, all[0], text.len);
    for (size_t n = roll(d, 5); n > 0 && text.len < max; n--)
        text.bytes[text.len++] = all[roll(d, (uint32_t)kinds)];
    return text;
}

static long_text roll_key(dice *d)
{
    static const size_t AGREE[] = {0, 1, 494, 495, 496, 497, 500, 508, 511, 512};

    return long_roll(d, "a\0\xff\1", 4, AGREE, 10, EF__KEY_BYTES);
}

static long_text roll_name(dice *d)
{
    static const size_t AGREE[] = {0, 1, 3, 251, 254, 255};

    return long_roll(d, "x/\x7f-\xc3", 4, AGREE, 6, LONG_NAME);
}

typedef struct long_plan {
    long_text tenants[LONG_TENANTS], ids[LONG_VIEWS], keys[LONG_VIEWS];
    ef__index_key index_keys[LONG_VIEWS];
    ef__view_change views[LONG_VIEWS];
    ef__watermark_change marks[LONG_VIEWS];
} long_plan;

static bool is_there(const long_plan *l, size_t count, ef_str tenant, ef_str id)
{
    for (size_t i = 0; i < count; i++)
        if (ef_str_equal(l->views[i].view.tenant, tenant) && ef_str_equal(l->views[i].view.id, id))
            return true;
    return false;
}

static void fill_long(pair *p, long_plan *l, int64_t g)
{
    ef__generation_change change = {.generation = g, .views = l->views, .watermarks = l->marks};

    for (size_t i = 0; i < LONG_TENANTS; i++)
        l->tenants[i] = roll_name(&p->dice);
    for (size_t i = 0; change.view_count < LONG_VIEWS && i < 10 * LONG_VIEWS; i++) {
        size_t at = change.view_count;
        ef_str tenant = long_str(&l->tenants[roll(&p->dice, LONG_TENANTS)]);
        l->ids[at] = roll_name(&p->dice);
        if (is_there(l, at, tenant, long_str(&l->ids[at])))
            continue;
        l->keys[at] = roll_key(&p->dice);
        l->index_keys[at] = (ef__index_key){0, long_str(&l->keys[at])};
        l->views[at] = (ef__view_change){
            .view = {.tenant = tenant, .id = long_str(&l->ids[at]), .data = str("1"), .schema = 1},
            .keys = &l->index_keys[at],
            .key_count = 1};
        l->marks[at] = (ef__watermark_change){
            .tenant = tenant, .stream = long_str(&l->ids[at]), .after = {1, 2, {0}}};
        change.view_count++;
    }
    change.watermark_count = change.view_count;
    CHECK(change.view_count > LONG_VIEWS / 2);
    CHECK_STATUS(EF_OK, commit_change(&p->memory, &change), &p->memory.err);
    CHECK_STATUS(EF_OK, commit_change(&p->other, &change), &p->other.err);
}

typedef struct long_answer {
    ef__buf text;
    size_t left;
} long_answer;

static bool add_answer(void *context, ef_str key, const ef__view *v)
{
    long_answer *a = context;

    ef__buf_printf(&a->text, "%zu %zu %zu ", key.len, v->tenant.len, v->id.len);
    ef__buf_add_str(&a->text, key);
    ef__buf_add_str(&a->text, v->tenant);
    ef__buf_add_str(&a->text, v->id);
    return --a->left > 0;
}

static bool add_mark(void *context, ef_str tenant, ef_str stream, const ef__watermark *w)
{
    (void)w;
    return add_answer(context, (ef_str){"", 0}, &(ef__view){.tenant = tenant, .id = stream});
}

static void ask_long(pair *p, const ef__view_scan *scan, size_t limit)
{
    fixture *both[2] = {&p->memory, &p->other};
    long_answer answers[2];

    for (int i = 0; i < 2; i++) {
        fixture *t = both[i];
        answers[i] = (long_answer){EF__BUF_INIT(1024 * 1024), limit};
        if (scan)
            OK(t->views->ops->view_scan(t->views, scan, add_answer, &answers[i], &t->err));
        else
            OK(t->views->ops->watermark_scan(t->views, 1, add_mark, &answers[i], &t->err));
        CHECK(!answers[i].text.failed);
    }
    CHECK_INT(answers[0].text.len, answers[1].text.len);
    if (answers[0].text.len)
        assert_memory_equal(answers[0].text.ptr, answers[1].text.ptr, answers[0].text.len);
    ef__buf_release(&answers[0].text);
    ef__buf_release(&answers[1].text);
}

/* A scan continues after a place that it has returned, which is within the bounds. */
static void stay_inside(ef__view_scan *scan)
{
    ef_str at = scan->index < 0 ? scan->after_id : scan->after_key;

    if (!scan->has_after)
        return;
    scan->has_low = scan->has_low && ef__str_compare(at, scan->low) > 0;
    scan->has_high = scan->has_high && ef__str_compare(at, scan->high) < 0;
}

/* Bounds and places are sometimes those of a view, and sometimes near one. */
static void ask_at_random(pair *p, const long_plan *l, int64_t g)
{
    dice *d = &p->dice;
    bool by_key = roll(d, 2), of_view = roll(d, 2);
    const ef__view_change *v = &l->views[roll(d, LONG_VIEWS / 2)];
    const ef__view_change *w = &l->views[roll(d, LONG_VIEWS / 2)];
    long_text low = by_key ? roll_key(d) : roll_name(d), high = by_key ? roll_key(d) : roll_name(d);
    long_text after_key = roll_key(d), after_id = roll_name(d);
    ef__view_scan scan = {.generation = g,
                          .tenant = v->view.tenant,
                          .any_tenant = !by_key && roll(d, 4) == 0,
                          .index = by_key ? 0 : -1,
                          .has_low = roll(d, 2),
                          .has_high = roll(d, 2),
                          .low_open = roll(d, 2),
                          .high_open = roll(d, 2),
                          .low = long_str(&low),
                          .high = long_str(&high),
                          .descending = roll(d, 2),
                          .has_after = roll(d, 2),
                          .after_key = of_view ? w->keys[0].key : long_str(&after_key),
                          .after_tenant = w->view.tenant,
                          .after_id = of_view ? w->view.id : long_str(&after_id)};

    if (roll(d, 2)) {
        scan.low = by_key ? v->keys[0].key : v->view.id;
        scan.high = by_key ? w->keys[0].key : w->view.id;
    }
    stay_inside(&scan);
    ask_long(p, &scan, 1 + roll(d, LONG_VIEWS));
}

TEST(long_keys_and_names_are_in_the_same_order_on_both)
{
    pair *p = calloc(1, sizeof *p);
    long_plan *l = calloc(1, sizeof *l);
    int64_t g;

    CHECK(p && l);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        print_message("# seed %llu\n", (unsigned long long)seed);
        p->dice.state = seed;
        fixture_open(&p->memory, "memory");
        fixture_open(&p->other, backend);
        g = add_generation(&p->memory, "p", "x");
        CHECK_INT(g, add_generation(&p->other, "p", "x"));
        memset(l, 0, sizeof *l);
        fill_long(p, l, g);
        ask_long(p, NULL, 1000);
        for (int i = 0; i < 400; i++)
            ask_at_random(p, l, g);
        check_same(p);
        fixture_close(&p->memory);
        fixture_close(&p->other);
    }
    free(l);
    free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(random_acts_leave_the_same_store_on_both),
        TEST_CASE(long_keys_and_names_are_in_the_same_order_on_both)};

    if (argc > 1)
        backend = argv[1];
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
