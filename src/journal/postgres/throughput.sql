-- Counts for each minute of the last day: events appended and applied, rows published, failed and dead.

-- name: throughput_add
-- Several processes add to the row of a minute. Appends are counted by the first process that sees
-- them: from the highest position of any row.
-- binds: 1 minute.at_us int (its beginning), 2 minute.position int, 3 minute.applied int, 4
--        minute.published int, 5 minute.failed int, 6 minute.dead int
-- from: minute ef_throughput
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
-- binds: 1 before int (minutes that began before this)
DELETE FROM everfold.throughput WHERE minute < $1;

-- name: throughput_all
-- binds: 1 from int (minutes that began at or after this)
-- list ef_throughput: at_us int, position int, appended int, applied int, published int, failed
--        int, dead int
SELECT minute, position, appended, applied, published, failed, dead FROM everfold.throughput
 WHERE minute >= $1 ORDER BY minute;
