-- State of projections that was read from audit entries before. The journal may be in another database, so
-- the engine reads it from the entries: for generations whose `replaced` is -1, once.
ALTER TABLE everfold_views.generation
    ADD COLUMN on_error integer NOT NULL DEFAULT 0,  -- 0 stop, 1 skip; the same in all of the projection
    ADD COLUMN replaced integer NOT NULL DEFAULT -1, -- number of the one that was active before; 0 none
    ADD COLUMN superseded bigint NOT NULL DEFAULT 0; -- when another became active; 0: not, or never active

CREATE TABLE everfold_views.retired_version(
    name text COLLATE "C" NOT NULL, -- of the projection
    version integer NOT NULL,
    PRIMARY KEY (name, version)
);

-- Workers that were granted before: of all roles only they write views.
DO $$
DECLARE
    worker record;
BEGIN
    FOR worker IN SELECT DISTINCT a.grantee::regrole AS role
                    FROM pg_class c, aclexplode(c.relacl) a
                   WHERE c.oid = 'everfold_views.view'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> 0
                     AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON everfold_views.retired_version TO %s', worker.role);
    END LOOP;
END $$;
