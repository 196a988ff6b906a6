/*
 * view_table.c - views as a table: view_id, then one column per field of the data.
 *
 * The columns are known after all views of the page were read. Fields with objects or arrays come
 * last, because they are long. On a terminal, cells are cut and columns omitted to fit the width;
 * otherwise only the number of columns is limited. A message on stderr reports omitted columns.
 */
#include "cli.h"
#include "../base/limits.h"
#include "../base/utf8.h"

#include <unistd.h>

#define ARENA_BYTES (512 * 1024 * 1024) /* parsed views of a page, which may be large */
#define CELL_COLUMNS 32 /* maximum width of a field on a terminal, so that several fit */
#define LAST_COLUMNS 12 /* minimum width of the last column */

typedef struct view_table {
    ef__arena arena;
    const ef_view *items;
    ef__json **trees; /* the data of items */
    size_t count;
    const char *heads[CLI_COLUMNS_MAX];
    ef_str fields[CLI_COLUMNS_MAX]; /* [0] is view_id */
    size_t widths[CLI_COLUMNS_MAX];
    size_t columns;
    size_t left_out;
    unsigned right; /* columns of numbers */
    bool cut;       /* to the terminal */
} view_table;

static ef_str cell_of(const view_table *t, size_t row, size_t column)
{
    if (column == 0)
        return t->items[row].view_id;
    for (const ef__json *child = t->trees[row]->first; child; child = child->next) {
        static const char *const words[] = {"null", "false", "true"};
        if (!ef_str_equal(child->key, t->fields[column]))
            continue;
        return child->kind <= EF__JSON_TRUE ? ef_str_from(words[child->kind]) : child->text;
    }
    return EF_STR("");
}

static bool has_field(const view_table *t, ef_str key)
{
    for (size_t i = 1; i < t->columns; i++)
        if (ef_str_equal(t->fields[i], key))
            return true;
    return false;
}

/* The head of a column is cut; the name of a field may be of any length. */
static ef_status add_field(view_table *t, ef_str key, ef_error *err)
{
    EF__AUTO(ef__buf) head = EF__BUF_INIT(64 * 1024);

    if (t->columns == CLI_COLUMNS_MAX) {
        t->left_out++;
        return EF_OK;
    }
    cli_escape(&head, ef__utf8_cut(key, 64));
    ef_str copy = ef__arena_copy(&t->arena, ef__buf_str(&head));
    if (!copy.ptr)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for the table");
    t->heads[t->columns] = copy.ptr;
    t->fields[t->columns++] = key;
    return EF_OK;
}

static ef_status read_trees(view_table *t, ef_error *err)
{
    ef_status st = EF_OK;

    t->trees = ef__arena_zalloc(&t->arena, t->count, sizeof(*t->trees));
    if (!t->trees)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for %zu views", t->count);
    for (size_t i = 0; st == EF_OK && i < t->count; i++) {
        st = ef__json_parse(t->items[i].data, CLI_OUT_MAX, &t->arena, &t->trees[i], err);
        for (const ef__json *f = st == EF_OK ? t->trees[i]->first : NULL; f && st == EF_OK;
             f = f->next)
            if (t->trees[i]->kind == EF__JSON_OBJECT && !has_field(t, f->key))
                st = add_field(t, f->key, err);
    }
    return st;
}

static bool is_container(const view_table *t, size_t column)
{
    for (size_t row = 0; row < t->count; row++) {
        ef_str text = cell_of(t, row, column);
        if (text.len > 0 && (text.ptr[0] == '{' || text.ptr[0] == '['))
            return true;
    }
    return false;
}

/* Moves objects and arrays after the other columns; the order is kept otherwise. */
static void put_containers_last(view_table *t)
{
    size_t plain = 1;

    for (size_t i = 1; i < t->columns; i++) {
        const char *head = t->heads[i];
        ef_str field = t->fields[i];
        if (is_container(t, i))
            continue;
        memmove(&t->heads[plain + 1], &t->heads[plain], (i - plain) * sizeof(t->heads[0]));
        memmove(&t->fields[plain + 1], &t->fields[plain], (i - plain) * sizeof(t->fields[0]));
        t->heads[plain] = head;
        t->fields[plain++] = field;
    }
}

/* Computes the width of each column and whether it holds only numbers. */
static void measure_columns(view_table *t)
{
    for (size_t column = 0; column < t->columns; column++) {
        bool numbers = column > 0;
        t->widths[column] = cli_text_width(ef_str_from(t->heads[column]));
        for (size_t row = 0; row < t->count; row++) {
            ef_str text = cell_of(t, row, column);
            size_t width = cli_text_width(text);
            width = t->cut && column > 0 && width > CELL_COLUMNS ? CELL_COLUMNS : width;
            t->widths[column] = width > t->widths[column] ? width : t->widths[column];
            numbers = numbers && (text.len == 0 || text.ptr[0] == '-' ||
                                  (text.ptr[0] >= '0' && text.ptr[0] <= '9'));
        }
        t->right |= numbers ? 1U << column : 0;
    }
}

/* Omits columns beyond the width of the terminal. */
static void fit_columns(view_table *t, size_t line)
{
    size_t used = t->widths[0], keep = 1;

    while (keep < t->columns && used + 2 + t->widths[keep] <= line)
        used += 2 + t->widths[keep++];
    if (keep < t->columns && (keep == 1 || used + 2 + LAST_COLUMNS <= line))
        keep++; /* the table cuts the last column itself */
    t->left_out += t->columns - keep;
    t->columns = keep;
}

static void print_table(cli *c, const view_table *t)
{
    EF__AUTO(cli_table) table = CLI_TABLE_INIT(t->heads, t->columns, t->right);

    for (size_t row = 0; row < t->count; row++)
        for (size_t column = 0; column < t->columns; column++) {
            ef_str text = cell_of(t, row, column);
            bool cut = t->cut && column > 0 && column + 1 < t->columns &&
                       cli_text_width(text) > CELL_COLUMNS;
            EF__AUTO(ef__buf) shown = EF__BUF_INIT(64 * 1024);
            if (cut) {
                ef__buf_add_str(&shown, cli_text_cut(text, CELL_COLUMNS - 1));
                ef__buf_add_text(&shown, "…");
                text = ef__buf_str(&shown);
            }
            cli_table_text(&table, text);
        }
    (void)cli_table_flush(c, &table);
}

ef_status cli_table_views(cli *c, const ef_view *items, size_t count, ef_error *err)
{
    size_t line = cli_terminal_width(STDOUT_FILENO);
    view_table t = {.arena = EF__ARENA_INIT(ARENA_BYTES),
                    .items = items,
                    .count = count,
                    .heads = {"view_id"},
                    .columns = 1,
                    .cut = line > 0};
    ef_status st = read_trees(&t, err);

    if (st == EF_OK) {
        put_containers_last(&t);
        measure_columns(&t);
        if (line > 0)
            fit_columns(&t, line);
        print_table(c, &t);
    }
    if (st == EF_OK && t.left_out > 0)
        cli_say(c, "%zu more fields: use -o json, or select some with --fields F,G", t.left_out);
    ef__arena_release(&t.arena);
    return st;
}
