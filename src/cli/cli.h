/*
 * cli.h - shared declarations of the commands of `everfold`.
 *
 * A command is a function and a table: name, summary, options, arguments, example and function.
 * getopt_long, help, completion and the manual page are driven by these tables, so they always
 * agree.
 *
 * Results go to stdout through `out`, messages to stderr. A command returns the exit code. `c` is
 * the invocation in every function.
 */
#pragma once

#include "../base/auto.h"
#include "../base/buf.h"
#include "../base/json.h"
#include "../base/settings.h"
#include "../shape/shape.h"

#include <everfold/client.h>
#include <everfold/everfold.h>
#include <everfold/view.h>

/* Every command formats numbers. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define CLI_OPTIONS_MAX 32  /* per command, and common ones */
#define CLI_COLUMNS_MAX 12  /* of a table */
#define CLI_OUT_BYTES 65536 /* stdout is written in pieces of about this size */
#define CLI_PAGE_ROWS 200   /* rows that a list command reads per call */
#define CLI_URL_BYTES (PATH_MAX + 16)
#define CLI_OUT_MAX (32 * 1024 * 1024) /* several times the largest event, escaped */

EF__AUTO_LIST(ef_client_token_list)

typedef struct cli cli;

typedef struct cli_option {
    const char *name;    /* long name, without dashes; NULL ends a table */
    char letter;         /* short name, or 0 */
    const char *value;   /* name of its value in help; NULL: a flag */
    const char *setting; /* setting that it overrides; NULL: read by the command */
    const char *words;   /* for completion: a comma list of values, "@file", "@dir", or NULL */
    const char *help;
    enum { CLI_VALUE_TEXT, CLI_VALUE_INT, CLI_VALUE_DURATION } type;
    int64_t min, max, otherwise; /* INT and DURATION (ms); `otherwise`: if it is not given */
    bool one_of;                 /* the value is one of `words`; its number is the index, or -1 */
    const char *needed;          /* required: the end of the message if it is missing; may be "" */
} cli_option;

typedef struct cli_argument {
    const char *name; /* NULL ends a table */
    bool optional;
    bool many;         /* the last one may be repeated */
    const char *words; /* as for options */
    const char *help;
} cli_argument;

/* The tables of a command, in its initializer. */
#define CLI_OPTIONS(...) ((const cli_option[]){__VA_ARGS__, {.name = NULL}})
#define CLI_ARGUMENTS(...) ((const cli_argument[]){__VA_ARGS__, {.name = NULL}})

/* Their rows; further members may follow. */
#define CLI_FLAG(name_, help_, ...)                                                                \
    {                                                                                              \
        .name = (name_), .help = (help_), __VA_ARGS__                                              \
    }
#define CLI_TEXT(name_, value_, ...) CLI_FLAG(name_, __VA_ARGS__, .value = (value_))
#define CLI_WORDS(name_, value_, words_, help_) CLI_TEXT(name_, value_, help_, .words = (words_))
#define CLI_ONE_OF(name_, value_, words_, help_)                                                   \
    CLI_TEXT(name_, value_, help_, .words = (words_), .one_of = true, .otherwise = -1)
#define CLI_SETTING(name_, value_, setting_, ...)                                                  \
    CLI_TEXT(name_, value_, __VA_ARGS__, .setting = (setting_))
#define CLI_INT(name_, value_, min_, max_, otherwise_, ...)                                        \
    CLI_TEXT(name_, value_, __VA_ARGS__, .type = CLI_VALUE_INT, .min = (min_), .max = (max_),      \
             .otherwise = (otherwise_))
#define CLI_DURATION(name_, value_, otherwise_ms, help_)                                           \
    CLI_TEXT(name_, value_, help_, .type = CLI_VALUE_DURATION, .otherwise = (otherwise_ms))
#define CLI_ARGUMENT(name_, help_, ...)                                                            \
    {                                                                                              \
        .name = (name_), .help = (help_), __VA_ARGS__                                              \
    }

