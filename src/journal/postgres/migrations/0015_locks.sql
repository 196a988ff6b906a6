-- Locks that need a privilege on our objects. Advisory locks may be taken by every role that may connect: one
-- pg_advisory_lock stopped all appends. A lock on a table needs UPDATE on it, costs the server the same, and is as fair:
-- who wants one alone is not starved by those who share it.

-- Empty; what they are for is in the statements that lock them.
CREATE TABLE everfold.sequencer_lock();
CREATE TABLE everfold.exception_lock();
CREATE TABLE everfold.skip_lock();
CREATE TABLE everfold.run_lock();
-- A row for each partition of a lane whose retry rows a worker changes, made when it is first locked. Lane 0 stands for
-- the lanes of all projections.
CREATE TABLE everfold.exception_partition(
    lane integer NOT NULL,
    partition integer NOT NULL,
    PRIMARY KEY (lane, partition)
);

-- To the end of the transaction; waits for `ms` milliseconds.
CREATE FUNCTION everfold.lock_sequencer(ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.set_config('lock_timeout', ms::text, true);
    LOCK TABLE everfold.sequencer_lock IN EXCLUSIVE MODE;
END $$;
REVOKE ALL ON FUNCTION everfold.lock_sequencer(bigint) FROM PUBLIC;

-- A worker, or an application that appends by the library: all but changing events and the schema.
CREATE OR REPLACE FUNCTION everfold.grant_worker(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id, everfold.skip TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.arrival, everfold.lane, everfold.outbox, everfold.outbox_mark, '
        || 'everfold.outbox_exception, everfold.outbox_published, everfold.outbox_act, '
        || 'everfold.lease, everfold.worker, everfold.run, everfold.throughput TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state, everfold.sequencer_lock, everfold.exception_lock, '
        || 'everfold.skip_lock, everfold.run_lock TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE ON everfold.exception_partition TO %I', role);
END $$;

-- Those that were granted before. Of all roles only workers add events.
DO $$
DECLARE
    worker record;
BEGIN
    FOR worker IN SELECT DISTINCT a.grantee::regrole AS role
                    FROM pg_class c, aclexplode(c.relacl) a
                   WHERE c.oid = 'everfold.event'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> 0
                     AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT, UPDATE ON everfold.sequencer_lock, everfold.exception_lock, everfold.skip_lock, '
            || 'everfold.run_lock TO %s', worker.role);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON everfold.exception_partition TO %s', worker.role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.lock_sequencer(bigint) TO %s', worker.role);
    END LOOP;
END $$;
