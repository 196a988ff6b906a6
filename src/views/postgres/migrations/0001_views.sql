-- The views as they were first. Times are microseconds since 1970, UTC. Names are compared by their
-- bytes, whatever the database sorts by.

CREATE SCHEMA everfold_views;

CREATE TABLE everfold_views.state(
    one integer PRIMARY KEY CHECK (one = 1),
    created bigint NOT NULL,
    live_set bigint NOT NULL -- grows when the set of live or routed generations changes
);

INSERT INTO everfold_views.state(one, created, live_set)
VALUES (1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 1);

-- One build of a projection. Ids are never given again: a late apply must not meet a new one.
CREATE TABLE everfold_views.generation(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    number integer NOT NULL,
    by_log boolean NOT NULL,
    program text NOT NULL,
    program_hash bigint NOT NULL,
    index_paths text NOT NULL,
    schema integer NOT NULL,
    state integer NOT NULL, -- 0 catching up, 1 live, 2 paused, 3 failed, 4 retired
    routed boolean NOT NULL,
    era bigint NOT NULL,
    position bigint NOT NULL,
    seam bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    UNIQUE (name, number)
);

CREATE UNIQUE INDEX generation_routed_once ON everfold_views.generation(name) WHERE routed;

-- What is counted of a generation: the sum over its shards. One row would have every worker wait for
-- the commits of all others; a connection counts in one of a few rows instead.
CREATE TABLE everfold_views.generation_sum(
    generation bigint NOT NULL,
    shard integer NOT NULL,
    views bigint NOT NULL,
    applied bigint NOT NULL,
    ignored bigint NOT NULL,
    skipped bigint NOT NULL,
    digest_a bigint NOT NULL, -- sums over views, modulo 2^64
    digest_b bigint NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (generation, shard)
) WITH (fillfactor = 50);

-- A number modulo 2^64, as the signed one that has the same bits.
CREATE FUNCTION everfold_views.wrap64(n numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS 'SELECT (mod(mod(n, 18446744073709551616) + 27670116110564327424, 18446744073709551616)
                - 9223372036854775808)::bigint';

-- Room is left in each page, so that a view that changes stays where it is and no index is touched.
CREATE TABLE everfold_views.view(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    data text NOT NULL, -- canonical JSON, as bytes: what it was folded to, and what its digest is of
    last_position bigint NOT NULL,
    last_seq bigint NOT NULL,
    schema integer NOT NULL,
    digest bytea NOT NULL, -- 16 bytes; see view_put for what else it is used for
    PRIMARY KEY (generation, tenant, id)
) WITH (fillfactor = 80);

-- idx is the place in the generation's index_paths; keys sort as the values do. A view has one key in
-- each index, and who writes entries of a view holds the lock on its row.
CREATE TABLE everfold_views.view_index(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    idx integer NOT NULL,
    key bytea NOT NULL,
    PRIMARY KEY (generation, tenant, id, idx)
);

CREATE INDEX view_index_by_key ON everfold_views.view_index(generation, tenant, idx, key, id);

CREATE TABLE everfold_views.watermark(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    applied_seq bigint NOT NULL,
    expected_next_seq bigint NOT NULL,
    hash bytea NOT NULL, -- of the event applied_seq; see watermark_put for what else it is used for
    PRIMARY KEY (generation, tenant, stream)
) WITH (fillfactor = 80);

-- A tenant that could not keep up with the cursor of a projection in the order of the log goes by one
-- of its own until it has come up with it again.
CREATE TABLE everfold_views.tenant_cursor(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    position bigint NOT NULL, -- all events of the tenant up to here have been read
    waiting bigint NOT NULL,  -- its events from there to the generation's cursor
    attempts bigint NOT NULL, -- failures in a row at the next one
    due bigint NOT NULL,      -- not tried before
    updated bigint NOT NULL,
    PRIMARY KEY (generation, tenant)
);

CREATE INDEX tenant_cursor_due ON everfold_views.tenant_cursor(generation, due, tenant);

-- The highest token that ever wrote under a fence.
CREATE TABLE everfold_views.fence(
    scope text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE everfold_views.failure(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    position bigint NOT NULL,
    event_id text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    attempts integer NOT NULL,
    open boolean NOT NULL,
    recorded bigint NOT NULL,
    resolved bigint NOT NULL -- 0 while it is open
);

CREATE UNIQUE INDEX failure_open_once ON everfold_views.failure(generation, tenant, stream, seq)
    WHERE open;
CREATE INDEX failure_open ON everfold_views.failure(generation, id) WHERE open;
CREATE INDEX failure_all ON everfold_views.failure(generation, id);

-- For reading with plain SQL: what queries for a projection see is routed. `doc` is null where jsonb
-- cannot hold the data: a string with a NUL in it.
CREATE VIEW everfold_views.views AS
SELECT g.name AS projection, g.version, g.number AS generation, g.routed, v.tenant, v.id, v.data,
       CASE WHEN v.data !~ '(^|[^\\])(\\\\)*\\u0000' THEN v.data::jsonb END AS doc,
       v.last_position, v.last_seq, v.schema
  FROM everfold_views.view v JOIN everfold_views.generation g ON g.id = v.generation;

-- The view asks for the rights of whoever reads it, and not of whoever made it. Servers before 15 do
-- not know this: there, grant the tables and not the view to those who may see one tenant only.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 150000 THEN
        ALTER VIEW everfold_views.views SET (security_invoker = true);
    END IF;
END
$$;

-- A second wall between tenants: with it, a role that is not the owner sees the rows of the tenant that
-- it has named, and those of all tenants only if it is a member of `everyone` (the role of the workers).
CREATE FUNCTION everfold_views.tenants_apart(everyone name) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    t text;
BEGIN
    PERFORM everfold_views.tenants_together();
    FOREACH t IN ARRAY ARRAY['view', 'view_index', 'watermark', 'tenant_cursor', 'failure'] LOOP
        EXECUTE format('ALTER TABLE everfold_views.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY everyone ON everfold_views.%I TO %I USING (true)', t, everyone);
        EXECUTE format('CREATE POLICY tenant ON everfold_views.%I FOR SELECT USING '
                       '(tenant = current_setting(''everfold.tenant'', true))', t);
    END LOOP;
END
$$;

CREATE FUNCTION everfold_views.tenants_together() RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['view', 'view_index', 'watermark', 'tenant_cursor', 'failure'] LOOP
        EXECUTE format('DROP POLICY IF EXISTS everyone ON everfold_views.%I', t);
        EXECUTE format('DROP POLICY IF EXISTS tenant ON everfold_views.%I', t);
        EXECUTE format('ALTER TABLE everfold_views.%I DISABLE ROW LEVEL SECURITY', t);
    END LOOP;
END
$$;
