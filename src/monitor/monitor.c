/*
 * monitor.c - see monitor.h.
 */
#include "monitor.h"

#include "assets.h"

const ef__asset *ef__monitor_asset(ef_str name)
{
    for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
        if (ef_str_equal(name, ef_str_from(assets[i].name)))
            return &assets[i];
    return NULL;
}

const char *ef__monitor_build(void)
{
    return ASSETS_BUILD;
}
