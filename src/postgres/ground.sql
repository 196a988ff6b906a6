-- Objects that both parts of the schema need, the journal and the views, in one database or in two. Runs before every
-- migration of a part, so it creates what is missing and keeps what exists. A change of it needs a migration of every
-- part. Functions that an owner calls set their search path: with that of the caller, a role that may create functions
-- in a schema of that path could run them with the privileges of the owner.
CREATE SCHEMA IF NOT EXISTS everfold;
CREATE TABLE IF NOT EXISTS everfold.migration(
    part text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (part, number)
);
-- One migration at a time.
LOCK TABLE everfold.migration IN SHARE ROW EXCLUSIVE MODE;

-- The wall between tenants, by row-level security: which roles are bound to which tenants. By name, because a dump may be
-- restored before the roles are created.
CREATE TABLE IF NOT EXISTS everfold.tenant_role(
    role text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    PRIMARY KEY (role, tenant)
);

CREATE OR REPLACE FUNCTION everfold.bind_tenant(role name, tenant text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT quote_ident($1)::regrole; -- an unknown role is an error
    INSERT INTO everfold.tenant_role(role, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING
$$;
CREATE OR REPLACE FUNCTION everfold.unbind_tenant(role name, tenant text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM everfold.tenant_role t WHERE t.role = $1 AND t.tenant = $2
$$;

-- The tenants that a role sees: those that it, or a role that it is a member of, is bound to. Only a role that is bound
-- to none sees the tenant of the setting everfold.tenant. That is never the tenant "": a setting of SET LOCAL is "" after
-- the transaction.
CREATE OR REPLACE FUNCTION everfold.tenants_of(role name) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(
        (SELECT array_agg(t.tenant) FROM everfold.tenant_role t JOIN pg_roles r ON r.rolname = t.role
          WHERE pg_has_role($1, r.oid, 'MEMBER')),
        ARRAY(SELECT s FROM current_setting('everfold.tenant', true) AS s WHERE s <> ''))
$$;

CREATE OR REPLACE FUNCTION everfold.tenants_together() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT p.polname, p.polrelid::regclass AS relation
                 FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
                WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views')
                  AND p.polname IN ('everyone', 'tenant') LOOP
        EXECUTE format('DROP POLICY %I ON %s', one.polname, one.relation);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', one.relation);
    END LOOP;
END $$;

-- Enables the wall: a role sees only rows of its tenants, in every table with a column `tenant` or `stream`. The role
-- `everyone`, that of the workers, sees and writes all rows, as the owner does. Views use the privileges of the reader.
CREATE OR REPLACE FUNCTION everfold.tenants_apart(everyone name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION 'tenants are kept apart on PostgreSQL 15 or later: before that, a view reads with '
            'the rights of its owner';
    END IF;
    PERFORM everfold.tenants_together();
    FOR one IN SELECT c.oid::regclass AS relation,
                      bool_or(a.attname = 'tenant') AS has_tenant
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
                WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views')
                  AND c.relkind IN ('r', 'p') AND a.attname IN ('tenant', 'stream')
                GROUP BY c.oid LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one.relation);
        -- The subquery runs once per query, not per row. A table without a tenant has a stream with one.
        EXECUTE format('CREATE POLICY tenant ON %s FOR SELECT USING (%s)', one.relation,
            CASE WHEN one.has_tenant
                 THEN 'tenant = ANY ((SELECT everfold.tenants_of(current_user))::text[])'
                 ELSE 'stream IN (SELECT s.id FROM everfold.stream s)' END);
        IF everyone IS NOT NULL THEN
            EXECUTE format('CREATE POLICY everyone ON %s TO %I USING (true)', one.relation, everyone);
        END IF;
    END LOOP;
    FOR one IN SELECT c.oid::regclass AS relation FROM pg_class c
                WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views')
                  AND c.relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', one.relation);
    END LOOP;
    GRANT EXECUTE ON FUNCTION everfold.tenants_of(name) TO PUBLIC;
END $$;

-- Runs after every migration: if the wall is enabled, enables it for the new tables too.
CREATE OR REPLACE FUNCTION everfold.tenants_still_apart() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wall record;
BEGIN
    SELECT count(*) AS policies, max(r.rolname) AS everyone INTO wall
      FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
      LEFT JOIN pg_roles r ON p.polname = 'everyone' AND r.oid = ANY (p.polroles)
     WHERE c.relnamespace::regnamespace::text IN ('everfold', 'everfold_views')
       AND p.polname IN ('everyone', 'tenant');
    IF wall.policies > 0 THEN
        PERFORM everfold.tenants_apart(wall.everyone);
    END IF;
END $$;
REVOKE ALL ON FUNCTION everfold.bind_tenant(name, text), everfold.unbind_tenant(name, text),
    everfold.tenants_apart(name), everfold.tenants_together(), everfold.tenants_still_apart() FROM PUBLIC;
