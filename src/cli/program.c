/*
 * program.c - reading and checking programs.
 */
#include "program.h"

ef_status cli_program_check(const char *path, ef__buf *text, bool *out_shown, ef_error *err)
{
    ef_text report = {0};
    ef_status st = cli_file_read(path, text, err);

    *out_shown = false;
    if (st != EF_OK)
        return st;
    st = ef_program_check(path, ef__buf_str(text), EF_TEXT_PLAIN, &report, err);
    if (report.len > 0) {
        cli_lines_say((ef_str){report.ptr, report.len});
        *out_shown = st == EF_BAD_INPUT;
    }
    ef_text_release(&report);
    return st;
}
