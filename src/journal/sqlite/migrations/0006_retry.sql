-- Retry rows: whether an attempt is under way is a state of the row, and no longer told by its error.
ALTER TABLE outbox_exception ADD COLUMN trying INTEGER NOT NULL DEFAULT 0;

-- How many rows an operator's action was about.
ALTER TABLE outbox_act ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;

-- Events that an operator let a version of a projection pass. Entries are only added, so that a reader
-- goes on after the last one that it knows; the last entry about an event decides.
CREATE TABLE skip(
    id INTEGER PRIMARY KEY,
    projection TEXT NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    withdrawn INTEGER NOT NULL
);
CREATE INDEX skip_of_version ON skip(projection, version, id);
CREATE INDEX skip_of_event ON skip(projection, tenant, stream, seq, version, id);

-- They were entries of the audit log before.
INSERT INTO skip(projection, version, tenant, stream, seq, actor, reason, at, withdrawn)
SELECT lane, CAST(substr(act, 9) AS INTEGER), tenant, stream, seq, who, reason, at, 0
  FROM outbox_act WHERE act LIKE 'skipped@%' ORDER BY id;
DELETE FROM outbox_act WHERE act LIKE 'skipped@%';
