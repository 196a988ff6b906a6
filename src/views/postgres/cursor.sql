-- The cursors of single tenants. They are written under the exclusive lock of the generation.

-- name: cursor_insert
-- binds: 1 generation int, 2 c.tenant text, 3 c.after.position int, 4 c.after.waiting int,
--        5 c.after.attempts int, 6 c.after.due_us int, 7 updated_us int
-- from: c ef__tenant_cursor_change
INSERT INTO everfold_views.tenant_cursor(generation, tenant, position, waiting, attempts, due,
                                         updated)
VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING;

-- name: cursor_update
-- No row is changed if the cursor differs from what was read.
-- binds: 1 generation int, 2 c.tenant text, 3 c.after.position int, 4 c.after.waiting int,
--        5 c.after.attempts int, 6 c.after.due_us int, 7 c.before.position int,
--        8 c.before.waiting int, 9 c.before.attempts int, 10 c.before.due_us int, 11 updated_us int
-- from: c ef__tenant_cursor_change
UPDATE everfold_views.tenant_cursor
   SET position = $3, waiting = $4, attempts = $5, due = $6, updated = $11
 WHERE generation = $1 AND tenant = $2
   AND position = $7 AND waiting = $8 AND attempts = $9 AND due = $10;

-- name: cursor_delete
-- The tenant has caught up. No row is changed if the cursor differs from what was read.
-- binds: 1 generation int, 2 tenant text, 3 was.position int, 4 was.waiting int, 5 was.attempts
--        int, 6 was.due_us int
-- from: was ef__tenant_cursor
DELETE FROM everfold_views.tenant_cursor
 WHERE generation = $1 AND tenant = $2
   AND position = $3 AND waiting = $4 AND attempts = $5 AND due = $6;

-- name: cursor_get
-- binds: 1 generation int, 2 tenant text
-- row ef__tenant_cursor_item: cursor.position int, cursor.waiting int, cursor.attempts int,
--        cursor.due_us int, updated_us int
SELECT position, waiting, attempts, due, updated
  FROM everfold_views.tenant_cursor WHERE generation = $1 AND tenant = $2;

-- name: cursor_due
-- binds: 1 generation int, 2 due_us int, 3 limit int
-- list ef__tenant_cursor_item: tenant text, cursor.position int, cursor.waiting int,
--        cursor.attempts int, cursor.due_us int, updated_us int
SELECT tenant, position, waiting, attempts, due, updated
  FROM everfold_views.tenant_cursor
 WHERE generation = $1 AND due <= $2 ORDER BY due, tenant LIMIT $3;

-- name: cursor_cut
-- binds: 1 generation int, 2 limit int
DELETE FROM everfold_views.tenant_cursor
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM everfold_views.tenant_cursor WHERE generation = $1 LIMIT $2));
