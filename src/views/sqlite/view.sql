-- Views and their index entries. A write compares the digest that was read: no row changed means
-- that another transaction wrote the view meanwhile.

-- name: view_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation, 2 tenant, 3 id, 4 data, 5 last_position, 6 last_seq, 7 schema, 8 digest_a,
--        9 digest_b, 10 keys
INSERT INTO view(generation, tenant, id, data, last_position, last_seq, schema, digest_a, digest_b,
                 keys)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT DO NOTHING;

-- name: view_update
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation, 2 tenant, 3 id, 4 data, 5 last_position, 6 last_seq, 7 schema, 8 digest_a,
--        9 digest_b, 10 keys, 11 digest_a as read, 12 digest_b as read
UPDATE view
   SET data = ?4, last_position = ?5, last_seq = ?6, schema = ?7, digest_a = ?8, digest_b = ?9,
       keys = ?10
 WHERE generation = ?1 AND tenant = ?2 AND id = ?3 AND digest_a = ?11 AND digest_b = ?12;

-- name: view_delete
-- binds: 1 generation, 2 tenant, 3 id, 4 digest_a as read, 5 digest_b as read
DELETE FROM view
 WHERE generation = ?1 AND tenant = ?2 AND id = ?3 AND digest_a = ?4 AND digest_b = ?5;

-- name: view_keys
-- only: sqlite on PostgreSQL an entry is found by its view
-- binds: 1 generation, 2 tenant, 3 id
SELECT keys FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_get
-- binds: 1 generation, 2 tenant, 3 id
SELECT data, last_position, last_seq, schema, digest_a, digest_b
  FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_show
-- only: sqlite a reader's, whose views are shown and never written
-- binds: 1 generation, 2 tenant, 3 id
SELECT data, last_position, schema FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_cut
-- binds: 1 generation, 2 limit
DELETE FROM view WHERE rowid IN (SELECT rowid FROM view WHERE generation = ?1 LIMIT ?2);

-- name: index_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation, 2 tenant, 3 idx, 4 key, 5 id
INSERT INTO view_index(generation, tenant, idx, key, id) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO NOTHING;

-- name: index_delete
-- only: sqlite on PostgreSQL an entry is updated in its place
-- binds: 1 generation, 2 tenant, 3 idx, 4 key, 5 id
DELETE FROM view_index
 WHERE generation = ?1 AND tenant = ?2 AND idx = ?3 AND key = ?4 AND id = ?5;

-- name: index_cut
-- binds: 1 generation, 2 limit
DELETE FROM view_index
 WHERE (generation, tenant, idx, key, id) IN
       (SELECT generation, tenant, idx, key, id FROM view_index WHERE generation = ?1 LIMIT ?2);

-- Every scan is a range from a place to one before another (scan.c): places are whole keys, so that
-- one statement serves all bounds and pages, and is always one search of the primary key.

-- name: view_scan_up
-- binds: 1 generation, 2 tenant, 3 id to start with; 4, 5, 6 the same to end before
SELECT data, last_position, last_seq, schema, digest_a, digest_b, tenant, id
  FROM view
 WHERE (generation, tenant, id) >= (?1, ?2, ?3) AND (generation, tenant, id) < (?4, ?5, ?6)
 ORDER BY generation, tenant, id;

-- name: view_scan_down
-- binds: 1 generation, 2 tenant, 3 id of the low end; 4, 5, 6 the same to start before
SELECT data, last_position, last_seq, schema, digest_a, digest_b, tenant, id
  FROM view
 WHERE (generation, tenant, id) >= (?1, ?2, ?3) AND (generation, tenant, id) < (?4, ?5, ?6)
 ORDER BY generation DESC, tenant DESC, id DESC;

-- name: index_scan_up
-- A pair costs a comparison a row; the far end needs none, for only the start can lie in a key.
-- binds: 1 generation, 2 tenant, 3 idx, 4 key and 5 id to start with; 6 key to end before
SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key
  FROM view_index i CROSS JOIN view v
 WHERE i.generation = ?1 AND i.tenant = ?2 AND i.idx = ?3
   AND (i.key, i.id) >= (?4, ?5) AND i.key < ?6
   AND v.generation = ?1 AND v.tenant = ?2 AND v.id = i.id
 ORDER BY i.key, i.id;

-- name: index_scan_down
-- binds: 1 generation, 2 tenant, 3 idx, 4 key and 5 id to start before; 6 key of the low end
SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key
  FROM view_index i CROSS JOIN view v
 WHERE i.generation = ?1 AND i.tenant = ?2 AND i.idx = ?3
   AND (i.key, i.id) < (?4, ?5) AND i.key >= ?6
   AND v.generation = ?1 AND v.tenant = ?2 AND v.id = i.id
 ORDER BY i.key DESC, i.id DESC;
