"""Backup and restore: taken while everything runs, restored elsewhere, checked by an oracle."""
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import kit
import postgres_server
from kit import (CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, from_json, on_stores, orders, postgres,
                 postgres_database, wait_until)


class Backed(Journey):
    def at(self, name):
        """The environment of another data directory, without the stores of this one."""
        return {"EVERFOLD_DATA": str(self.dir / name), "EVERFOLD_VIEWS": None, "EVERFOLD_JOURNAL": None}

    def events_of(self, env=None):
        return self.ef("event", "log", "--all-tenants", "-o", "ndjson", env=env).lines()

    def totals(self, env=None):
        rows = self.ef("view", "export", "customers", env=env).lines()
        return {row["view_id"]: (row["data"]["orders"], row["data"]["total"]) for row in rows}

    def add_publisher(self, env=None):
        """A publisher to a file, and the file."""
        out = self.dir / "sent.ndjson"
        self.ef("type", "set", "order.placed", "--publish", "yes", env=env)
        self.ef("publisher", "add", "mail", "--to", f"file:{out}", env=env)
        return out

    def sent(self):
        out = self.dir / "sent.ndjson"
        return [from_json(line) for line in out.read_text().splitlines()] if out.exists() else []

    def check_copy(self, env, before):
        """The copy has a prefix of the events, views that fit them, and does not publish before it is adopted."""
        self.assertEqual("warn", self.doctor(env)["copy"])
        self.ef("work", "--drain", "--silent", env=env)
        events = self.events_of(env)
        self.assertEqual(before[:len(events)], events[:len(before)])
        self.assertEqual(customer_totals(events), self.totals(env))
        row, = self.ef("projection", "ls", "-o", "json", env=env).json()
        self.assertEqual((0, 0), (row["lag_events"], row["unaccounted"]))
        self.ef("projection", "verify", "customers", env=env)

        sent = len(self.sent())
        self.ef("event", "append", "order-after", "--type", "order.placed", "--id", "after", "--data",
                '{"customer":"c1","amount":1}', env=env)
        self.ef("work", "--drain", "--silent", env=env)
        self.assertEqual(customer_totals(self.events_of(env)), self.totals(env))
        self.assertEqual(sent, len(self.sent()), "the copy published")
        self.ef("journal", "adopt", env=env)
        self.ef("work", "--drain", "--silent", env=env)
        self.assertIn("after", [m["id"] for m in self.sent()])
        self.assertNotIn("copy", self.doctor(env))
        self.ef("journal", "adopt", env=env, code=4)
        self.assertIn("adopt", [a["action"] for a in self.ef("audit", "ls", "-o", "json", env=env).json()])

    def doctor(self, env, *options, code=0):
        rows = self.ef("doctor", "-o", "json", *options, env=env, code=code).json()
        rows = rows["checks"] if isinstance(rows, dict) else rows
        self.assertNotIn("fail", {r["state"] for r in rows}, rows)
        return {r["check"]: r["state"] for r in rows}


