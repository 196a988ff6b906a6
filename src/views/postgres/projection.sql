-- State of a projection, beside its generations.

-- name: on_error_set
-- binds: 1 name text, 2 on_error int
UPDATE everfold_views.generation SET on_error = $2 WHERE name = $1;

-- name: version_retire
-- binds: 1 name text, 2 version int
INSERT INTO everfold_views.retired_version(name, version) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: version_is_retired
-- binds: 1 name text, 2 version int
-- row: -
SELECT 1 FROM everfold_views.retired_version WHERE name = $1 AND version = $2;
