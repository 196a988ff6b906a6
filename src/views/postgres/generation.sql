-- Generations, the state row, locks and transactions.

-- name: begin_read
-- A snapshot, until the transaction ends.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: lock_shared
-- Locks of tables, not of rows: shared locks do not starve a request for an exclusive one.
-- They are acquired in the order of the array, and end with the transaction.
-- only: postgres SQLite has one writer
-- binds: 1 ids int[] (of generations; 0 for the set of live ones)
-- row: ignored
SELECT everfold_views.lock_generations($1::bigint[], false);

-- name: lock_alone
-- only: postgres SQLite has one writer
-- binds: 1 ids int[] (of generations; 0 for the set of live ones)
-- row: ignored
SELECT everfold_views.lock_generations($1::bigint[], true);

-- name: live_set_get
-- row: number int
SELECT live_set FROM everfold_views.state WHERE one = 1;

-- name: live_set_changed
UPDATE everfold_views.state SET live_set = live_set + 1 WHERE one = 1;

-- name: generation_add
-- binds: 1 g.name text, 2 g.version int, 3 g.by_log bool, 4 g.program text, 5 g.program_hash int, 6
--        g.index_paths text, 7 g.schema int, 8 g.state int, 9 g.position int, 10 g.seam int, 11
--        created_us int, 12 updated_us int, 13 g.number int (that it is to get, or 0), 14
--        g.on_error int (of the first generation)
-- from: g ef__generation
-- row: id int
INSERT INTO everfold_views.generation(name, version, number, by_log, program, program_hash,
                                      index_paths, schema, state, routed, era, position, seam,
                                      created, updated, on_error, replaced)
SELECT $1, $2, n.next, $3, $4, $5, $6, $7, $8, false, 1, $9, $10, $11, $12, n.of_all, 0
  FROM (SELECT coalesce(max(number), 0) + 1 AS next, coalesce(max(on_error), $14) AS of_all
          FROM everfold_views.generation WHERE name = $1) n
 WHERE $13 IN (0, n.next)
RETURNING id;

-- name: generation_ls
-- binds: 1 only_name text ("": all)
-- rows ef__generation_row: is.id int, is.name text, is.version int, is.number int, is.by_log bool,
--        is.program text, is.program_hash int, is.index_paths text, is.schema int, is.state int,
--        is.active bool, is.era int, is.position int, is.seam int, is.created_us int, is.updated_us
--        int, is.views int, is.applied int, is.ignored int, is.skipped int, digest[0] int,
--        digest[1] int, is.own_cursors int, is.own_lowest int, is.own_waiting int, is.on_error int,
--        is.replaced int, is.superseded_us int, live_set int
-- One row with the live set alone when there is no such generation.
SELECT g.id, g.name, g.version, g.number, g.by_log, g.program, g.program_hash, g.index_paths,
       g.schema, g.state, g.routed, g.era, g.position, g.seam, g.created,
       greatest(g.updated, s.updated), s.views, s.applied, s.ignored, s.skipped, s.digest_a,
       s.digest_b, t.own_cursors, t.own_lowest, t.own_waiting, g.on_error, g.replaced,
       g.superseded, l.live_set
  FROM everfold_views.state l
  LEFT JOIN everfold_views.generation g ON $1 IN ('', g.name)
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(c.views), 0)::bigint AS views, coalesce(sum(c.applied), 0)::bigint AS applied,
              coalesce(sum(c.ignored), 0)::bigint AS ignored,
              coalesce(sum(c.skipped), 0)::bigint AS skipped,
              coalesce(everfold_views.wrap64(sum(c.digest_a)), 0) AS digest_a,
              coalesce(everfold_views.wrap64(sum(c.digest_b)), 0) AS digest_b, max(c.updated) AS updated
         FROM everfold_views.generation_sum c WHERE c.generation = g.id) s
 CROSS JOIN LATERAL (
       SELECT count(*) AS own_cursors, coalesce(min(c.position), 0) AS own_lowest,
              coalesce(sum(c.waiting), 0)::bigint AS own_waiting
         FROM everfold_views.tenant_cursor c WHERE c.generation = g.id) t
 WHERE l.one = 1
 ORDER BY g.name, g.number;

