/*
 * utf8.h - validates UTF-8 and names.
 */
#ifndef EF_BASE_UTF8_H
#define EF_BASE_UTF8_H

#include <everfold/status.h>
#include <everfold/str.h>

/* Is all of it valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF)? */
bool ef__utf8_valid(ef_str text);

/* The longest prefix of at most `max_bytes` that ends between characters. */
ef_str ef__utf8_cut(ef_str text, size_t max_bytes);

/*
 * A tenant, stream, id, lane or type: valid UTF-8, no NUL, `min_bytes` to EF_LIMIT_NAME_BYTES.
 * `what` names it in the message: "stream". A type (`no_space`) also has no white space and no
 * control character, including those of Unicode. EF_TOO_LARGE: too long; otherwise EF_BAD_INPUT.
 */
ef_status ef__name_check(const char *what, ef_str name, size_t min_bytes, bool no_space,
                         ef_error *err);

#endif
