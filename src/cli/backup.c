/*
 * backup.c - see backup.h.
 */
#include "backup.h"

#include "../base/file.h"
#include "../base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT 1
#define MANIFEST "backup.json"
#define MANIFEST_BYTES_MAX (1024 * 1024)

ef_status backup_fail(const char *path, ef_error *err)
{
    int failed = errno;

    return ef_fail(err,
                   failed == ENOENT   ? EF_NOT_FOUND
                   : failed == ENOSPC ? EF_FULL
                                      : EF_IO,
                   "%s: %s", path, strerror(failed));
}

void backup_path(const char *directory, const char *name, char out[BACKUP_PATH_MAX])
{
    (void)snprintf(out, BACKUP_PATH_MAX, "%s/%s", directory, name);
}

static ef_status check_length(const char *directory, ef_error *err)
{
    return strlen(directory) < PATH_MAX - 64
               ? EF_OK
               : ef_fail(err, EF_BAD_INPUT, "the path %.200s is too long", directory);
}

const char *const backup_names[BACKUP_NAMES] = {BACKUP_JOURNAL,    BACKUP_HEAD,     BACKUP_VIEWS,
                                                BACKUP_VIEWS_LMDB, BACKUP_SETTINGS, BACKUP_TOKENS};

static const backup_file *find_file(const backup *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->files[i].name, name) == 0)
            return &b->files[i];
    return NULL;
}

bool backup_has(const backup *b, const char *name)
{
    return find_file(b, name) != NULL;
}

int64_t backup_bytes(const backup *b, const char *name)
{
    const backup_file *file = find_file(b, name);

    return file ? file->bytes : 0;
}

ef_status backup_need_empty(const char *directory, ef_error *err)
{
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    ef_status st = EF_OK;

    if (!dir && errno == ENOENT)
        return check_length(directory, err);
    if (!dir)
        return backup_fail(directory, err);
    while (st == EF_OK && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            st = ef_fail(err, EF_EXISTS,
                         "%s is not empty, it contains %s; nothing was changed. Name another "
                         "directory, or empty this one",
                         directory, entry->d_name);
    (void)closedir(dir);
    return st;
}

static ef_status sync_path(const char *path, int flags, ef_error *err)
{
    EF__AUTO(ef__fd) fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    return fd >= 0 && fsync(fd) == 0 ? EF_OK : backup_fail(path, err);
}

ef_status backup_sync_directory(const char *directory, ef_error *err)
{
    return sync_path(directory, O_DIRECTORY, err);
}

ef_status backup_write_file(const char *path, ef_str text, ef_error *err)
{
    EF__AUTO(ef__fd) fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len && fsync(fd) == 0;

    return fine ? EF_OK : backup_fail(path, err);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Hashes a file through a memory map, so that memory does not grow with its size. */
static ef_status hash_file(const char *path, backup_file *out, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];
    struct stat st;
    EF__AUTO(ef__fd) fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    void *map = NULL;
    ef_status status = fd >= 0 && fstat(fd, &st) == 0 ? EF_OK : backup_fail(path, err);
    bool hashed;

    if (status == EF_OK && st.st_size > 0) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        status = map == MAP_FAILED ? backup_fail(path, err) : EF_OK;
    }
    if (status == EF_OK) {
        hashed = ef__sha256((ef_str){"", 0}, (ef_str){map ? map : "", (size_t)st.st_size}, hash);
        status = hashed ? EF_OK : ef_fail(err, EF_NO_MEMORY, "%s could not be hashed", path);
        out->bytes = st.st_size;
        ef__hex(hash, sizeof(hash), out->sha256);
    }
    if (map && map != MAP_FAILED)
        (void)munmap(map, (size_t)st.st_size);
    return status;
}

ef_status backup_add(backup *b, const char *directory, const char *name, ef_error *err)
{
    char path[BACKUP_PATH_MAX];
    backup_file *file = &b->files[b->count];
    ef_status st;

    backup_path(directory, name, path);
    st = sync_path(path, O_NOFOLLOW, err); /* durable before the manifest lists it */
    if (st == EF_OK)
        st = hash_file(path, file, err);
    if (st == EF_OK) {
        (void)snprintf(file->name, sizeof(file->name), "%s", name);
        b->count++;
    }
    return st;
}

