/*
 * program.h - reading and checking programs; shared by the fold commands and `projection deploy`.
 */
#ifndef EF_CLI_PROGRAM_H
#define EF_CLI_PROGRAM_H

#include "cli.h"

/* Maximum size of a program plus the read buffer; the check itself refuses a larger program with
 * its own message. */
#define CLI_PROGRAM_BYTES (4 * 1024 * 1024)

/* Reads and checks one program; warnings and errors go to stderr as text. `*out_shown` is set if
 * EF_BAD_INPUT was reported there already. */
ef_status cli_program_check(const char *path, ef__buf *text, bool *out_shown, ef_error *err);

#endif
