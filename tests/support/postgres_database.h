/*
 * postgres_database.h - a new, empty database on the server that the test runs beside.
 */
#ifndef EF_TEST_POSTGRES_DATABASE_H
#define EF_TEST_POSTGRES_DATABASE_H

#include <stdbool.h>
#include <stddef.h>

/* Make one on the server of POSTGRES_URL: its URL. False, with a word on stderr, when there is
 * none. It goes with the server. */
bool postgres_database(char *url, size_t size);

#endif
