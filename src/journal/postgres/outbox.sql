-- The outbox: queued rows, lane offsets, retry rows, published rows. Batches are arrays.
--
-- A dead retry row is never flagged to be skipped (a skip makes it pending, and it does not die after
-- that): so the status alone distinguishes the row that blocks a stream from rows that can be claimed.

-- name: published_acked
-- Records the rows that outbox_delete_acked is about to delete, except those with a retry row.
-- binds: 1 lane int, 2 offsets int[], 3 lowest int, 4 highest int (as in outbox_delete_acked), 5
--        now int
INSERT INTO everfold.outbox_published(lane, position, published)
SELECT o.lane, o.position, $5
  FROM everfold.lane l
  JOIN everfold.outbox o ON o.lane = l.id
 WHERE l.id = $1 AND l.retain > 0 AND o.position > $3 AND o.position <= $4
   AND o.position <= $2[o.partition + 1]
   AND NOT EXISTS (SELECT FROM everfold.retry_row x
                    WHERE x.lane = o.lane AND x.position = o.position)
    ON CONFLICT (lane, position) DO UPDATE SET published = excluded.published;

-- name: published_put
-- Retry rows that were published.
-- binds: 1 lane int, 2 positions int[], 3 now int
INSERT INTO everfold.outbox_published(lane, position, published)
SELECT DISTINCT l.id, u.position, $3::bigint FROM everfold.lane l, unnest($2) AS u(position)
 WHERE l.id = $1 AND l.retain > 0
    ON CONFLICT (lane, position) DO UPDATE SET published = excluded.published;

-- name: published_purge
-- Deletes the expired ones among the oldest `limit` entries.
-- binds: 1 lane int, 2 limit int, 3 now clock
DELETE FROM everfold.outbox_published d
 USING (SELECT p.lane, p.position, p.published FROM everfold.outbox_published p
         WHERE p.lane = $1 ORDER BY p.position LIMIT $2) f, everfold.lane l
 WHERE l.id = $1 AND d.lane = f.lane AND d.position = f.position
   AND f.published < everfold.clock_us($3) - l.retain
RETURNING d.position;

-- name: published_drain
-- only: postgres SQLite has published_first and published_delete
-- Deletes and returns the oldest entries.
-- binds: 1 lane int, 2 limit int
-- rows: position int, stream int, seq int, tenant text, name text, has_retry_row bool
WITH first AS (SELECT p.position FROM everfold.outbox_published p
                WHERE p.lane = $1 ORDER BY p.position LIMIT $2),
drained AS (DELETE FROM everfold.outbox_published d USING first f
          WHERE d.lane = $1 AND d.position = f.position RETURNING d.position)
SELECT g.position, e.stream, e.seq, s.tenant, s.name,
       EXISTS (SELECT FROM everfold.retry_row x
                WHERE x.lane = $1 AND x.position = g.position)
  FROM drained g
  JOIN everfold.event e ON e.position = g.position
  JOIN everfold.stream s ON s.id = e.stream
 ORDER BY g.position;

-- name: published_before
-- What lanes have published, newest first, from a position on. Each lane is read along its key, and
-- events are looked up one by one, only for the rows that are returned.
-- binds: 1 page.lane text (name, or '' for all), 2 page.from int, 3 page.after int (positions),
--        4 page.after_lane int (of the lane that precedes at that position), 5 page.limit int
-- from: page ef__row_page
-- list ef__listed_row: row.lane text, row.tenant text, row.stream text, row.seq int, row.position int,
--        row.event_type text, row.status int, row.blocked bool, row.skip bool, row.partition int,
--        row.attempt_count int, row.next_attempt_us int, row.last_error text, row.enqueued_us int,
--        row.updated_us int, lane_id int
SELECT r.name, e.tenant, e.stream, e.seq, r.position, e.type, 5 AS status, false AS blocked,
       false AS skip, 0 AS partition, 0 AS attempts, 0::bigint AS due, '' AS error,
       e.recorded AS enqueued, r.published AS updated, r.id AS lane_id
  FROM (SELECT l.id, l.name, p.position, p.published
          FROM (SELECT a.id, a.name FROM everfold.lane a
                 WHERE a.kind = 2 AND ($1 = '' OR a.name = $1) OFFSET 0) l
         CROSS JOIN LATERAL (
               SELECT o.position, o.published FROM everfold.outbox_published o
                WHERE o.lane = l.id AND o.position >= $2 AND o.position <= $3
                  AND (o.position < $3 OR l.name < (
                          SELECT a.name FROM everfold.lane a WHERE a.id = $4))
                ORDER BY o.position DESC LIMIT $5) p
         ORDER BY p.position DESC, l.name DESC LIMIT $5) r
 CROSS JOIN LATERAL (
       SELECT x.tenant, x.stream, x.seq, x.type, x.recorded FROM everfold.log x
        WHERE x.position = r.position OFFSET 0) e
 ORDER BY r.position DESC, r.name DESC;