static ef_status copy_bytes(int from, int to, const char *path, ef_error *err)
{
    ssize_t n;

    while ((n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0)) > 0)
        if (cli_stopped())
            return ef_fail(err, EF_TIMEOUT, "stopped while copying %s", path);
    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
        char buffer[65536];
        while ((n = read(from, buffer, sizeof(buffer))) > 0)
            if (write(to, buffer, (size_t)n) != n)
                return backup_fail(path, err);
    }
    return n < 0 || fsync(to) != 0 ? backup_fail(path, err) : EF_OK;
}

ef_status backup_copy_file(const char *from, const char *to, bool *out_found, ef_error *err)
{
    EF__AUTO(ef__fd) in = open(from, O_RDONLY | O_CLOEXEC), out = -1;

    if (out_found)
        *out_found = in >= 0;
    if (in < 0)
        return out_found && errno == ENOENT ? EF_OK : backup_fail(from, err);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return out < 0 ? backup_fail(to, err) : copy_bytes(in, out, to, err);
}

/* --- the manifest ----------------------------------------------------------------------------- */

static const ef__field manifest_fields[] = {
    EF__FIELD(backup, "version", CHARS, version),
    EF__FIELD(backup, "created_at", CHARS, created_at),
    EF__FIELD(backup, "journal_id", CHARS, journal_id),
    EF__FIELD(backup, "schema", INT64, schema),
    EF__FIELD(backup, "position", INT64, position),
    EF__FIELD(backup, "hash", CHARS, hash),
};
static const ef__shape manifest_shape = EF__SHAPE(manifest_fields, backup);

static const ef__field file_fields[] = {
    EF__FIELD(backup_file, "name", CHARS, name),
    EF__FIELD(backup_file, "bytes", INT64, bytes),
    EF__FIELD(backup_file, "sha256", CHARS, sha256),
};
static const ef__shape file_shape = EF__SHAPE(file_fields, backup_file);

static void write_manifest(const backup *b, ef__buf *out)
{
    ef__json_writer w = EF__JSON_WRITER(out);

    ef__json_open(&w, '{');
    ef__json_member_int(&w, "format", FORMAT);
    ef__shape_members(&w, &manifest_shape, b);
    ef__json_key(&w, "files");
    ef__shape_write_array(&w, &file_shape, NULL, b->files, b->count);
    ef__json_close(&w, '}');
    ef__buf_add_char(out, '\n');
}

ef_status backup_write(const backup *b, const char *directory, ef_error *err)
{
    char path[BACKUP_PATH_MAX], fresh[BACKUP_PATH_MAX];
    EF__AUTO(ef__buf) text = EF__BUF_INIT(MANIFEST_BYTES_MAX);
    ef_status st = backup_sync_directory(directory, err);

    backup_path(directory, MANIFEST, path);
    backup_path(directory, MANIFEST ".new", fresh);
    write_manifest(b, &text);
    if (st == EF_OK)
        st = backup_write_file(fresh, ef__buf_str(&text), err);
    if (st == EF_OK && rename(fresh, path) != 0)
        st = backup_fail(path, err);
    return st == EF_OK ? backup_sync_directory(directory, err) : st;
}

/* Every member must be there. */
static bool read_members(const ef__json *object, const ef__shape *shape, void *out)
{
    for (size_t i = 0; i < shape->count; i++)
        if (!ef__json_get(object, shape->fields[i].key))
            return false;
    return ef__shape_read(object, shape, out, NULL) == EF_OK;
}

/* Only known names are accepted, so that a manifest cannot name a file outside the directory. */
static bool is_known_name(const char *name)
{
    for (size_t i = 0; i < BACKUP_NAMES; i++)
        if (strcmp(name, backup_names[i]) == 0)
            return true;
    return false;
}

static bool read_files(const ef__json *files, backup *out)
{
    if (!files || files->kind != EF__JSON_ARRAY || files->count > BACKUP_FILES_MAX)
        return false;
    for (const ef__json *item = files->first; item; item = item->next) {
        backup_file *file = &out->files[out->count++];
        if (!read_members(item, &file_shape, file) || !is_known_name(file->name))
            return false;
    }
    return backup_has(out, BACKUP_JOURNAL) && backup_has(out, BACKUP_HEAD);
}

