-- Which views a commit changed, recorded while a tenant of a generation is followed.
CREATE TABLE everfold_views.follow(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    until bigint NOT NULL, -- the row may be removed afterwards, with its records
    low bigint NOT NULL,   -- records above this number are kept
    last bigint NOT NULL,  -- the highest number that was given
    kept bigint NOT NULL,  -- records
    PRIMARY KEY (generation, tenant)
) WITH (fillfactor = 50);

CREATE INDEX follow_until ON everfold_views.follow(generation, until);

-- The highest number of rows of `follow` that were removed: numbers never come again.
CREATE TABLE everfold_views.follow_floor(
    generation bigint PRIMARY KEY,
    number bigint NOT NULL
);

CREATE TABLE everfold_views.view_change(
    generation bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    id text COLLATE "C" NOT NULL, -- of the view
    position bigint NOT NULL,     -- of the event that changed it
    kind bigint NOT NULL,         -- 1 created, 2 updated, 3 deleted
    PRIMARY KEY (generation, tenant, number)
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
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON everfold_views.follow, everfold_views.follow_floor, '
            || 'everfold_views.view_change TO %s', worker.role);
    END LOOP;
END $$;
