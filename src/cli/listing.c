/*
 * listing.c - objects by their shape, as text: in a table, or one field per line.
 *
 * A column names a field of the shape, so that a table and the JSON of a list have the same values.
 */
#include "cli.h"

#include <everfold/worker.h>

static const ef__field *field_in(const ef__shape *shape, const char *key)
{
    for (size_t i = 0; shape && i < shape->count; i++)
        if (strcmp(shape->fields[i].key, key) == 0)
            return &shape->fields[i];
    return NULL;
}

static const ef__field *field_of(const cli_listing *listing, const cli_column *column)
{
    const ef__field *field = column->key ? field_in(listing->shape, column->key) : NULL;

    return field || !column->key ? field : field_in(listing->more, column->key);
}

/* "9.8 s", "expired", or nothing for a lease without a holder. The store decides whether a lease
 * has expired: the local clock never shows a live one as expired. */
static void add_ttl(ef__buf *out, int64_t until_us, bool live)
{
    int64_t left = (until_us - cli_wall_us()) / 1000;

    left = left > 0 ? left : 1;
    if (live)
        ef__buf_printf(out, "%" PRId64 ".%" PRId64 " s", left / 1000, left % 1000 / 100);
    else if (until_us)
        ef__buf_add_text(out, "expired");
}

static void add_time(ef__buf *out, int64_t time_us)
{
    char text[EF_TIME_TEXT_MAX];

    if (time_us == 0)
        return;
    ef_time_format(time_us, text);
    ef__buf_add_text(out, text);
}

static void add_label(ef__buf *out, int32_t partition)
{
    char label[EF_PARTITION_LABEL_MAX];

    ef_partition_label(partition, label);
    ef__buf_add_text(out, label);
}

/* Adds the value as text; nothing if it is unknown or absent. */
static void add_value(ef__buf *out, const ef__field *field, const void *item)
{
    const void *value = (const char *)item + field->offset;

    switch (field->kind) {
    case EF__FIELD_INT32:
        ef__buf_printf(out, "%" PRId32, *(const int32_t *)value);
        break;
    case EF__FIELD_COUNT:
        if (*(const int64_t *)value < 0)
            break;
        /* fall through */
    case EF__FIELD_INT64:
        ef__buf_printf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case EF__FIELD_BOOL:
        ef__buf_add_text(out, *(const bool *)value ? "yes" : "no");
        break;
    case EF__FIELD_TIME:
        add_time(out, *(const int64_t *)value);
        break;
    case EF__FIELD_CHARS:
        ef__buf_add_text(out, value);
        break;
    case EF__FIELD_WORD:
        ef__buf_add_text(out, ef__field_word(field, *(const unsigned *)value));
        break;
    case EF__FIELD_CHOICE:
        ef__buf_add_text(out, ef__field_word(field, *(const bool *)value));
        break;
    case EF__FIELD_LABEL:
    case EF__FIELD_NUMBER:
        add_label(out, *(const int32_t *)value);
        break;
    case EF__FIELD_TTL:
        add_ttl(out, *(const int64_t *)value,
                *(const bool *)((const char *)item + field->live_offset));
        break;
    default:
        ef__buf_add_str(out, *(const ef_str *)value);
    }
}

static bool is_right(const cli_column *column, const ef__field *field)
{
    return column->right ||
           (field && (field->kind == EF__FIELD_INT32 || field->kind == EF__FIELD_INT64 ||
                      field->kind == EF__FIELD_COUNT || field->kind == EF__FIELD_TTL));
}

/* Shown instead of an empty value; an empty name of a stream or a reason stays empty. */
static const char *none_of(const cli_column *column, const ef__field *field)
{
    if (column->none)
        return column->none;
    return field && (field->kind == EF__FIELD_STR || field->kind == EF__FIELD_JSON) ? "" : "-";
}

static void add_row(cli_table *table, const cli_listing *listing, const void *item)
{
    for (const cli_column *column = listing->columns; column->head; column++) {
        const ef__field *field = field_of(listing, column);
        EF__AUTO(ef__buf) cell = EF__BUF_INIT(CLI_OUT_MAX);
        if (field)
            add_value(&cell, field, item);
        else
            column->text(&cell, item);
        cli_table_text(table, cell.len ? ef__buf_str(&cell) : ef_str_from(none_of(column, field)));
    }
}

