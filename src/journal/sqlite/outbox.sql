-- The outbox: lanes, queued rows, lane offsets, retry rows, the audit log.
--
-- A dead retry row is never flagged to be skipped (a skip makes it pending, and it does not die after
-- that): so the status alone distinguishes the row that blocks a stream from rows that can be claimed.

-- name: lane_by_name
-- binds: 1 name text
-- row sq_lane: id int, kind int, enabled bool, retain_us int
SELECT id, kind, enabled, retain FROM lane WHERE name = ?1;

-- name: lane_in_order
-- list ef_lane: name text, kind int, enabled bool, types text, settings text, retain_us int,
--        progress text
SELECT name, kind, enabled, types, settings, retain, progress FROM lane ORDER BY name;

-- name: lane_kinds
-- only: sqlite PostgreSQL reads the rows of all lanes in one statement
-- binds: 1 only text (or '' for all)
-- list sq_lane: id int, name text, kind int
SELECT id, name, kind FROM lane WHERE ?1 IN ('', name) ORDER BY name;

-- name: lane_insert
-- only: sqlite PostgreSQL inserts and updates in lane_put
-- binds: 1 lane.name text, 2 lane.kind int, 3 lane.enabled bool, 4 lane.types text,
--        5 lane.settings text, 6 lane.retain_us int
-- from: lane ef_lane
INSERT INTO lane(name, kind, enabled, types, settings, retain) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: lane_update
-- only: sqlite PostgreSQL inserts and updates in lane_put
-- binds: as lane_insert
UPDATE lane SET kind = ?2, enabled = ?3, types = ?4, settings = ?5, retain = ?6 WHERE name = ?1;

-- name: lane_matches
-- binds: 1 lane.name text, 2 lane.enabled bool, 3 lane.types text, 4 lane.settings text,
--        5 lane.retain_us int
-- from: lane ef_lane
-- row: -
SELECT 1 FROM lane WHERE name = ?1 AND enabled = ?2 AND types = ?3 AND settings = ?4 AND retain = ?5;

-- name: lane_progress_set
-- binds: 1 id int, 2 progress text
UPDATE lane SET progress = ?2 WHERE id = ?1;

-- name: lane_clear
-- binds: 1 lane int
UPDATE lane SET enabled = 0, types = '', settings = '', retain = 0, progress = '' WHERE id = ?1;

-- name: lane_rows
-- binds: 1 lane int
-- row: count int
SELECT (SELECT count(*) FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48)
     + (SELECT count(*) FROM retry_row WHERE lane = ?1);

-- name: lane_clear_queue
-- only: sqlite PostgreSQL deletes in lane_clear
-- binds: 1 lane int
DELETE FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: lane_clear_retry_rows
-- only: sqlite PostgreSQL deletes in lane_clear
-- binds: 1 lane int
DELETE FROM retry_row WHERE lane = ?1;

-- name: lane_clear_published
-- only: sqlite PostgreSQL deletes in lane_clear
-- binds: 1 lane int
DELETE FROM outbox_published WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: lane_clear_in_flight
-- only: sqlite PostgreSQL updates in lane_clear
-- binds: 1 lane int
UPDATE lane_offset SET in_flight = 0, suspect = 0 WHERE lane = ?1;

-- name: outbox_after
-- only: sqlite PostgreSQL reads queued rows with their events in outbox_claim
-- The queued rows of a lane in order of position. The caller stops stepping at its limit.
-- binds: 1 lane int, 2 position int
-- rows: position int, partition int
SELECT id & 0xffffffffffff, partition FROM outbox_queue
 WHERE id > (?1 << 48 | ?2) AND id < (?1 + 1) << 48 ORDER BY id;

