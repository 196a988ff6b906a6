-- The wall between tenants (src/postgres/ground.sql) on the way in, and what an application may read behind it.

-- May who called append, which runs with the rights of its owner, write events of the tenant? As row-level security
-- would say of its own INSERT: no wall, a role that is above it, or a tenant that is its own.
CREATE FUNCTION everfold.check_wall(tenant text) RETURNS void LANGUAGE plpgsql STABLE AS $$
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
        MESSAGE = format('role "%s" may not write for tenant "%s"', who, $1);
END $$;

-- Append events to a stream, in the transaction of the caller: with its own rows, all or nothing.
-- expected_seq is the seq that the caller decided on, -1 for a stream that is not there yet, 0 or null
-- for wherever it is. An event has its place in the stream at once and its position once it is committed:
-- `position` is null, unless the id was there before.
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
    IF $3 < -1 OR $4 IS NULL THEN
        PERFORM everfold.refuse('bad_input', 'expected_seq is a seq, 0 or null for any, or -1 for no stream; '
            || 'events is a JSON array of events');
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
            -- Whoever writes the same id at the same time is waited for.
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
        IF NOT waits AND coalesce($3, 0) <> 0 AND head.seq <> greatest($3, 0) THEN
            PERFORM everfold.refuse('seq_conflict', format('stream "%s" is at seq %s, not at %s: read '
                || 'it again and decide anew', $2, head.seq, greatest($3, 0)));
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

-- An application: append from SQL and read the log, nothing else. The tables are what the log is made of: behind the
-- wall it is read with the rights of who reads it.
CREATE OR REPLACE FUNCTION everfold.grant_app(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.append(text, text, bigint, json) TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.log, everfold.event, everfold.stream, everfold.event_type '
        || 'TO %I', role);
END $$;
REVOKE ALL ON FUNCTION everfold.check_wall(text) FROM PUBLIC;
