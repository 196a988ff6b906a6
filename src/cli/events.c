/*
 * events.c - lists of events, printed page by page.
 */
#include "cli.h"

static const char *const heads[] = {"TENANT", "STREAM", "SEQ", "POSITION",
                                    "TYPE",   "TIME",   "ID",  "DATA"};

/* The columns tenant and stream are omitted if they would be the same in every row. */
void cli_events_begin(cli_events *events, const cli *c, bool with_tenant, bool with_stream)
{
    size_t left_out = with_tenant ? 0 : with_stream ? 1 : 2;

    *events = (cli_events){
        .list = {.lines = c->format == CLI_NDJSON},
        .table = CLI_TABLE_INIT(heads + left_out, 8 - left_out, 0xCU >> left_out),
        .with_tenant = with_tenant,
        .with_stream = with_stream,
    };
}

static void add_row(cli_events *events, const ef_event *e)
{
    cli_table *table = &events->table;

    if (events->with_tenant)
        cli_table_text(table, e->tenant);
    if (events->with_stream)
        cli_table_text(table, e->stream);
    cli_table_int(table, e->seq);
    cli_table_int(table, e->position);
    cli_table_text(table, e->type);
    cli_table_time(table, e->time_us);
    cli_table_text(table, e->id);
    cli_table_text(table, e->data);
}

bool cli_events_print(cli *c, cli_events *events, const ef_batch *batch)
{
    bool go_on = true;

    for (size_t i = 0; i < batch->count && go_on; i++) {
        if (c->format == CLI_TABLE) {
            add_row(events, &batch->events[i]);
            continue;
        }
        cli_list_next(c, &events->list);
        cli_json_event(c, &batch->events[i], events->list.lines);
        go_on = cli_list_item_end(c, &events->list);
    }
    if (c->format == CLI_TABLE && batch->count > 0)
        go_on = cli_table_flush(c, &events->table);
    return go_on;
}

void cli_events_end(cli *c, cli_events *events)
{
    if (c->format != CLI_TABLE)
        cli_list_end(c, &events->list);
    else if (!events->table.headed)
        cli_say(c, "no events");
    cli_table_release(&events->table);
}
