-- Views and their index entries.

-- name: view_put
-- Inserts views that did not exist, updates views that are still as they were read, and leaves others unchanged:
-- one statement for a whole commit, which locks rows in the order of the arrays, which is that of keys.
--
-- A digest is the new one, followed by the one that was read if the view existed. The statement succeeded if the
-- number of rows that it has written is the number of rows given, and view_count finds no other row of a view that
-- was inserted. Otherwise the transaction must be rolled back.
--
-- The row of a view is the one with its last step (0008_steps.sql), found from the end of the index.
-- A view that is to be deleted is compared and locked like the others, and deleted next (view_delete).
-- only: postgres SQLite has insert, update and delete, and needs no order of locks
-- binds: 1 generations int[], 2 tenants text[], 3 ids text[], 4 data text[], 5 last_positions
--        int[], 6 last_seqs int[], 7 schemas int[], 8 digests blob[]
-- row: whole int
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[],
                         $6::bigint[], $7::bigint[], $8::bytea[])
                  AS g(generation, tenant, id, data, last_position, last_seq, schema, digest)),
changed AS (
    UPDATE everfold_views.view v
       SET data = g.data, last_position = g.last_position, last_seq = g.last_seq,
           schema = g.schema::integer, digest = substr(g.digest, 1, 16),
           step = v.step + (v.change + 1) / 16, change = (v.change + 1) % 16
      FROM given g
     CROSS JOIN LATERAL (
           SELECT x.ctid AS at FROM everfold_views.view x
            WHERE x.generation = g.generation AND x.tenant = g.tenant AND x.id = g.id
            ORDER BY x.step DESC LIMIT 1) n
     WHERE octet_length(g.digest) = 32 AND v.ctid = n.at AND v.digest = substr(g.digest, 17)
    RETURNING 1),
made AS (
    INSERT INTO everfold_views.view(generation, tenant, id, data, last_position, last_seq, schema,
                                    digest)
    SELECT * FROM given g WHERE octet_length(g.digest) = 16
        ON CONFLICT DO NOTHING
    RETURNING 1)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM made);

-- name: view_count
-- After view_put, because a statement sees what was committed before it began: the rows of views that were
-- inserted. There are more if another transaction has inserted one and changed its step.
-- only: postgres SQLite has one writer
-- binds: 1 generations int[], 2 tenants text[], 3 ids text[]
-- row: rows int
SELECT count(*) FROM unnest($1::bigint[], $2::text[], $3::text[]) AS g(generation, tenant, id)
 CROSS JOIN LATERAL (
       SELECT 1 FROM everfold_views.view x
        WHERE x.generation = g.generation AND x.tenant = g.tenant AND x.id = g.id OFFSET 0) v;

-- name: view_delete
-- Views that view_put has locked, with their index entries.
-- binds: 1 generation int, 2 tenant text, 3 id text
WITH gone AS (
    DELETE FROM everfold_views.view_index WHERE generation = $1 AND tenant = $2 AND id = $3)
DELETE FROM everfold_views.view WHERE generation = $1 AND tenant = $2 AND id = $3;

-- name: view_get
-- binds: 1 generation int, 2 tenant text, 3 name text
-- row vp_view_row: view.data text, view.last_position int, view.last_seq int, view.schema int,
--        digest bytes
SELECT data, last_position, last_seq, schema, digest
  FROM everfold_views.view WHERE generation = $1 AND tenant = $2 AND id = $3
 ORDER BY step DESC LIMIT 1;

-- name: view_get_many
-- For each key that has a view: the index of the key in the arrays, from 1, and the view.
-- only: postgres each question is a round trip
-- binds: 1 generation int, 2 tenants text[], 3 names text[]
-- rows vp_view_row: n int, view.data text, view.last_position int, view.last_seq int, view.schema
--        int, digest bytes
SELECT a.n, v.data, v.last_position, v.last_seq, v.schema, v.digest
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS a(tenant, id, n)
 CROSS JOIN LATERAL (
       SELECT * FROM everfold_views.view w
        WHERE w.generation = $1 AND w.tenant = a.tenant AND w.id = a.id
        ORDER BY w.step DESC LIMIT 1) v;

-- name: view_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.view
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.view WHERE generation = $1 LIMIT $2));

-- name: index_put
-- Unchanged entries are neither written nor locked. view_put has locked the views' rows, so no other transaction
-- writes entries of them. As view_put, it finds an entry by its last step.
-- only: postgres SQLite packs the keys beside the view, to know what has to go
-- binds: 1 generations int[], 2 tenants text[], 3 ids text[], 4 indexes int[], 5 keys blob[]
WITH given AS MATERIALIZED (
    SELECT g.*, n.at
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
           AS g(generation, tenant, id, idx, key)
      LEFT JOIN LATERAL (
           SELECT x.ctid AS at, x.key FROM everfold_views.view_index x
            WHERE x.generation = g.generation AND x.tenant = g.tenant AND x.id = g.id
              AND x.idx = g.idx
            ORDER BY x.step DESC LIMIT 1) n ON true
     WHERE n.key IS DISTINCT FROM g.key),
