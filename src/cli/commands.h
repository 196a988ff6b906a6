/*
 * commands.h - all commands, each defined in the file of its name.
 */
#ifndef EF_CLI_COMMANDS_H
#define EF_CLI_COMMANDS_H

#include "cli.h"

extern const cli_command cli_cmd_init;
extern const cli_command cli_cmd_event_append;
extern const cli_command cli_cmd_event_import;
extern const cli_command cli_cmd_event_ls;
extern const cli_command cli_cmd_event_log;
extern const cli_command cli_cmd_event_show;
extern const cli_command cli_cmd_journal_adopt;
extern const cli_command cli_cmd_journal_copy;
extern const cli_command cli_cmd_backup;
extern const cli_command cli_cmd_backup_verify;
extern const cli_command cli_cmd_restore;
extern const cli_command cli_cmd_type_ls;
extern const cli_command cli_cmd_type_set;
extern const cli_command cli_cmd_fold_check;
extern const cli_command cli_cmd_fold_explain;
extern const cli_command cli_cmd_fold_test;
extern const cli_command cli_cmd_projection_deploy;
extern const cli_command cli_cmd_projection_ls;
extern const cli_command cli_cmd_projection_show;
extern const cli_command cli_cmd_projection_failures;
extern const cli_command cli_cmd_projection_try;
extern const cli_command cli_cmd_projection_pause;
extern const cli_command cli_cmd_projection_resume;
extern const cli_command cli_cmd_projection_wait;
extern const cli_command cli_cmd_projection_rebuild;
extern const cli_command cli_cmd_projection_verify;
extern const cli_command cli_cmd_projection_diff;
extern const cli_command cli_cmd_projection_switch;
extern const cli_command cli_cmd_projection_rollback;
extern const cli_command cli_cmd_projection_retire;
extern const cli_command cli_cmd_view_get;
extern const cli_command cli_cmd_view_query;
extern const cli_command cli_cmd_view_export;
extern const cli_command cli_cmd_view_explain;
extern const cli_command cli_cmd_view_at;
extern const cli_command cli_cmd_view_seed;
extern const cli_command cli_cmd_serve;
extern const cli_command cli_cmd_work;
extern const cli_command cli_cmd_outbox_report;
extern const cli_command cli_cmd_outbox_requeue;
extern const cli_command cli_cmd_outbox_requeue_dead;
extern const cli_command cli_cmd_outbox_skip;
extern const cli_command cli_cmd_outbox_skip_dead;
extern const cli_command cli_cmd_outbox_replay;
extern const cli_command cli_cmd_publisher_add;
extern const cli_command cli_cmd_publisher_ls;
extern const cli_command cli_cmd_publisher_show;
extern const cli_command cli_cmd_publisher_pause;
extern const cli_command cli_cmd_publisher_resume;
extern const cli_command cli_cmd_publisher_rm;
extern const cli_command cli_cmd_audit_ls;
extern const cli_command cli_cmd_gaps_detect;
extern const cli_command cli_cmd_gaps_repair;
extern const cli_command cli_cmd_replay;
extern const cli_command cli_cmd_run_ls;
extern const cli_command cli_cmd_run_show;
extern const cli_command cli_cmd_run_watch;
extern const cli_command cli_cmd_run_cancel;
extern const cli_command cli_cmd_lease_ls;
extern const cli_command cli_cmd_worker_ls;
extern const cli_command cli_cmd_partition_ls;
extern const cli_command cli_cmd_partition_sync;
extern const cli_command cli_cmd_token_create;
extern const cli_command cli_cmd_token_ls;
extern const cli_command cli_cmd_token_revoke;
extern const cli_command cli_cmd_status;
extern const cli_command cli_cmd_top;
extern const cli_command cli_cmd_doctor;
extern const cli_command cli_cmd_config_show;
extern const cli_command cli_cmd_config_check;
extern const cli_command cli_cmd_completion;
extern const cli_command cli_cmd_complete; /* hidden: called by the completion scripts */
extern const cli_command cli_cmd_help;
extern const cli_command cli_cmd_version;
extern const cli_command cli_cmd_man_page; /* hidden: the manual page */

#endif