@on_stores("sqlite", "lmdb")
class Live(Backed):
    def test_a_backup_of_a_running_system_is_restored_elsewhere(self):
        self.ef("init")
        self.add_publisher()
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(orders(EVENTS // 2))
        worker = self.start("work", "--silent")
        live = self.write_events("live.ndjson", orders(EVENTS // 2, seed=2))
        importer = self.start("event", "import", live, "--quiet", "--batch", "10")
        position = lambda: self.ef("status", "-o", "json").json()["journal"]["position"]
        wait_until(lambda: position() > EVENTS // 2 + 1000, "the import runs")
        backup = self.dir / "backup"
        taken = self.ef("backup", backup, "--tokens", "-o", "json").json()
        self.assertIsNone(importer.poll(), "the import ended before the backup was taken")
        verified = self.ef("backup", "verify", backup, "-o", "json").json()
        self.assertEqual((taken["position"], taken["hash"]), (verified["position"], verified["hash"]))
        self.assertGreater(taken["position"], EVENTS // 2)
        self.assertEqual(0, importer.wait(timeout=kit.WAIT_LIMIT_S))
        self.end(worker)

        copy = self.at("restored")
        self.ef("restore", backup, env=copy)
        self.ef("backup", "verify", backup)
        before = self.events_of()
        self.assertEqual(EVENTS, len(before))
        self.check_copy(copy, before)
        # The original is as it was.
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(before), self.totals())

    def test_a_backup_is_restored_up_to_a_position_and_a_time(self):
        self.ef("init")
        self.add_publisher()
        self.deploy(CUSTOMERS_FOLD, "--on-error", "skip")
        self.import_events(orders(10_000))
        self.ef("work", "--drain", "--silent")
        events = self.events_of()
        backup = self.dir / "backup"
        self.ef("backup", backup)
        for name, until in (("by-position", "4321"), ("by-time", events[6999]["recorded_at"])):
            with self.subTest(name):
                copy = self.at(name)
                self.ef("restore", backup, "--until", until, env=copy)
                kept = self.events_of(copy)
                self.assertEqual(events[:len(kept)], kept)
                projections = self.ef("projection", "ls", "-o", "json", env=copy).json()
                self.assertEqual(["skip"], [p["on_error"] for p in projections])
                self.assertEqual("ok", self.doctor(copy, "--deep")["events"])
                if name == "by-position":
                    self.assertEqual(4321, len(kept))
                    self.check_copy(copy, events)
                else:
                    self.assertGreaterEqual(events[6999]["recorded_at"], kept[-1]["recorded_at"])
                    self.assertLess(events[6999]["recorded_at"], events[len(kept)]["recorded_at"])


class Refused(Backed):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(orders(1_000))
        self.ef("work", "--drain", "--silent")
        self.backup = self.dir / "backup"
        self.ef("backup", self.backup)

    def contents(self, directory):
        return {p.name: p.read_bytes() for p in pathlib.Path(directory).iterdir() if p.is_file()}

    def test_a_directory_that_is_not_empty_is_left_alone(self):
        before = self.contents(self.backup)
        self.assertIn("not empty", self.ef("backup", self.backup, code=4).err)
        self.assertEqual(before, self.contents(self.backup))
        self.assertIn("not empty", self.ef("restore", self.backup, code=4).err)
        self.assertEqual(1_000, len(self.events_of()))

    def test_a_damaged_backup_is_named_and_restores_nothing(self):
        path = self.backup / "journal.db"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for words in (("backup", "verify", self.backup), ("restore", self.backup)):
            answer = self.ef(*words, env=self.at("restored"), code=6)
            self.assertIn("journal.db", answer.err)
        self.assertFalse((self.dir / "restored").exists())

    def test_a_backup_of_a_newer_schema_restores_nothing(self):
        script = ("import sqlite3,sys; db=sqlite3.connect(sys.argv[1]); db.execute('PRAGMA user_version=999'); "
                  "db.commit(); db.close()")
        subprocess.run(["python3", "-c", script, str(self.backup / "journal.db")], check=True)
        manifest = from_json((self.backup / "backup.json").read_text())
        for file in manifest["files"]:
            data = (self.backup / file["name"]).read_bytes()
            file["bytes"], file["sha256"] = len(data), hashlib.sha256(data).hexdigest()
        (self.backup / "backup.json").write_text(kit.to_json(manifest))
        self.assertIn("newer", self.ef("restore", self.backup, env=self.at("restored"), code=1).err)
        self.assertFalse((self.dir / "restored").exists())

    def test_what_is_interrupted_is_recognised_as_incomplete(self):
        half = self.dir / "half"
        shutil.copytree(self.backup, half)
        (half / "backup.json").unlink()
        for words in (("backup", "verify", half), ("restore", half)):
            self.assertIn("not a complete backup", self.ef(*words, env=self.at("restored"), code=3).err)
        # A restore that was killed leaves its mark: no command works on that directory.
        copy = self.at("restored")
        self.ef("restore", self.backup, env=copy)
        (self.dir / "restored" / "restore.incomplete").write_text("")
        self.assertIn("is incomplete", self.ef("status", env=copy, code=6).err)
        self.assertIn("not empty", self.ef("restore", self.backup, env=copy, code=4).err)

    def test_a_killed_backup_and_a_killed_restore_are_never_taken_for_whole(self):
        """Killed at many moments: either nothing is recognised, or everything is there."""
        self.import_events(orders(30_000, seed=3), name="more.ndjson")
        whole = {True: 0, False: 0}
        for number in range(12):
            target = self.dir / f"killed-{number}"
            process = self.start("backup", target)
            time.sleep(0.004 * number)
            self.end(process, signal.SIGKILL)
            answer = self.run_ef("backup", "verify", target)
            whole[answer.code == 0] += 1
            self.assertIn(answer.code, (0, 3), str(answer))
        backup = self.dir / "last"
        self.ef("backup", backup)
        events = len(self.events_of())
        for number in range(12):
            copy = self.at(f"restored-{number}")
            process = self.start("restore", backup, env=copy)
            time.sleep(0.004 * number)
            self.end(process, signal.SIGKILL)
            answer = self.run_ef("event", "log", "-o", "ndjson", env=copy)
            whole[answer.code == 0] += 1
            self.assertIn(answer.code, (0, 3, 6), str(answer))
            if answer.code == 0:
                self.assertEqual(events, answer.out.count("\n"))
        self.assertTrue(whole[False], "nothing was killed in time")

    def test_a_full_disk_leaves_nothing(self):
        small = self.dir / "small"
        small.mkdir()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True)
        if mount.returncode:
            self.skipTest("tmpfs cannot be mounted")
        self.addCleanup(subprocess.run, ["umount", str(small)])
        answer = self.ef("backup", small / "b", code=1)
        self.assertIn("full", answer.err)
        self.assertEqual([], list(small.iterdir()))

    def test_stores_on_a_server_are_left_to_the_server(self):
        url = postgres_database(f"backup{os.getpid()}_{time.monotonic_ns()}")
        env = {"EVERFOLD_DATA": str(self.dir / "pg"), "EVERFOLD_JOURNAL": url, "EVERFOLD_VIEWS": url}
        self.ef("init", env=env)
        self.assertIn("pg_dump", self.ef("backup", self.dir / "no", env=env, code=2).err)
        self.assertFalse((self.dir / "no").exists())


class Postgres(Backed):
    STORE = "postgres"

    def program(self, name):
        return os.path.join(postgres().binaries, name)

    def fill(self):
        self.ef("init")
        self.add_publisher()
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(orders(20_000))
        self.ef("work", "--drain", "--silent")
        self.import_events(orders(1_000, seed=2), name="more.ndjson")
        # A worker that holds leases when the copy is made, and for longer than the copy may take.
        worker = self.start("work", "--silent", env={"EVERFOLD_WORKER_LEASE_TTL": "10m"})
        wait_until(lambda: [l for l in self.ef("lease", "ls", "-o", "json").json() if l["live"]], "a worker has leases")
        return worker

    def test_a_dump_restored_under_another_name_is_a_copy(self):
        worker = self.fill()
        url = self.stores["EVERFOLD_JOURNAL"]
        dump = self.dir / "journal.dump"
        subprocess.run([self.program("pg_dump"), "-Fc", "-f", dump, url], check=True)
        self.end(worker)
        before = self.events_of()
        other = postgres_database(f"copy{os.getpid()}_{time.monotonic_ns()}")
        subprocess.run([self.program("pg_restore"), "-d", other, dump], check=True)
        copy = {"EVERFOLD_DATA": str(self.dir / "copy"), "EVERFOLD_JOURNAL": other, "EVERFOLD_VIEWS": other}
        began = time.monotonic()
        self.ef("work", "--drain", "--silent", env=copy)
        self.assertLess(time.monotonic() - began, 200, "the copy waited for leases of the original")
        self.check_copy_on_server(copy, before)
        # The original is no copy.
        self.assertNotIn("copy", self.checks({}))

    def checks(self, env):
        """doctor's verdicts; the server of the tests does without fsync, which is a failure of its own."""
        rows = self.run_ef("doctor", "-o", "json", env=env).json()
        rows = rows["checks"] if isinstance(rows, dict) else rows
        return {r["check"]: r["state"] for r in rows}

    def check_copy_on_server(self, env, before):
        self.doctor = lambda env, *options, code=0: self.checks(env)
        self.check_copy(env, before)

    def test_a_base_backup_goes_on(self):
        """A base backup is the same database as PostgreSQL sees it, as a standby that is promoted is: it goes on as
        the original, without being asked."""
        worker = self.fill()
        self.end(worker)
        url = self.stores["EVERFOLD_JOURNAL"]
        before = self.events_of()
        folder = tempfile.mkdtemp(prefix="everfold-base-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        postgres_server.give_away(folder)
        base = os.path.join(folder, "base")
        postgres_server.run([self.program("pg_basebackup"), "-D", base, "-d", url, "-X", "stream", "-c", "fast"])
        server = postgres_server.Server(copied=base)
        self.addCleanup(server.close)
        other = server.url.rsplit("/", 1)[0] + "/" + url.rsplit("/", 1)[1]
        copy = {"EVERFOLD_JOURNAL": other, "EVERFOLD_VIEWS": other}
        self.ef("work", "--drain", "--silent", env=copy)
        self.assertEqual(before, self.events_of(copy))
        self.assertEqual(customer_totals(before), self.totals(copy))
