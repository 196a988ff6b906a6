-- Views and their index entries. A write compares the digest that was read: no row changed means
-- that another transaction wrote the view meanwhile.

-- name: view_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation int, 2 view.tenant text, 3 view.id text, 4 view.data text,
--        5 view.last_position int, 6 view.last_seq int, 7 view.schema int, 8 view.digest[0] int,
--        9 view.digest[1] int, 10 keys blob
-- from: view ef__view
INSERT INTO view(generation, tenant, id, data, last_position, last_seq, schema, digest_a, digest_b,
                 keys)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT DO NOTHING;

-- name: view_update
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation int, 2 view.tenant text, 3 view.id text, 4 view.data text,
--        5 view.last_position int, 6 view.last_seq int, 7 view.schema int, 8 view.digest[0] int,
--        9 view.digest[1] int, 10 keys blob, 11 old_digest_a int (as read), 12 old_digest_b int
-- from: view ef__view
UPDATE view
   SET data = ?4, last_position = ?5, last_seq = ?6, schema = ?7, digest_a = ?8, digest_b = ?9,
       keys = ?10
 WHERE generation = ?1 AND tenant = ?2 AND id = ?3 AND digest_a = ?11 AND digest_b = ?12;

-- name: view_delete
-- binds: 1 generation int, 2 tenant text, 3 id text, 4 digest_a int (as read), 5 digest_b int
DELETE FROM view
 WHERE generation = ?1 AND tenant = ?2 AND id = ?3 AND digest_a = ?4 AND digest_b = ?5;

-- name: view_keys
-- only: sqlite on PostgreSQL an entry is found by its view
-- binds: 1 generation int, 2 tenant text, 3 id text
-- rows: keys blob
SELECT keys FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_get
-- binds: 1 generation int, 2 tenant text, 3 id text
-- row ef__view: data text, last_position int, last_seq int, schema int, digest[0] int,
--        digest[1] int
SELECT data, last_position, last_seq, schema, digest_a, digest_b
  FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_show
-- only: sqlite a reader's, whose views are shown and never written
-- binds: as view_get
-- row ef__view: data blob, last_position int, schema int
SELECT data, last_position, schema FROM view WHERE generation = ?1 AND tenant = ?2 AND id = ?3;

-- name: view_cut
-- binds: as cursor_cut
DELETE FROM view WHERE rowid IN (SELECT rowid FROM view WHERE generation = ?1 LIMIT ?2);

-- name: index_insert
-- only: sqlite on PostgreSQL one statement inserts and updates the rows of a whole commit
-- binds: 1 generation int, 2 tenant text, 3 idx int, 4 key blob, 5 id text
INSERT INTO view_index(generation, tenant, idx, key, id) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO NOTHING;

-- name: index_delete
-- only: sqlite on PostgreSQL an entry is updated in its place
-- binds: as index_insert
DELETE FROM view_index
 WHERE generation = ?1 AND tenant = ?2 AND idx = ?3 AND key = ?4 AND id = ?5;

-- name: index_cut
-- binds: as cursor_cut
DELETE FROM view_index
 WHERE (generation, tenant, idx, key, id) IN
       (SELECT generation, tenant, idx, key, id FROM view_index WHERE generation = ?1 LIMIT ?2);

-- Every scan is a range from a place to one before another (scan.c): places are whole keys, so that
-- one statement serves all bounds and pages, and is always one search of the primary key.

-- name: view_scan_up
-- binds: 1 generation int, 2 tenant text, 3 id text, 4 end_generation int, 5 end_tenant text,
--        6 end_id text (starts with id, ends before end_id)
-- rows ef__view: data text, last_position int, last_seq int, schema int, digest[0] int,
--        digest[1] int, tenant text, id text
SELECT data, last_position, last_seq, schema, digest_a, digest_b, tenant, id
  FROM view
 WHERE (generation, tenant, id) >= (?1, ?2, ?3) AND (generation, tenant, id) < (?4, ?5, ?6)
 ORDER BY generation, tenant, id;

-- name: view_scan_down
-- binds: as view_scan_up
-- rows: as view_scan_up
SELECT data, last_position, last_seq, schema, digest_a, digest_b, tenant, id
  FROM view
 WHERE (generation, tenant, id) >= (?1, ?2, ?3) AND (generation, tenant, id) < (?4, ?5, ?6)
 ORDER BY generation DESC, tenant DESC, id DESC;

-- name: index_scan_up
-- Comparing a pair costs a comparison per row; the far end needs none, because only the start can lie in a key.
-- binds: 1 generation int, 2 tenant text, 3 idx int, 4 key blob, 5 id text,
--        6 end_key blob (starts with key and id, ends before end_key)
-- rows vq_entry_row: view.data text, view.last_position int, view.last_seq int, view.schema int,
--        view.id text, key blob
SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key
  FROM view_index i CROSS JOIN view v
 WHERE i.generation = ?1 AND i.tenant = ?2 AND i.idx = ?3
   AND (i.key, i.id) >= (?4, ?5) AND i.key < ?6
   AND v.generation = ?1 AND v.tenant = ?2 AND v.id = i.id
 ORDER BY i.key, i.id;

-- name: index_scan_down
-- binds: as index_scan_up
-- rows: as index_scan_up
SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key
  FROM view_index i CROSS JOIN view v
 WHERE i.generation = ?1 AND i.tenant = ?2 AND i.idx = ?3
   AND (i.key, i.id) < (?4, ?5) AND i.key >= ?6
   AND v.generation = ?1 AND v.tenant = ?2 AND v.id = i.id
 ORDER BY i.key DESC, i.id DESC;
