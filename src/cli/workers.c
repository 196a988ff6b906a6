/*
 * workers.c - see workers.h.
 */
#include "workers.h"

#include <inttypes.h>
#include <stdio.h>

/* The store decides whether a lease has expired: the local clock never shows a live one as expired.
 */
static int64_t ms_left(const cli_hold *hold)
{
    const ef_clock *clock = ef_clock_system();
    int64_t left = (hold->until_us - clock->wall_us(clock->context)) / 1000;

    if (!hold->live)
        return 0;
    return left > 0 ? left : 1;
}

void cli_table_ttl(cli_table *table, const cli_hold *hold)
{
    int64_t left = ms_left(hold);
    char text[40];

    (void)snprintf(text, sizeof text, "%" PRId64 ".%" PRId64 " s", left / 1000, left % 1000 / 100);
    cli_table_text(table, hold->holder.len == 0 ? EF_STR("-")
                          : hold->live          ? ef_str_from(text)
                                                : EF_STR("expired"));
}
