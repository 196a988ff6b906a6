/*
 * sq.h - the journal's statements (the .sql files beside this), and a connection that has them.
 */
#ifndef EF_JOURNAL_SQLITE_SQ_H
#define EF_JOURNAL_SQLITE_SQ_H

#include "journal_sqlite_sql.h"

#include "../../sqlite/conn.h"

/* How every connection of the journal is set up: what it answers is on the disk. */
ef__sq_options sq_options(bool read_only, int64_t busy_ms);

#endif
