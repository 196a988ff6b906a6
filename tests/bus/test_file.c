/*
 * test_file.c - the file sink: order, half lines, rotation, places that cannot be written.
 */
#include "test.h"

#include "../../src/bus/bus.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    char folder[64], path[96], url[112];
    ef__bus *bus;
    ef_error err;
} place;

static void open_sink(place *p, int64_t file_bytes, int32_t file_count)
{
    CHECK_STATUS(EF_OK,
                 ef__bus_open(&(ef__bus_options){.url = ef_str_from(p->url),
                                                 .file_bytes = file_bytes,
                                                 .file_count = file_count},
                              &p->bus, &p->err),
                 &p->err);
}

static void make_place(place *p)
{
    *p = (place){.err = EF_ERROR_INIT};
    (void)snprintf(p->folder, sizeof p->folder, "/tmp/everfold-bus-XXXXXX");
    CHECK(mkdtemp(p->folder) != NULL);
    (void)snprintf(p->path, sizeof p->path, "%s/out", p->folder);
    (void)snprintf(p->url, sizeof p->url, "file:%s", p->path);
}

static void leave_place(place *p)
{
    char command[96];

    ef__bus_close(p->bus);
    (void)snprintf(command, sizeof command, "rm -rf %s", p->folder);
    CHECK_INT(0, system(command));
}

/* Deliver events seq `from` to `upto`; all of them or none. */
static ef_status deliver(place *p, int64_t from, int64_t upto)
{
    ef__arena arena = EF__ARENA_INIT(1u << 20);
    ef_event events[64] = {{.seq = 0}};
    ef__bus_message messages[64] = {{0}};
    ef__bus_outcome outcomes[64] = {{0}};
    size_t count = (size_t)(upto - from + 1);
    ef_status st;

    for (size_t i = 0; i < count; i++) {
        events[i] = (ef_event){.stream = EF_STR("s"),
                               .seq = from + (int64_t)i,
                               .position = from + (int64_t)i,
                               .id = EF_STR("id"),
                               .type = EF_STR("t"),
                               .time_us = 1,
                               .recorded_us = 1,
                               .data = EF_STR("{\n\"a\":\r\n1}"),
                               .meta = EF_STR("{}")};
        messages[i] = (ef__bus_message){.event = &events[i], .key = EF_STR("s")};
    }
    st = p->bus->ops->deliver(p->bus, messages, count, 1, outcomes, &arena, &p->err);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(st == EF_OK ? EF__BUS_DELIVERED : EF__BUS_WAITING, outcomes[i].verdict);
    ef__arena_release(&arena);
    return st;
}

/* The seqs in a file, "1 2 3 "; "-" when it is not there, "?" where a line is not one of ours. */
static const char *seqs(const place *p, const char *suffix)
{
    static char text[1024];
    static char line[4096];
    char path[128];
    size_t len = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s%s", p->path, suffix);
    file = fopen(path, "r");
    (void)snprintf(text, sizeof text, "%s", file ? "" : "-");
    while (file && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "\"streamsequence\":");
        size_t n = strlen(line);
        bool whole = at && line[0] == '{' && n > 2 && line[n - 1] == '\n' && line[n - 2] == '}';
        len += (size_t)snprintf(text + len, sizeof text - len, whole ? "%ld " : "?",
                                at ? strtol(at + 17, NULL, 10) : 0);
    }
    if (file)
        (void)fclose(file);
    return text;
}

static void add_bytes(const place *p, const char *bytes)
{
    int fd = open(p->path, O_WRONLY | O_APPEND | O_CREAT, 0600);

    CHECK_INT((int64_t)strlen(bytes), write(fd, bytes, strlen(bytes)));
    (void)close(fd);
}

static void each_message_is_a_line_in_order(void **state)
{
    place p;

    (void)state;
    make_place(&p);
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_OK, deliver(&p, 1, 3), &p.err);
    CHECK_STATUS(EF_OK, deliver(&p, 4, 4), &p.err);
    CHECK_TEXT("1 2 3 4 ", seqs(&p, ""));
    leave_place(&p);
}

static void half_a_line_is_cut_off_whoever_left_it_and_when(void **state)
{
    static const char *const halves[] = {"{\"half", "\n{\"half", "x"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        place p;
        make_place(&p);
        open_sink(&p, 0, 0);
        CHECK_STATUS(EF_OK, deliver(&p, 1, 2), &p.err);
        if (i == 0) { /* this process, in an earlier life */
            ef__bus_close(p.bus);
            open_sink(&p, 0, 0);
        }
        add_bytes(&p, i == 1 ? halves[i] + 1 : halves[i]);
        CHECK_STATUS(EF_OK, deliver(&p, 3, 3), &p.err);
        CHECK_TEXT("1 2 3 ", seqs(&p, ""));
        leave_place(&p);
    }
    place p;
    make_place(&p);
    add_bytes(&p, "{\"specversion\":\"1.0\",\"only half");
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_OK, deliver(&p, 1, 1), &p.err);
    CHECK_TEXT("1 ", seqs(&p, ""));
    leave_place(&p);
}

