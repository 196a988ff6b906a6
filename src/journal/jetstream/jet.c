/*
 * jet.c - the journal on JetStream: opening and facts. The control journal serves everything but
 * events.
 */
#include "jet.h"

#include "../../base/logger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the journal as a whole ------------------------------------------------------------------- */

static ef_status jet_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    jet_state state = {0};
    ef_status st = jet_state_read(jet_store_of(journal), &state, err);

    *out = (ef_head){.position = state.last, .recorded_us = state.last ? state.last_us : 0};
    return st;
}

static ef_status jet_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_counts *counts = &store->counts;
    jet_state state = {0};
    ef_status st = store->base.control->store->facts(store->base.control, out, err);

    if (st == EF_OK)
        st = jet_state_read(store, &state, err);
    if (st != EF_OK)
        return st;
    (void)snprintf(out->backend, sizeof out->backend, "jetstream");
    (void)snprintf(out->version, sizeof out->version, "%s", nats_GetVersion());
    (void)snprintf(
        out->durability, sizeof out->durability,
        "that of the broker: it acknowledges before it syncs, unless sync_interval is always");
    out->store_bytes = state.bytes;
    out->streams = -1;
    out->appended = atomic_load(&counts->appended);
    out->redelivered = atomic_load(&counts->redelivered);
    out->unreadable = atomic_load(&counts->unreadable);
    out->holes = atomic_load(&counts->holes);
    out->connects = atomic_load(&counts->connects);
    return EF_OK;
}

static void jet_close(ef_journal *journal)
{
    jet_store *store = jet_store_of(journal);

    jet_watch_release(store);
    while (store->readers) {
        jet_reader *next = store->readers->next;
        jet_reader_release(store, store->readers);
        free(store->readers);
        store->readers = next;
    }
    jet_link_put(store->link);
    ef_journal_close(store->base.control);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

/* read_id, stream_ls and verify are missing: JetStream finds no event by id, lists no streams, and
 * has no hash chain. Damage is known to this handle only. */
static const ef__events_ops events_ops = {
    .append = jet_append,
    .read_stream = jet_read_stream,
    .read_log = jet_read_log,
    .follow = jet_follow,
    .followed = jet_followed,
    .unfollow = jet_unfollow,
    .wait = jet_wait,
    .head = jet_head,
    .stream_head = jet_stream_head,
};

static const ef__store_ops store_ops = {
    .name = "jetstream",
    .close = jet_close,
    .facts = jet_facts,
};

/* --- opening ---------------------------------------------------------------------------------- */

static ef_status open_control(jet_store *store, const ef_journal_options *options, ef_error *err)
{
    ef_journal_options control = *options;
    ef_store_facts facts;
    ef_status st;

    if (!options->control || !options->control[0])
        return ef_fail(err, EF_BAD_INPUT,
                       "a journal on JetStream needs a control journal for leases and runs: "
                       " sqlite:PATH or postgres://…");
    if (options->types_strict)
        return ef_fail(err, EF_UNSUPPORTED,
                       "types.strict: JetStream does not check the types that clients publish");
    control.url = options->control;
    control.control = NULL;
    st = ef_journal_open(&control, &store->base.control, err);
    if (st == EF_OK)
        st = ef_journal_facts(store->base.control, &facts, err);
    if (st == EF_OK)
        (void)snprintf(store->id, sizeof store->id, "%.8s", facts.journal_id);
    return st;
}

static ef_status open_stream(jet_store *store, const ef_journal_options *options, ef_error *err)
{
    jet_state state;
    ef_status st = jet_state_read(store, &state, err);

    if (st != EF_NOT_FOUND || !options->create)
        return st;
    st = jet_stream_create(store, err);
    return st == EF_OK ? jet_state_read(store, &state, err) : st;
}

ef_status ef__journal_jetstream_open(const ef_journal_options *options, ef_journal **out,
                                     ef_error *err)
{
    jet_store *store = calloc(1, sizeof *store);
    ef_status st;

    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a journal");
    store->base.store = &store_ops;
    store->base.events = &events_ops;
    store->base.caps = EF__JOURNAL_REMOTE | EF__JOURNAL_SPARSE | EF__JOURNAL_ACKNOWLEDGED;
    store->base.options = *options;
    (void)pthread_mutex_init(&store->lock, NULL);
    jet_watch_init(&store->watch);
    st = jet_address_parse(options->url, &store->address, err);
    if (st == EF_OK)
        st = open_control(store, options, err);
    if (st == EF_OK)
        st = open_stream(store, options, err);
    if (st != EF_OK) {
        jet_close(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}
