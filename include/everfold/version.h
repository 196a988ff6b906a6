/*
 * version.h - the version of Everfold.
 */
#ifndef EVERFOLD_VERSION_H
#define EVERFOLD_VERSION_H

#define EF_VERSION "0.1.0" /* of the headers; meson.build reads it from here */

#ifdef __cplusplus
extern "C" {
#endif

const char *ef_version(void); /* of the library */

#ifdef __cplusplus
}
#endif
#endif
