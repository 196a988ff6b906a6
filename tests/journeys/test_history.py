"""What was done in each minute of the last day, over all processes and restarts."""
import datetime

from kit import CUSTOMERS_FOLD, Journey, on_stores, orders, wait_until


@on_stores("sqlite", "postgres")
class History(Journey):
    def minutes(self):
        return self.http("GET", "/v1/history?by=minute").json()

    def total(self, key):
        return sum(row[key] for row in self.minutes())

    def work_off(self, published):
        """A worker in a process of its own, until it has done everything; then it is stopped."""
        work = self.start("work")
        copy = self.dir / "copy.ndjson"
        wait_until(lambda: copy.exists() and len(copy.read_bytes().splitlines()) == published, f"{published} published")
        wait_until(lambda: all(p["lag_events"] == 0 for p in self.projection("customers")), "no lag")
        self.assertEqual(0, self.end(work))

    def test_the_minutes_of_all_processes_outlive_them(self):
        events = list(orders(3000))
        self.ef("init")
        for kind in ("order.placed", "order.cancelled"):
            self.ef("type", "set", kind, "--publish", "yes")
        self.deploy(CUSTOMERS_FOLD)
        self.ef("publisher", "add", "copy", "--to", f"file:{self.dir}/copy.ndjson")
        server = self.serve("--workers", "0")
        self.assertEqual([], self.minutes())
        begun = datetime.datetime.now(datetime.timezone.utc)

        self.import_events(events[:1000])
        self.work_off(1000)
        self.assertEqual((1000, 1000), (self.total("applied"), self.total("published")))
        self.import_events(events[1000:], name="more.ndjson")
        self.work_off(3000)
        self.assertEqual((3000, 3000), (self.total("applied"), self.total("published")))
        self.assertEqual((0, 0), (self.total("failed"), self.total("dead")))
        self.assertEqual(3000, self.total("appended"))

        rows = self.minutes()
        self.assertEqual(["at", "position", "appended", "applied", "published", "failed", "dead"], list(rows[0]))
        self.assertEqual(sorted(row["at"] for row in rows), [row["at"] for row in rows])
        self.assertEqual(len({row["at"] for row in rows}), len(rows))
        first = datetime.datetime.fromisoformat(rows[0]["at"].replace("Z", "+00:00"))
        self.assertEqual((0, 0), (first.second, first.microsecond))
        self.assertLess(abs((begun - first).total_seconds()), 300)

        # After a restart the server is a new process, and its own samples start from scratch.
        self.end(server)
        self.serve("--workers", "0")
        self.assertEqual(rows, self.minutes())

    def test_failures_and_dead_rows_are_counted(self):
        self.ef("init")
        self.deploy("projection picky version 1\n  view stream\n\non a\n  n += 1 / data.by\n", name="picky.fold")
        self.serve("--workers", "0")
        self.ef("event", "append", "s", "--type", "a", "--data", '{"by":0}')
        work = self.start("work", env={"EVERFOLD_RETRY_APPLY_BASE": "10ms", "EVERFOLD_RETRY_APPLY_ATTEMPTS": "3"})
        wait_until(lambda: self.ef("outbox", "report", "--status", "dead", "-o", "json").json()["rows"], "a dead row")
        self.end(work)
        self.assertGreaterEqual(self.total("failed"), 3)  # one more if it failed in the catch-up too
        self.assertEqual(1, self.total("dead"))

    def test_a_word_that_is_not_known_is_refused(self):
        self.ef("init")
        self.serve("--workers", "0")
        answer = self.http("GET", "/v1/history?by=hour")
        self.assertEqual(400, answer.status)
        self.assertIn("minute", answer.json()["error"]["message"] if "error" in answer.json() else str(answer.json()))
