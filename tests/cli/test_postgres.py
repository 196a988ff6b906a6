"""Stores on PostgreSQL: the same commands and answers, whatever the pair of back ends."""
import json
import os
import re
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

    def check_doctor(self, journal):
        # The server of the tests does without fsync, which doctor finds, and nothing else.
        found = [line.split()[1] for line in self.run_it("doctor", "--deep").out.splitlines()
                 if line.startswith("FAIL")]
        self.assertEqual(["durability"] if journal == "postgres" else [], found)


class Pairs(Stores):
    def check_pair(self, journal, views):
        self.use(journal, views)
        self.check_shop()
        self.check_doctor(journal)
        self.ok("status")

    def test_a_journal_on_sqlite_with_views_on_postgres(self):
        self.check_pair("sqlite", "postgres")

    def test_a_journal_on_postgres_with_views_on_sqlite(self):
        self.check_pair("postgres", "sqlite")


class Sql(Stores):
    def test_views_are_there_for_plain_sql(self):
        self.use("sqlite", "postgres")
        self.fold_some()
        self.assertEqual("w2", psql(self.url, "SELECT id FROM everfold_views.views WHERE projection = 'shop'"
                                              " AND routed AND (doc ->> 'total')::numeric > 22"))

    def test_init_prints_the_sql_of_the_schema(self):
        self.use("sqlite", "postgres")
        psql(self.url, self.ok("init", "--sql").out)
        self.assertEqual("1", psql(self.url, "SELECT live_set FROM everfold_views.state"))
        self.fold_some()
        self.assertEqual(self.EXPECTED, self.totals())

    def test_there_is_no_sql_for_files(self):
        self.refused(2, "init", "--sql", saying="neither")

    def test_init_remembers_a_server_but_no_password(self):
        conf = self.data / "everfold.conf"
        secret = self.url + ("&" if "?" in self.url else "?") + "password=secret"
        answer = self.ok("init", "--journal", secret)
        self.assertIn("was not written, because it has a password", answer.err)
        self.assertFalse(conf.exists())
        self.ok("init", "--journal", self.url)
        self.assertEqual(0o600, conf.stat().st_mode & 0o777)
        self.ok("event", "append", "s", "--type", "t", "--data", "{}")
        self.assertEqual("1", psql(self.url, "SELECT count(*) FROM everfold.event"))

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


EVERY = """
init -o json
type set spoiled --intent projection_and_replay -o json
type set bought --publish yes -o json
type ls -o json
event import LINES
event append s1 --type bought --data {"who":"w1","price":5} --id own --expected-seq 3 -o json
event append s1 --type bought --data {"who":"w1","price":5} --id own -o json
event append s1 --type bought --data {"who":"w2","price":5} --id own -o json
event append s1 --type bought --data {"who":"w1","price":5} --expected-seq 1 -o json
event ls s1 -o json
event log --type b* -o json
event show own -o json
publisher add file --to file:OUT --types bought -o json
projection deploy PROGRAM -o json
work --drain --silent
projection wait shop --position 9 -o json
projection ls -o json
projection show shop -o json
projection failures shop -o json
outbox report -o json
outbox replay s0 4 -o json
outbox skip s0 4 --lane shop --reason spoiled -o json
outbox requeue s0 4 -o json
outbox requeue-dead -o json
outbox skip-dead --lane shop --reason test --dry-run -o json
work --drain --silent
audit ls -o json
projection try PROGRAM -o json
gaps detect -o json
gaps repair -o json
view get shop w1 -o json
view get shop nobody -o json
view query shop --where total>5 --sort -total -o json
view export shop
view explain shop w1 -o json
view at shop w1 --position 3 -o json
replay --projection shop --dry-run -o json
replay --projection shop --validate -o json
projection rebuild shop --no-switch --wait -o json
projection diff shop --generations 1,2 -o json
projection switch shop --generation 2 --reason newer -o json
projection rollback shop -o json
projection retire shop --generation 2 -o json
projection rebuild shop --in-place --wait -o json
projection verify shop -o json
projection pause shop -o json
event append s9 --type bought --data {"who":"w9","price":1} --id late -o json
work --drain --silent
projection resume shop -o json
work --drain --silent
view get shop w9 -o json
projection rebuild shop -o json
run ls -o json
run cancel RUN -o json
run show RUN -o json
run watch RUN -o json
view seed shop SEED --position 3 -o json
publisher ls -o json
publisher pause file -o json
publisher resume file -o json
publisher show file -o json
publisher rm file --discard -o json
token create --scope read --note test -o json
token ls -o json
token revoke nobody -o json
lease ls -o json
worker ls -o json
partition sync --count 8 -o json
partition ls -o json
config check
status -o json
top --once -o json
"""


