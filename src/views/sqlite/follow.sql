-- Followed tenants, and the record of the changes of commits.

-- name: follow_get
-- only: sqlite on PostgreSQL the statements that write the row answer it
-- binds: 1 generation int, 2 tenant text
-- row ef__follow_row: until_us int, low int, last int, kept int
SELECT until, low, last, kept FROM follow WHERE generation = ?1 AND tenant = ?2;

-- name: follow_put
-- only: sqlite on PostgreSQL others write at the same time: follow_add, follow_extend, change_add
-- binds: 1 generation int, 2 tenant text, 3 follow.until_us int, 4 follow.low int,
--        5 follow.last int, 6 follow.kept int
-- from: follow ef__follow_row
INSERT INTO follow(generation, tenant, until, low, last, kept) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (generation, tenant)
    DO UPDATE SET until = excluded.until, low = excluded.low, last = excluded.last,
                  kept = excluded.kept;

-- name: follow_count
-- binds: 1 generation int
-- row: count int
SELECT count(*) FROM follow WHERE generation = ?1;

-- name: follow_ended
-- The tenant that expired first.
-- only: sqlite on PostgreSQL one statement finds it and ends it (follow_end)
-- binds: 1 generation int, 2 now int
-- row: tenant text, last int
SELECT tenant, last FROM follow WHERE generation = ?1 AND until < ?2 ORDER BY until LIMIT 1;

-- name: follow_delete
-- only: sqlite on PostgreSQL one statement ends it (follow_end)
-- binds: 1 generation int, 2 tenant text
DELETE FROM follow WHERE generation = ?1 AND tenant = ?2;

-- name: follow_floor_get
-- only: sqlite on PostgreSQL follow_add reads it
-- binds: 1 generation int
-- row: number int
SELECT number FROM follow_floor WHERE generation = ?1;

-- name: follow_floor_raise
-- only: sqlite on PostgreSQL follow_end raises it
-- binds: 1 generation int, 2 number int
INSERT INTO follow_floor(generation, number) VALUES (?1, ?2)
    ON CONFLICT (generation) DO UPDATE SET number = max(number, excluded.number);

-- name: follow_cut
-- binds: as cursor_cut
DELETE FROM follow
 WHERE (generation, tenant) IN
       (SELECT generation, tenant FROM follow WHERE generation = ?1 LIMIT ?2);

-- name: follow_floor_cut
-- binds: 1 generation int
DELETE FROM follow_floor WHERE generation = ?1;

-- name: change_add
-- binds: 1 generation int, 2 view.tenant text, 3 number int, 4 view.id text,
--        5 view.last_position int, 6 kind int
-- from: view ef__view
INSERT INTO view_change(generation, tenant, number, id, position, kind)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: change_ls
-- The row of the tenant with every record, in one statement, so that both are of one snapshot; without a record
-- there is one row.
-- binds: 1 generation int, 2 tenant text, 3 after int (a number), 4 limit int
-- rows ef__change_row: follow.until_us int, follow.low int, follow.last int, follow.kept int,
--        change.number int, change.view_id text, change.position int, change.kind int
SELECT f.until, f.low, f.last, f.kept, c.number, c.id, c.position, c.kind
  FROM follow f LEFT JOIN view_change c
    ON c.generation = f.generation AND c.tenant = f.tenant AND c.number > ?3
 WHERE f.generation = ?1 AND f.tenant = ?2
 ORDER BY c.number LIMIT ?4;

-- name: change_nth
-- only: sqlite on PostgreSQL change_trim finds it
-- binds: 1 generation int, 2 tenant text, 3 before int (records before it)
-- row: number int
SELECT number FROM view_change WHERE generation = ?1 AND tenant = ?2
 ORDER BY number LIMIT 1 OFFSET ?3;

-- name: change_trim
-- binds: 1 generation int, 2 tenant text, 3 upto int (the highest number to delete)
DELETE FROM view_change WHERE generation = ?1 AND tenant = ?2 AND number <= ?3;

-- name: change_cut
-- binds: as cursor_cut
DELETE FROM view_change
 WHERE (generation, tenant, number) IN
       (SELECT generation, tenant, number FROM view_change WHERE generation = ?1 LIMIT ?2);
