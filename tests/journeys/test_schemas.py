"""Two journals in one PostgreSQL database, each in schemas of its own: neither sees, wakes or stops the other."""
import subprocess

import kit
from kit import Journey, on_stores, wait_until

FOLD = """projection totals version {version}
  view stream

on moved
  total += data.amount * {version}
"""
EVENTS = 20_000
STREAMS = 300


@on_stores("postgres")
class Schemas(Journey):
    def setUp(self):
        super().setUp()
        self.url = self.stores["EVERFOLD_JOURNAL"]
        # The first by the settings, the second by the URL, a third with the defaults.
        self.journals = {
            "shop": {"EVERFOLD_POSTGRES_SCHEMA": "shop", "EVERFOLD_DATA": str(self.dir / "shop")},
            "bank": {"EVERFOLD_JOURNAL": self.url + "?ef_schema=bank&ef_views_schema=bank_read",
                     "EVERFOLD_VIEWS": None, "EVERFOLD_DATA": str(self.dir / "bank")},
            "everfold": {"EVERFOLD_DATA": str(self.dir / "default")}}
        self.views_of = {"shop": "shop_views", "bank": "bank_read", "everfold": "everfold_views"}

    def events(self, journal):
        factor = len(journal)
        return [{"stream": f"s{n % STREAMS}", "type": "moved", "id": f"{n}", "data": {"amount": n % 97 * factor}}
                for n in range(EVENTS)]

    def totals(self, journal, extra=0):
        totals = {}
        for event in self.events(journal):
            totals[event["stream"]] = totals.get(event["stream"], 0) + event["data"]["amount"]
        totals["s0"] += extra
        return totals

    def fold(self, journal):
        env = self.journals[journal]
        self.ef("projection", "deploy", self.write("totals.fold", FOLD.format(version=1)), env=env)
        self.ef("work", "--drain", env=env)

    def exported(self, journal):
        rows = self.ef("view", "export", "totals", env=self.journals[journal]).lines()
        return {row["view_id"]: row["data"]["total"] for row in rows}

    def test_journals_in_one_database_are_apart(self):
        # One is made by hand, from the SQL that is printed.
        kit.sql(self.url, self.ef("init", "--sql", env=self.journals["bank"]).out)
        for journal, env in self.journals.items():
            self.ef("init", env=env)
            path = self.write_events(f"{journal}.ndjson", self.events(journal))
            self.ef("event", "import", path, "--quiet", env=env)
            self.fold(journal)
        for journal in self.journals:
            self.assertEqual(self.totals(journal), self.exported(journal))
        # SQL functions, and plain SQL on the views.
        for journal, env in self.journals.items():
            token = kit.sql(self.url, f"""SELECT token FROM {journal}.append('', 's0', NULL,
                '[{{"type": "moved", "data": {{"amount": {len(journal)}}}}}]');""").strip()
            self.ef("work", "--drain", env=env)
            got = self.ef("view", "get", "totals", "s0", "--at-least", token, "-o", "json", env=env).json()
            self.assertEqual(self.totals(journal, len(journal))["s0"], got["data"]["total"])
            self.assertEqual(str(self.totals(journal, len(journal))["s0"]), kit.sql(
                self.url, f"SELECT doc ->> 'total' FROM {self.views_of[journal]}.views WHERE id = 's0' AND routed;").strip())
            self.assertEqual(str(EVENTS + 1), kit.sql(self.url, f"SELECT count(*) FROM {journal}.event_log;").strip())
        schemas = kit.sql(self.url, "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_)' ORDER BY 1;")
        self.assertEqual(["bank", "bank_read", "everfold", "everfold_views", "public", "shop", "shop_views"], schemas.split())

    def hold_in_psql(self, sql):
        """A psql session that has run `sql` and stays open."""
        session = subprocess.Popen([f"{kit.postgres().binaries}/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.url],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(session.wait)
        self.addCleanup(session.kill)
        session.stdin.write(sql + "\nSELECT 'held';\n")
        session.stdin.flush()
        while session.stdout.readline().strip() != "held":
            self.assertIsNone(session.poll())
        return session

    def test_no_lock_and_no_notification_of_one_reaches_the_other(self):
        for env in self.journals.values():
            self.ef("init", env=env)
        # No lock of a transaction of one journal is one of the other, and none is one that any role may take.
        locks = {journal: self.locks_of(journal) for journal in self.journals}
        for journal, mine in locks.items():
            self.assertTrue({"sequencer_lock", "lock_1"} <= {key.split("/")[0] for key in mine}, mine)
            self.assertFalse({key for key in mine if key.startswith("advisory")}, mine)
            for other, theirs in locks.items():
                self.assertFalse(journal != other and mine & theirs, f"{journal} and {other} share a lock")
        session = self.hold_in_psql("LISTEN shop; LISTEN bank;")
        for env in self.journals.values():  # a notification is sent only if a process sleeps
            self.start("work", "--silent", env=env)
        wait_until(lambda: kit.sql(self.url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND database = "
                                   "(SELECT oid FROM pg_database WHERE datname = current_database());").strip() == "2",
                   "a worker of each journal sleeps")
        for _ in range(10):
            self.ef("event", "append", "s0", "--type", "moved", "--data", '{"amount": 1}', env=self.journals["shop"])
        kit.sql(self.url, """SELECT seq FROM shop.append('', 's0', NULL, '{"type": "moved"}');""")
        session.stdin.write("SELECT 1;\n")
        out = session.communicate(timeout=60)[0]
        self.assertIn('notification "shop"', out)
        self.assertNotIn('notification "bank"', out)

    def locks_of(self, journal):
        """The locks that an append and a worker of a journal take alone or share, noted in their transactions."""
        schema, views = journal, self.views_of[journal]
        table = f"public.locks_{schema}"
        kit.sql(self.url, f"""
            CREATE TABLE {table}(key text);
            CREATE FUNCTION {table}_note() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO {table} SELECT coalesce(c.relname, 'advisory') || '/' || coalesce(l.relation, l.objid)
                  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
                 WHERE (l.locktype = 'advisory' OR c.relname IN ('sequencer_lock', 'lock_live') OR c.relname ~ '^lock_[0-9]$') AND l.pid = pg_catalog.pg_backend_pid();
                RETURN NULL;
            END $$;
            CREATE TRIGGER note AFTER INSERT OR UPDATE ON {schema}.event FOR EACH STATEMENT EXECUTE FUNCTION {table}_note();
            CREATE TRIGGER note AFTER INSERT OR UPDATE ON {views}.watermark
                FOR EACH STATEMENT EXECUTE FUNCTION {table}_note();""")
        self.ef("event", "append", "s0", "--type", "moved", "--data", '{"amount": 1}', env=self.journals[journal])
        self.fold(journal)
        kit.sql(self.url, f"DROP TRIGGER note ON {schema}.event; DROP TRIGGER note ON {views}.watermark;")
        return set(kit.sql(self.url, f"SELECT DISTINCT key FROM {table};").split())

    def test_names_that_cannot_work_are_refused(self):
        for setting, why in (("Shop", "lower-case"), ("1shop", "does not start with a digit"), ("a.b", "lower-case"),
                             ("pg_shop", "pg_"), ("public", "choose another name"), ("user", "choose another name"),
                             ("x" * 64, "at most 63"), ("x; DROP SCHEMA public", "lower-case")):
            answer = self.ef("init", env={"EVERFOLD_POSTGRES_SCHEMA": setting}, code=2)
            self.assertIn(why, answer.err)
            self.assertIn(setting[:40], answer.err)
        same = {"EVERFOLD_POSTGRES_SCHEMA": "shop", "EVERFOLD_POSTGRES_VIEWS_SCHEMA": "shop"}
        self.assertIn("they need two", self.ef("init", env=same, code=2).err)
        self.assertIn("lower-case", self.ef("init", env={"EVERFOLD_JOURNAL": self.url + "?ef_schema=A"}, code=2).err)
        self.assertEqual("", kit.sql(self.url, "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(shop|everfold)';"))
        shown = {row["key"]: row["value"] for row in
                 self.ef("config", "show", "-o", "json", env=self.journals["shop"]).json()}
        self.assertEqual("shop", shown["postgres.schema"])
        missing = self.ef("event", "log", env=self.journals["shop"], code=3)
        self.assertIn("no schema shop", missing.err)
