/*
 * What is LMDB's own: a map that grows, several processes on one environment, slots of readers that
 * were killed, folders that are something else.
 */
#include "views_fixture.h"

#include "../../src/base/file.h"
#include "../../src/views/lmdb/store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL_MAP ((size_t)1 << 20)
enum { LARGE_BYTES = 200 * 1000, LARGE_VIEWS = 20 };

/* The fixture's store once more, in a folder of its own with a small map. */
typedef struct small {
    char folder[240];
    ef__views_options options;
} small;

static ef_status open_small(fixture *t, const small *s, ef_views **out)
{
    return vl_open(&s->options, s->folder, SMALL_MAP, out, &t->err);
}

static small make_small(fixture *t)
{
    small s = {.options = {.create = true, .busy_ms = 200, .clock = &t->clock}};

    (void)snprintf(s.folder, sizeof s.folder, "%s/small", t->dir);
    ef__views_close(t->views);
    t->views = NULL;
    OK(open_small(t, &s, &t->views));
    return s;
}

static void remove_small(const small *s)
{
    static const char *const NAMES[] = {"data.mdb", "lock.mdb", "everfold.lock"};
    char path[300];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", s->folder, NAMES[i]);
        (void)unlink(path);
    }
    (void)rmdir(s->folder);
}

static size_t map_bytes(ef_views *views)
{
    MDB_envinfo info;

    CHECK_INT(0, mdb_env_info(vl_store_of(views)->env->mdb, &info));
    return info.me_mapsize;
}

static char *large_data(char last)
{
    char *data = malloc(LARGE_BYTES + 1);

    CHECK(data != NULL);
    memset(data, '1', LARGE_BYTES);
    data[LARGE_BYTES - 1] = last;
    data[LARGE_BYTES] = '\0';
    return data;
}

/* A commit of one large view. */
static ef_status put_large(fixture *t, int64_t g, int number)
{
    char id[16], *data = large_data((char)('a' + number));
    ef__view_change view;
    ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};
    ef_status st;

    (void)snprintf(id, sizeof id, "v%02d", number);
    view = change_of(t, g, "", id, data);
    st = commit_change(t, &change);
    free(data);
    return st;
}

static void check_large(fixture *t, int64_t g, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16], *data = large_data((char)('a' + i));
        (void)snprintf(id, sizeof id, "v%02d", i);
        CHECK_TEXT(data, view_data(t, g, "", id));
        free(data);
    }
    CHECK_INT(count, generation(t, g).views);
}

/* --- growing ---------------------------------------------------------------------------------- */

CONTRACT(the_map_grows_with_what_is_in_it)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");

    CHECK_INT(SMALL_MAP, map_bytes(t->views));
    for (int i = 0; i < LARGE_VIEWS; i++)
        OK(put_large(t, g, i));
    CHECK(map_bytes(t->views) >= 4 * SMALL_MAP);
    check_large(t, g, LARGE_VIEWS);
    ef__views_close(t->views);
    OK(open_small(t, &s, &t->views));
    check_large(t, g, LARGE_VIEWS);
    remove_small(&s);
}

CONTRACT(a_map_that_cannot_grow_during_a_read_is_busy_and_changes_nothing)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");
    ef_views *own = t->views, *other, *snapshot;
    ef__watermark mark;
    bool found;
    int count = 0;
    ef_status st = EF_OK;

    OK(open_small(t, &s, &other));
    OK(own->ops->snapshot_open(own, &snapshot, &t->err));
    OK(snapshot->ops->watermark_get(snapshot, g, str(""), str("s"), &mark, &found, &t->err));
    t->views = other;
    while (st == EF_OK && count < LARGE_VIEWS) {
        st = put_large(t, g, count);
        count += st == EF_OK;
    }
    CHECK_STATUS(EF_BUSY, st, &t->err);
    check_large(t, g, count);
    ef__views_close(snapshot);
    OK(put_large(t, g, count));
    check_large(t, g, count + 1);
    ef__views_close(other);
    t->views = own;
    check_large(t, g, count + 1);
    remove_small(&s);
}

static bool is_growing(fixture *t)
{
    vl_env *env = vl_store_of(t->views)->env;
    bool growing;

    pthread_mutex_lock(&env->gate);
    growing = env->growing;
    pthread_mutex_unlock(&env->gate);
    return growing;
}

