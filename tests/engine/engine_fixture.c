/*
 * engine_fixture.c - see engine_fixture.h.
 */
#include "engine_fixture.h"

#include "stores.h"

#include <stdlib.h>
#include <unistd.h>

const char *fixture_backend = "memory";

const char SUMS[] = "projection sums version 1\n"
                    "  view data.of\n"
                    "on added\n"
                    "  n += 1\n"
                    "  sum += 1 / data.good\n";

static int64_t read_clock(void *context)
{
    return atomic_load((_Atomic int64_t *)context);
}

void fixture_open(fixture *f, ef_mode mode)
{
    memset(f, 0, sizeof *f);
    f->backend = fixture_backend;
    atomic_store(&f->now_us, INT64_C(1700000000000000));
    f->clock = (ef_clock){.wall_us = read_clock, .mono_us = read_clock, .context = &f->now_us};
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/everfold-engine-XXXXXX");
    CHECK(mkdtemp(f->folder) != NULL);
    store_url(f->journal_url, sizeof f->journal_url, f->backend, f->folder, "journal");
    store_url(f->views_url, sizeof f->views_url, f->backend, f->folder, "views");
    OK(ef_journal_open(&(ef_journal_options){.url = f->journal_url,
                                             .create = true,
                                             .clock = &f->clock,
                                             .outbox_off = mode == EF_MODE_INLINE_APPLY_ONLY},
                       &f->journal, &f->err));
    OK(ef_engine_open(&(ef_engine_options){.journal = f->journal,
                                           .views_url = f->views_url,
                                           .create = true,
                                           .clock = &f->clock,
                                           .worker = EF_STR("w0"),
                                           .mode = mode},
                      &f->engine, &f->err));
}

bool fixture_has_files(const fixture *f)
{
    return store_survives(f->backend, "journal");
}

ef_engine *fixture_engine(fixture *f, const char *worker)
{
    ef_engine *engine;

    OK(ef_engine_open(&(ef_engine_options){.journal = f->journal,
                                           .views_url = f->views_url,
                                           .clock = &f->clock,
                                           .worker = ef_str_from(worker)},
                      &engine, &f->err));
    return engine;
}

void fixture_close(fixture *f)
{
    char command[128];

    ef_engine_close(f->engine);
    ef_journal_close(f->journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", f->folder);
    CHECK_INT(0, system(command));
}

void pass_time(fixture *f, int64_t us)
{
    atomic_fetch_add(&f->now_us, us);
}

void deploy(fixture *f, const char *program)
{
    ef_projection_list list = {0};
    ef_text report = {0};

    OK(ef_projection_deploy(f->engine,
                            &(ef_deploy){.file_name = "test.fold", .text = ef_str_from(program)},
                            &list, &report, &f->err));
    EF_RELEASE(&list);
    EF_RELEASE(&report);
}

int64_t append(fixture *f, const char *stream, const char *type, const char *data)
{
    ef_new_event event = {
        .stream = ef_str_from(stream), .type = ef_str_from(type), .data = ef_str_from(data)};
    ef_place place;

    OK(ef_engine_append(f->engine, &event, 1, &place, &f->err));
    return place.position;
}

void append_past(fixture *f, const char *stream, const char *data)
{
    ef_new_event event = {
        .stream = ef_str_from(stream), .type = EF_STR("added"), .data = ef_str_from(data)};
    ef_place place;

    OK(ef_journal_append(f->journal, &event, 1, &place, &f->err));
}

ef_tick tick(fixture *f)
{
    ef_tick t;

    OK(ef_engine_work(f->engine, NULL, &t, &f->err));
    return t;
}

ef_tick drain(fixture *f)
{
    ef_tick sum = {0}, t = {.more = true};

    for (int i = 0; i < 500 && t.more; i++) {
        t = tick(f);
        sum.claimed += t.claimed;
        sum.applied += t.applied;
        sum.published += t.published;
        sum.ignored += t.ignored;
        sum.failed += t.failed;
        sum.dead += t.dead;
        sum.deferred += t.deferred;
        sum.due_us = t.due_us;
        if (t.more && t.claimed + t.caught_up + t.published + t.run_events == 0)
            pass_time(f, 5000); /* a catch-up pauses for live work */
    }
    CHECK(!t.more);
    return sum;
}

const char *view_data(fixture *f, const char *projection, const char *id)
{
    static char text[4096];
    ef_view_list list = {0};
    ef_status st = ef_view_get(f->engine, ef_str_from(projection), (ef_str){0}, ef_str_from(id),
                               NULL, &list, &f->err);

    CHECK(st == EF_OK || st == EF_NOT_FOUND);
    text[0] = '\0';
    if (st == EF_OK)
        (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(list.items[0].data));
    EF_RELEASE(&list);
    return text;
}

static bool count_down(void *context, const ef_run *run, bool idle)
{
    int *left = context;

    (void)run;
    (void)idle;
    return *left < 0 || (*left)-- > 1;
}

ef_run_state drive(fixture *f, const char *id, int steps)
{
    ef_run_list runs = {0};
    ef_run_state state;

    OK(ef_engine_run(f->engine, ef_str_from(id),
                     &(ef_run_options){.progress = count_down, .context = &steps}, &runs, &f->err));
    state = runs.items[0].state;
    EF_RELEASE(&runs);
    return state;
}

ef_outbox_summary summary_of(fixture *f, const char *lane)
{
    ef_outbox_summary s = {0};
    ef_status st = ef_outbox_summarise(
        f->journal, &(ef_outbox_query){.lane = ef_str_from(lane), .any_tenant = true}, &s, &f->err);

    CHECK(st == EF_OK || st == EF_NOT_FOUND); /* a lane that nothing failed in is not there */
    EF_RELEASE(&s.oldest);
    return s;
}

void check_accounts(fixture *f, const char *name, const char *state, int64_t lag)
{
    ef_projection_list list = {0};

    OK(ef_projection_ls(f->engine, ef_str_from(name), &list, &f->err));
    CHECK_STR(state, list.items[0].state);
    CHECK_INT(lag, list.items[0].lag_events + list.items[0].blocked_events);
    CHECK_INT(0, list.items[0].unaccounted);
    EF_RELEASE(&list);
}
