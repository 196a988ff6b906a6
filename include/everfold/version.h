/*
 * version.h - which Everfold this is.
 */
#ifndef EVERFOLD_VERSION_H
#define EVERFOLD_VERSION_H

#define EF_VERSION "0.1.0" /* the headers'; meson.build reads it from here */

#ifdef __cplusplus
extern "C" {
#endif

const char *ef_version(void); /* the library's */

#ifdef __cplusplus
}
#endif
#endif
