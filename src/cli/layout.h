/*
 * layout.h - sections of text in columns, cut to a size. The module does not interpret their
 * content.
 *
 * A section is a list of lines, which may contain colours.
 */
#pragma once

#include "cli.h"

#define CLI_LAYOUT_COLUMNS_MAX 3
#define CLI_LAYOUT_SECTIONS_MAX 8

typedef struct cli_section {
    ef__buf lines; /* each terminated by a NUL */
    size_t count;
} cli_section;

#define CLI_SECTION_INIT                                                                           \
    {                                                                                              \
        EF__BUF_INIT(CLI_OUT_MAX), 0                                                               \
    }

void cli_section_release(cli_section *section);
EF__AUTO_TYPE(cli_section, cli_section_release)
void cli_section_line(cli_section *section, ef_str line);

/* Items in a row, with a line break where the next one does not fit; `label` precedes the first
 * line. Begin, add, end. */
typedef struct cli_flow {
    cli_section *section;
    size_t width;
    size_t used; /* columns of the current line that are used */
    ef__buf line;
} cli_flow;

#define CLI_FLOW_INDENT 12 /* column of the first item */

void cli_flow_begin(cli_flow *flow, cli_section *section, size_t width, const char *label);
void cli_flow_add(cli_flow *flow, ef_str item);
void cli_flow_printf(cli_flow *flow, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_flow_break(cli_flow *flow); /* starts a new line */
void cli_flow_end(cli_flow *flow);

/* Writes the rows of a table, whose cells may contain colours, below its heads. The first column
 * shrinks if they do not fit; the last is cut. Releases the table. */
void cli_table_layout(cli_table *table, cli_section *section, size_t width);

/* Sections side by side in `columns` columns: each goes to the shortest column. */
typedef struct cli_band {
    const cli_section *sections;
    size_t count;
    size_t columns; /* 1 to 3 */
    size_t width;
    bool colour;
    bool lists; /* a list cut to its heads gives its lines to the lists before it */
} cli_band;

/* Width of a column. */
size_t cli_band_column(size_t width, size_t columns);
/* Number of lines if nothing is cut. */
size_t cli_band_height(const cli_band *band);
/* Writes at most `height` lines, each ended by a newline and at most as wide as the band. The
 * longest sections are cut first and show how many lines are missing. Returns the number of lines.
 */
size_t cli_band_write(const cli_band *band, size_t height, ef__buf *out);
/* Writes one line, cut to `width`. */
void cli_line_write(ef__buf *out, ef_str line, size_t width, bool colour);
