-- only: sqlite one event a statement, links instead of an index, and the position is the row number
-- Events, streams, types.

-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: begin_read
BEGIN;

-- name: savepoint
SAVEPOINT job;

-- name: savepoint_keep
RELEASE job;

-- name: savepoint_undo
ROLLBACK TO job;

-- name: event_insert
-- The position is the one behind the last: SQLite finds it faster than it checks one that is given.
-- binds: 1 stream, 2 seq, 3 prev, 4 jump, 5 type, 6 schema, 7 time, 8 recorded, 9 id, 10 data,
-- binds: 11 meta, 12 sum, 13 hash
INSERT INTO event(stream, seq, prev, jump, type, schema, time, recorded, id, data, meta, sum, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: event_insert_many
-- Eight rows for the price of a statement.
-- binds: 1 to 13 as of event_insert, 14 to 26 the same for the second event … 92 to 104
INSERT INTO event(stream, seq, prev, jump, type, schema, time, recorded, id, data, meta, sum, hash)
VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13),
    (?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26),
    (?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39),
    (?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51, ?52),
    (?53, ?54, ?55, ?56, ?57, ?58, ?59, ?60, ?61, ?62, ?63, ?64, ?65),
    (?66, ?67, ?68, ?69, ?70, ?71, ?72, ?73, ?74, ?75, ?76, ?77, ?78),
    (?79, ?80, ?81, ?82, ?83, ?84, ?85, ?86, ?87, ?88, ?89, ?90, ?91),
    (?92, ?93, ?94, ?95, ?96, ?97, ?98, ?99, ?100, ?101, ?102, ?103, ?104);

-- name: event_last
SELECT position, recorded, hash FROM event ORDER BY position DESC LIMIT 1;

-- name: event_hash
-- binds: 1 position
SELECT hash FROM event WHERE position = ?1;

-- name: event_at
-- The whole event at a position. SQLite goes through the head of a row as far as the column that is
-- asked for, and goes on from there for the next: the last one is asked for first, here and below,
-- so that it goes through it once.
-- binds: 1 position
SELECT hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum
  FROM event WHERE position = ?1;

-- name: event_after
-- The log in order. The limit is the caller's: it stops stepping.
-- binds: 1 position
SELECT hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum
  FROM event WHERE position > ?1 ORDER BY position;

-- name: event_follow
-- The log in order, for who takes every event. take_event (read.c) is called with the columns of
-- each row, which is much cheaper than to step to it and ask for them one by one, and says whether
-- it has taken the event: the first that it has not is the one row there is.
-- binds: 1 position
SELECT position FROM event
 WHERE position > ?1
   AND NOT take_event(hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum)
 ORDER BY position;

-- name: event_verify
-- The log in order, with the links back.
-- binds: 1 position
SELECT hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum, prev, jump
  FROM event WHERE position > ?1 ORDER BY position;

-- name: event_link
-- One step of the way back through a stream.
-- binds: 1 position
SELECT seq, prev, jump FROM event WHERE position = ?1;

-- name: event_tail
-- What the in-memory tail needs of the events after a position.
-- binds: 1 position, 2 last position
SELECT e.position, e.stream, e.seq, s.tenant, e.id FROM event e JOIN stream s ON s.id = e.stream
 WHERE e.position > ?1 AND e.position <= ?2 ORDER BY e.position;

-- name: stream_by_name
-- binds: 1 tenant, 2 name
SELECT id FROM stream WHERE tenant = ?1 AND name = ?2;

-- name: stream_by_id
-- binds: 1 id
SELECT tenant, name FROM stream WHERE id = ?1;

-- name: stream_insert
-- binds: 1 id, 2 tenant, 3 name
INSERT INTO stream(id, tenant, name) VALUES (?1, ?2, ?3);

-- name: stream_last
SELECT coalesce(max(id), 0) FROM stream;

-- name: stream_after
-- A page of streams; the tenant filter is by column, never by prefix.
-- binds: 1 id, 2 any tenant, 3 tenant
SELECT id, tenant, name FROM stream WHERE id > ?1 AND (?2 OR tenant = ?3) ORDER BY id;

-- name: stream_head_get
-- binds: 1 stream
SELECT seq, position, ladder FROM stream_head WHERE stream = ?1;

-- name: stream_head_put
-- binds: 1 stream, 2 seq, 3 position, 4 ladder
INSERT INTO stream_head(stream, seq, position, ladder) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, position = excluded.position,
                                       ladder = excluded.ladder;

-- name: type_all
SELECT id, name, intent, publish, alias_of, tenant FROM event_type ORDER BY id;

-- name: type_insert
-- binds: 1 name, 2 intent, 3 publish, 4 tenant whose append creates it, or null
INSERT INTO event_type(name, intent, publish, tenant) VALUES (?1, ?2, ?3, ?4);

-- name: type_update
-- binds: 1 name, 2 intent, 3 publish, 4 alias_of
UPDATE event_type SET intent = ?2, publish = ?3,
       alias_of = (SELECT id FROM event_type WHERE name = ?4) WHERE name = ?1;

-- name: type_aliases_to
-- binds: 1 name
SELECT count(*) FROM event_type a JOIN event_type t ON t.id = a.alias_of WHERE t.name = ?1;

-- name: lane_all
SELECT id, name, kind, enabled, types FROM lane ORDER BY id;

-- name: outbox_insert
-- binds: 1 lane << 48 | position, 2 partition
INSERT INTO outbox_queue(id, partition) VALUES (?1, ?2);

-- name: outbox_insert_many
-- Sixteen rows for the price of a statement: half of what the rows cost one by one.
-- binds: 1 id, 2 partition, 3 id, 4 partition … 31 id, 32 partition
INSERT INTO outbox_queue(id, partition) VALUES
    (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8), (?9, ?10), (?11, ?12), (?13, ?14), (?15, ?16),
    (?17, ?18), (?19, ?20), (?21, ?22), (?23, ?24), (?25, ?26), (?27, ?28), (?29, ?30), (?31, ?32);

-- name: event_names
-- Whose event is at a position.
-- binds: 1 position
SELECT s.tenant, e.id FROM event e JOIN stream s ON s.id = e.stream WHERE e.position = ?1;

-- name: event_place
-- binds: 1 position
SELECT stream, seq FROM event WHERE position = ?1;

-- name: verify_heads
SELECT count(*) FROM stream_head h
  LEFT JOIN event e ON e.position = h.position AND e.stream = h.stream AND e.seq = h.seq
 WHERE e.position IS NULL;

-- name: verify_outbox
SELECT (SELECT count(*) FROM outbox o LEFT JOIN event e ON e.position = o.position
         WHERE e.position IS NULL)
     + (SELECT count(*) FROM outbox_exception x LEFT JOIN event e ON e.position = x.position
         WHERE e.position IS NULL);