/* Rows that many commands have. */
#define CLI_REASON                                                                                 \
    CLI_TEXT("reason", "TEXT", "reason, recorded in the audit log (everfold audit ls)")
#define CLI_NAME(what) CLI_ARGUMENTS(CLI_ARGUMENT("NAME", "name of the " what))

/* What a command opens before it is called. Through a server it is the client instead. */
typedef enum cli_stores {
    CLI_NO_STORES,
    CLI_SERVER, /* only a server, if the settings name one */
    CLI_JOURNAL_READ,
    CLI_JOURNAL,
    CLI_APPEND, /* the journal; in the inline modes also the engine */
    CLI_ENGINE_READ,
    CLI_ENGINE
} cli_stores;

typedef struct cli_group {
    const char *name;
    const char *summary;
} cli_group;

/* What helps after an error with this status. */
typedef struct cli_hint_row {
    ef_status status; /* EF_OK ends a table */
    const char *text;
} cli_hint_row;

#define CLI_HINTS(...) ((const cli_hint_row[]){__VA_ARGS__, {EF_OK, NULL}})
#define CLI_NO_PROJECTION                                                                          \
    {                                                                                              \
        EF_NOT_FOUND, "see: everfold projection ls"                                                \
    }
#define CLI_NOT_FRESH                                                                              \
    {EF_BLOCKED,                                                                                   \
     "see: everfold projection failures PROJECTION; then everfold outbox requeue or skip"},        \
    {                                                                                              \
        EF_TIMEOUT, "check that a worker is running: everfold worker ls"                           \
    }
#define CLI_PROJECTION_HINTS                                                                       \
    CLI_HINTS(CLI_NO_PROJECTION, {EF_EXISTS, "see: everfold run ls --open"})

typedef struct cli_command {
    const char *name; /* "event append" */
    const char *summary;
    const cli_option *options;
    const cli_argument *arguments;
    const char *more; /* paragraphs for help and the manual page; may be NULL */
    const char *example;
    /* `check` (may be NULL), then the stores are opened, then `call`. An error is reported with
     * c->hint, if it is set. The command ends with c->exit_code; 0: that of the error. */
    ef_status (*check)(cli *c, ef_error *err);
    cli_stores stores;
    ef_status (*call)(cli *c, ef_error *err);
    /* What helps if `call` has failed after the stores were opened, by its status; `hint` for a
     * status without a row. Both may be NULL. */
    const cli_hint_row *hints;
    const char *hint;
    bool hidden;         /* not shown in help and completion */
    bool settings_later; /* runs even with invalid settings, see c->settings_error */
    bool no_settings;    /* reads no settings */
    bool local;          /* needs local stores: refused with --server */
    bool service;        /* long-running: with log.format=json its messages are log lines */
} cli_command;

typedef enum cli_format { CLI_TABLE, CLI_JSON, CLI_NDJSON } cli_format;
typedef enum cli_out_state { CLI_OUT_OPEN, CLI_OUT_CLOSED, CLI_OUT_BROKEN } cli_out_state;

/* How events reach the projections. */
typedef enum cli_mode {
    CLI_MODE_OUTBOX_APPLY_ONLY,
    CLI_MODE_INLINE_APPLY_ONLY,
    CLI_MODE_SHADOW_ONLY,
    CLI_MODE_INLINE_THEN_OUTBOX,
    CLI_MODE_ENQUEUE_ONLY
} cli_mode;

