-- Tables and columns get the names that the code, the command line and the documentation use. Grants, policies and the
-- references of views follow a renamed table by themselves; the text of a function does not.

-- Per lane and partition. `position` is the offset: every row up to it is acknowledged or has a retry row. `in_flight`
-- is 0, or the last position of a claimed batch, and `in_flight_token` the token of the lease under which it was
-- claimed. Rows up to `suspect` were in flight when a worker crashed.
ALTER TABLE everfold.outbox_mark RENAME TO lane_offset;
ALTER TABLE everfold.lane_offset RENAME COLUMN hand TO in_flight;
ALTER TABLE everfold.lane_offset RENAME COLUMN hand_token TO in_flight_token;
ALTER INDEX everfold.outbox_mark_pkey RENAME TO lane_offset_pkey;

-- Events that failed in a lane, and pending events after them in their streams.
ALTER TABLE everfold.outbox_exception RENAME TO retry_row;
ALTER INDEX everfold.outbox_exception_pkey RENAME TO retry_row_pkey;
ALTER INDEX everfold.outbox_exception_of_stream RENAME TO retry_row_of_stream;
ALTER INDEX everfold.outbox_exception_of_status RENAME TO retry_row_of_status;
ALTER INDEX everfold.outbox_exception_due RENAME TO retry_row_due;
ALTER INDEX everfold.outbox_exception_head RENAME TO retry_row_head;
ALTER INDEX everfold.outbox_exception_dead RENAME TO retry_row_dead;
-- Retry rows with the names of their events. Blocked: pending after a dead row of the stream.
ALTER VIEW everfold.exception_row RENAME TO retry_row_detail;
ALTER TABLE everfold.exception_lock RENAME TO retry_row_lock;
ALTER TABLE everfold.exception_partition RENAME TO retry_row_partition;
ALTER INDEX everfold.exception_partition_pkey RENAME TO retry_row_partition_pkey;

-- What operators did.
ALTER TABLE everfold.outbox_act RENAME TO audit;
ALTER TABLE everfold.audit RENAME COLUMN act TO action;
ALTER TABLE everfold.audit RENAME COLUMN who TO actor;
ALTER INDEX everfold.outbox_act_pkey RENAME TO audit_pkey;
ALTER SEQUENCE everfold.outbox_act_id_seq RENAME TO audit_id_seq;

-- The batches in flight under live leases, by lane and partition: after `acked`, up to `upto`. A function whose result
-- has other column names is another function; its grants are copied.
CREATE FUNCTION everfold.in_flight(clock bigint)
RETURNS TABLE (lane integer, partition integer, acked bigint, upto bigint) LANGUAGE sql STABLE AS $$
    SELECT m.lane, m.partition, m.position, m.in_flight
      FROM everfold.lane_offset m
      JOIN everfold.lane l ON l.id = m.lane
      JOIN everfold.lease s ON s.partition = m.partition AND s.token = m.in_flight_token
       AND s.kind = CASE l.kind WHEN 2 THEN 1 ELSE 0 END
       AND s.name = CASE l.kind WHEN 2 THEN l.name ELSE '' END
     WHERE m.in_flight > m.position AND everfold.lease_live(s.owner, s.until, s.updated, clock)
$$;
REVOKE ALL ON FUNCTION everfold.in_flight(bigint) FROM PUBLIC;
DO $$
DECLARE
    before pg_catalog.pg_proc;
    granted record;
BEGIN
    SELECT p.* INTO before FROM pg_catalog.pg_proc p WHERE p.oid = 'everfold.in_hand(bigint)'::regprocedure;
    EXECUTE format('ALTER FUNCTION everfold.in_flight(bigint) OWNER TO %s', before.proowner::regrole);
    FOR granted IN SELECT a.grantee::regrole AS role FROM aclexplode(before.proacl) a
                    WHERE a.grantee NOT IN (0, before.proowner) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.in_flight(bigint) TO %s', granted.role);
    END LOOP;
END $$;
DROP FUNCTION everfold.in_hand(bigint);

-- A worker, or an application that appends by the library: everything but changing events and the schema.
CREATE OR REPLACE FUNCTION everfold.grant_worker(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id, everfold.skip TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.arrival, everfold.lane, everfold.outbox, everfold.lane_offset, '
        || 'everfold.retry_row, everfold.outbox_published, everfold.audit, '
        || 'everfold.lease, everfold.worker, everfold.run, everfold.throughput TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state, everfold.sequencer_lock, everfold.retry_row_lock, '
        || 'everfold.skip_lock, everfold.run_lock TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE ON everfold.retry_row_partition TO %I', role);
END $$;