static void write_object(cli *c, const cli_listing *listing, const void *item, bool one_line)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    size_t start = c->out.len;

    if (listing->write)
        listing->write(&w, item);
    else
        ef__shape_write(&w, listing->shape, item);
    if (one_line)
        ef__one_line(&c->out, start);
}

bool cli_list_item(cli *c, cli_list *list, const cli_listing *listing, const void *item)
{
    cli_list_next(c, list);
    write_object(c, listing, item, list->lines);
    return cli_list_item_end(c, list);
}

void cli_rows_begin(cli *c, cli_rows *rows, const cli_listing *listing)
{
    *rows = (cli_rows){.listing = listing,
                       .list = {.lines = c->format == CLI_NDJSON},
                       .table = CLI_TABLE_INIT(rows->heads, 0, 0)};
    for (const cli_column *column = listing->columns; column->head; column++) {
        bool right = is_right(column, field_of(listing, column));
        rows->table.right |= (unsigned)right << rows->table.columns;
        rows->heads[rows->table.columns++] = column->head;
    }
}

bool cli_rows_add(cli *c, cli_rows *rows, const void *items, size_t count)
{
    const cli_listing *listing = rows->listing;
    size_t size = listing->size ? listing->size : listing->shape->size;
    bool is_open = true;

    for (size_t i = 0; i < count && is_open; i++) {
        const void *item = (const char *)items + i * size;
        if (c->format == CLI_TABLE)
            add_row(&rows->table, listing, item);
        else
            is_open = cli_list_item(c, &rows->list, listing, item);
    }
    return c->format == CLI_TABLE && count > 0 ? cli_table_flush(c, &rows->table) : is_open;
}

void cli_rows_end(cli *c, cli_rows *rows, ef_status status)
{
    if (status == EF_OK && c->format != CLI_TABLE)
        cli_list_end(c, &rows->list);
    else if (status == EF_OK && !rows->table.headed && rows->listing->empty)
        cli_say(c, "%s", rows->listing->empty);
    cli_table_release(&rows->table);
}

void cli_print_list(cli *c, const cli_listing *listing, const void *items, size_t count)
{
    cli_rows rows;

    cli_rows_begin(c, &rows, listing);
    (void)cli_rows_add(c, &rows, items, count);
    cli_rows_end(c, &rows, EF_OK);
}

void cli_print_item(cli *c, const cli_listing *listing, const void *item)
{
    if (c->format == CLI_TABLE) {
        cli_print_list(c, listing, item, 1);
        return;
    }
    write_object(c, listing, item, c->format == CLI_NDJSON);
    ef__buf_add_char(&c->out, '\n');
}

void cli_print_object(cli *c, const ef__shape *shape, const void *item)
{
    write_object(c, &(cli_listing){.shape = shape}, item, c->format == CLI_NDJSON);
    ef__buf_add_char(&c->out, '\n');
}

void cli_object_end(cli *c, ef__json_writer *w)
{
    ef__json_close(w, '}');
    ef__buf_add_char(&c->out, '\n');
}

void cli_add_name(cli *c, ef_str tenant, ef_str name)
{
    if (tenant.len > 0) {
        ef__buf_add_text(&c->out, "tenant ");
        cli_escape(&c->out, tenant);
        ef__buf_add_text(&c->out, "  ");
    }
    cli_escape(&c->out, name);
}

void cli_line(cli *c, int width, const char *name, ef_str value)
{
    ef__buf_printf(&c->out, "%-*s", width, name);
    cli_escape(&c->out, value);
    ef__buf_add_char(&c->out, '\n');
}

void cli_line_int(cli *c, int width, const char *name, int64_t value)
{
    ef__buf_printf(&c->out, "%-*s%" PRId64 "\n", width, name, value);
}

void cli_print_lines(cli *c, const ef__shape *shape, const void *item, int width)
{
    for (size_t i = 0; i < shape->count; i++) {
        EF__AUTO(ef__buf) value = EF__BUF_INIT(CLI_OUT_MAX);
        add_value(&value, &shape->fields[i], item);
        cli_line(c, width, shape->fields[i].key, ef__buf_str(&value));
    }
}

void cli_print_members(cli *c, const ef__shape *shape, const void *item, const char *between)
{
    for (size_t i = 0; i < shape->count; i++) {
        ef__buf_printf(&c->out, "%s%s ", i ? between : "", shape->fields[i].key);
        add_value(&c->out, &shape->fields[i], item);
    }
}