-- name: published_count
-- binds: 1 lane text, 2 most int
-- row: kind int, count int
SELECT l.kind, (SELECT count(*) FROM (SELECT FROM everfold.outbox_published p
                                       WHERE p.lane = l.id LIMIT $2) c)
  FROM everfold.lane l WHERE l.name = $1;

-- name: retry_row_before
-- Which events are blocked: their stream has a retry row before them.
-- binds: 1 lane int, 2 positions int[]
-- rows: position int
SELECT u.position FROM unnest($2) AS u(position) JOIN everfold.event e ON e.position = u.position
 WHERE EXISTS (SELECT FROM everfold.retry_row x
                WHERE x.lane = $1 AND x.stream = e.stream AND x.seq < e.seq);

-- name: outbox_claim
-- only: postgres SQLite steps through outbox_after and reads each event
-- The queued rows of a lane in some partitions in order of position, with the events. Rows are above
-- the offsets, so the lowest offset is only where to start. An event above the byte limit comes
-- without its data. The names of an event are looked up in one subquery: the server caches its results.
-- binds: 1 lane int, 2 partitions int[], 3 limit int, 4 bytes int (limit of an event), 5 after int
-- rows: by hand
SELECT e.position, n.tenant, n.stream, e.seq, e.id, n.stored_type, n.type, e.schema, e.time,
       e.recorded, CASE WHEN octet_length(e.data) + octet_length(e.meta) <= $4 THEN e.data END,
       e.meta, e.sum, e.hash, o.partition
  FROM (SELECT q.position, q.partition FROM everfold.outbox q
         WHERE q.lane = $1 AND q.partition = ANY ($2)
           AND q.position > (SELECT greatest(min(coalesce(m.position, 0)), $5)
                               FROM unnest($2) AS h(partition)
                               LEFT JOIN LATERAL (
                                    SELECT * FROM everfold.lane_offset x
                                     WHERE x.lane = $1 AND x.partition = h.partition
                                     ORDER BY x.change DESC LIMIT 1) m ON true)
         ORDER BY q.position LIMIT $3) o
 CROSS JOIN LATERAL (
       SELECT * FROM everfold.event x WHERE x.position = o.position OFFSET 0) e
 CROSS JOIN LATERAL (
       SELECT s.tenant, s.name AS stream, t.name AS stored_type, coalesce(a.name, t.name) AS type
         FROM everfold.stream s, everfold.event_type t
         LEFT JOIN everfold.event_type a ON a.id = t.alias_of
        WHERE s.id = e.stream AND t.id = e.type OFFSET 0) n
 ORDER BY o.position;

