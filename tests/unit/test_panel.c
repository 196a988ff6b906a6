/*
 * test_panel.c - the panel of `work` and `top`: its content, and that it fits any terminal size.
 */
#include "../../src/cli/layout.h"
#include "../../src/cli/panel.h"

#include "test.h"

#include <locale.h>
#include <stdlib.h>

/* What the same files offer to commands and drawing never calls. */
bool cli_flush(cli *c)
{
    (void)c;
    abort();
}

const char *cli_colour(const cli *c, enum cli_colour colour)
{
    (void)c;
    (void)colour;
    abort();
}

ef_status cli_number_parse(const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out, ef_error *err)
{
    (void)what, (void)text, (void)min, (void)max, (void)out, (void)err;
    abort();
}

ef_status cli_engine_open(cli *c, bool create, bool read_only, ef_error *err)
{
    (void)c, (void)create, (void)read_only, (void)err;
    abort();
}

/* --- facts --------------------------------------------------------------------------------------
 */

#define NOW_US INT64_C(1800000000000000)
#define NASTY "näme \x1b[31m漢字 \xff\x80 \xe2\x80\xae tab\t"

static const ef_projection projections[] = {
    {.name = {"counter", 7},
     .version = 3,
     .active = true,
     .state = {"live", 4},
     .lag_events = 17,
     .lag_us = 2500000,
     .views = 12345,
     .failures = 2,
     .unaccounted = 6},
    {.name = {NASTY, sizeof NASTY - 1},
     .version = 1,
     .generation = 2,
     .state = {"catching_up", 11}},
};
static const ef_projection huge[] = {
    {.name = {NASTY, sizeof NASTY - 1},
     .version = INT32_MAX,
     .state = {"catching_up", 11},
     .lag_events = INT64_MAX,
     .lag_us = INT64_MAX,
     .views = INT64_MAX,
     .failures = INT64_MAX,
     .unaccounted = INT64_MIN},
};
static const ef_worker workers[] = {
    {.id = {"w-1", 3},
     .pid = 42,
     .live = true,
     .updated_us = NOW_US - 3000000,
     .started_us = NOW_US - INT64_C(7200000000)},
    {.id = {NASTY, sizeof NASTY - 1},
     .pid = 43,
     .state = EF_WORKER_STALE,
     .updated_us = NOW_US - INT64_C(300000000),
     .started_us = 1},
};
static const ef_partition partitions[] = {
    {.number = 0, .holder = {"w-1", 3}, .live = true, .pending = 5, .in_flight = 4},
    {.number = 1, .retry_rows = 3},
};
static const ef_row oldest[] = {{.enqueued_us = NOW_US - 9000000}};
static ef__overview_lane lanes[] = {
    {{"*", 1}, {.pending = 11, .processing = 22, .oldest = {.items = oldest, .count = 1}}},
    {{"counter", 7}, {.failed = 33, .dead = 44, .blocked = 55}},
};
static const ef_task tasks[] = {
    {.name = "queue", .state = EF_TASK_IDLE},
    {.name = "cursor-1", .state = EF_TASK_RETRYING, .failures_in_a_row = 7},
};

typedef struct scene {
    ef__overview overview;
    ef__troubles troubles;
    cli_panel_work work;
    cli_panel_facts facts;
    ef__buf out;
} scene;

