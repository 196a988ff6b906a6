/*
 * names.c - the names of the enum values.
 */

#include <everfold/everfold.h>

#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const intents[] = {
    [EF_INTENT_PROJECTION_AND_REPLAY] = "projection_and_replay",
    [EF_INTENT_REPLAY_ONLY] = "replay_only",
    [EF_INTENT_AUDIT_ONLY] = "audit_only",
};

static const char *const row_statuses[] = {
    [EF_ROW_PENDING] = "pending", [EF_ROW_PROCESSING] = "processing",
    [EF_ROW_FAILED] = "failed",   [EF_ROW_DEAD] = "dead",
    [EF_ROW_DONE] = "done",       [EF_ROW_PUBLISHED] = "published",
};

static const char *const lease_kinds[] = {
    [EF_LEASE_PARTITION] = "partition",
    [EF_LEASE_PUBLISHER] = "publisher",
    [EF_LEASE_SCOPE] = "scope",
    [EF_LEASE_RUN] = "run",
};

static const char *const run_modes[] = {
    [EF_RUN_REPLAY] = "replay",
    [EF_RUN_REBUILD] = "rebuild",
    [EF_RUN_VERIFY] = "verify",
    [EF_RUN_SEED] = "seed",
};

static const char *const run_states[] = {
    [EF_RUN_QUEUED] = "queued", [EF_RUN_RUNNING] = "running",     [EF_RUN_COMPLETED] = "completed",
    [EF_RUN_FAILED] = "failed", [EF_RUN_CANCELLED] = "cancelled",
};

/* A value outside the enum has a name too, so that a message about it can be written. */
static const char *find_name(const char *const *names, size_t count, int value)
{
    return value >= 0 && (size_t)value < count ? names[value] : "unknown";
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int find_value(const char *const *names, size_t count, ef_str text)
{
    while (text.len && is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len && is_space(text.ptr[text.len - 1]))
        text.len--;
    for (size_t i = 0; text.len && i < count; i++)
        if (strlen(names[i]) == text.len && strncasecmp(names[i], text.ptr, text.len) == 0)
            return (int)i;
    return -1;
}

const char *ef_intent_name(ef_intent intent)
{
    return find_name(intents, COUNT(intents), (int)intent);
}

int ef_intent_parse(ef_str name, ef_intent *out)
{
    int value = find_value(intents, COUNT(intents), name);

    if (value < 0)
        return -1;
    *out = (ef_intent)value;
    return 0;
}

const char *ef_row_status_name(ef_row_status status)
{
    return find_name(row_statuses, COUNT(row_statuses), (int)status);
}

int ef_row_status_parse(ef_str name, ef_row_status *out)
{
    int value = find_value(row_statuses, COUNT(row_statuses), name);

    if (value < 0 || value == EF_ROW_DONE)
        return -1;
    *out = (ef_row_status)value;
    return 0;
}

const char *ef_lease_kind_name(ef_lease_kind kind)
{
    return find_name(lease_kinds, COUNT(lease_kinds), (int)kind);
}

const char *ef_run_mode_name(ef_run_mode mode)
{
    return find_name(run_modes, COUNT(run_modes), (int)mode);
}

const char *ef_run_state_name(ef_run_state state)
{
    return find_name(run_states, COUNT(run_states), (int)state);
}
