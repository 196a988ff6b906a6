-- Appends that do not wait for each other. Every event is committed by its own transaction, with a position or
-- without one; the sequencer gives positions to those that have none (docs/explanation/positions.md).

-- An event without a position: `number` and `xid` are by what the sequencer finds it, `queued` whether it gets outbox
-- rows, and `new_type` its type if that did not exist (`type` is null then). In a stream, numbers follow seqs: they are
-- drawn while the row of the stream is locked. `xid` is the transaction that wrote the event; in a dump it means nothing.
CREATE SEQUENCE everfold.event_number;
DROP TRIGGER event_is_never_changed ON everfold.event;
ALTER TABLE everfold.event DROP CONSTRAINT event_pkey;
ALTER TABLE everfold.event
    ALTER COLUMN position DROP NOT NULL, ALTER COLUMN type DROP NOT NULL, ALTER COLUMN recorded DROP NOT NULL,
    ALTER COLUMN sum DROP NOT NULL, ALTER COLUMN hash DROP NOT NULL,
    ADD COLUMN number bigint, ADD COLUMN xid xid8, ADD COLUMN new_type text COLLATE "C", ADD COLUMN queued boolean,
    ADD CONSTRAINT event_is_whole CHECK (CASE WHEN position IS NULL
        THEN num_nonnulls(recorded, sum, hash) = 0 AND num_nonnulls(number, xid, queued) = 3
             AND num_nonnulls(type, new_type) = 1
        ELSE num_nonnulls(recorded, sum, hash, type) = 4 END),
    ADD CONSTRAINT event_of_stream PRIMARY KEY USING INDEX event_of_stream;
CREATE UNIQUE INDEX event_position ON everfold.event(position) WHERE position IS NOT NULL;
CREATE INDEX event_unplaced ON everfold.event(number) WHERE position IS NULL;
CREATE INDEX event_unplaced_of ON everfold.event(xid, number) WHERE position IS NULL;
CREATE INDEX event_new_type ON everfold.event(new_type) WHERE position IS NULL AND new_type IS NOT NULL;

-- The position and what depends on it are filled in once.
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON everfold.event
    FOR EACH ROW EXECUTE FUNCTION everfold.event_is_never_changed();
CREATE TRIGGER event_is_never_changed
    BEFORE UPDATE OF stream, seq, schema, time, id, data, meta, made, number, xid, new_type, queued ON everfold.event
    FOR EACH ROW EXECUTE FUNCTION everfold.event_is_never_changed();
CREATE TRIGGER event_is_placed_once BEFORE UPDATE ON everfold.event FOR EACH ROW
    WHEN (OLD.position IS NOT NULL OR NEW.position IS NULL
          OR (OLD.type IS NOT NULL AND NEW.type IS DISTINCT FROM OLD.type))
    EXECUTE FUNCTION everfold.event_is_never_changed();

INSERT INTO everfold.event(stream, seq, type, new_type, schema, time, id, data, meta, number, xid, queued)
SELECT a.stream, a.seq, t.id, CASE WHEN t.id IS NULL THEN a.type END, a.schema, a.time, a.id, a.data, a.meta, a.number,
       pg_current_xact_id(), a.queued
  FROM everfold.arrival a LEFT JOIN everfold.event_type t ON t.name = a.type;
SELECT setval('everfold.event_number', (SELECT coalesce(max(number), 0) / 16384 + 1 FROM everfold.arrival));
DROP TABLE everfold.arrival;
DROP FUNCTION everfold.check_arrival();
-- The seq of a stream is that of its last event; its row is what appends lock.
ALTER TABLE everfold.stream DROP COLUMN seq;

-- The log: events that have a position.
CREATE OR REPLACE VIEW everfold.log AS
    SELECT e.position, s.tenant, s.name AS stream, e.seq, e.id, coalesce(a.name, t.name) AS type,
           e.schema, e.time, e.recorded, e.data, e.meta, e.hash, t.name AS stored_type, e.sum,
           e.stream AS stream_id, e.made
      FROM everfold.event e
      JOIN everfold.stream s ON s.id = e.stream
      JOIN everfold.event_type t ON t.id = e.type
      LEFT JOIN everfold.event_type a ON a.id = t.alias_of
     WHERE e.position IS NOT NULL;

