/*
 * env.c - opens and closes environments: the list of those that the process has open, and the check
 * of their kind.
 */
#include "env.h"

#include "row.h"

#include "../../base/deadline.h"
#include "../../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_READERS 510         /* slots of the lock file, for all processes */
#define CUT_BYTES_MIN (1 << 20) /* LMDB may not have written its last numbered pages */
#define FORMAT_VERSION 1
#define PATH_BYTES 4096

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static vl_env *list; /* under list_lock, which is held while an environment is opened or closed */

static const char *const TREES[VL_TREES] = {"state", "view", "index", "watermark"};

/* --- the folder ------------------------------------------------------------------------------- */

static bool file_of(const char *folder, const char *name, char out[PATH_BYTES])
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", folder, name);

    return n > 0 && n < PATH_BYTES;
}

/* A power cut may lose a directory entry that was not synced. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)fsync(fd);
    (void)close(fd);
}

static ef_status make_folder(const char *folder, ef_error *err)
{
    char above[PATH_BYTES];

    if (mkdir(folder, 0700) != 0)
        return errno == EEXIST ? EF_OK
                               : ef_fail(err, errno == ENOSPC ? EF_FULL : EF_IO,
                                         "%s could not be made: %s", folder, strerror(errno));
    ef__owner_inherit(folder);
    if (file_of(folder, "..", above))
        sync_folder(above);
    return EF_OK;
}

/* Creates the folder if needed. *out_made: it contains a store. */
static ef_status check_folder(const char *folder, bool create, struct stat *out, bool *out_made,
                              ef_error *err)
{
    char path[PATH_BYTES];
    struct stat file;
    ef_status st = EF_OK;

    if (!file_of(folder, "data.mdb", path))
        return ef_fail(err, EF_BAD_INPUT, "the path of the view store is too long");
    *out_made = stat(path, &file) == 0 && file.st_size > 0;
    if (create && !*out_made)
        st = make_folder(folder, err);
    if (st != EF_OK)
        return st;
    if (stat(folder, out) != 0)
        return errno == ENOENT ? ef_fail(err, EF_NOT_FOUND, "there is no view store in %s", folder)
                               : ef_fail(err, EF_IO, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(out->st_mode))
        return ef_fail(err, EF_WRONG_STORE, "%s is a file; views in LMDB are in a folder", folder);
    if (!*out_made && !create)
        return ef_fail(err, EF_NOT_FOUND, "there is no view store in %s", folder);
    return EF_OK;
}

/* --- what it is ------------------------------------------------------------------------------- */

static ef_status wrong_store(const vl_env *env, ef_error *err)
{
    return ef_fail(err, EF_WRONG_STORE, "%s is an LMDB environment, but no Everfold view store",
                   env->folder);
}

static ef_status check_format(vl_txn *txn)
{
    vl_format format = {.version = 0};
    ef_str value;

    if (!vl_get(txn, VL_STATE, vl_key_of(VL_FORMAT), &value) ||
        !vl_row_read(value, &format, sizeof format) ||
        memcmp(format.magic, VL_MAGIC, sizeof format.magic) != 0)
        vl_try(txn, wrong_store(txn->env, txn->err));
    if (format.version > FORMAT_VERSION)
        vl_try(txn, ef_fail_numbers(txn->err, EF_NEWER_SCHEMA, FORMAT_VERSION, format.version,
                                    "the view store has format %" PRIu32
                                    " and this Everfold knows up to %d: use a newer Everfold",
                                    format.version, FORMAT_VERSION));
    return txn->st;
}

static int open_trees(vl_txn *txn, unsigned flags)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < VL_TREES; i++)
        rc = mdb_dbi_open(txn->mdb, TREES[i], flags | (i == VL_INDEX ? MDB_DUPSORT : 0),
                          &txn->env->trees[i]);
    return rc;
}

/* The number of entries in the unnamed database: named databases and anything else. */
static int count_all(vl_txn *txn, size_t *out)
{
    MDB_dbi unnamed;
    MDB_stat stat = {0};
    int rc = mdb_dbi_open(txn->mdb, NULL, 0, &unnamed);

    if (rc == 0)
        rc = mdb_stat(txn->mdb, unnamed, &stat);
    *out = stat.ms_entries;
    return rc;
}