-- name: outbox_claim_bounded
-- only: postgres SQLite steps through outbox_after and reads each event
-- The same where events are large: events beyond the byte limit of a batch come without data. Adding
-- up the bytes costs half as much again.
-- binds: as outbox_claim
-- rows: by hand
SELECT e.position, e.tenant, e.stream, e.seq, e.id, e.stored_type, e.type, e.schema, e.time,
       e.recorded, CASE WHEN e.bytes <= $4 THEN e.data END, e.meta, e.sum, e.hash, e.partition
  FROM (SELECT l.*, o.partition, coalesce(sum(octet_length(l.data) + octet_length(l.meta))
               OVER (ORDER BY o.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
               AS bytes
          FROM (SELECT q.position, q.partition FROM everfold.outbox q
                 WHERE q.lane = $1 AND q.partition = ANY ($2)
                   AND q.position > (SELECT greatest(min(coalesce(m.position, 0)), $5)
                                       FROM unnest($2) AS h(partition)
                                       LEFT JOIN LATERAL (
                                            SELECT * FROM everfold.lane_offset x
                                             WHERE x.lane = $1 AND x.partition = h.partition
                                             ORDER BY x.change DESC LIMIT 1) m ON true)
                 ORDER BY q.position LIMIT $3) o
          JOIN everfold.log l ON l.position = o.position) e
 ORDER BY e.position;

-- name: outbox_claim_suspect
-- only: postgres SQLite steps through outbox_after and reads each event
-- The same for one partition, up to the last row that was in flight when its owner crashed.
-- binds: 1 lane int, 2 partition int, 3 after int, 4 upto int, 5 limit int, 6 bytes int (limit)
-- rows: by hand
SELECT e.position, e.tenant, e.stream, e.seq, e.id, e.stored_type, e.type, e.schema, e.time,
       e.recorded, CASE WHEN e.bytes <= $6 THEN e.data END, e.meta, e.sum, e.hash, e.partition
  FROM (SELECT l.*, o.partition, coalesce(sum(octet_length(l.data) + octet_length(l.meta))
               OVER (ORDER BY o.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
               AS bytes
          FROM (SELECT q.position, q.partition FROM everfold.outbox q
                 WHERE q.lane = $1 AND q.partition = $2 AND q.position > $3 AND q.position <= $4
                 ORDER BY q.position LIMIT $5) o
          JOIN everfold.log l ON l.position = o.position) e
 ORDER BY e.position;

-- name: outbox_has_work
-- Whether anything is queued for "*", or is the first row of its stream in the lane of a projection
-- and not dead.
-- row: has_work bool
SELECT EXISTS (SELECT 1 FROM everfold.lane l JOIN everfold.outbox q ON q.lane = l.id
                WHERE l.kind = 0)
    OR EXISTS (SELECT 1 FROM everfold.lane l JOIN everfold.retry_row x ON x.lane = l.id
                WHERE l.kind = 1 AND x.first AND x.status < 3);

-- name: outbox_delivered
-- only: postgres others read the head and the first row one after the other
-- Every event up to here is acknowledged in "*": up to the first queued row, or all. The first row is
-- looked for above the lowest offset, as in row_after.
-- row: position int
SELECT coalesce((SELECT min(q.position) FROM everfold.outbox q
                  WHERE q.lane = 1
                    AND q.position > (SELECT min(coalesce(m.position, 0))
                                        FROM everfold.state s
                                       CROSS JOIN generate_series(0, s.partitions - 1) AS p(number)
                                        LEFT JOIN LATERAL (
                                             SELECT * FROM everfold.lane_offset x
                                              WHERE x.lane = 1 AND x.partition = p.number
                                              ORDER BY x.change DESC LIMIT 1) m ON true)) - 1,
                (SELECT max(e.position) FROM everfold.event e), 0);

-- name: lane_offset_get
-- The lease of each partition is locked. Of a partition the row with the highest number of changes is read,
-- by a search from the end of the index: a row that is updated for every batch has a version for each change
-- that a held snapshot may still read, and versions before the last one are not visited.
-- binds: 1 lane int, 2 partitions int[]
-- rows pg_offset_row: partition int, offset.position int, offset.in_flight int,
--        offset.in_flight_token int, offset.suspect int
SELECT m.partition, m.position, m.in_flight, m.in_flight_token, m.suspect
  FROM unnest($2) AS h(partition)
 CROSS JOIN LATERAL (
       SELECT * FROM everfold.lane_offset x WHERE x.lane = $1 AND x.partition = h.partition
        ORDER BY x.change DESC LIMIT 1) m;

-- name: lane_offset_put
-- binds: 1 lane int, 2 partitions int[], 3 positions int[], 4 in_flight int[], 5 in_flight_tokens
--        int[], 6 suspects int[], 7 now clock
WITH given AS MATERIALIZED (
    SELECT u.*, everfold.clock_us($7) AS now,
           (SELECT x.change FROM everfold.lane_offset x
             WHERE x.lane = $1 AND x.partition = u.partition ORDER BY x.change DESC LIMIT 1) AS change
      FROM unnest($2, $3, $4, $5, $6) AS u(partition, position, in_flight, token, suspect)),
changed AS (
    UPDATE everfold.lane_offset m
       SET change = m.change + 1, position = g.position, in_flight = g.in_flight,
           in_flight_token = g.token, suspect = g.suspect, updated = g.now
      FROM given g
     WHERE m.lane = $1 AND m.partition = g.partition AND m.change = g.change)
INSERT INTO everfold.lane_offset(lane, partition, position, in_flight, in_flight_token, suspect,
                                 updated, change)
SELECT $1::integer, g.partition::integer, g.position, g.in_flight, g.token, g.suspect, g.now, 0
  FROM given g WHERE g.change IS NULL;

-- name: outbox_delete_acked
-- Deletes the rows that the offsets have just moved past, in all partitions at once. Queued rows are
-- always above the offset of their partition, so rows at or below it are acknowledged. The offsets are
-- a parameter, because looking up the offset of each row costs more than deleting the row.
-- binds: 1 lane int, 2 offsets int[] (of the partitions from 0 on, 0 where nothing is to be
--        deleted), 3 lowest int (offset before), 4 highest int (offset now)
DELETE FROM everfold.outbox o
 WHERE o.lane = $1 AND o.position > $3 AND o.position <= $4 AND o.position <= $2[o.partition + 1];

-- name: retry_row_due
-- The due retry rows that are the first of their stream in their lane, with the pending rows after
-- them in the space that the first ones leave; a row above the limit is the last one. The index by due
-- time has only first rows that are not dead, so that others do not slow this down. A row that another
-- transaction is changing (a skip, say) is left to the next poll, with the rows after it.
-- binds: 1 lane int (or 0 for the lanes of all projections), 2 partitions int[], 3 now int, 4 limit
--        int, 5 bytes int (limit)
-- rows: by hand
WITH due AS (
    SELECT x.*, l.name AS lane_name
      FROM everfold.lane l
      JOIN LATERAL (SELECT * FROM everfold.retry_row x
                     WHERE x.lane = l.id AND x.first AND x.status < 3 AND x.due <= $3
                       AND x.partition = ANY ($2)
                     ORDER BY x.due, x.position LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED) x ON true
     WHERE CASE $1 WHEN 0 THEN l.kind = 1 ELSE l.id = $1 END
     ORDER BY l.name, x.due, x.position LIMIT $4),
run AS (
    SELECT d.lane_name, d.due AS head_due, d.position AS head, b.*, b.position > d.position AS follows
      FROM due d
      JOIN LATERAL (
          SELECT y.*, bool_and(y.position = d.position OR (y.status = 0 AND y.partition = ANY ($2)))
                      OVER (ORDER BY y.seq) AS open
            FROM everfold.retry_row y
           WHERE y.lane = d.lane AND y.stream = d.stream AND y.seq >= d.seq
           ORDER BY y.seq LIMIT $4 + 1 - (SELECT count(*) FROM due)) b ON b.open),
cut AS (
    SELECT *, row_number() OVER (ORDER BY follows, lane_name, head_due, head, seq) = $4 AS exceeds
      FROM run ORDER BY follows, lane_name, head_due, head, seq LIMIT $4)
SELECT e.position, e.tenant, e.stream, e.seq, e.id, e.stored_type, e.type, e.schema, e.time,
       e.recorded, CASE WHEN e.bytes <= $5 THEN e.data END, e.meta, e.sum, e.hash, e.partition,
       e.lane_name, e.attempts, e.skip, e.follows, CASE WHEN e.follows THEN '' ELSE e.error END,
       e.filed, e.trying AND NOT e.follows
  FROM (SELECT l.*, c.partition, c.lane_name, c.attempts, c.skip, c.follows, c.error, c.filed,
               c.trying, c.head_due, c.head, c.exceeds,
               coalesce(sum(octet_length(l.data) + octet_length(l.meta))
                   OVER (ORDER BY c.exceeds, c.lane_name, c.head_due, c.head, c.seq
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes
          FROM cut c JOIN everfold.log l ON l.position = c.position) e
 ORDER BY e.exceeds, e.lane_name, e.head_due, e.head, e.seq;

-- name: retry_row_next_due
-- When the next of them is due, by the same index.
-- binds: 1 lane int (or 0 for the lanes of all projections), 2 partitions int[], 3 now int
-- row: due int
SELECT coalesce(min(x.due), 0)
  FROM everfold.lane l
  JOIN LATERAL (SELECT x.due FROM everfold.retry_row x
                 WHERE x.lane = l.id AND x.first AND x.status < 3 AND x.due > $3
                   AND x.partition = ANY ($2)
                 ORDER BY x.due LIMIT 1) x ON true
 WHERE CASE $1 WHEN 0 THEN l.kind = 1 ELSE l.id = $1 END;

-- name: retry_row_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- Which row of a stream is the first depends on all of its rows. A transaction that changes rows of any
-- partition excludes all others.
LOCK TABLE everfold.retry_row_lock IN EXCLUSIVE MODE;

-- name: retry_row_lock_shared
-- only: postgres SQLite has one writer at a time, which needs no lock
-- A worker changes only rows of partitions whose leases it holds, beside workers with other leases …
LOCK TABLE everfold.retry_row_lock IN ROW SHARE MODE;

-- name: retry_row_lock_partitions
-- only: postgres SQLite has one writer at a time, which needs no lock
-- … and excludes others from its partitions. A row that exists is locked and not changed.
-- binds: 1 lane int (of a publisher, or 0 for the lanes of all projections), 2 partitions int[]
INSERT INTO everfold.retry_row_partition(lane, partition)
SELECT $1::integer, u.partition::integer FROM unnest($2) AS u(partition) ORDER BY u.partition
    ON CONFLICT (lane, partition) DO UPDATE SET lane = excluded.lane WHERE false;

-- name: retry_row_lookup
-- Reads the rows needed to write retry rows: the event, its row in the acknowledged lane, and the existing
-- retry row.
-- binds: 1 positions int[], 2 lanes int[] (of the retry rows), 3 lane int (that is acknowledged)
-- rows ef__acked_event: stream int?, seq int, tenant text, name text, queued_in int?,
--        filed_in int?, row.status int, row.skip bool, row.attempts int, row.due_us int,
--        row.error text, row.updated_us int, row.filed int, partitions int, row.trying bool
SELECT e.stream, e.seq, s.tenant, s.name, o.partition, x.partition, x.status, x.skip, x.attempts,
       x.due, x.error, x.updated, x.filed, t.partitions, x.trying
  FROM everfold.state t, unnest($1, $2) WITH ORDINALITY AS u(position, lane, n)
  LEFT JOIN everfold.event e ON e.position = u.position
  LEFT JOIN everfold.stream s ON s.id = e.stream
  LEFT JOIN everfold.outbox o ON o.lane = $3 AND o.position = u.position
  LEFT JOIN everfold.retry_row x ON x.lane = u.lane AND x.position = u.position
 ORDER BY u.n;

-- name: retry_row_put
-- only: postgres SQLite has retry_row_insert and retry_row_update
-- binds: 1 lanes int[], 2 positions int[], 3 partitions int[], 4 streams int[], 5 seqs int[], 6
--        statuses int[], 7 skips int[] (0, 1), 8 attempts int[], 9 dues int[], 10 errors text[], 11
--        updated int[], 12 filed int[], 13 trying int[] (0, 1)
INSERT INTO everfold.retry_row(lane, position, partition, stream, seq, status, skip, first,
                                      attempts, due, error, updated, filed, trying)
SELECT u.lane::integer, u.position, u.partition::integer, u.stream, u.seq, u.status::integer,
       u.skip = 1, false, u.attempts::integer, u.due, u.error, u.updated, u.filed, u.trying = 1
  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
       AS u(lane, position, partition, stream, seq, status, skip, attempts, due, error, updated,
            filed, trying)
    ON CONFLICT (lane, position)
    DO UPDATE SET status = excluded.status, skip = excluded.skip, attempts = excluded.attempts,
                  due = excluded.due, error = excluded.error, updated = excluded.updated,
                  filed = excluded.filed, trying = excluded.trying;

-- name: retry_row_delete
-- binds: 1 lanes int[], 2 positions int[]
DELETE FROM everfold.retry_row x USING unnest($1, $2) AS u(lane, position)
 WHERE x.lane = u.lane AND x.position = u.position;

-- name: retry_row_set_first
-- Recomputes which retry row is the first of its stream in its lane, after rows were added or deleted.
-- binds: 1 lanes int[], 2 streams int[]
UPDATE everfold.retry_row x SET first = x.position = h.position
  FROM (SELECT t.lane, t.stream, f.position
          FROM (SELECT DISTINCT u.lane, u.stream FROM unnest($1, $2) AS u(lane, stream)) t
          JOIN LATERAL (SELECT position FROM everfold.retry_row f
                         WHERE f.lane = t.lane AND f.stream = t.stream ORDER BY f.seq LIMIT 1) f
            ON true) h
 WHERE x.lane = h.lane AND x.stream = h.stream AND x.first <> (x.position = h.position);

-- name: retry_row_from_queue
-- only: postgres SQLite reads and writes one row per statement
-- A queued row of a publisher becomes a retry row when it is skipped.
-- binds: 1 lanes text[] (names), 2 positions int[], 3 now int
-- rows: lane int, stream int
WITH queued AS (
    DELETE FROM everfold.outbox q
     USING unnest($1, $2) AS u(lane, position) JOIN everfold.lane l ON l.name = u.lane
     WHERE l.kind = 2 AND q.lane = l.id AND q.position = u.position
    RETURNING q.lane, q.position, q.partition)
INSERT INTO everfold.retry_row(lane, position, partition, stream, seq, status, skip, first,
                                      attempts, due, error, updated, filed, trying)
SELECT q.lane, q.position, q.partition, e.stream, e.seq, 0, false, false, 0, $3, '', $3, 0, false
  FROM queued q JOIN everfold.event e ON e.position = q.position
    ON CONFLICT DO NOTHING
RETURNING lane, stream;

-- name: retry_row_revise
-- only: postgres SQLite reads and writes one row per statement
-- An action of an operator on rows: 0 requeue (dead ones), 1 skip, 2 replay. A dead row becomes
-- pending.
-- binds: 1 lanes text[] (names), 2 positions int[], 3 action int, 4 now int
-- rows: lane int, position int
UPDATE everfold.retry_row x
   SET status = CASE WHEN $3 <> 2 OR x.status = 3 THEN 0 ELSE x.status END,
       skip = $3 = 1 OR (x.skip AND $3 = 2),
       attempts = CASE $3 WHEN 0 THEN 0 ELSE x.attempts END,
       error = CASE $3 WHEN 0 THEN '' ELSE x.error END,
       due = $4, updated = $4, trying = false
  FROM unnest($1, $2) AS u(lane, position) JOIN everfold.lane l ON l.name = u.lane
 WHERE x.lane = l.id AND x.position = u.position AND ($3 <> 0 OR x.status = 3)
RETURNING x.lane, x.position;

-- name: skip_insert_of_rows
-- only: postgres SQLite reads and writes one row per statement
-- The same for events that have a retry row, by their positions.
-- binds: 1 projections text[], 2 versions int[], 3 positions int[], 4 actor text, 5 reason text, 6
--        now int
INSERT INTO everfold.skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT u.projection, u.version::integer, e.tenant, e.stream, e.seq, $4, $5, $6, false
  FROM unnest($1, $2, $3) AS u(projection, version, position)
  JOIN everfold.log e ON e.position = u.position
  JOIN everfold.lane l ON l.name = u.projection
  JOIN everfold.retry_row x ON x.lane = l.id AND x.position = u.position
 ORDER BY u.position, u.version;

-- name: skip_insert
-- binds: 1 entry.projection text, 2 entry.version int, 3 entry.tenant text, 4 entry.stream text, 5
--        entry.seq int, 6 entry.actor text, 7 entry.reason text, 8 now clock
-- from: entry ef__skip_entry
INSERT INTO everfold.skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
VALUES ($1, $2::integer, $3, $4, $5, $6, $7, everfold.clock_us($8), false);

-- name: skip_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- Readers continue after the last entry that they know, so entries are committed in order of id.
LOCK TABLE everfold.skip_lock IN EXCLUSIVE MODE;

-- name: skip_withdraw
-- Adds entries that withdraw the last one about each event, for each version that has one.
-- binds: 1 lanes int[], 2 streams int[], 3 seqs int[], 4 now int
INSERT INTO everfold.skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT s.projection, s.version, s.tenant, s.stream, s.seq, s.actor, s.reason, $4, true
  FROM unnest($1, $2, $3) AS u(lane, stream, seq)
  JOIN everfold.lane l ON l.id = u.lane
  JOIN everfold.stream t ON t.id = u.stream
  JOIN everfold.skip s ON s.projection = l.name AND s.tenant = t.tenant AND s.stream = t.name
   AND s.seq = u.seq AND NOT s.withdrawn
 WHERE NOT EXISTS (SELECT FROM everfold.skip n
                    WHERE n.projection = s.projection AND n.tenant = s.tenant
                      AND n.stream = s.stream AND n.seq = s.seq AND n.version = s.version
                      AND n.id > s.id);

-- name: skip_after
-- binds: 1 projection text, 2 version int, 3 after int, 4 limit int
-- list ef__skip: id int, tenant text, stream text, seq int, withdrawn bool
SELECT id, tenant, stream, seq, withdrawn FROM everfold.skip
 WHERE projection = $1 AND version = $2 AND id > $3 ORDER BY id LIMIT $4;

-- name: retry_streams
-- Streams with retry rows in a lane, in order of their first row.
-- binds: 1 query.lane text, 2 query.after int, 3 query.any_tenant bool, 4 query.tenant text, 5
--        query.above_seq int, 6 query.counts bool, 7 query.limit int
-- from: query ef__retry_query
-- list ef__retry_stream: tenant text, stream text, seq int, position int, status int, error text,
--        last_seq int, rows int
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM everfold.retry_row r
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN $6 THEN (SELECT count(*) FROM everfold.retry_row r
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > $5) ELSE 0 END
  FROM everfold.retry_row x
  JOIN everfold.stream s ON s.id = x.stream
 WHERE x.lane = (SELECT l.id FROM everfold.lane l WHERE l.name = $1) AND x.first
   AND x.position > $2 AND ($3 OR s.tenant = $4)
 ORDER BY x.position LIMIT $7;

-- name: retry_stream
-- The same for one stream: one row, or none.
-- binds: 1 query.lane text, 2 query.tenant text, 3 query.stream text, 4 query.above_seq int, 5
--        query.counts bool
-- from: query ef__retry_query
-- list: as retry_streams
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM everfold.retry_row r
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN $5 THEN (SELECT count(*) FROM everfold.retry_row r
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > $4) ELSE 0 END
  FROM everfold.stream s
  JOIN everfold.retry_row x ON x.stream = s.id
 WHERE s.tenant = $2 AND s.name = $3
   AND x.lane = (SELECT l.id FROM everfold.lane l WHERE l.name = $1)
 ORDER BY x.seq LIMIT 1;

-- name: retry_row_details
-- only: postgres SQLite lists one row by row_after
-- binds: 1 lanes int[], 2 positions int[]
-- list ef__listed_row: row.lane text, row.tenant text, row.stream text, row.seq int, row.position int,
--        row.event_type text, row.status int, row.blocked bool, row.skip bool, row.partition int,
--        row.attempt_count int, row.next_attempt_us int, row.last_error text, row.enqueued_us int,
--        row.updated_us int, lane_id int, row.filed int, row.trying bool
SELECT r.lane, r.tenant, r.stream, r.seq, r.position, r.type, r.status, r.blocked, r.skip,
       r.partition, r.attempts, r.due, r.error, r.enqueued, r.updated, r.lane_id,
       r.filed, r.trying
  FROM unnest($1, $2) AS u(lane, position)
  JOIN everfold.retry_row_detail r ON r.lane_id = u.lane AND r.position = u.position
 ORDER BY r.position, r.lane;

-- name: row_after
-- Rows in order of position and lane, from a place on. Each lane is read along its index, starting at
-- its lowest offset: deleted rows below it are not visited until they are vacuumed.
-- binds: 1 page.lane text (name, or '' for all), 2 page.any_tenant bool, 3 page.tenant text,
--        4 page.status int (or -1 for all), 5 page.show int (see ef__row_show), 6 page.from int,
--        7 page.after int (positions), 8 page.after_lane int (id of the last lane at that
--        position), 9 page.limit int, 10 page.now_us int
-- from: page ef__row_page
-- list: as retry_row_details
SELECT r.lane, r.tenant, r.stream, r.seq, r.position, r.type, r.status, r.blocked, r.skip,
       r.partition, r.attempts, r.due, r.error, r.enqueued, r.updated, r.lane_id,
       r.filed, r.trying
  FROM (SELECT a.id, a.name,
               (SELECT min(coalesce(m.position, 0))
                  FROM everfold.state s
                 CROSS JOIN generate_series(
                       0, CASE a.kind WHEN 2 THEN 16 ELSE s.partitions END - 1) AS p(number)
                  LEFT JOIN everfold.lane_offset m ON m.lane = a.id AND m.partition = p.number) AS lowest
          FROM everfold.lane a
         WHERE $1 = '' OR a.name = $1 OFFSET 0) l
  JOIN LATERAL (
      (SELECT l.name AS lane, e.tenant, e.stream, e.seq, q.position, e.type,
              (q.position <= coalesce(h.upto, 0))::integer AS status, false AS blocked,
              false AS skip, q.partition, 0 AS attempts, 0::bigint AS due, '' AS error,
              e.recorded AS enqueued, e.recorded AS updated, l.id AS lane_id,
              0::bigint AS filed, false AS trying
         FROM everfold.outbox q
         JOIN everfold.log e ON e.position = q.position
         LEFT JOIN everfold.in_flight($10) h ON h.lane = q.lane AND h.partition = q.partition
        WHERE q.lane = l.id AND q.position >= $6 AND q.position > l.lowest
          AND (q.position > $7 OR (q.position = $7 AND l.name > (
                  SELECT a.name FROM everfold.lane a WHERE a.id = $8)))
          AND ($2 OR e.tenant = $3) AND $5 <> 1 AND $4 IN (-1, 0, 1)
          AND ($4 < 0 OR (q.position <= coalesce(h.upto, 0))::integer = $4)
          AND ($5 <> 2 OR q.position > coalesce(h.upto, 0))
        ORDER BY q.position LIMIT $9)
      UNION ALL
      (SELECT x.lane, x.tenant, x.stream, x.seq, x.position, x.type, x.status, x.blocked, x.skip,
              x.partition, x.attempts, x.due, x.error, x.enqueued, x.updated, x.lane_id,
              x.filed, x.trying
         FROM everfold.retry_row_detail x
        WHERE x.lane_id = l.id AND x.position >= $6
          AND (x.position > $7 OR (x.position = $7 AND l.name > (
                  SELECT a.name FROM everfold.lane a WHERE a.id = $8)))
          AND ($2 OR x.tenant = $3) AND ($4 < 0 OR x.status = $4) AND ($5 <> 1 OR x.blocked)
          AND ($5 <> 2 OR (x.status IN (0, 2) AND NOT x.blocked))
        ORDER BY x.position LIMIT $9)) r ON true
 ORDER BY r.position, r.lane LIMIT $9;

-- name: row_count
-- Queued rows, rows in flight and retry rows by status; the number of blocked rows and the oldest of
-- them. Each lane is counted along its index (OFFSET 0: without it the server may look up the lane of
-- every row). Rows in flight are read in one range for all partitions of a lane, as in
-- outbox_delete_acked.
-- binds: 1 query.lane text, 2 query.any_tenant bool, 3 query.tenant text, 4 now int
-- from: query ef_outbox_query
-- row ef_outbox_summary: processing int, pending int, failed int, dead int, blocked int,
--        blocked_oldest_us int
WITH lanes AS MATERIALIZED (
    SELECT a.id, (SELECT min(coalesce(m.position, 0))
                    FROM everfold.state s
                   CROSS JOIN generate_series(
                         0, CASE a.kind WHEN 2 THEN 16 ELSE s.partitions END - 1) AS p(number)
                    LEFT JOIN everfold.lane_offset m
                           ON m.lane = a.id AND m.partition = p.number) AS lowest
      FROM everfold.lane a WHERE $1 = '' OR a.name = $1),
queued AS (
    SELECT coalesce(sum(c.n), 0)::bigint AS n
      FROM lanes l
     CROSS JOIN LATERAL (
           SELECT count(*) AS n
             FROM (SELECT q.position FROM everfold.outbox q
                    WHERE q.lane = l.id AND q.position > l.lowest OFFSET 0) q
            WHERE $2 OR (SELECT s.tenant = $3
                           FROM everfold.event e JOIN everfold.stream s ON s.id = e.stream
                          WHERE e.position = q.position)) c),
claimed AS MATERIALIZED (
    SELECT h.* FROM everfold.in_flight($4) h WHERE h.lane IN (SELECT id FROM lanes)),
reach AS (
    SELECT l.lane, u.acked, u.upto, u.uptos
      FROM (SELECT lane, max(partition) AS last FROM claimed GROUP BY lane) l
     CROSS JOIN LATERAL (
           SELECT min(p.acked) AS acked, max(p.upto) AS upto,
                  array_agg(p.upto ORDER BY p.partition) AS uptos
             FROM (SELECT a.partition, min(a.acked) AS acked, max(a.upto) AS upto
                     FROM (SELECT h.partition, h.acked, h.upto FROM claimed h WHERE h.lane = l.lane
                           UNION ALL
                           SELECT n, NULL, 0 FROM generate_series(0, l.last) n) a
                    GROUP BY a.partition) p) u),
in_flight AS (
    SELECT coalesce(sum(c.n), 0)::bigint AS n
      FROM reach r
     CROSS JOIN LATERAL (
           SELECT count(*) AS n
             FROM (SELECT q.position FROM everfold.outbox q
                    WHERE q.lane = r.lane AND q.position > r.acked AND q.position <= r.upto
                      AND q.position <= r.uptos[q.partition + 1] OFFSET 0) q
            WHERE $2 OR (SELECT s.tenant = $3
                           FROM everfold.event e JOIN everfold.stream s ON s.id = e.stream
                          WHERE e.position = q.position)) c),
filed AS (
    SELECT count(*) FILTER (WHERE x.status = 0) AS pending,
           count(*) FILTER (WHERE x.status = 2) AS failed,
           count(*) FILTER (WHERE x.status = 3) AS dead
      FROM lanes l
     CROSS JOIN LATERAL (
           SELECT * FROM everfold.retry_row f WHERE f.lane = l.id OFFSET 0) x
      JOIN everfold.stream s ON s.id = x.stream
     WHERE $2 OR s.tenant = $3),
blocked AS (
    SELECT count(*) AS n, coalesce(min(e.recorded), 0) AS oldest
      FROM lanes l
     CROSS JOIN LATERAL (SELECT * FROM everfold.retry_row p
                          WHERE p.status = 0 AND p.lane = l.id OFFSET 0) x
      JOIN everfold.stream s ON s.id = x.stream
      JOIN everfold.event e ON e.position = x.position
     WHERE ($2 OR s.tenant = $3)
       AND EXISTS (SELECT FROM everfold.retry_row d WHERE d.lane = x.lane
                      AND d.stream = x.stream AND d.seq < x.seq AND d.status = 3))
SELECT h.n, q.n - h.n + f.pending, f.failed, f.dead, b.n, b.oldest
  FROM queued q, in_flight h, filed f, blocked b;