changed AS (
    UPDATE everfold_views.view_index i SET key = g.key, step = i.step + 1
      FROM given g WHERE i.ctid = g.at)
INSERT INTO everfold_views.view_index(generation, tenant, id, idx, key)
SELECT g.generation, g.tenant, g.id, g.idx, g.key FROM given g WHERE g.at IS NULL;

-- name: index_trim
-- Deletes entries of a view that is in fewer indexes than before. Programs give every view a key in every index,
-- so this is rare.
-- only: postgres SQLite packs the keys beside the view, to know what has to go
-- binds: 1 generation int, 2 tenant text, 3 id text, 4 stay int[] (indexes)
DELETE FROM everfold_views.view_index
 WHERE generation = $1 AND tenant = $2 AND id = $3 AND idx <> ALL ($4::bigint[]);

-- name: index_cut
-- binds: as cursor_cut
DELETE FROM everfold_views.view_index
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.view_index WHERE generation = $1 LIMIT $2));

-- Every scan is a range from one place up to another, which is excluded (scan.c). Places are whole keys, so one
-- statement serves all bounds and pages, and is always one search of an index.

-- name: view_scan_up
-- binds: by hand, 1 generation, 2 tenant, 3 id to start with; 4, 5, 6 the same to end before; 7 limit
SELECT data, last_position, last_seq, schema, digest, tenant, id
  FROM everfold_views.view
 WHERE (generation, tenant, id) >= ($1, $2, $3) AND (generation, tenant, id) < ($4, $5, $6)
 ORDER BY generation, tenant, id LIMIT $7;

-- name: view_scan_down
-- binds: by hand, 1 generation, 2 tenant, 3 id of the low end; 4, 5, 6 the same to start before; 7 limit
SELECT data, last_position, last_seq, schema, digest, tenant, id
  FROM everfold_views.view
 WHERE (generation, tenant, id) >= ($1, $2, $3) AND (generation, tenant, id) < ($4, $5, $6)
 ORDER BY generation DESC, tenant DESC, id DESC LIMIT $7;

-- name: index_scan_up
-- binds: by hand, 1 generation, 2 tenant, 3 idx, 4 key and 5 id to start with; 6 key and 7 id to end before;
--        8 limit
SELECT v.data, v.last_position, v.last_seq, v.schema, NULL::bytea, i.key, i.id
  FROM (SELECT id, key FROM everfold_views.view_index
         WHERE generation = $1 AND tenant = $2 AND idx = $3
           AND (key, id) >= ($4, $5) AND (key, id) < ($6, $7)
         ORDER BY key, id LIMIT $8) i
 CROSS JOIN LATERAL (
       SELECT * FROM everfold_views.view w
        WHERE w.generation = $1 AND w.tenant = $2 AND w.id = i.id
        ORDER BY w.step DESC LIMIT 1) v
 ORDER BY i.key, i.id;

-- name: index_scan_down
-- binds: by hand, 1 generation, 2 tenant, 3 idx, 4 key and 5 id of the low end; 6 key and 7 id to start before;
--        8 limit
SELECT v.data, v.last_position, v.last_seq, v.schema, NULL::bytea, i.key, i.id
  FROM (SELECT id, key FROM everfold_views.view_index
         WHERE generation = $1 AND tenant = $2 AND idx = $3
           AND (key, id) >= ($4, $5) AND (key, id) < ($6, $7)
         ORDER BY key DESC, id DESC LIMIT $8) i
 CROSS JOIN LATERAL (
       SELECT * FROM everfold_views.view w
        WHERE w.generation = $1 AND w.tenant = $2 AND w.id = i.id
        ORDER BY w.step DESC LIMIT 1) v
 ORDER BY i.key DESC, i.id DESC;

-- The same scans with a sieve: the server leaves out views that do not have the needle (where.c) in their
-- data. It reads one page and no more, however few of its rows are left, and the last row of a full page
-- comes without its data when it is left out itself: the next page begins after it. `place` is a row's
-- place in the page, `bytes` is the size of what was read up to there. A view with a NUL in a string is sent:
-- the query fails by it.