-- name: outbox_after_of_tenant
-- only: sqlite PostgreSQL lists rows with their events in row_after
-- binds: 1 lane int, 2 position int, 3 tenant text
-- rows: as outbox_after
SELECT o.id & 0xffffffffffff, o.partition FROM outbox_queue o
 WHERE o.id > (?1 << 48 | ?2) AND o.id < (?1 + 1) << 48
   AND (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
         WHERE e.position = o.id & 0xffffffffffff) = ?3
 ORDER BY o.id;

-- name: outbox_get
-- only: sqlite PostgreSQL writes a batch of rows as arrays
-- binds: 1 lane int, 2 position int
-- row: partition int
SELECT partition FROM outbox_queue WHERE id = (?1 << 48 | ?2);

-- name: outbox_delete
-- only: sqlite PostgreSQL writes a batch of rows as arrays
-- binds: 1 lane int, 2 position int
DELETE FROM outbox_queue WHERE id = (?1 << 48 | ?2);

-- name: outbox_delete_acked
-- Deletes the rows that the offsets have just moved past, in all partitions at once. Queued rows are
-- always above the offset of their partition, so rows at or below it are acknowledged. is_acked
-- (outbox_ack.c) has the new offsets in memory: looking up the offset of each row costs more than
-- deleting the row.
-- binds: 1 lane int, 2 lowest int (offset before), 3 highest int (offset now)
DELETE FROM outbox_queue
 WHERE id > (?1 << 48 | ?2) AND id <= (?1 << 48 | ?3)
   AND is_acked(partition, id & 0xffffffffffff);

-- name: outbox_has_work
-- Whether anything is queued for "*", or is the first row of its stream in the lane of a projection
-- and not dead.
-- row: answer bool
SELECT EXISTS (SELECT 1 FROM lane l CROSS JOIN outbox_queue o
                WHERE l.kind = 0 AND o.id > l.id << 48 AND o.id < (l.id + 1) << 48)
    OR EXISTS (SELECT 1 FROM lane l
                CROSS JOIN retry_row x INDEXED BY retry_row_due
                WHERE l.kind = 1 AND x.lane = l.id AND x.first = 1 AND x.status < 3);

-- name: published_acked
-- Records the rows that outbox_delete_acked is about to delete, except those with a retry row.
-- binds: 1 lane int, 2 lowest int (offset before), 3 highest int (offset now), 4 now int
INSERT OR REPLACE INTO outbox_published(id, published)
SELECT q.id, ?4 FROM outbox_queue q
 WHERE q.id > (?1 << 48 | ?2) AND q.id <= (?1 << 48 | ?3)
   AND is_acked(q.partition, q.id & 0xffffffffffff)
   AND NOT EXISTS (SELECT 1 FROM retry_row x
                    WHERE x.lane = ?1 AND x.position = q.id & 0xffffffffffff);

-- name: published_put
-- binds: 1 lane int, 2 position int, 3 now int
INSERT OR REPLACE INTO outbox_published(id, published) VALUES (?1 << 48 | ?2, ?3);

-- name: published_purge
-- Deletes the expired ones among the oldest `limit` entries.
-- binds: 1 lane int, 2 limit int, 3 before int
DELETE FROM outbox_published
 WHERE published < ?3
   AND id IN (SELECT id FROM outbox_published
               WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 ORDER BY id LIMIT ?2);

-- name: published_first
-- only: sqlite PostgreSQL reads and deletes in published_drain
-- binds: 1 lane int
-- row: position int
SELECT id & 0xffffffffffff FROM outbox_published
 WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 ORDER BY id LIMIT 1;

-- name: published_delete
-- only: sqlite PostgreSQL reads and deletes in published_drain
-- binds: 1 lane int, 2 position int
DELETE FROM outbox_published WHERE id = (?1 << 48 | ?2);

-- name: published_before
-- The published rows of a lane, newest first. The caller stops stepping at its limit.
-- binds: 1 lane int, 2 below int (a position), 3 from int (a position)
-- rows: position int, published int
SELECT id & 0xffffffffffff, published FROM outbox_published
 WHERE id >= (?1 << 48) + ?3 AND id < (?1 << 48) + ?2 ORDER BY id DESC;

