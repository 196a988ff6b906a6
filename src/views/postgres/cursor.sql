-- The cursors of single tenants. They are written under the exclusive lock of the generation.

-- name: cursor_insert
-- binds: 1 generation, 2 tenant, 3 position, 4 waiting, 5 attempts, 6 due, 7 updated
INSERT INTO everfold_views.tenant_cursor(generation, tenant, position, waiting, attempts, due,
                                         updated)
VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING;

-- name: cursor_update
-- No row is changed if the cursor differs from what was read.
-- binds: 1 generation, 2 tenant, 3 position, 4 waiting, 5 attempts, 6 due; 7, 8, 9, 10 the same as
--        read; 11 updated
UPDATE everfold_views.tenant_cursor
   SET position = $3, waiting = $4, attempts = $5, due = $6, updated = $11
 WHERE generation = $1 AND tenant = $2
   AND position = $7 AND waiting = $8 AND attempts = $9 AND due = $10;

-- name: cursor_delete
-- The tenant has caught up. No row is changed if the cursor differs from what was read.
-- binds: 1 generation, 2 tenant, 3 position, 4 waiting, 5 attempts, 6 due
DELETE FROM everfold_views.tenant_cursor
 WHERE generation = $1 AND tenant = $2
   AND position = $3 AND waiting = $4 AND attempts = $5 AND due = $6;

-- name: cursor_get
-- binds: 1 generation, 2 tenant
SELECT tenant, position, waiting, attempts, due, updated
  FROM everfold_views.tenant_cursor WHERE generation = $1 AND tenant = $2;

-- name: cursor_due
-- binds: 1 generation, 2 due, 3 limit
SELECT tenant, position, waiting, attempts, due, updated
  FROM everfold_views.tenant_cursor
 WHERE generation = $1 AND due <= $2 ORDER BY due, tenant LIMIT $3;

-- name: cursor_cut
-- binds: 1 generation, 2 limit
DELETE FROM everfold_views.tenant_cursor
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.tenant_cursor WHERE generation = $1 LIMIT $2));
