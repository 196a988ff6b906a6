/*
 * txn.c - transactions: the gate, growing, writing.
 */
#include "env.h"

#include "../../base/deadline.h"
#include "../../base/file.h"
#include "../../base/logger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>

#define GROW_STEP_MAX ((size_t)64 << 30) /* twice as large each time, up to this much more */
#define TRIES_MAX 64                     /* no map is doubled as often as that */
#define FREE_BYTES_MIN ((uint64_t)1 << 20)
#define LOOK_EVERY 1024 /* commits, for readers that were killed */

/* Open reads of this thread: with one, it must not wait for the gate, which waits for the read. */
static _Thread_local int open_here;

/* --- errors ----------------------------------------------------------------------------------- */

static ef_status status_of(int rc)
{
    switch (rc) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case MDB_MAP_FULL:
        return EF_FULL;
    case ENOMEM:
        return EF_NO_MEMORY;
    case MDB_READERS_FULL:
    case MDB_MAP_RESIZED:
        return EF_BUSY;
    case MDB_TXN_FULL:
    case MDB_BAD_VALSIZE:
        return EF_TOO_LARGE;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
        return EF_DAMAGED;
    default:
        return EF_IO;
    }
}

/* LMDB reports a write that was cut short as EIO. A full file system is the usual cause, and the
 * largest write of a commit is smaller than this. */
static bool is_disk_full(const char *folder)
{
    struct statvfs disk;

    return statvfs(folder, &disk) == 0 && disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN;
}

ef_status vl_failed(vl_txn *txn, int rc, const char *doing)
{
    if (rc == EIO && is_disk_full(txn->env->folder))
        rc = ENOSPC;
    if (rc == MDB_MAP_FULL)
        txn->full = true;
    if (rc != 0)
        vl_try(txn, ef_fail(txn->err, status_of(rc), "%s: %s failed: %s%s", txn->env->folder, doing,
                            mdb_strerror(rc),
                            rc == MDB_PANIC ? "; it has to be closed and opened again" : ""));
    return txn->st;
}

/* --- the gate --------------------------------------------------------------------------------- */

static ef_status map_enter(vl_env *env, int64_t busy_ms, ef_error *err)
{
    struct timespec end;
    bool late = false;
    ef_status st = EF_OK;

    pthread_mutex_lock(&env->gate);
    if (env->growing && open_here == 0)
        end = ef__deadline(CLOCK_MONOTONIC, busy_ms);
    while (env->growing && open_here == 0 && !late)
        late = pthread_cond_timedwait(&env->moved, &env->gate, &end) == ETIMEDOUT;
    if (env->lost)
        st = ef_fail(err, EF_IO, "%s is no longer mapped: close it and open it again", env->folder);
    else if (late)
        st = ef_fail(err, EF_BUSY, "%s did not grow in %lld ms", env->folder, (long long)busy_ms);
    else
        env->active++;
    pthread_mutex_unlock(&env->gate);
    open_here += st == EF_OK;
    return st;
}

static void map_leave(vl_env *env)
{
    pthread_mutex_lock(&env->gate);
    env->active--;
    if (env->growing)
        (void)pthread_cond_broadcast(&env->moved);
    pthread_mutex_unlock(&env->gate);
    open_here--;
}

/* --- growing ---------------------------------------------------------------------------------- */

/* LMDB unmaps the old map before it maps the new one, and cannot go back. So this tries first
 * whether the address space suffices. */
static bool has_address_space(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return false;
    (void)munmap(at, bytes);
    return true;
}

/* While no transaction is open. `follow`: adopt the size that another process set. */
static ef_status set_map(vl_env *env, bool follow, ef_error *err)
{
    MDB_envinfo info = {0};
    size_t more, size;
    int rc = mdb_env_info(env->mdb, &info);

    more = info.me_mapsize < GROW_STEP_MAX ? info.me_mapsize : GROW_STEP_MAX;
    size = follow ? 0 : info.me_mapsize + more;
    if (rc == 0 && !has_address_space(follow ? info.me_mapsize : size))
        return ef_fail(err, EF_NO_MEMORY,
                       "%s cannot grow to %zu MB: the address space is exhausted", env->folder,
                       size >> 20);
    if (rc == 0)
        rc = mdb_env_set_mapsize(env->mdb, size);
    if (rc == 0)
        return EF_OK;
    env->lost = true;
    return ef_fail(err, EF_NO_MEMORY, "%s could not grow: %s", env->folder, mdb_strerror(rc));
}

