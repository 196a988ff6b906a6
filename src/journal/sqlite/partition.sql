-- only: sqlite counts by the row number of the outbox
-- Partitions: what waits in them.

-- name: partition_queued
-- Rows that are queued, by partition. With 1 lane 0: of all lanes.
-- binds: 1 lane, or 0 for all, 2 the lowest partition
SELECT partition, count(*) FROM outbox_queue
 WHERE id > ?1 << 48 AND id < (CASE ?1 WHEN 0 THEN 32767 ELSE ?1 + 1 END) << 48 AND partition >= ?2
 GROUP BY partition;

-- name: partition_exceptions
-- Exceptions by partition.
-- binds: 1 kind of the lanes, or -1 for all, 2 the lowest partition
SELECT x.partition, count(*) FROM outbox_exception x JOIN lane l ON l.id = x.lane
 WHERE (?1 < 0 OR l.kind = ?1) AND x.partition >= ?2 GROUP BY x.partition;
