-- Events, streams, types.

-- name: unplaced_any
-- only: postgres in SQLite every append has its position when it commits
-- Whether an event was committed and has no position, apart from what this process has seen
-- (unplaced_find).
-- binds: 1 since text, 2 high int
-- row: is_any bool
SELECT EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number > $2)
    OR ($2 > 0 AND (
        EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number <= $2
                   AND e.xid >= pg_snapshot_xmax($1::pg_snapshot))
        OR EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number <= $2
                      AND e.xid = ANY (ARRAY(
                          SELECT x FROM pg_snapshot_xip($1::pg_snapshot) AS x
                           WHERE pg_visible_in_snapshot(x, pg_current_snapshot()))))));

-- name: stream_lock
-- only: postgres SQLite gives seqs in memory under the write lock
-- Creates the streams that are new, and locks the rows of all of them in the order of the arrays, which
-- is that of the names: so two appends cannot deadlock. A row that exists is not changed: a version per
-- append would be walked over by every later one while some transaction keeps a snapshot open.
-- binds: 1 tenants text[], 2 names text[]
INSERT INTO everfold.stream AS s(tenant, name)
SELECT u.tenant, u.name FROM unnest($1, $2) AS u(tenant, name)
    ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name WHERE false;

-- name: stream_heads
-- only: postgres SQLite gives seqs in memory under the write lock
-- Their ids, and the seqs of their last events. Runs after they were locked.
-- binds: 1 tenants text[], 2 names text[]
-- rows: id int, seq int
SELECT s.id, coalesce((SELECT e.seq FROM everfold.event e WHERE e.stream = s.id
                        ORDER BY e.seq DESC LIMIT 1), 0)
  FROM unnest($1, $2) WITH ORDINALITY AS u(tenant, name, n)
  JOIN everfold.stream s ON s.tenant = u.tenant AND s.name = u.name
 ORDER BY u.n;

-- name: stream_lock_known
-- only: postgres SQLite has no optimistic append
-- Locks streams by id, in the order of the arrays too: with two bounds in place of "=" no plan sorts by
-- id. The unique index of the events refuses a wrong seq.
-- binds: 1 streams int[]
-- row: ignored
SELECT FROM unnest($1) AS u(id) JOIN everfold.stream s ON s.id BETWEEN u.id AND u.id FOR UPDATE OF s;

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

-- name: sequencer_lock_now
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- The same without waiting: false if another transaction has the lock or waits for it.
-- row: is_locked bool
SELECT everfold.lock_sequencer_now();

-- name: sequencer_try
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- Whether the transaction gives positions to its events: if all their types exist, nothing else waits
-- for a position, and no other transaction has the lock or waits for it.
-- binds: 1 names text[] (of types, each once), 2 milliseconds int (0: does not wait), 3 since text,
--        4 high int
-- rows: is_placed bool
SELECT CASE WHEN cardinality($1) = (SELECT count(*) FROM everfold.event_type WHERE name = ANY ($1))
            THEN everfold.try_sequencer($2, $3, $4, NULL, NULL, NULL) ELSE false END;

-- name: sequencer_begin
-- only: postgres SQLite gives positions as row numbers, without a sequencer
-- The end of the log, and the settings that an event row depends on. Runs after the lock was granted,
-- in order to see the commits of the previous holder.
-- binds: 1 now clock
-- rows: position int, recorded int, hash blob, now int, partitions int, damage text, damaged int
SELECT coalesce(e.position, 0), coalesce(e.recorded, 0), e.hash, everfold.clock_us($1),
       s.partitions, s.damage, s.damaged
  FROM everfold.state s
  LEFT JOIN (SELECT position, recorded, hash FROM everfold.event WHERE position IS NOT NULL
              ORDER BY position DESC LIMIT 1) e
    ON true;

-- name: sequencer_guess
-- only: postgres SQLite has no optimistic append
-- The same as sequencer_try, if the log also ends where the append assumes.
-- binds: 1 since text, 2 high int, 3 position int, 4 hash blob, 5 partitions int
-- rows: is_placed bool
SELECT everfold.try_sequencer(0, $1, $2, $3, $4, $5);

