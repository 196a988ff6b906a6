-- Streams that have retry rows, by their first row; and what blocks a stream. Without the second, a
-- stream whose first row has failed and is not dead is searched from end to end for a dead one.
CREATE INDEX outbox_exception_head ON outbox_exception(lane, position) WHERE first = 1;
CREATE INDEX outbox_exception_dead ON outbox_exception(lane, stream, seq) WHERE status = 3;
