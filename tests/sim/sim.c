/*
 * sim.c - the simulator's command line: seeds, the report of a failed one, and the self test.
 */
#include "sim.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

enum { SELF_TEST_SEEDS = 600 };

static void hash_line(sim_world *sim, const char *line)
{
    for (; *line; line++)
        sim->trace_hash = (sim->trace_hash ^ (uint64_t)(unsigned char)*line) * 0x100000001b3u;
}

void sim_note(sim_world *sim, const char *format, ...)
{
    char *line = sim->trace[sim->trace_count % SIM_TRACE_LINES];
    int used = snprintf(line, sizeof sim->trace[0], "%4d %*s", sim->step, 2 * sim->depth, "");
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line + used, sizeof sim->trace[0] - (size_t)used, format, args);
    va_end(args);
    sim->trace_count++;
    hash_line(sim, line);
    if (sim->verbose)
        printf("%s\n", line);
}

static void report_failure(const sim_world *sim)
{
    int first = sim->trace_count > SIM_TRACE_LINES ? sim->trace_count - SIM_TRACE_LINES : 0;

    printf("seed %" PRIu64 " fails at step %d: %s\n", sim->seed, sim->step, sim->oracle.wrong);
    for (int i = first; i < sim->trace_count && !sim->verbose; i++)
        printf("    %s\n", sim->trace[i % SIM_TRACE_LINES]);
    printf("repeat: sim --seed %" PRIu64 " --verbose", sim->seed);
    if (sim->cheat != CHEAT_NONE)
        printf(" --break %s", cheat_name(sim->cheat));
    printf("\n");
}

/* --- runs ------------------------------------------------------------------------------------- */

typedef struct sim_totals {
    int64_t seeds, steps, events, faults;
} sim_totals;

static bool run_seed(sim_world *sim, uint64_t seed, sim_cheat cheat, bool verbose,
                     sim_totals *totals)
{
    bool ok = sim_run(sim, seed, cheat, verbose);

    totals->seeds++;
    totals->steps += sim->step;
    totals->events += sim->oracle.head;
    totals->faults += sim->faults;
    if (!ok)
        report_failure(sim);
    return ok;
}

/* Seeds that have failed once, one per line, followed by the violation. */
static bool run_file(sim_world *sim, const char *path, sim_totals *totals)
{
    FILE *file = fopen(path, "r");
    char line[256];
    bool ok = true;

    if (!file) {
        printf("%s: %s\n", path, strerror(errno));
        return false;
    }
    while (ok && fgets(line, sizeof line, file))
        if (line[0] >= '0' && line[0] <= '9')
            ok = run_seed(sim, strtoull(line, NULL, 10), CHEAT_NONE, false, totals);
    (void)fclose(file);
    return ok;
}

static bool run_range(sim_world *sim, uint64_t from, uint64_t count, sim_cheat cheat, bool progress,
                      sim_totals *totals)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!run_seed(sim, from + i, cheat, false, totals))
            return false;
        if (progress && (i + 1) % 5000 == 0) {
            printf("# %" PRIu64 " of %" PRIu64 " seeds\n", i + 1, count);
            (void)fflush(stdout);
        }
    }
    return true;
}

/* The first seed that passes by itself and fails with the cheat; 0: none. */
static uint64_t find_noticed(sim_world *sim, sim_cheat cheat)
{
    for (uint64_t seed = 1; seed <= SELF_TEST_SEEDS; seed++) {
        char wrong[sizeof sim->oracle.wrong];
        if (sim_run(sim, seed, cheat, false))
            continue;
        memcpy(wrong, sim->oracle.wrong, sizeof wrong);
        if (sim_run(sim, seed, CHEAT_NONE, false)) {
            memcpy(sim->oracle.wrong, wrong, sizeof wrong);
            return seed;
        }
    }
    return 0;
}

/* Each cheat must be noticed, and a seed must give the same world twice. */
static bool self_test(sim_world *sim)
{
    uint64_t hash;
    bool all;

    (void)sim_run(sim, 7, CHEAT_NONE, false);
    hash = sim->trace_hash;
    (void)sim_run(sim, 7, CHEAT_NONE, false);
    all = hash == sim->trace_hash;
    printf("seed 7 gives %s\n", all ? "one world" : "two worlds: it cannot be repeated");
    for (int c = CHEAT_NONE + 1; c < CHEAT_COUNT; c++) {
        uint64_t seed = find_noticed(sim, (sim_cheat)c);
        printf("%s: ", cheat_name((sim_cheat)c));
        if (seed)
            printf("noticed by seed %" PRIu64 ": %s\n", seed, sim->oracle.wrong);
        else
            printf("not noticed in %d seeds\n", SELF_TEST_SEEDS);
        all = all && seed;
    }
    return all;
}

/* --- options ---------------------------------------------------------------------------------- */

static const char USAGE[] =
    "usage: sim [--seeds N] [--from N] [--file PATH] [--progress]\n"
    "       sim --seed N [--verbose] [--break NAME]\n"
    "       sim --self-test\n"
    "\n"
    "Runs the engine on stores in memory, one world a seed, and has an oracle look at every step.\n"
    "--file runs the seeds of a file first, --break makes the stores cheat.\n"
    "\n"
    "example: sim --seeds 2000 --from 1\n";

typedef struct options {
    uint64_t seeds, from, seed;
    const char *file;
    bool one, verbose, progress, self_test, bad;
    int cheat;
} options;

static options read_options(int argc, char **argv)
{
    static const struct option LONG[] = {
        {"seeds", required_argument, NULL, 'n'},
        {"from", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},
        {"file", required_argument, NULL, 'F'},
        {"verbose", no_argument, NULL, 'v'},
        {"progress", no_argument, NULL, 'p'},
        {"break", required_argument, NULL, 'b'},
        {"self-test", no_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    options o = {.from = 1};
    int c;

    while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        switch (c) {
        case 'n':
            o.seeds = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            o.from = strtoull(optarg, NULL, 10);
            break;
        case 's':
            o.seed = strtoull(optarg, NULL, 10);
            o.one = true;
            break;
        case 'F':
            o.file = optarg;
            break;
        case 'v':
            o.verbose = true;
            break;
        case 'p':
            o.progress = true;
            break;
        case 'b':
            o.cheat = cheat_find(optarg);
            break;
        case 't':
            o.self_test = true;
            break;
        default:
            o.bad = true;
        }
    }
    o.bad = o.bad || o.cheat < 0 || optind < argc || !(o.one || o.self_test || o.seeds || o.file);
    return o;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    sim_totals totals = {0};
    sim_world *sim = calloc(1, sizeof *sim);
    bool ok = true;

    if (o.bad || !sim) {
        fputs(USAGE, stderr);
        free(sim);
        return 2;
    }
    if (o.self_test) {
        ok = self_test(sim);
    } else {
        if (o.file)
            ok = run_file(sim, o.file, &totals);
        if (ok && o.one)
            ok = run_seed(sim, o.seed, (sim_cheat)o.cheat, o.verbose, &totals);
        if (ok && o.seeds)
            ok = run_range(sim, o.from, o.seeds, (sim_cheat)o.cheat, o.progress, &totals);
        printf("%" PRId64 " seeds, %" PRId64 " steps, %" PRId64 " events, %" PRId64 " faults: %s\n",
               totals.seeds, totals.steps, totals.events, totals.faults,
               ok ? "all is well" : "FAILED");
    }
    free(sim);
    return ok ? 0 : 1;
}
