/*
 * layout.c - see layout.h.
 */
#include "layout.h"

#include <stdarg.h>

#define GAP 2              /* gap between columns, items and cells */
#define FIRST_COLUMN_MIN 6 /* of a table */

/* --- colours ---------------------------------------------------------------------------------- */

static void write_mark(ef__buf *out, char mark)
{
    static const char *const codes[] = {"0", "1", "31", "33", "32"};

    ef__buf_printf(out, "\033[%sm", codes[mark - CLI_MARK_PLAIN[0]]);
}

/* What write_cut does with the colour codes of a line: copies them, replaces them by escape
 * sequences, or removes them. */
typedef enum mark_use { MARKS_KEPT, MARKS_COLOUR, MARKS_DROPPED } mark_use;

static size_t write_cut(ef__buf *out, ef_str line, size_t width, mark_use use)
{
    bool cut = cli_text_width(line) > width, marked = false;
    ef_str shown = cut ? cli_text_cut(line, width > 0 ? width - 1 : 0) : line;

    if (width == 0)
        return 0;
    for (size_t i = 0; i < shown.len; i++) {
        char c = shown.ptr[i];
        marked = cli_is_mark(c) ? c != CLI_MARK_PLAIN[0] : marked;
        if (!cli_is_mark(c) || use == MARKS_KEPT)
            ef__buf_add_char(out, c);
        else if (use == MARKS_COLOUR)
            write_mark(out, c);
    }
    ef__buf_add_text(out, cut ? "…" : "");
    if (marked && use == MARKS_COLOUR)
        write_mark(out, CLI_MARK_PLAIN[0]);
    if (marked && use == MARKS_KEPT)
        ef__buf_add_text(out, CLI_MARK_PLAIN);
    return cli_text_width(shown) + (cut ? 1 : 0);
}

void cli_line_write(ef__buf *out, ef_str line, size_t width, bool colour)
{
    (void)write_cut(out, line, width, colour ? MARKS_COLOUR : MARKS_DROPPED);
}

/* --- sections and flows ----------------------------------------------------------------------- */

void cli_section_line(cli_section *section, ef_str line)
{
    ef__buf_add_str(&section->lines, line);
    if (ef__buf_add_char(&section->lines, '\0'))
        section->count++;
}

void cli_section_release(cli_section *section)
{
    ef__buf_release(&section->lines);
    section->count = 0;
}

void cli_flow_begin(cli_flow *flow, cli_section *section, size_t width, const char *label)
{
    *flow = (cli_flow){.section = section, .width = width, .line = EF__BUF_INIT(CLI_OUT_MAX)};
    ef__buf_printf(&flow->line, CLI_MARK_BOLD "%-*s" CLI_MARK_PLAIN, CLI_FLOW_INDENT, label);
    flow->used = CLI_FLOW_INDENT;
}

void cli_flow_break(cli_flow *flow)
{
    if (flow->used <= CLI_FLOW_INDENT)
        return;
    cli_section_line(flow->section, ef__buf_str(&flow->line));
    ef__buf_reset(&flow->line);
    cli_spaces(&flow->line, CLI_FLOW_INDENT);
    flow->used = CLI_FLOW_INDENT;
}

void cli_flow_add(cli_flow *flow, ef_str item)
{
    size_t width = cli_text_width(item);

    if (flow->used > CLI_FLOW_INDENT && flow->used + GAP + width > flow->width)
        cli_flow_break(flow);
    if (flow->used > CLI_FLOW_INDENT) {
        cli_spaces(&flow->line, GAP);
        flow->used += GAP;
    }
    ef__buf_add_str(&flow->line, item);
    flow->used += width;
}

void cli_flow_printf(cli_flow *flow, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_flow_add(flow, ef_str_from(text));
}