/* EF_BUSY: a read transaction, perhaps of this thread, was open for too long. */
static ef_status map_grow(vl_env *env, bool follow, int64_t busy_ms, ef_error *err)
{
    struct timespec end = ef__deadline(CLOCK_MONOTONIC, open_here ? 0 : busy_ms);
    bool late = false;
    ef_status st;

    pthread_mutex_lock(&env->gate);
    while (env->growing && !late) /* another thread grows the map */
        late = pthread_cond_timedwait(&env->moved, &env->gate, &end) == ETIMEDOUT;
    if (!late) {
        env->growing = true;
        while (env->active > 0 && !late)
            late = pthread_cond_timedwait(&env->moved, &env->gate, &end) == ETIMEDOUT;
        st = late ? EF_BUSY : set_map(env, follow, err);
        env->growing = false;
        (void)pthread_cond_broadcast(&env->moved);
    }
    pthread_mutex_unlock(&env->gate);
    if (late)
        st = ef_fail(err, EF_BUSY, "%s must grow, and a reader was open for more than %lld ms",
                     env->folder, (long long)busy_ms);
    else if (st == EF_OK && !follow)
        ef__log(env->log, EF_LOG_INFO, "view map grown",
                EF_LOG_TEXT_FIELD("folder", ef_str_from(env->folder)));
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

static MDB_txn *take_idle(vl_env *env)
{
    MDB_txn *txn = NULL;

    EF__LOCK(&env->gate);
    if (env->idle_count > 0)
        txn = env->idle[--env->idle_count];
    return txn;
}

/* Renewing one that has its slot takes no lock of LMDB's. */
static int begin_read(vl_env *env, MDB_txn **out)
{
    int rc, dead = 0;

    *out = take_idle(env);
    rc = *out ? mdb_txn_renew(*out) : mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, out);
    if (rc != 0 && *out) {
        mdb_txn_abort(*out);
        *out = NULL;
    }
    if (rc == MDB_READERS_FULL && mdb_reader_check(env->mdb, &dead) == 0 && dead > 0)
        rc = mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, out);
    return rc;
}

vl_txn vl_read_begin(vl_env *env, int64_t busy_ms, ef_error *err)
{
    vl_txn txn;
    int rc;

    for (int i = 0; i < TRIES_MAX; i++) {
        txn = (vl_txn){.env = env, .err = err, .st = map_enter(env, busy_ms, err)};
        if (txn.st != EF_OK)
            break;
        rc = begin_read(env, &txn.mdb);
        if (rc == 0)
            break;
        map_leave(env);
        if (rc == MDB_MAP_RESIZED)
            txn.st = map_grow(env, true, busy_ms, err);
        if (txn.st != EF_OK || rc != MDB_MAP_RESIZED || i + 1 == TRIES_MAX) {
            (void)vl_failed(&txn, rc, "reading");
            break;
        }
    }
    return txn;
}

ef_status vl_read_end(vl_txn *txn)
{
    vl_env *env = txn->env;

    if (!txn->mdb)
        return txn->st;
    mdb_txn_reset(txn->mdb);
    pthread_mutex_lock(&env->gate);
    if (env->idle_count < VL_READERS_KEPT) {
        env->idle[env->idle_count++] = txn->mdb;
        txn->mdb = NULL;
    }
    pthread_mutex_unlock(&env->gate);
    if (txn->mdb)
        mdb_txn_abort(txn->mdb);
    map_leave(env);
    return txn->st;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* One attempt. *out_again: the map must grow, or (`follow`) adopt another process's size. */
static ef_status write_once(vl_env *env, bool lazy, vl_work *work, void *context, bool *out_again,
                            bool *follow, ef_error *err)
{
    vl_txn txn = {.env = env, .err = err};
    int rc = 0;

    if (env->lazy != lazy)
        rc = mdb_env_set_flags(env->mdb, MDB_NOMETASYNC, lazy);
    env->lazy = lazy;
    if (rc == 0)
        rc = mdb_txn_begin(env->mdb, NULL, 0, &txn.mdb);
    *out_again = *follow = rc == MDB_MAP_RESIZED;
    if (rc != 0)
        return vl_failed(&txn, rc, "beginning to write");
    work(&txn, context);
    if (txn.st == EF_OK)
        (void)vl_failed(&txn, mdb_txn_commit(txn.mdb), "committing");
    else
        mdb_txn_abort(txn.mdb);
    *out_again = txn.full;
    return txn.st;
}

static ef_status write_growing(vl_env *env, bool lazy, int64_t busy_ms, vl_work *work,
                               void *context, ef_error *err)
{
    bool again = true, follow = false;
    int dead = 0;
    ef_status st = EF_OK;

    for (int i = 0; again && i < TRIES_MAX; i++) {
        st = map_enter(env, busy_ms, err);
        if (st != EF_OK)
            return st;
        st = write_once(env, lazy, work, context, &again, &follow, err);
        map_leave(env);
        if (!again)
            break;
        /* Slots of killed readers may prevent the reuse of old pages. */
        if (!follow)
            (void)mdb_reader_check(env->mdb, &dead);
        st = map_grow(env, follow, busy_ms, err);
        if (st != EF_OK)
            return st;
    }
    return st;
}

ef_status vl_write(vl_env *env, bool lazy, int64_t busy_ms, vl_work *work, void *context,
                   ef_error *err)
{
    int dead = 0;
    ef_status st;

    if (env->lock_fd < 0)
        return ef_fail(err, EF_MISUSE, "the view store was opened read-only");
    EF__LOCK(&env->writer);
    /* LMDB's own lock has no timeout. */
    if (ef__lock_wait(env->lock_fd, F_WRLCK, 0, busy_ms)) {
        st = write_growing(env, lazy, busy_ms, work, context, err);
        if (++env->commits % LOOK_EVERY == 0)
            (void)mdb_reader_check(env->mdb, &dead);
        (void)ef__lock_set(env->lock_fd, F_UNLCK, 0);
    } else {
        st =
            ef_fail(err, EF_BUSY, "another process kept the store for %lld ms", (long long)busy_ms);
    }
    return st;
}
