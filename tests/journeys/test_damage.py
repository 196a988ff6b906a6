"""A journal that one process finds damaged takes no more events from any process, until it is restored or repaired."""
import contextlib
import sqlite3

import kit
from kit import CUSTOMERS_FOLD, EVENTS, Journey, on_stores, orders

MARK = "a text that is in one event only"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"


class Damage(Journey):
    def setUp(self):
        super().setUp()
        events = list(orders(EVENTS - 1))
        events.insert(EVENTS // 2, {"stream": "bad", "type": "noted", "id": "bad", "data": {"customer": "c0", "text": MARK}})
        self.position = EVENTS // 2 + 1
        self.ef("init")
        self.import_events(events)

    def change(self, before, after):
        """Other bytes of the same length in the one event, behind Everfold's back."""
        if self.STORE == "postgres":
            kit.sql(self.stores["EVERFOLD_JOURNAL"], f"""SET session_replication_role = replica;
                UPDATE everfold.event SET data = replace(data, '{before}', '{after}') WHERE position = {self.position}""")
            return
        path = self.dir / "data" / "journal.db"
        with contextlib.closing(sqlite3.connect(path)) as db:  # no page of it is in the log only
            self.assertEqual(0, db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        content = path.read_bytes()
        self.assertEqual(1, content.count(before.encode()))
        with open(path, "r+b") as file:
            file.seek(content.index(before.encode()))
            file.write(after.encode())

    def damage(self):
        self.change(MARK, MARK.upper())

    def repair(self):
        self.change(MARK.upper(), MARK)

    def append(self, code=0):
        return self.ef("event", "append", "order-1", "--type", "order.placed", "--data", '{"customer":"c1","amount":1}',
                       code=code)

    def append_by_http(self):
        return self.http("POST", "/v1/streams/order-1/events",
                         {"type": "order.placed", "data": {"customer": "c1", "amount": 1}})

    def append_by_sql(self):
        kit.sql(self.stores["EVERFOLD_JOURNAL"], """SELECT everfold.append('', 'order-1', NULL,
            '{"type":"order.placed","data":{"customer":"c1","amount":1}}')""")

    def assert_names_it(self, text):
        self.assertRegex(text, rf"is damaged, and nothing is appended to it: .*position {self.position}\b.* "
                               rf"\(found at {TIME}\); restore a backup")

    def assert_refused_everywhere(self):
        self.assert_names_it(self.append(code=6).err)
        answer = self.append_by_http()
        self.assertEqual((500, "damaged"), (answer.status, answer.json()["code"]))
        self.assert_names_it(answer.json()["detail"])
        if self.STORE == "postgres":
            with self.assertRaises(AssertionError) as refused:
                self.append_by_sql()
            self.assert_names_it(str(refused.exception))

    def assert_taken_everywhere(self):
        self.append()
        self.assertEqual(201, self.append_by_http().status)
        if self.STORE == "postgres":
            self.append_by_sql()

    def check(self, name, *words, code):
        """The checks of that name. The servers of the tests do not sync, which doctor reports as a failure of its own."""
        answer = self.run_ef("doctor", "-o", "json", *words)
        self.assertEqual(6 if self.STORE == "postgres" else code, answer.code, str(answer))
        return [c for c in answer.json()["checks"] if c["check"] == name]

    def assert_reported(self):
        ready = self.http("GET", "/readyz?verbose")
        self.assertEqual(503, ready.status)
        self.assertIn(b"[-] integrity", ready.body)
        for health in (self.http("GET", "/v1/overview").json()["health"], self.ef("status", "-o", "json").json()["health"]):
            self.assertEqual("trouble", health["state"])
            self.assertRegex(health["message"], "^The journal is damaged and refuses appends")
        remote = self.ef("doctor", "--server", self.server_url, "-o", "json", code=6).json()["checks"]
        for check in self.check("damage", code=6) + [c for c in remote if c["check"] == "damage"]:
            self.assertEqual("fail", check["state"])
            self.assertRegex(check["detail"], rf"^found at {TIME}, appends are refused since: .*position {self.position}\b")
            self.assertIn("doctor --accept-head", check["fix"])


@on_stores("sqlite", "postgres")
class ADamagedEvent(Damage):
    def find_by_read(self):
        self.ef("event", "ls", "bad", code=6)

    def find_by_doctor(self):
        self.assertEqual("fail", self.check("events", "--deep", code=6)[0]["state"])

    def find_by_worker(self):
        self.deploy(CUSTOMERS_FOLD)
        self.run_ef("work", "--drain", "--silent")

    def test_no_process_appends_until_it_is_repaired_and_accepted(self):
        for find in (self.find_by_read, self.find_by_doctor, self.find_by_worker):
            with self.subTest(find.__name__):
                self.damage()
                server = self.serve("--workers", "0")
                self.assert_taken_everywhere()  # no process has read it
                head = self.ef("status", "-o", "json").json()["journal"]["position"]
                find()
                self.assert_refused_everywhere()
                self.assert_reported()
                self.assertEqual(head, self.ef("status", "-o", "json").json()["journal"]["position"])
                self.assertGreater(len(self.ef("event", "ls", "order-1", "-o", "json").json()), 0)
                self.assertEqual(200, self.http("GET", "/v1/streams/order-2/events").status)
                # It is accepted only when every event is right.
                self.check("damage", "--accept-head", "--yes", code=6)
                self.assert_refused_everywhere()
                self.repair()
                self.assert_refused_everywhere()
                self.assertIn("no damage is left", self.check("damage", "--deep", code=6)[0]["fix"])
                accepted = self.check("damage", "--accept-head", "--yes", "--reason", find.__name__, code=0)
                self.assertEqual("ok", accepted[0]["state"])
                self.assert_taken_everywhere()  # the server was not started again
                self.assertIn(("accept", "traveller", find.__name__),
                              [(act["action"], act["actor"], act["reason"]) for act in self.ef("audit", "ls", "-o", "json").json()])
                self.assertEqual(0, self.end(server))
        self.assertEqual([], self.check("damage", "--deep", code=0))


class ARestoredBackup(Damage):
    def test_it_takes_events(self):
        self.ef("backup", self.dir / "before", "--quiet")
        self.damage()
        self.ef("event", "ls", "bad", code=6)
        self.append(code=6)
        self.ef("backup", self.dir / "after", "--quiet")
        # The record is the journal's own: neither a check of a backup nor a restore takes it along.
        self.ef("backup", "verify", self.dir / "before", "--quiet")
        self.ef("backup", "verify", self.dir / "after", "--quiet", code=6)
        self.ef("backup", "verify", self.dir / "after", "--quiet", code=6)
        self.ef("restore", self.dir / "before", "--data", self.dir / "restored", "--quiet")
        self.stores = {"EVERFOLD_DATA": str(self.dir / "restored")}
        self.append()
        self.assertIn("a text that is in one event", self.ef("event", "ls", "bad").out)
        self.assertEqual([], self.check("damage", "--deep", code=0))