-- name: unplaced_find
-- only: postgres in SQLite every append has its position when it commits
-- The next events without a position in order of number: up to a count and up to a number of bytes, but
-- at least one; the snapshot of this statement, and the highest number that was drawn. The caller has
-- handled every event up to the number `high` that was visible in the snapshot `since`. So those with
-- lower numbers are of transactions that had not ended then: ones that have ended since, and later ones.
-- Versions of events that have their position are not walked over, nor are those of transactions
-- that are still open.
-- binds: 1 since text, 2 high int, 3 limit int, 4 bytes int
-- rows: by hand
WITH here AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot),
ended AS MATERIALIZED (
    SELECT x FROM here c, pg_snapshot_xip($1::pg_snapshot) AS x
     WHERE pg_visible_in_snapshot(x, c.snapshot)),
found AS (
    SELECT e.* FROM ended t CROSS JOIN LATERAL (
           SELECT * FROM everfold.event e
            WHERE e.position IS NULL AND e.xid = t.x AND e.number <= $2 ORDER BY e.number LIMIT $3 + 1) e
     UNION ALL
    SELECT e.* FROM everfold.event e
     WHERE $2 > 0 AND e.position IS NULL AND e.xid >= pg_snapshot_xmax($1::pg_snapshot)
       AND e.number <= $2
     UNION ALL
   (SELECT e.* FROM everfold.event e
     WHERE e.position IS NULL AND e.number > $2 ORDER BY e.number LIMIT $3 + 1)),