-- Acquires the sequencer lock for this transaction; waits for `ms` milliseconds. A holder that stalls, or whose host
-- vanishes, loses it: the server ends its session.
CREATE OR REPLACE FUNCTION everfold.lock_sequencer(ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.set_config('lock_timeout', ms::text, true);
    LOCK TABLE everfold.sequencer_lock IN EXCLUSIVE MODE;
    PERFORM pg_catalog.set_config('lock_timeout', '500', true),
            pg_catalog.set_config('idle_in_transaction_session_timeout', '700', true);
END $$;

-- Acquires the lock if it is free and no other transaction waits for it: false if not.
CREATE FUNCTION everfold.lock_sequencer_now() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE everfold.sequencer_lock IN EXCLUSIVE MODE NOWAIT;
    PERFORM pg_catalog.set_config('lock_timeout', '500', true),
            pg_catalog.set_config('idle_in_transaction_session_timeout', '700', true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Whether this transaction gives positions to its events: it has acquired the sequencer lock, in at most `ms`
-- milliseconds, and no event that is committed lacks a position. `since` and `high` are what the process has seen
-- (unplaced_find). `last`, if not null: and the log ends at this position with this hash, in a journal with so many
-- partitions. Without a result of true the lock is released: an error in the block undoes what it did.
CREATE FUNCTION everfold.try_sequencer(ms bigint, since text, high bigint, last bigint, last_hash bytea,
                                       partition_count bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF last IS NOT NULL AND EXISTS (SELECT FROM everfold.state s WHERE s.damaged <> 0) THEN
        PERFORM everfold.refuse('seq_conflict', 'the journal is damaged: the append is repeated with a lookup');
    END IF;
    BEGIN
        IF ms > 0 THEN
            PERFORM everfold.lock_sequencer(ms);
        ELSE
            LOCK TABLE everfold.sequencer_lock IN EXCLUSIVE MODE NOWAIT; -- it is not acquired while another waits for it
        END IF;
        IF EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number > high)
           OR (high > 0 AND (
               EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number <= high
                          AND e.xid >= pg_snapshot_xmax(since::pg_snapshot))
               OR EXISTS (SELECT FROM everfold.event e WHERE e.position IS NULL AND e.number <= high
                             AND e.xid = ANY (ARRAY(
                                 SELECT x FROM pg_snapshot_xip(since::pg_snapshot) AS x
                                  WHERE pg_visible_in_snapshot(x, pg_current_snapshot()))))))
           OR (last IS NOT NULL AND NOT EXISTS (
               SELECT FROM everfold.event e, everfold.state s
                WHERE e.position = last AND e.hash = last_hash AND s.partitions = partition_count
                  AND NOT EXISTS (SELECT FROM everfold.event n WHERE n.position > last))) THEN
            RAISE EXCEPTION USING ERRCODE = 'EF006';
        END IF;
        PERFORM pg_catalog.set_config('lock_timeout', '500', true),
                pg_catalog.set_config('idle_in_transaction_session_timeout', '700', true),
                pg_catalog.set_config('everfold.placed', 'on', true);
        RETURN true;
    EXCEPTION WHEN lock_not_available OR SQLSTATE 'EF006' THEN
        PERFORM pg_catalog.set_config('everfold.placed', 'off', true);
        RETURN false;
    END;
END $$;

-- Nothing is appended by SQL to a journal that is known to be damaged.
CREATE FUNCTION everfold.check_damage() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state record;
BEGIN
    SELECT s.damage, s.damaged INTO state FROM everfold.state s;
    IF state.damaged <> 0 THEN
        PERFORM everfold.refuse('damaged', format('the journal is damaged, and nothing is appended to it: %s (found at '
            || '%s); restore a backup, or repair the journal, verify it and accept it', state.damage,
            to_char(everfold.time_of(state.damaged) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
    END IF;
END $$;

-- The limit of the types that the appends of a tenant create. The sequencer creates them, when the event gets its
-- position, so a type that waits for that counts as created. Transactions that are open at the same time do not see each
-- other's types, so together they may create a few more.
CREATE FUNCTION everfold.check_new_type(tenant text, type text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    created bigint;
BEGIN
    IF EXISTS (SELECT FROM everfold.event e JOIN everfold.stream s ON s.id = e.stream
                WHERE e.position IS NULL AND e.new_type = $2 AND s.tenant = $1) THEN
        RETURN;
    END IF;
    SELECT (SELECT count(*) FROM everfold.event_type t WHERE t.creator = $1)
         + (SELECT count(DISTINCT e.new_type) FROM everfold.event e JOIN everfold.stream s ON s.id = e.stream
             WHERE e.position IS NULL AND e.new_type IS NOT NULL AND s.tenant = $1
               AND NOT EXISTS (SELECT FROM everfold.event_type t WHERE t.name = e.new_type))
      INTO created;
    IF created >= (SELECT s.types_max FROM everfold.state s) THEN
        PERFORM everfold.refuse('unknown_type', format('event type "%s" is not registered, and appends of tenant "%s" '
            || 'have created %s types, which is the limit (types.max): register the type, or raise the limit',
            $2, $1, created));
    END IF;
END $$;
REVOKE ALL ON FUNCTION everfold.check_damage(), everfold.check_new_type(text, text), everfold.lock_sequencer_now(),
    everfold.try_sequencer(bigint, text, bigint, bigint, bytea, bigint) FROM PUBLIC;

-- Appends events to a stream in the transaction of the caller: with its own rows, all or nothing.
-- expected_seq is the seq of the stream's last event as the caller has read it, 0 for a stream that must be new, null
-- for any seq. An event has its seq at once and its position after the commit: `position` is null, unless the id was
-- there before. `token` is for a read that has to show the event and all before it in its stream (ef_token).
CREATE OR REPLACE FUNCTION everfold.append(tenant text, stream text, expected_seq bigint, events json)
RETURNS TABLE (id text, seq bigint, "position" bigint, duplicate boolean, token text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    list json;
    head record;
    known boolean;
    old record;
    one record;
    e json;
    bytes bigint := 0;
    type_id integer;
    number bigint;
BEGIN
    PERFORM everfold.check_name('tenant', $1, 0, false);
    PERFORM everfold.check_wall($1);
    PERFORM everfold.check_name('stream', $2, 1, false);
    IF $3 < 0 THEN
        PERFORM everfold.refuse('bad_input', format('expected_seq is %s: it is the seq of the last event, 0 for a '
            || 'stream that must be new, or null for any seq', $3));
    ELSIF $4 IS NULL THEN
        PERFORM everfold.refuse('bad_input', 'events is null: it is a JSON array of events');
    END IF;
    -- What json lets through and jsonb does not: \u0000 and half a surrogate pair.
    BEGIN
        PERFORM $4::jsonb;
    EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
        PERFORM everfold.refuse('bad_json', 'a string has a NUL or a lone surrogate in it');
    END;
    list := CASE WHEN json_typeof($4) = 'array' THEN $4 ELSE json_build_array($4) END;
    IF json_array_length(list) > 10000 THEN
        PERFORM everfold.refuse('too_large', format('an append of %s events, at most 10000 are allowed',
                                                    json_array_length(list)));
    ELSIF json_array_length(list) = 0 THEN
        RETURN; -- before the stream's row is made: without an event there is no stream
    END IF;
    INSERT INTO everfold.stream(tenant, name)
    SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM everfold.stream s WHERE s.tenant = $1 AND s.name = $2)
        ON CONFLICT DO NOTHING;
    SELECT s.id, 0::bigint AS seq INTO head FROM everfold.stream s WHERE s.tenant = $1 AND s.name = $2 FOR UPDATE;
    head.seq := (SELECT coalesce(max(n.seq), 0) FROM everfold.event n WHERE n.stream = head.id);
    PERFORM everfold.check_damage();
    FOR e IN SELECT a.v FROM json_array_elements(list) AS a(v) LOOP
        SELECT c.* INTO one FROM everfold.check_event(e) c;
        bytes := bytes + octet_length(one.data) + octet_length(one.meta);
        IF bytes > 67108864 THEN
            PERFORM everfold.refuse('too_large', 'the append has more than 67108864 bytes');
        END IF;
        known := false;
        IF one.id IS NOT NULL THEN
            SELECT n.stream, n.seq, n.position, coalesce(t.name, n.new_type) AS type, n.schema, n.time, n.data,
                   n.meta INTO old
              FROM everfold.event n LEFT JOIN everfold.event_type t ON t.id = n.type
              JOIN everfold.stream s ON s.id = n.stream
             WHERE n.made AND n.id = one.id AND s.tenant = $1;
            known := FOUND;
        END IF;
        IF one.id IS NOT NULL AND NOT known THEN
            -- Waits for a transaction that writes the same id at the same time.
            INSERT INTO everfold.event_id(tenant, id, stream, seq) VALUES ($1, one.id, head.id, head.seq + 1)
                ON CONFLICT DO NOTHING;
            known := NOT FOUND;
            IF known THEN
                SELECT i.stream, i.seq, v.* INTO old
                  FROM everfold.event_id i
                  LEFT JOIN LATERAL (
                      SELECT n.position, coalesce(t.name, n.new_type) AS type, n.schema, n.time, n.data, n.meta
                        FROM everfold.event n LEFT JOIN everfold.event_type t ON t.id = n.type
                       WHERE n.stream = i.stream AND n.seq = i.seq) v ON true
                 WHERE i.tenant = $1 AND i.id = one.id;
            END IF;
        END IF;
        IF known THEN
            IF old.stream <> head.id OR old.type <> one.type OR old.schema <> one.schema
               OR old.data <> one.data OR old.meta <> one.meta
               OR (one.time_us IS NOT NULL AND old.time <> one.time_us) THEN
                PERFORM everfold.refuse('id_conflict',
                    format('id "%s" belongs to an event with other content', one.id));
            END IF;
            RETURN QUERY SELECT one.id, old.seq, old.position, true,
                                everfold.token_of($1, $2, old.seq, old.position);
            CONTINUE;
        END IF;
        IF number IS NULL AND $3 <> head.seq THEN
            PERFORM everfold.refuse('seq_conflict', format('stream "%s" is at seq %s, not at %s: read '
                || 'the stream again and decide again', $2, head.seq, $3));
        END IF;
        head.seq := head.seq + 1;
        IF one.id IS NULL THEN
            one.id := everfold.make_id();
            INSERT INTO everfold.event_id(tenant, id, stream, seq) VALUES ($1, one.id, head.id, head.seq);
        END IF;
        type_id := (SELECT t.id FROM everfold.event_type t WHERE t.name = one.type);
        IF type_id IS NULL THEN
            PERFORM everfold.check_new_type($1, one.type);
        END IF;
        -- Drawn while the stream is locked: in a stream, numbers follow seqs.
        number := coalesce(number, nextval('everfold.event_number') * 16384) + 1;
        INSERT INTO everfold.event(stream, seq, type, new_type, schema, time, id, data, meta, number, xid, queued)
        VALUES (head.id, head.seq, type_id, CASE WHEN type_id IS NULL THEN one.type END, one.schema,
                coalesce(one.time_us, everfold.clock_us(NULL)), one.id, one.data, one.meta,
                number, pg_current_xact_id(), true)
            ON CONFLICT (stream, seq) DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
                MESSAGE = format('stream "%s" was appended to at the same time', $2);
        END IF;
        RETURN QUERY SELECT one.id, head.seq, NULL::bigint, false,
                            everfold.token_of($1, $2, head.seq, NULL);
    END LOOP;
END $$;

-- The events of a stream from from_seq on, in order, at most max_count of them (null: all). Includes committed events
-- that have no position yet, and those of the caller's own transaction: their position and recorded_at are null. A
-- stream without events has no rows. Runs with the rights of the owner, so it checks the wall between tenants itself.
CREATE OR REPLACE FUNCTION everfold.read_stream(tenant text, stream text, from_seq bigint DEFAULT 1,
                                     max_count bigint DEFAULT NULL)
RETURNS TABLE (seq bigint, "position" bigint, id text, type text, schema integer, "time" timestamptz,
               recorded_at timestamptz, data jsonb, meta jsonb, data_text text, meta_text text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    of_stream bigint;
BEGIN
    PERFORM everfold.check_name('tenant', $1, 0, false);
    PERFORM everfold.check_wall($1);
    PERFORM everfold.check_name('stream', $2, 1, false);
    IF $3 IS NULL OR $3 < 1 THEN
        PERFORM everfold.refuse('bad_input', format('from_seq is %s: the first event has seq 1',
                                                    coalesce($3::text, 'null')));
    ELSIF $4 < 0 THEN
        PERFORM everfold.refuse('bad_input', format('max_count is %s: it is 0 or more, or null for all', $4));
    END IF;
    SELECT s.id INTO of_stream FROM everfold.stream s WHERE s.tenant = $1 AND s.name = $2;
    RETURN QUERY
        SELECT e.seq, e.position, e.id, coalesce(a.name, e.type), e.schema, everfold.time_of(e.time),
               everfold.time_of(e.recorded), e.data::jsonb, e.meta::jsonb, e.data, e.meta
          FROM (SELECT n.seq, n.position, n.id, coalesce(t.name, n.new_type) AS type, t.alias_of, n.schema, n.time,
                       n.recorded, n.data, n.meta
                  FROM everfold.event n LEFT JOIN everfold.event_type t ON t.id = coalesce(n.type,
                           (SELECT w.id FROM everfold.event_type w WHERE w.name = n.new_type))
                 WHERE n.stream = of_stream AND n.seq >= $3) e
          LEFT JOIN everfold.event_type a ON a.id = e.alias_of
         ORDER BY e.seq LIMIT $4;
END $$;

-- A worker, or an application that appends by the library: everything but changing events and the schema.
CREATE OR REPLACE FUNCTION everfold.grant_worker(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id, everfold.skip TO %I', role);
    EXECUTE format('GRANT UPDATE (position, recorded, sum, hash, type) ON everfold.event TO %I', role);
    EXECUTE format('GRANT USAGE, SELECT ON everfold.event_number TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.lane, everfold.outbox, everfold.lane_offset, '
        || 'everfold.retry_row, everfold.outbox_published, everfold.audit, '
        || 'everfold.lease, everfold.worker, everfold.run, everfold.throughput TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state, everfold.sequencer_lock, everfold.retry_row_lock, '
        || 'everfold.skip_lock, everfold.run_lock TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE ON everfold.retry_row_partition TO %I', role);
END $$;

-- Those that were granted before. Of all roles only workers add events. everfold.append runs with the rights of its owner,
-- and so do the functions that it calls.
DO $$
DECLARE
    worker record;
    owner name := (SELECT p.proowner::regrole FROM pg_proc p
                    WHERE p.oid = 'everfold.append(text, text, bigint, json)'::regprocedure);
BEGIN
    EXECUTE format('ALTER FUNCTION everfold.check_damage() OWNER TO %s', owner);
    EXECUTE format('ALTER FUNCTION everfold.check_new_type(text, text) OWNER TO %s', owner);
    EXECUTE format('GRANT USAGE ON everfold.event_number TO %s', owner);
    FOR worker IN SELECT DISTINCT a.grantee::regrole AS role
                    FROM pg_class c, aclexplode(c.relacl) a
                   WHERE c.oid = 'everfold.event'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> 0
                     AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT UPDATE (position, recorded, sum, hash, type) ON everfold.event TO %s', worker.role);
        EXECUTE format('GRANT USAGE, SELECT ON everfold.event_number TO %s', worker.role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.try_sequencer(bigint, text, bigint, bigint, bytea, bigint), '
            || 'everfold.lock_sequencer_now() TO %s', worker.role);
    END LOOP;
END $$;
