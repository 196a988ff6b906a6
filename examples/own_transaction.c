/*
 * own_transaction.c - a table of your own and the journal, in one transaction.
 *
 *     own_transaction DIRECTORY [crash]
 *
 * A small bank keeps balances in its own table, in the same SQLite file as the journal. A transfer
 * changes two balances and appends one event: all three are there afterwards, or none. That is the
 * outbox pattern, and nothing has to be reconciled later. With `crash` the program ends in the
 * middle of a transfer, as a power cut would, so that the result can be inspected.
 */
#include <everfold/everfold.h>
#include <everfold/sqlite.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct bank {
    sqlite3 *db; /* owned by this program */
    ef_sqlite *everfold;
} bank;

/* Runs a statement of the bank with an amount and an account. False: no row was changed, because
 * the account does not exist or the CHECK of the table refused a negative balance. */
static bool change(bank *b, const char *sql, int64_t amount, const char *account)
{
    sqlite3_stmt *stmt = NULL;
    bool changed = sqlite3_prepare_v2(b->db, sql, -1, &stmt, NULL) == SQLITE_OK &&
                   sqlite3_bind_int64(stmt, 1, amount) == SQLITE_OK &&
                   sqlite3_bind_text(stmt, 2, account, -1, SQLITE_STATIC) == SQLITE_OK &&
                   sqlite3_step(stmt) == SQLITE_DONE && sqlite3_changes(b->db) == 1;

    sqlite3_finalize(stmt);
    return changed;
}

static ef_status append_transfer(bank *b, const char *from, const char *to, int64_t amount,
                                 ef_error *err)
{
    char data[200];
    ef_place place;
    int n = snprintf(data, sizeof data, "{\"from\":\"%s\",\"to\":\"%s\",\"amount\":%" PRId64 "}",
                     from, to, amount);
    ef_new_event event = {.stream = ef_str_from(from), .type = EF_STR("money.transferred")};

    if (n < 0 || (size_t)n >= sizeof data)
        return ef_fail(err, EF_TOO_LARGE, "the names of the accounts are too long");
    event.data = ef_str_from(data);
    return ef_sqlite_append(b->everfold, &event, 1, &place, err);
}

/* Transfers money. The event is appended before the second balance changes, only to show that the
 * order does not matter: no other connection sees any of the three writes before the commit. */
static ef_status transfer(bank *b, const char *from, const char *to, int64_t amount, bool crash,
                          ef_error *err)
{
    static const char CREDIT[] = "UPDATE account SET balance = balance + ?1 WHERE name = ?2";
    ef_status st = ef_sqlite_begin(b->everfold, err);

    if (st != EF_OK)
        return st;
    if (!change(b, CREDIT, amount, to))
        st = ef_fail(err, EF_NOT_FOUND, "no account %s", to);
    if (st == EF_OK)
        st = append_transfer(b, from, to, amount, err);
    if (st == EF_OK && crash) {
        printf("crashing in the middle\n");
        (void)fflush(stdout);
        _exit(0); /* no commit, no clean-up */
    }
    if (st == EF_OK && !change(b, CREDIT, -amount, from))
        st = ef_fail(err, EF_CONFLICT, "%s does not have %" PRId64, from, amount);
    if (st == EF_OK)
        return ef_sqlite_commit(b->everfold, err);
    ef_sqlite_rollback(b->everfold); /* removes the event and the first change */
    return st;
}

/* The journal must exist before a connection attaches to it. `everfold init` creates it, or this
 * function. */
static ef_status create_journal(const char *path, ef_error *err)
{
    char url[4200];
    ef_journal *journal = NULL;
    ef_journal_options options = {.url = url, .create = true};
    ef_status st;

    if (snprintf(url, sizeof url, "sqlite:%s", path) >= (int)sizeof url)
        return ef_fail(err, EF_BAD_INPUT, "the path is too long");
    st = ef_journal_open(&options, &journal, err);
    ef_journal_close(journal);
    return st;
}

static ef_status open_bank(bank *b, const char *path, ef_error *err)
{
    ef_status st = create_journal(path, err);

    if (st == EF_OK && sqlite3_open(path, &b->db) != SQLITE_OK)
        st = ef_fail(err, EF_IO, "%s: %s", path, sqlite3_errmsg(b->db));
    if (st == EF_OK)
        st = ef_sqlite_attach(b->db, NULL, &b->everfold, err);
    if (st == EF_OK)
        st = ef_sqlite_begin(b->everfold,
                             err); /* every write to the file is between begin and commit */
    if (st != EF_OK)
        return st;
    if (sqlite3_exec(b->db,
                     "CREATE TABLE IF NOT EXISTS account(name TEXT PRIMARY KEY,"
                     "                                   balance INTEGER CHECK (balance >= 0));"
                     "INSERT OR IGNORE INTO account VALUES ('ada', 100), ('bob', 0)",
                     NULL, NULL, NULL) == SQLITE_OK)
        return ef_sqlite_commit(b->everfold, err);
    st = ef_fail(err, EF_IO, "creating the accounts failed: %s", sqlite3_errmsg(b->db));
    ef_sqlite_rollback(b->everfold);
    return st;
}

int main(int argc, char **argv)
{
    char path[4096];
    bank b = {0};
    ef_error err = EF_ERROR_INIT;
    bool crash = argc == 3 && strcmp(argv[2], "crash") == 0;
    ef_status st;

    if (argc < 2 || argc > 2 + crash ||
        snprintf(path, sizeof path, "%s/journal.db", argv[1]) >= (int)sizeof path) {
        fprintf(stderr, "usage: own_transaction DIRECTORY [crash]\n");
        return 2;
    }
    st = open_bank(&b, path, &err);
    if (st == EF_OK) {
        st = transfer(&b, "ada", "bob", 30, crash, &err);
        printf("ada gives 30 to bob: %s\n", ef_status_describe(st)->message);
    }
    if (st == EF_OK && transfer(&b, "ada", "bob", 1000, false, &err) == EF_CONFLICT)
        printf("ada gives 1000 to bob: refused, %s\n", err.text);
    if (st != EF_OK)
        fprintf(stderr, "own_transaction: %s\n", err.text);
    ef_sqlite_detach(b.everfold); /* before the connection is closed */
    (void)sqlite3_close(b.db);
    return ef_status_describe(st)->exit_code;
}
