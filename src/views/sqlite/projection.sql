-- State of a projection, beside its generations.

-- name: on_error_set
-- binds: 1 name text, 2 on_error int
UPDATE generation SET on_error = ?2 WHERE name = ?1;

-- name: version_retire
-- binds: 1 name text, 2 version int
INSERT INTO retired_version(name, version) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: version_is_retired
-- binds: 1 name text, 2 version int
-- row: -
SELECT 1 FROM retired_version WHERE name = ?1 AND version = ?2;
