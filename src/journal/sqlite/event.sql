-- Events, streams, types; transactions.

-- name: begin
-- only: sqlite PostgreSQL transactions are begun and ended by src/postgres/pool.c
BEGIN IMMEDIATE;

-- name: commit
-- only: sqlite PostgreSQL transactions are begun and ended by src/postgres/pool.c
COMMIT;

-- name: begin_read
-- only: sqlite PostgreSQL transactions are begun and ended by src/postgres/pool.c
BEGIN;

-- name: begin_snapshot
-- only: sqlite its transactions take the snapshot with the first row that is read
-- row: ignored
SELECT 1 FROM state;

-- name: savepoint
-- only: sqlite PostgreSQL decides what to refuse between the round trips
SAVEPOINT job;

-- name: savepoint_release
-- only: sqlite PostgreSQL decides what to refuse between the round trips
RELEASE job;

-- name: savepoint_rollback
-- only: sqlite PostgreSQL decides what to refuse between the round trips
ROLLBACK TO job;

-- name: event_insert
-- The position is the row number after the last one: SQLite assigns it faster than it checks a
-- given one.
-- binds: by hand, 1 stream, 2 seq, 3 prev, 4 jump, 5 type, 6 schema, 7 time, 8 recorded, 9 id,
--        10 data, 11 meta, 12 sum, 13 hash
INSERT INTO event(stream, seq, prev, jump, type, schema, time, recorded, id, data, meta, sum, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: event_insert_many
-- only: sqlite PostgreSQL passes arrays instead
-- Inserts eight rows for the cost of one statement.
-- binds: by hand, 1 to 13 as of event_insert, 14 to 26 the same for the second event … 92 to 104
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
-- rows: position int, recorded int, hash blob
SELECT position, recorded, hash FROM event ORDER BY position DESC LIMIT 1;

-- name: event_hash
-- binds: 1 position int
-- rows: hash blob
SELECT hash FROM event WHERE position = ?1;

-- name: event_at
-- only: sqlite PostgreSQL reads single events by stream and seq
-- The event at a position. SQLite decodes a row up to the requested column and continues from there:
-- the last column is requested first, here and below, so that the row is decoded once.
-- binds: 1 position int
-- rows: by hand (sq_rows_event)
SELECT hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum
  FROM event WHERE position = ?1;

-- name: event_after
-- The log in order of position. The caller stops stepping at its limit.
-- binds: 1 position int
-- rows: by hand (sq_rows_event)
SELECT hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum
  FROM event WHERE position > ?1 ORDER BY position;

-- name: event_follow
-- only: sqlite rows of PostgreSQL arrive in one result
-- The log in order of position, for a sequential reader. accept_event (read.c) is called with the
-- columns of each row, which is much cheaper than a step and a call for each column, and returns
-- whether it accepted the event. The only row returned is the first event that it did not accept.
-- binds: 1 position int
-- rows: by hand (accept_event)
SELECT position FROM event
 WHERE position > ?1
   AND NOT accept_event(hash, position, stream, seq, type, schema, time, recorded, id, data, meta, sum)
 ORDER BY position;

-- name: event_verify
-- The log in order of position, with what is wrong with the backward links of an event: 0 nothing,
-- 1 it has too few or too many, 2 the one to the event before it, 3 the other one.
-- binds: 1 position int
-- rows: by hand (sq_rows_event)
SELECT e.hash, e.position, e.stream, e.seq, e.type, e.schema, e.time, e.recorded, e.id, e.data,
       e.meta, e.sum,
       CASE WHEN (e.seq = 1) <> (e.prev = 0)
              OR (e.jump <> 0) <> (e.seq & (e.seq - 1) <> 0 AND e.seq & 1 = 0) THEN 1
            WHEN e.prev AND NOT EXISTS (SELECT 1 FROM event p
                 WHERE p.position = e.prev AND p.stream = e.stream AND p.seq = e.seq - 1) THEN 2
            WHEN e.jump AND NOT EXISTS (SELECT 1 FROM event p
                 WHERE p.position = e.jump AND p.stream = e.stream
                   AND p.seq = e.seq & (e.seq - 1)) THEN 3
            ELSE 0 END
  FROM event e WHERE e.position > ?1 ORDER BY e.position;

-- name: event_link
-- only: sqlite PostgreSQL finds the events of a stream by an index
-- One step backward through a stream.
-- binds: 1 position int
-- row: seq int, prev int, jump int
SELECT seq, prev, jump FROM event WHERE position = ?1;

-- name: event_tail
-- only: sqlite SQLite keeps this in memory for the process that writes
-- The columns that the in-memory tail needs of the events after a position.
-- binds: 1 position int, 2 last int (position)
-- rows: position int, stream int, seq int, tenant text, id text
SELECT e.position, e.stream, e.seq, s.tenant, e.id FROM event e JOIN stream s ON s.id = e.stream
 WHERE e.position > ?1 AND e.position <= ?2 ORDER BY e.position;

-- name: stream_by_name
-- only: sqlite PostgreSQL joins streams by name in each statement
-- binds: 1 tenant text, 2 name text
-- row: id int
SELECT id FROM stream WHERE tenant = ?1 AND name = ?2;

-- name: stream_by_id
-- only: sqlite PostgreSQL joins streams in each statement
-- binds: 1 id int
-- rows: tenant text, name text
SELECT tenant, name FROM stream WHERE id = ?1;

-- name: stream_insert
-- only: sqlite PostgreSQL creates streams in stream_advance
-- binds: 1 id int, 2 tenant text, 3 name text
INSERT INTO stream(id, tenant, name) VALUES (?1, ?2, ?3);

-- name: stream_last
-- only: sqlite PostgreSQL has an identity column
-- row: id int
SELECT coalesce(max(id), 0) FROM stream;

-- name: stream_after
-- A page of streams. The tenant is compared by column, never by prefix.
-- binds: 1 id int, 2 any_tenant bool, 3 tenant text
-- rows: id int, tenant text, name text
SELECT id, tenant, name FROM stream WHERE id > ?1 AND (?2 OR tenant = ?3) ORDER BY id;

-- name: stream_head_get
-- binds: 1 stream int
-- rows: seq int, position int, ladder blob
SELECT seq, position, ladder FROM stream_head WHERE stream = ?1;

-- name: stream_head_put
-- only: sqlite the head of a PostgreSQL stream is in its row
-- binds: 1 stream int, 2 seq int, 3 position int, 4 ladder blob
INSERT INTO stream_head(stream, seq, position, ladder) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, position = excluded.position,
                                       ladder = excluded.ladder;

-- name: type_all
-- rows: id int, name text, intent int, publish bool, alias_of int, tenant text?
SELECT id, name, intent, publish, alias_of, tenant FROM event_type ORDER BY id;

-- name: type_insert
-- binds: 1 name text, 2 intent int, 3 publish bool, 4 tenant text? (whose append creates it)
INSERT INTO event_type(name, intent, publish, tenant) VALUES (?1, ?2, ?3, ?4);

-- name: type_update
-- binds: 1 type.name text, 2 type.intent int, 3 type.publish bool, 4 type.alias_of text
-- from: type ef_type
UPDATE event_type SET intent = ?2, publish = ?3,
       alias_of = (SELECT id FROM event_type WHERE name = ?4) WHERE name = ?1;

-- name: type_add
-- only: sqlite PostgreSQL adds all types in type_insert
-- Adds a type that is not there.
-- binds: 1 name text, 2 intent int
INSERT INTO event_type(name, intent, publish) VALUES (?1, ?2, 0) ON CONFLICT (name) DO NOTHING;

-- name: type_alias_check
-- Whether the canonical type is an alias itself, and whether another type is an alias of this one.
-- binds: 1 type.name text, 2 type.alias_of text
-- from: type ef_type
-- row: alias_of_alias bool, has_alias bool
SELECT EXISTS (SELECT 1 FROM event_type WHERE name = ?2 AND alias_of IS NOT NULL),
       EXISTS (SELECT 1 FROM event_type a JOIN event_type t ON t.id = a.alias_of
                WHERE t.name = ?1);

-- name: lane_all
-- only: sqlite PostgreSQL selects the lanes of an event in outbox_insert
-- rows sq_lane: id int, name text, kind int, enabled bool, types text
SELECT id, name, kind, enabled, types FROM lane ORDER BY id;

-- name: outbox_insert
-- binds: by hand, 1 lane << 48 + position, 2 partition
INSERT INTO outbox_queue(id, partition) VALUES (?1, ?2);

-- name: outbox_insert_many
-- only: sqlite PostgreSQL passes arrays instead
-- Inserts sixteen rows for the cost of one statement: half of what single rows cost.
-- binds: by hand, 1 id, 2 partition, 3 id, 4 partition … 31 id, 32 partition
INSERT INTO outbox_queue(id, partition) VALUES
    (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8), (?9, ?10), (?11, ?12), (?13, ?14), (?15, ?16),
    (?17, ?18), (?19, ?20), (?21, ?22), (?23, ?24), (?25, ?26), (?27, ?28), (?29, ?30), (?31, ?32);

-- name: event_names
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- The tenant and id of the event at a position.
-- binds: 1 position int
-- rows: tenant text, id text
SELECT s.tenant, e.id FROM event e JOIN stream s ON s.id = e.stream WHERE e.position = ?1;

-- name: verify_rest
-- row: heads int, outbox int
SELECT (SELECT count(*) FROM stream_head h
          LEFT JOIN event e ON e.position = h.position AND e.stream = h.stream AND e.seq = h.seq
         WHERE e.position IS NULL),
       (SELECT count(*) FROM outbox o LEFT JOIN event e ON e.position = o.position
         WHERE e.position IS NULL)
     + (SELECT count(*) FROM retry_row x LEFT JOIN event e ON e.position = x.position
         WHERE e.position IS NULL);
