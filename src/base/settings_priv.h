/*
 * settings_priv.h - shared by the files of settings.
 */
#ifndef EF_BASE_SETTINGS_PRIV_H
#define EF_BASE_SETTINGS_PRIV_H

#include "settings.h"

/* Checks a value and returns its number: 0 or 1 of a BOOL, 0 of a TEXT or CHOICE. A message starts
 * with `where`. */
ef_status ef__setting_check(const ef__setting_spec *spec, const char *where, ef_str text,
                            int64_t *out_number, ef_error *err);

#endif
