/*
 * table.c - tables: aligned columns, with control characters escaped.
 *
 * Rows are collected until cli_table_flush, so that the columns of a page are aligned; a later page
 * can only widen them. The last column is cut to the terminal.
 */
#include "cli.h"
#include "../base/utf8.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define CELL_BYTES_MAX 1000 /* longer values are cut; -o json prints them in full */
#define LAST_COLUMN_MIN 10

/* Bytes of the first character, 0 at the end. An invalid UTF-8 byte counts as a character. */
static size_t next_character(ef_str text, uint32_t *out_point)
{
    if (text.len == 0)
        return 0;
    unsigned char lead = (unsigned char)text.ptr[0];
    size_t length = lead < 0x80   ? 1
                    : lead < 0xC2 ? 0
                    : lead < 0xE0 ? 2
                    : lead < 0xF0 ? 3
                    : lead < 0xF5 ? 4
                                  : 0;
    uint32_t point = length == 1   ? lead
                     : length == 2 ? lead & 0x1FU
                     : length == 3 ? lead & 0x0FU
                                   : lead & 0x07U;
    if (length == 0 || length > text.len) {
        *out_point = UINT32_MAX;
        return 1;
    }
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text.ptr[i] & 0xC0U) != 0x80) {
            *out_point = UINT32_MAX;
            return 1;
        }
        point = point << 6 | ((unsigned char)text.ptr[i] & 0x3FU);
    }
    *out_point = point;
    return length;
}

/* Control characters, and characters that change the text direction or are invisible. */
static bool must_escape(uint32_t p)
{
    return p < 0x20 || (p >= 0x7F && p < 0xA0) || p == 0x061C || (p >= 0x200B && p <= 0x200F) ||
           (p >= 0x2028 && p <= 0x202E) || (p >= 0x2060 && p <= 0x206F) || p == 0xFEFF;
}

void cli_escape(ef__buf *out, ef_str text)
{
    while (text.len > 0) {
        uint32_t point = 0;
        size_t length = next_character(text, &point);
        if (point == UINT32_MAX)
            ef__buf_printf(out, "\\x%02x", (unsigned char)text.ptr[0]);
        else if (point == '\n' || point == '\t')
            ef__buf_add_text(out, point == '\n' ? "\\n" : "\\t");
        else if (must_escape(point))
            ef__buf_printf(out, "\\u%04x", (unsigned)point);
        else
            ef__buf_add(out, text.ptr, length);
        text.ptr += length;
        text.len -= length;
    }
}

static size_t character_width(uint32_t point)
{
    int width = point == UINT32_MAX ? 1 : wcwidth((wchar_t)point);

    if (point < 0x80 && cli_is_mark((char)point))
        return 0;
    return width < 0 ? 1 : (size_t)width;
}

void cli_spaces(ef__buf *out, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        ef__buf_add_char(out, ' ');
}

size_t cli_text_width(ef_str text)
{
    size_t width = 0;

    while (text.len > 0) {
        uint32_t point = 0;
        size_t length = next_character(text, &point);
        width += character_width(point);
        text.ptr += length;
        text.len -= length;
    }
    return width;
}

ef_str cli_text_cut(ef_str text, size_t columns)
{
    ef_str rest = text;
    size_t width = 0;

    while (rest.len > 0) {
        uint32_t point = 0;
        size_t length = next_character(rest, &point);
        width += character_width(point);
        if (width > columns)
            break;
        rest.ptr += length;
        rest.len -= length;
    }
    text.len -= rest.len;
    return text;
}

size_t cli_terminal_width(int fd)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int64_t width = 0;

    if (columns && cli_number_parse("COLUMNS", columns, 1, 100000, &width, NULL) == EF_OK)
        return (size_t)width;
    if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return isatty(fd) ? 80 : 0;
}

void cli_table_add(cli_table *table, ef_str cell)
{
    size_t width = cli_text_width(cell),
           *widest = &table->widths[table->cell_count % table->columns];

    ef__buf_add_str(&table->cells, cell);
    if (!ef__buf_add_char(&table->cells, '\0'))
        return;
    *widest = width > *widest ? width : *widest;
    table->cell_count++;
}

void cli_table_printf(cli_table *table, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_table_add(table, ef_str_from(text));
}

void cli_table_text(cli_table *table, ef_str text)
{
    EF__AUTO(ef__buf) cell = EF__BUF_INIT(CLI_OUT_MAX);
    bool cut = text.len > CELL_BYTES_MAX;

    cli_escape(&cell, cut ? ef__utf8_cut(text, CELL_BYTES_MAX) : text);
    if (cut)
        ef__buf_add_text(&cell, "…");
    cli_table_add(table, ef__buf_str(&cell));
}

/* `room` is the rest of the terminal line; 0: nothing is cut. */
static void write_cell(cli *c, const cli_table *table, size_t column, ef_str text, size_t room)
{
    size_t width = cli_text_width(text);
    size_t gap = table->widths[column] > width ? table->widths[column] - width : 0;

    if (column > 0)
        ef__buf_add_text(&c->out, "  ");
    if (column + 1 == table->columns) {
        bool cut = room > 0 && width > room;
        if (table->right & 1U << column)
            cli_spaces(&c->out, gap);
        ef__buf_add_str(&c->out, cut ? cli_text_cut(text, room - 1) : text);
        ef__buf_add_text(&c->out, cut ? "…" : "");
    } else {
        cli_spaces(&c->out, table->right & 1U << column ? gap : 0);
        ef__buf_add_str(&c->out, text);
        cli_spaces(&c->out, table->right & 1U << column ? 0 : gap);
    }
}

static size_t last_column_room(const cli_table *table)
{
    size_t line = cli_terminal_width(STDOUT_FILENO), used = 0;

    if (line == 0)
        return 0;
    for (size_t i = 0; i + 1 < table->columns; i++)
        used += table->widths[i] + 2;
    return line >= used + LAST_COLUMN_MIN ? line - used : LAST_COLUMN_MIN;
}

static void write_heads(cli *c, cli_table *table, size_t room)
{
    ef__buf_add_text(&c->out, cli_colour(c, CLI_BOLD));
    for (size_t i = 0; i < table->columns; i++)
        write_cell(c, table, i, ef_str_from(table->heads[i]), room);
    ef__buf_add_text(&c->out, cli_colour(c, CLI_PLAIN));
    ef__buf_add_char(&c->out, '\n');
    table->headed = true;
}

bool cli_table_flush(cli *c, cli_table *table)
{
    const char *cell = table->cells.ptr;

    for (size_t i = 0; i < table->columns; i++) {
        size_t width = strlen(table->heads[i]);
        if (width > table->widths[i])
            table->widths[i] = width;
    }
    size_t room = last_column_room(table);
    if (!table->headed)
        write_heads(c, table, room);
    for (size_t i = 0; i < table->cell_count; i++) {
        ef_str text = ef_str_from(cell);
        write_cell(c, table, i % table->columns, text, room);
        if ((i + 1) % table->columns == 0)
            ef__buf_add_char(&c->out, '\n');
        cell += text.len + 1;
    }
    ef__buf_reset(&table->cells);
    table->cell_count = 0;
    return cli_flush(c);
}

void cli_table_release(cli_table *table)
{
    ef__buf_release(&table->cells);
}
