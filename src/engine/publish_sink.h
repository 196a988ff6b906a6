/*
 * publish_sink.h - the sink of a publisher: whether it is at hand, how far it is, what it has lost.
 * All of it is called from the publisher's step.
 */
#ifndef EF_ENGINE_PUBLISH_SINK_H
#define EF_ENGINE_PUBLISH_SINK_H

#include "publish.h"

ef_status ef__sink_open(ef__publishing *p, ef_str progress, ef_error *err);
void ef__sink_close(ef__publishing *p);
/* It is not at hand: later, and aloud. That is no failure of a message. */
void ef__sink_failed(ef__publishing *p, const ef_error *why);
void ef__sink_well(ef__publishing *p);
bool ef__sink_is_at_hand(const ef__publishing *p);
/* Settle a batch, and note how far the sink is if that is not what was noted last: where the marks
 * say that a message was delivered, whoever compares the two, after any crash, knows that the sink
 * has had it. */
ef_status ef__sink_mark(ef__publishing *p, const ef_holding *held, size_t held_count,
                        const ef_exception *exceptions, size_t exception_count, ef_error *err);
/* What is done under the first partition's lease, for all of them. */
ef_holding ef__sink_holding(const ef__publishing *p);
/* Is all there that it has acknowledged? Not when it has lost something, nor when nobody can say.
 * By itself it costs nothing as long as a connection holds. */
bool ef__sink_is_all_there(ef__publishing *p, bool ask_now);
/* What it has lost is another worker's to know, who has the publisher now or had it since. */
void ef__sink_forget_lost(ef__publishing *p);
/* It has forgotten what it had acknowledged: hand it everything again that is still kept, before
 * anything new goes out, so that the order of streams is kept. A bounded piece of it. */
ef_status ef__sink_hand_back(ef__publishing *p, ef_tick *tick, ef_error *err);

#endif
