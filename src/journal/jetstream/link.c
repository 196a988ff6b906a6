/*
 * link.c - the connection to the broker, and what is asked of it about the stream.
 *
 * A connection that is gone is not mended by the library: the next call makes another, and the
 * journal's `comings` grows, so that whoever had found his place in the stream looks again. The
 * broker may have come back with less than it had.
 */
#include "jet.h"

#include "../../base/logger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ef_status jet_broker_fail(const jet_store *store, natsStatus status, ef_error *err)
{
    return ef_fail(err, EF_BUSY, "%s: %s", store->address.shown, natsStatus_GetText(status));
}

/* --- the link --------------------------------------------------------------------------------- */

static natsStatus set_options(const jet_address *a, natsOptions *options)
{
    natsStatus s = natsOptions_SetURL(options, a->server);

    if (s == NATS_OK)
        s = natsOptions_SetTimeout(options, JET_TIMEOUT_MS);
    if (s == NATS_OK)
        s = natsOptions_SetName(options, "everfold");
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(options, false);
    if (s == NATS_OK && a->tls)
        s = natsOptions_SetSecure(options, true);
    /* Not every version of the library compares the host by itself. */
    if (s == NATS_OK && a->tls)
        s = natsOptions_SetExpectedHostname(options, a->host);
    if (s == NATS_OK && a->ca[0])
        s = natsOptions_LoadCATrustedCertificates(options, a->ca);
    if (s == NATS_OK && a->creds[0])
        s = natsOptions_SetUserCredentialsFromFiles(options, a->creds, NULL);
    return s;
}

static void close_link(jet_link *link)
{
    jsCtx_Destroy(link->stream);
    natsConnection_Destroy(link->connection);
    free(link);
}

static ef_status open_link(const jet_store *store, jet_link **out, ef_error *err)
{
    jet_link *link = calloc(1, sizeof *link);
    natsOptions *options = NULL;
    jsOptions stream;
    natsStatus s = link ? natsOptions_Create(&options) : NATS_NO_MEMORY;

    if (s == NATS_OK)
        s = set_options(&store->address, options);
    if (s == NATS_OK)
        s = natsConnection_Connect(&link->connection, options);
    if (s == NATS_OK)
        s = jsOptions_Init(&stream);
    if (s == NATS_OK) {
        stream.Wait = JET_TIMEOUT_MS;
        s = natsConnection_JetStream(&link->stream, link->connection, &stream);
    }
    natsOptions_Destroy(options);
    if (s != NATS_OK) {
        if (link)
            close_link(link);
        return jet_broker_fail(store, s, err);
    }
    atomic_store(&link->users, 1); /* the store's */
    *out = link;
    return EF_OK;
}

void jet_link_put(jet_link *link)
{
    if (link && atomic_fetch_sub(&link->users, 1) == 1)
        close_link(link);
}

static bool is_gone(const jet_link *link)
{
    return natsConnection_Status(link->connection) != NATS_CONN_STATUS_CONNECTED;
}

static ef_status connect_anew(jet_store *store, ef_error *err)
{
    jet_link_put(store->link);
    store->link = NULL;
    ef_status st = open_link(store, &store->link, err);

    if (st != EF_OK)
        return st;
    atomic_fetch_add(&store->base.comings, 1);
    if (atomic_fetch_add(&store->counts.connects, 1) > 0)
        ef__log(store->base.options.log, EF_LOG_INFO, "the broker is there again",
                EF_LOG_TEXT_FIELD("journal", ef_str_from(store->address.shown)));
    return EF_OK;
}

ef_status jet_link_get(jet_store *store, jet_link **out, ef_error *err)
{
    ef_status st = EF_OK;

    (void)pthread_mutex_lock(&store->lock);
    if (!store->link || is_gone(store->link))
        st = connect_anew(store, err);
    *out = st == EF_OK ? store->link : NULL;
    if (*out)
        atomic_fetch_add(&(*out)->users, 1);
    (void)pthread_mutex_unlock(&store->lock);
    return st;
}

void jet_link_drop(jet_store *store, jet_link *link)
{
    (void)pthread_mutex_lock(&store->lock);
    if (store->link == link) {
        jet_link_put(link);
        store->link = NULL;
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* --- the stream ------------------------------------------------------------------------------- */

/* A broker that throws away what was read, or what is old, leaves nothing to rebuild from. */
static ef_status check_config(const jet_store *store, const jsStreamInfo *info, ef_error *err)
{
    if (info->Config && info->Config->Retention != js_LimitsPolicy)
        return ef_fail(err, EF_BAD_INPUT,
                       "stream %s of %s is kept by interest or as a work queue, so that what was "
                       "read is thrown away; a journal needs retention \"limits\"",
                       store->address.stream, store->address.shown);
    return EF_OK;
}

static ef_status explain(const jet_store *store, natsStatus s, jsErrCode code, ef_error *err)
{
    if (code == JSStreamNotFoundErr || s == NATS_NOT_FOUND)
        return ef_fail(err, EF_NOT_FOUND, "%s: there is no stream %s", store->address.shown,
                       store->address.stream);
    if (s == NATS_NO_RESPONDERS)
        return ef_fail(err, EF_BUSY, "%s: JetStream is not enabled, or not ready",
                       store->address.shown);
    if (code)
        return ef_fail(err, EF_BUSY, "%s, stream %s: %s (%d)", store->address.shown,
                       store->address.stream, nats_GetLastError(NULL), (int)code);
    return jet_broker_fail(store, s, err);
}

ef_status jet_state_read(jet_store *store, jet_state *out, ef_error *err)
{
    jsStreamInfo *info = NULL;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus s;
    ef_status st = jet_link_get(store, &link, err);

    if (st != EF_OK)
        return st;
    s = js_GetStreamInfo(&info, link->stream, store->address.stream, NULL, &code);
    st = s == NATS_OK ? check_config(store, info, err) : explain(store, s, code, err);
    if (st == EF_OK)
        *out = (jet_state){.first = (int64_t)info->State.FirstSeq,
                           .last = (int64_t)info->State.LastSeq,
                           .messages = (int64_t)info->State.Msgs,
                           .bytes = (int64_t)info->State.Bytes,
                           .last_us = info->State.LastTime / 1000};
    if (s == NATS_TIMEOUT)
        jet_link_drop(store, link);
    jsStreamInfo_Destroy(info);
    jet_link_put(link);
    return st;
}

ef_status jet_stream_make(jet_store *store, ef_error *err)
{
    const char *subjects[] = {store->address.filter};
    jsStreamConfig config;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus s = NATS_OK;
    ef_status st = jet_link_get(store, &link, err);

    if (st != EF_OK)
        return st;
    (void)jsStreamConfig_Init(&config);
    config.Name = store->address.stream;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    config.Retention = js_LimitsPolicy;
    s = js_AddStream(NULL, link->stream, &config, NULL, &code);
    if (s != NATS_OK)
        st = explain(store, s, code, err);
    jet_link_put(link);
    return st;
}