-- name: published_count
-- binds: 1 lane int, 2 most int
-- row: count int
SELECT count(*) FROM (SELECT 1 FROM outbox_published
                       WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 LIMIT ?2);

-- name: outbox_count
-- only: sqlite PostgreSQL counts all lanes in row_count
-- binds: 1 lane int
-- row: count int
SELECT count(*) FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: outbox_count_of_tenant
-- only: sqlite PostgreSQL counts all lanes in row_count
-- binds: 1 lane int, 2 tenant text
-- row: count int
SELECT count(*) FROM outbox_queue o
 WHERE o.id > ?1 << 48 AND o.id < (?1 + 1) << 48
   AND (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
         WHERE e.position = o.id & 0xffffffffffff) = ?2;

-- name: outbox_count_in_flight
-- only: sqlite PostgreSQL counts all lanes in row_count
-- binds: 1 lane int, 2 partition int, 3 offset int, 4 in_flight int, 5 any_tenant bool,
--        6 tenant text
-- row: count int
SELECT count(*) FROM outbox_queue o
 WHERE o.id > (?1 << 48 | ?3) AND o.id <= (?1 << 48 | ?4) AND o.partition = ?2
   AND (?5 OR (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
                WHERE e.position = o.id & 0xffffffffffff) = ?6);

-- name: lane_offset_get
-- binds: 1 lane int, 2 partition int
-- row sq_offset_row: position int, in_flight int, in_flight_token int, suspect int
SELECT position, in_flight, in_flight_token, suspect FROM lane_offset WHERE lane = ?1 AND partition = ?2;

