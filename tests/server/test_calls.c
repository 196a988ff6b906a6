/*
 * The calls of <everfold/client.h>, against a server of its own; and against none, one that dies,
 * and some that are not ours.
 *
 * test_calls EVERFOLD: the binary to serve with.
 */
#include "test.h"

#include <everfold/client.h>

#include <arpa/inet.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_LINES 50

static const char *everfold;

typedef struct served {
    char dir[64], url[128];
    pid_t pid;
    FILE *said;
    ef_client *client;
    ef_error err;
} served;

#define OK(call) CHECK_STATUS(EF_OK, call, &t->err)
#define REFUSED(status, call) CHECK_STATUS(status, call, &t->err)

/* --- a server of its own -----------------------------------------------------------------------
 */

static void run_server(const served *t, int out)
{
    char data[96];

    (void)snprintf(data, sizeof data, "%s/data", t->dir);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)setenv("EVERFOLD_PUBLISH_DIRECTORIES", t->dir, 1);
    (void)execl(everfold, everfold, "serve", "--listen", "127.0.0.1:0", "--data", data, NULL);
    _exit(127);
}

static ef_client *open_to(const char *url, ef_error *err)
{
    ef_client *client = NULL;

    CHECK_STATUS(
        EF_OK, ef_client_open(&(ef_client_options){.url = url, .timeout_ms = 20000}, &client, err),
        err);
    return client;
}

