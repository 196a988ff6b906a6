-- Rows by partition.

-- name: partition_all
-- binds: 1 now clock
-- list ef_partition: number int, holder text, token int, until_us int, live bool, pending int,
--        in_flight int, retry_rows int
SELECT p.number, coalesce(l.owner, ''), coalesce(l.token, 0), coalesce(l.until, 0),
       coalesce(everfold.lease_live(l.owner, l.until, l.updated, everfold.clock_us($1)), false),
       coalesce(q.rows, 0) - coalesce(h.rows, 0), coalesce(h.rows, 0), coalesce(x.rows, 0)
  FROM everfold.state s
 CROSS JOIN LATERAL generate_series(0, s.partitions - 1) AS p(number)
  LEFT JOIN everfold.lease l ON l.kind = 0 AND l.name = '' AND l.partition = p.number
  LEFT JOIN (SELECT partition, count(*) AS rows FROM everfold.outbox WHERE lane = 1
              GROUP BY partition) q ON q.partition = p.number
  LEFT JOIN (SELECT o.partition, count(*) AS rows
               FROM everfold.in_flight(everfold.clock_us($1)) i
               JOIN everfold.outbox o ON o.lane = i.lane AND o.partition = i.partition
                AND o.position > i.acked AND o.position <= i.upto
              WHERE i.lane = 1 GROUP BY o.partition) h ON h.partition = p.number
  LEFT JOIN (SELECT x.partition, count(*) AS rows
               FROM everfold.retry_row x JOIN everfold.lane l ON l.id = x.lane AND l.kind = 1
              GROUP BY x.partition) x ON x.partition = p.number
 ORDER BY p.number;

-- name: partition_waiting
-- Queued rows of "*" and retry rows of projections, in partitions from the lowest one on.
-- binds: 1 from int
-- rows: partition int, rows int
SELECT partition, sum(rows)::bigint
  FROM (SELECT partition, count(*) AS rows FROM everfold.outbox
         WHERE lane = 1 AND partition >= $1 GROUP BY partition
        UNION ALL
        SELECT x.partition, count(*)
          FROM everfold.retry_row x JOIN everfold.lane l ON l.id = x.lane AND l.kind = 1
         WHERE x.partition >= $1 GROUP BY x.partition) w
 GROUP BY partition;
