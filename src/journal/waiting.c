/*
 * waiting.c - the check that refuses a lower number of partitions while rows wait. See journal.h.
 */
#include "journal.h"

#include "../core/placement.h"

#include <inttypes.h>
#include <stdio.h>

#define NAMED_MAX 8 /* partitions that the error names: it is for people, and has 512 bytes */

void ef__waiting_add(ef__waiting_rows *waiting, int32_t partition, int64_t rows)
{
    if (partition >= waiting->count && partition < EF_LIMIT_PARTITIONS)
        waiting->rows[partition] += rows;
}

ef_status ef__waiting_check(const ef__waiting_rows *waiting, ef_error *err)
{
    char where[NAMED_MAX * 40] = "", label[EF__PARTITION_LABEL_MAX];
    int64_t rows = 0;
    int named = 0;

    for (int32_t p = waiting->count; p < EF_LIMIT_PARTITIONS; p++) {
        size_t len = strlen(where);
        if (waiting->rows[p] == 0)
            continue;
        rows += waiting->rows[p];
        if (++named > NAMED_MAX)
            continue;
        (void)ef__partition_label_format(p, EF_LIMIT_PARTITIONS, label);
        (void)snprintf(where + len, sizeof where - len, "%s%s %" PRId64, len ? ", " : "", label,
                       waiting->rows[p]);
    }
    if (rows == 0)
        return EF_OK;
    return ef_fail_numbers(err, EF_EXISTS, 0, rows,
                           "%" PRId64 " rows wait in partitions beyond the new count of %" PRId32
                           " (%s%s): wait until they are processed, or requeue or skip dead rows",
                           rows, waiting->count, where, named > NAMED_MAX ? ", and others" : "");
}