-- name: generation_get
-- The columns that a commit compares. Read under the generation's lock, so that they do not change meanwhile.
-- binds: 1 ids int[]
-- rows vp_generation: id int, era int, state int, active bool, position int, seam int,
--        index_count int, follow_ends_us int?
SELECT id, era, state, routed, position, seam, cardinality(string_to_array(index_paths, ',')),
       (SELECT min(f.until) FROM everfold_views.follow f WHERE f.generation = g.id)
  FROM everfold_views.generation g WHERE id = ANY($1::bigint[]);

-- name: generation_active
-- The active generation.
-- only: postgres SQLite deactivates it without reading it, because it has one writer
-- binds: 1 id int (of a generation of the same projection)
-- row: id int
SELECT id FROM everfold_views.generation
 WHERE name = (SELECT name FROM everfold_views.generation WHERE id = $1) AND routed;

-- name: generation_put
-- Every change increments the era.
-- binds: 1 g.id int, 2 g.state int, 3 g.position int, 4 g.seam int, 5 updated_us int
-- from: g vp_generation
UPDATE everfold_views.generation
   SET era = era + 1, state = $2, position = $3, seam = $4, updated = $5
 WHERE id = $1;

-- name: generation_move
-- Moves the cursor; no row is changed if it is not where it was read.
-- only: postgres SQLite puts the whole row, because it has one writer
-- binds: 1 id int, 2 after int (position), 3 before int (position as read)
-- row: -
UPDATE everfold_views.generation SET position = $2 WHERE id = $1 AND position = $3 RETURNING 1;

-- name: generation_go_live
-- only: postgres SQLite puts the whole row
-- binds: 1 id int, 2 state int, 3 updated_us int
UPDATE everfold_views.generation
   SET era = era + 1, state = $2, seam = position, updated = $3
 WHERE id = $1;

-- name: generation_count
-- Adds to the counts, in the shard of this connection.
-- only: postgres SQLite has one row, and one writer
-- binds: 1 generations int[], 2 shard int, 3 views int[], 4 applied int[], 5 ignored int[],
--        6 skipped int[], 7 digests_a int[], 8 digests_b int[], 9 updated_us int
INSERT INTO everfold_views.generation_sum AS s (generation, shard, views, applied, ignored, skipped,
                                                digest_a, digest_b, updated)
SELECT c.generation, $2, c.views, c.applied, c.ignored, c.skipped, c.digest_a, c.digest_b, $9
  FROM unnest($1::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
              $8::bigint[]) AS c(generation, views, applied, ignored, skipped, digest_a, digest_b)
    ON CONFLICT (generation, shard) DO UPDATE
   SET views = s.views + excluded.views, applied = s.applied + excluded.applied,
       ignored = s.ignored + excluded.ignored, skipped = s.skipped + excluded.skipped,
       digest_a = everfold_views.wrap64(s.digest_a::numeric + excluded.digest_a),
       digest_b = everfold_views.wrap64(s.digest_b::numeric + excluded.digest_b),
       updated = greatest(s.updated, excluded.updated);

-- name: generation_uncount
-- only: postgres SQLite has the counts in the generation's row
-- binds: 1 generation int
DELETE FROM everfold_views.generation_sum WHERE generation = $1;

-- name: generation_deactivate
-- binds: 1 id int (of the next active generation), 2 updated_us int
UPDATE everfold_views.generation
   SET routed = false, era = era + 1, updated = $2, superseded = $2
 WHERE name = (SELECT name FROM everfold_views.generation WHERE id = $1) AND routed;

-- name: generation_replace
-- binds: 1 id int, 2 with.version int, 3 with.program text, 4 with.program_hash int, 5 with.schema
--        int, 6 with.replaced int, 7 with.superseded_us int
-- from: with ef__generation
UPDATE everfold_views.generation
   SET version = $2, program = $3, program_hash = $4, schema = $5, replaced = $6, superseded = $7
 WHERE id = $1;

-- name: generation_activate
-- binds: 1 id int, 2 updated_us int, 3 replaced int
UPDATE everfold_views.generation
   SET routed = true, era = era + 1, updated = $2, replaced = $3, superseded = 0
 WHERE id = $1;

-- name: generation_remove
-- binds: 1 id int
DELETE FROM everfold_views.generation WHERE id = $1;
