-- Runs: jobs with a record; and the audit log. Times are those of the server.

-- name: run_scope_lock
-- only: postgres SQLite has one writer at a time, which needs no lock
-- Runs are filed by one transaction at a time.
LOCK TABLE everfold.run_lock IN EXCLUSIVE MODE;

-- name: run_file
-- binds: 1 run.id text, 2 run.mode int, 3 run.projection text, 4 run.tenant text, 5 now clock, 6
--        run.from int, 7 run.to int, 8 run.total int, 9 run.reason text, 10 run.requester text, 11
--        run.detail text
-- from: run ef_run
INSERT INTO everfold.run(id, mode, projection, tenant, state, requested, started, finished, first,
                         last, processed, total, last_position, error, reason, requester,
                         lease_kind, lease_name, lease_partition, detail, cancel)
VALUES ($1, $2::integer, $3, $4, 0, everfold.clock_us($5), 0, 0, $6, $7, 0, $8, 0, '', $9, $10, -1,
        '', -1, $11, false);

-- name: run_open
-- The open run that excludes another one of the same scope; a run over all projections has an empty
-- name.
-- binds: 1 run.tenant text, 2 run.projection text
-- from: run ef_run
-- rows: id text, projection text, state int
SELECT id, projection, state FROM everfold.run
 WHERE tenant = $1 AND state < 2 AND ($2 = '' OR projection IN ($2, '')) ORDER BY number LIMIT 1;

-- name: run_driver
-- The run, locked, and whether the lease under which it was last driven is live.
-- binds: 1 id text, 2 now clock
-- row: state int, started int, now int, driven bool
SELECT r.state, r.started, c.now,
       coalesce((SELECT everfold.lease_live(l.owner, l.until, l.updated, c.now)
                   FROM everfold.lease l WHERE l.kind = r.lease_kind AND l.name = r.lease_name
                    AND l.partition = r.lease_partition), false)
  FROM everfold.run r, everfold.clock_us($2) AS c(now) WHERE r.id = $1 FOR UPDATE OF r;

-- name: run_move
-- binds: 1 run.id text, 2 run.state int, 3 started int, 4 finished int, 5 run.processed int, 6
--        run.total int, 7 run.last_position int, 8 run.error text, 9 run.detail text (or empty to
--        leave it), 10 lease_kind int (or -1 to leave it), 11 lease_name text, 12 lease_partition
--        int
-- from: run ef_run
UPDATE everfold.run SET state = $2::integer, started = $3, finished = $4, processed = $5, total = $6,
       last_position = $7, error = $8, detail = CASE WHEN $9 = '' THEN detail ELSE $9 END,
       lease_kind = CASE WHEN $10 < 0 THEN lease_kind ELSE $10::integer END,
       lease_name = CASE WHEN $10 < 0 THEN lease_name ELSE $11 END,
       lease_partition = CASE WHEN $10 < 0 THEN lease_partition ELSE $12::integer END
 WHERE id = $1;

-- name: run_cancel
-- A queued run ends at once.
-- binds: 1 id text, 2 now int
UPDATE everfold.run SET cancel = true, finished = CASE state WHEN 0 THEN $2 ELSE 0 END,
       state = CASE state WHEN 0 THEN 4 ELSE state END WHERE id = $1;

-- name: run_get
-- binds: 1 id text
-- list ef_run: id text, mode int, projection text, tenant text, state int, requested_us int,
--        started_us int, finished_us int, from int, to int, processed int, total int, last_position
--        int, error text, reason text, requester text, detail text, cancel bool
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run WHERE id = $1;

-- name: run_newest
-- binds: 1 limit int
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run ORDER BY number DESC LIMIT $1;

-- name: run_newest_open
-- Workers run this at every tick, however many runs have ended: by the index of open runs.
-- binds: 1 limit int
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run WHERE state < 2 ORDER BY number DESC LIMIT $1;

-- name: run_newest_tenant
-- The runs of one tenant. Runs over all tenants are stored under the tenant '': every mode but replay
-- (0), and a replay whose detail has all_tenants.
-- binds: 1 limit int, 2 tenant text, 3 open_only bool
-- list: as run_get
SELECT id, mode, projection, tenant, state, requested, started, finished, first, last, processed,
       total, last_position, error, reason, requester, detail, cancel
  FROM everfold.run
 WHERE tenant = $2 AND (NOT $3 OR state < 2)
   AND (tenant <> '' OR (mode = 0 AND CASE WHEN detail = '' THEN true
        ELSE coalesce((detail::pg_catalog.jsonb ->> 'all_tenants')::boolean, false) = false END))
 ORDER BY number DESC LIMIT $1;

-- name: audit_insert
-- binds: 1 now clock, 2 entry.action text, 3 entry.actor text, 4 entry.reason text, 5 entry.lane
--        text, 6 entry.tenant text, 7 entry.stream text, 8 entry.seq int, 9 count int
-- from: entry ef_audit_entry
-- row: id int
INSERT INTO everfold.audit(at, action, actor, reason, lane, tenant, stream, seq, rows)
VALUES (everfold.clock_us($1), $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING id;

-- name: audit_grow
-- binds: 1 id int, 2 rows int
UPDATE everfold.audit SET rows = rows + $2 WHERE id = $1;

-- name: audit_newest
-- An entry about all tenants is kept under the tenant '' without a stream.
-- binds: 1 query.after int, 2 query.before int, 3 query.action text, 4 query.lane text (or ''), 5
--        query.limit int, 6 any_tenant bool, 7 tenant text
-- from: query ef_audit_query
-- list ef_audit_entry: id int, at_us int, action text, actor text, reason text, lane text, tenant
--        text, stream text, seq int, rows int
SELECT id, at, action, actor, reason, lane, tenant, stream, seq, rows
  FROM everfold.audit
 WHERE id > $1 AND id < $2 AND ($3 = '' OR action = $3) AND ($4 = '' OR lane = $4)
   AND ($6 OR (tenant = $7 AND (tenant <> '' OR stream <> '')))
 ORDER BY id DESC LIMIT $5;
