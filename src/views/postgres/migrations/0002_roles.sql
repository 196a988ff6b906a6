-- Who may do what. The wall between tenants is one for the journal and the views now: src/postgres/ground.sql.
DROP FUNCTION everfold_views.tenants_apart(name);
DROP FUNCTION everfold_views.tenants_together();

-- One who reads views with plain SQL.
CREATE FUNCTION everfold_views.grant_reader(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold_views.views, everfold_views.view, everfold_views.generation '
        || 'TO %I', role);
END $$;

-- A worker, or a server of views: all but changing the schema.
CREATE FUNCTION everfold_views.grant_worker(role name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA everfold, everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT ON everfold.migration TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA everfold_views TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA everfold_views TO %I', role);
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA everfold_views FROM PUBLIC;
