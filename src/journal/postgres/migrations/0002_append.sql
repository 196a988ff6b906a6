-- Appending from SQL, in the caller's own transaction, and who may do what.

-- A refusal: its code in SQLSTATE (EF001 …) and, as the library and the HTTP API have it, in DETAIL.
CREATE FUNCTION everfold.refuse(code text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = message, DETAIL = code, ERRCODE = CASE code
        WHEN 'seq_conflict' THEN 'EF001' WHEN 'id_conflict' THEN 'EF002'
        WHEN 'bad_input' THEN 'EF003' WHEN 'bad_json' THEN 'EF004' ELSE 'EF005' END;
END $$;

-- A tenant, stream, type or id. The encoding is UTF8 and no text holds a NUL.
CREATE FUNCTION everfold.check_name(what text, name text, bytes_min integer, no_space boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF name IS NULL OR octet_length(name) < bytes_min THEN
        PERFORM everfold.refuse('bad_input', format('the %s is missing', what));
    ELSIF octet_length(name) > 255 THEN
        PERFORM everfold.refuse('too_large', format('the %s has %s bytes, at most 255 are allowed',
                                                    what, octet_length(name)));
    ELSIF no_space AND name ~ ('[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029'
                               || '\u202f\u205f\u3000]') THEN
        PERFORM everfold.refuse('bad_input', format('the %s has a space or control character', what));
    END IF;
END $$;

-- The limits that PostgreSQL does not have: depth, keys, keys given twice, numbers. The text is JSON.
CREATE FUNCTION everfold.check_json_value(what text, value json, depth integer)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text := json_typeof(value);
    keys bigint;
    kept bigint;
    part json;
BEGIN
    IF kind = 'number' THEN
        IF length(value::text) > 128
           OR coalesce(substring(value::text FROM '[eE][+-]?0*(\d+)$')::numeric, 0) > 999 THEN
            PERFORM everfold.refuse('too_large', format('%s: a number is out of range', what));
        END IF;
        RETURN;
    END IF;
    IF kind NOT IN ('array', 'object') THEN
        RETURN;
    END IF;
    IF depth = 128 THEN
        PERFORM everfold.refuse('too_large',
            format('%s: arrays and objects are nested deeper than 128', what));
    END IF;
    IF kind = 'object' THEN
        SELECT count(*), count(DISTINCT k COLLATE "C") INTO keys, kept
          FROM json_object_keys(value) AS o(k);
        IF keys > 10000 THEN
            PERFORM everfold.refuse('too_large', format('%s: an object has more than 10000 keys', what));
        ELSIF keys > kept THEN
            PERFORM everfold.refuse('bad_json', format('%s: a key is given twice in an object', what));
        END IF;
        FOR part IN SELECT o.v FROM json_each(value) AS o(k, v)
                     WHERE json_typeof(o.v) IN ('number', 'array', 'object') LOOP
            PERFORM everfold.check_json_value(what, part, depth + 1);
        END LOOP;
    ELSE
        FOR part IN SELECT a.v FROM json_array_elements(value) AS a(v)
                     WHERE json_typeof(a.v) IN ('number', 'array', 'object') LOOP
            PERFORM everfold.check_json_value(what, part, depth + 1);
        END LOOP;
    END IF;
END $$;

CREATE FUNCTION everfold.check_json(what text, value json, most integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(value::text) > most THEN
        PERFORM everfold.refuse('too_large', format('%s: the JSON text has %s bytes, at most %s are '
            || 'allowed', what, octet_length(value::text), most));
    END IF;
    PERFORM everfold.check_json_value(what, value, 0);
END $$;

-- RFC 3339, cut at microseconds.
CREATE FUNCTION everfold.check_time(value text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    us bigint;
BEGIN
    IF value ~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$' THEN
        BEGIN
            us := (extract(epoch FROM regexp_replace(value, '(\.\d{6})\d+', '\1')::timestamptz)
                   * 1000000)::bigint;
        EXCEPTION WHEN data_exception THEN
            us := NULL;
        END;
    END IF;
    IF us IS NULL OR us < 0 OR us > 253402300799999999 THEN
        PERFORM everfold.refuse('bad_input', 'time is not RFC 3339, as 2026-11-16T09:30:00Z');
    END IF;
    RETURN us;
END $$;

-- An id that rises with time (UUIDv7), for an event that has none.
CREATE FUNCTION everfold.make_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
               substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
               FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text
$$;

-- One event of everfold.append, checked, with its defaults.
CREATE FUNCTION everfold.check_event(e json, OUT type text, OUT id text, OUT schema integer,
                                     OUT time_us bigint, OUT data text, OUT meta text)
LANGUAGE plpgsql AS $$
DECLARE
    strange text;
BEGIN
    IF json_typeof(e) <> 'object' THEN
        PERFORM everfold.refuse('bad_input', 'an event is not a JSON object');
    END IF;
    SELECT k INTO strange FROM json_object_keys(e) AS o(k)
     GROUP BY k HAVING count(*) > 1 OR k NOT IN ('type', 'id', 'schema', 'time', 'data', 'meta')
     LIMIT 1;
    IF strange IS NOT NULL THEN
        PERFORM everfold.refuse('bad_input', format('"%s" is no key of an event, or is there twice; '
            || 'the keys are type, id, schema, time, data, meta', left(strange, 100)));
    END IF;
    IF json_typeof(e -> 'type') <> 'string' OR json_typeof(e -> 'id') <> 'string'
       OR json_typeof(e -> 'time') <> 'string' OR json_typeof(e -> 'schema') <> 'number' THEN
        PERFORM everfold.refuse('bad_input', 'type, id and time are strings, schema is a number');
    END IF;
    type := e ->> 'type';
    id := e ->> 'id';
    PERFORM everfold.check_name('type', type, 1, true);
    IF id IS NOT NULL THEN
        PERFORM everfold.check_name('id', id, 1, false);
    END IF;
    IF coalesce((e -> 'schema')::text, '1') !~ '^[1-9]\d{0,9}$'
       OR coalesce((e -> 'schema')::text, '1')::bigint > 2147483647 THEN
        PERFORM everfold.refuse('bad_input', 'schema is not a whole number from 1 to 2147483647');
    END IF;
    schema := coalesce((e -> 'schema')::text, '1')::integer;
    time_us := CASE WHEN e -> 'time' IS NOT NULL THEN everfold.check_time(e ->> 'time') END;
    IF e -> 'data' IS NOT NULL THEN
        PERFORM everfold.check_json('data', e -> 'data', 1048576);
    END IF;
    IF e -> 'meta' IS NOT NULL THEN
        PERFORM everfold.check_json('meta', e -> 'meta', 65536);
        IF json_typeof(e -> 'meta') <> 'object' THEN
            PERFORM everfold.refuse('bad_input', 'meta is not a JSON object');
        END IF;
    END IF;
    data := coalesce((e -> 'data')::text, '{}');
    meta := coalesce((e -> 'meta')::text, '{}');
END $$;

-- Append events to a stream, in the transaction of the caller: with its own rows, all or nothing.
-- expected_seq is the seq that the caller decided on, -1 for a stream that is not there yet, 0 for
-- wherever it is. An event has its place in the stream at once and its position once it is committed:
-- `position` is null, unless the id was there before.
CREATE FUNCTION everfold.append(tenant text, stream text, expected_seq bigint, events json)
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
    PERFORM everfold.check_name('stream', $2, 1, false);
    IF $3 IS NULL OR $3 < -1 OR $4 IS NULL THEN
        PERFORM everfold.refuse('bad_input', 'expected_seq is a seq, 0 for any, or -1 for no stream; '
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
        IF NOT waits AND $3 <> 0 AND head.seq <> greatest($3, 0) THEN
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

-- Nobody may do anything unless it was granted.
REVOKE ALL ON SCHEMA everfold FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA everfold FROM PUBLIC;

-- An application: append from SQL and read the log, nothing else.
CREATE FUNCTION everfold.grant_app(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.append(text, text, bigint, json) TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.log TO %I', role);
END $$;

-- A worker, or an application that appends by the library: all but changing events and the schema.
CREATE FUNCTION everfold.grant_worker(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT INSERT ON everfold.event, everfold.event_id TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON everfold.stream, everfold.event_type, '
        || 'everfold.arrival, everfold.lane, everfold.outbox, everfold.outbox_mark, '
        || 'everfold.outbox_exception, everfold.outbox_act, everfold.lease, everfold.worker, '
        || 'everfold.run TO %I', role);
    EXECUTE format('GRANT UPDATE ON everfold.state TO %I', role);
END $$;
REVOKE ALL ON FUNCTION everfold.grant_app(name), everfold.grant_worker(name) FROM PUBLIC;
