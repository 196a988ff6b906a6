/*
 * cli.h - what the commands of `everfold` share.
 *
 * A command is a file that ends in a table: its name, a summary, its options, its arguments, an
 * example and the function. The tables drive getopt_long, help, completion and the manual page, so
 * none of them can say something else than the others.
 *
 * Answers go to stdout through `out`, talk goes to stderr. A command returns the exit code.
 */
#ifndef EF_CLI_CLI_H
#define EF_CLI_CLI_H

#include "../base/buf.h"
#include "../base/json.h"
#include "../base/settings.h"
#include "../shape/shape.h"

#include <everfold/client.h>
#include <everfold/everfold.h>
#include <everfold/view.h>

#include <limits.h>

#define CLI_OPTIONS_MAX 32  /* of one command, and common ones: a help page that can be read */
#define CLI_COLUMNS_MAX 12  /* of a table */
#define CLI_OUT_BYTES 65536 /* answers are written in pieces of about this much */
#define CLI_PAGE_ROWS 200   /* what a listing command reads at once */
#define CLI_OUT_MAX (32 * 1024 * 1024) /* several times the largest event with its escapes */

typedef struct cli cli;

typedef struct cli_option {
    const char *name;    /* long name, without dashes; NULL ends a table */
    char letter;         /* short name, or 0 */
    const char *value;   /* what its value is called; NULL when it takes none */
    const char *setting; /* the setting that it sets; NULL: the command asks for it itself */
    const char *words;   /* for completion: a comma list of values, "@file", "@dir", or NULL */
    const char *help;
} cli_option;

typedef struct cli_argument {
    const char *name; /* NULL ends a table */
    bool optional;
    bool many;         /* the last one may be repeated */
    const char *words; /* as for options */
    const char *help;
} cli_argument;

