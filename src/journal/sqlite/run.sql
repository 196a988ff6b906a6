-- Runs: jobs with a record. Times are those of the clock of the process.

-- name: run_file
-- binds: 1 run.id text, 2 run.mode int, 3 run.projection text, 4 run.tenant text, 5 requested int,
--        6 run.from int, 7 run.to int, 8 run.total int, 9 run.reason text, 10 run.requester text,
--        11 run.detail text
-- from: run ef_run
INSERT INTO run(id, mode, projection, tenant, state, requested, started, finished, first, last,
                processed, total, last_position, error, reason, requester, lease_kind, lease_name,
                lease_partition, detail, cancel)
VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, 0, ?6, ?7, 0, ?8, 0, '', ?9, ?10, -1, '', -1, ?11, 0);

-- name: run_open
-- The open run that excludes another one of the same scope; a run over all projections has an empty
-- name. The condition on state is that of run_open_once, so that the index is used.
-- binds: 1 tenant text, 2 projection text
-- rows: id text, projection text, state int
SELECT id, projection, state FROM run
 WHERE tenant = ?1 AND state < 2 AND (?2 = '' OR projection IN (?2, ''));

-- name: run_get
-- binds: 1 id text
-- list ef_run: id text, mode int, projection text, tenant text, state int, requested_us int,
--        started_us int, finished_us int, from int, to int, processed int, total int,
--        last_position int, error text, reason text, requester text, detail text, cancel bool
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run WHERE id = ?1;

-- name: run_driver
-- The run, and whether the lease under which it was last driven is live.
-- binds: 1 id text, 2 now int
-- row: state int, started int, driven bool
SELECT r.state, r.started,
       ifnull((SELECT lease_live(l.owner, l.until, l.updated, ?2) FROM lease l
                WHERE l.kind = r.lease_kind AND l.name = r.lease_name
                  AND l.partition = r.lease_partition), 0)
  FROM run r WHERE r.id = ?1;

-- name: run_move
-- Records the lease under which the run is driven: a cancellation checks whether it is live.
-- binds: 1 run.id text, 2 run.state int, 3 started int, 4 finished int, 5 run.processed int,
--        6 run.total int, 7 run.last_position int, 8 run.error text,
--        9 run.detail text (or empty to leave it), 10 lease_kind int (or -1 to leave it),
--        11 lease_name text, 12 lease_partition int
-- from: run ef_run
UPDATE run SET state = ?2, started = ?3, finished = ?4, processed = ?5, total = ?6,
               last_position = ?7, error = ?8,
               detail = CASE WHEN ?9 = '' THEN detail ELSE ?9 END,
               lease_kind = CASE WHEN ?10 < 0 THEN lease_kind ELSE ?10 END,
               lease_name = CASE WHEN ?10 < 0 THEN lease_name ELSE ?11 END,
               lease_partition = CASE WHEN ?10 < 0 THEN lease_partition ELSE ?12 END
 WHERE id = ?1;

-- name: run_cancel
-- A queued run ends at once.
-- binds: 1 id text, 2 now int
UPDATE run SET cancel = 1, finished = CASE state WHEN 0 THEN ?2 ELSE 0 END,
               state = CASE state WHEN 0 THEN 4 ELSE state END WHERE id = ?1;

-- name: run_newest
-- binds: 1 limit int
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run ORDER BY number DESC LIMIT ?1;

-- name: run_newest_open
-- Workers run this at every tick, however many runs have ended. The condition is that of run_open_once.
-- binds: 1 limit int
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run INDEXED BY run_open_once WHERE state < 2 ORDER BY number DESC LIMIT ?1;

-- name: run_newest_tenant
-- The runs of one tenant. Runs over all tenants are stored under the tenant '': every mode but replay
-- (0), and a replay whose detail has all_tenants.
-- binds: 1 limit int, 2 tenant text, 3 open_only bool
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM run
 WHERE tenant = ?2 AND (?3 = 0 OR state < 2)
   AND (tenant <> '' OR (mode = 0 AND (detail = '' OR (json_valid(detail)
        AND coalesce(json_extract(detail, '$.all_tenants'), 0) = 0))))
 ORDER BY number DESC LIMIT ?1;
