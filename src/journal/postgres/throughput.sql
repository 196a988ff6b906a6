-- Counts for each minute of the last day: events appended and applied, rows published, failed and dead.

-- name: throughput_add
-- Several processes add to the row of a minute. Appends are counted by the first process that sees
-- them: from the highest position of any row.
-- binds: 1 minute (its beginning), 2 position, 3 applied, 4 published, 5 failed, 6 dead
INSERT INTO everfold.throughput AS t(minute, position, appended, applied, published, failed, dead)
VALUES ($1, $2, greatest(0, $2 - coalesce((SELECT max(position) FROM everfold.throughput), 0)), $3,
        $4, $5, $6)
    ON CONFLICT (minute)
    DO UPDATE SET position = greatest(t.position, excluded.position),
                  appended = t.appended + excluded.appended,
                  applied = t.applied + excluded.applied,
                  published = t.published + excluded.published,
                  failed = t.failed + excluded.failed, dead = t.dead + excluded.dead;

-- name: throughput_drop
-- binds: 1 minutes that began before this
DELETE FROM everfold.throughput WHERE minute < $1;

-- name: throughput_all
-- binds: 1 minutes that began at or after this
SELECT minute, position, appended, applied, published, failed, dead FROM everfold.throughput
 WHERE minute >= $1 ORDER BY minute;