/* One invocation of the program. */
struct cli {
    const char *program; /* argv[0] */
    const cli_command *command;
    const cli_group *group;               /* `everfold event --help`: "event" */
    const char *values[CLI_OPTIONS_MAX];  /* of the command's options, "" for a flag */
    int64_t numbers[CLI_OPTIONS_MAX];     /* of its options of type INT and DURATION */
    const char *commons[CLI_OPTIONS_MAX]; /* of the common options */
    const char *data_before;              /* event append: an earlier --data */
    char **arguments;
    size_t argument_count;
    ef__settings *settings;
    ef_error settings_error;
    char settings_file[PATH_MAX]; /* path of the file that was read, or "" */
    char tokens_file[PATH_MAX];   /* path of the file with the API tokens */
    char journal_url[CLI_URL_BYTES];
    char views_url[CLI_URL_BYTES];
    char control_url[CLI_URL_BYTES];   /* of a journal on JetStream */
    char journal_shown[CLI_URL_BYTES]; /* without passwords, for output */
    char views_shown[CLI_URL_BYTES];
    char control_shown[CLI_URL_BYTES];
    cli_mode mode;
    cli_format format;
    bool quiet;
    bool mode_logged;
    int exit_code;             /* of a call without an error */
    bool error_shown;          /* the call has reported its error itself */
    bool opened;               /* the stores of the command */
    char hint[PATH_MAX + 128]; /* for the error; "": that of the command */
    ef_log log;
    ef_log_style log_style;
    ef_journal *journal;
    ef_engine *engine; /* NULL for commands that need no views */
    ef_client *client; /* used instead of both with --server */
    ef__buf out;
    cli_out_state out_state;
    int out_errno;
};

/* --- time ------------------------------------------------------------------------------------- */

static inline int64_t cli_mono_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context);
}

static inline int64_t cli_wall_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->wall_us(clock->context);
}

/* Sleeps; a signal ends it early, the caller checks for it. */
void cli_sleep_us(int64_t us);

/* --- tables (main.c, options.c) --------------------------------------------------------------- */

/* clang-format off */
/* All commands, in the order of help. */
#define CLI_COMMANDS(X)                                                                            \
    X(init) X(event_append) X(event_import) X(event_ls) X(event_log) X(event_show)                 \
    X(journal_copy) X(journal_adopt) X(backup) X(backup_verify) X(restore) X(type_ls) X(type_set)  \
    X(fold_check) X(fold_explain) X(fold_test) X(projection_deploy) X(projection_ls)               \
    X(projection_show) X(projection_failures) X(projection_try) X(projection_pause)                \
    X(projection_resume) X(projection_wait) X(projection_rebuild) X(projection_verify)             \
    X(projection_diff) X(projection_switch) X(projection_rollback) X(projection_retire)            \
    X(view_get) X(view_query) X(view_export) X(view_explain) X(view_at) X(view_seed) X(serve)      \
    X(work) X(outbox_report) X(outbox_requeue) X(outbox_requeue_dead) X(outbox_skip)               \
    X(outbox_skip_dead) X(outbox_replay) X(publisher_add) X(publisher_ls) X(publisher_show)        \
    X(publisher_pause) X(publisher_resume) X(publisher_rm) X(audit_ls) X(gaps_detect)              \
    X(gaps_repair) X(replay) X(run_ls) X(run_show) X(run_watch) X(run_cancel) X(lease_ls)          \
    X(worker_ls) X(partition_ls) X(partition_sync) X(token_create) X(token_ls) X(token_revoke)     \
    X(status) X(top) X(doctor) X(config_show) X(config_check) X(completion) X(help) X(version)     \
    X(complete) X(man_page)
/* clang-format on */
#define CLI_DECLARE_COMMAND(name) extern const cli_command cli_cmd_##name;
CLI_COMMANDS(CLI_DECLARE_COMMAND)

extern const cli_command *const cli_commands[]; /* ends with NULL */
extern const cli_option cli_common_options[];

extern const cli_group cli_groups[]; /* ends with a NULL name */

/* "event", "append", or one word and NULL. */
const cli_command *cli_command_find(const char *first, const char *second);
const cli_group *cli_group_find(const char *name);
/* Verb of `command` if it is in `group`, else NULL. */
const char *cli_command_verb(const cli_command *command, const char *group);
/* The word that selects a command after `group` (NULL: none); NULL if it is hidden or has none. */
const char *cli_command_word(const cli_command *command, const cli_group *group);