static bool grow_meanwhile(void *context, ef_str key, const ef__view *view)
{
    fixture *t = context;

    (void)key, (void)view;
    /* While one reads, another thread waits at the gate: a read inside of the first passes it. */
    for (int i = 0; i < 1000 && !is_growing(t); i++)
        (void)usleep(1000);
    CHECK_TEXT("1", view_data(t, 1, "", "first"));
    return true;
}

static void *fill_it(void *context)
{
    fixture *t = calloc(1, sizeof *t);
    const fixture *other = context;
    ef_status st = EF_OK;

    *t = (fixture){.views = other->views, .arena = EF__ARENA_INIT(256 * 1024 * 1024)};
    for (int i = 0; st == EF_OK && i < LARGE_VIEWS; i++)
        st = put_large(t, 1, i);
    ef__arena_release(&t->arena);
    free(t);
    return (void *)(intptr_t)st;
}

CONTRACT(a_read_inside_of_another_does_not_wait_for_the_map_to_grow)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");
    ef__view_scan scan = {.generation = g, .index = -1};
    pthread_t thread;
    void *answer;

    put_view(t, g, "", "first", "1");
    vl_store_of(t->views)->busy_ms = 5000;
    CHECK_INT(0, pthread_create(&thread, NULL, fill_it, t));
    OK(t->views->ops->view_scan(t->views, &scan, grow_meanwhile, t, &t->err));
    CHECK_INT(0, pthread_join(thread, &answer));
    CHECK_INT(EF_OK, (int)(intptr_t)answer);
    CHECK_INT(LARGE_VIEWS + 1, generation(t, g).views);
    remove_small(&s);
}

/* --- several processes ------------------------------------------------------------------------ */

/* In a process of its own, which ends without looking back. */
static pid_t in_child(fixture *t, const small *s, void (*act)(fixture *t, int tell), int *out_told)
{
    int pipes[2];
    pid_t child;

    CHECK_INT(0, pipe(pipes));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (open_small(t, s, &t->views) != EF_OK)
            _exit(1);
        act(t, pipes[1]);
        _exit(0);
    }
    (void)close(pipes[1]);
    *out_told = pipes[0];
    return child;
}

static void fill_in_child(fixture *t, int tell)
{
    (void)tell;
    for (int i = 0; i < LARGE_VIEWS; i++)
        if (put_large(t, 1, i) != EF_OK)
            _exit(2);
}

CONTRACT(a_map_that_another_process_has_made_larger_is_followed)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");
    int told, status;
    pid_t child = in_child(t, &s, fill_in_child, &told);

    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_INT(SMALL_MAP, map_bytes(t->views));
    check_large(t, g, LARGE_VIEWS);
    CHECK(map_bytes(t->views) > SMALL_MAP);
    OK(put_large(t, g, LARGE_VIEWS));
    (void)close(told);
    remove_small(&s);
}

static void read_for_ever(fixture *t, int tell)
{
    ef_views *snapshot;
    ef__watermark mark;
    bool found;

    if (t->views->ops->snapshot_open(t->views, &snapshot, NULL) != EF_OK ||
        snapshot->ops->watermark_get(snapshot, 1, str(""), str("s"), &mark, &found, NULL) != EF_OK)
        _exit(1);
    if (write(tell, "r", 1) == 1)
        (void)pause();
}

CONTRACT(a_reader_that_was_killed_does_not_keep_old_pages)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");
    int told, dead = 0;
    char byte;
    pid_t child = in_child(t, &s, read_for_ever, &told);

    CHECK_INT(1, read(told, &byte, 1));
    CHECK_INT(0, kill(child, SIGKILL));
    CHECK(waitpid(child, NULL, 0) == child);
    for (int i = 0; i < LARGE_VIEWS; i++)
        OK(put_large(t, g, i)); /* the map grows, so it is looked for */
    CHECK_INT(0, mdb_reader_check(vl_store_of(t->views)->env->mdb, &dead));
    CHECK_INT(0, dead);
    (void)close(told);
    remove_small(&s);
}

