/*
 * version.h - the version of Everfold.
 */
#pragma once

#include <everfold/str.h>

#define EF_VERSION "0.1.0" /* of the headers; meson.build reads it from here */

EF_C_BEGIN

const char *ef_version(void); /* of the library */

EF_C_END
