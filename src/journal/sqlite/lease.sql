-- Leases. The rules are in core/lease_rule.h; lease_live (lease.c) is one of them.

-- name: lease_get
-- only: sqlite SQLite has one writer at a time, which needs no lock
-- A lease that was never acquired, or was pruned, is free: one without a row starts above every token
-- of the leases that were pruned.
-- binds: 1 key.kind int, 2 key.name text, 3 key.partition int
-- from: key ef_lease_key
-- rows ef__lease_row: owner text, token int, until_us int, updated_us int
SELECT l.owner, ifnull(l.token, s.token_floor), l.until, l.updated
  FROM state s LEFT JOIN lease l ON l.kind = ?1 AND l.name = ?2 AND l.partition = ?3;

-- name: lease_between
-- only: sqlite PostgreSQL locks the leases of an array
-- binds: 1 kind int, 2 name text, 3 first int, 4 last int
-- rows: partition int, owner text, token int, until_us int, updated_us int
SELECT partition, owner, token, until, updated
  FROM lease WHERE kind = ?1 AND name = ?2 AND partition BETWEEN ?3 AND ?4;

-- name: lease_put
-- binds: 1 key.kind int, 2 key.name text, 3 key.partition int, 4 row.owner text, 5 row.token int,
--        6 row.until_us int, 7 row.updated_us int
-- from: key ef_lease_key, row ef__lease_row
INSERT INTO lease(kind, name, partition, owner, token, until, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (kind, name, partition)
    DO UPDATE SET owner = excluded.owner, token = excluded.token, until = excluded.until,
                  updated = excluded.updated;

-- name: lease_bring_back
-- See ef__lease_bring_back.
-- binds: 1 now int, 2 slack int
UPDATE lease SET until = CASE WHEN until = 0 THEN 0
                              WHEN updated - ?1 <= until - updated THEN ?1 + until - updated
                              ELSE ?1 END,
                 updated = ?1
 WHERE updated > ?1 + ?2;

-- name: lease_beyond
-- Leases of partitions beyond the count: how many are held, and how many can be pruned.
-- binds: 1 count int, 2 now int
-- row: held int, free int
SELECT count(*) FILTER (WHERE live), count(*) FILTER (WHERE NOT live)
  FROM (SELECT lease_live(owner, until, updated, ?2) AS live FROM lease
         WHERE kind = 0 AND partition >= ?1);

-- name: lease_token_floor_raise
-- only: sqlite PostgreSQL raises it in lease_prune
-- Before lease_prune.
-- binds: as lease_beyond
UPDATE state SET token_floor = max(token_floor, (
    SELECT ifnull(max(token), 0) FROM lease
     WHERE kind = 0 AND partition >= ?1 AND NOT lease_live(owner, until, updated, ?2)));

-- name: lease_prune
-- binds: as lease_beyond
DELETE FROM lease
 WHERE kind = 0 AND partition >= ?1 AND NOT lease_live(owner, until, updated, ?2);

-- name: lease_all
-- binds: 1 kind int (or -1 for all), 2 now int
-- list ef_lease: key.kind int, key.name text, key.partition int, holder text, token int,
--        until_us int, updated_us int, live bool
SELECT kind, name, partition, owner, token, until, updated,
       lease_live(owner, until, updated, ?2)
  FROM lease WHERE ?1 < 0 OR kind = ?1 ORDER BY kind, name, partition;