-- name: view_sieve_up
-- only: postgres a row that does not cross the network is one gained
-- binds: by hand, 1 generation, 2 tenant, 3 id to start with; 4, 5, 6 the same to end before; 7 limit;
--        8 bytes_max, 9 needle
SELECT CASE WHEN may THEN data END, last_position, last_seq, schema, digest, tenant, id, place, bytes
  FROM (SELECT v.*,
               octet_length(v.data) > $8::bigint OR strpos(v.data COLLATE "C", $9) > 0
               OR strpos(v.data COLLATE "C", E'\\u0000') > 0 AS may,
               row_number() OVER w AS place, sum(octet_length(v.data)) OVER w AS bytes
          FROM (SELECT * FROM everfold_views.view
                 WHERE (generation, tenant, id) >= ($1, $2, $3)
                   AND (generation, tenant, id) < ($4, $5, $6)
                 ORDER BY generation, tenant, id LIMIT $7) v
        WINDOW w AS (ORDER BY v.generation, v.tenant, v.id
                     ROWS UNBOUNDED PRECEDING)) page
 WHERE may OR place = $7
 ORDER BY generation, tenant, id;

-- name: view_sieve_down
-- only: postgres a row that does not cross the network is one gained
-- binds: by hand, 1 generation, 2 tenant, 3 id of the low end; 4, 5, 6 the same to start before; 7 limit;
--        8 bytes_max, 9 needle
SELECT CASE WHEN may THEN data END, last_position, last_seq, schema, digest, tenant, id, place, bytes
  FROM (SELECT v.*,
               octet_length(v.data) > $8::bigint OR strpos(v.data COLLATE "C", $9) > 0
               OR strpos(v.data COLLATE "C", E'\\u0000') > 0 AS may,
               row_number() OVER w AS place, sum(octet_length(v.data)) OVER w AS bytes
          FROM (SELECT * FROM everfold_views.view
                 WHERE (generation, tenant, id) >= ($1, $2, $3)
                   AND (generation, tenant, id) < ($4, $5, $6)
                 ORDER BY generation DESC, tenant DESC, id DESC LIMIT $7) v
        WINDOW w AS (ORDER BY v.generation DESC, v.tenant DESC, v.id DESC
                     ROWS UNBOUNDED PRECEDING)) page
 WHERE may OR place = $7
 ORDER BY generation DESC, tenant DESC, id DESC;

-- name: index_sieve_up
-- only: postgres a row that does not cross the network is one gained
-- binds: by hand, 1 generation, 2 tenant, 3 idx, 4 key and 5 id to start with; 6 key and 7 id to end before;
--        8 limit; 9 bytes_max, 10 needle
SELECT CASE WHEN may THEN data END, last_position, last_seq, schema, NULL::bytea, key, id, place,
       bytes
  FROM (SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key,
               octet_length(v.data) > $9::bigint OR strpos(v.data COLLATE "C", $10) > 0
               OR strpos(v.data COLLATE "C", E'\\u0000') > 0 AS may,
               row_number() OVER w AS place, sum(octet_length(v.data)) OVER w AS bytes
          FROM (SELECT id, key FROM everfold_views.view_index
                 WHERE generation = $1 AND tenant = $2 AND idx = $3
                   AND (key, id) >= ($4, $5) AND (key, id) < ($6, $7)
                 ORDER BY key, id LIMIT $8) i
         CROSS JOIN LATERAL (
               SELECT * FROM everfold_views.view w
                WHERE w.generation = $1 AND w.tenant = $2 AND w.id = i.id
                ORDER BY w.step DESC LIMIT 1) v
        WINDOW w AS (ORDER BY i.key, i.id
                     ROWS UNBOUNDED PRECEDING)) page
 WHERE may OR place = $8
 ORDER BY key, id;

-- name: index_sieve_down
-- only: postgres a row that does not cross the network is one gained
-- binds: by hand, 1 generation, 2 tenant, 3 idx, 4 key and 5 id of the low end; 6 key and 7 id to start before;
--        8 limit; 9 bytes_max, 10 needle
SELECT CASE WHEN may THEN data END, last_position, last_seq, schema, NULL::bytea, key, id, place,
       bytes
  FROM (SELECT v.data, v.last_position, v.last_seq, v.schema, i.id, i.key,
               octet_length(v.data) > $9::bigint OR strpos(v.data COLLATE "C", $10) > 0
               OR strpos(v.data COLLATE "C", E'\\u0000') > 0 AS may,
               row_number() OVER w AS place, sum(octet_length(v.data)) OVER w AS bytes
          FROM (SELECT id, key FROM everfold_views.view_index
                 WHERE generation = $1 AND tenant = $2 AND idx = $3
                   AND (key, id) >= ($4, $5) AND (key, id) < ($6, $7)
                 ORDER BY key DESC, id DESC LIMIT $8) i
         CROSS JOIN LATERAL (
               SELECT * FROM everfold_views.view w
                WHERE w.generation = $1 AND w.tenant = $2 AND w.id = i.id
                ORDER BY w.step DESC LIMIT 1) v
        WINDOW w AS (ORDER BY i.key DESC, i.id DESC
                     ROWS UNBOUNDED PRECEDING)) page
 WHERE may OR place = $8
 ORDER BY key DESC, id DESC;