void cli_flow_end(cli_flow *flow)
{
    cli_flow_break(flow);
    ef__buf_release(&flow->line);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void add_cell(ef__buf *line, const cli_table *table, size_t column, ef_str cell)
{
    size_t width = cli_text_width(cell), room = table->widths[column];
    size_t gap = room > width ? room - width : 0;

    cli_spaces(line, column > 0 && !(cell.len == 0 && column + 1 == table->columns) ? GAP : 0);
    cli_spaces(line, table->right & 1U << column ? gap : 0);
    (void)write_cut(line, cell, room, MARKS_KEPT);
    cli_spaces(line, table->right & 1U << column || column + 1 == table->columns ? 0 : gap);
}

/* The first column gets the width that is left: at least its minimum, at most what it needs. */
static void fit_first_column(cli_table *table, size_t width)
{
    size_t others = 0;

    for (size_t i = 0; i < table->columns; i++) {
        size_t head = cli_text_width(ef_str_from(table->heads[i]));
        table->widths[i] = head > table->widths[i] ? head : table->widths[i];
        others += i > 0 ? table->widths[i] + GAP : 0;
    }
    size_t room = width > others + FIRST_COLUMN_MIN ? width - others : FIRST_COLUMN_MIN;
    table->widths[0] = table->widths[0] > room ? room : table->widths[0];
}

void cli_table_layout(cli_table *table, cli_section *section, size_t width)
{
    EF__AUTO(ef__buf) line = EF__BUF_INIT(CLI_OUT_MAX);
    const char *cell = table->cells.ptr;

    fit_first_column(table, width);
    ef__buf_add_text(&line, CLI_MARK_BOLD);
    for (size_t i = 0; i < table->columns; i++)
        add_cell(&line, table, i, ef_str_from(table->heads[i]));
    ef__buf_add_text(&line, CLI_MARK_PLAIN);
    cli_section_line(section, ef__buf_str(&line));
    ef__buf_reset(&line);
    for (size_t i = 0; i < table->cell_count; i++) {
        ef_str text = ef_str_from(cell);
        add_cell(&line, table, i % table->columns, text);
        cell += text.len + 1;
        if ((i + 1) % table->columns != 0)
            continue;
        cli_section_line(section, ef__buf_str(&line));
        ef__buf_reset(&line);
    }
    cli_table_release(table);
}

/* --- bands ------------------------------------------------------------------------------------ */

typedef struct column {
    const cli_section *sections[CLI_LAYOUT_SECTIONS_MAX];
    size_t shown[CLI_LAYOUT_SECTIONS_MAX]; /* lines of each */
    size_t count;
    size_t height; /* sum of shown */
} column;

static void assign_columns(const cli_band *band, column columns[CLI_LAYOUT_COLUMNS_MAX])
{
    memset(columns, 0, CLI_LAYOUT_COLUMNS_MAX * sizeof *columns);
    for (size_t i = 0; i < band->count; i++) {
        column *shortest = &columns[0];
        for (size_t k = 1; k < band->columns; k++)
            if (columns[k].height < shortest->height)
                shortest = &columns[k];
        if (band->sections[i].count == 0)
            continue;
        shortest->sections[shortest->count] = &band->sections[i];
        shortest->shown[shortest->count++] = band->sections[i].count;
        shortest->height += band->sections[i].count;
    }
}

/* Removes lines of the longest section, last ones first, until all fits or each has one. */
static void shrink_column(column *c, size_t height)
{
    while (c->height > height) {
        size_t most = 0;
        for (size_t i = 1; i < c->count; i++)
            if (c->shown[i] >= c->shown[most])
                most = i;
        if (c->shown[most] <= 1)
            break;
        c->shown[most]--;
        c->height--;
    }
}

static bool is_cut(const column *c, size_t i)
{
    return c->shown[i] > 0 && c->shown[i] < c->sections[i]->count;
}

/* Headings without rows are useless: starting with the last such list, their lines are given to the
 * first lists that were cut. */
static void yield_heads(column *c)
{
    for (size_t last = c->count; last-- > 1;) {
        size_t spare = is_cut(c, last) && c->shown[last] <= 2 ? c->shown[last] : 0;
        for (size_t i = 0; i < last && spare > 0; i++)
            while (spare > 0 && is_cut(c, i)) {
                c->shown[last]--;
                c->shown[i]++;
                spare--;
            }
        if (c->shown[last] == 1 && c->sections[last]->count > 1) {
            c->shown[last] = 0;
            c->height--;
        }
    }
}

static void join_sections(const column *c, size_t height, ef__buf *lines)
{
    bool apart = c->height + c->count <= height + 1; /* one empty line between sections */

    for (size_t i = 0; i < c->count; i++) {
        const cli_section *s = c->sections[i];
        const char *line = s->lines.ptr;
        if (i > 0 && apart && c->shown[i] > 0)
            ef__buf_add_char(lines, '\0');
        for (size_t k = 0; k < c->shown[i]; k++) {
            if (k > 0 && k + 1 == c->shown[i] && k + 1 < s->count)
                ef__buf_printf(lines, "… %zu more", s->count - k);
            else
                ef__buf_add_text(lines, line);
            ef__buf_add_char(lines, '\0');
            line += strlen(line) + 1;
        }
    }
}

size_t cli_band_column(size_t width, size_t columns)
{
    size_t gaps = GAP * (columns - 1);

    return width > gaps + columns ? (width - gaps) / columns : 1;
}

size_t cli_band_height(const cli_band *band)
{
    column columns[CLI_LAYOUT_COLUMNS_MAX];
    size_t height = 0;

    assign_columns(band, columns);
    for (size_t k = 0; k < band->columns; k++)
        height = columns[k].height > height ? columns[k].height : height;
    return height;
}

/* Writes one line across all columns; false after the last. */
static bool write_row(const cli_band *band, const char **at, const char *const *end, ef__buf *out)
{
    size_t room = cli_band_column(band->width, band->columns), missing = 0;
    bool any = false;

    for (size_t k = 0; k < band->columns; k++)
        any = any || at[k] < end[k];
    for (size_t k = 0; any && k < band->columns; k++) {
        ef_str line = at[k] < end[k] ? ef_str_from(at[k]) : EF_STR("");
        if (line.len > 0) {
            cli_spaces(out, missing);
            missing = 0;
        }
        missing +=
            GAP + room - write_cut(out, line, room, band->colour ? MARKS_COLOUR : MARKS_DROPPED);
        at[k] += at[k] < end[k] ? line.len + 1 : 0;
    }
    return any && ef__buf_add_char(out, '\n');
}

size_t cli_band_write(const cli_band *band, size_t height, ef__buf *out)
{
    column columns[CLI_LAYOUT_COLUMNS_MAX];
    ef__buf lines[CLI_LAYOUT_COLUMNS_MAX];
    const char *at[CLI_LAYOUT_COLUMNS_MAX], *end[CLI_LAYOUT_COLUMNS_MAX];
    size_t rows = 0;

    assign_columns(band, columns);
    for (size_t k = 0; k < band->columns; k++) {
        lines[k] = (ef__buf)EF__BUF_INIT(CLI_OUT_MAX);
        shrink_column(&columns[k], height);
        if (band->lists)
            yield_heads(&columns[k]);
        join_sections(&columns[k], height, &lines[k]);
        at[k] = lines[k].ptr ? lines[k].ptr : "";
        end[k] = at[k] + lines[k].len;
    }
    while (rows < height && write_row(band, at, end, out))
        rows++;
    for (size_t k = 0; k < band->columns; k++)
        ef__buf_release(&lines[k]);
    return rows;
}
