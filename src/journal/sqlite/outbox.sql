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

-- name: lane_put
-- No row: the lane exists and is of another kind.
-- binds: 1 lane.name text, 2 lane.kind int, 3 lane.enabled bool, 4 lane.types text,
--        5 lane.settings text, 6 lane.retain_us int
-- from: lane ef_lane
-- row: -
INSERT INTO lane(name, kind, enabled, types, settings, retain) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, types = excluded.types,
                                     settings = excluded.settings, retain = excluded.retain
    WHERE kind = excluded.kind
RETURNING id;

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

-- name: published_count
-- binds: 1 lane int, 2 most int
-- row: count int
SELECT count(*) FROM (SELECT 1 FROM outbox_published
                       WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 LIMIT ?2);

-- name: lane_offset_get
-- binds: 1 lane int, 2 partition int
-- row ef__lane_offset: position int, in_flight int, in_flight_token int, suspect int
SELECT position, in_flight, in_flight_token, suspect FROM lane_offset WHERE lane = ?1 AND partition = ?2;

-- name: lane_offset_between
-- only: sqlite PostgreSQL reads the offsets of an array
-- binds: 1 lane int, 2 first int, 3 last int
-- rows: partition int, position int, in_flight int, in_flight_token int, suspect int
SELECT partition, position, in_flight, in_flight_token, suspect
  FROM lane_offset WHERE lane = ?1 AND partition BETWEEN ?2 AND ?3;

-- name: lane_offset_put
-- binds: 1 lane int, 2 partition int, 3 offset.position int, 4 offset.in_flight int,
--        5 offset.in_flight_token int, 6 offset.suspect int, 7 updated int
-- from: offset ef__lane_offset
INSERT INTO lane_offset(lane, partition, position, in_flight, in_flight_token, suspect, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (lane, partition)
    DO UPDATE SET position = excluded.position, in_flight = excluded.in_flight,
                  in_flight_token = excluded.in_flight_token, suspect = excluded.suspect,
                  updated = excluded.updated;

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

-- name: retry_row_lookup
-- Reads the rows needed to write a retry row: the event, its row in the acknowledged lane, and the
-- existing retry row.
-- binds: 1 position int, 2 lane int (of the retry row), 3 acked int (the lane that is acknowledged)
-- rows ef__acked_event: stream int?, seq int, tenant text, name text, queued_in int?,
--        filed_in int?, row.status int, row.skip bool, row.attempts int, row.due_us int,
--        row.error text, row.updated_us int, row.filed int, partitions int, row.trying bool
SELECT e.stream, e.seq, s.tenant, s.name, q.partition, x.partition, x.status, x.skip, x.attempts,
       x.due, x.error, x.updated, x.filed, t.partitions, x.trying
  FROM event e
  JOIN stream s ON s.id = e.stream
 CROSS JOIN state t
  LEFT JOIN outbox_queue q ON q.id = (?3 << 48 | ?1)
  LEFT JOIN retry_row x ON x.lane = ?2 AND x.position = ?1
 WHERE e.position = ?1;

-- name: retry_row_insert
-- only: sqlite PostgreSQL inserts and updates in retry_row_put
-- binds: 1 lane int, 2 position int, 3 partition int, 4 event.stream int, 5 event.seq int,
--        6 row.status int, 7 row.attempts int, 8 row.due_us int, 9 row.error text,
--        10 row.updated_us int, 11 row.trying bool
-- from: event ef__acked_event, row ef__retry_state
-- row: first bool
INSERT OR FAIL INTO retry_row(lane, position, partition, stream, seq, status, skip, first, attempts,
                             due, error, updated, filed, trying)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0,
        NOT EXISTS (SELECT 1 FROM retry_row r INDEXED BY retry_row_of_stream
                     WHERE r.lane = ?1 AND r.stream = ?4 AND r.seq < ?5),
        ?7, ?8, ?9, ?10, 0, ?11)
RETURNING first;

-- name: retry_row_add_filing
-- only: sqlite PostgreSQL updates in retry_row_put
-- binds: 1 lane int, 2 position int
UPDATE retry_row SET filed = filed + 1 WHERE lane = ?1 AND position = ?2;

-- name: retry_row_set_first
-- Recomputes which retry row is the first of its stream in its lane, after one was added before the
-- others, or deleted.
-- binds: 1 lane int, 2 stream int
UPDATE OR FAIL retry_row SET first = 1 - first
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
-- from: row ef__retry_state
UPDATE OR FAIL retry_row SET status = ?3, skip = ?4, attempts = ?5, due = ?6, error = ?7,
       updated = ?8, trying = ?9 WHERE lane = ?1 AND position = ?2;

-- name: retry_row_delete
-- binds: 1 lane int, 2 position int
DELETE FROM retry_row WHERE lane = ?1 AND position = ?2;

