/*
 * cmd_gaps_detect.c - everfold gaps detect
 */
#include "commands.h"
#include "front.h"
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
    .summary = "events that a projection lacks and nothing will bring it",
    .more =
        "Every stream is compared with every live projection. What is queued, or waits behind\n"
        "something that failed, is only late and no gap. A worker looks for gaps when it starts.",
    .example = "everfold gaps detect -o json",
    .run = run_detect,
};
