-- Runs: jobs with a record. Times are those of the clock of the process.

-- name: run_file
-- binds: 1 id, 2 mode, 3 projection, 4 tenant, 5 requested, 6 first, 7 last, 8 total, 9 reason,
-- binds: 10 requester, 11 detail
INSERT INTO run(id, mode, projection, tenant, state, requested, started, finished, first, last,
                processed, total, last_position, error, reason, requester, lease_kind, lease_name,
                lease_partition, detail, cancel)
VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, 0, ?6, ?7, 0, ?8, 0, '', ?9, ?10, -1, '', -1, ?11, 0);

-- name: run_open
-- The open run that excludes another one of the same scope; a run over all projections has an empty
-- name. The condition on state is that of run_open_once, so that the index is used.
-- binds: 1 tenant, 2 projection
SELECT id, projection, state FROM run
 WHERE tenant = ?1 AND state < 2 AND (?2 = '' OR projection IN (?2, ''));

-- name: run_get
-- binds: 1 id
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run WHERE id = ?1;

-- name: run_driver
-- binds: 1 id
SELECT state, started, lease_kind, lease_name, lease_partition FROM run WHERE id = ?1;

-- name: run_move
-- binds: 1 id, 2 state, 3 started, 4 finished, 5 processed, 6 total, 7 last_position, 8 error,
-- binds: 9 detail, or empty to leave it
UPDATE run SET state = ?2, started = ?3, finished = ?4, processed = ?5, total = ?6,
               last_position = ?7, error = ?8,
               detail = CASE WHEN ?9 = '' THEN detail ELSE ?9 END WHERE id = ?1;

-- name: run_drive
-- only: sqlite PostgreSQL stores the lease in run_move
-- Records the lease under which the run is driven: a cancellation checks whether it is live.
-- binds: 1 id, 2 lease_kind, 3 lease_name, 4 lease_partition
UPDATE run SET lease_kind = ?2, lease_name = ?3, lease_partition = ?4 WHERE id = ?1;

-- name: run_cancel
-- A queued run ends at once.
-- binds: 1 id, 2 now
UPDATE run SET cancel = 1, finished = CASE state WHEN 0 THEN ?2 ELSE 0 END,
               state = CASE state WHEN 0 THEN 4 ELSE state END WHERE id = ?1;

-- name: run_newest
-- The caller stops stepping at its limit.
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run ORDER BY number DESC;

-- name: run_newest_open
-- Workers run this at every tick, however many runs have ended. The condition is that of run_open_once.
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run INDEXED BY run_open_once WHERE state < 2 ORDER BY number DESC;

-- name: run_newest_tenant
-- The runs of one tenant. Runs over all tenants are stored under the tenant '': every mode but replay
-- (0), and a replay whose detail has all_tenants. The caller stops stepping at its limit.
-- binds: 1 tenant, 2 open only
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run
 WHERE tenant = ?1 AND (?2 = 0 OR state < 2)
   AND (tenant <> '' OR (mode = 0 AND (detail = '' OR (json_valid(detail)
        AND coalesce(json_extract(detail, '$.all_tenants'), 0) = 0))))
 ORDER BY number DESC;
