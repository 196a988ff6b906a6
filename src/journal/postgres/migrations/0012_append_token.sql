-- everfold.append returns a token, with which a read by the library, the command line or HTTP shows the append.

-- A name in a token: base64url without padding. encode() breaks lines after 76 characters.
CREATE FUNCTION everfold.token_name(name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT translate(encode(convert_to(name, 'UTF8'), 'base64'), E'+/=\n', '-_')
$$;
-- The token of a stream up to a seq, as include/everfold/journal.h describes it. position 0: not known yet.
CREATE FUNCTION everfold.token_of(tenant text, stream text, seq bigint, "position" bigint)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 's.' || everfold.token_name(tenant) || '.' || everfold.token_name(stream) || '.' || seq::text || '.'
           || coalesce("position", 0::bigint)::text || '.s'
$$;
REVOKE ALL ON FUNCTION everfold.token_name(text), everfold.token_of(text, text, bigint, bigint) FROM PUBLIC;

-- A function that returns other columns is another function. The old one stays until its owner and its grants are
-- copied: the new one runs with the rights of its owner too.
ALTER FUNCTION everfold.append(text, text, bigint, json) RENAME TO append_before;

-- Appends events to a stream in the transaction of the caller: with its own rows, all or nothing.
-- expected_seq is the seq of the stream's last event as the caller has read it, 0 for a stream that must be new, null
-- for any seq. An event has its seq at once and its position after the commit: `position` is null, unless the id was
-- there before. `token` is for a read that has to show the event and all before it in its stream (ef_token).
CREATE FUNCTION everfold.append(tenant text, stream text, expected_seq bigint, events json)
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
    ELSIF json_array_length(list) = 0 THEN
        RETURN; -- before the stream's row is made: without an event there is no stream
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
            RETURN QUERY SELECT one.id, old.seq, old.position, true,
                                everfold.token_of($1, $2, old.seq, old.position);
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
        RETURN QUERY SELECT one.id, head.seq, NULL::bigint, false,
                            everfold.token_of($1, $2, head.seq, NULL);
    END LOOP;
    IF waits THEN
        UPDATE everfold.stream s SET seq = head.seq WHERE s.id = head.id;
        PERFORM pg_notify('everfold', '');
    END IF;
END $$;

REVOKE ALL ON FUNCTION everfold.append(text, text, bigint, json) FROM PUBLIC;
DO $$
DECLARE
    before pg_catalog.pg_proc;
    granted record;
BEGIN
    SELECT p.* INTO before FROM pg_catalog.pg_proc p
     WHERE p.oid = 'everfold.append_before(text, text, bigint, json)'::regprocedure;
    EXECUTE format('ALTER FUNCTION everfold.append(text, text, bigint, json) OWNER TO %s', before.proowner::regrole);
    EXECUTE format('ALTER FUNCTION everfold.token_of(text, text, bigint, bigint) OWNER TO %s',
                   before.proowner::regrole);
    EXECUTE format('ALTER FUNCTION everfold.token_name(text) OWNER TO %s', before.proowner::regrole);
    FOR granted IN SELECT a.grantee, a.is_grantable FROM aclexplode(before.proacl) a
                    WHERE a.grantee <> before.proowner LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.append(text, text, bigint, json) TO %s%s',
            CASE WHEN granted.grantee = 0 THEN 'PUBLIC' ELSE granted.grantee::regrole::text END,
            CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;
DROP FUNCTION everfold.append_before(text, text, bigint, json);
