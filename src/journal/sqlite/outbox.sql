-- only: sqlite one row a statement: a call costs no trip
-- The outbox: lanes, queued rows, marks, exceptions, operators' acts.
--
-- A dead exception is never marked to be skipped (skipping makes it pending, and it does not die
-- after that): so status alone tells what blocks a stream from what is to be taken.

-- name: lane_by_name
-- binds: 1 name
SELECT id, kind, enabled, retain FROM lane WHERE name = ?1;

-- name: lane_in_order
SELECT id, name, kind, enabled, types, settings, retain, progress FROM lane ORDER BY name;

-- name: lane_insert
-- binds: 1 name, 2 kind, 3 enabled, 4 types, 5 settings, 6 retain
INSERT INTO lane(name, kind, enabled, types, settings, retain) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: lane_update
-- binds: 1 name, 2 kind, 3 enabled, 4 types, 5 settings, 6 retain
UPDATE lane SET kind = ?2, enabled = ?3, types = ?4, settings = ?5, retain = ?6 WHERE name = ?1;

-- name: lane_is
-- binds: 1 name, 2 enabled, 3 types, 4 settings, 5 retain
SELECT 1 FROM lane WHERE name = ?1 AND enabled = ?2 AND types = ?3 AND settings = ?4 AND retain = ?5;

-- name: lane_note
-- binds: 1 id, 2 progress
UPDATE lane SET progress = ?2 WHERE id = ?1;

-- name: lane_clear
-- binds: 1 id
UPDATE lane SET enabled = 0, types = '', settings = '', retain = 0, progress = '' WHERE id = ?1;

-- name: lane_rows
-- binds: 1 lane
SELECT (SELECT count(*) FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48)
     + (SELECT count(*) FROM outbox_exception WHERE lane = ?1);

-- name: lane_clear_queue
-- binds: 1 lane
DELETE FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: lane_clear_exceptions
-- binds: 1 lane
DELETE FROM outbox_exception WHERE lane = ?1;

-- name: lane_clear_published
-- binds: 1 lane
DELETE FROM outbox_published WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: lane_clear_hands
-- binds: 1 lane
UPDATE outbox_mark SET hand = 0, suspect = 0 WHERE lane = ?1;

-- name: outbox_after
-- What a lane has queued, in order. The limit is the caller's: it stops stepping.
-- binds: 1 lane, 2 position
SELECT id & 0xffffffffffff, partition FROM outbox_queue
 WHERE id > (?1 << 48 | ?2) AND id < (?1 + 1) << 48 ORDER BY id;

-- name: outbox_after_of_tenant
-- binds: 1 lane, 2 position, 3 tenant
SELECT o.id & 0xffffffffffff, o.partition FROM outbox_queue o
 WHERE o.id > (?1 << 48 | ?2) AND o.id < (?1 + 1) << 48
   AND (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
         WHERE e.position = o.id & 0xffffffffffff) = ?3
 ORDER BY o.id;

-- name: outbox_get
-- binds: 1 lane, 2 position
SELECT partition FROM outbox_queue WHERE id = (?1 << 48 | ?2);

-- name: outbox_delete
-- binds: 1 lane, 2 position
DELETE FROM outbox_queue WHERE id = (?1 << 48 | ?2);

-- name: outbox_drop
-- Drop what the marks have passed, in all partitions at once: rows are always above their mark, so
-- those at or below it are the ones that it has just gone over. is_passed (outbox_mark.c) knows the
-- marks of this moment: to look each up by its row costs more than the row.
-- binds: 1 lane, 2 the lowest mark before, 3 the highest mark now
DELETE FROM outbox_queue
 WHERE id > (?1 << 48 | ?2) AND id <= (?1 << 48 | ?3)
   AND is_passed(partition, id & 0xffffffffffff);

-- name: outbox_waits
-- Is anything queued for "*", or first of its stream in a projection's own lane and not dead?
SELECT EXISTS (SELECT 1 FROM lane l CROSS JOIN outbox_queue o
                WHERE l.kind = 0 AND o.id > l.id << 48 AND o.id < (l.id + 1) << 48)
    OR EXISTS (SELECT 1 FROM lane l
                CROSS JOIN outbox_exception x INDEXED BY outbox_exception_due
                WHERE l.kind = 1 AND x.lane = l.id AND x.first = 1 AND x.status < 3);

-- name: published_passed
-- What outbox_drop is about to drop, but for what has become an exception.
-- binds: 1 lane, 2 the lowest mark before, 3 the highest mark now, 4 now
INSERT OR REPLACE INTO outbox_published(id, published)
SELECT q.id, ?4 FROM outbox_queue q
 WHERE q.id > (?1 << 48 | ?2) AND q.id <= (?1 << 48 | ?3)
   AND is_passed(q.partition, q.id & 0xffffffffffff)
   AND NOT EXISTS (SELECT 1 FROM outbox_exception x
                    WHERE x.lane = ?1 AND x.position = q.id & 0xffffffffffff);

