-- Reading from SQL: a stream with the caller's own events, before they have a position, and the log with SQL types.

-- Reads of a stream, and the look for an id that was appended twice, find an event by its seq.
CREATE UNIQUE INDEX arrival_of_stream ON everfold.arrival(stream, seq);

-- Microseconds since 1970 as a timestamp. In two parts, because an interval is multiplied as a float8.
CREATE FUNCTION everfold.time_of(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00' + us / 1000000 * interval '1 second'
           + us % 1000000 * interval '1 microsecond'
$$;

-- May the caller of a function that runs with the rights of its owner use the tenant? The answer is the one that
-- row-level security would give: no wall, a role above it, or a tenant that the role is bound to or has set.
CREATE OR REPLACE FUNCTION everfold.check_wall(tenant text) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    who name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
    IF NOT (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'everfold.stream'::regclass)
       OR $1 = ANY (everfold.tenants_of(who))
       OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = who AND (r.rolsuper OR r.rolbypassrls))
       OR EXISTS (SELECT FROM pg_class c WHERE c.oid = 'everfold.stream'::regclass
                     AND pg_has_role(who, c.relowner, 'USAGE'))
       OR EXISTS (SELECT FROM pg_policy p, unnest(p.polroles) AS o(role)
                   WHERE p.polrelid = 'everfold.stream'::regclass AND p.polname = 'everyone'
                     AND pg_has_role(who, o.role, 'USAGE')) THEN
        RETURN;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', DETAIL = 'forbidden',
        MESSAGE = format('role "%s" has no access to tenant "%s"', who, $1);
END $$;

-- Appends events to a stream in the transaction of the caller: with its own rows, all or nothing.
-- expected_seq is the seq of the stream's last event as the caller has read it, 0 for a stream that must be new, null
-- for any seq. An event has its seq at once and its position after the commit: `position` is null, unless the id was
-- there before.
CREATE OR REPLACE FUNCTION everfold.append(tenant text, stream text, expected_seq bigint, events json)
RETURNS TABLE (id text, seq bigint, "position" bigint, duplicate boolean)
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
    waits boolean := false;
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
    END IF;
    INSERT INTO everfold.stream(tenant, name)
    SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM everfold.stream s WHERE s.tenant = $1 AND s.name = $2)
        ON CONFLICT DO NOTHING;
    SELECT s.id, s.seq INTO head FROM everfold.stream s WHERE s.tenant = $1 AND s.name = $2 FOR UPDATE;
    FOR e IN SELECT a.v FROM json_array_elements(list) AS a(v) LOOP
        SELECT c.* INTO one FROM everfold.check_event(e) c;
        bytes := bytes + octet_length(one.data) + octet_length(one.meta);
        IF bytes > 67108864 THEN
            PERFORM everfold.refuse('too_large', 'the append has more than 67108864 bytes');
        END IF;
        known := false;
        IF one.id IS NOT NULL THEN
            SELECT n.stream, n.seq, n.position, t.name AS type, n.schema, n.time, n.data, n.meta INTO old
              FROM everfold.event n JOIN everfold.event_type t ON t.id = n.type
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
                      SELECT n.position, t.name AS type, n.schema, n.time, n.data, n.meta
                        FROM everfold.event n JOIN everfold.event_type t ON t.id = n.type
                       WHERE n.stream = i.stream AND n.seq = i.seq
                      UNION ALL
                      SELECT NULL, n.type, n.schema, n.time, n.data, n.meta
                        FROM everfold.arrival n WHERE n.stream = i.stream AND n.seq = i.seq) v ON true
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
            RETURN QUERY SELECT one.id, old.seq, old.position, true;
            CONTINUE;
        END IF;
        IF NOT waits AND $3 <> head.seq THEN
            PERFORM everfold.refuse('seq_conflict', format('stream "%s" is at seq %s, not at %s: read '
                || 'the stream again and decide again', $2, head.seq, $3));
        END IF;
        head.seq := head.seq + 1;
        IF one.id IS NULL THEN
            one.id := everfold.make_id();
            INSERT INTO everfold.event_id(tenant, id, stream, seq) VALUES ($1, one.id, head.id, head.seq);
        END IF;
        INSERT INTO everfold.arrival(stream, seq, type, schema, time, id, data, meta, queued)
        VALUES (head.id, head.seq, one.type, one.schema,
                coalesce(one.time_us, everfold.clock_us(NULL)), one.id, one.data, one.meta, true);
        waits := true;
        RETURN QUERY SELECT one.id, head.seq, NULL::bigint, false;
    END LOOP;
    IF waits THEN
        UPDATE everfold.stream s SET seq = head.seq WHERE s.id = head.id;
        PERFORM pg_notify('everfold', '');
    END IF;
END $$;

-- The events of a stream from from_seq on, in order, at most max_count of them (null: all). Includes committed events
-- that have no position yet, and those of the caller's own transaction: their position and recorded_at are null. A
-- stream without events has no rows. Runs with the rights of the owner, so it checks the wall between tenants itself.
CREATE FUNCTION everfold.read_stream(tenant text, stream text, from_seq bigint DEFAULT 1,
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
          FROM (SELECT n.seq, n.position, n.id, t.name AS type, t.alias_of, n.schema, n.time, n.recorded, n.data, n.meta
                  FROM everfold.event n JOIN everfold.event_type t ON t.id = n.type
                 WHERE n.stream = of_stream AND n.seq >= $3
                UNION ALL
                SELECT n.seq, NULL, n.id, n.type, t.alias_of, n.schema, n.time, NULL, n.data, n.meta
                  FROM everfold.arrival n LEFT JOIN everfold.event_type t ON t.name = n.type
                 WHERE n.stream = of_stream AND n.seq >= $3) e
          LEFT JOIN everfold.event_type a ON a.id = e.alias_of
         ORDER BY e.seq LIMIT $4;
END $$;

-- The log with SQL types: the events that have a position, by position. data and meta as jsonb, which may order keys
-- and print numbers differently, and as the text that was appended.
CREATE VIEW everfold.event_log AS
    SELECT l.position, l.tenant, l.stream, l.seq, l.id, l.type, l.schema, everfold.time_of(l.time) AS time,
           everfold.time_of(l.recorded) AS recorded_at, l.data::jsonb AS data, l.meta::jsonb AS meta,
           l.data AS data_text, l.meta AS meta_text
      FROM everfold.log l;

-- An application: appends from SQL, reads streams and the log, nothing else. The tables are those that the log is made
-- of: behind the wall it is read with the rights of the reader.
CREATE OR REPLACE FUNCTION everfold.grant_app(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.append(text, text, bigint, json), '
        || 'everfold.read_stream(text, text, bigint, bigint), everfold.time_of(bigint) TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.log, everfold.event_log, everfold.event, everfold.stream, '
        || 'everfold.event_type TO %I', role);
END $$;
REVOKE ALL ON FUNCTION everfold.read_stream(text, text, bigint, bigint), everfold.time_of(bigint) FROM PUBLIC;
