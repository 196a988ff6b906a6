-- Retry rows: whether an attempt is under way is a state of the row, and no longer told by its error.
ALTER TABLE everfold.outbox_exception ADD COLUMN trying boolean NOT NULL DEFAULT false;

-- How many rows an operator's action was about.
ALTER TABLE everfold.outbox_act ADD COLUMN rows bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW everfold.exception_row AS
    SELECT x.lane AS lane_id, l.name AS lane, e.tenant, e.stream, e.seq, x.position, e.type,
           x.status, x.status = 0 AND EXISTS (
               SELECT FROM everfold.outbox_exception d
                WHERE d.lane = x.lane AND d.stream = x.stream AND d.seq < x.seq AND d.status = 3)
               AS blocked,
           x.skip, x.partition, x.attempts, x.due, x.error, e.recorded AS enqueued, x.updated,
           x.filed, x.trying
      FROM everfold.outbox_exception x
      JOIN everfold.lane l ON l.id = x.lane
      JOIN everfold.log e ON e.position = x.position;

-- Events that an operator let a version of a projection pass. Entries are only added, so that a reader
-- goes on after the last one that it knows; the last entry about an event decides.
CREATE TABLE everfold.skip(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    projection text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    at bigint NOT NULL,
    withdrawn boolean NOT NULL
);
CREATE INDEX skip_of_version ON everfold.skip(projection, version, id);
CREATE INDEX skip_of_event ON everfold.skip(projection, tenant, stream, seq, version, id);

-- They were entries of the audit log before.
INSERT INTO everfold.skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT a.lane, substr(a.act, 9)::integer, a.tenant, a.stream, a.seq, a.who, a.reason, a.at, false
  FROM everfold.outbox_act a WHERE a.act LIKE 'skipped@%' ORDER BY a.id;
DELETE FROM everfold.outbox_act WHERE act LIKE 'skipped@%';

-- A worker, or an application that appends by the library: all but changing events and the schema.
CREATE OR REPLACE FUNCTION everfold.grant_worker(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id, everfold.skip TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.arrival, everfold.lane, everfold.outbox, everfold.outbox_mark, '
        || 'everfold.outbox_exception, everfold.outbox_published, everfold.outbox_act, '
        || 'everfold.lease, everfold.worker, everfold.run, everfold.throughput TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state TO %I', role);
END $$;