-- name: published_insert
-- binds: 1 lane, 2 position, 3 now
INSERT OR REPLACE INTO outbox_published(id, published) VALUES (?1 << 48 | ?2, ?3);

-- name: published_purge
-- Of the first so many, those that are old enough.
-- binds: 1 lane, 2 limit, 3 published before
DELETE FROM outbox_published
 WHERE published < ?3
   AND id IN (SELECT id FROM outbox_published
               WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 ORDER BY id LIMIT ?2);

-- name: published_first
-- binds: 1 lane
SELECT id & 0xffffffffffff FROM outbox_published
 WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 ORDER BY id LIMIT 1;

-- name: published_delete
-- binds: 1 lane, 2 position
DELETE FROM outbox_published WHERE id = (?1 << 48 | ?2);

-- name: published_before
-- What a lane has published, the last first. The limit is the caller's: it stops stepping.
-- binds: 1 lane, 2 below this position, 3 from this one on
SELECT id & 0xffffffffffff, published FROM outbox_published
 WHERE id >= (?1 << 48) + ?3 AND id < (?1 << 48) + ?2 ORDER BY id DESC;

-- name: published_count
-- binds: 1 lane, 2 at most
SELECT count(*) FROM (SELECT 1 FROM outbox_published
                       WHERE id > ?1 << 48 AND id < (?1 + 1) << 48 LIMIT ?2);

-- name: outbox_count
-- binds: 1 lane
SELECT count(*) FROM outbox_queue WHERE id > ?1 << 48 AND id < (?1 + 1) << 48;

-- name: outbox_count_of_tenant
-- binds: 1 lane, 2 tenant
SELECT count(*) FROM outbox_queue o
 WHERE o.id > ?1 << 48 AND o.id < (?1 + 1) << 48
   AND (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
         WHERE e.position = o.id & 0xffffffffffff) = ?2;

-- name: outbox_count_in_hand
-- binds: 1 lane, 2 partition, 3 mark, 4 hand, 5 any tenant, 6 tenant
SELECT count(*) FROM outbox_queue o
 WHERE o.id > (?1 << 48 | ?3) AND o.id <= (?1 << 48 | ?4) AND o.partition = ?2
   AND (?5 OR (SELECT s.tenant FROM event e JOIN stream s ON s.id = e.stream
                WHERE e.position = o.id & 0xffffffffffff) = ?6);

-- name: outbox_mark_get
-- binds: 1 lane, 2 partition
SELECT position, hand, hand_token, suspect FROM outbox_mark WHERE lane = ?1 AND partition = ?2;

-- name: outbox_mark_put
-- binds: 1 lane, 2 partition, 3 position, 4 hand, 5 hand_token, 6 suspect, 7 updated
INSERT INTO outbox_mark(lane, partition, position, hand, hand_token, suspect, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (lane, partition)
    DO UPDATE SET position = excluded.position, hand = excluded.hand,
                  hand_token = excluded.hand_token, suspect = excluded.suspect,
                  updated = excluded.updated;

-- name: outbox_mark_in_hand
-- binds: 1 lane
SELECT partition, position, hand, hand_token FROM outbox_mark WHERE lane = ?1 AND hand > position;

-- name: exception_due
-- What is first of its stream in its lane, when its time has come. Its index is by time and holds
-- only what is first and not dead: neither dead ones, nor what waits behind them, nor what is to be
-- tried later makes this slow. The limit is the caller's: it stops stepping.
-- binds: 1 lane, or 0 for the projections' own, 2 now
SELECT x.position, x.partition, x.attempts, x.skip, l.name, l.id, x.stream, x.seq,
       x.error, x.filed, x.trying
  FROM lane l CROSS JOIN outbox_exception x INDEXED BY outbox_exception_due
 WHERE CASE ?1 WHEN 0 THEN l.kind = 1 ELSE l.id = ?1 END
   AND x.lane = l.id AND x.first = 1 AND x.status < 3 AND x.due <= ?2
 ORDER BY l.name, x.due, x.position;

-- name: exception_next_due
-- When the next of them comes due, by the same index.
-- binds: 1 lane, or 0 for the projections' own, 2 now
SELECT min((SELECT x.due FROM outbox_exception x INDEXED BY outbox_exception_due
             WHERE x.lane = l.id AND x.first = 1 AND x.status < 3 AND x.due > ?2
             ORDER BY x.due LIMIT 1))
  FROM lane l WHERE CASE ?1 WHEN 0 THEN l.kind = 1 ELSE l.id = ?1 END;

-- name: exception_behind
-- What waits behind an exception in its stream. The limit is the caller's: it stops stepping.
-- binds: 1 lane, 2 stream, 3 seq
SELECT position, attempts, skip, status, partition, filed
  FROM outbox_exception INDEXED BY outbox_exception_of_stream
 WHERE lane = ?1 AND stream = ?2 AND seq > ?3 ORDER BY seq;

-- name: exception_any
-- binds: 1 lane
SELECT 1 FROM outbox_exception WHERE lane = ?1 LIMIT 1;

-- name: exception_before
-- What an event of a stream waits behind.
-- binds: 1 lane, 2 stream, 3 seq
SELECT 1 FROM outbox_exception INDEXED BY outbox_exception_of_stream
 WHERE lane = ?1 AND stream = ?2 AND seq < ?3 LIMIT 1;

-- name: exception_get
-- binds: 1 lane, 2 position
SELECT partition, stream, seq, status, skip, attempts, due, error, updated, filed, trying
  FROM outbox_exception WHERE lane = ?1 AND position = ?2;

-- name: exception_insert
-- binds: 1 lane, 2 position, 3 partition, 4 stream, 5 seq, 6 status, 7 attempts, 8 due, 9 error,
-- binds: 10 updated, 11 trying
INSERT INTO outbox_exception(lane, position, partition, stream, seq, status, skip, first, attempts,
                             due, error, updated, filed, trying)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, ?9, ?10, 0, ?11);

