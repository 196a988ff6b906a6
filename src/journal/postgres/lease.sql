-- Leases, many in one statement, locked in the order of their keys. The rules are in
-- core/lease_rule.h; these statements only read and write.

-- name: lease_create
-- only: postgres SQLite inserts in lease_put
-- Rows for leases that were never acquired or were pruned: free, above every token that was pruned.
-- binds: 1 kinds int[], 2 names text[], 3 partitions int[]
INSERT INTO everfold.lease(kind, name, partition, owner, token, until, updated)
SELECT DISTINCT u.kind::integer, u.name, u.partition::integer, '', s.token_floor, 0, 0
  FROM unnest($1, $2, $3) AS u(kind, name, partition), everfold.state s
 WHERE NOT EXISTS (SELECT FROM everfold.lease l WHERE l.kind = u.kind AND l.name = u.name
                      AND l.partition = u.partition)
 ORDER BY 1, 2, 3
    ON CONFLICT DO NOTHING;

-- name: lease_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- binds: 1 kinds int[], 2 names text[], 3 partitions int[], 4 now clock
-- rows pg_lease_row: key.kind int, key.name text, key.partition int, row.owner text, row.token int,
--        row.until_us int, row.updated_us int, now_us int
SELECT l.kind, l.name, l.partition, l.owner, l.token, l.until, l.updated, everfold.clock_us($4)
  FROM everfold.lease l
 WHERE EXISTS (SELECT FROM unnest($1, $2, $3) AS u(kind, name, partition)
                WHERE u.kind = l.kind AND u.name = l.name AND u.partition = l.partition)
 ORDER BY l.kind, l.name, l.partition FOR UPDATE OF l;

-- name: lease_put
-- binds: 1 kinds int[], 2 names text[], 3 partitions int[], 4 owners text[], 5 tokens int[], 6
--        untils int[], 7 updated int[]
UPDATE everfold.lease l SET owner = u.owner, token = u.token, until = u.until, updated = u.updated
  FROM unnest($1, $2, $3, $4, $5, $6, $7)
       AS u(kind, name, partition, owner, token, until, updated)
 WHERE l.kind = u.kind AND l.name = u.name AND l.partition = u.partition;

-- name: lease_bring_back
-- See ef__lease_bring_back. Rows are locked in the order of their keys, as everywhere.
-- binds: 1 now clock, 2 slack int
UPDATE everfold.lease l
   SET until = CASE WHEN l.until = 0 THEN 0
                    WHEN l.updated - b.now <= l.until - l.updated THEN b.now + l.until - l.updated
                    ELSE b.now END,
       updated = b.now
  FROM (SELECT f.kind, f.name, f.partition, c.now
          FROM everfold.lease f, everfold.clock_us($1) AS c(now)
         WHERE f.updated > c.now + $2
         ORDER BY f.kind, f.name, f.partition FOR UPDATE OF f) b
 WHERE l.kind = b.kind AND l.name = b.name AND l.partition = b.partition;

-- name: worker_bring_back
-- binds: 1 now clock, 2 slack int
UPDATE everfold.worker w
   SET heartbeat_until = CASE WHEN w.updated - b.now <= w.heartbeat_until - w.updated
                              THEN b.now + w.heartbeat_until - w.updated ELSE b.now END,
       updated = b.now
  FROM (SELECT f.id, c.now FROM everfold.worker f, everfold.clock_us($1) AS c(now)
         WHERE f.updated > c.now + $2 ORDER BY f.id FOR UPDATE OF f) b
 WHERE w.id = b.id;

-- name: lease_lock_held
-- only: postgres SQLite has one writer at a time, which needs no lock
-- The leases under which a write is made. No take-over is possible before its transaction ends, and no
-- other write under them: it waits, and then sees the offsets that this one has changed.
-- binds: 1 kind int, 2 name text, 3 partitions int[], 4 now clock
-- rows pg_lease_row: key.partition int, row.owner text, row.token int, row.until_us int,
--        row.updated_us int, now_us int
SELECT l.partition, l.owner, l.token, l.until, l.updated, everfold.clock_us($4)
  FROM everfold.lease l
 WHERE l.kind = $1 AND l.name = $2 AND l.partition = ANY ($3)
 ORDER BY l.partition FOR NO KEY UPDATE OF l;

-- name: clock
-- only: postgres the clock of SQLite is that of the process
-- binds: 1 now clock
-- row: now int
SELECT everfold.clock_us($1);

-- name: lease_all
-- binds: 1 kind int (or -1 for all), 2 now clock
-- list ef_lease: key.kind int, key.name text, key.partition int, holder text, token int,
--        until_us int, updated_us int, live bool
SELECT kind, name, partition, owner, token, until, updated,
       everfold.lease_live(owner, until, updated, everfold.clock_us($2))
  FROM everfold.lease WHERE $1 < 0 OR kind = $1 ORDER BY kind, name, partition;

-- name: lease_beyond
-- Leases of partitions beyond the count: how many are held, and how many can be pruned.
-- binds: 1 count int, 2 now clock
-- row: held int, free int
SELECT count(*) FILTER (WHERE live), count(*) FILTER (WHERE NOT live)
  FROM (SELECT everfold.lease_live(owner, until, updated, everfold.clock_us($2)) AS live
          FROM everfold.lease WHERE kind = 0 AND partition >= $1 FOR UPDATE) l;

-- name: lease_prune
-- Deletes the leases that are not held; their tokens are never given again.
-- binds: 1 count int, 2 now clock
WITH pruned AS (
    DELETE FROM everfold.lease
     WHERE kind = 0 AND partition >= $1
       AND NOT everfold.lease_live(owner, until, updated, everfold.clock_us($2))
    RETURNING token)
UPDATE everfold.state SET token_floor = greatest(token_floor, (SELECT max(token) FROM pruned));

-- name: worker_beat
-- Joins, or extends the heartbeat. The time of joining stays.
-- binds: 1 worker.id text, 2 worker.host text, 3 worker.pid int, 4 now clock, 5 heartbeat_us int, 6
--        idle int
-- from: worker ef_worker
INSERT INTO everfold.worker AS w(id, host, pid, started, updated, heartbeat_until, idle)
SELECT $1, $2, $3, now, now, now + $5, $6 <> 0 FROM everfold.clock_us($4) AS c(now)
    ON CONFLICT (id)
    DO UPDATE SET host = excluded.host, pid = excluded.pid, updated = excluded.updated,
                  heartbeat_until = excluded.heartbeat_until, idle = excluded.idle;

-- name: worker_leave
-- binds: 1 id text
DELETE FROM everfold.worker WHERE id = $1;

-- name: worker_purge_claim
-- No row: a purge started less than an interval ago. A time in the future means that the clock was set
-- back.
-- binds: 1 now clock, 2 interval_us int
UPDATE everfold.state SET purged = now FROM everfold.clock_us($1) AS c(now)
 WHERE purged = 0 OR now < purged OR now - purged >= $2;

-- name: worker_purge
-- binds: 1 now clock, 2 ended_us int (microseconds since its heartbeat ended)
DELETE FROM everfold.worker WHERE heartbeat_until < everfold.clock_us($1) - $2;

-- name: worker_all
-- binds: 1 now clock
-- rows pg_worker_row: worker.id text, worker.host text, worker.pid int, worker.started_us int,
--        worker.updated_us int, worker.heartbeat_until_us int, now_us int,
--        worker.state int (whether it is idle)
SELECT id, host, pid, started, updated, heartbeat_until, everfold.clock_us($1), idle::int
  FROM everfold.worker ORDER BY id;