class EveryCommand(Stores):
    """One after the other, on files and on a server: the same answers but for times, ids and places."""
    PROGRAM = Shop.PROGRAM + """
on spoiled
  n += data.none.at.all + 1
"""
    LINES = [{"stream": f"s{n % 3}", "type": "spoiled" if n == 9 else "bought", "id": f"id-{n}",
              "data": {"who": f"w{n % 4}", "price": n}} for n in range(10)]
    SEED = [{"view_id": "w0", "data": {"n": 1, "total": 0}}]
    # What differs from one run to the next, or is said of the store itself.
    DIFFERS = {r"\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME", r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b": "ID",
               r"\bevf_\w+": "TOKEN", r"\b[0-9a-f]{16,}\b": "HEX", r'"actor":"[\w.-]+-\d+-[0-9a-f]+"': "WORKER",
               r'_seconds":[\d.]+': "SECONDS", r"[\d.]+ seconds, \d+ events/s": "RATE",
               r'"\w+":"(sqlite|postgres):[^"]*"': "URL", r'"(backend|version|durability)":"[^"]*"': "STORE",
               r'"(schema|\w+_bytes)":(\d+|null)': "NUMBER"}

    def answers(self, journal, views):
        self.data = self.dir / f"data-{journal}"
        self.use(journal, views)
        files = {"PROGRAM": self.write("shop.fold", self.PROGRAM), "OUT": self.dir / f"out-{journal}",
                 "LINES": self.write("lines", "".join(json.dumps(e) + "\n" for e in self.LINES)),
                 "SEED": self.write("seed", "".join(json.dumps(v) + "\n" for v in self.SEED))}
        found = []
        for line in EVERY.strip().splitlines():
            words = [re.sub("[A-Z]{3,}$", lambda m: str(files[m[0]]), word) for word in line.split()]
            answer = self.run_it(*words)
            if line.startswith("run ls"):
                files["RUN"] = answer.json()[0]["id"]
            text = (answer.out + answer.err).replace(str(self.data), "DATA").replace(str(files["OUT"]), "OUT")
            for pattern, name in self.DIFFERS.items():
                text = re.sub(pattern, name, text)
            found.append((line, answer.code, text))
        return found

    def test_every_command_prints_the_same_on_postgresql_as_on_sqlite(self):
        files, server = self.answers("sqlite", "sqlite"), self.answers("postgres", "postgres")
        for on_files, on_server in zip(files, server):
            self.assertEqual(on_files, on_server)
        self.check_doctor("postgres")

    def test_no_command_is_left_out(self):
        """But for those that ask no store, doctor (asked of each pair), serve and copies, which have tests of their own."""
        told = re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)(?: |$)", self.ok("help").out.split("Commands:")[1]
                          .split("Common options:")[0], re.MULTILINE)
        others = {"fold check", "fold explain", "fold test", "completion", "help", "version", "config show", "doctor", "serve",
                  "journal copy", "journal adopt", "backup", "backup verify", "restore"}
        tried = {name for name in told for line in EVERY.splitlines() if (line + " ").startswith(name + " ")}
        self.assertGreater(len(told), 50)
        self.assertEqual(others, set(told) - tried)
