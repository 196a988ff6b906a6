/*
 * logger.h - writes records of the library to an ef_log.
 *
 *     ef__log(log, EF_LOG_WARN, "checkpoint failed", EF_LOG_NUMBER_FIELD("pages", n));
 */
#pragma once

#include <everfold/log.h>

/* NULL log, and levels below its minimum, cost a compare. */
#define ef__log(log, level, message, ...)                                                          \
    do {                                                                                           \
        const ef_log *ef__l = (log);                                                               \
        if (ef__l && ef__l->write &&                                                               \
            (level) >= __atomic_load_n(&ef__l->level_min, __ATOMIC_RELAXED)) {                     \
            const ef_log_field ef__f[] = {__VA_ARGS__};                                            \
            ef__l->write(ef__l->context, (level), (message), ef__f,                                \
                         sizeof(ef__f) / sizeof(ef__f[0]));                                        \
        }                                                                                          \
    } while (0)
