-- Events, streams, types.

-- name: arrival_any
-- only: postgres in SQLite every append has its position when it commits
-- Whether an event was committed and has no position yet.
-- row: is_any bool
SELECT EXISTS (SELECT FROM everfold.arrival);

-- name: stream_advance
-- only: postgres SQLite gives seqs in memory under the write lock
-- Adds to the seqs of streams, and creates the streams that are new. Rows are locked, and returned, in
-- the order of the arrays, which is that of the names: so two appends cannot deadlock.
-- binds: 1 tenants text[], 2 names text[], 3 more int[] (seqs to add)
-- rows: id int, seq int
INSERT INTO everfold.stream AS s(tenant, name, seq)
SELECT u.tenant, u.name, u.more FROM unnest($1, $2, $3) AS u(tenant, name, more)
    ON CONFLICT (tenant, name) DO UPDATE SET seq = s.seq + excluded.seq
RETURNING s.id, s.seq;

-- name: stream_set
-- only: postgres SQLite gives seqs in memory under the write lock
-- Corrects streams that were advanced too far, because not all events were accepted.
-- binds: 1 streams int[], 2 seqs int[]
UPDATE everfold.stream s SET seq = u.seq FROM unnest($1, $2) AS u(id, seq) WHERE s.id = u.id;

-- name: stream_move
-- only: postgres SQLite has no optimistic append
-- Moves streams by id from the assumed seqs, and raises an error when one has another seq. Rows are
-- locked in the order of the arrays too: with two bounds in place of "=" no plan sorts by id.
-- binds: 1 streams int[], 2 assumed int[], 3 seqs int[]
WITH moved AS (
    UPDATE everfold.stream s SET seq = u.seq
      FROM unnest($1, $2, $3) AS u(id, assumed, seq)
     WHERE s.id BETWEEN u.id AND u.id AND s.seq = u.assumed
    RETURNING 1)
SELECT everfold.refuse('seq_conflict', 'a stream is not at the assumed seq: the append is repeated with a lookup')
  FROM moved HAVING count(*) <> cardinality($1);

-- name: id_find
-- only: postgres PostgreSQL finds ids by an index, SQLite in sorted runs
-- Looks up given ids: among ids that clients gave, and among ids that the library generated, because a
-- given UUIDv7 may be one of those.
-- binds: 1 tenants text[], 2 ids text[]
-- rows: n int, stream int, seq int
SELECT u.n, i.stream, i.seq
  FROM unnest($1, $2) WITH ORDINALITY AS u(tenant, id, n)
  JOIN everfold.event_id i ON i.tenant = u.tenant AND i.id = u.id
UNION ALL
SELECT u.n, e.stream, e.seq
  FROM unnest($1, $2) WITH ORDINALITY AS u(tenant, id, n)
  JOIN everfold.event e ON e.made AND e.id = u.id
  JOIN everfold.stream s ON s.id = e.stream AND s.tenant = u.tenant
 WHERE octet_length(u.id) = 36 AND substr(u.id, 15, 1) = '7';

-- The numbers of all events come in one array, several per event, and the hashes in one string: the
-- server splits them by index at far less cost than an array per column.

-- name: id_insert
-- only: postgres PostgreSQL finds ids by an index, SQLite in sorted runs
-- Stores ids that clients gave.
-- binds: 1 tenants text[], 2 ids text[], 3 numbers int[] (stream, seq)
INSERT INTO everfold.event_id(tenant, id, stream, seq)
SELECT u.tenant, u.id, $3[(u.n * 2 - 1)::integer], $3[(u.n * 2)::integer]
  FROM unnest($1, $2) WITH ORDINALITY AS u(tenant, id, n);

-- name: sequencer_lock
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- Held to the end of the transaction that gives positions: one transaction at a time, and none after
-- the server has ended the session. The wait is longer than that for a locked stream (append.c).
-- binds: 1 milliseconds int
-- row: ignored
SELECT everfold.lock_sequencer($1);

-- name: sequencer_lock_if
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- The same, if all types exist: creating a type may wait for a transaction that waits for the
-- sequencer. No row: the lock was not acquired.
-- binds: 1 names text[] (of types, each once), 2 milliseconds int
-- row: -
SELECT everfold.lock_sequencer($2)
 WHERE cardinality($1) = (SELECT count(*) FROM everfold.event_type WHERE name = ANY ($1));

-- name: sequencer_begin
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- The end of the log, the last event without a position, and the settings that an event row depends
-- on. Runs after the lock was granted, in order to see the commits of the previous holder.
-- binds: 1 now clock
-- rows: position int, recorded int, hash blob, now int, partitions int, arrivals int, damage text,
--        damaged int
SELECT coalesce(e.position, 0), coalesce(e.recorded, 0), e.hash, everfold.clock_us($1),
       s.partitions, (SELECT max(number) FROM everfold.arrival), s.damage, s.damaged
  FROM everfold.state s
  LEFT JOIN (SELECT position, recorded, hash FROM everfold.event ORDER BY position DESC LIMIT 1) e
    ON true;

