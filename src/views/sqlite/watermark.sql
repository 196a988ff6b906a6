-- Watermarks, fences and failures.

-- name: watermark_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation, 2 tenant, 3 stream, 4 applied_seq, 5 expected_next_seq, 6 hash
INSERT INTO watermark(generation, tenant, stream, applied_seq, expected_next_seq, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO NOTHING;

-- name: watermark_update
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- No row changed means that it is not what was read.
-- binds: 1 generation, 2 tenant, 3 stream, 4 applied_seq, 5 expected_next_seq, 6 hash; 7, 8, 9 the
--        same as read
UPDATE watermark SET applied_seq = ?4, expected_next_seq = ?5, hash = ?6
 WHERE generation = ?1 AND tenant = ?2 AND stream = ?3
   AND applied_seq = ?7 AND expected_next_seq = ?8 AND hash = ?9;

-- name: watermark_get
-- binds: 1 generation, 2 tenant, 3 stream
SELECT applied_seq, expected_next_seq, hash
  FROM watermark WHERE generation = ?1 AND tenant = ?2 AND stream = ?3;

-- name: watermark_scan
-- binds: 1 generation
SELECT applied_seq, expected_next_seq, hash, tenant, stream
  FROM watermark WHERE generation = ?1 ORDER BY tenant, stream;

-- name: watermark_cut
-- binds: 1 generation, 2 limit
DELETE FROM watermark
 WHERE (generation, tenant, stream) IN
       (SELECT generation, tenant, stream FROM watermark WHERE generation = ?1 LIMIT ?2);

-- name: fence_get
-- binds: 1 scope
SELECT token FROM fence WHERE scope = ?1;

-- name: fence_put
-- only: sqlite on PostgreSQL it is read and put by one statement (fence_pass)
-- binds: 1 scope, 2 token
INSERT INTO fence(scope, token) VALUES (?1, ?2)
    ON CONFLICT (scope) DO UPDATE SET token = excluded.token;

-- name: failure_put
-- Open it, or count up the one that is open for this event.
-- binds: 1 generation, 2 tenant, 3 stream, 4 seq, 5 position, 6 event_id, 7 code, 8 message,
--        9 recorded
INSERT INTO failure(generation, tenant, stream, seq, position, event_id, code, message, attempts,
                    open, recorded, resolved)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 1, ?9, 0)
    ON CONFLICT (generation, tenant, stream, seq) WHERE open = 1
    DO UPDATE SET attempts = attempts + 1, position = excluded.position,
                  event_id = excluded.event_id, code = excluded.code, message = excluded.message;

-- name: failure_any_open
-- binds: 1 generation
SELECT 1 FROM failure WHERE generation = ?1 AND open = 1 LIMIT 1;

-- name: failure_resolve
-- binds: 1 generation, 2 tenant, 3 stream, 4 seq from, 5 seq before, 6 resolved
UPDATE failure SET open = 0, resolved = ?6
 WHERE generation = ?1 AND tenant = ?2 AND stream = ?3 AND seq >= ?4 AND seq < ?5 AND open = 1;

-- name: failure_newest
-- binds: 1 generation, 2 limit, 3 of all tenants, 4 tenant
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved
  FROM failure WHERE generation = ?1 AND (?3 OR tenant = ?4)
 ORDER BY id DESC LIMIT ?2;

-- name: failure_newest_open
-- binds: 1 generation, 2 limit, 3 of all tenants, 4 tenant
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved
  FROM failure WHERE generation = ?1 AND open = 1 AND (?3 OR tenant = ?4)
 ORDER BY id DESC LIMIT ?2;

-- name: failure_cut
-- binds: 1 generation, 2 limit
DELETE FROM failure WHERE id IN (SELECT id FROM failure WHERE generation = ?1 LIMIT ?2);