static void a_file_that_was_not_made_by_a_publisher_is_left_alone(void **state)
{
    static const char profile[] = "export PATH\nline two without its end";
    char found[64] = "";
    place p;
    int fd;

    (void)state;
    make_place(&p);
    add_bytes(&p, profile);
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_IO, deliver(&p, 1, 1), &p.err);
    CHECK(strstr(p.err.text, "not created by a publisher") != NULL);
    fd = open(p.path, O_RDONLY);
    CHECK_INT((int64_t)strlen(profile), read(fd, found, sizeof found - 1));
    CHECK_TEXT(profile, found);
    (void)close(fd);
    leave_place(&p);
}

/* out is a link to a file beside it, and "way" a link to the folder itself. */
static void no_symbolic_link_is_followed(void **state)
{
    char target[96], way[80];
    place p;

    (void)state;
    make_place(&p);
    (void)snprintf(target, sizeof target, "%s/target", p.folder);
    CHECK_INT(0, symlink(target, p.path));
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_IO, deliver(&p, 1, 1), &p.err);
    CHECK(strstr(p.err.text, "symbolic link") != NULL);
    CHECK_INT(-1, access(target, F_OK));
    ef__bus_close(p.bus);
    (void)snprintf(way, sizeof way, "%s/way", p.folder);
    CHECK_INT(0, symlink(p.folder, way));
    (void)snprintf(p.url, sizeof p.url, "file:%s/target", way);
    CHECK_STATUS(EF_OK,
                 ef__bus_open(&(ef__bus_options){.url = ef_str_from(p.url),
                                                 .directory = ef_str_from(p.folder)},
                              &p.bus, &p.err),
                 &p.err);
    CHECK_STATUS(EF_IO, deliver(&p, 1, 1), &p.err);
    CHECK_INT(-1, access(target, F_OK));
    ef__bus_close(p.bus);
    open_sink(&p, 0, 0); /* an operator's own path may have links on the way */
    CHECK_STATUS(EF_OK, deliver(&p, 1, 1), &p.err);
    CHECK_INT(0, access(target, F_OK));
    leave_place(&p);
}

static void a_full_file_is_rotated_and_the_oldest_goes(void **state)
{
    place p;

    (void)state;
    make_place(&p);
    open_sink(&p, 700, 2); /* two or three lines */
    for (int64_t i = 1; i <= 12; i += 2)
        CHECK_STATUS(EF_OK, deliver(&p, i, i + 1), &p.err);
    CHECK_TEXT("11 12 ", seqs(&p, ""));
    CHECK_TEXT("9 10 ", seqs(&p, ".1"));
    CHECK_TEXT("7 8 ", seqs(&p, ".2"));
    CHECK_TEXT("-", seqs(&p, ".3"));
    leave_place(&p);
}

static void one_that_somebody_else_moved_away_is_made_anew(void **state)
{
    place p;
    char moved[128];

    (void)state;
    make_place(&p);
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_OK, deliver(&p, 1, 1), &p.err);
    (void)snprintf(moved, sizeof moved, "%s.1", p.path);
    CHECK_INT(0, rename(p.path, moved));
    CHECK_STATUS(EF_OK, deliver(&p, 2, 2), &p.err);
    CHECK_TEXT("1 ", seqs(&p, ".1"));
    CHECK_TEXT("2 ", seqs(&p, ""));
    leave_place(&p);
}

static void what_another_process_has_locked_is_left_alone(void **state)
{
    place p;
    int fd;

    (void)state;
    make_place(&p);
    open_sink(&p, 0, 0);
    add_bytes(&p, "");
    fd = open(p.path, O_RDONLY);
    CHECK_INT(0, flock(fd, LOCK_EX));
    CHECK_STATUS(EF_BUSY, deliver(&p, 1, 1), &p.err);
    (void)close(fd);
    CHECK_STATUS(EF_OK, deliver(&p, 1, 1), &p.err);
    CHECK_TEXT("1 ", seqs(&p, ""));
    leave_place(&p);
}

static void a_place_that_cannot_be_written_is_named(void **state)
{
    place p;

    (void)state;
    make_place(&p);
    (void)snprintf(p.url, sizeof p.url, "file:%s/none/out", p.folder);
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_IO, deliver(&p, 1, 1), &p.err);
    CHECK(strstr(p.err.text, "/none/out") != NULL);
    ef__bus_close(p.bus);
    (void)snprintf(p.url, sizeof p.url, "file:%s", "/dev/null");
    open_sink(&p, 0, 0);
    CHECK_STATUS(EF_IO, deliver(&p, 1, 1), &p.err);
    leave_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_is_a_line_in_order),
        cmocka_unit_test(half_a_line_is_cut_off_whoever_left_it_and_when),
        cmocka_unit_test(a_file_that_was_not_made_by_a_publisher_is_left_alone),
        cmocka_unit_test(no_symbolic_link_is_followed),
        cmocka_unit_test(a_full_file_is_rotated_and_the_oldest_goes),
        cmocka_unit_test(one_that_somebody_else_moved_away_is_made_anew),
        cmocka_unit_test(what_another_process_has_locked_is_left_alone),
        cmocka_unit_test(a_place_that_cannot_be_written_is_named),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
