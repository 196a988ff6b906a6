-- Watermarks, fences and failures.

-- name: watermark_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation int, 2 c.tenant text, 3 c.stream text, 4 c.after.applied_seq int,
--        5 c.after.expected_next_seq int, 6 c.after.hash bytes
-- from: c ef__watermark_change
INSERT INTO watermark(generation, tenant, stream, applied_seq, expected_next_seq, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO NOTHING;

-- name: watermark_update
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- No row is changed if the watermark differs from what was read.
-- binds: 1 generation int, 2 c.tenant text, 3 c.stream text, 4 c.after.applied_seq int,
--        5 c.after.expected_next_seq int, 6 c.after.hash bytes, 7 c.before.applied_seq int,
--        8 c.before.expected_next_seq int, 9 c.before.hash bytes
-- from: c ef__watermark_change
UPDATE watermark SET applied_seq = ?4, expected_next_seq = ?5, hash = ?6
 WHERE generation = ?1 AND tenant = ?2 AND stream = ?3
   AND applied_seq = ?7 AND expected_next_seq = ?8 AND hash = ?9;

-- name: watermark_get
-- binds: 1 generation int, 2 tenant text, 3 stream text
-- row ef__watermark: applied_seq int, expected_next_seq int, hash bytes
SELECT applied_seq, expected_next_seq, hash
  FROM watermark WHERE generation = ?1 AND tenant = ?2 AND stream = ?3;

-- name: watermark_scan
-- binds: 1 generation int
-- rows ef__watermark_row: is.applied_seq int, is.expected_next_seq int, is.hash bytes, tenant text,
--        stream text
SELECT applied_seq, expected_next_seq, hash, tenant, stream
  FROM watermark WHERE generation = ?1 ORDER BY tenant, stream;

-- name: watermark_cut
-- binds: as cursor_cut
DELETE FROM watermark
 WHERE (generation, tenant, stream) IN
       (SELECT generation, tenant, stream FROM watermark WHERE generation = ?1 LIMIT ?2);

-- name: fence_get
-- binds: 1 scope text
-- row: token int
SELECT token FROM fence WHERE scope = ?1;

-- name: fence_put
-- only: sqlite on PostgreSQL it is read and put by two statements (fence_raise, fence_higher)
-- binds: 1 scope text, 2 token int
INSERT INTO fence(scope, token) VALUES (?1, ?2)
    ON CONFLICT (scope) DO UPDATE SET token = excluded.token;

-- name: failure_put
-- Opens a failure, or increments the attempts of the one that is open for this event.
-- binds: 1 generation int, 2 f.tenant text, 3 f.stream text, 4 f.seq int, 5 f.position int,
--        6 f.event_id text, 7 f.code text, 8 f.message text, 9 recorded int, 10 f.line int
-- from: f ef__failure
INSERT INTO failure(generation, tenant, stream, seq, position, event_id, code, message, attempts,
                    open, recorded, resolved, line)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 1, ?9, 0, ?10)
    ON CONFLICT (generation, tenant, stream, seq) WHERE open = 1
    DO UPDATE SET attempts = attempts + 1, position = excluded.position,
                  event_id = excluded.event_id, code = excluded.code, message = excluded.message,
                  line = excluded.line;

-- name: failure_any_open
-- binds: 1 generation int
-- row: -
SELECT 1 FROM failure WHERE generation = ?1 AND open = 1 LIMIT 1;

-- name: failure_resolve
-- binds: 1 generation int, 2 c.tenant text, 3 c.stream text, 4 c.before.expected_next_seq int,
--        5 c.after.expected_next_seq int, 6 resolved int
-- from: c ef__watermark_change
UPDATE failure SET open = 0, resolved = ?6
 WHERE generation = ?1 AND tenant = ?2 AND stream = ?3 AND seq >= ?4 AND seq < ?5 AND open = 1;

-- name: failure_newest
-- binds: 1 generation int, 2 limit int, 3 any_tenant bool, 4 tenant text
-- list ef__failure: id int, generation int, tenant text, stream text, seq int, position int,
--        event_id text, code text, message text, attempts int, open bool, recorded_us int,
--        resolved_us int, line int
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved, line
  FROM failure WHERE generation = ?1 AND (?3 OR tenant = ?4)
 ORDER BY id DESC LIMIT ?2;

-- name: failure_newest_open
-- binds: as failure_newest
-- list: as failure_newest
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved, line
  FROM failure WHERE generation = ?1 AND open = 1 AND (?3 OR tenant = ?4)
 ORDER BY id DESC LIMIT ?2;

-- name: failure_cut
-- binds: as cursor_cut
DELETE FROM failure WHERE id IN (SELECT id FROM failure WHERE generation = ?1 LIMIT ?2);
