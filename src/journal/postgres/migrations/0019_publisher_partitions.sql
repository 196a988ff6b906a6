-- The lane of a publisher has 16 partitions, whatever the number of the journal: a stream must never
-- change its partition there. Rows that were queued by the number of the journal become retry rows,
-- which are delivered in the order of their streams, before later rows, in any partition.
UPDATE everfold.retry_row SET partition = partition % 16
 WHERE lane IN (SELECT id FROM everfold.lane WHERE kind = 2);
INSERT INTO everfold.retry_row(lane, position, partition, stream, seq, status, skip, first,
                               attempts, due, error, updated, filed, trying)
SELECT q.lane, q.position, q.partition % 16, e.stream, e.seq, 0, false, false, 0, e.recorded, '',
       e.recorded, 0, false
  FROM everfold.lane l
  JOIN everfold.outbox q ON q.lane = l.id
  JOIN everfold.event e ON e.position = q.position
 WHERE l.kind = 2
    ON CONFLICT DO NOTHING;
UPDATE everfold.retry_row x SET first = true
 WHERE x.lane IN (SELECT id FROM everfold.lane WHERE kind = 2) AND NOT x.first
   AND NOT EXISTS (SELECT FROM everfold.retry_row p
                    WHERE p.lane = x.lane AND p.stream = x.stream AND p.seq < x.seq);
DELETE FROM everfold.outbox WHERE lane IN (SELECT id FROM everfold.lane WHERE kind = 2);
DELETE FROM everfold.lane_offset WHERE lane IN (SELECT id FROM everfold.lane WHERE kind = 2);
