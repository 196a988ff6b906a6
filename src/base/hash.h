/*
 * hash.h - SHA-256 for the hash chain, HMAC for signatures, XXH3 for checksums, CRC32 for
 * partitions; base64; and ids.
 */
#pragma once

#include <everfold/event.h>

/* SHA-256 of `head` followed by `body`. False only when the crypto library fails. Thread safe. */
bool ef__sha256(ef_str head, ef_str body, uint8_t out[EF_HASH_BYTES]);
/* HMAC-SHA256. False only when the crypto library fails. */
bool ef__hmac_sha256(ef_str key, ef_str text, uint8_t out[EF_HASH_BYTES]);

/* Base64 with padding, and a NUL. */
void ef__base64(const uint8_t *bytes, size_t len, char *out);
/* Decodes base64; `out` has at least as many bytes as `text` has characters. The length, or -1. */
int ef__base64_decode(ef_str text, uint8_t *out);

uint64_t ef__xxh3(ef_str text, uint64_t seed);
uint32_t ef__crc32(uint32_t start, ef_str text);

/* A UUIDv7 as 36 characters and a NUL: ordered by time, and ascending within a process and
 * millisecond. False: the system has no random numbers. Thread safe. */
bool ef__uuid7(int64_t wall_us, char out[EF_EVENT_ID_TEXT_MAX]);

/* The value of a hexadecimal digit; -1: it is none. */
static inline int ef__hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}
/* Lower-case hexadecimal, and a NUL. */
void ef__hex(const uint8_t *bytes, size_t len, char *out);
