-- Locks that need a privilege on our objects: every role that may connect may take advisory locks, and stop all commits.
-- Locks on tables are as fair: who wants one alone is not starved by those who share it. Generations share a few tables,
-- which only costs time.
CREATE TABLE everfold_views.lock_live(); -- the set of live generations
CREATE TABLE everfold_views.lock_0();
CREATE TABLE everfold_views.lock_1();
CREATE TABLE everfold_views.lock_2();
CREATE TABLE everfold_views.lock_3();
CREATE TABLE everfold_views.lock_4();
CREATE TABLE everfold_views.lock_5();
CREATE TABLE everfold_views.lock_6();
CREATE TABLE everfold_views.lock_7();

-- Locks generations in the order of `ids`, to the end of the transaction; 0 stands for the set of live ones.
CREATE FUNCTION everfold_views.lock_generations(ids bigint[], alone boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
BEGIN
    FOREACH id IN ARRAY ids LOOP
        EXECUTE pg_catalog.format('LOCK TABLE everfold_views.lock_%s IN %s MODE',
            CASE WHEN id = 0::bigint THEN 'live' ELSE (id % 8::bigint)::text END,
            CASE WHEN alone THEN 'EXCLUSIVE' ELSE 'ROW SHARE' END);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION everfold_views.lock_generations(bigint[], boolean) FROM PUBLIC;

-- Workers that were granted before: of all roles only they write views.
DO $$
DECLARE
    worker record;
    lock text;
BEGIN
    FOR worker IN SELECT DISTINCT a.grantee::regrole AS role
                    FROM pg_class c, aclexplode(c.relacl) a
                   WHERE c.oid = 'everfold_views.view'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> 0
                     AND a.grantee <> c.relowner LOOP
        FOREACH lock IN ARRAY ARRAY['live', '0', '1', '2', '3', '4', '5', '6', '7'] LOOP
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON everfold_views.lock_%s TO %s', lock, worker.role);
        END LOOP;
        EXECUTE format('GRANT EXECUTE ON FUNCTION everfold_views.lock_generations(bigint[], boolean) TO %s', worker.role);
    END LOOP;
END $$;
