/*
 * mode.c - how events reach the projections: one rule over the mode and the three flags.
 *
 *     mode                 outbox  worker  shadow worker
 *     inline_apply_only    off     off     off
 *     outbox_apply_only    on      on      off      (default)
 *     shadow_only          on      off     on
 *     inline_then_outbox   on      on      off      (only by name)
 *     enqueue_only         on      off     off      (only by name: no worker drains the outbox)
 *
 * If one of the flags is set, the others default to off. Any other combination is refused, because
 * a wrong one would leave events unprocessed without a message.
 */
#include "cli.h"

#include <assert.h>

enum { OUTBOX, WORKER, SHADOW, FLAGS };
static const char *const keys[FLAGS] = {"outbox.enabled", "worker.enabled",
                                        "shadow_worker.enabled"};

static const struct {
    const char *name;
    bool on[FLAGS];
    ef_mode engine;
} modes[] = {
    [CLI_MODE_OUTBOX_APPLY_ONLY] = {"outbox_apply_only",
                                    {true, true, false},
                                    EF_MODE_OUTBOX_APPLY_ONLY},
    [CLI_MODE_INLINE_APPLY_ONLY] = {"inline_apply_only",
                                    {false, false, false},
                                    EF_MODE_INLINE_APPLY_ONLY},
    [CLI_MODE_SHADOW_ONLY] = {"shadow_only", {true, false, true}, EF_MODE_SHADOW_ONLY},
    [CLI_MODE_INLINE_THEN_OUTBOX] = {"inline_then_outbox",
                                     {true, true, false},
                                     EF_MODE_INLINE_THEN_OUTBOX},
    [CLI_MODE_ENQUEUE_ONLY] = {"enqueue_only", {true, false, false}, EF_MODE_OUTBOX_APPLY_ONLY},
};

static bool is_set(const ef__settings *settings, const char *key)
{
    return ef__settings_get(settings, key).origin != EF__ORIGIN_DEFAULT;
}

static ef_status flags_agree(const ef__settings *settings, cli_mode mode, ef_error *err)
{
    for (size_t i = 0; i < FLAGS; i++) {
        bool needed = modes[mode].on[i], on = ef__settings_bool(settings, keys[i]);
        if (is_set(settings, keys[i]) && on != needed)
            return ef_fail(err, EF_BAD_INPUT,
                           "mode is %s, which needs %s = %s, but it is set to %s", modes[mode].name,
                           keys[i], needed ? "true" : "false", on ? "true" : "false");
    }
    return EF_OK;
}

static ef_status mode_by_flags(const ef__settings *settings, cli_mode *out, ef_error *err)
{
    bool outbox = ef__settings_bool(settings, keys[OUTBOX]);
    bool worker = ef__settings_bool(settings, keys[WORKER]);
    bool shadow = ef__settings_bool(settings, keys[SHADOW]);

    if (worker && shadow && ef__settings_bool(settings, "compat.apply_wins"))
        shadow = false;
    if (worker && shadow)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.enabled and shadow_worker.enabled are both on, and both would drain "
                       "the same outbox: turn one off (or set compat.apply_wins)");
    if (worker && !outbox)
        return ef_fail(err, EF_BAD_INPUT,
                       "worker.enabled is on and outbox.enabled is off: the worker would have "
                       "nothing to drain; turn the outbox on or the worker off");
    if (shadow && !outbox)
        return ef_fail(err, EF_BAD_INPUT,
                       "shadow_worker.enabled is on and outbox.enabled is off: the shadow worker "
                       "would have nothing to drain; turn the outbox on or the shadow worker off");
    if (outbox && !worker && !shadow)
        return ef_fail(
            err, EF_BAD_INPUT,
            "outbox.enabled is on and no worker is: the outbox would not be drained; turn "
            "worker.enabled on, or set mode = enqueue_only");
    *out = worker   ? CLI_MODE_OUTBOX_APPLY_ONLY
           : shadow ? CLI_MODE_SHADOW_ONLY
                    : CLI_MODE_INLINE_APPLY_ONLY;
    return EF_OK;
}

ef_status cli_mode_from_settings(const ef__settings *settings, cli_mode *out, ef_error *err)
{
    const char *name = ef__settings_text(settings, "mode").ptr;

    *out = CLI_MODE_OUTBOX_APPLY_ONLY;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i].name, name) == 0) {
            *out = (cli_mode)i;
            return flags_agree(settings, *out, err);
        }
    for (size_t i = 0; i < FLAGS; i++)
        if (is_set(settings, keys[i]))
            return mode_by_flags(settings, out, err);
    return EF_OK;
}

const char *cli_mode_name(cli_mode mode)
{
    assert((size_t)mode < sizeof(modes) / sizeof(modes[0]));
    return modes[mode].name;
}

ef_mode cli_mode_engine(cli_mode mode)
{
    return modes[mode].engine;
}

bool cli_mode_flag_on(cli_mode mode, const char *key)
{
    size_t i = 0;

    while (strcmp(keys[i], key) != 0)
        i++;
    return modes[mode].on[i];
}
