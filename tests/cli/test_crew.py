"""lease ls, worker ls, partition ls and sync; and workers that are processes of their own."""
import signal
import time

from support import TIME, TIME_LIMIT_S, Case
from test_fold import COUNTER

LEASE_KEYS = ["kind", "name", "partition", "holder", "until", "ttl_ms", "token", "live", "updated_at"]
WORKER_KEYS = ["id", "host", "pid", "started_at", "updated_at", "heartbeat_until", "ttl_ms", "live",
               "target_partitions", "state"]
PARTITION_KEYS = ["partition", "holder", "lease_until", "ttl_ms", "epoch", "live", "pending", "in_flight",
                  "retry_rows"]


class Crew(Case):
    def setUp(self):
        super().setUp()
        self.ok("init", "--partitions", "4")
        self.ok("projection", "deploy", self.write("counter.fold", COUNTER))
        self.running = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

    def hire(self, **more):
        process = self.start("work", "--silent", "--interval-ms", "100", **more)
        self.running.append(process)
        return process

    def wait_until(self, condition, seconds=TIME_LIMIT_S):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.1)
        self.fail("it did not come about in time")

    def partitions(self):
        return self.ok("partition", "ls", "-o", "json").json()

    def owners(self):
        """How many partitions each live owner has."""
        found = {}
        for partition in self.partitions():
            if partition["live"]:
                found[partition["holder"]] = found.get(partition["holder"], 0) + 1
        return sorted(found.values())

    def append(self, count, stream="s"):
        for i in range(count):
            self.ok("event", "append", f"{stream}{i % 7}", "--type", "counted", "--data",
                    '{"who":"ada","by":1}')

    def folded(self):
        answer = self.run_it("view", "get", "counter", "ada", "-o", "json")
        return answer.json()["data"]["n"] if answer.code == 0 else 0


class Listing(Crew):
    def test_leases_and_workers_are_empty_before_the_first_worker(self):
        self.assertEqual([], self.ok("lease", "ls", "-o", "json").json())
        self.assertEqual([], self.ok("worker", "ls", "-o", "json").json())
        self.assertIn("no workers", self.ok("worker", "ls").err)
        self.assertIn("no leases", self.ok("lease", "ls").err)
        found = self.partitions()
        self.assertEqual(["p00", "p01", "p02", "p03"], [p["partition"] for p in found])
        for partition in found:
            self.assertEqual(PARTITION_KEYS, list(partition))
            self.assertIsNone(partition["holder"])
            self.assertIsNone(partition["ttl_ms"])
            self.assertFalse(partition["live"])

    def test_pending_rows_are_counted_by_partition(self):
        self.append(7)
        self.assertEqual(7, sum(p["pending"] for p in self.partitions()))
        self.ok("work", "--drain", "--silent")
        self.assertEqual(0, sum(p["pending"] for p in self.partitions()))

    def test_a_worker_and_its_leases_are_shown(self):
        worker = self.hire()
        self.wait_until(lambda: self.owners() == [4])
        found, = self.ok("worker", "ls", "-o", "json").json()
        self.assertEqual(WORKER_KEYS, list(found))
        self.assertEqual(worker.pid, found["pid"])
        self.assertRegex(found["started_at"], TIME)
        self.assertTrue(found["live"])
        self.assertTrue(0 < found["ttl_ms"] <= 20000, found)
        self.assertEqual(["p00", "p01", "p02", "p03"], found["target_partitions"])
        leases = self.ok("lease", "ls", "--kind", "partition", "-o", "ndjson").lines()
        self.assertEqual(4, len(leases))
        for lease in leases:
            self.assertEqual(LEASE_KEYS, list(lease))
            self.assertEqual(("partition", found["id"], 1), (lease["kind"], lease["holder"],
                                                             lease["token"]))
            self.assertTrue(0 < lease["ttl_ms"] <= 10000, lease)
        table = self.ok("worker", "ls").out
        self.assertIn("working", table)
        self.assertIn("p00 p01 p02 p03", table)
        self.assertIn("p02", self.ok("partition", "ls").out)
        self.assertIn("partition", self.ok("lease", "ls").out)
        self.assertEqual([], self.ok("lease", "ls", "--kind", "publisher", "-o", "json").json())

    def test_an_unknown_kind_is_refused(self):
        self.refused(2, "lease", "ls", "--kind", "partitions", saying="sequencer")


