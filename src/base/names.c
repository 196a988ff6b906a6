/*
 * names.c - the names of enum values.
 */
#include <everfold/names.h>

#include <everfold/everfold.h>

#include <strings.h>

#define VALUES_MAX 6

/* In the order of the enums. */
static const char *const tables[][VALUES_MAX] = {
    [EF_NAMES_INTENT] = {"projection_and_replay", "replay_only", "audit_only"},
    [EF_NAMES_LEASE_KIND] = {"partition", "publisher", "scope", "run"},
    [EF_NAMES_PUBLISHER_STATE] = {"idle", "working", "retrying", "paused"},
    [EF_NAMES_ROW_STATUS] = {"pending", "processing", "failed", "dead", "done", "published"},
    [EF_NAMES_RUN_MODE] = {"replay", "rebuild", "verify", "seed"},
    [EF_NAMES_RUN_STATE] = {"queued", "running", "completed", "failed", "cancelled"},
    [EF_NAMES_TASK_STATE] = {"starting", "working", "idle", "retrying", "stopping"},
    [EF_NAMES_TRIAL_OUTCOME] = {"applied", "ignored", "failed", "done", "waits", "not_tried"},
    [EF_NAMES_VIEW_RESET] = {"", "started", "expired", "switched"},
    [EF_NAMES_WORKER_STATE] = {"working", "idle", "late", "stale"},
};

/* A value outside the enum has a name too, so that a message about it can be written. */
const char *ef_name_of(ef_names names, int value)
{
    const char *name = value >= 0 && value < VALUES_MAX ? tables[names][value] : NULL;

    return name ? name : "unknown";
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int ef_name_find(ef_names names, ef_str name)
{
    while (name.len && is_space(name.ptr[0])) {
        name.ptr++;
        name.len--;
    }
    while (name.len && is_space(name.ptr[name.len - 1]))
        name.len--;
    for (int i = 0; name.len && i < VALUES_MAX && tables[names][i]; i++)
        if (strlen(tables[names][i]) == name.len &&
            strncasecmp(tables[names][i], name.ptr, name.len) == 0)
            return names == EF_NAMES_ROW_STATUS && i == EF_ROW_DONE ? -1 : i;
    return -1;
}