CONTRACT(another_process_that_keeps_the_store_is_waited_for_in_vain)
{
    fixture *t = *state;
    small s = make_small(t);
    char path[300];
    int fd;
    ef__generation g = {.name = str("a"), .program = str("")};
    int64_t id;

    (void)snprintf(path, sizeof path, "%s/everfold.lock", s.folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && ef__lock_set(fd, F_WRLCK, 0));
    REFUSED(EF_BUSY, t->views->ops->generation_add(t->views, &g, &id, &t->err));
    (void)close(fd);
    OK(t->views->ops->generation_add(t->views, &g, &id, &t->err));
    remove_small(&s);
}

CONTRACT(handles_of_a_process_share_the_environment)
{
    fixture *t = *state;
    int64_t g = add_generation(t, "a", "");
    ef_views *other, *reader;
    ef__views_options read_only = t->options;

    read_only.read_only = true;
    OK(ef__views_open(&read_only, &reader, &t->err));
    OK(ef__views_open(&t->options, &other, &t->err));
    CHECK(vl_store_of(other)->env == vl_store_of(t->views)->env);
    CHECK(vl_store_of(reader)->env == vl_store_of(t->views)->env);
    REFUSED(EF_MISUSE, reader->ops->generation_activate(reader, g, 0, 0, &t->err));
    ef__views_close(other);
    ef__views_close(reader);
    put_view(t, g, "", "v", "1");
    CHECK_TEXT("1", view_data(t, g, "", "v"));
}

/* --- folders ---------------------------------------------------------------------------------- */

/* What is made of a folder, or whatever is in its place. */
static ef_status try_open(fixture *t, const char *path, bool create, bool read_only)
{
    char url[300];
    ef_views *views;
    ef_status st;

    (void)snprintf(url, sizeof url, "lmdb:%s", path);
    st = ef__views_open(
        &(ef__views_options){
            .url = url, .create = create, .read_only = read_only, .clock = &t->clock},
        &views, &t->err);
    CHECK((views == NULL) == (st != EF_OK));
    ef__views_close(views);
    return st;
}

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK_INT(len, fwrite(text, 1, len, file));
    CHECK_INT(0, fclose(file));
}

CONTRACT(a_folder_that_is_something_else_is_refused)
{
    fixture *t = *state;
    small s = {.options = t->options};
    char path[300], garbage[8192];

    (void)snprintf(s.folder, sizeof s.folder, "%s/small", t->dir);
    (void)snprintf(path, sizeof path, "%s/data.mdb", s.folder);
    REFUSED(EF_NOT_FOUND, try_open(t, s.folder, false, false));
    REFUSED(EF_NOT_FOUND, try_open(t, s.folder, true, true)); /* a reader makes nothing */
    REFUSED(EF_BAD_INPUT, try_open(t, "", true, false));
    REFUSED(EF_IO, try_open(t, "/no-such-folder/small", true, false));
    write_file(s.folder, "a file", 6);
    REFUSED(EF_WRONG_STORE, try_open(t, s.folder, false, false));
    REFUSED(EF_WRONG_STORE, try_open(t, s.folder, true, false));
    CHECK_INT(0, unlink(s.folder));
    CHECK_INT(0, mkdir(s.folder, 0700));
    REFUSED(EF_NOT_FOUND, try_open(t, s.folder, false, false));
    memset(garbage, 'g', sizeof garbage);
    write_file(path, garbage, sizeof garbage);
    REFUSED(EF_WRONG_STORE, try_open(t, s.folder, true, false));
    remove_small(&s);
}

/* An environment of another program: with a named database, or with a row that has our name. */
static void make_foreign(const small *s, const char *name, bool is_row)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val key = {strlen(name), (void *)name}, value = {1, "x"};

    (void)mkdir(s->folder, 0700);
    CHECK_INT(0, mdb_env_create(&env));
    CHECK_INT(0, mdb_env_set_maxdbs(env, 4));
    CHECK_INT(0, mdb_env_open(env, s->folder, 0, 0600));
    CHECK_INT(0, mdb_txn_begin(env, NULL, 0, &txn));
    CHECK_INT(0, mdb_dbi_open(txn, is_row ? NULL : name, MDB_CREATE, &dbi));
    CHECK_INT(0, mdb_put(txn, dbi, &key, &value, 0));
    CHECK_INT(0, mdb_txn_commit(txn));
    mdb_env_close(env);
}

