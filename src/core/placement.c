#include "placement.h"

#include "../base/hash.h"
#include "../base/number.h"
#include "../base/same.h"

_Static_assert(EF_LIMIT_PARTITIONS % 64 == 0, "a set is made of whole words");

int32_t ef__partition_of(ef_str tenant, ef_str stream, int32_t count)
{
    if (count <= 1)
        return 0;
    uint32_t crc = ef__crc32(0, stream);

    if (tenant.len > 0) {
        uint64_t len = tenant.len;
        char length[8];

        /* Little-endian on every machine: the partition is stored. */
        for (size_t i = 0; i < sizeof(length); i++)
            length[i] = (char)(unsigned char)(len >> (8 * i));
        crc = ef__crc32(crc, (ef_str){length, sizeof(length)});
        crc = ef__crc32(crc, tenant);
    }
    return (int32_t)(crc % (uint32_t)count);
}

bool ef__partition_label_format(int32_t partition, int32_t count, char out[EF__PARTITION_LABEL_MAX])
{
    char digits[EF__PARTITION_LABEL_MAX];
    size_t digit_count = 0, len = 0;

    out[0] = '\0';
    if (partition < 0 || partition >= count)
        return false;
    for (int32_t rest = partition; rest > 0 || digit_count < 2; rest /= 10)
        digits[digit_count++] = (char)('0' + rest % 10);
    out[len++] = 'p';
    while (digit_count > 0)
        out[len++] = digits[--digit_count];
    out[len] = '\0';
    return true;
}

bool ef__partition_label_parse(ef_str label, int32_t count, int32_t *out)
{
    int64_t value = 0;

    if (label.len < 3 || label.ptr[0] != 'p' || (label.len > 3 && label.ptr[1] == '0'))
        return false;
    if (!ef__digits_parse((ef_str){label.ptr + 1, label.len - 1}, &value) || value >= count)
        return false;
    *out = (int32_t)value;
    return true;
}

static bool in_range(int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS;
}

void ef__partition_set_add(ef__partition_set *set, int32_t partition)
{
    if (in_range(partition))
        set->bits[partition / 64] |= UINT64_C(1) << (partition % 64);
}

bool ef__partition_set_has(const ef__partition_set *set, int32_t partition)
{
    return in_range(partition) && (set->bits[partition / 64] >> (partition % 64) & 1);
}

int32_t ef__partition_set_next(const ef__partition_set *set, int32_t from)
{
    for (int32_t p = from < 0 ? 0 : from; p < EF_LIMIT_PARTITIONS; p++) {
        if (ef__partition_set_has(set, p))
            return p;
    }
    return -1;
}

ef__partition_set ef__placement_share(size_t index, size_t live, int32_t partitions)
{
    ef__partition_set share = {{0}};

    for (size_t p = index; p < EF_LIMIT_PARTITIONS && (int32_t)p < partitions; p += live)
        ef__partition_set_add(&share, (int32_t)p);
    return share;
}

ef__partition_set ef__placement_targets(const ef_str *workers, size_t worker_count, ef_str self,
                                        int32_t partitions)
{
    size_t index = 0, live = worker_count + 1;

    /* The index of `self` in the sorted list is the number of smaller ids: no list is needed. */
    for (size_t i = 0; i < worker_count; i++) {
        int order = ef__str_compare(workers[i], self);

        index += order < 0;
        if (order == 0)
            live = worker_count;
    }
    return ef__placement_share(index, live, partitions);
}