-- name: lane_offset_put
-- binds: 1 lane int, 2 partition int, 3 offset.position int, 4 offset.in_flight int,
--        5 offset.in_flight_token int, 6 offset.suspect int, 7 updated int
-- from: offset sq_offset_row
INSERT INTO lane_offset(lane, partition, position, in_flight, in_flight_token, suspect, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (lane, partition)
    DO UPDATE SET position = excluded.position, in_flight = excluded.in_flight,
                  in_flight_token = excluded.in_flight_token, suspect = excluded.suspect,
                  updated = excluded.updated;

-- name: lane_offset_in_flight
-- only: sqlite PostgreSQL has the function everfold.in_flight
-- binds: 1 lane int
-- rows: partition int, position int, in_flight int, token int
SELECT partition, position, in_flight, in_flight_token FROM lane_offset WHERE lane = ?1 AND in_flight > position;

-- name: retry_row_due
-- The due retry rows that are the first of their stream in their lane. The index is by due time and
-- holds only first rows that are not dead: dead rows, rows that are blocked after them and rows that
-- are due later do not slow this down. The caller stops stepping at its limit.
-- binds: 1 lane int (or 0 for the lanes of all projections), 2 now int
-- rows: position int, partition int, attempts int, skip bool, lane text, lane_id int, stream int,
--        seq int, error text, filed int, trying bool
SELECT x.position, x.partition, x.attempts, x.skip, l.name, l.id, x.stream, x.seq,
       x.error, x.filed, x.trying
  FROM lane l CROSS JOIN retry_row x INDEXED BY retry_row_due
 WHERE CASE ?1 WHEN 0 THEN l.kind = 1 ELSE l.id = ?1 END
   AND x.lane = l.id AND x.first = 1 AND x.status < 3 AND x.due <= ?2
 ORDER BY l.name, x.due, x.position;

-- name: retry_row_next_due
-- When the next of them is due, by the same index.
-- binds: 1 lane int (or 0 for the lanes of all projections), 2 now int
-- row: due int
SELECT min((SELECT x.due FROM retry_row x INDEXED BY retry_row_due
             WHERE x.lane = l.id AND x.first = 1 AND x.status < 3 AND x.due > ?2
             ORDER BY x.due LIMIT 1))
  FROM lane l WHERE CASE ?1 WHEN 0 THEN l.kind = 1 ELSE l.id = ?1 END;

-- name: retry_row_following
-- only: sqlite PostgreSQL returns them from retry_row_due
-- The rows after a retry row in its stream. The caller stops stepping at its limit.
-- binds: 1 lane int, 2 stream int, 3 seq int
-- rows: position int, attempts int, skip bool, status int, partition int, filed int
SELECT position, attempts, skip, status, partition, filed
  FROM retry_row INDEXED BY retry_row_of_stream
 WHERE lane = ?1 AND stream = ?2 AND seq > ?3 ORDER BY seq;

-- name: retry_row_any
-- only: sqlite PostgreSQL asks for a whole batch in retry_row_before
-- binds: 1 lane int
-- row: -
SELECT 1 FROM retry_row WHERE lane = ?1 LIMIT 1;

-- name: retry_row_before
-- Whether a stream has a retry row before a seq: its later events are blocked.
-- binds: 1 lane int, 2 stream int, 3 seq int
-- row: -
SELECT 1 FROM retry_row INDEXED BY retry_row_of_stream
 WHERE lane = ?1 AND stream = ?2 AND seq < ?3 LIMIT 1;

-- name: retry_row_get
-- only: sqlite PostgreSQL reads a batch in retry_row_lookup
-- binds: 1 lane int, 2 position int
-- rows sq_retry_row: partition int, stream int, seq int, status int, skip bool, attempts int,
--        due_us int, error text, updated_us int, filed int, trying bool
SELECT partition, stream, seq, status, skip, attempts, due, error, updated, filed, trying
  FROM retry_row WHERE lane = ?1 AND position = ?2;

-- name: retry_row_insert
-- only: sqlite PostgreSQL inserts and updates in retry_row_put
-- binds: 1 lane int, 2 position int, 3 row.partition int, 4 row.stream int, 5 row.seq int,
--        6 row.status int, 7 row.attempts int, 8 row.due_us int, 9 row.error text,
--        10 row.updated_us int, 11 row.trying bool
-- from: row sq_retry_row
INSERT INTO retry_row(lane, position, partition, stream, seq, status, skip, first, attempts,
                             due, error, updated, filed, trying)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, ?9, ?10, 0, ?11);

-- name: retry_row_add_filing
-- only: sqlite PostgreSQL updates in retry_row_put
-- binds: 1 lane int, 2 position int
UPDATE retry_row SET filed = filed + 1 WHERE lane = ?1 AND position = ?2;

-- name: retry_row_set_first
-- Recomputes which retry row is the first of its stream in its lane, after one was added or deleted.
-- binds: 1 lane int, 2 stream int
UPDATE retry_row SET first = 1 - first
 WHERE lane = ?1
   AND position IN (SELECT f.position FROM retry_row f INDEXED BY retry_row_of_stream
                     WHERE f.lane = ?1 AND f.stream = ?2 ORDER BY f.seq LIMIT 2)
   AND first <> (position = (SELECT f.position
                               FROM retry_row f INDEXED BY retry_row_of_stream
                              WHERE f.lane = ?1 AND f.stream = ?2 ORDER BY f.seq LIMIT 1));

-- name: retry_row_update
-- only: sqlite PostgreSQL inserts and updates in retry_row_put
-- binds: 1 lane int, 2 position int, 3 row.status int, 4 row.skip bool, 5 row.attempts int,
--        6 row.due_us int, 7 row.error text, 8 row.updated_us int, 9 row.trying bool
-- from: row sq_retry_row
UPDATE retry_row SET status = ?3, skip = ?4, attempts = ?5, due = ?6, error = ?7,
       updated = ?8, trying = ?9 WHERE lane = ?1 AND position = ?2;