static int start(void **state)
{
    static const char mark[] = "everfold serves at ";
    served *t = calloc(1, sizeof *t);
    char line[1024];
    int ends[2];

    if (!t || pipe(ends) != 0)
        return -1;
    (void)snprintf(t->dir, sizeof t->dir, "/tmp/everfold-calls-XXXXXX");
    if (!mkdtemp(t->dir))
        return -1;
    t->pid = fork();
    if (t->pid == 0)
        run_server(t, ends[1]);
    (void)close(ends[1]);
    t->said = fdopen(ends[0], "r");
    for (int i = 0; i < START_LINES && fgets(line, sizeof line, t->said); i++)
        if (strncmp(line, mark, sizeof mark - 1) == 0) {
            (void)snprintf(t->url, sizeof t->url, "%.*s",
                           (int)strcspn(line + sizeof mark - 1, "\n"), line + sizeof mark - 1);
            break;
        }
    t->client = open_to(t->url, &t->err);
    *state = t;
    return t->url[0] ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static int end_server(served *t, int sig)
{
    int status = 0;

    if (t->pid > 0 && kill(t->pid, sig) == 0)
        (void)waitpid(t->pid, &status, 0);
    t->pid = 0;
    return status;
}

static int stop(void **state)
{
    served *t = *state;
    int status;

    ef_client_close(t->client);
    status = end_server(t, SIGTERM);
    (void)fclose(t->said);
    (void)nftw(t->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(t);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static ef_new_event event_of(const char *stream, const char *data)
{
    return (ef_new_event){
        .stream = ef_str_from(stream), .type = EF_STR("order.placed"), .data = ef_str_from(data)};
}

static ef_place append(served *t, const char *stream, const char *data)
{
    ef_new_event event = event_of(stream, data);
    ef_place place = {0};

    OK(ef_client_append(t->client, &event, 1, &place, &t->err));
    return place;
}

/* --- events ------------------------------------------------------------------------------------
 */

TEST(an_append_returns_its_place_and_a_duplicate_returns_the_first_one)
{
    served *t = *state;
    ef_new_event events[] = {event_of("a-1", "{\"n\":1}"), event_of("a-1", "{\"n\":2}")};
    ef_place first[2], again[2];

    events[0].id = EF_STR("a-1-one");
    events[1].id = EF_STR("a-1-two");
    OK(ef_client_append(t->client, events, 2, first, &t->err));
    CHECK_INT(1, first[0].seq);
    CHECK_INT(2, first[1].seq);
    CHECK_INT(first[0].position + 1, first[1].position);
    CHECK(!first[1].duplicate);
    OK(ef_client_append(t->client, events, 2, again, &t->err));
    CHECK(again[0].duplicate && again[1].duplicate);
    CHECK_INT(first[1].position, again[1].position);
    events[1].data = EF_STR("{\"n\":3}");
    REFUSED(EF_ID_CONFLICT, ef_client_append(t->client, events, 2, again, &t->err));
}

TEST(a_seq_that_has_been_passed_is_a_conflict_that_says_what_was_found)
{
    served *t = *state;
    ef_new_event event = event_of("a-2", "{}");
    ef_place place;

    (void)append(t, "a-2", "{}");
    (void)append(t, "a-2", "{}");
    event.expected_seq = ef_expect_seq(1);
    REFUSED(EF_CONFLICT, ef_client_append(t->client, &event, 1, &place, &t->err));
    CHECK(t->err.has_numbers);
    CHECK_INT(1, t->err.asked);
    CHECK_INT(2, t->err.found);
    event.expected_seq = ef_expect_seq(0);
    REFUSED(EF_CONFLICT, ef_client_append(t->client, &event, 1, &place, &t->err));
    event.expected_seq = ef_expect_seq(2);
    OK(ef_client_append(t->client, &event, 1, &place, &t->err));
    CHECK_INT(3, place.seq);
}

TEST(what_was_appended_is_read_back_by_stream_by_position_and_by_id)
{
    static const char data[] =
        "{ \"text\": \"\\u00e9 \xc3\xa9\", \"big\": 12345678901234567890.50 }";
    served *t = *state;
    ef_place place = append(t, "a/3 ?%", data);
    ef_batch batch = EF_BATCH_INIT;

    OK(ef_client_read_stream(t->client, EF_STR(""), EF_STR("a/3 ?%"), 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_STR(data, batch.events[0].data);
    CHECK(!batch.more);
    OK(ef_client_read_log(t->client, &(ef_log_query){.after = place.position - 1, .limit = 1},
                          &batch, &t->err));
    CHECK_INT(place.position, batch.events[0].position);
    OK(ef_client_read_id(t->client, EF_STR(""), ef_str_from(place.id), &batch, &t->err));
    CHECK_STR("a/3 ?%", batch.events[0].stream);
    REFUSED(EF_NOT_FOUND,
            ef_client_read_id(t->client, EF_STR("else"), ef_str_from(place.id), &batch, &t->err));
    REFUSED(EF_NOT_FOUND,
            ef_client_read_stream(t->client, EF_STR(""), EF_STR("none"), 1, 1, &batch, &t->err));
    EF_RELEASE(&batch);
}

static void *append_later(void *context)
{
    served *t = context;
    ef_new_event event = event_of("a-4", "{}");
    ef_place place;
    ef_error err = EF_ERROR_INIT;
    ef_client *other = open_to(t->url, &err);
    ef_status st;

    (void)usleep(100000);
    st = ef_client_append(other, &event, 1, &place, &err);
    ef_client_close(other);
    return st == EF_OK ? NULL : (void *)"not appended";
}

TEST(a_follower_gets_the_next_event_and_a_timeout_without_any)
{
    served *t = *state;
    ef_head head;
    pthread_t thread;
    void *wrong;

    OK(ef_client_head(t->client, &head, &t->err));
    REFUSED(EF_TIMEOUT, ef_client_wait(t->client, head.position, 50, &t->err));
    CHECK_INT(0, pthread_create(&thread, NULL, append_later, t));
    OK(ef_client_wait(t->client, head.position, 15000, &t->err));
    CHECK_INT(0, pthread_join(thread, &wrong));
    CHECK(wrong == NULL);
}

/* --- lists -------------------------------------------------------------------------------------
 */

TEST(projections_views_and_publishers_are_listed)
{
    static const char program[] = "projection sums version 1\n  view stream\n\non sum.added\n"
                                  "  total += data.n\n";
    served *t = *state;
    ef_projection_list projections = {0};
    ef_publisher_list publishers = {0};
    ef_view_list views = {0};
    ef_freshness now = {.current = true, .timeout_ms = 15000};
    ef_new_event event = event_of("sum-1", "{\"n\":4}");
    ef_place place;
    int64_t rows = 0;
    char sink[96];

    OK(ef_client_projection_deploy(t->client, ef_str_from(program), false, EF_STR(""), EF_STR(""),
                                   &projections, &t->err));
    event.type = EF_STR("sum.added");
    OK(ef_client_append(t->client, &event, 1, &place, &t->err));
    OK(ef_client_view_get(t->client, EF_STR("sums"), EF_STR(""), EF_STR("sum-1"), &now, &views,
                          &t->err));
    CHECK_STR("{\"total\":4}", views.items[0].data);
    OK(ef_client_projection_ls(t->client, EF_STR(""), &projections, &t->err));
    CHECK_INT(1, projections.count);
    REFUSED(EF_NOT_FOUND,
            ef_client_projection_ls(t->client, EF_STR("none"), &projections, &t->err));
    (void)snprintf(sink, sizeof sink, "file:%s/out", t->dir);
    OK(ef_client_publisher_set(
        t->client, &(ef_publisher){.name = EF_STR("out"), .url = ef_str_from(sink)}, &t->err));
    OK(ef_client_publisher_pause(t->client, EF_STR("out"), true, EF_STR("they move"), &t->err));
    OK(ef_client_publisher_ls(t->client, &EF_STR("out"), &publishers, &t->err));
    CHECK(publishers.items[0].paused);
    OK(ef_client_publisher_ls(t->client, NULL, &publishers, &t->err));
    CHECK_INT(1, publishers.count);
    OK(ef_client_publisher_remove(t->client, EF_STR("out"), false, EF_STR("gone"), &rows, &t->err));
    REFUSED(EF_NOT_FOUND, ef_client_publisher_ls(t->client, &EF_STR("out"), &publishers, &t->err));
    EF_RELEASE(&publishers);
    EF_RELEASE(&views);
    EF_RELEASE(&projections);
}

/* --- limits and bad input ----------------------------------------------------------------------
 */

TEST(a_url_that_is_none_is_refused)
{
    static const char *const bad[] = {NULL,      "",          "127.0.0.1:7450",       "ftp://h",
                                      "http://", "http:///x", "http://u:p@127.0.0.1", "http://h?q"};
    served *t = *state;
    ef_client *client = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(EF_BAD_INPUT,
                ef_client_open(&(ef_client_options){.url = bad[i]}, &client, &t->err));
        CHECK(client == NULL);
    }
    REFUSED(EF_BAD_INPUT, ef_client_open(&(ef_client_options){.url = "http://events.example.org",
                                                              .token = "evf_x"},
                                         &client, &t->err));
    REFUSED(EF_BAD_INPUT,
            ef_client_open(&(ef_client_options){.url = t->url, .token = "evf\r\nX: y"}, &client,
                           &t->err));
    REFUSED(EF_BAD_INPUT,
            ef_client_open(&(ef_client_options){.url = t->url, .actor = "a\nb"}, &client, &t->err));
    REFUSED(EF_BAD_INPUT, ef_client_head(NULL, &(ef_head){0}, &t->err));
}

TEST(what_is_too_large_is_refused_and_changes_nothing)
{
    enum { LARGE = (1 << 20) + 16 };
    served *t = *state;
    char *data = malloc(LARGE + 1), tenant[400];
    ef_new_event event = event_of("a-5", "{}");
    ef_batch batch = EF_BATCH_INIT;
    ef_place place;

    CHECK(data != NULL);
    memset(data, 'x', LARGE);
    data[0] = data[LARGE - 1] = '"';
    data[LARGE] = '\0';
    event.data = ef_str_from(data);
    REFUSED(EF_TOO_LARGE, ef_client_append(t->client, &event, 1, &place, &t->err));
    memset(tenant, 't', sizeof tenant);
    REFUSED(EF_BAD_INPUT, ef_client_read_stream(t->client, (ef_str){tenant, sizeof tenant},
                                                EF_STR("a-5"), 1, 1, &batch, &t->err));
    REFUSED(EF_NOT_FOUND,
            ef_client_read_stream(t->client, EF_STR(""), EF_STR("a-5"), 1, 1, &batch, &t->err));
    EF_RELEASE(&batch);
    free(data);
}

/* --- servers that are not what they should be --------------------------------------------------
 */

/* A socket that takes one connection, reads a little, says `answer`, and closes. */
typedef struct impostor {
    int fd;
    const char *answer;
    char url[64];
} impostor;

static void impostor_open(impostor *i)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    i->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(i->fd >= 0 && bind(i->fd, (struct sockaddr *)&at, sizeof at) == 0 &&
          listen(i->fd, 4) == 0 && getsockname(i->fd, (struct sockaddr *)&at, &size) == 0);
    (void)snprintf(i->url, sizeof i->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
}

static void *impostor_run(void *context)
{
    const impostor *i = context;
    char room[4096];
    int fd = accept(i->fd, NULL, NULL);

    (void)!read(fd, room, sizeof room);
    if (i->answer)
        (void)!write(fd, i->answer, strlen(i->answer));
    (void)close(fd);
    return NULL;
}

static ef_status append_to(const char *answer, ef_error *err)
{
    impostor i = {.answer = answer};
    ef_new_event event = event_of("a", "{}");
    ef_place place;
    ef_client *client;
    pthread_t thread;
    ef_status st;

    impostor_open(&i);
    client = open_to(i.url, err);
    CHECK_INT(0, pthread_create(&thread, NULL, impostor_run, &i));
    st = ef_client_append(client, &event, 1, &place, err);
    CHECK_INT(0, pthread_join(thread, NULL));
    ef_client_close(client);
    (void)close(i.fd);
    return st;
}

TEST(an_append_whose_answer_is_lost_is_unsure)
{
    served *t = *state;

    CHECK_INT(EF_UNSURE, append_to(NULL, &t->err));
    CHECK_INT(EF_UNSURE, append_to("HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n[", &t->err));
}

TEST(an_answer_that_is_not_ours_is_an_error_in_words)
{
    served *t = *state;

    CHECK(append_to("HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello", &t->err) != EF_OK);
    CHECK(append_to("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n[]", &t->err) != EF_OK);
    CHECK(append_to("HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nhello", &t->err) != EF_OK);
    CHECK(strstr(t->err.text, "without a problem object") != NULL);
    CHECK(append_to("HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n",
                    &t->err) != EF_OK);
}

static void *kill_soon(void *context)
{
    (void)usleep(200000);
    (void)end_server(context, SIGKILL);
    return NULL;
}

/* The last one: its server does not come back. */
TEST(a_server_that_dies_fails_who_waits_and_all_that_follow)
{
    served *own = NULL;
    void *room = NULL;
    ef_error err = EF_ERROR_INIT;
    ef_new_event event = event_of("a", "{}");
    ef_place place;
    pthread_t thread;

    (void)state;
    CHECK_INT(0, start(&room));
    own = room;
    CHECK_INT(0, pthread_create(&thread, NULL, kill_soon, own));
    CHECK_STATUS(EF_BUSY, ef_client_wait(own->client, 0, 15000, &err), &err);
    CHECK_INT(0, pthread_join(thread, NULL));
    CHECK_STATUS(EF_BUSY, ef_client_append(own->client, &event, 1, &place, &err), &err);
    CHECK(strstr(err.text, "cannot be reached") != NULL);
    (void)stop(&room);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(an_append_returns_its_place_and_a_duplicate_returns_the_first_one),
        TEST_CASE(a_seq_that_has_been_passed_is_a_conflict_that_says_what_was_found),
        TEST_CASE(what_was_appended_is_read_back_by_stream_by_position_and_by_id),
        TEST_CASE(a_follower_gets_the_next_event_and_a_timeout_without_any),
        TEST_CASE(projections_views_and_publishers_are_listed),
        TEST_CASE(a_url_that_is_none_is_refused),
        TEST_CASE(what_is_too_large_is_refused_and_changes_nothing),
        TEST_CASE(an_append_whose_answer_is_lost_is_unsure),
        TEST_CASE(an_answer_that_is_not_ours_is_an_error_in_words),
        TEST_CASE(a_server_that_dies_fails_who_waits_and_all_that_follow),
    };

    if (argc != 2)
        return 2;
    everfold = argv[1];
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, stop);
}
