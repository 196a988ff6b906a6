-- Generations, the state row, and transactions.

-- name: begin
-- only: sqlite the module postgres begins and ends transactions of PostgreSQL
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
-- only: sqlite the module postgres begins and ends transactions of PostgreSQL
COMMIT;

-- name: state_init
-- only: sqlite on PostgreSQL the migration makes the row
-- binds: 1 created int
INSERT INTO state(one, created, live_set, checkpoints) VALUES (1, ?1, 1, 0);

-- name: live_set_get
-- row: live_set int
SELECT live_set FROM state WHERE one = 1;

-- name: live_set_changed
UPDATE state SET live_set = live_set + 1 WHERE one = 1;

-- name: generation_add
-- binds: 1 g.name text, 2 g.version int, 3 g.by_log bool, 4 g.program text, 5 g.program_hash int,
--        6 g.index_paths text, 7 g.schema int, 8 g.state int, 9 g.position int, 10 g.seam int,
--        11 created int, 12 updated int, 13 g.number int (the number that it must get, or 0),
--        14 g.on_error int (of the first generation)
-- from: g ef__generation
INSERT INTO generation(name, version, number, by_log, program, program_hash, index_paths, schema,
                       state, routed, era, position, seam, created, updated, views, applied,
                       ignored, skipped, digest_a, digest_b, on_error, replaced)
SELECT ?1, ?2, next, ?3, ?4, ?5, ?6, ?7, ?8, 0, 1, ?9, ?10, ?11, ?12, 0, 0, 0, 0, 0, 0, of_all, 0
  FROM (SELECT coalesce(max(number), 0) + 1 AS next, coalesce(max(on_error), ?14) AS of_all
          FROM generation WHERE name = ?1)
 WHERE ?13 IN (0, next);

-- name: generation_ls
-- binds: 1 only_name text ("": all)
-- rows ef__generation_row: is.id int, is.name text, is.version int, is.number int, is.by_log bool,
--        is.program text, is.program_hash int, is.index_paths text, is.schema int, is.state int,
--        is.active bool, is.era int, is.position int, is.seam int, is.created_us int,
--        is.updated_us int, is.views int, is.applied int, is.ignored int, is.skipped int,
--        digest[0] int, digest[1] int, is.own_cursors int, is.own_lowest int, is.own_waiting int,
--        is.on_error int, is.replaced int, is.superseded_us int, live_set int
-- One row with the live set alone when there is no such generation.
SELECT id, name, version, number, by_log, program, program_hash, index_paths, schema, state, routed,
       era, position, seam, g.created, updated, views, applied, ignored, skipped, digest_a, digest_b,
       (SELECT count(*) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(min(position), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       (SELECT coalesce(sum(waiting), 0) FROM tenant_cursor c WHERE c.generation = g.id),
       on_error, replaced, superseded, live_set
  FROM state LEFT JOIN generation g ON ?1 IN ('', name) WHERE one = 1 ORDER BY name, number;

-- name: generation_get
-- The columns that a commit compares, and its counts.
-- binds: 1 id int
-- row vq_generation: id int, era int, state int, active bool, position int, seam int, views int,
--        applied int, ignored int, skipped int, digest[0] int, digest[1] int, indexed bool,
--        follow_ends_us int?
SELECT id, era, state, routed, position, seam, views, applied, ignored, skipped, digest_a, digest_b,
       index_paths <> '', (SELECT min(until) FROM follow f WHERE f.generation = g.id)
  FROM generation g WHERE id = ?1;

-- name: generation_put
-- C computes the sums, because an overflow of SQLite's + becomes a float.
-- binds: 1 g.id int, 2 g.era int, 3 g.state int, 4 g.position int, 5 g.seam int, 6 g.views int,
--        7 g.applied int, 8 g.ignored int, 9 g.skipped int, 10 g.digest[0] int,
--        11 g.digest[1] int, 12 updated int
-- from: g vq_generation
UPDATE generation
   SET era = ?2, state = ?3, position = ?4, seam = ?5, views = ?6, applied = ?7, ignored = ?8,
       skipped = ?9, digest_a = ?10, digest_b = ?11, updated = ?12
 WHERE id = ?1;

-- name: generation_replace
-- binds: 1 id int, 2 with.version int, 3 with.program text, 4 with.program_hash int,
--        5 with.schema int, 6 with.replaced int, 7 with.superseded_us int
-- from: with ef__generation
UPDATE generation
   SET version = ?2, program = ?3, program_hash = ?4, schema = ?5, replaced = ?6, superseded = ?7
 WHERE id = ?1;

-- name: generation_deactivate
-- binds: 1 id int (of the one that is about to be activated), 2 updated int
UPDATE generation SET routed = 0, era = era + 1, updated = ?2, superseded = ?2
 WHERE name = (SELECT name FROM generation WHERE id = ?1) AND routed = 1;

-- name: generation_activate
-- binds: 1 id int, 2 updated int, 3 replaced int
UPDATE generation SET routed = 1, era = era + 1, updated = ?2, replaced = ?3, superseded = 0
 WHERE id = ?1;

-- name: generation_remove
-- binds: 1 id int
DELETE FROM generation WHERE id = ?1;
