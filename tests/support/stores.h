/*
 * stores.h - where the stores of a test are, by the word that the test was started with.
 *
 *     memory             both in memory
 *     sqlite             both in files of the test's folder
 *     postgres           both in one database
 *     sqlite+postgres    the journal, and then everything else
 *     sqlite+lmdb
 *
 * A database is named after the folder, on the server that the test was started with
 * (postgres_server.py). It is created on first use, and the one before it is dropped if it is not
 * in use any more.
 */
#ifndef EF_TEST_STORES_H
#define EF_TEST_STORES_H

#include <stdbool.h>
#include <stddef.h>

/* The URL of `what`: "journal", "views", or another view store's name. Fails the test if it cannot
 * be had. */
void store_url(char *out, size_t size, const char *backend, const char *folder, const char *what);
/* Is the store `what` one that outlives the process? */
bool store_survives(const char *backend, const char *what);

#endif
