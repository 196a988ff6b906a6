"""A worker without work stays listed, as idle, everywhere where workers are listed."""
import time

from kit import CUSTOMERS_FOLD, Journey, customer_totals, from_json, orders, wait_until

MINUTE_S = 60


class Idle(Journey):
    def places(self):
        """The one worker as each place shows it: (state, live)."""
        workers = self.ef("worker", "ls", "-o", "json").json()
        served = self.http("GET", "/v1/workers").json()
        top = from_json(self.ef("top", "--once", "-o", "json").out.splitlines()[0])["workers"]
        return [[(w["state"], w["live"]) for w in rows] for rows in (workers, served, top)]

    def check_listed_as(self, state):
        self.assertEqual([[(state, True)]] * 3, self.places())

    def check_counts(self):
        """`status` and the monitor: one worker is live, and it is the idle one."""
        status = self.ef("status", "-o", "json").json()["workers"]
        self.assertEqual({"live": 1, "known": 1, "idle": 1}, status)
        self.assertEqual(status, self.http("GET", "/v1/overview").json()["workers"])
        self.assertIn("1 live of 1, 1 idle", self.ef("status").out)

    def state(self):
        rows = self.http("GET", "/v1/workers").json()
        return rows[0]["state"] if len(rows) == 1 else f"{len(rows)} workers"

    def test_a_worker_that_is_idle_for_over_a_minute_is_listed_everywhere(self):
        events = list(orders(1000))
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.serve("--workers", "0")
        work = self.start("work")
        wait_until(lambda: self.state() == "working", "the worker is listed as working")
        wait_until(lambda: self.state() == "idle", "the worker is listed as idle")
        self.assertEqual(0, sum(p["live"] for p in self.http("GET", "/v1/partitions").json()))

        # It is listed at every moment of more than a minute, and its heartbeat is written at most twice in it.
        written, end = set(), time.monotonic() + MINUTE_S + 8
        while time.monotonic() < end:
            rows = self.http("GET", "/v1/workers").json()
            self.assertEqual([("idle", True, [])], [(w["state"], w["live"], w["target_partitions"]) for w in rows])
            written.add(rows[0]["updated_at"])
            time.sleep(0.5)
        self.assertLessEqual(len(written), 2 + 1)
        self.assertGreaterEqual(len(written), 2, "the idle heartbeat is renewed")
        self.check_listed_as("idle")
        self.check_counts()

        # The first events wake it.
        self.import_events(events)
        wait_until(lambda: self.customer_views() == customer_totals(events), "all events are applied")
        self.check_listed_as("working")

        # A worker that stops is not listed any more.
        self.assertEqual(0, self.end(work))
        self.assertEqual([[], [], []], self.places())

    def test_an_idle_worker_takes_a_share_of_the_partitions_only_when_there_is_work(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.serve("--workers", "0")
        self.start("work", log="one.log")
        self.start("work", log="two.log")
        wait_until(lambda: sorted(w["state"] for w in self.http("GET", "/v1/workers").json()) == ["idle", "idle"],
                   "two idle workers")
        events = list(orders(200))
        self.import_events(events)
        wait_until(lambda: self.customer_views() == customer_totals(events), "all events are applied")

        def owners():
            rows = self.http("GET", "/v1/partitions").json()
            return sorted(sum(p["holder"] == w and p["live"] for p in rows) for w in {p["holder"] for p in rows if p["live"]})
        wait_until(lambda: owners() == [8, 8], "two workers with eight partitions each")
