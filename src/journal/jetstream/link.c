/*
 * link.c - the connection to the broker, and the state of the stream.
 *
 * The library does not reconnect by itself: the next call opens a new connection and increments the
 * journal's connection epoch, so that readers revalidate their position. The broker may have lost
 * messages in between.
 */
#include "jet.h"

#include "../../base/deadline.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ef_status jet_broker_fail(const jet_store *store, natsStatus status, ef_error *err)
{
    return ef_fail(err, EF_BUSY, "%s: %s", store->address.shown, natsStatus_GetText(status));
}

/* --- the link --------------------------------------------------------------------------------- */

static natsStatus set_options(const jet_address *address, natsOptions *options)
{
    natsStatus result = natsOptions_SetURL(options, address->server);

    if (result == NATS_OK)
        result = natsOptions_SetTimeout(options, JET_TIMEOUT_MS);
    if (result == NATS_OK)
        result = natsOptions_SetName(options, "everfold");
    if (result == NATS_OK)
        result = natsOptions_SetAllowReconnect(options, false);
    if (result == NATS_OK && address->tls)
        result = natsOptions_SetSecure(options, true);
    /* Not every version of the library verifies the host name by default. */
    if (result == NATS_OK && address->tls)
        result = natsOptions_SetExpectedHostname(options, address->host);
    if (result == NATS_OK && address->ca[0])
        result = natsOptions_LoadCATrustedCertificates(options, address->ca);
    if (result == NATS_OK && address->creds[0])
        result = natsOptions_SetUserCredentialsFromFiles(options, address->creds, NULL);
    return result;
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
    natsStatus result = link ? natsOptions_Create(&options) : NATS_NO_MEMORY;

    if (result == NATS_OK)
        result = set_options(&store->address, options);
    if (result == NATS_OK)
        result = natsConnection_Connect(&link->connection, options);
    if (result == NATS_OK)
        result = jsOptions_Init(&stream);
    if (result == NATS_OK) {
        stream.Wait = JET_TIMEOUT_MS;
        result = natsConnection_JetStream(&link->stream, link->connection, &stream);
    }
    natsOptions_Destroy(options);
    if (result != NATS_OK) {
        if (link)
            close_link(link);
        return jet_broker_fail(store, result, err);
    }
    atomic_store(&link->users, 1); /* the store's reference */
    *out = link;
    return EF_OK;
}

void jet_link_put(jet_link *link)
{
    if (link && atomic_fetch_sub(&link->users, 1) == 1)
        close_link(link);
}

static bool is_disconnected(const jet_link *link)
{
    return natsConnection_Status(link->connection) != NATS_CONN_STATUS_CONNECTED;
}

static ef_status reconnect_link(jet_store *store, ef_error *err)
{
    jet_link_put(store->link);
    store->link = NULL;
    ef_status st = open_link(store, &store->link, err);

    if (st != EF_OK)
        return st;
    atomic_fetch_add(&store->base.epoch, 1);
    if (atomic_fetch_add(&store->counts.connects, 1) > 0)
        ef__log(store->base.options.log, EF_LOG_INFO, "broker reconnected",
                EF_LOG_TEXT_FIELD("journal", ef_str_from(store->address.shown)));
    return EF_OK;
}

ef_status jet_link_get(jet_store *store, jet_link **out, ef_error *err)
{
    ef_status st = EF_OK;

    EF__LOCK(&store->lock);
    if (!store->link || is_disconnected(store->link))
        st = reconnect_link(store, err);
    *out = st == EF_OK ? store->link : NULL;
    if (*out)
        atomic_fetch_add(&(*out)->users, 1);
    return st;
}

void jet_link_drop(jet_store *store, jet_link *link)
{
    EF__LOCK(&store->lock);
    if (store->link == link) {
        jet_link_put(link);
        store->link = NULL;
    }
}

/* --- the stream ------------------------------------------------------------------------------- */

/* A broker that deletes acknowledged messages leaves nothing to rebuild from. */
static ef_status check_retention(const jet_store *store, const jsStreamInfo *info, ef_error *err)
{
    if (info->Config && info->Config->Retention != js_LimitsPolicy)
        return ef_fail(err, EF_BAD_INPUT,
                       "stream %s of %s has interest or work-queue retention, which deletes "
                       "messages once they are read; a journal needs retention \"limits\"",
                       store->address.stream, store->address.shown);
    return EF_OK;
}

static ef_status report_stream_failure(const jet_store *store, natsStatus result, jsErrCode code,
                                       ef_error *err)
{
    if (code == JSStreamNotFoundErr || result == NATS_NOT_FOUND)
        return ef_fail(err, EF_NOT_FOUND, "%s: there is no stream %s", store->address.shown,
                       store->address.stream);
    if (result == NATS_NO_RESPONDERS)
        return ef_fail(err, EF_BUSY, "%s: JetStream is not enabled, or not ready",
                       store->address.shown);
    if (code)
        return ef_fail(err, EF_BUSY, "%s, stream %s: %s (%d)", store->address.shown,
                       store->address.stream, nats_GetLastError(NULL), (int)code);
    return jet_broker_fail(store, result, err);
}

ef_status jet_state_read(jet_store *store, jet_state *out, ef_error *err)
{
    jsStreamInfo *info = NULL;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus result;
    ef_status st = jet_link_get(store, &link, err);

    if (st != EF_OK)
        return st;
    result = js_GetStreamInfo(&info, link->stream, store->address.stream, NULL, &code);
    st = result == NATS_OK ? check_retention(store, info, err)
                           : report_stream_failure(store, result, code, err);
    if (st == EF_OK)
        *out = (jet_state){.first = (int64_t)info->State.FirstSeq,
                           .last = (int64_t)info->State.LastSeq,
                           .messages = (int64_t)info->State.Msgs,
                           .bytes = (int64_t)info->State.Bytes,
                           .last_us = info->State.LastTime / 1000};
    if (result == NATS_TIMEOUT)
        jet_link_drop(store, link);
    jsStreamInfo_Destroy(info);
    jet_link_put(link);
    return st;
}

ef_status jet_stream_create(jet_store *store, ef_error *err)
{
    const char *subjects[] = {store->address.filter};
    jsStreamConfig config;
    jet_link *link = NULL;
    jsErrCode code = 0;
    natsStatus result = NATS_OK;
    ef_status st = jet_link_get(store, &link, err);

    if (st != EF_OK)
        return st;
    (void)jsStreamConfig_Init(&config);
    config.Name = store->address.stream;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    config.Retention = js_LimitsPolicy;
    result = js_AddStream(NULL, link->stream, &config, NULL, &code);
    if (result != NATS_OK)
        st = report_stream_failure(store, result, code, err);
    jet_link_put(link);
    return st;
}
