/*
 * read_target.c - see read_target.h.
 */
#include "read_target.h"
#include "migration.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT_US 5000
#define TARGETS_MAX 64

/* The machine's coarse clock: a test that stops the engine's clock must not extend the cache. */
static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void release_reference(ef__read_target *target)
{
    if (--target->references > 0)
        return;
    ef_memory_release(&target->list.room);
    free(target->lag);
    free(target);
}

void ef__read_target_release(ef_engine *engine, ef__read_target *target)
{
    if (!target)
        return;
    pthread_mutex_lock(&engine->lock);
    release_reference(target);
    pthread_mutex_unlock(&engine->lock);
}

static ef_str tenant_of(const ef__read_target *target)
{
    return (ef_str){target->tenant, target->tenant_len};
}

static bool is_for(const ef__read_target *target, ef_str name, const ef_str *tenant)
{
    return ef_str_equal(target->generation->name, name) && target->any_tenant == !tenant &&
           (!tenant || ef_str_equal(tenant_of(target), *tenant));
}

/* The caller holds the lock: a cached target of the name that is recent enough. Others are removed.
 */
static ef__read_target *find_cached(ef_engine *engine, ef_str name, const ef_str *tenant,
                                    int64_t at_us)
{
    size_t count = 0;

    for (ef__read_target **at = &engine->read_targets; *at; count++) {
        ef__read_target *target = *at;
        bool old = at_us - target->read_us > KEPT_US || target->changes != engine->changes ||
                   count >= TARGETS_MAX;
        if (!old && is_for(target, name, tenant))
            return target;
        if (!old) {
            at = &target->next;
            continue;
        }
        *at = target->next;
        release_reference(target);
    }
    return NULL;
}

static ef_status read_target(ef_engine *engine, ef_str name, ef__read_target *target, ef_error *err)
{
    ef_status st =
        ef__engine_active_generation(engine, name, &target->list, &target->generation, err);
    ef_str tenant = tenant_of(target);

    if (st == EF_OK)
        st = ef__generation_migrates(engine, target->generation, &target->migrates, err);
    return st == EF_OK ? ef__engine_as_of(engine, target->generation,
                                          target->any_tenant ? NULL : &tenant, &target->as_of, err)
                       : st;
}

static ef__read_target *make_target(const ef_str *tenant, int64_t at_us, int64_t changes)
{
    size_t length = tenant ? tenant->len : 0;
    ef__read_target *target = calloc(1, sizeof *target + length);

    if (!target)
        return NULL;
    target->references = 1;
    target->read_us = at_us;
    target->changes = changes;
    target->any_tenant = !tenant;
    target->tenant_len = length;
    if (length)
        memcpy(target->tenant, tenant->ptr, length);
    return target;
}

ef_status ef__read_target_acquire(ef_engine *engine, ef_str name, const ef_str *tenant, bool fresh,
                                  ef__read_target **out, ef_error *err)
{
    int64_t at_us = now_us();
    ef__read_target *target;
    ef_status st;

    *out = NULL;
    pthread_mutex_lock(&engine->lock);
    target = fresh ? NULL : find_cached(engine, name, tenant, at_us);
    if (target)
        target->references++;
    int64_t changes = engine->changes;
    pthread_mutex_unlock(&engine->lock);
    *out = target;
    if (target)
        return EF_OK;
    target = make_target(tenant, at_us, changes);
    if (!target)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a read");
    st = read_target(engine, name, target, err);
    pthread_mutex_lock(&engine->lock);
    if (st != EF_OK) {
        release_reference(target);
    } else {
        *out = target;
        target->references++;
        target->next = engine->read_targets;
        engine->read_targets = target;
    }
    pthread_mutex_unlock(&engine->lock);
    return st;
}

void ef__read_targets_invalidate(ef_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->changes++;
    pthread_mutex_unlock(&engine->lock);
}

void ef__read_targets_release(ef_engine *engine)
{
    while (engine->read_targets) {
        ef__read_target *next = engine->read_targets->next;
        release_reference(engine->read_targets);
        engine->read_targets = next;
    }
}
