/*
 * cmd_gaps_detect.c - everfold gaps detect, and repair
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

#include <inttypes.h>

/* Counts the events that are still missing after the repair. */
static int64_t count_missing(const ef_gap_list *gaps)
{
    int64_t left = 0;

    for (size_t i = 0; i < gaps->count; i++) {
        const ef_gap *gap = &gaps->items[i];
        int64_t missing = gap->journal_seq - gap->applied_seq - gap->replayed;
        left += missing < 0 ? -missing : missing;
    }
    return left;
}

static int run_repair(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_gap_list gaps = {0};
    int rc = cli_engine_need(c, false);

    if (rc != 0)
        return rc;
    if (cli_gap_repair(c, cli_reason(c), &gaps, &err) != EF_OK ||
        cli_note(c, "gap_repair", EF_STR(""), &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else {
        cli_print_gaps(c, "gap-repair", &gaps);
        if (count_missing(&gaps)) {
            cli_warn(c, "everfold: %" PRId64 " event%s still missing; see: everfold outbox report",
                     count_missing(&gaps), count_missing(&gaps) == 1 ? " is" : "s are");
            rc = 1;
        }
    }
    ef_gap_list_release(&gaps);
    return rc;
}

static int run_detect(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_gap_list gaps = {0};
    int rc = cli_engine_need(c, true);

    if (rc != 0)
        return rc;
    if (cli_gap_ls(c, &gaps, &err) != EF_OK)
        rc = cli_fail(c, &err, NULL);
    else {
        cli_print_gaps(c, "gap-detect", &gaps);
        if (gaps.count)
            cli_say(c, "repair them: everfold gaps repair");
    }
    ef_gap_list_release(&gaps);
    return rc;
}

const cli_command cli_cmd_gaps_detect = {
    .name = "gaps detect",
    .summary = "find events that a projection misses and that no queued or retry row will bring",
    .more =
        "Compares the watermark of every stream in every live projection with the journal.\n"
        "Events that are queued, or blocked by a failed event, are late and not gaps. A worker\n"
        "detects gaps when it starts.",
    .example = "everfold gaps detect -o json",
    .run = run_detect,
};

const cli_command cli_cmd_gaps_repair = {
    .name = "gaps repair",
    .summary = "apply the events that projections miss",
    .options = CLI_OPTIONS(CLI_REASON),
    .more =
        "Each missing event becomes a row in the lane of its projection and is applied from\n"
        "there, in order and exactly once. The exit code is 1 if events are still missing: one\n"
        "of them fails, or another worker holds the partition and will apply them.",
    .example = "everfold gaps repair",
    .run = run_repair,
};
