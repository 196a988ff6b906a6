-- The journal as it was first. Times are microseconds since 1970, UTC. Names are compared by bytes.

-- One row: what the journal is.
CREATE TABLE everfold.state(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    journal_id text NOT NULL DEFAULT gen_random_uuid()::text,
    created bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    partitions integer NOT NULL DEFAULT 16 CHECK (partitions BETWEEN 1 AND 1024),
    purged bigint NOT NULL DEFAULT 0,     -- when stale workers were last looked for
    token_floor bigint NOT NULL DEFAULT 0 -- the highest token of a lease that was pruned
);
INSERT INTO everfold.state DEFAULT VALUES;

-- A stream, and the seq of the last event that was committed to it or is about to be: its row is
-- locked by whoever appends. An event is seen by nobody before it has its position.
CREATE TABLE everfold.stream(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    UNIQUE (tenant, name)
) WITH (fillfactor = 70);

CREATE TABLE everfold.event_type(
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    intent integer NOT NULL DEFAULT 0,
    publish boolean NOT NULL DEFAULT false,
    alias_of integer REFERENCES everfold.event_type(id)
);

-- The log: committed events with their positions. Rows come in the order of positions, under the
-- sequencer's lock, and are never changed.
CREATE TABLE everfold.event(
    position bigint PRIMARY KEY,
    stream bigint NOT NULL,
    seq bigint NOT NULL,
    type integer NOT NULL,
    schema integer NOT NULL,
    time bigint NOT NULL,
    recorded bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    meta text COLLATE "C" NOT NULL,
    sum bigint NOT NULL,  -- XXH3 of the whole event: checked at every read
    hash bytea NOT NULL   -- SHA-256 of the hash before it and the whole event
);
CREATE UNIQUE INDEX event_of_stream ON everfold.event(stream, seq);
CREATE INDEX event_first ON everfold.event(position) WHERE seq = 1;

CREATE FUNCTION everfold.event_is_never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are never changed or deleted';
END $$;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR DELETE ON everfold.event
    FOR EACH ROW EXECUTE FUNCTION everfold.event_is_never_changed();
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON everfold.event
    FOR EACH STATEMENT EXECUTE FUNCTION everfold.event_is_never_changed();

