/*
 * cmd_journal.c - everfold journal copy --from URL --to URL, and adopt
 */
#include "cli.h"

#include "../base/hash.h"

/* The source is only read. On a database server it is opened for writing, because events that were
 * appended by SQL may still need their positions. */
static ef_status open_source(cli *c, const char *url, ef_journal **out, ef_error *err)
{
    ef_journal_options options = {.url = url,
                                  .read_only = !cli_url_on_server(url),
                                  .busy_ms = ef__settings_int(c->settings, "store.busy"),
                                  .log = &c->log};

    return ef_journal_open(&options, out, err);
}

static ef_status open_target(cli *c, const char *url, ef_journal *source, ef_journal **out,
                             ef_error *err)
{
    ef_store_facts facts;
    ef_status st = ef_journal_facts(source, &facts, err);
    ef_journal_options options = {.url = url,
                                  .create = true,
                                  .busy_ms = ef__settings_int(c->settings, "store.busy"),
                                  .log = &c->log};

    if (st != EF_OK)
        return st;
    options.partitions = facts.partitions;
    return ef_journal_open(&options, out, err);
}

static void write_result(cli *c, const ef_copy_result *result)
{
    bool stopped = result->position < result->upto;
    char hash[2 * EF_HASH_BYTES + 1];

    ef__hex(result->hash, EF_HASH_BYTES, hash);
    if (c->format == CLI_TABLE)
        ef__buf_printf(&c->out,
                       "%s%" PRId64 " event%s copied; the target is at position %" PRId64
                       ", hash %s\n",
                       stopped ? "stopped: " : "", result->copied, cli_plural(result->copied),
                       result->position, hash);
    else
        ef__buf_printf(&c->out,
                       "{\"copied\":%" PRId64 ",\"position\":%" PRId64
                       ",\"hash\":\"%s\",\"stopped\":%s}\n",
                       result->copied, result->position, hash, stopped ? "true" : "false");
    if (stopped)
        cli_say(c, "run the same command again to continue");
    c->exit_code = stopped ? cli_stopped_exit() : 0;
}

static ef_status copy_journal(cli *c, ef_journal *from, ef_journal *to, ef_error *err)
{
    ef_copy_result result;
    cli_progress progress = cli_progress_begin(c, "copying", "events", false);
    ef_copy_options options = {.progress = cli_progress_step, .context = &progress};
    ef_status st;

    cli_stop_on_signals();
    st = ef_journal_copy(from, to, &options, &result, err);
    cli_progress_end(&progress);
    if (st == EF_OK)
        write_result(c, &result);
    else if (result.copied)
        cli_hint(c, "what was copied stays; run the same command again to continue");
    return st;
}

static ef_status run_copy(cli *c, ef_error *err)
{
    const char *from = cli_value(c, "from");
    ef_journal *source = NULL, *target = NULL;
    ef_status st = open_source(c, from ? from : c->journal_url, &source, err);

    if (st == EF_OK)
        st = open_target(c, cli_value(c, "to"), source, &target, err);
    if (st == EF_OK)
        st = copy_journal(c, source, target, err);
    ef_journal_close(target);
    ef_journal_close(source);
    return st;
}

const cli_command cli_cmd_journal_copy = {
    .name = "journal copy",
    .summary = "copy a journal to another store, with positions and hashes",
    .options = CLI_OPTIONS(
        CLI_TEXT("from", "URL", "the journal to copy (default: the one of the settings)"),
        CLI_TEXT("to", "URL", "the journal to copy to; it is created if it does not exist",
                 .needed = ": the URL of the target journal")),
    .more =
        "Copies all events of all tenants up to the head at the start, and the settings of event\n"
        "types, between SQLite and PostgreSQL in any direction: same positions, seqs, ids, times\n"
        "and hashes. Every hash is computed again and compared.\n"
        "\n"
        "The target must be empty or a prefix of the source; otherwise nothing is copied. An\n"
        "interrupted copy continues where it ended, and running it again copies what was\n"
        "appended since. Publishers, retry rows, audit entries and views are not copied: deploy\n"
        "the projections on the target, and add its publishers when the copy is complete.",
    .example = "everfold journal copy --to sqlite:copy.db",
    .call = run_copy,
    .local = true,
};

static ef_status run_adopt(cli *c, ef_error *err)
{
    ef_status st = ef_journal_adopt(c->journal, cli_actor(c), cli_reason(c), err);

    if (st == EF_OK)
        ef__buf_add_text(&c->out, c->format == CLI_TABLE
                                      ? "adopted: publishers of this journal send from now on\n"
                                      : "{\"adopted\":true}\n");
    return st;
}

const cli_command cli_cmd_journal_adopt = {
    .name = "journal adopt",
    .summary = "let a restored journal replace the original",
    .options = CLI_OPTIONS(CLI_REASON),
    .more =
        "A journal that was restored from a backup, or whose database was copied, is a copy:\n"
        "its publishers send nothing, because the original may still send the same events. When\n"
        "the original no longer runs, adopt the copy. Events that the original sent after the\n"
        "backup are sent again, with the same ids.",
    .example = "everfold journal adopt --reason 'the old machine is lost'",
    .stores = CLI_JOURNAL,
    .call = run_adopt,
    .local = true,
};
