/*
 * sq.h - the statements of the journal (.sql files), and the options of its connections. The prefix
 * is sq_.
 */
#ifndef EF_JOURNAL_SQLITE_SQ_H
#define EF_JOURNAL_SQLITE_SQ_H

#include "journal_sqlite_sql.h"

#include "../../sqlite/conn.h"

/* Options of every connection of the journal: a commit is on disk when it returns. */
ef__sq_options sq_options(bool read_only, int64_t busy_ms);

#endif
