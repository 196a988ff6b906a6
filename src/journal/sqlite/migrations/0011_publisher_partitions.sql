-- The lane of a publisher has 16 partitions, whatever the number of the journal: a stream must never
-- change its partition there. Rows that were queued by the number of the journal become retry rows,
-- which are delivered in the order of their streams, before later rows, in any partition.
UPDATE retry_row SET partition = partition % 16 WHERE lane IN (SELECT id FROM lane WHERE kind = 2);
INSERT OR IGNORE INTO retry_row(lane, position, partition, stream, seq, status, skip, first,
                                attempts, due, error, updated, filed, trying)
SELECT l.id, e.position, q.partition % 16, e.stream, e.seq, 0, 0, 0, 0, e.recorded, '', e.recorded,
       0, 0
  FROM lane l
  JOIN outbox_queue q ON q.id > l.id << 48 AND q.id < (l.id + 1) << 48
  JOIN event e ON e.position = q.id & 0xffffffffffff
 WHERE l.kind = 2;
UPDATE retry_row SET first = 1
 WHERE lane IN (SELECT id FROM lane WHERE kind = 2)
   AND NOT EXISTS (SELECT 1 FROM retry_row p WHERE p.lane = retry_row.lane
                      AND p.stream = retry_row.stream AND p.seq < retry_row.seq);
DELETE FROM outbox_queue
 WHERE id IN (SELECT q.id FROM lane l
                JOIN outbox_queue q ON q.id > l.id << 48 AND q.id < (l.id + 1) << 48
               WHERE l.kind = 2);
DELETE FROM lane_offset WHERE lane IN (SELECT id FROM lane WHERE kind = 2);
