-- Rows by partition.

-- name: partition_all
-- The partitions of "*", with their leases and rows.
-- binds: 1 now int
-- list ef_partition: number int, holder text, token int, until_us int, live bool, pending int,
--        in_flight int, retry_rows int
WITH RECURSIVE part(number) AS (
    SELECT 0 UNION ALL SELECT p.number + 1 FROM part p, state s WHERE p.number + 1 < s.partitions),
queued(partition, count) AS MATERIALIZED (
    SELECT partition, count(*) FROM outbox_queue WHERE id > 1 << 48 AND id < 2 << 48
     GROUP BY partition),
retry(partition, count) AS MATERIALIZED (
    SELECT x.partition, count(*) FROM retry_row x JOIN lane l ON l.id = x.lane
     WHERE l.kind = 1 GROUP BY x.partition),
row(number, owner, token, until, updated, queued, in_flight, retry) AS MATERIALIZED (
    SELECT p.number, h.owner, ifnull(h.token, s.token_floor), h.until, h.updated,
           ifnull(q.count, 0),
           (SELECT count(*) FROM lane_offset m CROSS JOIN outbox_queue o
             WHERE m.lane = 1 AND m.partition = p.number AND m.in_flight > m.position
               AND m.in_flight_token = h.token AND lease_live(h.owner, h.until, h.updated, ?1)
               AND o.id > (1 << 48 | m.position) AND o.id <= (1 << 48 | m.in_flight)
               AND o.partition = p.number), r.count
      FROM part p CROSS JOIN state s
      LEFT JOIN lease h ON h.kind = 0 AND h.name = '' AND h.partition = p.number
      LEFT JOIN queued q ON q.partition = p.number
      LEFT JOIN retry r ON r.partition = p.number)
SELECT number, owner, token, until, lease_live(owner, until, updated, ?1), queued - in_flight,
       in_flight, retry
  FROM row ORDER BY number;

-- name: partition_waiting
-- Queued rows of "*" and retry rows of projections, in partitions from the lowest one on.
-- binds: 1 from int
-- rows: partition int, rows int
SELECT partition, count(*) FROM outbox_queue
 WHERE id > 1 << 48 AND id < 2 << 48 AND partition >= ?1 GROUP BY partition
UNION ALL
SELECT x.partition, count(*) FROM lane l CROSS JOIN retry_row x
 WHERE l.kind = 1 AND x.lane = l.id AND x.partition >= ?1 GROUP BY x.partition;