/* EF_BAD_INPUT: c->group (may be NULL) has no command `word`; the hint is one that is similar. */
ef_status cli_unknown_command(cli *c, const char *word, ef_error *err);
/* Parses the command line: command, group, values, arguments. EF_BAD_INPUT may set `c->hint`. */
ef_status cli_options_parse(cli *c, int argc, char **argv, ef_error *err);

/* Index of the option with this long name, or (`name` NULL) this letter; -1: none. */
int cli_option_index(const cli_option *options, const char *name, int letter);
/* Value of an option of the command, or of a common one; NULL if it was not given. */
const char *cli_value(const cli *c, const char *name);
const char *cli_common_value(const cli *c, const char *name);
bool cli_has(const cli *c, const char *name);
/* Value of an option of the command of type INT or DURATION, or the index of its word. */
int64_t cli_int(const cli *c, const char *name);
/* Checks and stores these values. */
ef_status cli_options_check(cli *c, ef_error *err);
ef_status cli_number_parse(const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out, ef_error *err);

/* --- help, completion, manual page ------------------------------------------------------------ */

/* Describes a command, a group, or (both NULL) everything. */
void cli_help(cli *c, const cli_command *command, const cli_group *group);

/* --- settings and the journal (session.c) ----------------------------------------------------- */

bool cli_url_on_server(const char *url); /* a database server, not local files */
bool cli_url_in_memory(const char *url);
ef_status cli_settings_load(cli *c, ef_error *err);
/* Reads file, environment and flags into a table, which the caller closes after errors too. */
ef_status cli_settings_read(cli *c, ef__settings **out, ef_error *err);
/* Refuses contradictory settings. */
ef_status cli_settings_check(const ef__settings *settings, ef_error *err);
/* Sets the minimum log level: "info". */
void cli_log_level(cli *c, ef_str level);
/* Same effect as --data. */
ef_status cli_data_use(cli *c, const char *directory, ef_error *err);
/* NULL if it is empty. Lives as long as the settings. */
const char *cli_setting_text(const cli *c, const char *key);
const char *cli_data(const cli *c); /* path of the data directory */
ef__setting_view cli_setting(const cli *c, const char *key);
/* The effective value. */
ef_str cli_setting_value(const cli *c, const ef__setting_view *view);
ef_str cli_tenant(const cli *c);
bool cli_tenant_given(const cli *c);
ef_str cli_actor(const cli *c);
ef_status cli_settings_table_open(ef__settings **out, ef_error *err);

/* Opens c->journal; `extra` (may be NULL) sets create, read_only and accept_head. */
ef_status cli_journal_open(cli *c, const ef_journal_options *extra, ef_error *err);
/* Sets c->hint to the command that helps if it could not be opened, and returns it; or NULL. */
const char *cli_journal_hint(cli *c, ef_status status);
ef_str cli_reason(const cli *c);
/* Writes an audit entry about the journal or a token; the engine writes its own. Through a server
 * it does nothing: the server writes the entry. */
ef_status cli_note(cli *c, const char *act, ef_str what, ef_error *err);

/* --- through a server (stores.c) ------------------------------------------------------------- */

/* Opens the stores of the settings, or the client; calls.h makes the calls. Sets c->hint. */
ef_status cli_need(cli *c, cli_stores stores, ef_error *err);

/* --- the engine (stores.c) ------------------------------------------------------------ */

/* Opens c->engine on the open c->journal; `create` creates the view store. */
ef_status cli_engine_open(cli *c, bool create, bool read_only, ef_error *err);
/* Settings of workers, and of retries of "apply", "cursor" or "publish". */
ef_work_options cli_work_options(const cli *c);
ef_retry_options cli_retry_options(const cli *c, const char *kind);
/* Creates the data directory if it does not exist. */
ef_status cli_data_make(const cli *c, ef_error *err);
/* Opens both stores, and creates missing ones and the data directory if one is in it. */
ef_status cli_stores_make(cli *c, bool *out_made, ef_error *err);
/* Appends in the way of the mode; the stores of CLI_APPEND are open. */
ef_status cli_append(cli *c, const ef_new_event *events, size_t count, ef_place *out_places,
                     ef_error *err);