sized AS (
    SELECT f.*, coalesce(sum(octet_length(f.data) + octet_length(f.meta)) OVER (
                    ORDER BY f.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before,
           count(*) OVER () AS total
      FROM found f)
SELECT c.snapshot::text, n.last_value * 16384 + 16383, e.total, e.number, e.stream, e.seq, e.type, e.schema,
       e.time, e.id, e.data, e.meta, e.queued, e.tenant, e.name
  FROM here c CROSS JOIN everfold.event_number n
  LEFT JOIN LATERAL (
      SELECT z.total, z.number, z.stream, z.seq, coalesce(t.name, z.new_type) AS type, z.schema, z.time, z.id,
             z.data, z.meta, z.queued, s.tenant, s.name
        FROM sized z JOIN everfold.stream s ON s.id = z.stream
        LEFT JOIN everfold.event_type t ON t.id = z.type
       WHERE z.before < $4 ORDER BY z.number LIMIT $3) e ON true
 ORDER BY e.number;

-- name: event_place
-- only: postgres in SQLite every append has its position when it commits
-- Gives positions to events; a trigger refuses those that have one.
-- binds: by hand, 1 first position, 2 numbers: stream, seq, number of the type's name, sum, 3 names of
--        types, 4 recorded, 5 hashes
WITH types AS MATERIALIZED (
    SELECT array_agg(t.id ORDER BY y.n) AS ids
      FROM unnest($3) WITH ORDINALITY AS y(name, n) LEFT JOIN everfold.event_type t ON t.name = y.name),
placed AS (
    UPDATE everfold.event e
       SET position = $1 + u.n - 1, recorded = $4, sum = $2[u.n * 4],
           hash = substr($5, (u.n - 1) * 32 + 1, 32), type = k.ids[$2[u.n * 4 - 1]]
      FROM types k, generate_series(1, cardinality($2) / 4) AS u(n)
     WHERE e.stream = $2[u.n * 4 - 3] AND e.seq = $2[u.n * 4 - 2]
    RETURNING 1)
SELECT everfold.refuse('seq_conflict', 'an event has got a position from another sequencer')
  FROM placed HAVING count(*) <> cardinality($2) / 4;

-- name: event_insert
-- binds: by hand, 1 first position, 2 numbers: stream, seq, number of the type's name, schema,
--        time, sum, made, 3 names of types, 4 recorded, 5 ids, 6 data, 7 meta, 8 hashes, 9 whether they
--        get positions (null: what sequencer_guess has decided), 10 whether they get outbox rows
WITH mode AS MATERIALIZED (
    SELECT d.is_placed, k.ids,
           CASE WHEN NOT d.is_placed THEN nextval('everfold.event_number') * 16384 END AS number,
           CASE WHEN NOT d.is_placed THEN pg_current_xact_id() END AS xid
      FROM (SELECT coalesce($9, current_setting('everfold.placed', true) = 'on') AS is_placed) d,
           (SELECT array_agg(t.id ORDER BY y.n) AS ids
              FROM unnest($3) WITH ORDINALITY AS y(name, n)
              LEFT JOIN everfold.event_type t ON t.name = y.name) k)
INSERT INTO everfold.event(position, stream, seq, type, schema, time, recorded, id, data, meta, sum,
                           hash, made, number, xid, new_type, queued)
SELECT CASE WHEN m.is_placed THEN $1 + u.n - 1 END, $2[(u.n * 7 - 6)::integer],
       $2[(u.n * 7 - 5)::integer], m.ids[$2[(u.n * 7 - 4)::integer]], $2[(u.n * 7 - 3)::integer],
       $2[(u.n * 7 - 2)::integer], CASE WHEN m.is_placed THEN $4 END, u.id, u.data, u.meta,
       CASE WHEN m.is_placed THEN $2[(u.n * 7 - 1)::integer] END,
       CASE WHEN m.is_placed THEN substr($8, ((u.n - 1) * 32 + 1)::integer, 32) END,
       $2[(u.n * 7)::integer] <> 0, m.number + u.n, m.xid,
       CASE WHEN m.ids[$2[(u.n * 7 - 4)::integer]] IS NULL THEN $3[$2[(u.n * 7 - 4)::integer]] END,
       CASE WHEN NOT m.is_placed THEN $10 END
  FROM mode m, unnest($5, $6, $7) WITH ORDINALITY AS u(id, data, meta, n);

-- name: outbox_insert
-- A row for every lane that selects the event, if the events got positions.
-- binds: by hand, 1 positions, 2 numbers: partition, that in lanes of publishers, number of the
--        type's name, 3 names of types, 4 as event_insert 9
INSERT INTO everfold.outbox(lane, position, partition)
SELECT l.id, u.position, $2[(u.n * 3 - CASE l.kind WHEN 2 THEN 1 ELSE 2 END)::integer]
  FROM unnest($1) WITH ORDINALITY AS u(position, n)
  JOIN everfold.lane l ON l.enabled
   AND (l.kind = 0 OR (l.kind = 2 AND (
        SELECT coalesce(a.publish, t.publish)
               AND everfold.type_matches(coalesce(a.name, t.name), l.types)
          FROM everfold.event_type t LEFT JOIN everfold.event_type a ON a.id = t.alias_of
         WHERE t.name = $3[$2[(u.n * 3)::integer]])))
 WHERE coalesce($4, current_setting('everfold.placed', true) = 'on');

-- name: notify
-- only: postgres SQLite wakes waiting processes by its files
-- Wakes the processes that wait for the journal to grow.
-- row: ignored
SELECT pg_notify('everfold', '');

-- name: notify_sleepers
-- only: postgres SQLite wakes waiting processes by its files
-- The same if a process sleeps: it holds the lock shared then (sleep_begin). A role that abuses the lock
-- causes extra notifications, or polling. A transaction of its own that is not synced: PostgreSQL locks
-- all databases from a notification to the end of its commit.
-- row: ignored
SELECT set_config('synchronous_commit', 'off', true),
       CASE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(s.journal_id, 0))
            THEN pg_notify('everfold', '') END
  FROM everfold.state s;

-- name: sleep_begin
-- only: postgres SQLite wakes waiting processes by its files
-- For the session: a notification is wanted.
-- row: is_announced bool
SELECT pg_try_advisory_lock_shared(hashtextextended(s.journal_id, 0)) FROM everfold.state s;

-- name: sleep_end
-- only: postgres SQLite wakes waiting processes by its files
-- row: ignored
SELECT pg_advisory_unlock_shared(hashtextextended(s.journal_id, 0)) FROM everfold.state s;

-- name: event_places
-- only: postgres SQLite asks its id index
-- Whether events exist, by stream and seq. Position 0: it has none yet.
-- binds: 1 streams int[], 2 seqs int[]
-- rows: n int, position int, id text
SELECT u.n, coalesce(e.position, 0), e.id
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
SELECT position, recorded, hash FROM everfold.event WHERE position IS NOT NULL
 ORDER BY position DESC LIMIT 1;

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
  JOIN LATERAL (SELECT seq, position FROM everfold.event
                 WHERE stream = s.id AND position IS NOT NULL ORDER BY seq DESC LIMIT 1) e ON true
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
  JOIN LATERAL (SELECT seq, position FROM everfold.event
                 WHERE stream = f.id AND position IS NOT NULL ORDER BY seq DESC LIMIT 1) e ON true
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
-- Ids and outbox rows without an event.
-- row: ids int, outbox int
SELECT (SELECT count(*) FROM everfold.event_id i
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.stream = i.stream AND e.seq = i.seq)),
       (SELECT count(*) FROM everfold.outbox o
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.position = o.position))
     + (SELECT count(*) FROM everfold.retry_row x
         WHERE NOT EXISTS (SELECT FROM everfold.event e WHERE e.position = x.position));
