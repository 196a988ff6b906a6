-- Lanes of the outbox.

-- name: lane_by_name
-- binds: 1 names text[]
-- row pg_lane: -, id int, kind int
SELECT name, id, kind FROM everfold.lane WHERE name = ANY ($1);

-- name: lane_in_order
-- list ef_lane: name text, kind int, enabled bool, types text, settings text, retain_us int,
--        progress text
SELECT name, kind, enabled, types, settings, retain, progress FROM everfold.lane ORDER BY name;

-- name: lane_make
-- only: postgres SQLite inserts each lane by lane_put
-- Creates the lanes of projections that are new.
-- binds: 1 names text[]
INSERT INTO everfold.lane(name, kind, enabled, types)
SELECT DISTINCT u.name, 1, true, '' FROM unnest($1) AS u(name) ORDER BY 1
    ON CONFLICT DO NOTHING;

-- name: lane_put
-- No row: the lane exists and is of another kind.
-- binds: 1 lane.name text, 2 lane.kind int, 3 lane.enabled bool, 4 lane.types text, 5 lane.settings
--        text, 6 lane.retain_us int
-- from: lane ef_lane
-- row: -
INSERT INTO everfold.lane AS l(name, kind, enabled, types, settings, retain)
VALUES ($1, $2::integer, $3, $4, $5, $6)
    ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, types = excluded.types,
                                     settings = excluded.settings, retain = excluded.retain
    WHERE l.kind = excluded.kind
RETURNING id;

-- name: lane_matches
-- The lane, locked, if it is as it was read before.
-- binds: 1 lane.name text, 2 lane.enabled bool, 3 lane.types text, 4 lane.settings text, 5
--        lane.retain_us int
-- from: lane ef_lane
-- row: -
SELECT id FROM everfold.lane
 WHERE name = $1 AND enabled = $2 AND types = $3 AND settings = $4 AND retain = $5 FOR UPDATE;

-- name: lane_progress_set
-- binds: 1 id int, 2 progress text
UPDATE everfold.lane SET progress = $2 WHERE id = $1;

-- name: lane_rows
-- binds: 1 lane int
-- row: count int
SELECT (SELECT count(*) FROM everfold.outbox WHERE lane = $1)
     + (SELECT count(*) FROM everfold.retry_row WHERE lane = $1);

-- name: lane_clear
-- binds: 1 id int
WITH queued AS (DELETE FROM everfold.outbox WHERE lane = $1),
retried AS (DELETE FROM everfold.retry_row WHERE lane = $1),
published AS (DELETE FROM everfold.outbox_published WHERE lane = $1),
in_flight AS (UPDATE everfold.lane_offset SET in_flight = 0, suspect = 0 WHERE lane = $1)
UPDATE everfold.lane SET enabled = false, types = '', settings = '', retain = 0, progress = ''
 WHERE id = $1;