class Sync(Crew):
    def test_the_count_is_raised_and_lowered(self):
        answer = self.ok("partition", "sync", "--count", "8", "-o", "json").json()
        self.assertEqual({"before": 4, "after": 8, "pruned": 0, "kept": 0, "dry_run": False}, answer)
        self.assertEqual(8, len(self.partitions()))
        self.assertIn("4 partitions, before 8", self.ok("partition", "sync", "--count", "4").out)
        self.assertIn("unchanged", self.ok("partition", "sync").out)
        self.assertEqual(4, self.ok("status", "-o", "json").json()["partitions"])

    def test_lowering_is_refused_while_rows_wait_beyond(self):
        self.append(7)
        waiting = sum(p["pending"] for p in self.partitions()[1:])
        self.refused(4, "partition", "sync", "--count", "1",
                     saying=f"{waiting} rows wait in partitions beyond the new count of 1 (p0")
        self.assertEqual(4, len(self.partitions()))
        self.ok("work", "--drain", "--silent")
        self.ok("partition", "sync", "--count", "1")
        self.append(3)
        self.ok("work", "--drain", "--silent")
        self.assertEqual(10, self.folded())

    def test_a_dry_run_changes_nothing(self):
        self.ok("work", "--drain", "--silent")
        answer = self.ok("partition", "sync", "--count", "2", "--prune", "--dry-run")
        self.assertIn("dry run: 2 partitions, now 4", answer.out)
        self.assertIn("dry run: pruned 2 leases", answer.out)
        self.assertEqual(4, len(self.partitions()))
        self.assertIn("pruned 2 leases", self.ok("partition", "sync", "--count", "2", "--prune").out)
        left = self.ok("lease", "ls", "--kind", "partition", "-o", "json").json()
        self.assertEqual([0, 1], [lease["partition"] for lease in left])

    def test_a_count_out_of_range_is_refused(self):
        for count in ("0", "1025", "many"):
            self.refused(2, "partition", "sync", "--count", count, saying="--count")

    def test_a_worker_follows_without_being_started_again(self):
        self.hire()
        self.wait_until(lambda: self.owners() == [4])
        self.ok("partition", "sync", "--count", "9")
        self.wait_until(lambda: self.owners() == [9])
        self.append(7)
        self.wait_until(lambda: self.folded() == 7)


class Processes(Crew):
    def test_two_workers_share_and_a_clean_stop_leaves_nothing(self):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and then it stays so
        first = self.hire()
        self.wait_until(lambda: self.owners() == [4])
        second = self.hire()
        self.wait_until(lambda: self.owners() == [2, 2])
        self.append(10)
        self.wait_until(lambda: self.folded() == 10)
        second.send_signal(signal.SIGTERM)
        second.wait(TIME_LIMIT_S)
        self.wait_until(lambda: self.owners() == [4])
        self.assertEqual(1, len(self.ok("worker", "ls", "-o", "json").json()))
        first.send_signal(signal.SIGHUP)  # its terminal is closed
        first.wait(TIME_LIMIT_S)
        self.assertEqual([], self.owners())
        self.assertEqual([], self.ok("worker", "ls", "-o", "json").json())
        self.assertEqual(0, self.ok("outbox", "report", "-o", "json").json()["summary"]["processing"])

    def check_take_over(self, lease_seconds, **how):
        """Kill one of two; its partitions pass on when its leases run out, and a second later at the
        latest, which a busy machine may make many of."""
        first, second = self.hire(**how), self.hire(**how)
        self.wait_until(lambda: self.owners() == [2, 2])
        first.kill()
        killed = time.monotonic()
        self.append(10)
        self.wait_until(lambda: self.owners() == [4])
        self.assertLess(time.monotonic() - killed, lease_seconds + 30)
        self.wait_until(lambda: self.folded() == 10)
        self.assertIsNone(second.poll())
        found = {worker["pid"]: worker for worker in self.ok("worker", "ls", "-o", "json").json()}
        self.assertIn(found[first.pid]["state"], ("late", "stale"))
        self.assertEqual([], found[first.pid]["target_partitions"])
        self.assertEqual(("working", 4), (found[second.pid]["state"],
                                       len(found[second.pid]["target_partitions"])))

    def test_a_killed_worker_is_replaced_when_its_leases_run_out(self):
        self.check_take_over(10)

    def test_a_worker_with_a_short_lease_is_replaced_soon(self):
        self.check_take_over(1, env={"EVERFOLD_WORKER_LEASE_TTL": "1s"})

    def test_a_stopped_worker_comes_back_and_nothing_is_folded_twice(self):
        first = self.hire()
        self.wait_until(lambda: self.owners() == [4])
        self.append(5)
        self.wait_until(lambda: self.folded() == 5)
        first.send_signal(signal.SIGSTOP)
        second = self.hire()
        self.append(10)
        self.wait_until(lambda: self.folded() == 15)
        first.send_signal(signal.SIGCONT)
        self.append(10)
        self.wait_until(lambda: self.folded() == 25)
        self.wait_until(lambda: self.owners() == [2, 2])
        self.assertEqual(25, self.folded())
        self.assertIsNone(second.poll())
