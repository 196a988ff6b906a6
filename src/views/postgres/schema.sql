-- The schema as the migrations make it, for reading; comments are in the migrations.
-- Made by: python3 tests/views/postgres_sql.py print-schema src/views/postgres
CREATE SCHEMA everfold_views;
CREATE FUNCTION everfold_views.grant_reader(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold_views.views, everfold_views.view, everfold_views.generation '
        || 'TO %I', role);
END $$;
CREATE FUNCTION everfold_views.grant_worker(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold, everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA everfold_views TO %I', role);
END $$;
CREATE FUNCTION everfold_views.lock_generations(ids bigint[], alone boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    id bigint;
BEGIN
    FOREACH id IN ARRAY ids LOOP
        EXECUTE pg_catalog.format('LOCK TABLE everfold_views.lock_%s IN %s MODE',
            CASE WHEN id = 0::bigint THEN 'live' ELSE (id % 8::bigint)::text END,
            CASE WHEN alone THEN 'EXCLUSIVE' ELSE 'ROW SHARE' END);
    END LOOP;
END $$;
CREATE FUNCTION everfold_views.wrap64(n numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$SELECT (mod(mod(n, 18446744073709551616) + 27670116110564327424, 18446744073709551616)
                - 9223372036854775808)::bigint$$;
CREATE TABLE everfold_views.failure (
    id bigint NOT NULL,
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    stream text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    "position" bigint NOT NULL,
    event_id text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    attempts integer NOT NULL,
    open boolean NOT NULL,
    recorded bigint NOT NULL,
    resolved bigint NOT NULL,
    line integer DEFAULT 0 NOT NULL
);
ALTER TABLE everfold_views.failure ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME everfold_views.failure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE everfold_views.fence (
    scope text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE everfold_views.follow (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL,
    low bigint NOT NULL,
    last bigint NOT NULL,
    kept bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE everfold_views.follow_floor (
    generation bigint NOT NULL,
    number bigint NOT NULL
);
CREATE TABLE everfold_views.generation (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    number integer NOT NULL,
    by_log boolean NOT NULL,
    program text NOT NULL,
    program_hash bigint NOT NULL,
    index_paths text NOT NULL,
    schema integer NOT NULL,
    state integer NOT NULL,
    routed boolean NOT NULL,
    era bigint NOT NULL,
    "position" bigint NOT NULL,
    seam bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    on_error integer DEFAULT 0 NOT NULL,
    replaced integer DEFAULT '-1'::integer NOT NULL,
    superseded bigint DEFAULT 0 NOT NULL
);
ALTER TABLE everfold_views.generation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME everfold_views.generation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE everfold_views.generation_sum (
    generation bigint NOT NULL,
    shard integer NOT NULL,
    views bigint NOT NULL,
    applied bigint NOT NULL,
    ignored bigint NOT NULL,
    skipped bigint NOT NULL,
    digest_a bigint NOT NULL,
    digest_b bigint NOT NULL,
    updated bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE everfold_views.lock_0 (
);
CREATE TABLE everfold_views.lock_1 (
);
CREATE TABLE everfold_views.lock_2 (
);
CREATE TABLE everfold_views.lock_3 (
);
CREATE TABLE everfold_views.lock_4 (
);
CREATE TABLE everfold_views.lock_5 (
);
CREATE TABLE everfold_views.lock_6 (
);
CREATE TABLE everfold_views.lock_7 (
);
CREATE TABLE everfold_views.lock_live (
);
CREATE TABLE everfold_views.retired_version (
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL
);
CREATE TABLE everfold_views.state (
    one integer NOT NULL,
    created bigint NOT NULL,
    live_set bigint NOT NULL,
    CONSTRAINT state_one_check CHECK ((one = 1))
);
CREATE TABLE everfold_views.tenant_cursor (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    waiting bigint NOT NULL,
    attempts bigint NOT NULL,
    due bigint NOT NULL,
    updated bigint NOT NULL
);
CREATE TABLE everfold_views.view (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    data text NOT NULL,
    last_position bigint NOT NULL,
    last_seq bigint NOT NULL,
    schema integer NOT NULL,
    digest bytea NOT NULL,
    step bigint DEFAULT 0 NOT NULL,
    change smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE everfold_views.view_change (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    kind bigint NOT NULL
);
CREATE TABLE everfold_views.view_index (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    idx integer NOT NULL,
    key bytea NOT NULL,
    step bigint DEFAULT 0 NOT NULL
);
CREATE VIEW everfold_views.views WITH (security_invoker='true') AS
 SELECT g.name AS projection,
    g.version,
    g.number AS generation,
    g.routed,
    v.tenant,
    v.id,
    v.data,
        CASE
            WHEN (v.data !~ '(^|[^\\])(\\\\)*\\u0000'::text) THEN (v.data)::jsonb
            ELSE NULL::jsonb
        END AS doc,
    v.last_position,
    v.last_seq,
    v.schema
   FROM (everfold_views.view v
     JOIN everfold_views.generation g ON ((g.id = v.generation)));
CREATE TABLE everfold_views.watermark (
    generation bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    stream text NOT NULL COLLATE pg_catalog."C",
    applied_seq bigint NOT NULL,
    expected_next_seq bigint NOT NULL,
    hash bytea NOT NULL,
    step bigint DEFAULT 0 NOT NULL,
    change smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');
ALTER TABLE ONLY everfold_views.failure
    ADD CONSTRAINT failure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY everfold_views.fence
    ADD CONSTRAINT fence_pkey PRIMARY KEY (scope);
ALTER TABLE ONLY everfold_views.follow_floor
    ADD CONSTRAINT follow_floor_pkey PRIMARY KEY (generation);
ALTER TABLE ONLY everfold_views.follow
    ADD CONSTRAINT follow_pkey PRIMARY KEY (generation, tenant);
ALTER TABLE ONLY everfold_views.generation
    ADD CONSTRAINT generation_name_number_key UNIQUE (name, number);
ALTER TABLE ONLY everfold_views.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY everfold_views.generation_sum
    ADD CONSTRAINT generation_sum_pkey PRIMARY KEY (generation, shard);
ALTER TABLE ONLY everfold_views.retired_version
    ADD CONSTRAINT retired_version_pkey PRIMARY KEY (name, version);
ALTER TABLE ONLY everfold_views.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (one);
ALTER TABLE ONLY everfold_views.tenant_cursor
    ADD CONSTRAINT tenant_cursor_pkey PRIMARY KEY (generation, tenant);
ALTER TABLE ONLY everfold_views.view_change
    ADD CONSTRAINT view_change_pkey PRIMARY KEY (generation, tenant, number);
ALTER TABLE ONLY everfold_views.view_index
    ADD CONSTRAINT view_index_pkey PRIMARY KEY (generation, tenant, id, idx, step);
ALTER TABLE ONLY everfold_views.view
    ADD CONSTRAINT view_pkey PRIMARY KEY (generation, tenant, id, step);
ALTER TABLE ONLY everfold_views.watermark
    ADD CONSTRAINT watermark_pkey PRIMARY KEY (generation, tenant, stream, step);
CREATE INDEX failure_all ON everfold_views.failure USING btree (generation, id);
CREATE INDEX failure_open ON everfold_views.failure USING btree (generation, id) WHERE open;
CREATE UNIQUE INDEX failure_open_once ON everfold_views.failure USING btree (generation, tenant, stream, seq) WHERE open;
CREATE INDEX follow_until ON everfold_views.follow USING btree (generation, until);
CREATE UNIQUE INDEX generation_routed_once ON everfold_views.generation USING btree (name) WHERE routed;
CREATE INDEX tenant_cursor_due ON everfold_views.tenant_cursor USING btree (generation, due, tenant);
CREATE INDEX view_index_by_key ON everfold_views.view_index USING btree (generation, tenant, idx, key, id);
