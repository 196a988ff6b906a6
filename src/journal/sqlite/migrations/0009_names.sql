-- Tables and columns get the names that the code, the command line and the documentation use.

-- Per lane and partition. `position` is the offset: every row up to it is acknowledged or has a retry
-- row. `in_flight` is 0, or the last position of a claimed batch, and `in_flight_token` the token of the
-- lease under which it was claimed. Rows up to `suspect` were in flight when a worker crashed.
ALTER TABLE outbox_mark RENAME TO lane_offset;
ALTER TABLE lane_offset RENAME COLUMN hand TO in_flight;
ALTER TABLE lane_offset RENAME COLUMN hand_token TO in_flight_token;

-- Events that failed in a lane, and pending events after them in their streams.
ALTER TABLE outbox_exception RENAME TO retry_row;
DROP INDEX outbox_exception_of_stream;
DROP INDEX outbox_exception_of_status;
DROP INDEX outbox_exception_due;
DROP INDEX outbox_exception_head;
DROP INDEX outbox_exception_dead;
CREATE INDEX retry_row_of_stream ON retry_row(lane, stream, seq);
CREATE INDEX retry_row_of_status ON retry_row(status, lane, position);
CREATE INDEX retry_row_due ON retry_row(lane, due) WHERE first = 1 AND status < 3;
CREATE INDEX retry_row_head ON retry_row(lane, position) WHERE first = 1;
CREATE INDEX retry_row_dead ON retry_row(lane, stream, seq) WHERE status = 3;

-- What operators did.
ALTER TABLE outbox_act RENAME TO audit;
ALTER TABLE audit RENAME COLUMN act TO action;
ALTER TABLE audit RENAME COLUMN who TO actor;
