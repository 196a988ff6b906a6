/*
 * worker.c - the program that the crash tests kill: it uses the journal through the public library
 * and keeps a ledger of the results (worker.h).
 *
 *     worker DATABASE LEDGER VERB [NUMBER …]
 *
 * Options come from the environment: WORKER_ACCEPT_HEAD, WORKER_READ_ONLY, WORKER_NO_CREATE,
 * WORKER_BUSY_MS, WORKER_PAUSE_MS (of a writer, between two batches), WORKER_CLOCK (a file),
 * WORKER_SINK (where a publisher goes).
 */
#include "worker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void note_bytes(struct worker *w, const char *bytes, size_t count)
{
    if (write(w->ledger, bytes, count) == (ssize_t)count)
        return;
    perror("worker: the ledger");
    _exit(EXIT_BROKEN);
}

void note(struct worker *w, const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    note_bytes(w, line, (size_t)n);
}

int report(struct worker *w, ef_status st)
{
    if (st == EF_OK)
        return 0;
    note(w, "e %s\n", ef_status_describe(st)->code);
    printf("%s: %s\n", ef_status_describe(st)->code, w->err.text);
    fflush(stdout);
    return ef_status_describe(st)->exit_code;
}

void make_event(int64_t seed, int64_t i, int64_t streams, int64_t pad, struct event_room *room,
                ef_new_event *out)
{
    int64_t length = (i * 37 + seed) % (pad + 1);
    int n;

    (void)snprintf(room->stream, sizeof room->stream, "s-%" PRId64, (i * 7 + seed) % streams);
    (void)snprintf(room->type, sizeof room->type, "type-%" PRId64, i % 3);
    (void)snprintf(room->id, sizeof room->id, "e-%" PRId64 "-%" PRId64, seed, i);
    (void)snprintf(room->meta, sizeof room->meta, "{\"trace\":\"%" PRId64 "\"}", i);
    n = snprintf(room->data, sizeof room->data,
                 "{\"seed\":%" PRId64 ",\"i\":%" PRId64 ",\"pad\":\"", seed, i);
    memset(room->data + n, 'x', (size_t)length);
    memcpy(room->data + n + length, "\"}", 2);
    *out = (ef_new_event){.tenant = ef_str_from(i % 5 == 0 ? "t2" : ""),
                          .stream = ef_str_from(room->stream),
                          .type = ef_str_from(room->type),
                          .id = ef_str_from(room->id),
                          .data = {room->data, (size_t)(n + length + 2)},
                          .meta = i % 4 == 0 ? ef_str_from(room->meta) : EF_STR("")};
}

static const struct {
    const char *name;
    int (*run)(struct worker *w, const struct numbers *n);
    int numbers; /* how many it needs */
} VERBS[] = {
    {"append", verb_append, 5},   {"hammer", verb_hammer, 5},       {"follow", verb_follow, 1},
    {"fill", verb_fill, 4},       {"open", verb_open, 0},           {"dump", verb_dump, 0},
    {"fork", verb_fork, 0},       {"take", verb_take, 4},           {"hold", verb_hold, 2},
    {"requeue", verb_requeue, 1}, {"deploy", verb_deploy, 1},       {"work", verb_work, 3},
    {"skip", verb_skip, 0},       {"live", verb_live, 5},           {"upgrade", verb_upgrade, 0},
    {"migrate", verb_migrate, 3}, {"rebuild", verb_rebuild, 2},     {"cancel", verb_cancel, 1},
    {"replay", verb_replay, 1},   {"switch", verb_switch, 2},       {"rollback", verb_rollback, 2},
    {"retire", verb_retire, 2},   {"seed", verb_seed, 1},           {"serve", verb_serve, 3},
    {"read", verb_read, 2},       {"publisher", verb_publisher, 1},
};

static int usage(void)
{
    fprintf(stderr, "worker DATABASE LEDGER VERB [NUMBER ...]; see worker.h\n");
    return EXIT_BROKEN;
}

static bool read_numbers(char **texts, int count, struct numbers *out)
{
    char *end;

    *out = (struct numbers){.count = count};
    if (count > 8)
        return false;
    for (int i = 0; i < count; i++) {
        out->at[i] = strtoll(texts[i], &end, 10);
        if (*end || end == texts[i])
            return false;
    }
    return true;
}

/* The library's talk goes to stderr, where a test may look for it. */
static void say(void *context, ef_log_level level, const char *message, const ef_log_field *fields,
                uint64_t field_count)
{
    char line[EF_LOG_LINE_MAX];
    uint64_t length = ef_log_line(EF_LOG_TEXT, 0, level, message, fields, field_count, line);

    (void)context;
    (void)!write(STDERR_FILENO, line, length);
}

/* --- the clock ---------------------------------------------------------------------------------
 */

static _Atomic int64_t passed_us;
static const _Atomic int64_t *wrong_us; /* what WORKER_CLOCK says, while it says it; or NULL */

void pass_time(int64_t us)
{
    passed_us += us;
}

/* A file of eight bytes with the error of the wall clock. A write to it makes the clock jump. */
static bool open_clock(const char *path)
{
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *wrong_us, PROT_READ, MAP_SHARED, fd, 0);

    if (fd >= 0)
        (void)close(fd);
    wrong_us = at == MAP_FAILED ? NULL : at;
    return !path || wrong_us;
}

static int64_t wall_us(void *context)
{
    (void)context;
    return ef_clock_system()->wall_us(ef_clock_system()->context) + passed_us +
           (wrong_us ? *wrong_us : 0);
}

static int64_t mono_us(void *context)
{
    (void)context;
    return ef_clock_system()->mono_us(ef_clock_system()->context) + passed_us;
}

const ef_clock worker_clock = {wall_us, mono_us, NULL};

static int run(struct worker *w, size_t verb, const struct numbers *n)
{
    static const ef_log log = {EF_LOG_WARN, say, NULL};
    char url[4096];
    ef_journal_options options = {.url = url,
                                  .create = !getenv("WORKER_NO_CREATE"),
                                  .accept_head = getenv("WORKER_ACCEPT_HEAD"),
                                  .read_only = getenv("WORKER_READ_ONLY"),
                                  .clock = &worker_clock,
                                  .log = &log};
    int code;

    if (getenv("WORKER_BUSY_MS"))
        options.busy_ms = strtoll(getenv("WORKER_BUSY_MS"), NULL, 10);
    (void)snprintf(url, sizeof url, "sqlite:%s", w->database);
    code = report(w, ef_journal_open(&options, &w->journal, &w->err));
    if (code == 0)
        code = VERBS[verb].run(w, n);
    ef_journal_close(w->journal);
    return code;
}

int main(int argc, char **argv)
{
    struct worker w = {.database = argc > 1 ? argv[1] : "", .err = EF_ERROR_INIT};
    struct numbers n;
    size_t verb = 0, verbs = sizeof VERBS / sizeof VERBS[0];

    if (argc < 4 || !read_numbers(argv + 4, argc - 4, &n))
        return usage();
    while (verb < verbs && strcmp(VERBS[verb].name, argv[3]) != 0)
        verb++;
    if (verb == verbs || VERBS[verb].numbers != n.count)
        return usage();
    w.ledger = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (w.ledger < 0 || !open_clock(getenv("WORKER_CLOCK")))
        return usage();
    return run(&w, verb, &n);
}
