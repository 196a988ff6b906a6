#include "run_rule.h"

/*
 *     queued ─► running ─► completed | failed | cancelled
 *       └──────────────────────────────────► cancelled
 *
 * End states are final.
 */
bool ef__run_may_move(ef_run_state from, ef_run_state to)
{
    switch (from) {
    case EF_RUN_QUEUED:
        return to == EF_RUN_RUNNING || to == EF_RUN_CANCELLED;
    case EF_RUN_RUNNING:
        return to == EF_RUN_RUNNING || to == EF_RUN_COMPLETED || to == EF_RUN_FAILED ||
               to == EF_RUN_CANCELLED;
    case EF_RUN_COMPLETED:
    case EF_RUN_FAILED:
    case EF_RUN_CANCELLED:
        break;
    }
    return false;
}

bool ef__run_is_open(ef_run_state state)
{
    return state == EF_RUN_QUEUED || state == EF_RUN_RUNNING;
}
