-- As in the journal's schema: what an owner calls has a search path of its own.
ALTER FUNCTION everfold_views.grant_reader(name) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION everfold_views.grant_worker(name) SET search_path = pg_catalog, pg_temp;
