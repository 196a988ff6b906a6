"""What an operator sees: doctor, status, /readyz and the health message name what is wrong and what to do."""
import contextlib
import re
import sqlite3
import subprocess

import kit
from kit import CUSTOMERS_FOLD, Journey, customer_totals, on_stores, orders, wait_until


class Health(Journey):
    def checks(self, *words, code=0):
        """check -> list of its lines, as `doctor` reports them."""
        found = {}
        for check in self.ef("doctor", "-o", "json", *words, code=code).json()["checks"]:
            found.setdefault(check["check"], []).append(check)
        return found


class APausedProjection(Health):
    def assert_doctor_names_it(self):
        found = self.checks()["projections"]
        self.assertEqual(["warn"], [check["state"] for check in found])
        self.assertRegex(found[0]["detail"],
                         r"^customers is paused since \d{4}-\d\d-\d\dT[0-9:.]+Z by traveller: repairs; lag 100 events$")
        self.assertEqual("run: everfold projection resume customers", found[0]["fix"])

    def test_doctor_names_it_and_how_to_resume(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain")
        self.ef("projection", "pause", "customers", "--reason", "repairs")
        self.import_events(orders(100))
        self.ef("work", "--drain")
        self.assert_doctor_names_it()
        self.serve("--workers", "0")
        self.stores = {**self.stores, "EVERFOLD_SERVER": self.server_url}
        self.assert_doctor_names_it()
        self.ef("projection", "resume", "customers")
        self.assertNotIn("paused", str(self.checks()))


class AFullDisk(Health):
    """The views are on a file system of 4 MiB that is made larger later."""
    EVENTS = 60_000

    def mount_small(self):
        small = self.dir / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True).returncode:
            self.skipTest("tmpfs cannot be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)])
        self.stores = {"EVERFOLD_VIEWS": f"sqlite:{small}/views.db"}
        return small

    def health(self):
        return self.http("GET", "/v1/overview").json()["health"]

    def assert_everything_names_it(self, path):
        sentence = rf"^The disk is full: {path}/views.db, [0-3] MiB free. Free space on it; work continues by itself.$"
        found = self.health()
        self.assertEqual("trouble", found["state"])
        self.assertRegex(found["message"], sentence)
        # Another process sees the free space, not that a write was refused.
        sentence = sentence.replace("is full", "is (almost )?full")
        found = self.ef("status", "-o", "json").json()["health"]
        self.assertEqual("trouble", found["state"])
        self.assertRegex(found["message"], sentence)
        self.assertRegex(self.ef("status").out.splitlines()[0].removeprefix("health      "), sentence)
        disk = self.checks(code=6)["disk"][0]
        self.assertEqual(("fail", True), (disk["state"], f"{path}/views.db" in disk["detail"]))
        ready = self.http("GET", "/readyz?verbose")
        self.assertEqual(503, ready.status)
        self.assertRegex(ready.body.decode(), r"\[-\] disk: the disk is full: \d+ bytes free; free disk space\n")
        self.assertNotIn(str(path), ready.body.decode())  # open to everybody

    def test_every_report_names_the_disk_and_work_goes_on_by_itself(self):
        small = self.mount_small()
        events = list(orders(self.EVENTS, customers=20_000))
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(events)
        self.serve()
        wait_until(lambda: "is full:" in self.health()["message"], "the disk is full")
        self.assert_everything_names_it(small)
        subprocess.run(["mount", "-o", "remount,size=400m", str(small)], check=True)
        wait_until(lambda: self.health()["message"].startswith("All is well"), "the rest is applied")
        self.assertEqual(customer_totals(events), self.customer_views())


@on_stores("sqlite", "lmdb", "postgres")
class ALargeView(Health):
    """A view that only grows is reported at half of the size that a view may have, before its events fail."""
    PROGRAM = """projection notes version 1
  view "all"
on noted
  items push data.text
"""

    def note(self, first, last):
        """Appends events of about a kilobyte each to streams of their own, 100 at a time."""
        for begin in range(first, last, 100):
            self.import_events(({"stream": f"s{n}", "type": "noted", "id": str(n), "data": {"text": "x" * 1000}}
                                for n in range(begin, min(begin + 100, last))), name=f"notes{begin}.ndjson")

    def metric(self):
        text = self.http("GET", "/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("everfold_large_views_total")).split()[1])

    def views_check(self):
        checks = self.run_ef("doctor", "--deep", "-o", "json").json()["checks"]
        return next(check for check in checks if check["check"] == "views")

    def test_it_is_reported_at_half_of_the_limit(self):
        self.ef("init")
        self.deploy(self.PROGRAM)
        server = self.serve()
        self.note(0, 400)
        self.ef("projection", "wait", "notes")
        self.assertEqual(0, self.metric())
        self.assertEqual("ok", self.views_check()["state"])
        self.note(400, 800)
        self.ef("projection", "wait", "notes")
        wait_until(lambda: self.metric() == 1, "the view is counted")
        found = self.views_check()
        self.assertEqual("warn", found["state"])
        self.assertRegex(found["detail"], r"^1 view has 512 KiB or more; the largest has 8\d\d\d\d\d bytes: notes all$")
        log = server.log.read_text()
        self.assertEqual(1, log.count("view exceeds half of the size limit"), log)
        self.assertIn("projection=notes", log)
        self.assertIn("view_id=all", log)


@on_stores("sqlite", "postgres")
class ADamagedJournal(Health):
    """A bit of one event changes on the disk while a server runs. From the read that finds it, the server takes no more
    events; what is not damaged can still be read, and a restored journal takes events again."""
    BAD = 3

    def change_a_byte(self):
        if self.STORE == "postgres":
            kit.sql(self.stores["EVERFOLD_JOURNAL"], f"""SET session_replication_role = replica;
                UPDATE everfold.event SET data = replace(data, '1', '2') WHERE position = {self.BAD}""")
            return
        with contextlib.closing(sqlite3.connect(self.dir / "data" / "journal.db")) as db, db:
            db.execute("DROP TRIGGER event_is_never_changed")
            db.execute("UPDATE event SET data = replace(data, '1', '2') WHERE position = ?", (self.BAD,))

    def append(self, number):
        return self.http("POST", f"/v1/streams/s{number}/events", {"type": "paid", "data": {"n": 1}})

    def test_it_takes_no_more_events_and_says_so(self):
        self.ef("init")
        for number in range(1, 7):
            self.ef("event", "append", f"s{number}", "--type", "paid", "--data", '{"n":1}')
        self.server = self.serve("--workers", "0")
        self.change_a_byte()
        self.assertEqual(201, self.append(7).status)  # not known yet
        found = self.http("GET", f"/v1/streams/s{self.BAD}/events")
        self.assertEqual((500, "damaged"), (found.status, found.json()["code"]))
        for _ in range(2):
            refused = self.append(8)
            self.assertEqual((500, "damaged"), (refused.status, refused.json()["code"]))
            self.assertRegex(refused.json()["detail"], rf"is damaged.*position {self.BAD}.*restore a backup")
        self.assertEqual(404, self.http("GET", "/v1/streams/s8/events").status)
        self.assertEqual(200, self.http("GET", "/v1/streams/s7/events").status)
        self.assertRegex(self.http("GET", "/v1/overview").json()["health"]["message"], "^The journal is damaged")
        ready = self.http("GET", "/readyz?verbose")
        self.assertEqual(503, ready.status)
        self.assertIn(b"[-] integrity", ready.body)
        log = kit.pathlib.Path(self.server.log).read_text()
        self.assertEqual(1, log.count("the journal is damaged; appends are refused"), log)


class NoNumber(Health):
    """A number that a store does not have is left out or null. -1 is what the library has for it."""
    STORE = "postgres"

    def assert_no_minus_one(self, what, text):
        found = re.search(r"(?<![\w.:+-])-1(?![\w.])", text)
        self.assertIsNone(found, f"{what}: {text[max(0, found.start() - 80):][:200]}" if found else "")

    def test_no_report_shows_minus_one(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(orders(100))
        self.ef("work", "--drain")
        self.serve()
        remote = {"EVERFOLD_SERVER": self.server_url}
        for env in ({}, remote):
            for words in (["status"], ["status", "-o", "json"], ["doctor"], ["doctor", "-o", "json"], ["projection", "ls"],
                          ["worker", "ls"], ["lease", "ls"], ["partition", "ls"], ["outbox", "report"]):
                self.assert_no_minus_one(words, self.run_ef(*words, env=env).out)
        self.assert_no_minus_one("top", self.run_ef("top", "--once", "-o", "json").out)
        for path in ("/v1/status", "/v1/overview", "/readyz?verbose", "/metrics", "/version"):
            self.assert_no_minus_one(path, self.http("GET", path).body.decode())


class OneOfAThing(Journey):
    def test_one_is_not_written_as_many(self):
        self.ef("init", env={"EVERFOLD_OUTBOX_PARTITIONS": "1"})
        self.ef("event", "append", "s", "--type", "paid", "--data", "{}")
        copied = self.ef("journal", "copy", "--from", f"sqlite:{self.dir}/data/journal.db",
                         "--to", f"sqlite:{self.dir}/copy.db").out
        self.assertIn("1 event copied", copied)
        self.assertIn("1 partition, unchanged", self.ef("partition", "sync").out)
        self.assertIn("16 partitions, before 1", self.ef("partition", "sync", "--count", "16").out)

    def test_serve_logs_its_mode_once(self):
        server = self.serve("--log-level", "info")
        self.assertEqual(1, server.log.read_text().count("mode resolved"))


if __name__ == "__main__":
    kit.unittest.main()
