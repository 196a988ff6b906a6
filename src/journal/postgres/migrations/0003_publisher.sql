-- Publishers: what a lane's owner says about it, and what was published a while ago.
ALTER TABLE everfold.lane
    ADD COLUMN settings text NOT NULL DEFAULT '',
    ADD COLUMN retain bigint NOT NULL DEFAULT 0, -- microseconds
    ADD COLUMN progress text NOT NULL DEFAULT '';

-- What a publisher is through with, for as long as its lane retains it.
CREATE TABLE everfold.outbox_published(
    lane integer NOT NULL,
    position bigint NOT NULL,
    published bigint NOT NULL,
    PRIMARY KEY (lane, position)
);

-- A worker, or an application that appends by the library: all but changing events and the schema.
CREATE OR REPLACE FUNCTION everfold.grant_worker(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.arrival, everfold.lane, everfold.outbox, everfold.outbox_mark, '
        || 'everfold.outbox_exception, everfold.outbox_published, everfold.outbox_act, '
        || 'everfold.lease, everfold.worker, everfold.run TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state TO %I', role);
END $$;
