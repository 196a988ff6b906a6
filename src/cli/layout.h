/*
 * layout.h - sections of text side by side in columns, cut to a size. It knows nothing of what is
 * in them.
 *
 * A section is a list of lines. Colours are marks in them: single control bytes, which take no room
 * and cannot come from elsewhere, for whatever is not ours goes through cli_escape.
 */
#ifndef EF_CLI_LAYOUT_H
#define EF_CLI_LAYOUT_H

#include "cli.h"

#define CLI_MARK_PLAIN "\001"
#define CLI_MARK_BOLD "\002"
#define CLI_MARK_RED "\003"
#define CLI_MARK_YELLOW "\004"
#define CLI_MARK_GREEN "\005"

#define CLI_LAYOUT_COLUMNS_MAX 3
#define CLI_LAYOUT_SECTIONS_MAX 8
#define CLI_GRID_COLUMNS_MAX 8

typedef struct cli_section {
    ef__buf lines; /* each with a NUL behind it */
    size_t count;
} cli_section;

#define CLI_SECTION_INIT                                                                           \
    {                                                                                              \
        EF__BUF_INIT(CLI_OUT_MAX), 0                                                               \
    }

void cli_section_release(cli_section *section);
void cli_section_line(cli_section *section, ef_str line);

/* Items one behind the other, with a new line where the next does not fit; `label` stands before
 * the first line, as in `status`. Begin, add, end. */
typedef struct cli_flow {
    cli_section *section;
    size_t width;
    size_t used; /* columns of the line in hand */
    ef__buf line;
} cli_flow;

#define CLI_FLOW_INDENT 12 /* where the items begin */

void cli_flow_begin(cli_flow *flow, cli_section *section, size_t width, const char *label);
void cli_flow_add(cli_flow *flow, ef_str item);
void cli_flow_printf(cli_flow *flow, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_flow_break(cli_flow *flow); /* the next item begins a line */
void cli_flow_end(cli_flow *flow);

/* Rows under heads. The first column gives way when all do not fit; the last is cut. */
typedef struct cli_grid {
    const char *const *heads;
    size_t columns;
    unsigned right; /* bit n: column n stands to the right */
    size_t widths[CLI_GRID_COLUMNS_MAX];
    ef__buf cells; /* each with a NUL behind it */
    size_t cell_count;
} cli_grid;

#define CLI_GRID_INIT(heads_, columns_, right_)                                                    \
    {                                                                                              \
        (heads_), (columns_), (right_), {0}, EF__BUF_INIT(CLI_OUT_MAX), 0                          \
    }

void cli_grid_add(cli_grid *grid,
                  ef_str cell); /* marks are fine, anything else is escaped by now */
void cli_grid_printf(cli_grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put the rows into `section`, and release the grid. */
void cli_grid_end(cli_grid *grid, cli_section *section, size_t width);

/* Sections that share the width in so many columns: each goes to the shortest one. */
typedef struct cli_band {
    const cli_section *sections;
    size_t count;
    size_t columns; /* 1 to 3 */
    size_t width;
    bool colour;
    bool lists; /* a list that would show its heads only gives its lines to those before it */
} cli_band;

/* How wide a column of it is. */
size_t cli_band_column(size_t width, size_t columns);
/* Lines that it takes when nothing is cut. */
size_t cli_band_height(const cli_band *band);
/* Write it in at most `height` lines, each ended by a newline, none wider than the band. The
 * longest sections are cut first, and say how much is missing. Returns how many lines it took. */
size_t cli_band_write(const cli_band *band, size_t height, ef__buf *out);
/* One line, cut to `width`. */
void cli_line_write(ef__buf *out, ef_str line, size_t width, bool colour);

#endif
