/*
 * sign.c - see sign.h.
 */
#include "sign.h"

#include "../../base/hash.h"

#include <inttypes.h>

#define KEY_MAX 4096 /* bytes: far more than a key of HMAC-SHA256 needs */
#define PREFIX "whsec_"

/* Decodes the key; its length, or -1. */
static int key_of(ef_str secret, uint8_t out[KEY_MAX])
{
    size_t prefix = sizeof PREFIX - 1;

    if (secret.len > KEY_MAX)
        return -1;
    if (secret.len >= prefix && memcmp(secret.ptr, PREFIX, prefix) == 0)
        return ef__base64_decode((ef_str){secret.ptr + prefix, secret.len - prefix}, out);
    memcpy(out, secret.ptr, secret.len);
    return (int)secret.len;
}

bool ef__webhook_sign(ef_str secret, ef_str id, int64_t time_s, ef_str body,
                      char out[EF__SIGN_TEXT_MAX])
{
    uint8_t key[KEY_MAX], digest[EF_HASH_BYTES];
    ef__buf text = EF__BUF_INIT(body.len + id.len + 64);
    int key_len = key_of(secret, key);
    bool good;

    ef__buf_add_str(&text, id);
    ef__buf_printf(&text, ".%" PRId64 ".", time_s);
    good =
        ef__buf_add_str(&text, body) && key_len > 0 &&
        ef__hmac_sha256((ef_str){(const char *)key, (size_t)key_len}, ef__buf_str(&text), digest);
    if (good) {
        memcpy(out, "v1,", 3);
        ef__base64(digest, sizeof digest, out + 3);
    }
    explicit_bzero(key, sizeof key);
    ef__buf_release(&text);
    return good;
}
