/*
 * hash.c - digests of OpenSSL, xxHash and zlib, and UUIDv7.
 *
 * State of the process: the SHA-256 implementation that was fetched from OpenSSL (fetching takes
 * longer than hashing an event), a digest context per thread, freed when the thread ends, and the
 * state of the id generator, under its mutex.
 */
#include "hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <sys/random.h>
#include <xxhash.h>
#include <zlib.h>

static struct {
    pthread_once_t once;
    EVP_MD *sha256;
    pthread_key_t context_key;
    bool has_key;
} digests = {.once = PTHREAD_ONCE_INIT};

static void free_context(void *context)
{
    EVP_MD_CTX_free(context);
}

static void fetch_digests(void)
{
    digests.sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    digests.has_key = pthread_key_create(&digests.context_key, free_context) == 0;
}

/* The context of this thread; NULL: memory ran out. */
static EVP_MD_CTX *digest_context(void)
{
    EVP_MD_CTX *context = pthread_getspecific(digests.context_key);

    if (context)
        return context;
    context = EVP_MD_CTX_new();
    if (context && pthread_setspecific(digests.context_key, context) != 0) {
        EVP_MD_CTX_free(context);
        return NULL;
    }
    return context;
}

bool ef__sha256(ef_str head, ef_str body, uint8_t out[EF_HASH_BYTES])
{
    (void)pthread_once(&digests.once, fetch_digests);
    EVP_MD_CTX *context = digests.sha256 && digests.has_key ? digest_context() : NULL;

    return context && EVP_DigestInit_ex2(context, digests.sha256, NULL) == 1 &&
           EVP_DigestUpdate(context, head.ptr, head.len) == 1 &&
           EVP_DigestUpdate(context, body.ptr, body.len) == 1 &&
           EVP_DigestFinal_ex(context, out, NULL) == 1;
}

bool ef__hmac_sha256(ef_str key, ef_str text, uint8_t out[EF_HASH_BYTES])
{
    unsigned int len = 0;

    return HMAC(EVP_sha256(), key.ptr, (int)key.len, (const unsigned char *)text.ptr, text.len, out,
                &len) != NULL;
}

void ef__base64(const uint8_t *bytes, size_t len, char *out)
{
    (void)EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);
}

int ef__base64_decode(ef_str text, uint8_t *out)
{
    int padding = 0, len = EVP_DecodeBlock(out, (const unsigned char *)text.ptr, (int)text.len);

    for (size_t i = text.len; len > 0 && i > 0 && text.ptr[i - 1] == '='; i--)
        padding++;
    return padding > 2 ? -1 : len - (len > 0 ? padding : 0);
}

uint64_t ef__xxh3(ef_str text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text.len ? text.ptr : "", text.len, seed);
}

uint32_t ef__crc32(uint32_t start, ef_str text)
{
    /* zlib returns 0 for a NULL pointer, whatever the start value is. */
    return (uint32_t)crc32_z(start, (const Bytef *)(text.len ? text.ptr : ""), text.len);
}

/*
 * Ids. After the millisecond a UUIDv7 has 74 bits:
 *
 *     tttttttt-tttt-7rrr-vrrr-rrrrrrrrrrrr      t time in ms, r random, v two bits 10 and two of r
 *
 * They are random for each millisecond, below half of the maximum, and within one millisecond they
 * grow by a random step of 1 to 2^32: always ascending, not guessable from the previous one, and
 * 2^41 of them fit into a millisecond.
 *
 * Threads read the clock before they take the lock, so a thread may have an older millisecond: it
 * uses the newer one. Only a clock that was set back by more than that is followed back.
 */
enum {
    ID_MS_BACK_MAX = 10000, /* a clock set back by more was corrected: ids follow it */
    ID_POOL_BYTES = 256     /* getrandom returns up to 256 bytes completely */
};

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    bool forks_watched;
    int64_t ms;             /* of the last id; -1 before the first */
    unsigned __int128 tail; /* its 74 bits */
    uint8_t pool[ID_POOL_BYTES];
    size_t pool_left; /* unused bytes at the end of the pool */
} ids = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .ms = -1};

static void lock_ids(void)
{
    (void)pthread_mutex_lock(&ids.lock);
}

static void unlock_ids(void)
{
    (void)pthread_mutex_unlock(&ids.lock);
}

/* A child that continued with the pool of its parent would generate the same ids. */
static void forget_ids_in_child(void)
{
    ids.pool_left = 0;
    ids.ms = -1;
    unlock_ids();
}

static void watch_forks(void)
{
    ids.forks_watched = pthread_atfork(lock_ids, unlock_ids, forget_ids_in_child) == 0;
}

/* `len` bytes of the pool, which is refilled when it has too few. */
static bool draw_random(void *out, size_t len)
{
    if (ids.pool_left < len) {
        ssize_t got;
        do
            got = getrandom(ids.pool, sizeof(ids.pool), 0);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof(ids.pool)) /* up to 256 bytes are returned completely */
            return false;
        ids.pool_left = sizeof(ids.pool);
    }
    uint8_t *from = ids.pool + sizeof(ids.pool) - ids.pool_left;
    memcpy(out, from, len);
    memset(from, 0, len);
    ids.pool_left -= len;
    return true;
}

/* Advances to the next id at `ms`, or at the millisecond of the last id when that is newer. */
static bool next_id(int64_t ms)
{
    if (ms <= ids.ms && ids.ms - ms <= ID_MS_BACK_MAX) {
        uint32_t step;
        if (!draw_random(&step, sizeof(step)))
            return false;
        ids.tail += (unsigned __int128)step + 1;
        return true;
    }
    uint64_t random[2];
    if (!draw_random(random, sizeof(random)))
        return false;
    ids.ms = ms;
    ids.tail = (unsigned __int128)(random[0] >> 55) << 64 | random[1]; /* 73 bits */
    return true;
}

static void format_id(int64_t ms, unsigned __int128 tail, char out[EF_EVENT_ID_TEXT_MAX])
{
    static const size_t group_bytes[] = {4, 2, 2, 2, 6};
    uint64_t high = (uint64_t)ms << 16 | 0x7000 | (uint64_t)(tail >> 62 & 0xfff);
    uint64_t low = UINT64_C(1) << 63 | (uint64_t)(tail & ((UINT64_C(1) << 62) - 1));
    uint8_t bytes[16];
    const uint8_t *from = bytes;

    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(high >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    for (size_t i = 0; i < sizeof(group_bytes) / sizeof(group_bytes[0]); i++) {
        if (i > 0)
            *out++ = '-';
        ef__hex(from, group_bytes[i], out);
        out += 2 * group_bytes[i];
        from += group_bytes[i];
    }
}

bool ef__uuid7(int64_t wall_us, char out[EF_EVENT_ID_TEXT_MAX])
{
    const int64_t ms_max = (INT64_C(1) << 48) - 1;
    int64_t ms = wall_us < 0 ? 0 : wall_us / 1000;

    (void)pthread_once(&ids.once, watch_forks);
    lock_ids();
    bool ok = ids.forks_watched && next_id(ms > ms_max ? ms_max : ms);
    int64_t id_ms = ids.ms;
    unsigned __int128 tail = ids.tail;
    unlock_ids();
    if (ok)
        format_id(id_ms, tail, out);
    return ok;
}

void ef__hex(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}
