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
#include <stdio.h>

static const struct {
    const char *name;
    bool outbox, worker, shadow;
} modes[] = {
    [CLI_MODE_OUTBOX_APPLY_ONLY] = {"outbox_apply_only", true, true, false},
    [CLI_MODE_INLINE_APPLY_ONLY] = {"inline_apply_only", false, false, false},
    [CLI_MODE_SHADOW_ONLY] = {"shadow_only", true, false, true},
    [CLI_MODE_INLINE_THEN_OUTBOX] = {"inline_then_outbox", true, true, false},
    [CLI_MODE_ENQUEUE_ONLY] = {"enqueue_only", true, false, false},
};

static ef_status flag_agrees(const char *mode, const char *flag, cli_mode_flag given, bool needed,
                             ef_error *err)
{
    if (!given.set || given.on == needed)
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "mode is %s, which needs %s = %s, but it is set to %s", mode,
                   flag, needed ? "true" : "false", given.on ? "true" : "false");
}

static ef_status mode_by_name(const cli_mode_input *input, cli_mode *out, ef_error *err)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, input->mode) != 0)
            continue;
        *out = (cli_mode)i;
        ef_status st =
            flag_agrees(input->mode, "outbox.enabled", input->outbox, modes[i].outbox, err);
        if (st == EF_OK)
            st = flag_agrees(input->mode, "worker.enabled", input->worker, modes[i].worker, err);
        if (st == EF_OK)
            st = flag_agrees(input->mode, "shadow_worker.enabled", input->shadow, modes[i].shadow,
                             err);
        return st;
    }
    return ef_fail(err, EF_BAD_INPUT, "unknown mode %s", input->mode);
}

ef_status cli_mode_resolve(const cli_mode_input *input, cli_mode *out, ef_error *err)
{
    *out = CLI_MODE_OUTBOX_APPLY_ONLY;
    if (input->mode[0] != '\0')
        return mode_by_name(input, out, err);
    if (!input->outbox.set && !input->worker.set && !input->shadow.set)
        return EF_OK;

    bool outbox = input->outbox.on, worker = input->worker.on, shadow = input->shadow.on;
    if (worker && shadow && input->apply_wins)
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

const char *cli_mode_name(cli_mode mode)
{
    assert((size_t)mode < sizeof(modes) / sizeof(modes[0]));
    return modes[mode].name;
}

bool cli_mode_flag_on(cli_mode mode, const char *key)
{
    return strcmp(key, "outbox.enabled") == 0   ? modes[mode].outbox
           : strcmp(key, "worker.enabled") == 0 ? modes[mode].worker
                                                : modes[mode].shadow;
}

static cli_mode_flag read_flag(const ef__settings *settings, const char *key)
{
    return (cli_mode_flag){ef__settings_get(settings, key).origin != EF__ORIGIN_DEFAULT,
                           ef__settings_bool(settings, key)};
}

ef_status cli_mode_from_settings(const ef__settings *settings, cli_mode *out, ef_error *err)
{
    const char *mode = ef__settings_text(settings, "mode").ptr;
    cli_mode_input input = {
        .mode = strcmp(mode, "auto") == 0 ? "" : mode,
        .outbox = read_flag(settings, "outbox.enabled"),
        .worker = read_flag(settings, "worker.enabled"),
        .shadow = read_flag(settings, "shadow_worker.enabled"),
        .apply_wins = ef__settings_bool(settings, "compat.apply_wins"),
    };
    return cli_mode_resolve(&input, out, err);
}
