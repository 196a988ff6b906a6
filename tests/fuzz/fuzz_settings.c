/*
 * fuzz_settings.c - any text as a settings file: refused or loaded, and every value stays readable.
 *
 * The first byte decides whether a flag hides a setting before the file is read, so that values of
 * lower rank occur too.
 */
#include "../../src/base/settings.h"
#include "../../src/base/utf8.h"

#include <stdint.h>
#include <stdlib.h>

static const ef__setting_spec specs[] = {
    {.key = "data", .type = EF__SETTING_TEXT, .default_text = "./everfold-data"},
    {.key = "outbox.enabled", .type = EF__SETTING_BOOL, .default_text = "yes"},
    {.key = "outbox.partitions", .type = EF__SETTING_INT, .default_text = "16", 1, 1024},
    {.key = "offset", .type = EF__SETTING_INT, .default_text = "-5"},
    {.key = "lease.time", .type = EF__SETTING_DURATION, .default_text = "10s", 100, 86400000},
    {.key = "cache.size", .type = EF__SETTING_BYTES, .default_text = "16m", 1024, 1LL << 40},
    {.key = "log.level",
     .type = EF__SETTING_CHOICE,
     .default_text = "info",
     .choices = "debug,info,warn,error"},
};
enum { SPEC_COUNT = sizeof(specs) / sizeof(specs[0]) };

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_number(const ef__settings *settings, const ef__setting_spec *spec)
{
    int64_t number = ef__settings_int(settings, spec->key);

    must((spec->min == 0 && spec->max == 0) || (number >= spec->min && number <= spec->max));
}

static void check_setting(const ef__settings *settings, size_t index)
{
    ef__setting_view view = ef__settings_at(settings, index);

    must(view.spec == &specs[index]);
    must(ef_str_equal(view.value, ef__settings_text(settings, view.spec->key)));
    must(ef__utf8_valid(view.value) && ef__utf8_valid(view.where));
    must(ef__setting_origin_name(view.origin) != NULL);
    must((view.origin == EF__ORIGIN_DEFAULT) == (view.where.len == 0));
    if (view.spec->type == EF__SETTING_BOOL)
        (void)ef__settings_bool(settings, view.spec->key);
    else if (view.spec->type != EF__SETTING_TEXT && view.spec->type != EF__SETTING_CHOICE)
        check_number(settings, view.spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ef__settings *settings = NULL;
    ef_error err = EF_ERROR_INIT;

    if (size == 0)
        return 0;
    must(ef__settings_open(specs, SPEC_COUNT, &settings, &err) == EF_OK);
    if (data[0] % 2)
        must(ef__settings_set_flag(settings, "data", "/flag", &err) == EF_OK);
    ef_str text = {(const char *)data + 1, size - 1};
    ef_status st = ef__settings_load_text(settings, "everfold.conf", text, &err);
    must(st == EF_OK || (st == err.status && ef__utf8_valid(ef_str_from(err.text))));
    for (size_t i = 0; i < ef__settings_count(settings); i++)
        check_setting(settings, i);
    must(!(data[0] % 2) || ef_str_equal(ef__settings_text(settings, "data"), EF_STR("/flag")));
    ef__settings_close(settings);
    return 0;
}
