/*
 * program.h - reading and checking programs; shared by the fold commands and `projection deploy`.
 */
#ifndef EF_CLI_PROGRAM_H
#define EF_CLI_PROGRAM_H

#include "cli.h"

/* A program's largest text and what reading it needs besides; a larger one is refused by the check
 * with words of its own. */
#define CLI_PROGRAM_BYTES (4 * 1024 * 1024)

/* Read and check one program, for people: warnings and mistakes go to stderr. `*out_shown` tells
 * EF_BAD_INPUT of a mistake, which was shown already, from other failures, which were not. */
ef_status cli_program_check(const char *path, ef__buf *text, bool *out_shown, ef_error *err);

#endif