CONTRACT(an_environment_of_another_program_is_refused)
{
    fixture *t = *state;
    small s = {.options = t->options};

    (void)snprintf(s.folder, sizeof s.folder, "%s/small", t->dir);
    for (int i = 0; i < 3; i++) {
        make_foreign(&s, i == 0 ? "theirs" : "state", i == 2);
        REFUSED(EF_WRONG_STORE, try_open(t, s.folder, true, false));
        REFUSED(EF_WRONG_STORE, try_open(t, s.folder, false, true));
        remove_small(&s);
    }
}

static void write_format(vl_txn *txn, void *context)
{
    vl_put(txn, vl_key_of(VL_FORMAT), vl_bytes(context, sizeof(vl_format)));
}

CONTRACT(a_store_of_a_newer_everfold_is_refused)
{
    fixture *t = *state;
    vl_format newer = {.magic = VL_MAGIC, .version = 2};

    OK(vl_write(vl_store_of(t->views)->env, false, 1000, write_format, &newer, &t->err));
    ef__views_close(t->views);
    t->views = NULL;
    REFUSED(EF_NEWER_SCHEMA, ef__views_open(&t->options, &t->views, &t->err));
    CHECK_INT(2, t->err.found);
}

CONTRACT(a_file_that_was_cut_off_is_damage)
{
    fixture *t = *state;
    small s = make_small(t);
    int64_t g = add_generation(t, "a", "");
    char path[300];

    for (int i = 0; i < LARGE_VIEWS; i++)
        OK(put_large(t, g, i));
    ef__views_close(t->views);
    t->views = NULL;
    (void)snprintf(path, sizeof path, "%s/data.mdb", s.folder);
    CHECK_INT(0, truncate(path, 1000 * 1000));
    REFUSED(EF_DAMAGED, try_open(t, s.folder, true, false));
    REFUSED(EF_DAMAGED, try_open(t, s.folder, false, true));
    remove_small(&s);
}

/* --- earlier versions ------------------------------------------------------------------------- */

static void cut_generation_row(vl_txn *txn, void *context)
{
    vl_key key = vl_key_number(VL_GENERATION, *(const int64_t *)context);
    vl_generation row;

    CHECK(vl_generation_get(txn, *(const int64_t *)context, &row));
    vl_put(txn, key, vl_bytes(&row, VL_GENERATION_BYTES_MIN));
}

CONTRACT(a_generation_of_an_earlier_version_is_read_and_becomes_one_of_this_version)
{
    fixture *t = *state;
    int64_t a = add_generation(t, "a", ""), b = add_generation(t, "a", "");

    CHECK_INT(120, VL_GENERATION_BYTES_MIN); /* what the earlier version wrote */
    OK(vl_change(t->views, false, cut_generation_row, &a, &t->err));
    OK(vl_change(t->views, false, cut_generation_row, &b, &t->err));
    CHECK_INT(EF__REPLACED_UNKNOWN, generation(t, a).replaced);
    CHECK_INT(0, generation(t, a).superseded_us);
    CHECK_INT(EF_ON_ERROR_STOP, generation(t, a).on_error);
    OK(t->views->ops->on_error_set(t->views, str("a"), EF_ON_ERROR_SKIP, &t->err));
    CHECK_INT(EF_ON_ERROR_SKIP, generation(t, b).on_error);
    CHECK_INT(EF__REPLACED_UNKNOWN, generation(t, b).replaced);
    OK(t->views->ops->generation_activate(t->views, b, 0, 1, &t->err));
    CHECK_INT(1, generation(t, b).replaced);
}

CONTRACT_MAIN(CASE(the_map_grows_with_what_is_in_it),
              CASE(a_generation_of_an_earlier_version_is_read_and_becomes_one_of_this_version),
              CASE(a_map_that_cannot_grow_during_a_read_is_busy_and_changes_nothing),
              CASE(a_read_inside_of_another_does_not_wait_for_the_map_to_grow),
              CASE(a_map_that_another_process_has_made_larger_is_followed),
              CASE(a_reader_that_was_killed_does_not_keep_old_pages),
              CASE(another_process_that_keeps_the_store_is_waited_for_in_vain),
              CASE(handles_of_a_process_share_the_environment),
              CASE(a_folder_that_is_something_else_is_refused),
              CASE(an_environment_of_another_program_is_refused),
              CASE(a_store_of_a_newer_everfold_is_refused), CASE(a_file_that_was_cut_off_is_damage))
