-- Runs: jobs with a record. Times are those of the server.

-- name: run_scope_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- Runs are filed by one transaction at a time.
LOCK TABLE everfold.run_lock IN EXCLUSIVE MODE;

-- name: run_file
-- binds: 1 id, 2 mode, 3 projection, 4 tenant, 5 clock, 6 first, 7 last, 8 total, 9 reason,
-- binds: 10 requester, 11 detail
INSERT INTO everfold.run(id, mode, projection, tenant, state, requested, started, finished, first,
                         last, processed, total, last_position, error, reason, requester,
                         lease_kind, lease_name, lease_partition, detail, cancel)
VALUES ($1, $2::integer, $3, $4, 0, everfold.clock_us($5), 0, 0, $6, $7, 0, $8, 0, '', $9, $10, -1,
        '', -1, $11, false);

-- name: run_open
-- The open run that excludes another one of the same scope; a run over all projections has an empty
-- name.
-- binds: 1 tenant, 2 projection
SELECT id, projection, state FROM everfold.run
 WHERE tenant = $1 AND state < 2 AND ($2 = '' OR projection IN ($2, '')) ORDER BY number LIMIT 1;

-- name: run_driver
-- The run, locked, and whether the lease under which it was last driven is live.
-- binds: 1 id, 2 clock
SELECT r.state, r.started, c.now,
       coalesce((SELECT everfold.lease_live(l.owner, l.until, l.updated, c.now)
                   FROM everfold.lease l WHERE l.kind = r.lease_kind AND l.name = r.lease_name
                    AND l.partition = r.lease_partition), false)
  FROM everfold.run r, everfold.clock_us($2) AS c(now) WHERE r.id = $1 FOR UPDATE OF r;

-- name: run_move
-- binds: 1 id, 2 state, 3 started, 4 finished, 5 processed, 6 total, 7 last_position, 8 error,
-- binds: 9 detail, or empty to leave it, 10 lease_kind, or -1 to leave it, 11 lease_name,
-- binds: 12 lease_partition
UPDATE everfold.run SET state = $2::integer, started = $3, finished = $4, processed = $5, total = $6,
       last_position = $7, error = $8, detail = CASE WHEN $9 = '' THEN detail ELSE $9 END,
       lease_kind = CASE WHEN $10 < 0 THEN lease_kind ELSE $10::integer END,
       lease_name = CASE WHEN $10 < 0 THEN lease_name ELSE $11 END,
       lease_partition = CASE WHEN $10 < 0 THEN lease_partition ELSE $12::integer END
 WHERE id = $1;

-- name: run_cancel
-- A queued run ends at once.
-- binds: 1 id, 2 now
UPDATE everfold.run SET cancel = true, finished = CASE state WHEN 0 THEN $2 ELSE 0 END,
       state = CASE state WHEN 0 THEN 4 ELSE state END WHERE id = $1;

-- name: run_get
-- binds: 1 id
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run WHERE id = $1;

-- name: run_newest
-- binds: 1 limit
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run ORDER BY number DESC LIMIT $1;

-- name: run_newest_open
-- Workers run this at every tick, however many runs have ended: by the index of open runs.
-- binds: 1 limit
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run WHERE state < 2 ORDER BY number DESC LIMIT $1;

-- name: run_newest_tenant
-- The runs of one tenant. Runs over all tenants are stored under the tenant '': every mode but replay
-- (0), and a replay whose detail has all_tenants.
-- binds: 1 limit, 2 tenant, 3 open only
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run
 WHERE tenant = $2 AND (NOT $3 OR state < 2)
   AND (tenant <> '' OR (mode = 0 AND CASE WHEN detail = '' THEN true
        ELSE coalesce((detail::pg_catalog.jsonb ->> 'all_tenants')::boolean, false) = false END))
 ORDER BY number DESC LIMIT $1;