static void set_scene(scene *s, bool works)
{
    *s = (scene){.overview = {.head = {.position = 777},
                              .facts = {.durability = "acks survive: process crash yes, power loss "
                                                      "no; and more",
                                        .partitions = 16},
                              .outbox = {.pending = 101, .dead = 44},
                              .oldest_ms = 9000,
                              .disk = {.free_bytes = -1},
                              .workers = {.items = workers, .count = 2},
                              .workers_live = 1,
                              .projections = {.items = projections, .count = 2},
                              .partitions = {.items = partitions, .count = 2},
                              .lanes = lanes,
                              .lane_count = 2},
                 .work = {.worker = {"w-1", 3},
                          .heartbeat_ms = 3200,
                          .sum = {.claimed = 1001,
                                  .applied = 1002,
                                  .ignored = 1003,
                                  .failed = 1004,
                                  .deferred = 1005,
                                  .dead = 1006,
                                  .caught_up = 1007,
                                  .desired_count = 8,
                                  .owned_count = 7,
                                  .leased_count = 6,
                                  .released_count = 5},
                          .tasks = tasks,
                          .task_count = 2},
                 .out = EF__BUF_INIT(CLI_OUT_MAX)};
    cli_troubles_add(&s->troubles, NOW_US - 61000000, "queue: the disk is full");
    cli_troubles_add(&s->troubles, NOW_US - 1000000, NASTY);
    s->facts = (cli_panel_facts){.title = works ? "work" : "top",
                                 .mode = "outbox_apply_only",
                                 .overview = &s->overview,
                                 .troubles = &s->troubles,
                                 .work = works ? &s->work : NULL,
                                 .now_us = NOW_US,
                                 .up_ms = 3725000,
                                 .refresh_ms = 1200,
                                 .window_s = 10,
                                 .rate = 12.34,
                                 .history = {[59] = 1}};
}

static const char *draw(scene *s, size_t width, size_t height, cli_panel_page page)
{
    ef__buf_reset(&s->out);
    cli_panel_draw(&s->facts,
                   &(cli_panel_view){.width = width, .height = height, .page = page, .keys = true},
                   &s->out);
    CHECK(!s->out.failed);
    return s->out.ptr;
}

static void check_says(const char *frame, const char *words)
{
    if (!strstr(frame, words))
        print_error("\"%s\" is not in:\n%s\n", words, frame);
    CHECK(strstr(frame, words) != NULL);
}

/* --- tests --------------------------------------------------------------------------------------
 */

TEST(the_panel_of_a_worker_shows_its_totals_partitions_and_tasks)
{
    static const char *const words[] = {"everfold work  outbox_apply_only  up 1:02:05",
                                        "worker w-1",
                                        "heartbeat 3 s ago",
                                        "workers 1 live",
                                        "refresh in 2 s",
                                        "acks survive: process crash yes",
                                        "power loss no",
                                        "claimed 1001",
                                        "applied 1002",
                                        "ignored 1003",
                                        "failed 1004",
                                        "deferred 1005",
                                        "dead 1006",
                                        "caught up 1007",
                                        "12.3/s over 10 s",
                                        "desired 8",
                                        "owned 7",
                                        "leased 6",
                                        "released 5",
                                        "queue idle",
                                        "cursor-1 retrying (7 failures)",
                                        "pending 101",
                                        "oldest 9 s",
                                        "counter v3",
                                        "17",
                                        "2.5",
                                        "12345",
                                        "61 s",
                                        "queue: the disk is full",
                                        "q quit  p pause  e errors  ? help"};
    static const size_t sizes[][2] = {{60, 40}, {100, 40}, {160, 50}};
    scene s;

    set_scene(&s, true);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
            check_says(draw(&s, sizes[i][0], sizes[i][1], CLI_PANEL_ALL), words[k]);
    ef__buf_release(&s.out);
}

TEST(top_shows_lanes_workers_and_partitions)
{
    static const char *const words[] = {"everfold top", "position 777", "of 16  owned 1  free 1",
                                        "pending 5",    "in flight 4",  "retry rows 3",
                                        "LANE",         "11",           "22",
                                        "33",           "44",           "55",
                                        "9 s",          "w-1",          "42",
                                        "live",         "stale",        "3 s",
                                        "2 h",          "5 min"};
    scene s;

    set_scene(&s, false);
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        check_says(draw(&s, 100, 60, CLI_PANEL_ALL), words[k]);
    CHECK(!strstr(s.out.ptr, "claimed"));
    CHECK(!strstr(s.out.ptr, "posts"));
    ef__buf_release(&s.out);
}