static ef_status parse_manifest(ef_str text, const char *path, backup *out, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(4 * MANIFEST_BYTES_MAX);
    ef__json *root = NULL;
    int64_t format = 0;
    ef_status st = ef__json_parse(text, MANIFEST_BYTES_MAX, &arena, &root, NULL);
    const ef__json *number = st == EF_OK ? ef__json_get(root, "format") : NULL;

    *out = (backup){0};
    if (!number || ef__json_int64(number, &format) != 0)
        st = ef_fail(err, EF_DAMAGED, "%s is not the manifest of a backup", path);
    else if (format > FORMAT)
        st = ef_fail_numbers(err, EF_NEWER_SCHEMA, FORMAT, format,
                             "%s has format %" PRId64 " and this Everfold knows up to %d: use a "
                             "newer Everfold",
                             path, format, FORMAT);
    else if (!read_members(root, &manifest_shape, out) ||
             !read_files(ef__json_get(root, "files"), out))
        st = ef_fail(err, EF_DAMAGED, "%s is damaged: a value is missing or wrong", path);
    return st;
}

static ef_status read_manifest(const char *directory, backup *out, ef_error *err)
{
    char path[BACKUP_PATH_MAX];
    EF__AUTO(ef__buf) text = EF__BUF_INIT(MANIFEST_BYTES_MAX);
    ef_status st = check_length(directory, err);

    backup_path(directory, MANIFEST, path);
    if (st == EF_OK)
        st = cli_file_read(path, &text, err);
    if (st == EF_NOT_FOUND)
        st = ef_fail(err, EF_NOT_FOUND,
                     "%s is not a complete backup: it has no " MANIFEST ", which is written last",
                     directory);
    return st == EF_OK ? parse_manifest(ef__buf_str(&text), path, out, err) : st;
}

ef_status backup_check(backup *out, cli *c, const char *directory, ef_error *err)
{
    EF__AUTO(cli_progress) progress = cli_progress_begin(c, "checking", "bytes", true);
    int64_t done = 0, total = 0;
    ef_status st = read_manifest(directory, out, err);

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        total += out->files[i].bytes;
    for (size_t i = 0; st == EF_OK && i < out->count && !cli_stopped(); i++) {
        const backup_file *file = &out->files[i];
        backup_file found = {0};
        char path[BACKUP_PATH_MAX];
        backup_path(directory, file->name, path);
        st = hash_file(path, &found, err);
        if (st == EF_NOT_FOUND)
            st = ef_fail(err, EF_DAMAGED, "the backup is damaged: %s is missing", path);
        else if (st == EF_OK &&
                 (found.bytes != file->bytes || strcmp(found.sha256, file->sha256) != 0))
            st = ef_fail_numbers(
                err, EF_DAMAGED, file->bytes, found.bytes,
                "the backup is damaged: %s has another size or hash than the manifest", path);
        done += file->bytes;
        cli_progress_update(&progress, done, total, done);
    }
    return st;
}

/* --- journal of a backup ---------------------------------------------------------------------- */

ef_status backup_journal_open(cli *c, const char *directory, const char *name,
                              const ef_journal_options *how, ef_journal **out, ef_error *err)
{
    char url[BACKUP_PATH_MAX] = "sqlite:";
    ef_journal_options options = *how;

    options.url = url;
    options.log = &c->log;
    (void)snprintf(url, sizeof(url), "sqlite:%s/%s", directory, name);
    return ef_journal_open(&options, out, err);
}

ef_status backup_archive_open(cli *c, const char *directory, ef_journal **out, ef_error *err)
{
    return backup_journal_open(c, directory, BACKUP_JOURNAL,
                               &(ef_journal_options){.read_only = true, .archive = true}, out, err);
}

/* SQLite leaves an empty WAL file after a read-only open. */
void backup_archive_close(const char *directory, ef_journal *journal)
{
    static const char *const names[] = {BACKUP_JOURNAL "-wal", BACKUP_JOURNAL "-shm"};
    char path[BACKUP_PATH_MAX];

    ef_journal_close(journal);
    for (size_t i = 0; i < 2; i++) {
        backup_path(directory, names[i], path);
        (void)unlink(path);
    }
}
