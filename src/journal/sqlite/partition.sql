-- Rows by partition.

-- name: partition_queued
-- only: sqlite PostgreSQL counts in partition_all and partition_waiting
-- Queued rows by partition.
-- binds: 1 lane int (or 0 for all), 2 lowest int (partition)
-- rows: partition int, count int
SELECT partition, count(*) FROM outbox_queue
 WHERE id > ?1 << 48 AND id < (CASE ?1 WHEN 0 THEN 32767 ELSE ?1 + 1 END) << 48 AND partition >= ?2
 GROUP BY partition;

-- name: partition_retry_rows
-- only: sqlite PostgreSQL counts in partition_all and partition_waiting
-- Retry rows by partition.
-- binds: 1 kind int (of the lanes, or -1 for all), 2 lowest int (partition)
-- rows: as partition_queued
SELECT x.partition, count(*) FROM retry_row x JOIN lane l ON l.id = x.lane
 WHERE (?1 < 0 OR l.kind = ?1) AND x.partition >= ?2 GROUP BY x.partition;
