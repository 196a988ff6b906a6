/*
 * read.h - reading events and streams.
 */
#ifndef EF_JOURNAL_SQLITE_READ_H
#define EF_JOURNAL_SQLITE_READ_H

#include "store.h"

void sq_close(ef_journal *journal);
ef_status sq_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                         size_t limit, ef_batch *out, ef_error *err);
ef_status sq_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out, ef_error *err);
ef_status sq_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                    int64_t *out_reached, ef_error *err);
ef_status sq_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out, ef_error *err);
ef_status sq_head_get(ef_journal *journal, ef_head *out, ef_error *err);
ef_status sq_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err);
ef_status sq_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err);

#endif
