/*
 * commands.h - all commands. A file defines a command, or a few of the same kind.
 */
#ifndef EF_CLI_COMMANDS_H
#define EF_CLI_COMMANDS_H

#include "cli.h"

extern const cli_command cli_cmd_init, cli_cmd_event_append, cli_cmd_event_import, cli_cmd_event_ls,
    cli_cmd_event_log, cli_cmd_event_show, cli_cmd_journal_copy, cli_cmd_journal_adopt,
    cli_cmd_backup, cli_cmd_backup_verify, cli_cmd_restore, cli_cmd_type_ls, cli_cmd_type_set,
    cli_cmd_fold_check, cli_cmd_fold_explain, cli_cmd_fold_test, cli_cmd_projection_deploy,
    cli_cmd_projection_ls, cli_cmd_projection_show, cli_cmd_projection_failures,
    cli_cmd_projection_try, cli_cmd_projection_pause, cli_cmd_projection_resume,
    cli_cmd_projection_wait, cli_cmd_projection_rebuild, cli_cmd_projection_verify,
    cli_cmd_projection_diff, cli_cmd_projection_switch, cli_cmd_projection_rollback,
    cli_cmd_projection_retire, cli_cmd_view_get, cli_cmd_view_query, cli_cmd_view_export,
    cli_cmd_view_explain, cli_cmd_view_at, cli_cmd_view_seed, cli_cmd_serve, cli_cmd_work,
    cli_cmd_outbox_report, cli_cmd_outbox_requeue, cli_cmd_outbox_requeue_dead, cli_cmd_outbox_skip,
    cli_cmd_outbox_skip_dead, cli_cmd_outbox_replay, cli_cmd_publisher_add, cli_cmd_publisher_ls,
    cli_cmd_publisher_show, cli_cmd_publisher_pause, cli_cmd_publisher_resume, cli_cmd_publisher_rm,
    cli_cmd_audit_ls, cli_cmd_gaps_detect, cli_cmd_gaps_repair, cli_cmd_replay, cli_cmd_run_ls,
    cli_cmd_run_show, cli_cmd_run_watch, cli_cmd_run_cancel, cli_cmd_lease_ls, cli_cmd_worker_ls,
    cli_cmd_partition_ls, cli_cmd_partition_sync, cli_cmd_token_create, cli_cmd_token_ls,
    cli_cmd_token_revoke, cli_cmd_status, cli_cmd_top, cli_cmd_doctor, cli_cmd_config_show,
    cli_cmd_config_check, cli_cmd_completion, cli_cmd_help, cli_cmd_version, cli_cmd_complete,
    cli_cmd_man_page;

#endif
