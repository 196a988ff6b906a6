/*
 * cmd_gaps_repair.c - everfold gaps repair
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

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "reason, recorded in the audit log (everfold audit ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_gaps_repair = {
    .name = "gaps repair",
    .summary = "apply the events that projections miss",
    .options = options,
    .more =
        "Each missing event becomes a row in the lane of its projection and is applied from\n"
        "there, in order and exactly once. The exit code is 1 if events are still missing: one\n"
        "of them fails, or another worker holds the partition and will apply them.",
    .example = "everfold gaps repair",
    .run = run_repair,
};