/* Every line fits, there are not too many, and nothing in them would move the cursor. */
static void check_fits(const char *frame, size_t width, size_t height)
{
    size_t lines = 0;

    while (*frame) {
        ef_str line = {frame, strcspn(frame, "\n")};
        if (cli_text_width(line) > width)
            print_error("wider than %zu: %.*s\n", width, EF_STR_ARG(line));
        CHECK(cli_text_width(line) <= width);
        for (size_t i = 0; i < line.len; i++)
            CHECK((unsigned char)line.ptr[i] >= 0x20);
        frame += line.len + 1;
        lines++;
    }
    CHECK(lines >= 1 && lines <= height);
}

TEST(it_fits_every_size)
{
    static const size_t heights[] = {1, 2, 3, 4, 7, 12, 20, 33, 60};

    for (int works = 0; works < 2; works++) {
        scene s;
        set_scene(&s, works);
        s.overview.projections = (ef_projection_list){.items = huge, .count = 1};
        s.work.sum.claimed = s.overview.outbox.pending = s.overview.head.position = INT64_MAX;
        for (size_t width = 1; width <= 200; width++)
            for (size_t i = 0; i < sizeof heights / sizeof heights[0]; i++)
                check_fits(draw(&s, width, heights[i], (cli_panel_page)(width % 3)), width,
                           heights[i]);
        for (size_t width = 1; width <= 200; width++)
            check_fits(draw(&s, width, 20, CLI_PANEL_ALL), width, 20);
        ef__buf_release(&s.out);
    }
}

TEST(a_narrow_terminal_has_the_whole_health_message_and_the_heads_of_all_lists)
{
    scene s;

    set_scene(&s, false);
    s.overview.outbox.blocked = 3;
    check_says(draw(&s, 40, 60, CLI_PANEL_ALL), "\n3 events are blocked.\n");
    check_says(s.out.ptr, "LANE    PEND  PROC  FAIL  DEAD  BLOCK");
    check_says(s.out.ptr, "WORKER  PID  STATE     BEAT       UP  P");
    check_says(draw(&s, 40, 60, CLI_PANEL_HELP), "\n             applied; when idle it must\n");
    check_says(draw(&s, 149, 60, CLI_PANEL_ALL), "counter v3  ");
    check_says(s.out.ptr, " v1 g2  ");
    ef__buf_release(&s.out);
}

TEST(the_keys_stand_in_the_last_line_of_a_full_screen)
{
    scene s;
    size_t lines = 0;

    set_scene(&s, true);
    draw(&s, 100, 48, CLI_PANEL_HELP);
    for (size_t i = 0; i < s.out.len; i++)
        lines += s.out.ptr[i] == '\n' ? 1 : 0;
    CHECK_INT(48, lines);
    CHECK_TEXT("q quit  p pause  e errors  ? help\n", strstr(s.out.ptr, "q quit  p"));
    ef__buf_release(&s.out);
}

TEST(lines_that_do_not_fit_the_height_are_counted)
{
    ef_projection many[40];
    scene s;

    set_scene(&s, true);
    for (size_t i = 0; i < 40; i++)
        many[i] = projections[0];
    s.overview.projections = (ef_projection_list){.items = many, .count = 40};
    check_says(draw(&s, 100, 30, CLI_PANEL_ALL), " more\n");
    check_says(s.out.ptr, "ERROR");
    CHECK(!strstr(draw(&s, 100, 0, CLI_PANEL_ALL), " more\n"));
    ef__buf_release(&s.out);
}

TEST(a_low_terminal_shows_no_heads_without_rows)
{
    scene s;

    set_scene(&s, false);
    check_says(draw(&s, 60, 20, CLI_PANEL_ALL), "PROJECTION");
    check_says(s.out.ptr, "counter");
    CHECK(!strstr(s.out.ptr, "OLDEST\n…"));
    CHECK(!strstr(s.out.ptr, "ERROR\n…"));
    ef__buf_release(&s.out);
}

TEST(the_page_of_errors_shows_each_in_full)
{
    char text[400], *found;
    scene s;

    set_scene(&s, true);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text + sizeof text - 6, "Z-END", 5);
    cli_troubles_add(&s.troubles, NOW_US, text);
    found = strstr(draw(&s, 60, 20, CLI_PANEL_ALL), "Z-END");
    CHECK(found == NULL);
    check_says(draw(&s, 60, 20, CLI_PANEL_ERRORS), "Z-END");
    check_says(s.out.ptr, "0 s ago: xxx");
    ef__buf_release(&s.out);
}