typedef struct cli_command {
    const char *name; /* "event append" */
    const char *summary;
    const cli_option *options;
    const cli_argument *arguments;
    const char *more; /* paragraphs for help and the manual page; may be NULL */
    const char *example;
    int (*run)(cli *c);
    bool hidden;         /* not shown in help and completion */
    bool settings_later; /* runs although the settings are wrong: c->settings_error says how */
    bool no_settings;    /* needs none at all */
    bool local;          /* works on this machine's files: not through a server */
    bool service;        /* runs on: with log.format=json its messages are lines of the log */
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

/* One run of the program. */
struct cli {
    const char *program; /* as it was called */
    const cli_command *command;
    const char *group;                    /* `everfold event --help`: "event" */
    const char *values[CLI_OPTIONS_MAX];  /* of the command's options, "" for a flag */
    const char *commons[CLI_OPTIONS_MAX]; /* of the common options */
    const char *data_before;              /* event append: the one before the last --data */
    char **arguments;
    size_t argument_count;
    ef__settings *settings;
    ef_error settings_error;
    char settings_file[PATH_MAX]; /* the one that was read, or "" */
    char journal_url[PATH_MAX + 16];
    char views_url[PATH_MAX + 16];
    char control_url[PATH_MAX + 16];   /* of a journal on JetStream */
    char journal_shown[PATH_MAX + 16]; /* the same without a password, for answers and messages */
    char views_shown[PATH_MAX + 16];
    char control_shown[PATH_MAX + 16];
    cli_mode mode;
    cli_format format;
    bool quiet;
    bool mode_logged;
    ef_log log;
    ef_log_style log_style;
    ef_journal *journal;
    ef_engine *engine; /* on the journal; NULL for commands that need no views */
    ef_client *client; /* instead of both: through a server */
    ef__buf out;
    cli_out_state out_state;
    int out_errno;
};

/* --- tables (main.c, options.c) -------------------------------------------------------------- */

extern const cli_command *const cli_commands[]; /* ends in NULL; in the order of help */
extern const cli_option cli_common_options[];

typedef struct cli_group {
    const char *name;
    const char *summary;
} cli_group;
extern const cli_group cli_groups[]; /* ends in a NULL name */

const cli_command *cli_command_find(const char *name);
const cli_group *cli_group_find(const char *name, size_t length);
/* Is `name` in group `group`? Then its verb, else NULL. */
const char *cli_command_verb(const cli_command *command, const char *group);

/* Read the command line: command, group, values, arguments. EF_BAD_INPUT with a hint in `hint`. */
ef_status cli_options_parse(cli *c, int argc, char **argv, char *hint, size_t hint_size,
                            ef_error *err);

/* The value of an option of the command (or a common one); NULL when it was not given. */
const char *cli_value(const cli *c, const char *name);
bool cli_has(const cli *c, const char *name);
/* A whole number from `min` to `max`; `out` keeps its value when the option was not given. */
ef_status cli_number(const cli *c, const char *name, int64_t min, int64_t max, int64_t *out,
                     ef_error *err);
ef_status cli_number_parse(const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out, ef_error *err);
/* A duration (500ms, 10s, 5m) in milliseconds; `out` keeps its value when it was not given. */
ef_status cli_duration(const cli *c, const char *name, int64_t *out, ef_error *err);

/* --- help, completion, manual page ----------------------------------------------------------- */

void cli_help_all(cli *c);
void cli_help_group(cli *c, const char *group);
void cli_help_command(cli *c, const cli_command *command);
/* "event append STREAM [OPTIONS]" */
void cli_usage_line(ef__buf *out, const cli_command *command);

/* --- settings and the journal (session.c) ---------------------------------------------------- */

bool cli_url_on_server(const char *url); /* and not in files of this machine */
ef_status cli_settings_load(cli *c, ef_error *err);
/* File, environment and flags as they are now, into a table of its own, which is the caller's to
 * close whatever comes of it. */
ef_status cli_settings_read(cli *c, ef__settings **out, ef_error *err);
/* Refuses settings that cannot hold together (settings_check.c). */
ef_status cli_settings_check(const ef__settings *settings, ef_error *err);
/* worker.lease_renew or worker.heartbeat_ttl as it takes effect. */
ef_str cli_lease_time_shown(const cli *c, const ef__setting_view *view);
/* From now on log from this level on: "info". */
void cli_log_level(cli *c, ef_str level);
/* As if --data had been given. */
ef_status cli_data_use(cli *c, const char *directory, ef_error *err);
/* The value as it takes effect, and the place it came from. */
/* NULL when it is empty. It lives as long as the settings, and ends in a NUL. */
const char *cli_setting_text(const cli *c, const char *key);
ef_str cli_setting_value(const cli *c, const ef__setting_view *view);
ef__setting_view cli_setting(const cli *c, const char *key);
ef_str cli_tenant(const cli *c);
bool cli_tenant_given(const cli *c);
ef_str cli_actor(const cli *c);
/* The file with the API tokens. */
ef_status cli_tokens_path(const cli *c, char out[PATH_MAX], ef_error *err);
ef_status cli_settings_table_open(ef__settings **out, ef_error *err);

/* Open c->journal by the settings; `extra` (may be NULL) gives create, read_only, accept_head. */
ef_status cli_journal_open(cli *c, const ef_journal_options *extra, ef_error *err);
/* What to run when it could not be opened, or NULL. */
const char *cli_journal_hint(const cli *c, ef_status status, char *room, size_t room_size);
/* Open, or say why not: 0, or the exit code. With a server this and the other needs open the client
 * instead, and front.h makes the calls. */
int cli_journal_need(cli *c, bool read_only);
ef_str cli_reason(const cli *c);
/* Keep note of what was done to the journal or a token, by whom and why, for `act ls`; the engine
 * keeps its own. Through a server it does nothing: the server notes what is done through it. */
ef_status cli_note(cli *c, const char *act, ef_str what, ef_error *err);

/* --- through a server (connect.c) ------------------------------------------------------------- */

/* Open c->client if the settings name a server: 0, or the exit code. */
int cli_connect(cli *c);

/* --- the engine (engine_session.c) ----------------------------------------------------------- */

/* Open c->engine on c->journal, which is open; `create` makes the view store. */
ef_status cli_engine_open(cli *c, bool create, bool read_only, ef_error *err);
/* What the settings say about work, and about retries of "apply", "cursor" or "publish". */
ef_work_options cli_work_options(const cli *c);
ef_retry_options cli_retry_options(const cli *c, const char *kind);
/* The data directory, if it is not there. */
ef_status cli_data_make(const cli *c, ef_error *err);
/* Open both, and make what is not there: the stores, and the data directory if one is in it. */
ef_status cli_stores_make(cli *c, bool *out_made, ef_error *err);
/* Write the stores that flags chose to the settings file of the data directory (remember.c). */
ef_status cli_choices_remember(cli *c, ef_error *err);
/* Open the journal and the engine, or say why not: 0, or the exit code. */
int cli_engine_need(cli *c, bool read_only);
/* What appending needs: the engine too in the modes that fold at once. 0, or the exit code. */
int cli_append_need(cli *c);
/* Append as the mode says; the journal was opened by cli_append_need. */
ef_status cli_append(cli *c, const ef_new_event *events, size_t count, ef_place *out_places,
                     ef_error *err);

/* --- files (file.c) -------------------------------------------------------------------------- */

/* All of a file, or of stdin when `path` is "-", up to the maximum of `out`. EF_NOT_FOUND,
 * EF_TOO_LARGE, EF_IO */
ef_status cli_file_read(const char *path, ef__buf *out, ef_error *err);
/* Text that has lines of its own and went through no escape yet: on stderr, line by line. */
void cli_lines_say(ef_str text);

/* --- modes (mode.c) -------------------------------------------------------------------------- */

/* What the mode rule looks at; a setting that was not set has `set` false. */
typedef struct cli_mode_flag {
    bool set;
    bool on;
} cli_mode_flag;

typedef struct cli_mode_input {
    const char *mode; /* "" when it was not set */
    cli_mode_flag outbox;
    cli_mode_flag worker;
    cli_mode_flag shadow;
    bool apply_wins; /* both workers on: the apply worker wins, as earlier systems did */
} cli_mode_input;

/* Which mode that gives. EF_BAD_INPUT: it cannot hold; the sentence says which and why. */
ef_status cli_mode_resolve(const cli_mode_input *input, cli_mode *out, ef_error *err);
const char *cli_mode_name(cli_mode mode);
/* Whether outbox.enabled, worker.enabled or shadow_worker.enabled holds in that mode. */
bool cli_mode_flag_on(cli_mode mode, const char *key);
ef_status cli_mode_from_settings(const ef__settings *settings, cli_mode *out, ef_error *err);

/* --- answers and talk (output.c) ------------------------------------------------------------- */

/* Write what is in c->out. False when nobody reads any more: end quietly. */
bool cli_flush(cli *c);
/* The same once enough has gathered. */
bool cli_flush_some(cli *c);
/* Has whoever read our answers gone away? For commands that wait. */
bool cli_reader_gone(cli *c);
/* Say what went wrong, in the form that -o asks for; returns the exit code. */
int cli_fail(const cli *c, const ef_error *err, const char *hint);
/* ef_fail(EF_BAD_INPUT) and cli_fail in one. */
int cli_usage(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Are messages lines of the log? With log.format=json the stderr of a service is JSON throughout.
 */
bool cli_logs_messages(const cli *c);
/* "1 event", "2 events": what comes after the noun. */
static inline const char *cli_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}
/* A line on stderr unless --quiet. */
void cli_say(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr, always. */
void cli_warn(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text for a terminal: control and bidi characters are escaped. */
void cli_escape(ef__buf *out, ef_str text);

/* A list that is printed as it is read: an array with -o json, a line each with -o ndjson. */
typedef struct cli_list {
    bool lines;
    size_t count;
} cli_list;

void cli_list_next(cli *c, cli_list *list);     /* before an item */
bool cli_list_item_end(cli *c, cli_list *list); /* behind it; as cli_flush */
void cli_list_end(cli *c, cli_list *list);

/* The event object, data and meta byte for byte; `one_line`: line breaks in them become spaces. */
void cli_json_event(cli *c, const ef_event *event, bool one_line);

enum cli_colour { CLI_PLAIN, CLI_BOLD, CLI_RED, CLI_YELLOW, CLI_GREEN };
/* The escape for a colour on stdout, or "" where colours do not belong. */
const char *cli_colour(const cli *c, enum cli_colour colour);

/* --- tables on a terminal (table.c) ---------------------------------------------------------- */

/* Rows gather until they are flushed, page by page; columns only grow wider. */
typedef struct cli_table {
    const char *const *heads;
    size_t columns;
    unsigned right; /* bit n: column n stands to the right */
    bool headed;
    size_t widths[CLI_COLUMNS_MAX];
    ef__buf cells; /* each with a NUL behind it */
    size_t cell_count;
} cli_table;

#define CLI_TABLE_INIT(heads_, columns_, right_)                                                   \
    {                                                                                              \
        (heads_), (columns_), (right_), false, {0}, EF__BUF_INIT(CLI_OUT_MAX), 0                   \
    }

void cli_table_text(cli_table *table, ef_str text);
void cli_table_int(cli_table *table, int64_t number);
void cli_table_time(cli_table *table, int64_t time_us);
bool cli_table_flush(cli *c, cli_table *table); /* as cli_flush */
void cli_table_release(cli_table *table);

size_t cli_terminal_width(int fd); /* 0 when it is no terminal and COLUMNS is not set */
size_t cli_text_width(ef_str text);
/* The longest prefix that takes at most `columns` columns. */
ef_str cli_text_cut(ef_str text, size_t columns);

/* --- events as a list (events.c) ---------------------------------------------------------------
 */

/* Events as they are read, in the form that -o asks for. */
typedef struct cli_events {
    cli_list list;
    cli_table table;
    bool with_tenant;
    bool with_stream;
} cli_events;

void cli_events_begin(cli_events *events, const cli *c, bool with_tenant, bool with_stream);
bool cli_events_print(cli *c, cli_events *events, const ef_batch *batch); /* as cli_flush */
void cli_events_end(cli *c, cli_events *events);

/* --- progress (progress.c) ------------------------------------------------------------------- */

typedef struct cli_progress {
    bool shown; /* stderr is a terminal and --quiet was not given */
    const char *label;
    const char *unit; /* of what is counted: "events" */
    bool bytes;       /* done and total are bytes */
    int64_t started_us;
    int64_t drawn_us;
} cli_progress;

void cli_progress_begin(cli_progress *p, const cli *c, const char *label, const char *unit,
                        bool bytes);
/* `total` 0 when it is not known. `count` is how many units were done. */
void cli_progress_update(cli_progress *p, int64_t done, int64_t total, int64_t count);
/* The same for the library, which calls it with `progress` as its context: false after a signal. */
bool cli_progress_step(void *progress, int64_t done, int64_t total);
void cli_progress_clear(cli_progress *p); /* wipe the line, for other talk; it is drawn again */
void cli_progress_end(cli_progress *p);
void cli_bytes_format(int64_t bytes, char out[32]);

/* --- signals (main.c) ------------------------------------------------------------------------ */

/* From here on SIGINT and SIGTERM only set a flag. */
void cli_stop_on_signals(void);
/* And so does SIGHUP, of a terminal that is closed; where it is ignored (nohup) it still is. */
void cli_stop_on_hangup(void);
bool cli_stopped(void);
/* The exit code of a command that was ended by one before its time: 128 and the number, as shells
 * have it. */
int cli_stopped_exit(void);

#endif
