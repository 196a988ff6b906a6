/*
 * cmd_gaps_detect.c - everfold gaps detect
 */
#include "commands.h"
#include "calls.h"
#include "run.h"

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