/* In a write transaction, because another process may have filled it meanwhile. */
static void fill_new(vl_txn *txn, void *context)
{
    vl_format format = {
        .magic = VL_MAGIC, .version = FORMAT_VERSION, .created_us = *(int64_t *)context};
    size_t had;
    int rc = count_all(txn, &had);

    if (rc == 0)
        rc = open_trees(txn, MDB_CREATE);
    if (rc == MDB_INCOMPATIBLE)
        vl_try(txn, wrong_store(txn->env, txn->err));
    else
        (void)vl_failed(txn, rc, "making a view store");
    if (had > 0) {
        (void)check_format(txn);
        return;
    }
    vl_put(txn, vl_key_of(VL_FORMAT), vl_bytes(&format, sizeof format));
    vl_state_put(txn, &(vl_state){.live_set = 1});
}

/* Opens the trees of an environment; *out_new: it is empty. Handles stay valid after the
 * transaction that opened them is committed, also one that only reads. */
static ef_status open_existing(vl_env *env, bool *out_new, ef_error *err)
{
    vl_txn txn = {.env = env, .err = err};
    size_t has = 0;
    int rc = mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, &txn.mdb);

    if (rc != 0)
        return vl_failed(&txn, rc, "opening");
    rc = count_all(&txn, &has);
    *out_new = rc == 0 && has == 0;
    if (rc == 0 && !*out_new)
        rc = open_trees(&txn, 0);
    if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE)
        vl_try(&txn, wrong_store(env, err));
    else if (vl_failed(&txn, rc, "opening") == EF_OK && !*out_new)
        (void)check_format(&txn);
    if (txn.st == EF_OK)
        return vl_failed(&txn, mdb_txn_commit(txn.mdb), "opening");
    mdb_txn_abort(txn.mdb);
    return txn.st;
}

/* Reading a map beyond the end of its file kills the process. */
static ef_status check_size(vl_env *env, ef_error *err)
{
    MDB_envinfo info;
    MDB_stat stat;
    struct stat file;
    int fd;
    int64_t used;

    if (mdb_env_info(env->mdb, &info) != 0 || mdb_env_stat(env->mdb, &stat) != 0 ||
        mdb_env_get_fd(env->mdb, &fd) != 0 || fstat(fd, &file) != 0)
        return ef_fail(err, EF_IO, "%s/data.mdb cannot be inspected", env->folder);
    used = ((int64_t)info.me_last_pgno + 1) * stat.ms_psize;
    if (file.st_size + CUT_BYTES_MIN >= used)
        return EF_OK;
    return ef_fail_numbers(err, EF_DAMAGED, used, file.st_size,
                           "%s/data.mdb has %" PRId64 " bytes and %" PRId64
                           " are in use: it was cut off. Restore a copy, or remove the folder and "
                           "let the views be made again",
                           env->folder, (int64_t)file.st_size, used);
}

/* --- opening ---------------------------------------------------------------------------------- */

static ef_status open_failed(const vl_env *env, int rc, ef_error *err)
{
    if (rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH || rc == MDB_CORRUPTED)
        return ef_fail(err, EF_WRONG_STORE,
                       "%s/data.mdb is no LMDB file that this machine can read: %s", env->folder,
                       mdb_strerror(rc));
    return vl_failed(&(vl_txn){.env = (vl_env *)env, .err = err}, rc, "opening");
}

/* For writing also where it is only read, so that a writer of the same process can share it; but
 * not where the file does not allow it. */
static ef_status open_mdb(vl_env *env, const ef__views_options *options, size_t new_map_bytes,
                          ef_error *err)
{
    char path[PATH_BYTES];
    bool readable_only;
    int rc = mdb_env_create(&env->mdb);

    (void)file_of(env->folder, "data.mdb", path); /* it was made before */
    readable_only = options->read_only && access(path, W_OK) != 0;
    if (rc == 0)
        rc = mdb_env_set_maxdbs(env->mdb, VL_TREES);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(env->mdb, MAX_READERS);
    if (rc == 0 && new_map_bytes) /* otherwise it is as large as it was */
        rc = mdb_env_set_mapsize(env->mdb, new_map_bytes);
    if (rc == 0)
        rc =
            mdb_env_open(env->mdb, env->folder, MDB_NOTLS | (readable_only ? MDB_RDONLY : 0), 0600);
    if (rc != 0)
        return open_failed(env, rc, err);
    if (readable_only)
        return EF_OK;
    ef__owner_inherit(path);
    if (file_of(env->folder, "lock.mdb", path))
        ef__owner_inherit(path);
    if (!file_of(env->folder, "everfold.lock", path))
        return ef_fail(err, EF_BAD_INPUT, "the path of the view store is too long");
    env->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (env->lock_fd < 0 && !options->read_only)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    ef__owner_inherit(path);
    return EF_OK;
}

