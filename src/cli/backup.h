/*
 * backup.h - a backup directory: the files of a data directory and a manifest.
 *
 *     DIR/journal.db, journal.db-head     the journal
 *     DIR/views.db, or DIR/views/         the views, on SQLite or LMDB
 *     DIR/everfold.conf, tokens           settings and API tokens, if they exist
 *     DIR/backup.json                     written last: name, size and SHA-256 of every file
 *
 * A directory without backup.json is not a complete backup.
 */
#pragma once

#include "cli.h"

#define BACKUP_JOURNAL "journal.db"
#define BACKUP_HEAD "journal.db-head"
#define BACKUP_VIEWS "views.db"
#define BACKUP_VIEWS_FOLDER "views"
#define BACKUP_VIEWS_LMDB "views/data.mdb"
#define BACKUP_SETTINGS "everfold.conf"
#define BACKUP_TOKENS "tokens"
#define BACKUP_FILES_MAX 8
#define BACKUP_PATH_MAX (PATH_MAX + 64) /* a directory, and a name */
enum { BACKUP_STORES = 4, BACKUP_NAMES = 6 };
extern const char *const backup_names[BACKUP_NAMES]; /* all of these; first the stores */
/* Present in a data directory while a restore is incomplete. */
#define RESTORE_MARK "restore.incomplete"

typedef struct backup_file {
    char name[64];
    int64_t bytes;
    char sha256[2 * EF_HASH_BYTES + 1];
} backup_file;

/* The manifest. */
typedef struct backup {
    char version[32];
    char created_at[EF_TIME_TEXT_MAX];
    char journal_id[40];
    int64_t schema; /* of the journal */
    int64_t position;
    char hash[2 * EF_HASH_BYTES + 1];
    backup_file files[BACKUP_FILES_MAX];
    size_t count;
} backup;

/* Reports errno: EF_NOT_FOUND, EF_FULL or EF_IO. */
ef_status backup_fail(const char *path, ef_error *err);
/* DIR/NAME. DIR was checked by backup_need_empty or backup_check, so that every name fits. */
void backup_path(const char *directory, const char *name, char out[BACKUP_PATH_MAX]);
bool backup_has(const backup *b, const char *name);
int64_t backup_bytes(const backup *b, const char *name); /* 0 if it is not in the manifest */
/* The directory must not exist or be empty. EF_EXISTS names an entry. EF_BAD_INPUT: its path is too
 * long. */
ef_status backup_need_empty(const char *directory, ef_error *err);

/* Adds size and hash of DIR/NAME to the manifest. */
ef_status backup_add(backup *b, const char *directory, const char *name, ef_error *err);
/* Writes DIR/backup.json atomically. */
ef_status backup_write(const backup *b, const char *directory, ef_error *err);
/* Reads the manifest and checks every file. EF_NOT_FOUND: incomplete. EF_DAMAGED names the file.
 * EF_NEWER_SCHEMA */
ef_status backup_check(backup *out, cli *c, const char *directory, ef_error *err);
/* Opens the journal DIR/NAME on SQLite. */
ef_status backup_journal_open(cli *c, const char *directory, const char *name,
                              const ef_journal_options *how, ef_journal **out, ef_error *err);
/* Opens the journal of a backup, which stays as it is, and closes it (accepts NULL). */
ef_status backup_archive_open(cli *c, const char *directory, ef_journal **out, ef_error *err);
void backup_archive_close(const char *directory, ef_journal *journal);
/* Creates a file, readable by its owner only, and syncs it. */
ef_status backup_write_file(const char *path, ef_str text, ef_error *err);
/* Copies a file, readable by its owner only, and syncs it. `out_found` (may be NULL) is false if
 * the source does not exist; with NULL that is an error. */
ef_status backup_copy_file(const char *from, const char *to, bool *out_found, ef_error *err);
ef_status backup_sync_directory(const char *directory, ef_error *err);