-- name: retry_streams
-- Streams with retry rows in a lane, in order of their first row.
-- binds: 1 query.lane text, 2 query.after int (a position), 3 query.any_tenant bool,
--        4 query.tenant text, 5 query.above_seq int, 6 query.counts bool (whether to count the
--        rows above it), 7 query.limit int
-- from: query ef__retry_query
-- list ef__retry_stream: tenant text, stream text, seq int, position int, status int, error text,
--        last_seq int, rows int
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM retry_row r INDEXED BY retry_row_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?6 THEN (SELECT count(*)
                            FROM retry_row r INDEXED BY retry_row_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?5) ELSE 0 END
  FROM retry_row x INDEXED BY retry_row_head CROSS JOIN stream s
 WHERE x.lane = (SELECT l.id FROM lane l WHERE l.name = ?1) AND x.first = 1 AND x.position > ?2 AND s.id = x.stream
   AND (?3 OR s.tenant = ?4)
 ORDER BY x.position LIMIT ?7;

-- name: retry_stream
-- The same for one stream: one row, or none.
-- binds: 1 query.lane text, 2 query.tenant text, 3 query.stream text, 4 query.above_seq int,
--        5 query.counts bool
-- from: query ef__retry_query
-- list: as retry_streams
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM retry_row r INDEXED BY retry_row_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?5 THEN (SELECT count(*)
                            FROM retry_row r INDEXED BY retry_row_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?4) ELSE 0 END
  FROM stream s CROSS JOIN retry_row x INDEXED BY retry_row_of_stream
 WHERE s.tenant = ?2 AND s.name = ?3 AND x.stream = s.id
   AND x.lane = (SELECT l.id FROM lane l WHERE l.name = ?1)
 ORDER BY x.seq LIMIT 1;

-- name: lane_exists
-- only: sqlite PostgreSQL lists the rows after an unknown lane as those after its position
-- binds: 1 id int
-- row: -
SELECT 1 FROM lane WHERE id = ?1;

-- name: row_after
-- Rows in order of position and lane, from a place on. Each lane is read along its index up to the
-- limit, its retry rows by status; then they are merged, and the events of the rows that are left are
-- read. So the cost of a page does not depend on the number of rows. Of waiting rows it returns the
-- oldest one, which is queued, has failed, or is a pending row that is the first of its stream.
-- binds: 1 page.lane text (name, or '' for all), 2 page.any_tenant bool, 3 page.tenant text,
--        4 page.status int (or -1 for all), 5 page.show int (see ef__row_show), 6 page.from int,
--        7 page.after int (positions), 8 page.after_lane int (id of the last lane at that
--        position), 9 page.limit int, 10 page.now_us int
-- from: page ef__row_page
-- list ef__listed_row: row.lane text, row.tenant text, row.stream text, row.seq int,
--        row.position int, row.event_type text, row.status int, row.blocked bool, row.skip bool,
--        row.partition int, row.attempt_count int, row.next_attempt_us int, row.last_error text,
--        row.enqueued_us int, row.updated_us int, lane_id int, row.filed int, row.trying bool
WITH start(lane, name, position) AS (
    SELECT l.id, l.name,
           max(1, ?6, ?7 + 1 - ifnull(l.name > (SELECT a.name FROM lane a WHERE a.id = ?8), 0))
      FROM lane l WHERE ?1 IN ('', l.name)),
in_flight(lane, partition, acked, upto) AS (
    SELECT m.lane, m.partition, m.position, m.in_flight
      FROM lane_offset m JOIN lane l ON l.id = m.lane
      JOIN lease h ON h.kind = CASE l.kind WHEN 2 THEN 1 ELSE 0 END
       AND h.name = CASE l.kind WHEN 2 THEN l.name ELSE '' END
       AND h.partition = m.partition AND h.token = m.in_flight_token
     WHERE m.in_flight > m.position AND lease_live(h.owner, h.until, h.updated, ?10)),
