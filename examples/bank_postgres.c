/*
 * bank_postgres.c - a table of your own and the journal on PostgreSQL, in one transaction.
 *
 *     bank_postgres URL FROM TO AMOUNT [crash]
 *
 * A small bank keeps balances in its own table. A transfer changes two balances and appends one
 * event by everfold.append: all three writes happen, or none. Nothing of Everfold is linked:
 * any language with a driver can do the same. It prints the seq of the event in its
 * stream. With `crash` the program ends before the commit, as a power cut would end it.
 */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Runs a statement with text parameters: returns its first value, or NULL if it failed or found
 * nothing. A statement without rows has changed some if its count is not "0". */
static const char *run(PGconn *db, const char *sql, int count, const char *const *values)
{
    static char first[64];
    PGresult *result = PQexecParams(db, sql, count, NULL, values, NULL, NULL, 0);
    bool rows = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0;
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!rows && !done)
        (void)fprintf(stderr, "%s", PQresultErrorMessage(result));
    (void)snprintf(first, sizeof first, "%s",
                   rows   ? PQgetvalue(result, 0, 0)
                   : done ? PQcmdTuples(result)
                          : "");
    PQclear(result);
    return rows || done ? first : NULL;
}

/* False: no such account, or the CHECK of the table refused a negative balance. */
static bool change(PGconn *db, const char *account, const char *amount)
{
    static const char SQL[] = "UPDATE account SET balance = balance + $2::int WHERE name = $1";
    const char *changed = run(db, SQL, 2, (const char *const[]){account, amount});

    return changed && strcmp(changed, "1") == 0;
}

static bool transfer(PGconn *db, const char *from, const char *to, const char *amount, bool crash)
{
    static const char APPEND[] =
        "SELECT seq FROM everfold.append('', $1, NULL, json_build_object('type', "
        "'money.transferred',"
        " 'data', json_build_object('from', $1::text, 'to', $2::text, 'amount', $3::int)))";
    const char *seq = NULL;
    char less[32];

    (void)snprintf(less, sizeof less, "-%s", amount);
    if (!run(db, "BEGIN", 0, NULL) || !change(db, to, amount))
        return false;
    seq = run(db, APPEND, 3, (const char *const[]){from, to, amount});
    if (seq)
        (void)printf("%s\n", seq);
    if (crash) {
        (void)fflush(stdout);
        _exit(0); /* no commit, no clean-up: the server rolls everything back */
    }
    return seq && change(db, from, less) && run(db, "COMMIT", 0, NULL);
}

int main(int argc, char **argv)
{
    PGconn *db = PQconnectdb(argc >= 5 ? argv[1] : "");
    bool done = false;

    if (argc < 5)
        (void)fprintf(stderr, "usage: bank_postgres URL FROM TO AMOUNT [crash]\n");
    else if (PQstatus(db) != CONNECTION_OK)
        (void)fprintf(stderr, "%s", PQerrorMessage(db));
    else
        done = transfer(db, argv[2], argv[3], argv[4], argc > 5);
    PQfinish(db); /* uncommitted changes are rolled back */
    return done ? 0 : 1;
}