static ef_status open_env(vl_env *env, const ef__views_options *options, size_t new_map_bytes,
                          ef_error *err)
{
    int dead = 0;
    bool is_new = false;
    int64_t now_us = options->clock->wall_us(options->clock->context);
    ef_status st = open_mdb(env, options, new_map_bytes, err);

    if (st == EF_OK)
        st = check_size(env, err);
    if (st == EF_OK)
        st = open_existing(env, &is_new, err);
    if (st != EF_OK)
        return st;
    (void)mdb_reader_check(env->mdb, &dead); /* those that were killed keep old pages */
    if (!is_new)
        return EF_OK;
    if (!options->create)
        return ef_fail(err, EF_NOT_FOUND, "there is no view store in %s", env->folder);
    st = vl_write(env, false, options->busy_ms, fill_new, &now_us, err);
    if (st == EF_OK)
        sync_folder(env->folder);
    return st;
}

static void env_release(vl_env *env)
{
    for (int i = 0; i < env->idle_count; i++)
        mdb_txn_abort(env->idle[i]);
    if (env->mdb)
        mdb_env_close(env->mdb);
    if (env->lock_fd >= 0)
        (void)close(env->lock_fd);
    (void)pthread_cond_destroy(&env->moved);
    (void)pthread_mutex_destroy(&env->gate);
    (void)pthread_mutex_destroy(&env->writer);
    free(env->folder);
    free(env);
}

static vl_env *env_make(const char *folder, const struct stat *is, const ef_log *log)
{
    vl_env *env = calloc(1, sizeof *env);

    if (!env || !(env->folder = strdup(folder))) {
        free(env);
        return NULL;
    }
    env->refs = 1;
    env->pid = getpid();
    env->device = is->st_dev;
    env->inode = is->st_ino;
    env->log = log;
    env->lock_fd = -1;
    (void)pthread_mutex_init(&env->writer, NULL); /* of the default kind: cannot fail on Linux */
    (void)pthread_mutex_init(&env->gate, NULL);
    ef__cond_init(&env->moved);
    return env;
}

static ef_status open_first(const char *folder, const struct stat *is, size_t new_map_bytes,
                            const ef__views_options *options, vl_env **out, ef_error *err)
{
    vl_env *env = env_make(folder, is, options->log);
    ef_status st;

    if (!env)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a view store");
    st = open_env(env, options, new_map_bytes, err);
    if (st != EF_OK) {
        env_release(env);
        return st;
    }
    env->next = list;
    list = env;
    *out = env;
    return EF_OK;
}

ef_status vl_env_open(const char *folder, const ef__views_options *options, size_t map_bytes,
                      vl_env **out, ef_error *err)
{
    struct stat is;
    bool is_made;
    ef_status st;

    *out = NULL;
    pthread_mutex_lock(&list_lock);
    st = check_folder(folder, options->create, &is, &is_made, err);
    for (vl_env *env = list; st == EF_OK && env && !*out; env = env->next)
        if (env->device == is.st_dev && env->inode == is.st_ino && env->pid == getpid())
            *out = env;
    if (*out && (*out)->lock_fd < 0 && !options->read_only)
        st = ef_fail(err, EF_MISUSE,
                     "%s is open read-only in this process, which may not open it a second time",
                     folder);
    else if (*out)
        (*out)->refs++;
    else if (st == EF_OK)
        st = open_first(folder, &is, is_made ? 0 : map_bytes, options, out, err);
    if (st != EF_OK)
        *out = NULL;
    pthread_mutex_unlock(&list_lock);
    return st;
}

void vl_env_close(vl_env *env)
{
    if (!env)
        return;
    pthread_mutex_lock(&list_lock);
    if (--env->refs == 0) {
        for (vl_env **at = &list; *at; at = &(*at)->next)
            if (*at == env) {
                *at = env->next;
                break;
            }
        env_release(env);
    }
    pthread_mutex_unlock(&list_lock);
}