-- name: sequencer_guess
-- only: postgres SQLite has no optimistic append
-- Raises an error when the log does not end where the append assumes, an event waits for a position,
-- or the journal is damaged. Runs after the lock was granted.
-- binds: 1 position int, 2 hash blob, 3 partitions int
-- row: ignored
SELECT everfold.refuse('seq_conflict', 'the log does not end where assumed: the append is repeated with a lookup')
  FROM everfold.state s
  LEFT JOIN (SELECT position, hash FROM everfold.event ORDER BY position DESC LIMIT 1) e ON true
 WHERE e.position IS DISTINCT FROM $1 OR e.hash IS DISTINCT FROM $2 OR s.partitions <> $3
    OR s.damaged <> 0 OR EXISTS (SELECT FROM everfold.arrival);

-- name: arrival_drain
-- only: postgres in SQLite every append has its position when it commits
-- Deletes and returns the next events without a position: up to a count and up to a number of bytes,
-- but at least one.
-- binds: 1 upto int (the highest number), 2 limit int, 3 bytes int
-- rows: by hand
WITH drained AS (
    DELETE FROM everfold.arrival
     WHERE number IN (
        SELECT b.number
          FROM (SELECT f.number, coalesce(sum(f.bytes) OVER (
                           ORDER BY f.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
                  FROM (SELECT number, octet_length(data) + octet_length(meta) AS bytes
                          FROM everfold.arrival WHERE number <= $1 ORDER BY number LIMIT $2) f) b
         WHERE b.before < $3)
    RETURNING *)
SELECT a.stream, a.seq, a.type, a.schema, a.time, a.id, a.data, a.meta, a.queued, s.tenant, s.name, a.number
  FROM drained a JOIN everfold.stream s ON s.id = a.stream ORDER BY a.number;

-- name: event_insert
-- binds: by hand, 1 first position, 2 numbers: stream, seq, number of the type's name, schema,
--        time, sum, made, 3 names of types, 4 recorded, 5 ids, 6 data, 7 meta, 8 hashes
INSERT INTO everfold.event(position, stream, seq, type, schema, time, recorded, id, data, meta, sum,
                           hash, made)
SELECT $1 + u.n - 1, $2[(u.n * 7 - 6)::integer], $2[(u.n * 7 - 5)::integer],
       k.ids[$2[(u.n * 7 - 4)::integer]], $2[(u.n * 7 - 3)::integer], $2[(u.n * 7 - 2)::integer],
       $4, u.id, u.data, u.meta, $2[(u.n * 7 - 1)::integer],
       substr($8, ((u.n - 1) * 32 + 1)::integer, 32), $2[(u.n * 7)::integer] <> 0
  FROM (SELECT array_agg(t.id ORDER BY y.n) AS ids
          FROM unnest($3) WITH ORDINALITY AS y(name, n)
          LEFT JOIN everfold.event_type t ON t.name = y.name) k,
       unnest($5, $6, $7) WITH ORDINALITY AS u(id, data, meta, n);

-- name: outbox_insert
-- A row for every lane that selects the event.
-- binds: by hand, 1 positions, 2 numbers: partition, that in lanes of publishers, number of the
--        type's name, 3 names of types
INSERT INTO everfold.outbox(lane, position, partition)
SELECT l.id, u.position, $2[(u.n * 3 - CASE l.kind WHEN 2 THEN 1 ELSE 2 END)::integer]
  FROM unnest($1) WITH ORDINALITY AS u(position, n)
  JOIN everfold.lane l ON l.enabled
   AND (l.kind = 0 OR (l.kind = 2 AND (
        SELECT coalesce(a.publish, t.publish)
               AND everfold.type_matches(coalesce(a.name, t.name), l.types)
          FROM everfold.event_type t LEFT JOIN everfold.event_type a ON a.id = t.alias_of
         WHERE t.name = $3[$2[(u.n * 3)::integer]])));

-- name: notify
-- only: postgres SQLite wakes waiting processes by its files
-- A hint for processes that wait for the journal to grow.
-- row: ignored
SELECT pg_notify('everfold', '');

-- name: event_places
-- only: postgres SQLite asks its id index
-- Whether events exist, by stream and seq.
-- binds: 1 streams int[], 2 seqs int[]
-- rows: n int, position int, id text
SELECT u.n, e.position, e.id
  FROM unnest($1, $2) WITH ORDINALITY AS u(stream, seq, n)
  JOIN everfold.event e ON e.stream = u.stream AND e.seq = u.seq;

-- name: event_by_key
-- only: postgres SQLite asks its id index
-- The same with all columns, to compare contents.
-- binds: as event_places
-- rows: by hand
SELECT l.position, l.tenant, l.stream, l.seq, l.id, l.stored_type, l.type, l.schema, l.time,
       l.recorded, l.data, l.meta, l.sum, l.hash, u.n
  FROM unnest($1, $2) WITH ORDINALITY AS u(stream, seq, n)
  JOIN everfold.log l ON l.stream_id = u.stream AND l.seq = u.seq;

-- name: event_by_id
-- only: postgres SQLite asks its id index
-- binds: 1 tenant text, 2 id text
-- rows: by hand
SELECT l.position, l.tenant, l.stream, l.seq, l.id, l.stored_type, l.type, l.schema, l.time,
       l.recorded, l.data, l.meta, l.sum, l.hash
  FROM everfold.event_id i JOIN everfold.log l ON l.stream_id = i.stream AND l.seq = i.seq
 WHERE i.tenant = $1 AND i.id = $2
UNION ALL
SELECT l.position, l.tenant, l.stream, l.seq, l.id, l.stored_type, l.type, l.schema, l.time,
       l.recorded, l.data, l.meta, l.sum, l.hash
  FROM everfold.log l WHERE l.made AND l.id = $2 AND l.tenant = $1;

-- name: event_of_stream
-- only: postgres SQLite follows the links of the events
-- The events of a stream in order of seq. Events beyond the byte limit of an answer come without data.
-- binds: 1 tenant text, 2 stream text, 3 from_seq int, 4 limit int, 5 bytes int (limit of an
--        answer)
-- rows: by hand
SELECT e.position, e.tenant, e.stream, e.seq, e.id, e.stored_type, e.type, e.schema, e.time,
       e.recorded, CASE WHEN e.bytes <= $5 THEN e.data END, e.meta, e.sum, e.hash
  FROM everfold.stream s
  JOIN LATERAL (
      SELECT l.*, coalesce(sum(octet_length(l.data) + octet_length(l.meta))
                  OVER (ORDER BY l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes
        FROM (SELECT * FROM everfold.log l WHERE l.stream_id = s.id AND l.seq >= $3
               ORDER BY l.seq LIMIT $4) l) e ON true
 WHERE s.tenant = $1 AND s.name = $2
 ORDER BY e.seq;

-- name: event_after
-- The log in order of position, of one tenant or all, of some types or all; and the head that was read.
-- binds: 1 after int, 2 limit int, 3 any_tenant bool, 4 tenant text, 5 type text (patterns), 6
--        bytes int (limit)
-- rows: by hand
SELECT e.position, e.tenant, e.stream, e.seq, e.id, e.stored_type, e.type, e.schema, e.time,
       e.recorded, CASE WHEN e.bytes <= $6 THEN e.data END, e.meta, e.sum, e.hash, h.position
  FROM (SELECT coalesce(max(position), 0) AS position FROM everfold.event) h
  LEFT JOIN (
      SELECT l.*, coalesce(sum(octet_length(l.data) + octet_length(l.meta))
                  OVER (ORDER BY l.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                  AS bytes
        FROM (SELECT * FROM everfold.log l
               WHERE l.position > $1 AND ($3 OR l.tenant = $4)
                 AND ($5 = '' OR everfold.type_matches(l.type, $5))
               ORDER BY l.position LIMIT $2) l) e ON true
 ORDER BY e.position;

-- name: event_last
-- row ef_head: position int, recorded_us int, hash bytes
SELECT position, recorded, hash FROM everfold.event ORDER BY position DESC LIMIT 1;

-- name: event_hash
-- binds: 1 position int
-- rows: hash blob
SELECT hash FROM everfold.event WHERE position = $1;

-- name: stream_head_get
-- The last event of a stream that has its position.
-- binds: 1 tenant text, 2 stream text
-- row: seq int, position int
SELECT e.seq, e.position
  FROM everfold.stream s
  JOIN LATERAL (SELECT seq, position FROM everfold.event WHERE stream = s.id
                 ORDER BY seq DESC LIMIT 1) e ON true
 WHERE s.tenant = $1 AND s.name = $2;

-- name: stream_after
-- Streams in order of their first events, with their last ones.
-- binds: 1 after int (position of the first event), 2 any_tenant bool, 3 tenant text, 4 limit int
-- rows ef_stream: -, tenant text, name text, seq int, position int
SELECT f.position, f.tenant, f.name, e.seq, e.position
  FROM (SELECT e.position, s.tenant, s.name, s.id
          FROM everfold.event e JOIN everfold.stream s ON s.id = e.stream
         WHERE e.seq = 1 AND e.position > $1 AND ($2 OR s.tenant = $3)
         ORDER BY e.position LIMIT $4) f
  JOIN LATERAL (SELECT seq, position FROM everfold.event WHERE stream = f.id
                 ORDER BY seq DESC LIMIT 1) e ON true
 ORDER BY f.position;

-- name: type_known
-- only: postgres SQLite keeps this in memory for the process that writes
-- binds: 1 names text[]
-- rows: name text
SELECT name FROM everfold.event_type WHERE name = ANY ($1);

-- name: type_counts
-- only: postgres SQLite keeps this in memory for the process that writes
-- How many types the appends of these tenants have created; the last row is the number of all types.
-- binds: 1 tenants text[]
-- rows: creator text?, count int
SELECT t.creator, count(*) FROM everfold.event_type t WHERE t.creator = ANY ($1) GROUP BY t.creator
 UNION ALL SELECT NULL, count(*) FROM everfold.event_type;

-- name: type_insert
-- binds: 1 names text[], 2 tenants text[] (whose appends create them, or null)
INSERT INTO everfold.event_type(name, creator)
SELECT u.name, u.tenant FROM unnest($1, $2) AS u(name, tenant)
 WHERE NOT EXISTS (SELECT FROM everfold.event_type t WHERE t.name = u.name)
 ORDER BY u.name
    ON CONFLICT DO NOTHING;

-- name: type_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- Types are changed by one transaction at a time.
LOCK TABLE everfold.event_type IN SHARE ROW EXCLUSIVE MODE;

-- name: type_alias_check
-- Whether the canonical type is an alias itself, and whether another type is an alias of this one.
-- binds: 1 type.name text, 2 type.alias_of text
-- from: type ef_type
-- row: alias_of_alias bool, has_alias bool
SELECT EXISTS (SELECT FROM everfold.event_type WHERE name = $2 AND alias_of IS NOT NULL),
       EXISTS (SELECT FROM everfold.event_type a JOIN everfold.event_type t ON t.id = a.alias_of
                WHERE t.name = $1);

-- name: type_update
-- binds: 1 type.name text, 2 type.intent int, 3 type.publish bool, 4 type.alias_of text
-- from: type ef_type
UPDATE everfold.event_type SET intent = $2::integer, publish = $3,
       alias_of = (SELECT id FROM everfold.event_type WHERE name = $4) WHERE name = $1;

-- name: type_all
-- binds: 1 name text (or '' for all)
-- list ef_type: name text, intent int, publish bool, alias_of text
SELECT t.name, t.intent, t.publish, coalesce(a.name, '')
  FROM everfold.event_type t LEFT JOIN everfold.event_type a ON a.id = t.alias_of
 WHERE $1 = '' OR t.name = $1 ORDER BY t.name;

-- name: type_not_folded
-- only: postgres SQLite keeps this in memory for the process that writes
-- Types with another intent than to be folded, by an index of their own: every batch reads them.
-- list: as type_all
SELECT t.name, t.intent, t.publish, coalesce(a.name, '')
  FROM everfold.event_type t LEFT JOIN everfold.event_type a ON a.id = t.alias_of
 WHERE t.intent <> 0 ORDER BY t.name;

-- name: event_verify
-- The log in order of position; whether the previous event of the stream exists, and the row of a given
-- id.
-- binds: 1 after int, 2 limit int
-- rows: by hand
SELECT l.position, l.tenant, l.stream, l.seq, l.id, l.stored_type, l.type, l.schema, l.time,
       l.recorded, l.data, l.meta, l.sum, l.hash,
       l.seq = 1 OR EXISTS (SELECT FROM everfold.event b WHERE b.stream = l.stream_id
                               AND b.seq = l.seq - 1 AND b.position < l.position),
       l.made OR EXISTS (SELECT FROM everfold.event_id i WHERE i.tenant = l.tenant AND i.id = l.id
                            AND i.stream = l.stream_id AND i.seq = l.seq)
  FROM everfold.log l WHERE l.position > $1 ORDER BY l.position LIMIT $2;

-- name: verify_rest
-- Streams whose seq is lower than that of their last event; ids and outbox rows without an event.
-- row: streams int, ids int, outbox int
SELECT (SELECT count(*) FROM everfold.stream s
         WHERE s.seq < (SELECT coalesce(max(e.seq), 0) FROM everfold.event e WHERE e.stream = s.id)),
       (SELECT count(*) FROM everfold.event_id i
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.stream = i.stream AND e.seq = i.seq)
           AND NOT EXISTS (SELECT FROM everfold.arrival a
                            WHERE a.stream = i.stream AND a.seq = i.seq)),
       (SELECT count(*) FROM everfold.outbox o
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.position = o.position))
     + (SELECT count(*) FROM everfold.retry_row x
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.position = x.position));
