-- Followed tenants, and the record of the changes of commits. Times are of the server's clock, so the clocks of
-- the workers do not matter.

-- name: follow_extend
-- only: postgres SQLite puts the row, because it has one writer
-- binds: 1 generation int, 2 tenant text, 3 until_us int
-- row ef__follow_row: until_us int, low int, last int, kept int
UPDATE everfold_views.follow SET until = greatest(until, $3) WHERE generation = $1 AND tenant = $2
RETURNING until, low, last, kept;

-- name: follow_add
-- Under the exclusive lock of the generation: no commit is in progress that found the tenant not followed.
-- only: postgres SQLite puts the row, because it has one writer
-- binds: as follow_extend
-- row: as follow_extend
INSERT INTO everfold_views.follow AS f (generation, tenant, until, low, last, kept)
SELECT $1, $2, $3, n.number, n.number, 0
  FROM (SELECT greatest((SELECT number + 1 FROM everfold_views.follow_floor WHERE generation = $1),
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS number) n
    ON CONFLICT (generation, tenant) DO UPDATE SET until = greatest(f.until, excluded.until)
RETURNING until, low, last, kept;

-- name: follow_count
-- binds: 1 generation int
-- row: count int
SELECT count(*) FROM everfold_views.follow WHERE generation = $1;

-- name: follow_lock
-- The rows of these tenants, in the order of keys. The transaction that locks one assigns numbers until its commit.
-- only: postgres SQLite has one writer
-- binds: 1 generations int[], 2 tenants text[]
-- row: ignored
SELECT 1 FROM everfold_views.follow f
  JOIN unnest($1::bigint[], $2::text[]) AS k(generation, tenant)
    ON f.generation = k.generation AND f.tenant = k.tenant
 ORDER BY f.generation, f.tenant
   FOR UPDATE OF f;

-- name: follow_end
-- Removes one expired row, with its records. A row that is locked is in use, or is being removed.
-- only: postgres SQLite finds it and deletes it, because it has one writer
-- binds: 1 generation int, 2 now int
WITH ended AS (
    DELETE FROM everfold_views.follow f
     WHERE f.generation = $1
       AND f.tenant = (SELECT o.tenant FROM everfold_views.follow o WHERE o.generation = $1 AND o.until < $2
                        ORDER BY o.until LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING f.generation, f.tenant, f.last),
cut AS (
    DELETE FROM everfold_views.view_change c USING ended e
     WHERE c.generation = e.generation AND c.tenant = e.tenant)
INSERT INTO everfold_views.follow_floor AS o (generation, number)
SELECT e.generation, e.last FROM ended e
    ON CONFLICT (generation) DO UPDATE SET number = greatest(o.number, excluded.number);

-- name: follow_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.follow
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.follow WHERE generation = $1 LIMIT $2));

-- name: follow_floor_cut
-- binds: 1 generation int
DELETE FROM everfold_views.follow_floor WHERE generation = $1;

-- name: change_add
-- The changes of a commit that are of followed tenants; the rows of these are locked (follow_lock).
-- binds: 1 generations int[], 2 tenants text[], 3 ids text[], 4 positions int[], 5 kinds int[]
WITH given AS (
    SELECT g.generation, g.tenant, g.id, g.position, g.kind,
           row_number() OVER (PARTITION BY g.generation, g.tenant ORDER BY g.n) AS place
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
           WITH ORDINALITY AS g(generation, tenant, id, position, kind, n)),
counted AS (
    SELECT generation, tenant, count(*) AS changes FROM given GROUP BY generation, tenant),
moved AS (
    UPDATE everfold_views.follow f
       SET last = greatest(f.last + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
                  + c.changes - 1,
           kept = f.kept + c.changes
      FROM counted c
     WHERE f.generation = c.generation AND f.tenant = c.tenant
    RETURNING f.generation, f.tenant, f.last - c.changes AS before)
INSERT INTO everfold_views.view_change(generation, tenant, number, id, position, kind)
SELECT g.generation, g.tenant, m.before + g.place, g.id, g.position, g.kind
  FROM given g JOIN moved m ON m.generation = g.generation AND m.tenant = g.tenant;

-- name: change_ls
-- The row of the tenant with every record, in one statement, so that both are of one snapshot; without a record
-- there is one row.
-- binds: 1 generation int, 2 tenant text, 3 after int (number to continue after), 4 limit int
-- rows ef__change_row: follow.until_us int, follow.low int, follow.last int, follow.kept int,
--        change.number int, change.view_id text, change.position int, change.kind int
SELECT f.until, f.low, f.last, f.kept, c.number, c.id, c.position, c.kind
  FROM everfold_views.follow f
  LEFT JOIN LATERAL (
       SELECT number, id, position, kind FROM everfold_views.view_change x
        WHERE x.generation = $1 AND x.tenant = $2 AND x.number > $3
        ORDER BY x.number LIMIT $4) c ON true
 WHERE f.generation = $1 AND f.tenant = $2
 ORDER BY c.number;

-- name: change_trim
-- Deletes the oldest records of tenants that have too many; these rows are locked (follow_lock).
-- binds: 1 generations int[], 2 tenants text[], 3 most int (that are kept), 4 left int
WITH crowded AS (
    SELECT f.generation, f.tenant,
           (SELECT c.number FROM everfold_views.view_change c
             WHERE c.generation = f.generation AND c.tenant = f.tenant
             ORDER BY c.number OFFSET f.kept - $4 - 1 LIMIT 1) AS number
      FROM everfold_views.follow f
      JOIN unnest($1::bigint[], $2::text[]) AS k(generation, tenant)
        ON f.generation = k.generation AND f.tenant = k.tenant
     WHERE f.kept > $3),
cut AS (
    DELETE FROM everfold_views.view_change c USING crowded o
     WHERE c.generation = o.generation AND c.tenant = o.tenant AND c.number <= o.number)
UPDATE everfold_views.follow f SET low = o.number, kept = $4
  FROM crowded o WHERE f.generation = o.generation AND f.tenant = o.tenant;

-- name: change_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.view_change
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.view_change WHERE generation = $1 LIMIT $2));
