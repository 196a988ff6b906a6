/*
 * sign.h - the signature of a webhook, by the convention of Standard Webhooks.
 *
 *     webhook-id: the message's id        webhook-timestamp: seconds since 1970
 *     webhook-signature: v1,base64(HMAC-SHA256(secret, "id.timestamp.body"))
 *
 * A secret that starts with whsec_ is base64; any other one is used as it is.
 */
#ifndef EF_BUS_WEBHOOK_SIGN_H
#define EF_BUS_WEBHOOK_SIGN_H

#include "../../base/buf.h"

#define EF__SIGN_TEXT_MAX 64 /* bytes: "v1,", 44 characters and a NUL */

/* "v1,…". False: the secret is not base64, or memory ran out. */
bool ef__webhook_sign(ef_str secret, ef_str id, int64_t time_s, ef_str body,
                      char out[EF__SIGN_TEXT_MAX]);

#endif