page(lane, name, position, status, partition, retry) AS (
    SELECT s.lane, s.name, q.id & 0xffffffffffff,
           ifnull((SELECT q.id & 0xffffffffffff <= h.upto FROM in_flight h
                    WHERE h.lane = s.lane AND h.partition = q.partition), 0), q.partition, 0
      FROM start s CROSS JOIN outbox_queue q
     WHERE ?4 IN (-1, 0, 1) AND ?5 IN (0, 2)
       AND q.id IN (SELECT o.id FROM outbox_queue o
                     WHERE o.id >= (s.lane << 48) + s.position AND o.id < (s.lane + 1) << 48
                       AND (?2 OR (SELECT t.tenant FROM event e JOIN stream t ON t.id = e.stream
                                    WHERE e.position = o.id & 0xffffffffffff) = ?3)
                       AND ((?4 < 0 AND ?5 = 0) OR max(?4, 0) = ifnull(
                           (SELECT o.id & 0xffffffffffff <= h.upto FROM in_flight h
                             WHERE h.lane = s.lane AND h.partition = o.partition), 0))
                     ORDER BY o.id LIMIT ?9)
    UNION ALL
    SELECT s.lane, s.name, x.position, x.status, x.partition, 1
      FROM start s CROSS JOIN (VALUES (0), (2), (3)) f CROSS JOIN retry_row x
     WHERE ?4 IN (-1, f.column1)
       AND (?5 IN (0, 3) OR (f.column1 = 0 AND ?5 = 1) OR (f.column1 = 2 AND ?5 = 2))
       AND x.lane = s.lane
       AND x.position IN (
           SELECT r.position FROM retry_row r INDEXED BY retry_row_of_status
            WHERE r.status = f.column1 AND r.lane = s.lane AND r.position >= s.position
              AND (?2 OR (SELECT t.tenant FROM stream t WHERE t.id = r.stream) = ?3)
              AND (?5 <> 1 OR EXISTS (
                  SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                   WHERE d.lane = r.lane AND d.stream = r.stream AND d.status = 3 AND d.seq < r.seq))
            ORDER BY r.position LIMIT ?9)
    UNION ALL
    SELECT s.lane, s.name, x.position, x.status, x.partition, 1
      FROM start s CROSS JOIN retry_row x
     WHERE ?5 = 2 AND x.lane = s.lane
       AND x.position IN (
           SELECT r.position FROM retry_row r INDEXED BY retry_row_waiting
            WHERE r.lane = s.lane AND r.first = 1 AND r.status = 0 AND r.position >= s.position
              AND (?2 OR (SELECT t.tenant FROM stream t WHERE t.id = r.stream) = ?3)
            ORDER BY r.position LIMIT ?9)
     ORDER BY 3, 2 LIMIT ?9)
SELECT p.name, t.tenant, t.name, e.seq, p.position, coalesce(a.name, y.name), p.status,
       p.status = 0 AND EXISTS (
           SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
            WHERE d.lane = x.lane AND d.stream = x.stream AND d.status = 3 AND d.seq < x.seq),
       x.skip, p.partition, x.attempts, x.due, x.error, e.recorded,
       ifnull(x.updated, e.recorded), p.lane, x.filed, x.trying
  FROM page p
  LEFT JOIN event e ON e.position = p.position
  LEFT JOIN stream t ON t.id = e.stream
  LEFT JOIN event_type y ON y.id = e.type
  LEFT JOIN event_type a ON a.id = y.alias_of
  LEFT JOIN retry_row x ON x.lane = p.lane AND x.position = p.position AND p.retry
 ORDER BY p.position, p.name;

-- name: published_before
-- What lanes have published, newest first, from a position on. Each lane is read along its key, and
-- events are looked up only for the rows that are returned.
-- binds: 1 page.lane text (name, or '' for all), 2 page.from int, 3 page.after int (positions),
--        4 page.after_lane int (of the lane that precedes at that position), 5 page.limit int
-- from: page ef__row_page
-- list ef__listed_row: row.lane text, row.tenant text, row.stream text, row.seq int,
--        row.position int, row.event_type text, row.status int, row.enqueued_us int,
--        row.updated_us int, lane_id int
WITH page(lane, name, position, published) AS (
    SELECT l.id, l.name, p.id & 0xffffffffffff, p.published
      FROM lane l CROSS JOIN outbox_published p
     WHERE ?1 IN ('', l.name)
       AND p.id IN (SELECT o.id FROM outbox_published o
                     WHERE o.id >= (l.id << 48) + max(?2, 1)
                       AND o.id < (l.id << 48) + min(1 << 48, ?3 + ifnull(
                           l.name < (SELECT a.name FROM lane a WHERE a.id = ?4), 0))
                     ORDER BY o.id DESC LIMIT ?5)
     ORDER BY 3 DESC, 2 DESC LIMIT ?5)
SELECT p.name, t.tenant, t.name, e.seq, p.position, coalesce(a.name, y.name), 5, e.recorded,
       p.published, p.lane
  FROM page p
  LEFT JOIN event e ON e.position = p.position
  LEFT JOIN stream t ON t.id = e.stream
  LEFT JOIN event_type y ON y.id = e.type
  LEFT JOIN event_type a ON a.id = y.alias_of
 ORDER BY p.position DESC, p.name DESC;

