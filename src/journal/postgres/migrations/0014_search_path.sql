-- Functions that are called with the search path of the caller. Those that an owner calls get a path of their own:
-- otherwise a role that may create functions in a schema of the caller's path runs them with the rights of the owner.
ALTER FUNCTION everfold.grant_worker(name) SET search_path = pg_catalog, pg_temp;

-- Types belong to all tenants: a column `tenant` would put the wall between tenants around them, and a bound role would
-- find no type of its own events. Which tenant created one is no business of another.
ALTER TABLE everfold.event_type RENAME COLUMN tenant TO creator;

-- An application: appends from SQL, reads streams and the log, nothing else. The tables are those that the log is made
-- of: behind the wall it is read with the rights of the reader.
CREATE OR REPLACE FUNCTION everfold.grant_app(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION everfold.append(text, text, bigint, json), '
        || 'everfold.read_stream(text, text, bigint, bigint), everfold.time_of(bigint) TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.log, everfold.event_log, everfold.event, everfold.stream TO %I', role);
    EXECUTE format('GRANT SELECT (id, name, intent, publish, alias_of) ON everfold.event_type TO %I', role);
END $$;
-- Those that were granted before: applications may only read the table, workers write it too.
DO $$
DECLARE
    app record;
BEGIN
    FOR app IN SELECT a.grantee::regrole AS role
                 FROM pg_class c, aclexplode(c.relacl) a
                WHERE c.oid = 'everfold.event_type'::regclass AND a.grantee <> 0 AND a.grantee <> c.relowner
                GROUP BY a.grantee HAVING bool_and(a.privilege_type = 'SELECT') LOOP
        EXECUTE format('REVOKE SELECT ON everfold.event_type FROM %s', app.role);
        EXECUTE format('GRANT SELECT (id, name, intent, publish, alias_of) ON everfold.event_type TO %s', app.role);
    END LOOP;
END $$;

-- Microseconds since 1970 as a timestamp. In two parts, because an interval is multiplied as a float8. The operands have
-- exactly the types of the operators of pg_catalog, which are searched first: a function with a path of its own could
-- not be inlined.
CREATE OR REPLACE FUNCTION everfold.time_of(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00'
           + (us / 1000000::bigint)::double precision * interval '1 second'
           + (us % 1000000::bigint)::double precision * interval '1 microsecond'
$$;