-- name: retry_row_delete
-- binds: 1 lane int, 2 position int
DELETE FROM retry_row WHERE lane = ?1 AND position = ?2;

-- name: retry_row_first_dead
-- only: sqlite PostgreSQL has the view everfold.retry_row_detail
-- The dead row that blocks a stream in a lane.
-- binds: 1 lane int, 2 stream int
-- row: seq int
SELECT seq FROM retry_row INDEXED BY retry_row_dead
 WHERE lane = ?1 AND stream = ?2 AND status = 3 ORDER BY seq LIMIT 1;

-- name: retry_streams
-- Streams with retry rows in a lane, in order of their first row. The caller stops stepping at its
-- limit.
-- binds: 1 lane int, 2 query.after int (a position), 3 query.any_tenant bool, 4 query.tenant text,
--        5 query.above_seq int, 6 query.counts bool (whether to count the rows above it)
-- from: query ef__retry_query
-- rows ef__retry_stream: tenant text, stream text, seq int, position int, status int, error text,
--        last_seq int, rows int
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM retry_row r INDEXED BY retry_row_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?6 THEN (SELECT count(*)
                            FROM retry_row r INDEXED BY retry_row_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?5) ELSE 0 END
  FROM retry_row x INDEXED BY retry_row_head CROSS JOIN stream s
 WHERE x.lane = ?1 AND x.first = 1 AND x.position > ?2 AND s.id = x.stream
   AND (?3 OR s.tenant = ?4)
 ORDER BY x.position;

-- name: retry_stream
-- The same for one stream: one row, or none.
-- binds: 1 lane int, 2 query.tenant text, 3 query.stream text, 4 query.above_seq int,
--        5 query.counts bool
-- from: query ef__retry_query
-- rows: as retry_streams
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM retry_row r INDEXED BY retry_row_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?5 THEN (SELECT count(*)
                            FROM retry_row r INDEXED BY retry_row_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?4) ELSE 0 END
  FROM stream s CROSS JOIN retry_row x INDEXED BY retry_row_of_stream
 WHERE s.tenant = ?2 AND s.name = ?3 AND x.lane = ?1 AND x.stream = s.id
 ORDER BY x.seq LIMIT 1;

-- name: retry_row_after
-- only: sqlite PostgreSQL lists rows with their events in row_after
-- binds: 1 lane int, 2 position int, 3 any_tenant bool, 4 tenant text
-- rows: position int, stream int, seq int, status int
SELECT x.position, x.stream, x.seq, x.status FROM retry_row x
 WHERE x.lane = ?1 AND x.position > ?2
   AND (?3 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?4)
 ORDER BY x.position;

-- name: retry_row_after_of_status
-- only: sqlite PostgreSQL lists rows with their events in row_after
-- binds: 1 lane int, 2 position int, 3 any_tenant bool, 4 tenant text, 5 status int
-- rows: as retry_row_after
SELECT x.position, x.stream, x.seq, x.status
  FROM retry_row x INDEXED BY retry_row_of_status
 WHERE x.status = ?5 AND x.lane = ?1 AND x.position > ?2
   AND (?3 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?4)
 ORDER BY x.position;

-- name: retry_row_count
-- only: sqlite PostgreSQL counts all lanes in row_count
-- Reads the status index only.
-- binds: 1 lane int, 2 status int
-- row: count int, oldest int
SELECT count(*), min(position) FROM retry_row WHERE status = ?2 AND lane = ?1;

