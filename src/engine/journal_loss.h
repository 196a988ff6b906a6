/*
 * journal_loss.h - detects events that the views have and the journal has lost.
 *
 * After a disk that lost writes, a restored backup or a fail-over that lost the last transactions,
 * the views are ahead of the journal, and new events get seqs and positions that the views have
 * applied already. The hash of an event covers all events before it in the journal. So if the
 * journal has the event at a watermark (same hash), it has everything before it too; if not, events
 * at or below the watermark are not the ones that were applied and must not be dropped as
 * duplicates.
 */
#ifndef EF_ENGINE_JOURNAL_LOSS_H
#define EF_ENGINE_JOURNAL_LOSS_H

#include "engine_priv.h"

/* Does the journal have the event at the watermark of `event`'s stream? `event` is from the
 * journal, with a seq at or below applied_seq. */
ef_status ef__journal_loss_check(ef_engine *engine, const ef__watermark *watermark,
                                 const ef_event *event, bool *out_present, ef_error *err);

/*
 * Does the journal have the events before the generation's cursor? New events in the place of lost
 * ones would lie below the cursor and never be read. A few events before the cursor are compared;
 * if the generation has applied none of them (they failed, or their tenants stopped), the journal
 * counts as intact.
 */
ef_status ef__journal_loss_check_cursor(ef_engine *engine, const ef__generation *generation,
                                        bool *out_present, ef_error *err);
/* The journal lost events before the cursor: sets the generation to failed, with a failure record.
 * Only a rebuild or the restored journal ends that. */
ef_status ef__journal_loss_stop(ef_engine *engine, const ef__generation *generation, ef_error *err);

#endif
