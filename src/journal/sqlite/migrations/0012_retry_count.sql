-- Retry rows are counted by lane and status as they change, so that a report does not depend on
-- their number. A pending row is blocked after a dead one of its stream: retry_row_blocks has how many
-- rows a dead one blocks that no dead row before it blocks, up to the next dead one. OR FAIL: a
-- statement that could abort needs a journal of its own, and a failure ends the transaction anyway.
CREATE TABLE retry_count(
    lane INTEGER PRIMARY KEY REFERENCES lane(id),
    pending INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    blocked INTEGER NOT NULL);
DROP INDEX retry_row_of_stream;
CREATE INDEX retry_row_of_stream ON retry_row(lane, stream, seq, status);
-- The oldest waiting row of a lane is in it, has failed, or is queued.
CREATE INDEX retry_row_waiting ON retry_row(lane, position) WHERE first = 1 AND status = 0;
CREATE VIEW retry_row_blocks(lane, position, rows) AS
SELECT x.lane, x.position, count(*)
  FROM retry_row x CROSS JOIN retry_row r INDEXED BY retry_row_of_stream
 WHERE r.lane = x.lane AND r.stream = x.stream AND r.seq > x.seq AND r.status = 0
   AND r.seq < ifnull((SELECT min(d.seq) FROM retry_row d INDEXED BY retry_row_dead
                        WHERE d.lane = x.lane AND d.stream = x.stream AND d.status = 3
                          AND d.seq > x.seq), 1 << 62)
   AND NOT EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                   WHERE d.lane = x.lane AND d.stream = x.stream AND d.status = 3 AND d.seq < x.seq)
 GROUP BY x.lane, x.position;
INSERT INTO retry_count(lane, pending, failed, dead, blocked)
SELECT l.id, count(*) FILTER (WHERE x.status = 0), count(*) FILTER (WHERE x.status = 2),
       count(*) FILTER (WHERE x.status = 3),
       count(*) FILTER (WHERE x.status = 0 AND EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
               WHERE d.lane = x.lane AND d.stream = x.stream AND d.status = 3 AND d.seq < x.seq))
  FROM lane l LEFT JOIN retry_row x ON x.lane = l.id GROUP BY l.id;
CREATE TRIGGER lane_has_counts AFTER INSERT ON lane BEGIN
    INSERT INTO retry_count(lane, pending, failed, dead, blocked) VALUES (new.id, 0, 0, 0, 0);
END;
CREATE TRIGGER retry_row_is_added AFTER INSERT ON retry_row BEGIN
    UPDATE OR FAIL retry_count
       SET pending = pending + (new.status = 0), failed = failed + (new.status = 2),
           dead = dead + (new.status = 3),
           blocked = blocked + (new.status = 0 AND EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                   WHERE d.lane = new.lane AND d.stream = new.stream AND d.status = 3 AND d.seq < new.seq))
     WHERE lane = new.lane;
END;
CREATE TRIGGER retry_row_is_added_dead AFTER INSERT ON retry_row WHEN new.status = 3 BEGIN
    UPDATE OR FAIL retry_count
       SET blocked = blocked + ifnull((SELECT b.rows FROM retry_row_blocks b
                                        WHERE b.lane = new.lane AND b.position = new.position), 0)
     WHERE lane = new.lane;
END;
CREATE TRIGGER retry_row_is_removed BEFORE DELETE ON retry_row BEGIN
    UPDATE OR FAIL retry_count
       SET pending = pending - (old.status = 0), failed = failed - (old.status = 2),
           dead = dead - (old.status = 3),
           blocked = blocked - (old.status = 0 AND EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                   WHERE d.lane = old.lane AND d.stream = old.stream AND d.status = 3 AND d.seq < old.seq))
     WHERE lane = old.lane;
END;
CREATE TRIGGER retry_row_is_removed_dead BEFORE DELETE ON retry_row WHEN old.status = 3 BEGIN
    UPDATE OR FAIL retry_count
       SET blocked = blocked - ifnull((SELECT b.rows FROM retry_row_blocks b
                                        WHERE b.lane = old.lane AND b.position = old.position), 0)
     WHERE lane = old.lane;
END;
CREATE TRIGGER retry_row_is_changed AFTER UPDATE OF status ON retry_row
    WHEN new.status <> old.status BEGIN
    UPDATE OR FAIL retry_count
       SET pending = pending + (new.status = 0) - (old.status = 0),
           failed = failed + (new.status = 2) - (old.status = 2),
           dead = dead + (new.status = 3) - (old.status = 3),
           blocked = blocked + ((new.status = 0) - (old.status = 0)) *
                     EXISTS (SELECT 1 FROM retry_row d INDEXED BY retry_row_dead
                             WHERE d.lane = new.lane AND d.stream = new.stream AND d.status = 3 AND d.seq < new.seq)
     WHERE lane = new.lane;
END;
CREATE TRIGGER retry_row_is_changed_dead AFTER UPDATE OF status ON retry_row
    WHEN (new.status = 3) <> (old.status = 3) BEGIN
    UPDATE OR FAIL retry_count
       SET blocked = blocked + ((new.status = 3) - (old.status = 3)) *
                     ifnull((SELECT b.rows FROM retry_row_blocks b
                              WHERE b.lane = new.lane AND b.position = new.position), 0)
     WHERE lane = new.lane;
END;