TEST(colours_have_no_width)
{
    cli_section section = CLI_SECTION_INIT;
    ef__buf out = EF__BUF_INIT(1000);

    cli_section_line(&section, EF_STR(CLI_MARK_RED "abc" CLI_MARK_PLAIN "defg"));
    cli_band_write(&(cli_band){&section, 1, 1, 6, true, false}, 5, &out);
    CHECK_TEXT("\033[31mabc\033[0mde…\n", out.ptr);
    ef__buf_reset(&out);
    cli_band_write(&(cli_band){&section, 1, 1, 3, true, false}, 5, &out);
    CHECK_TEXT("\033[31mab…\033[0m\n", out.ptr);
    ef__buf_reset(&out);
    cli_band_write(&(cli_band){&section, 1, 1, 7, false, false}, 5, &out);
    CHECK_TEXT("abcdefg\n", out.ptr);
    ef__buf_release(&out);
    cli_section_release(&section);
}

TEST(the_newest_five_errors_are_kept)
{
    ef__troubles t = {0};
    char text[8];

    for (int i = 1; i <= 7; i++) {
        (void)snprintf(text, sizeof text, "e%d", i);
        cli_troubles_add(&t, i * 10, text);
    }
    CHECK_INT(5, t.count);
    CHECK_TEXT("e7", t.items[0].text);
    CHECK_TEXT("e3", t.items[4].text);
    cli_troubles_add(&t, 1, "too old");
    cli_troubles_add(&t, 100, "e4"); /* again: it moves up, and nothing is lost for it */
    cli_troubles_add(&t, 99, "e4");
    CHECK_INT(5, t.count);
    CHECK_TEXT("e4", t.items[0].text);
    CHECK_TEXT("e7", t.items[1].text);
    CHECK_TEXT("e3", t.items[4].text);
    cli_troubles_add(&t, 65, "between");
    CHECK_TEXT("between", t.items[2].text);
    CHECK_TEXT("e5", t.items[4].text);
}

TEST(a_rate_counts_only_events_within_its_window)
{
    static cli_rate rate;
    int64_t history[3], s = 1000000;

    rate.started_us = 5 * s;
    cli_rate_add(&rate, 5 * s, 10);
    CHECK(cli_rate_over(&rate, 5 * s + 1, 10) == 10.0);
    CHECK(cli_rate_over(&rate, 10 * s, 10) == 2.0);
    cli_rate_add(&rate, 20 * s, 30);
    cli_rate_history(&rate, 21 * s, history, 3);
    CHECK_INT(0, history[0]);
    CHECK_INT(0, history[1]);
    CHECK_INT(30, history[2]);
    CHECK(cli_rate_over(&rate, 24 * s, 3) == 0.0);
    cli_rate_spread(&rate, 21 * s, 24 * s, 8);
    cli_rate_history(&rate, 25 * s, history, 3);
    CHECK_INT(2, history[0]);
    CHECK_INT(2, history[1]);
    CHECK_INT(4, history[2]);
    CHECK(cli_rate_over(&rate, 5 * s + 100000 * s, 3600) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(the_panel_of_a_worker_shows_its_totals_partitions_and_tasks),
        TEST_CASE(top_shows_lanes_workers_and_partitions),
        TEST_CASE(it_fits_every_size),
        TEST_CASE(a_narrow_terminal_has_the_whole_health_message_and_the_heads_of_all_lists),
        TEST_CASE(the_keys_stand_in_the_last_line_of_a_full_screen),
        TEST_CASE(lines_that_do_not_fit_the_height_are_counted),
        TEST_CASE(a_low_terminal_shows_no_heads_without_rows),
        TEST_CASE(the_page_of_errors_shows_each_in_full),
        TEST_CASE(colours_have_no_width),
        TEST_CASE(the_newest_five_errors_are_kept),
        TEST_CASE(a_rate_counts_only_events_within_its_window),
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
