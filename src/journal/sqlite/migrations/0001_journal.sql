-- The journal as it was first. Times are microseconds since 1970, UTC.

-- One row: what the journal is, and how far the background work on it has come (see tail.c, ids.c).
CREATE TABLE state(
    one INTEGER PRIMARY KEY CHECK (one = 1),
    journal_id TEXT NOT NULL,
    created INTEGER NOT NULL,
    partitions INTEGER NOT NULL,
    settled INTEGER NOT NULL,        -- up to here stream_head and the id runs know every event
    target INTEGER NOT NULL,         -- 0, or up to where they are being brought now
    heads_after INTEGER NOT NULL,    -- … stream heads written so far: stream ids up to this one
    ids_after INTEGER NOT NULL,      -- … id entries written so far: how many, in their order
    next_run INTEGER NOT NULL,       -- number of the next id run
    types_version INTEGER NOT NULL,  -- grows when a type changes
    lanes_version INTEGER NOT NULL,  -- grows when a lane changes
    checkpoints INTEGER NOT NULL,    -- grows with every checkpoint
    purged INTEGER NOT NULL,         -- when stale workers were last looked for
    token_floor INTEGER NOT NULL     -- the highest token of a lease that was pruned
);

CREATE TABLE stream(
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (tenant, name)
);

-- The last event of a stream as of state.settled or later; later events say the rest (tail.c).
CREATE TABLE stream_head(
    stream INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    ladder BLOB NOT NULL -- positions of seq with its low bits cleared one by one (ladder.h)
);

CREATE TABLE event_type(
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    intent INTEGER NOT NULL,
    publish INTEGER NOT NULL,
    alias_of INTEGER REFERENCES event_type(id)
);

CREATE TABLE event(
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL REFERENCES stream(id),
    seq INTEGER NOT NULL,
    prev INTEGER NOT NULL, -- position of seq - 1; 0 for the first
    jump INTEGER NOT NULL, -- position of seq with its lowest bit cleared; 0 where that is prev or none
    type INTEGER NOT NULL REFERENCES event_type(id),
    schema INTEGER NOT NULL,
    time INTEGER NOT NULL,
    recorded INTEGER NOT NULL,
    id TEXT NOT NULL,
    data TEXT NOT NULL,
    meta TEXT NOT NULL,
    sum INTEGER NOT NULL, -- XXH3 of the whole event: checked at every read
    hash BLOB NOT NULL    -- SHA-256 of the hash before it and the whole event
);

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN
    SELECT raise(ABORT, 'events are never changed');
END;

CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
BEGIN
    SELECT raise(ABORT, 'events are never deleted');
END;

-- Where an event id is: sorted runs of (hash of tenant and id, position), merged as they add up.
CREATE TABLE id_run(
    run INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,
    merging_into INTEGER NOT NULL -- 0, or the run its entries are moving to
);

CREATE TABLE id_chunk(
    run INTEGER NOT NULL,
    lo INTEGER NOT NULL, -- the first hash in it
    entries BLOB NOT NULL,
    PRIMARY KEY (run, lo)
) WITHOUT ROWID;

CREATE TABLE lane(
    id INTEGER PRIMARY KEY, -- 1 is "*"
    name TEXT NOT NULL UNIQUE,
    kind INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    types TEXT NOT NULL
);

-- What a lane has yet to take: one number a row, lane and position in one, so that adding a row is
-- adding to the end of a table. The rest of the row is the event's.
CREATE TABLE outbox_queue(
    id INTEGER PRIMARY KEY, -- lane << 48 | position
    partition INTEGER NOT NULL
);

CREATE VIEW outbox(lane, position, partition) AS
    SELECT id >> 48, id & 0xffffffffffff, partition FROM outbox_queue;

CREATE TABLE outbox_mark(
    lane INTEGER NOT NULL REFERENCES lane(id),
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL, -- everything up to here has been taken
    hand INTEGER NOT NULL,     -- 0, or up to where a batch is in hand …
    hand_token INTEGER NOT NULL, -- … under this token
    suspect INTEGER NOT NULL,  -- rows up to here were in hand when an owner vanished
    updated INTEGER NOT NULL,
    PRIMARY KEY (lane, partition)
) WITHOUT ROWID;

-- What failed, or waits behind what failed, in its own lane.
CREATE TABLE outbox_exception(
    lane INTEGER NOT NULL REFERENCES lane(id),
    position INTEGER NOT NULL REFERENCES event(position),
    partition INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    status INTEGER NOT NULL, -- 0 pending, 2 failed, 3 dead, as ef_row_status
    skip INTEGER NOT NULL,   -- an operator lets the lane pass it
    first INTEGER NOT NULL,  -- 1: nothing of its stream is before it in its lane
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    error TEXT NOT NULL,
    updated INTEGER NOT NULL,
    filed INTEGER NOT NULL,  -- how often it was filed since it was made
    PRIMARY KEY (lane, position)
) WITHOUT ROWID;

CREATE INDEX outbox_exception_of_stream ON outbox_exception(lane, stream, seq);
CREATE INDEX outbox_exception_of_status ON outbox_exception(status, lane, position);
CREATE INDEX outbox_exception_due ON outbox_exception(lane, due) WHERE first = 1 AND status < 3;

CREATE TABLE outbox_act(
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    act TEXT NOT NULL,
    who TEXT NOT NULL,
    reason TEXT NOT NULL,
    lane TEXT NOT NULL,
    tenant TEXT NOT NULL,
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL
);

CREATE TABLE lease(
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    partition INTEGER NOT NULL,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL,
    until INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    PRIMARY KEY (kind, name, partition)
) WITHOUT ROWID;

CREATE TABLE worker(
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    heartbeat_until INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE run(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    mode INTEGER NOT NULL,
    projection TEXT NOT NULL,
    tenant TEXT NOT NULL,
    state INTEGER NOT NULL,
    requested INTEGER NOT NULL,
    started INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    processed INTEGER NOT NULL,
    total INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    error TEXT NOT NULL,
    reason TEXT NOT NULL,
    requester TEXT NOT NULL,
    lease_kind INTEGER NOT NULL, -- -1, or the lease it was last driven under …
    lease_name TEXT NOT NULL,
    lease_partition INTEGER NOT NULL,
    detail TEXT NOT NULL,
    cancel INTEGER NOT NULL      -- 1: whoever drives it ends it
);

CREATE UNIQUE INDEX run_open_once ON run(tenant, projection) WHERE state < 2;