-- name: exception_filed
-- binds: 1 lane, 2 position
UPDATE outbox_exception SET filed = filed + 1 WHERE lane = ?1 AND position = ?2;

-- name: exception_first
-- Say anew which exception is the first of its stream in its lane, after one came or went.
-- binds: 1 lane, 2 stream
UPDATE outbox_exception SET first = 1 - first
 WHERE lane = ?1
   AND position IN (SELECT f.position FROM outbox_exception f INDEXED BY outbox_exception_of_stream
                     WHERE f.lane = ?1 AND f.stream = ?2 ORDER BY f.seq LIMIT 2)
   AND first <> (position = (SELECT f.position
                               FROM outbox_exception f INDEXED BY outbox_exception_of_stream
                              WHERE f.lane = ?1 AND f.stream = ?2 ORDER BY f.seq LIMIT 1));

-- name: exception_update
-- binds: 1 lane, 2 position, 3 status, 4 skip, 5 attempts, 6 due, 7 error, 8 updated, 9 trying
UPDATE outbox_exception SET status = ?3, skip = ?4, attempts = ?5, due = ?6, error = ?7,
       updated = ?8, trying = ?9 WHERE lane = ?1 AND position = ?2;

-- name: exception_delete
-- binds: 1 lane, 2 position
DELETE FROM outbox_exception WHERE lane = ?1 AND position = ?2;

-- name: exception_of_event
-- binds: 1 lane, 2 stream, 3 seq
SELECT position FROM outbox_exception WHERE lane = ?1 AND stream = ?2 AND seq = ?3;

-- name: exception_first_dead
-- What blocks a stream in a lane.
-- binds: 1 lane, 2 stream
SELECT seq FROM outbox_exception INDEXED BY outbox_exception_dead
 WHERE lane = ?1 AND stream = ?2 AND status = 3 ORDER BY seq LIMIT 1;

-- name: retry_streams
-- Streams with retry rows in a lane, by their first row. The limit is the caller's: it stops stepping.
-- binds: 1 lane, 2 after position, 3 any tenant, 4 tenant, 5 rows above this seq, 6 counts
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM outbox_exception r INDEXED BY outbox_exception_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?6 THEN (SELECT count(*)
                            FROM outbox_exception r INDEXED BY outbox_exception_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?5) ELSE 0 END
  FROM outbox_exception x INDEXED BY outbox_exception_head CROSS JOIN stream s
 WHERE x.lane = ?1 AND x.first = 1 AND x.position > ?2 AND s.id = x.stream
   AND (?3 OR s.tenant = ?4)
 ORDER BY x.position;

-- name: retry_stream
-- The same of one stream: one row, or none.
-- binds: 1 lane, 2 tenant, 3 stream, 4 rows above this seq, 5 counts
SELECT s.tenant, s.name, x.seq, x.position, x.status, x.error,
       (SELECT max(r.seq) FROM outbox_exception r INDEXED BY outbox_exception_of_stream
         WHERE r.lane = x.lane AND r.stream = x.stream),
       CASE WHEN ?5 THEN (SELECT count(*)
                            FROM outbox_exception r INDEXED BY outbox_exception_of_stream
                           WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > ?4) ELSE 0 END
  FROM stream s CROSS JOIN outbox_exception x INDEXED BY outbox_exception_of_stream
 WHERE s.tenant = ?2 AND s.name = ?3 AND x.lane = ?1 AND x.stream = s.id
 ORDER BY x.seq LIMIT 1;