-- Where an id is, for ever. Written with the event, before it has a position.
CREATE TABLE everfold.event_id(
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    stream bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- Events that an application has committed in a transaction of its own and that have no position
-- yet. Of one stream they are numbered in the order of seqs, for its row is locked meanwhile.
CREATE TABLE everfold.arrival(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream bigint NOT NULL,
    seq bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    schema integer NOT NULL,
    time bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    meta text COLLATE "C" NOT NULL,
    queued boolean NOT NULL
);

CREATE TABLE everfold.lane(
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- 1 is "*"
    name text COLLATE "C" NOT NULL UNIQUE,
    kind integer NOT NULL,
    enabled boolean NOT NULL,
    types text COLLATE "C" NOT NULL
);
INSERT INTO everfold.lane(name, kind, enabled, types) VALUES ('*', 0, true, '');

-- What a lane has yet to take. May be made a partitioned table, by lane or by position.
CREATE TABLE everfold.outbox(
    lane integer NOT NULL,
    position bigint NOT NULL,
    partition integer NOT NULL,
    PRIMARY KEY (lane, position)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

CREATE TABLE everfold.outbox_mark(
    lane integer NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,   -- everything up to here has been taken
    hand bigint NOT NULL,       -- 0, or up to where a batch is in hand …
    hand_token bigint NOT NULL, -- … under this token
    suspect bigint NOT NULL,    -- rows up to here were in hand when an owner vanished
    updated bigint NOT NULL,
    PRIMARY KEY (lane, partition)
) WITH (fillfactor = 50);

-- What failed, or waits behind what failed, in its own lane.
CREATE TABLE everfold.outbox_exception(
    lane integer NOT NULL,
    position bigint NOT NULL,
    partition integer NOT NULL,
    stream bigint NOT NULL,
    seq bigint NOT NULL,
    status integer NOT NULL, -- 0 pending, 2 failed, 3 dead, as ef_row_status
    skip boolean NOT NULL,   -- an operator lets the lane pass it
    first boolean NOT NULL,  -- nothing of its stream is before it in its lane
    attempts integer NOT NULL,
    due bigint NOT NULL,
    error text COLLATE "C" NOT NULL,
    updated bigint NOT NULL,
    filed bigint NOT NULL,   -- how often it was filed since it was made
    PRIMARY KEY (lane, position)
);
CREATE INDEX outbox_exception_of_stream ON everfold.outbox_exception(lane, stream, seq);
CREATE INDEX outbox_exception_of_status ON everfold.outbox_exception(status, lane, position);
CREATE INDEX outbox_exception_due ON everfold.outbox_exception(lane, due, position)
    WHERE first AND status < 3;

CREATE TABLE everfold.outbox_act(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    act text COLLATE "C" NOT NULL,
    who text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL
);

CREATE TABLE everfold.lease(
    kind integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    partition integer NOT NULL,
    owner text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    until bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (kind, name, partition)
) WITH (fillfactor = 50);

CREATE TABLE everfold.worker(
    id text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    pid bigint NOT NULL,
    started bigint NOT NULL,
    updated bigint NOT NULL,
    heartbeat_until bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE everfold.run(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    mode integer NOT NULL,
    projection text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    state integer NOT NULL,
    requested bigint NOT NULL,
    started bigint NOT NULL,
    finished bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    processed bigint NOT NULL,
    total bigint NOT NULL,
    last_position bigint NOT NULL,
    error text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    requester text COLLATE "C" NOT NULL,
    lease_kind integer NOT NULL, -- -1, or the lease it was last driven under …
    lease_name text COLLATE "C" NOT NULL,
    lease_partition integer NOT NULL,
    detail text COLLATE "C" NOT NULL,
    cancel boolean NOT NULL      -- whoever drives it ends it
);
CREATE UNIQUE INDEX run_open_once ON everfold.run(tenant, projection) WHERE state < 2;

-- The store's clock: the server's, or what a test has handed in. Not now(), which stands still in a
-- transaction.
CREATE FUNCTION everfold.clock_us(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- As core/lease_rule.h has it; the contract suite compares the two.
CREATE FUNCTION everfold.lease_live(owner text, until bigint, updated bigint, now bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT owner <> '' AND until > greatest(now, updated)
       AND (now >= updated OR updated - now <= until - updated)
$$;

-- Does a type match NAME or PREFIX*, or a comma list of them? '' matches all.
CREATE FUNCTION everfold.type_matches(type text, patterns text)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT patterns = '' OR EXISTS (
        SELECT FROM (SELECT btrim(p, ' ') AS p
                       FROM unnest(string_to_array(patterns, ',')) AS u(p)) AS u
         WHERE p <> '' AND CASE WHEN right(p, 1) = '*' THEN starts_with(type, left(p, -1))
                                ELSE type = p END)
$$;

-- The log for people and for applications: events that have their position, under the names they
-- are read by.
CREATE VIEW everfold.log AS
    SELECT e.position, s.tenant, s.name AS stream, e.seq, e.id, coalesce(a.name, t.name) AS type,
           e.schema, e.time, e.recorded, e.data, e.meta, e.hash, t.name AS stored_type, e.sum,
           e.stream AS stream_id
      FROM everfold.event e
      JOIN everfold.stream s ON s.id = e.stream
      JOIN everfold.event_type t ON t.id = e.type
      LEFT JOIN everfold.event_type a ON a.id = t.alias_of;

-- Exceptions as they are shown. Blocked: pending behind a dead one of its stream.
CREATE VIEW everfold.exception_row AS
    SELECT x.lane AS lane_id, l.name AS lane, e.tenant, e.stream, e.seq, x.position, e.type,
           x.status, x.status = 0 AND EXISTS (
               SELECT FROM everfold.outbox_exception d
                WHERE d.lane = x.lane AND d.stream = x.stream AND d.seq < x.seq AND d.status = 3)
               AS blocked,
           x.skip, x.partition, x.attempts, x.due, x.error, e.recorded AS enqueued, x.updated
      FROM everfold.outbox_exception x
      JOIN everfold.lane l ON l.id = x.lane
      JOIN everfold.log e ON e.position = x.position;

-- Up to where a live owner has rows of a lane in hand, by partition.
CREATE FUNCTION everfold.in_hand(clock bigint)
RETURNS TABLE (lane integer, partition integer, mark bigint, upto bigint) LANGUAGE sql STABLE AS $$
    SELECT m.lane, m.partition, m.position, m.hand
      FROM everfold.outbox_mark m
      JOIN everfold.lane l ON l.id = m.lane
      JOIN everfold.lease s ON s.partition = m.partition AND s.token = m.hand_token
       AND s.kind = CASE l.kind WHEN 2 THEN 1 ELSE 0 END
       AND s.name = CASE l.kind WHEN 2 THEN l.name ELSE '' END
     WHERE m.hand > m.position AND everfold.lease_live(s.owner, s.until, s.updated, clock)
$$;
