/*
 * publisher_driver.h - the state of the publisher driver: the publishers of the journal, and under
 * a supervisor a thread for each (publish.h, publish_threads.c).
 *
 * Invariants:
 * - the list changes only under both locks, so that either one is enough to read it;
 * - no thread waits for a sink while it holds a lock here: the lock of a publisher is
 *   acquired under `lock` only while the publisher has no thread.
 */
#ifndef EF_ENGINE_PUBLISHER_DRIVER_H
#define EF_ENGINE_PUBLISHER_DRIVER_H

#include <everfold/engine.h>

#include <pthread.h>

struct ef__bus;
struct ef__bus_options;

typedef struct ef__publisher_driver {
    pthread_mutex_t lock;             /* one step at a time; guards the threads of publishers */
    pthread_mutex_t health_lock;      /* innermost: the health of publishers */
    struct ef__publisher_task *first; /* sorted by name */
    ef_status (*sink_open)(const struct ef__bus_options *options, struct ef__bus **out,
                           ef_error *err); /* ef__bus_open; tests have their own sinks */
} ef__publisher_driver;

void ef__publisher_driver_init(ef__publisher_driver *driver);
/* `abandon`: like a crash, without releasing leases. */
void ef__publisher_driver_close(ef_engine *engine, bool abandon);
void ef__publisher_driver_release(ef__publisher_driver *driver); /* after it was closed */

/* A step of every publisher, one after the other, in the caller's thread. */
ef_status ef__publisher_driver_step(ef_engine *engine, const ef_work_options *options,
                                    ef_tick *tick, ef_error *err);
/* For a supervisor: gives each publisher a thread, and adds their work to `tick`. */
ef_status ef__publisher_driver_supervise(ef_engine *engine, const ef_work_options *options,
                                         ef_tick *tick, ef_error *err);
/* Stops the threads; a batch in flight is finished or abandoned. */
void ef__publisher_driver_stop(ef_engine *engine);

#endif