/* --- files (output.c) ------------------------------------------------------------------------- */

/* Reads a file, or stdin for "-", up to the maximum of `out`. EF_NOT_FOUND, EF_TOO_LARGE, EF_IO */
ef_status cli_file_read(const char *path, ef__buf *out, ef_error *err);
/* Writes unescaped text to stderr line by line, escaped. */
void cli_lines_say(ef_str text);

/* --- modes (mode.c) --------------------------------------------------------------------------- */

const char *cli_mode_name(cli_mode mode);
ef_mode cli_mode_engine(cli_mode mode); /* how the engine of this process applies events */
/* Effective value of outbox.enabled, worker.enabled or shadow_worker.enabled in that mode. */
bool cli_mode_flag_on(cli_mode mode, const char *key);
/* EF_BAD_INPUT: a contradiction; the message names it. */
ef_status cli_mode_from_settings(const ef__settings *settings, cli_mode *out, ef_error *err);

/* --- results and messages (output.c) ---------------------------------------------------------- */

/* Writes c->out. False if the reader has closed the pipe: end without a message. */
bool cli_flush(cli *c);
/* Calls cli_flush if c->out is large enough. */
bool cli_flush_some(cli *c);
/* Has the reader closed the pipe? For commands that wait. */
bool cli_reader_gone(cli *c);
/* Reports an error in the format of -o; returns the exit code. */
int cli_fail(const cli *c, const ef_error *err, const char *hint);
/* Sets the hint for the error that the call returns. */
void cli_hint(cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* EF_BAD_INPUT; the hint is the help of the command. */
ef_status cli_refuse(cli *c, ef_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Are messages written as log lines? With log.format=json, stderr of a service is all JSON. */
bool cli_logs_messages(const cli *c);
/* Plural ending: "1 event", "2 events". */
static inline const char *cli_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}
/* Writes a line to stderr unless --quiet. */
void cli_say(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line to stderr. */
void cli_warn(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Escapes control and bidi characters. */
void cli_escape(ef__buf *out, ef_str text);
/* The same line by line: line breaks stay. `indent` precedes each line that is not empty. */
void cli_escape_lines(ef__buf *out, ef_str text, const char *indent);

/* A list that is printed while it is read: an array with -o json, lines with -o ndjson. */
typedef struct cli_list {
    bool lines;
    size_t count;
} cli_list;

void cli_list_next(cli *c, cli_list *list);     /* call before an item */
bool cli_list_item_end(cli *c, cli_list *list); /* call after an item; result as cli_flush */
void cli_list_end(cli *c, cli_list *list);

enum cli_colour { CLI_PLAIN, CLI_BOLD, CLI_RED, CLI_YELLOW, CLI_GREEN };
/* Escape sequence of a colour on stdout, or "" without colours. */
const char *cli_colour(const cli *c, enum cli_colour colour);

/* --- tables on a terminal (table.c) ----------------------------------------------------------- */

/* Rows are collected until they are flushed, page by page; columns only become wider. */
typedef struct cli_table {
    const char *const *heads;
    size_t columns;
    unsigned right; /* bit n: column n is right-aligned */
    bool headed;
    size_t widths[CLI_COLUMNS_MAX];
    ef__buf cells; /* each terminated by a NUL */
    size_t cell_count;
} cli_table;

#define CLI_TABLE_INIT(heads_, columns_, right_)                                                   \
    {                                                                                              \
        (heads_), (columns_), (right_), false, {0}, EF__BUF_INIT(CLI_OUT_MAX), 0                   \
    }

void cli_table_text(cli_table *table, ef_str text); /* escapes and cuts it */
/* A cell that may contain colours; foreign text in it must be escaped. */
void cli_table_add(cli_table *table, ef_str cell);
void cli_table_printf(cli_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool cli_table_flush(cli *c, cli_table *table); /* as cli_flush */
void cli_table_release(cli_table *table);
EF__AUTO_TYPE(cli_table, cli_table_release)

/* --- objects by their shape (listing.c) ------------------------------------------------------- */

typedef struct cli_column {
    const char *head;                             /* NULL ends the columns */
    const char *key;                              /* of its field in the shape */
    const char *none;                             /* shown instead of an empty text */
    void (*text)(ef__buf *out, const void *item); /* instead of a field */
    bool right;                                   /* as numbers are */
} cli_column;

#define CLI_COLUMN(head_, key_, ...)                                                               \
    {                                                                                              \
        .head = (head_), .key = (key_), __VA_ARGS__                                                \
    }
#define CLI_COLUMNS(...) ((const cli_column[]){__VA_ARGS__, {.head = NULL}})

/* How objects of a kind are printed: in a table, and with -o json. */
typedef struct cli_listing {
    const ef__shape *shape;
    const ef__shape *more; /* further fields, for columns; may be NULL */
    size_t size;           /* of an object; 0: of the struct of the shape */
    const cli_column *columns;
    void (*write)(ef__json_writer *w, const void *item); /* instead of the fields of `shape` */
    const char *empty;                                   /* message if there are none */
} cli_listing;

/* A list that is printed while it is read. `rows` must not be moved. */
typedef struct cli_rows {
    const cli_listing *listing;
    cli_list list;
    cli_table table;
    const char *heads[CLI_COLUMNS_MAX];
} cli_rows;

void cli_rows_begin(cli *c, cli_rows *rows, const cli_listing *listing);
/* Prints a page; result as cli_flush. */
bool cli_rows_add(cli *c, cli_rows *rows, const void *items, size_t count);
/* Ends the list, unless reading failed. */
void cli_rows_end(cli *c, cli_rows *rows, ef_status status);

/* Prints an item of a list that is no table. */
bool cli_list_item(cli *c, cli_list *list, const cli_listing *listing, const void *item);
void cli_print_list(cli *c, const cli_listing *listing, const void *items, size_t count);
/* Prints the list `found`, which this declares for `call` to read into. The status of the call. */
#define CLI_PRINT_FOUND(c, type, found, listing, call)                                             \
    ({                                                                                             \
        EF__AUTO(type) found = {0};                                                                \
        ef_status st_ = (call);                                                                    \
        if (st_ == EF_OK)                                                                          \
            cli_print_list(c, listing, found.items, found.count);                                  \
        st_;                                                                                       \
    })
/* Prints one object: a table with one row, or an object. */
void cli_print_item(cli *c, const cli_listing *listing, const void *item);
/* Ends an object that was written to c->out, and its line. */
void cli_object_end(cli *c, ef__json_writer *w);
/* Prints a JSON object and a newline. */
void cli_print_object(cli *c, const ef__shape *shape, const void *item);
/* Prints the fields of an object as text, one per line. */
void cli_print_lines(cli *c, const ef__shape *shape, const void *item, int width);
/* Prints the fields in a line: "events 3, applied 2". */
void cli_print_members(cli *c, const ef__shape *shape, const void *item, const char *between);
/* Adds a name, escaped, with its tenant if it has one: "tenant a  order-1". */
void cli_add_name(cli *c, ef_str tenant, ef_str name);
/* Prints one line: the name in `width` columns, then the value, escaped. */
void cli_line(cli *c, int width, const char *name, ef_str value);
void cli_line_int(cli *c, int width, const char *name, int64_t value);

/* Colours in text are single control bytes of width 0. Foreign text cannot contain them, because it
 * passes through cli_escape. */
#define CLI_MARK_PLAIN "\001"
#define CLI_MARK_BOLD "\002"
#define CLI_MARK_RED "\003"
#define CLI_MARK_YELLOW "\004"
#define CLI_MARK_GREEN "\005"

static inline bool cli_is_mark(char c)
{
    return c >= CLI_MARK_PLAIN[0] && c <= CLI_MARK_GREEN[0];
}

void cli_spaces(ef__buf *out, size_t columns);
size_t cli_terminal_width(int fd); /* 0 if it is not a terminal and COLUMNS is not set */
size_t cli_text_width(ef_str text);
/* Longest prefix of at most `columns` columns. */
ef_str cli_text_cut(ef_str text, size_t columns);

/* Events as a list (cmd_event.c); columns that are the same in every row are left out. */
const cli_listing *cli_event_listing(bool with_tenant, bool with_stream);

/* --- progress (output.c) -------------------------------------------------------------------- */

typedef struct cli_progress {
    bool shown; /* stderr is a terminal and --quiet was not given */
    const char *label;
    const char *unit; /* unit of `count`: "events" */
    bool bytes;       /* done and total are bytes */
    int64_t started_us;
    int64_t drawn_us;
} cli_progress;

cli_progress cli_progress_begin(const cli *c, const char *label, const char *unit, bool bytes);
/* `total` is 0 if unknown. `count` is the number of units done. */
void cli_progress_update(cli_progress *p, int64_t done, int64_t total, int64_t count);
/* Progress callback for the library, with `progress` as context: false after a signal. */
bool cli_progress_step(void *progress, int64_t done, int64_t total);
void cli_progress_clear(
    cli_progress *p);                   /* clears the line before other output; it is drawn again */
void cli_progress_end(cli_progress *p); /* clears it; also at the end of a block, with EF__AUTO */
EF__AUTO_TYPE(cli_progress, cli_progress_end)
void cli_bytes_format(int64_t bytes, char out[32]);

/* --- shared by the commands of several nouns -------------------------------------------------- */

/* Maximum size of a program plus the read buffer; the check itself refuses a larger program with
 * its own message. */
#define CLI_PROGRAM_BYTES (4 * 1024 * 1024)
/* Reads and checks one program; warnings and errors go to stderr as text. `*out_shown` is set if
 * EF_BAD_INPUT was reported there already. */
ef_status cli_program_check(const char *path, ef__buf *text, bool *out_shown, ef_error *err);

extern const cli_listing cli_projection_listing;
/* Prints a scope as text: name and state, then the error. */
void cli_show_scope(cli *c, const ef_scope *scope, const char *indent);
/* Reads the projection and prints it. */
ef_status cli_show_projection(cli *c, ef_str name, ef_error *err);

/* Prints view_id and the fields of the data, as many columns as fit (view_table.c). */
ef_status cli_table_views(cli *c, const ef_view *items, size_t count, ef_error *err);

/* Prints one run in the format of -o. */
void cli_print_run(cli *c, const ef_run *run);
/* Follows the run in `list` to its end, with a progress bar; `list` then has its result, and the
 * exit code is 0 only if it completed. If `drives`, this process works on it. */
ef_status cli_run_follow(cli *c, ef_run_list *list, bool drives, ef_error *err);
static inline bool cli_run_is_open(const ef_run *run)
{
    return run->state == EF_RUN_QUEUED || run->state == EF_RUN_RUNNING;
}

/* What the servers of `serve` and `work` have in common (cmd_serve.c). */
struct ef__server_options cli_server_options(cli *c);

/* --- the demo shop (demo.c) ------------------------------------------------------------------- */

typedef struct cli_demo cli_demo;

/* Creates a data directory below TMPDIR and returns its path in `out`. */
ef_status cli_demo_directory(char out[PATH_MAX], ef_error *err);

/* Deploys the programs, appends the initial events to an empty journal, and starts a thread that
 * appends `rate` events per second until the demo is closed. */
ef_status cli_demo_open(cli *c, int64_t rate, cli_demo **out, ef_error *err);
void cli_demo_close(cli_demo *demo); /* accepts NULL */

/* Prints commands to try, on stderr. */
void cli_demo_say(const cli *c, const char *url);

/* --- signals (main.c) ------------------------------------------------------------------------- */

/* SIGINT and SIGTERM only set a flag from here on. */
void cli_stop_on_signals(void);
/* So does SIGHUP; if it is ignored (nohup), it stays ignored. */
void cli_stop_on_hangup(void);
bool cli_stopped(void);
/* Exit code after a signal: 128 and its number. */
int cli_stopped_exit(void);
