"""Stores on PostgreSQL: the same commands and answers, whatever the pair of back ends."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import postgres_server  # noqa: E402

from support import Shop  # noqa: E402

SERVER = None


def setUpModule():
    global SERVER
    if not postgres_server.programs():
        raise unittest.SkipTest("there is no PostgreSQL server to start")
    SERVER = postgres_server.Server()


def tearDownModule():
    if SERVER:
        SERVER.close()


def psql(url, sql):
    done = subprocess.run([os.path.join(SERVER.binaries, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", url],
                          input=sql, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.strip()


class Stores(Shop):
    """A database of its own for each test."""
    count = 0

    def setUp(self):
        super().setUp()
        Stores.count += 1
        psql(SERVER.url, f"CREATE DATABASE cli{Stores.count}")
        self.url = SERVER.url.rsplit("/", 1)[0] + f"/cli{Stores.count}"
        self.stores = {}

    def environment(self, **more):
        return super().environment(**{**self.stores, **more})

    def use(self, journal, views):
        urls = {"postgres": self.url, "sqlite": None}
        self.stores = {"EVERFOLD_JOURNAL": urls[journal], "EVERFOLD_VIEWS": urls[views]}
        if views == "sqlite":
            self.stores["EVERFOLD_VIEWS"] = f"sqlite:{self.data}/views.db"


class Pairs(Stores):
    def check_pair(self, journal, views):
        self.use(journal, views)
        self.check_shop()
        # The server of the tests does without fsync, which doctor finds, and nothing else.
        found = [line.split()[1] for line in self.run_it("doctor", "--deep").out.splitlines()
                 if line.startswith("FAIL")]
        self.assertEqual(["durability"] if journal == "postgres" else [], found)
        self.ok("status")

    def test_a_journal_on_sqlite_with_views_on_postgres(self):
        self.check_pair("sqlite", "postgres")

    def test_a_journal_on_postgres_with_views_on_sqlite(self):
        self.check_pair("postgres", "sqlite")

    def test_both_on_postgres(self):
        self.check_pair("postgres", "postgres")


class Sql(Stores):
    def test_views_are_there_for_plain_sql(self):
        self.use("sqlite", "postgres")
        self.fold_some()
        self.assertEqual("w2", psql(self.url, "SELECT id FROM everfold_views.views WHERE projection = 'shop'"
                                              " AND routed AND (doc ->> 'total')::numeric > 22"))

    def test_the_schema_is_printed_for_those_who_migrate_by_hand(self):
        self.use("sqlite", "postgres")
        psql(self.url, self.ok("init", "--sql").out)
        self.assertEqual("1", psql(self.url, "SELECT live_set FROM everfold_views.state"))
        self.fold_some()
        self.assertEqual(self.EXPECTED, self.totals())

    def test_there_is_no_sql_for_files(self):
        self.refused(2, "init", "--sql", saying="neither")

    def test_a_password_is_never_shown(self):
        self.use("sqlite", "postgres")
        secret = self.url.replace("postgres@", "postgres:tiger@")
        for words in (["init"], ["init", "-o", "json"], ["config", "show"], ["doctor"], ["status"],
                      ["projection", "ls"]):
            answer = self.run_it(*words, "--views", secret)
            self.assertNotIn("tiger", answer.out + answer.err, words)
        answer = self.run_it("projection", "ls", "--views", secret.replace("/cli", "/no_such"))
        self.assertNotEqual(0, answer.code)
        self.assertNotIn("tiger", answer.out + answer.err)

    def test_views_that_were_never_made_are_named_with_the_way_out(self):
        self.use("sqlite", "sqlite")
        self.ok("init")
        self.refused(3, "projection", "ls", "--views", self.url, saying="everfold init --views")
