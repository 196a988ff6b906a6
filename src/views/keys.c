#include "keys.h"

#include <assert.h>

void ef__keys_pack(ef__buf *out, const ef__view_change *change)
{
    ef__buf_reset(out);
    for (size_t i = 0; i < change->key_count && !change->deleted; i++) {
        ef_str key = change->keys[i].key;
        assert(change->keys[i].index <= UINT8_MAX && key.len <= EF__KEY_BYTES);
        char head[5] = {(char)change->keys[i].index, (char)(key.len >> 24), (char)(key.len >> 16),
                        (char)(key.len >> 8), (char)key.len};
        ef__buf_add(out, head, sizeof head);
        ef__buf_add_str(out, key);
    }
}

bool ef__keys_next(ef_str *rest, ef__index_key *out)
{
    const uint8_t *p = (const uint8_t *)rest->ptr;
    size_t len;

    if (rest->len < 5)
        return false;
    len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (len > rest->len - 5)
        return false;
    *out = (ef__index_key){p[0], {rest->ptr + 5, len}};
    *rest = (ef_str){rest->ptr + 5 + len, rest->len - 5 - len};
    return true;
}

static bool has_key(ef_str packed, const ef__index_key *wanted)
{
    ef__index_key key;

    while (ef__keys_next(&packed, &key))
        if (key.index == wanted->index && ef_str_equal(key.key, wanted->key))
            return true;
    return false;
}

bool ef__keys_next_other(ef_str *rest, ef_str others, ef__index_key *out)
{
    while (ef__keys_next(rest, out))
        if (!has_key(others, out))
            return true;
    return false;
}
