-- What was done in each minute of the last day.

-- name: throughput_add
-- Several processes add to the row of a minute. Appends are counted by the first process that sees
-- them: from the highest position of any row.
-- binds: 1 minute (its beginning), 2 position, 3 applied, 4 published, 5 failed, 6 dead
INSERT INTO throughput(minute, position, appended, applied, published, failed, dead)
VALUES (?1, ?2, max(0, ?2 - coalesce((SELECT max(position) FROM throughput), 0)), ?3, ?4, ?5, ?6)
    ON CONFLICT (minute)
    DO UPDATE SET position = max(position, excluded.position),
                  appended = appended + excluded.appended,
                  applied = applied + excluded.applied,
                  published = published + excluded.published,
                  failed = failed + excluded.failed, dead = dead + excluded.dead;

-- name: throughput_drop
-- binds: 1 minutes that began before this
DELETE FROM throughput WHERE minute < ?1;

-- name: throughput_all
-- binds: 1 minutes that began at or after this
SELECT minute, position, appended, applied, published, failed, dead FROM throughput
 WHERE minute >= ?1 ORDER BY minute;