-- name: row_count
-- Queued rows, rows in flight and retry rows by status; the number of blocked rows and the oldest of
-- them. Retry rows of all tenants are counted as they change; those of one tenant are read. The oldest
-- blocked row is the first one after a dead row; if dead rows are many, the first pending one that has
-- a dead row before it, which is not far then.
-- binds: 1 query.lane text, 2 query.any_tenant bool, 3 query.tenant text, 4 now int
-- from: query ef_outbox_query
-- row ef_outbox_summary: processing int, pending int, failed int, dead int, blocked int,
--        blocked_oldest_us int
WITH in_flight(lane, partition, acked, upto) AS (
    SELECT m.lane, m.partition, m.position, m.in_flight
      FROM lane_offset m JOIN lane l ON l.id = m.lane
      JOIN lease h ON h.kind = CASE l.kind WHEN 2 THEN 1 ELSE 0 END
       AND h.name = CASE l.kind WHEN 2 THEN l.name ELSE '' END
       AND h.partition = m.partition AND h.token = m.in_flight_token
     WHERE m.in_flight > m.position AND lease_live(h.owner, h.until, h.updated, ?4)),
retry(pending, failed, dead, blocked) AS (
    SELECT ifnull(sum(c.pending), 0), ifnull(sum(c.failed), 0), ifnull(sum(c.dead), 0),
           ifnull(sum(c.blocked), 0)
      FROM lane l CROSS JOIN retry_count c WHERE ?2 AND ?1 IN ('', l.name) AND c.lane = l.id
    HAVING ?2
    UNION ALL
    SELECT ifnull(sum(x.status = 0), 0), ifnull(sum(x.status = 2), 0), ifnull(sum(x.status = 3), 0),
           ifnull(sum(x.status = 0 AND EXISTS (
               SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                WHERE d.lane = x.lane AND d.stream = x.stream AND d.status = 3
                  AND d.seq < x.seq)), 0)
      FROM lane l CROSS JOIN retry_row x
     WHERE NOT ?2 AND ?1 IN ('', l.name) AND x.lane = l.id
       AND (SELECT t.tenant FROM stream t WHERE t.id = x.stream) = ?3
    HAVING NOT ?2),
counts(queued, claimed) AS (
    SELECT CASE WHEN ?2 THEN (
               SELECT count(*) FROM lane l CROSS JOIN outbox_queue o
                WHERE ?1 IN ('', l.name) AND o.id > l.id << 48 AND o.id < (l.id + 1) << 48)
           ELSE (SELECT count(*) FROM lane l CROSS JOIN outbox_queue o
                  WHERE ?1 IN ('', l.name) AND o.id > l.id << 48 AND o.id < (l.id + 1) << 48
                    AND (SELECT t.tenant FROM event e JOIN stream t ON t.id = e.stream
                          WHERE e.position = o.id & 0xffffffffffff) = ?3) END,
           (SELECT count(*)
              FROM in_flight h JOIN lane l ON l.id = h.lane CROSS JOIN outbox_queue o
             WHERE ?1 IN ('', l.name) AND o.id > (h.lane << 48 | h.acked)
               AND o.id <= (h.lane << 48 | h.upto) AND +o.partition = h.partition
               AND (?2 OR (SELECT t.tenant FROM event e JOIN stream t ON t.id = e.stream
                            WHERE e.position = o.id & 0xffffffffffff) = ?3))),
blocked(position) AS (
    SELECT CASE WHEN r.blocked = 0 THEN 0 WHEN r.dead < 10000 THEN (
               SELECT min((SELECT CASE x.status WHEN 0 THEN x.position END
                             FROM retry_row x INDEXED BY retry_row_of_stream
                            WHERE x.lane = d.lane AND x.stream = d.stream AND x.seq > d.seq
                              AND x.status <> 2 ORDER BY x.seq LIMIT 1))
                 FROM lane l CROSS JOIN retry_row d INDEXED BY retry_row_dead
                WHERE ?1 IN ('', l.name) AND d.lane = l.id AND d.status = 3
                  AND (?2 OR (SELECT t.tenant FROM stream t WHERE t.id = d.stream) = ?3))
           ELSE (
               SELECT min((SELECT x.position FROM retry_row x INDEXED BY retry_row_of_status
                            WHERE x.status = 0 AND x.lane = l.id
                              AND (?2 OR (SELECT t.tenant FROM stream t WHERE t.id = x.stream) = ?3)
                              AND EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                                           WHERE d.lane = x.lane AND d.stream = x.stream
                                             AND d.status = 3 AND d.seq < x.seq)
                            ORDER BY x.position LIMIT 1))
                 FROM lane l WHERE ?1 IN ('', l.name)) END
      FROM retry r)
SELECT c.claimed, c.queued - c.claimed + r.pending, r.failed, r.dead, r.blocked,
       (SELECT e.recorded FROM event e WHERE e.position = b.position)
  FROM counts c, retry r, blocked b;

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
