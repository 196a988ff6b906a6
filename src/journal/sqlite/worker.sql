-- Workers and their heartbeats. Times are those of the clock of the process.

-- name: worker_beat
-- Joins, or extends the heartbeat. The time of joining stays.
-- binds: 1 worker.id text, 2 worker.host text, 3 worker.pid int, 4 now int, 5 heartbeat_until int,
--        6 idle bool
-- from: worker ef_worker
INSERT INTO worker(id, host, pid, started, updated, heartbeat_until, idle)
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
    ON CONFLICT (id)
    DO UPDATE SET host = excluded.host, pid = excluded.pid, updated = excluded.updated,
                  heartbeat_until = excluded.heartbeat_until, idle = excluded.idle;

-- name: worker_bring_back
-- See ef__lease_bring_back.
-- binds: as lease_bring_back
UPDATE worker SET heartbeat_until = iif(updated - ?1 <= heartbeat_until - updated,
                                        ?1 + heartbeat_until - updated, ?1),
                  updated = ?1
 WHERE updated > ?1 + ?2;

-- name: worker_leave
-- binds: 1 id text
DELETE FROM worker WHERE id = ?1;

-- name: worker_purge_claim
-- No changed row: a purge started less than an interval ago. A time in the future means that the clock
-- was set back.
-- binds: 1 now int, 2 interval int
UPDATE state SET purged = ?1 WHERE purged = 0 OR ?1 < purged OR ?1 - purged >= ?2;

-- name: worker_purge
-- binds: 1 before int (heartbeats that ended before this)
DELETE FROM worker WHERE heartbeat_until < ?1;

-- name: worker_all
-- rows ef_worker: id text, host text, pid int, started_us int, updated_us int,
--        heartbeat_until_us int, state int (whether it is idle)
SELECT id, host, pid, started, updated, heartbeat_until, idle FROM worker ORDER BY id;