-- name: retry_row_count_of_tenant
-- only: sqlite PostgreSQL counts all lanes in row_count
-- binds: 1 lane int, 2 status int, 3 tenant text
-- row: as retry_row_count
SELECT count(*), min(position) FROM retry_row x INDEXED BY retry_row_of_status
 WHERE x.status = ?2 AND x.lane = ?1
   AND (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?3;

-- name: retry_row_pending
-- only: sqlite PostgreSQL counts all lanes in row_count
-- The pending retry rows of a lane in order of stream: the row that blocks a stream is then looked up
-- once a stream, and only for streams with pending rows. The cost depends neither on the length of a
-- blocked stream nor on the number of dead rows.
-- binds: 1 lane int, 2 any_tenant bool, 3 tenant text
-- rows: stream int, seq int, position int
SELECT x.stream, x.seq, x.position
  FROM retry_row x INDEXED BY retry_row_of_status
 WHERE x.status = 0 AND x.lane = ?1
   AND (?2 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?3)
 ORDER BY x.stream;

-- name: row_event
-- only: sqlite PostgreSQL lists rows with their events in row_after
-- The columns of an event that a row shows.
-- binds: 1 position int
-- rows: tenant text, stream text, seq int, type text, recorded int, stream_id int
SELECT s.tenant, s.name, e.seq, coalesce(a.name, t.name), e.recorded, e.stream
  FROM event e JOIN stream s ON s.id = e.stream JOIN event_type t ON t.id = e.type
       LEFT JOIN event_type a ON a.id = t.alias_of
 WHERE e.position = ?1;

-- name: audit_insert
-- binds: 1 at int, 2 entry.action text, 3 entry.actor text, 4 entry.reason text,
--        5 entry.lane text, 6 entry.tenant text, 7 entry.stream text, 8 entry.seq int, 9 rows int
-- from: entry ef_audit_entry
INSERT INTO audit(at, action, actor, reason, lane, tenant, stream, seq, rows)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: audit_grow
-- binds: 1 id int, 2 rows int
UPDATE audit SET rows = rows + ?2 WHERE id = ?1;

-- name: audit_newest
-- An entry about all tenants is kept under the tenant '' without a stream.
-- binds: 1 query.after int, 2 query.before int, 3 query.action text (or empty),
--        4 query.lane text (or empty), 5 query.limit int, 6 any_tenant bool, 7 tenant text
-- from: query ef_audit_query
-- list ef_audit_entry: id int, at_us int, action text, actor text, reason text, lane text,
--        tenant text, stream text, seq int, rows int
SELECT id, at, action, actor, reason, lane, tenant, stream, seq, rows
  FROM audit
 WHERE id > ?1 AND id < ?2 AND (?3 = '' OR action = ?3) AND (?4 = '' OR lane = ?4)
   AND (?6 OR (tenant = ?7 AND (tenant <> '' OR stream <> '')))
 ORDER BY id DESC LIMIT ?5;

-- name: skip_insert
-- binds: 1 entry.projection text, 2 entry.version int, 3 entry.tenant text, 4 entry.stream text,
--        5 entry.seq int, 6 entry.actor text, 7 entry.reason text, 8 at int
-- from: entry ef__skip_entry
INSERT INTO skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0);

-- name: skip_withdraw
-- Adds an entry that withdraws the last one about an event, for each version that has one.
-- binds: 1 projection text, 2 stream int (its id), 3 seq int, 4 at int
INSERT INTO skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT s.projection, s.version, s.tenant, s.stream, s.seq, s.actor, s.reason, ?4, 1
  FROM stream t JOIN skip s ON s.tenant = t.tenant AND s.stream = t.name
 WHERE t.id = ?2 AND s.projection = ?1 AND s.seq = ?3 AND s.withdrawn = 0
   AND NOT EXISTS (SELECT 1 FROM skip n
                    WHERE n.projection = s.projection AND n.tenant = s.tenant
                      AND n.stream = s.stream AND n.seq = s.seq AND n.version = s.version
                      AND n.id > s.id);

-- name: skip_after
-- binds: 1 projection text, 2 version int, 3 after int, 4 limit int
-- list ef__skip: id int, tenant text, stream text, seq int, withdrawn bool
SELECT id, tenant, stream, seq, withdrawn FROM skip
 WHERE projection = ?1 AND version = ?2 AND id > ?3 ORDER BY id LIMIT ?4;
