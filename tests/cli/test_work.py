"""work, and the modes in which an append folds at once."""
import json
import signal
import sqlite3
import time

from support import TIME, Case, interrupt
from test_fold import COUNTER, SHOP

TICK_KEYS = ["claimed", "applied", "published", "failed", "dead", "duration_ms", "backoff_ms",
             "renewed_heartbeat", "purged_stale", "active_workers", "desired_count", "owned_count",
             "leased_count", "released_count", "ts", "lost_count", "ignored", "deferred",
             "caught_up"]


class Counter(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.path = self.write("counter.fold", COUNTER)
        self.ok("projection", "deploy", self.path)

    def count(self, *more, **options):
        return self.ok("event", "append", "s", "--type", "counted", "--data",
                       '{"who":"ada","by":1}', "-o", "json", *more, **options).json()

    def found(self):
        answer = self.run_it("view", "get", "counter", "ada", "-o", "json")
        return answer.json()["data"]["n"] if answer.code == 0 else None


class Work(Counter):
    def test_drain_folds_everything_and_ends(self):
        for _ in range(5):
            self.count()
        self.assertIn("applied 5", self.ok("work", "--drain").out)
        self.assertEqual(5, self.found())
        self.assertEqual(0, self.ok("outbox", "report", "-o", "json").json()["summary"]["pending"])
        self.assertIn("applied 0", self.ok("work", "--drain").out)

    def test_a_tick_is_a_line(self):
        self.count()
        ticks = self.ok("work", "--drain", "-o", "json").lines()
        for tick in ticks:
            self.assertEqual(TICK_KEYS, list(tick))
            self.assertRegex(tick["ts"], TIME)
        self.assertEqual(1, sum(t["applied"] for t in ticks))

    def test_once_is_one_tick(self):
        self.assertEqual(1, len(self.ok("work", "--once", "-o", "ndjson").lines()))
        self.refused(2, "work", "--once", "--drain", saying="cannot be combined")
        self.refused(2, "work", "--interval-ms", "0", saying="--interval-ms")

    def test_silent_prints_nothing(self):
        self.count()
        for form in ("table", "json"):
            answer = self.ok("work", "--drain", "--silent", "-o", form)
            self.assertEqual(("", ""), (answer.out, answer.err))
        self.assertEqual(1, self.found())

    def test_a_worker_logs_start_leases_and_stop(self):
        worker = self.start("work", "--log-level", "debug", "--log-format", "json", "-o", "json")
        self.count()
        self.wait_until(lambda: self.found() == 1)
        lines = [json.loads(line) for line in interrupt(worker, signal.SIGTERM).err.splitlines()]
        said = {line["message"]: line for line in lines if line["level"] == "info"}
        self.assertGreater(said["worker started"]["tasks"], 3)
        self.assertEqual(16, said["leases acquired"]["acquired"])
        self.assertEqual(16, said["leases released"]["released"])
        self.assertIn("worker stopped", said)
        ticks = [line for line in lines if line["message"] == "tick finished" and line["level"] == "debug"]
        self.assertEqual((1, 1), (sum(t["claimed"] for t in ticks), sum(t["applied"] for t in ticks)))

    def wait_until(self, condition):
        for _ in range(600):
            if condition():
                return
            time.sleep(0.1)
        self.fail("it did not happen")

    def test_work_runs_until_it_is_stopped_and_applies_new_events_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            worker = self.start("work", "--interval-ms", "60000", "-o", "json")
            before = self.found() or 0
            self.count()
            self.wait_until(lambda: self.found() == before + 1)
            self.count()
            self.wait_until(lambda: self.found() == before + 2)
            answer = interrupt(worker, number)
            self.assertEqual((0, ""), (answer.code, answer.err))
            self.assertEqual(2, sum(json.loads(t)["applied"] for t in answer.out.splitlines()))

    def test_a_stop_under_load_leaves_no_lease_and_nothing_in_flight(self):
        count = 30000
        self.ok("work", "--drain", "--silent")  # it is live: the queue feeds it
        self.ok("event", "import", "-", "--quiet", stdin="".join(
            f'{{"stream":"s{i % 50}","type":"counted","data":{{"who":"ada","by":1}},"id":"e{i}"}}\n'
            for i in range(count)))
        worker = self.start("work", "--silent")
        self.wait_until(lambda: self.found())
        self.assertEqual(0, interrupt(worker, signal.SIGTERM).code)
        summary = self.ok("outbox", "report", "-o", "json").json()["summary"]
        self.assertEqual((0, count), (summary["processing"], summary["pending"] + self.found()))
        self.assertEqual([], self.ok("worker", "ls", "-o", "json").json())
        for lease in self.ok("lease", "ls", "-o", "json").json():
            self.assertIsNone(lease["holder"])
        self.ok("work", "--drain", "--silent")
        self.assertEqual(count, self.found())

    def test_a_second_signal_ends_the_worker_at_once_and_nothing_is_lost(self):
        self.ok("work", "--drain", "--silent")
        short = {"EVERFOLD_WORKER_LEASE_TTL": "1s"}
        worker = self.start("work", "--silent", env=short)
        self.wait_until(lambda: self.ok("worker", "ls", "-o", "json").json())
        lock = sqlite3.connect(self.data / "views.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        self.count()
        self.wait_until(lambda: self.ok("outbox", "report", "-o",
                                        "json").json()["summary"]["processing"])
        worker.send_signal(signal.SIGTERM)
        time.sleep(1.5)  # a signal within a second of the first is the same request
        self.assertIsNone(worker.poll())  # it waits for the views, to finish the batch in flight
        asked = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
        self.assertLess(time.monotonic() - asked, 60)  # the lock is never released before
        self.assertNotEqual(0, worker.returncode)
        lock.execute("ROLLBACK")
        lock.close()

        def drained():
            self.ok("work", "--drain", "--silent", env=short)
            return self.found() == 1
        self.wait_until(drained)
        self.assertEqual(0, self.ok("status", "-o", "json").json()["unaccounted"])

    def test_a_mode_without_a_worker_is_refused(self):
        self.refused(2, "work", "--once", env={"EVERFOLD_MODE": "enqueue_only"}, saying="has no workers")

    def test_a_shadow_changes_nothing_and_compares(self):
        self.ok("work", "--drain")
        mode = {"EVERFOLD_MODE": "shadow_only"}
        for _ in range(3):
            self.count(env=mode)
        self.assertEqual(3, self.found())
        leases = self.ok("lease", "ls", "-o", "json").json()
        before = self.ok("outbox", "report", "-o", "json").out
        shadow = self.ok("work", "--drain", "-o", "json", env=mode).lines()[-1]
        self.assertEqual(("counter", 3, 0, True),
                         tuple(shadow[k] for k in ("shadow_of", "applied", "failed", "same")))
        self.assertEqual(shadow["digest"], shadow["live_digest"])
        self.assertEqual(before, self.ok("outbox", "report", "-o", "json").out)
        rows = self.ok("lease", "ls", "-o", "json").json()
        own = [row for row in rows if (row["name"] or "").startswith("*:shadow:")]
        self.assertEqual([row for row in rows if row not in own], leases)
        self.assertEqual((16, {False}), (len(own), {row["live"] for row in own}))  # held, and given back
        self.count()  # queued, and not folded yet: the shadow is ahead
        self.assertIn("DIFFERENT", self.ok("work", "--drain", "--shadow").out)
        self.ok("work", "--drain")
        self.assertIn("the same", self.ok("work", "--drain", "--shadow").out)

    def test_a_new_projection_catches_up_with_existing_events(self):
        self.ok("event", "import", SHOP / "events.ndjson")
        self.ok("work", "--drain")
        self.ok("projection", "deploy", SHOP / "products.fold")
        self.ok("work", "--drain")
        live = self.ok("projection", "show", "products", "-o", "json").json()
        self.assertEqual(("live", 200, 0, 0), tuple(live[k] for k in
                         ("state", "position", "lag_events", "unaccounted")))
        self.assertEqual(5, live["views"])


class Inline(Counter):
    """Appending in the modes that fold at once."""

    def go_live(self):
        self.ok("work", "--drain")

    def test_append_folds_at_once(self):
        self.go_live()
        for n, mode in enumerate(("inline_apply_only", "inline_then_outbox"), 1):
            self.count(env={"EVERFOLD_MODE": mode})
            self.assertEqual(n, self.found())

    def test_import_folds_at_once(self):
        self.go_live()
        lines = "".join(f'{{"stream":"s{i % 3}","type":"counted","id":"e{i}",'
                        f'"data":{{"who":"ada","by":1}}}}\n' for i in range(50))
        for mode in ("inline_apply_only", "inline_then_outbox"):
            self.ok("event", "import", "-", "--batch", "7", stdin=lines,
                    env={"EVERFOLD_MODE": mode})
            self.assertEqual(50, self.found())

    def test_a_worker_after_an_inline_append_applies_nothing_twice(self):
        self.go_live()
        self.count(env={"EVERFOLD_MODE": "inline_then_outbox"})
        self.ok("work", "--drain")
        self.assertEqual(1, self.found())

    def test_an_event_that_cannot_be_folded_is_appended_all_the_same(self):
        self.go_live()
        place = self.ok("event", "append", "s", "--type", "counted", "--data",
                        '{"who":"ada","by":"x"}', "-o", "json",
                        env={"EVERFOLD_MODE": "inline_then_outbox"}).json()
        self.assertEqual(1, place["position"])
        self.assertIsNone(self.found())
        self.assertEqual(1, self.ok("projection", "show", "counter", "-o", "json").json()["failures"])