-- name: exception_after
-- binds: 1 lane, 2 position, 3 any tenant, 4 tenant
SELECT x.position, x.stream, x.seq, x.status FROM outbox_exception x
 WHERE x.lane = ?1 AND x.position > ?2
   AND (?3 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?4)
 ORDER BY x.position;

-- name: exception_after_of_status
-- binds: 1 lane, 2 position, 3 any tenant, 4 tenant, 5 status
SELECT x.position, x.stream, x.seq, x.status
  FROM outbox_exception x INDEXED BY outbox_exception_of_status
 WHERE x.status = ?5 AND x.lane = ?1 AND x.position > ?2
   AND (?3 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?4)
 ORDER BY x.position;

-- name: exception_count
-- From the status index alone.
-- binds: 1 lane, 2 status
SELECT count(*), min(position) FROM outbox_exception WHERE status = ?2 AND lane = ?1;

-- name: exception_count_of_tenant
-- binds: 1 lane, 2 status, 3 tenant
SELECT count(*), min(position) FROM outbox_exception x INDEXED BY outbox_exception_of_status
 WHERE x.status = ?2 AND x.lane = ?1
   AND (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?3;

-- name: exception_waiting
-- The pending ones of a lane, stream by stream: what blocks is then looked up once a stream, and
-- only where something waits. Neither many rows behind one nor many dead ones make it slow.
-- binds: 1 lane, 2 any tenant, 3 tenant
SELECT x.stream, x.seq, x.position
  FROM outbox_exception x INDEXED BY outbox_exception_of_status
 WHERE x.status = 0 AND x.lane = ?1
   AND (?2 OR (SELECT s.tenant FROM stream s WHERE s.id = x.stream) = ?3)
 ORDER BY x.stream;

-- name: row_event
-- What a row shows of its event.
-- binds: 1 position
SELECT s.tenant, s.name, e.seq, coalesce(a.name, t.name), e.recorded, e.stream
  FROM event e JOIN stream s ON s.id = e.stream JOIN event_type t ON t.id = e.type
       LEFT JOIN event_type a ON a.id = t.alias_of
 WHERE e.position = ?1;

-- name: act_insert
-- binds: 1 at, 2 act, 3 who, 4 reason, 5 lane, 6 tenant, 7 stream, 8 seq, 9 rows
INSERT INTO outbox_act(at, act, who, reason, lane, tenant, stream, seq, rows)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: act_grow
-- binds: 1 id, 2 rows
UPDATE outbox_act SET rows = rows + ?2 WHERE id = ?1;

-- name: act_newest
-- An entry about all tenants is kept under the tenant '' without a stream.
-- binds: 1 after, 2 before, 3 act or '', 4 lane or '', 5 limit, 6 of all tenants, 7 tenant
SELECT id, at, act, who, reason, lane, tenant, stream, seq, rows
  FROM outbox_act
 WHERE id > ?1 AND id < ?2 AND (?3 = '' OR act = ?3) AND (?4 = '' OR lane = ?4)
   AND (?6 OR (tenant = ?7 AND (tenant <> '' OR stream <> '')))
 ORDER BY id DESC LIMIT ?5;

-- name: skip_insert
-- binds: 1 projection, 2 version, 3 tenant, 4 stream, 5 seq, 6 actor, 7 reason, 8 at
INSERT INTO skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0);

-- name: skip_withdraw
-- An entry that takes back what the last one about an event says, for each version that has one.
-- binds: 1 projection, 2 id of the stream, 3 seq, 4 at
INSERT INTO skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT s.projection, s.version, s.tenant, s.stream, s.seq, s.actor, s.reason, ?4, 1
  FROM stream t JOIN skip s ON s.tenant = t.tenant AND s.stream = t.name
 WHERE t.id = ?2 AND s.projection = ?1 AND s.seq = ?3 AND s.withdrawn = 0
   AND NOT EXISTS (SELECT 1 FROM skip n
                    WHERE n.projection = s.projection AND n.tenant = s.tenant
                      AND n.stream = s.stream AND n.seq = s.seq AND n.version = s.version
                      AND n.id > s.id);

-- name: skip_after
-- binds: 1 projection, 2 version, 3 after, 4 limit
SELECT id, tenant, stream, seq, withdrawn FROM skip
 WHERE projection = ?1 AND version = ?2 AND id > ?3 ORDER BY id LIMIT ?4;
