-- Watermarks, fences and failures.

-- name: watermark_put
-- As view_put does: a hash is the new one, followed by the watermark that was read (hash, applied_seq,
-- expected_next_seq), or by nothing if there was none.
-- only: postgres SQLite has insert and update, and needs no order of locks
-- binds: 1 generations int[], 2 tenants text[], 3 streams text[], 4 applied int[], 5 expected
--        int[], 6 hashes blob[]
-- row: whole int
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[],
                         $6::bytea[])
                  AS g(generation, tenant, stream, applied_seq, expected_next_seq, hash)),
changed AS (
    UPDATE everfold_views.watermark w
       SET applied_seq = g.applied_seq, expected_next_seq = g.expected_next_seq,
           hash = substr(g.hash, 1, 32),
           step = w.step + (w.change + 1) / 16, change = (w.change + 1) % 16
      FROM given g
     CROSS JOIN LATERAL (
           SELECT x.ctid AS at FROM everfold_views.watermark x
            WHERE x.generation = g.generation AND x.tenant = g.tenant AND x.stream = g.stream
            ORDER BY x.step DESC LIMIT 1) n
     WHERE octet_length(g.hash) > 32 AND w.ctid = n.at
       AND w.hash || int8send(w.applied_seq) || int8send(w.expected_next_seq) = substr(g.hash, 33)
    RETURNING 1),
made AS (
    INSERT INTO everfold_views.watermark(generation, tenant, stream, applied_seq,
                                         expected_next_seq, hash)
    SELECT * FROM given g WHERE octet_length(g.hash) = 32
        ON CONFLICT DO NOTHING
    RETURNING 1)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM made);

-- name: watermark_count
-- As view_count.
-- only: postgres SQLite has one writer
-- binds: 1 generations int[], 2 tenants text[], 3 streams text[]
-- row: rows int
SELECT count(*) FROM unnest($1::bigint[], $2::text[], $3::text[]) AS g(generation, tenant, stream)
 CROSS JOIN LATERAL (
       SELECT 1 FROM everfold_views.watermark x
        WHERE x.generation = g.generation AND x.tenant = g.tenant AND x.stream = g.stream
       OFFSET 0) w;

-- name: watermark_get
-- binds: 1 generation int, 2 tenant text, 3 name text
-- row ef__watermark: applied_seq int, expected_next_seq int, hash bytes
SELECT applied_seq, expected_next_seq, hash
  FROM everfold_views.watermark WHERE generation = $1 AND tenant = $2 AND stream = $3
 ORDER BY step DESC LIMIT 1;

-- name: watermark_get_many
-- For each key that has a watermark: the index of the key in the arrays, from 1, and the watermark.
-- only: postgres each question is a round trip
-- binds: 1 generation int, 2 tenants text[], 3 names text[]
-- rows ef__watermark_row: n int, is.applied_seq int, is.expected_next_seq int, is.hash bytes
SELECT a.n, w.applied_seq, w.expected_next_seq, w.hash
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS a(tenant, stream, n)
 CROSS JOIN LATERAL (
       SELECT * FROM everfold_views.watermark x
        WHERE x.generation = $1 AND x.tenant = a.tenant AND x.stream = a.stream
        ORDER BY x.step DESC LIMIT 1) w;

-- name: watermark_scan
-- binds: 1 generation int, 2 tenant text, 3 stream text (to continue after), 4 limit int
-- rows ef__watermark_row: is.applied_seq int, is.expected_next_seq int, is.hash bytes, tenant text,
--        stream text
SELECT applied_seq, expected_next_seq, hash, tenant, stream
  FROM everfold_views.watermark
 WHERE generation = $1 AND (tenant, stream) > ($2, $3)
 ORDER BY tenant, stream LIMIT $4;

-- name: watermark_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.watermark
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.watermark WHERE generation = $1 LIMIT $2));

-- name: fence_get
-- binds: 1 scope text
-- row: token int
SELECT token FROM everfold_views.fence WHERE scope = $1;

-- name: fence_raise
-- Writes the tokens that are higher than those found. The rows stay locked, also the others, so that no
-- higher token passes before this transaction has ended; a row whose token stays is not written.
-- only: postgres SQLite reads and puts, because it has one writer
-- binds: 1 scopes text[], 2 tokens int[]
INSERT INTO everfold_views.fence AS f (scope, token)
SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT (scope) DO UPDATE SET token = excluded.token WHERE f.token < excluded.token;

-- name: fence_higher
-- After fence_raise, because a statement sees what was committed before it began: the fences with a higher
-- token than the one given. No row means that all of them are passed.
-- only: postgres SQLite reads and puts, because it has one writer
-- binds: as fence_raise
-- rows: scope text, given int, found int
SELECT g.scope, g.token, f.token
  FROM unnest($1::text[], $2::bigint[]) AS g(scope, token)
  JOIN everfold_views.fence f ON f.scope = g.scope
 WHERE f.token > g.token;

-- name: failure_put
-- Opens a failure, or increments the attempts of the one that is open for this event.
-- binds: 1 generation int, 2 f.tenant text, 3 f.stream text, 4 f.seq int, 5 f.position int, 6
--        f.event_id text, 7 f.code text, 8 message text, 9 recorded_us int, 10 f.line int
-- from: f ef__failure
INSERT INTO everfold_views.failure AS f (generation, tenant, stream, seq, position, event_id, code,
                                         message, attempts, open, recorded, resolved, line)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, true, $9, 0, $10)
    ON CONFLICT (generation, tenant, stream, seq) WHERE open
    DO UPDATE SET attempts = f.attempts + 1, position = excluded.position,
                  event_id = excluded.event_id, code = excluded.code, message = excluded.message,
                  line = excluded.line;

-- name: failure_any_open
-- binds: 1 generations int[]
-- row: -
SELECT 1 FROM everfold_views.failure WHERE generation = ANY ($1::bigint[]) AND open LIMIT 1;

-- name: failure_resolve
-- binds: 1 generations int[], 2 tenants text[], 3 streams text[], 4 first int[], 5 next int[], 6
--        resolved_us int
UPDATE everfold_views.failure f SET open = false, resolved = $6
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
       AS w(generation, tenant, stream, first, next)
 WHERE f.generation = w.generation AND f.tenant = w.tenant AND f.stream = w.stream
   AND f.seq >= w.first AND f.seq < w.next AND f.open;

-- name: failure_newest
-- binds: 1 generation int, 2 limit int, 3 all_tenants bool, 4 tenant text
-- list ef__failure: id int, generation int, tenant text, stream text, seq int, position int,
--        event_id text, code text, message text, attempts int, open bool, recorded_us int,
--        resolved_us int, line int
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved, line
  FROM everfold_views.failure WHERE generation = $1 AND ($3 OR tenant = $4)
 ORDER BY id DESC LIMIT $2;

-- name: failure_newest_open
-- binds: as failure_newest
-- list: as failure_newest
SELECT id, generation, tenant, stream, seq, position, event_id, code, message, attempts, open,
       recorded, resolved, line
  FROM everfold_views.failure WHERE generation = $1 AND open AND ($3 OR tenant = $4)
 ORDER BY id DESC LIMIT $2;

-- name: failure_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.failure
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.failure WHERE generation = $1 LIMIT $2));
