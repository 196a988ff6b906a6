-- Generations, the state row, and transactions.

-- name: begin
-- only: sqlite on PostgreSQL the room begins and ends transactions
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
-- only: sqlite on PostgreSQL the room begins and ends transactions
COMMIT;

-- name: state_init
-- only: sqlite on PostgreSQL the migration makes the row
-- binds: 1 created
INSERT INTO state(one, created, live_set, checkpoints) VALUES (1, ?1, 1, 0);

-- name: live_set_get
SELECT live_set FROM state WHERE one = 1;

-- name: live_set_changed
UPDATE state SET live_set = live_set + 1 WHERE one = 1;

-- name: generation_add
-- binds: 1 name, 2 version, 3 by_log, 4 program, 5 program_hash, 6 index_paths, 7 schema, 8 state,
--        9 position, 10 seam, 11 created, 12 updated, 13 the number it is to get, or 0,
--        14 on_error of the first generation
INSERT INTO generation(name, version, number, by_log, program, program_hash, index_paths, schema,
                       state, routed, era, position, seam, created, updated, views, applied,
                       ignored, skipped, digest_a, digest_b, on_error, replaced)
SELECT ?1, ?2, next, ?3, ?4, ?5, ?6, ?7, ?8, 0, 1, ?9, ?10, ?11, ?12, 0, 0, 0, 0, 0, 0, of_all, 0
  FROM (SELECT coalesce(max(number), 0) + 1 AS next, coalesce(max(on_error), ?14) AS of_all
          FROM generation WHERE name = ?1)
 WHERE ?13 IN (0, next);

-- name: generation_all
-- In the order of (name, number).
SELECT id, name, version, number, by_log, program, program_hash, index_paths, schema, state, routed,
       era, position, seam, created, updated, views, applied, ignored, skipped, digest_a, digest_b,
       (SELECT count(*) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(min(position), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(sum(waiting), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       on_error, replaced, superseded
  FROM generation g ORDER BY name, number;

-- name: generation_of_name
-- binds: 1 name
SELECT id, name, version, number, by_log, program, program_hash, index_paths, schema, state, routed,
       era, position, seam, created, updated, views, applied, ignored, skipped, digest_a, digest_b,
       (SELECT count(*) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(min(position), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(sum(waiting), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       on_error, replaced, superseded
  FROM generation g WHERE name = ?1 ORDER BY number;

-- name: generation_get
-- What a commit compares and counts on.
-- binds: 1 id
SELECT era, state, routed, position, seam, views, applied, ignored, skipped, digest_a, digest_b,
       index_paths <> '', (SELECT min(until) FROM follow f WHERE f.generation = g.id)
  FROM generation g WHERE id = ?1;

-- name: generation_put
-- Sums are made in C: SQLite's + turns what does not fit into a float.
-- binds: 1 id, 2 era, 3 state, 4 position, 5 seam, 6 views, 7 applied, 8 ignored, 9 skipped,
--        10 digest_a, 11 digest_b, 12 updated
UPDATE generation
   SET era = ?2, state = ?3, position = ?4, seam = ?5, views = ?6, applied = ?7, ignored = ?8,
       skipped = ?9, digest_a = ?10, digest_b = ?11, updated = ?12
 WHERE id = ?1;

-- name: generation_replace
-- binds: 1 id, 2 version, 3 program, 4 program_hash, 5 schema, 6 replaced, 7 superseded
UPDATE generation
   SET version = ?2, program = ?3, program_hash = ?4, schema = ?5, replaced = ?6, superseded = ?7
 WHERE id = ?1;

-- name: generation_deactivate
-- binds: 1 id that is about to be routed, 2 updated
UPDATE generation SET routed = 0, era = era + 1, updated = ?2, superseded = ?2
 WHERE name = (SELECT name FROM generation WHERE id = ?1) AND routed = 1;

-- name: generation_activate
-- binds: 1 id, 2 updated, 3 replaced
UPDATE generation SET routed = 1, era = era + 1, updated = ?2, replaced = ?3, superseded = 0
 WHERE id = ?1;

-- name: generation_remove
-- binds: 1 id
DELETE FROM generation WHERE id = ?1;
