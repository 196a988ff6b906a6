"""Many rows wait behind a few failed events: commands and workers stay quick, and other streams are not affected."""
import signal
import time

import kit
from kit import Journey, on_stores, wait_until

STREAMS = 4
FEW, MANY = 10_000, 40_000  # rows behind the failed events

V1 = """projection totals version 1
  view stream
on paid
  total += data.amount
"""
V2 = """projection totals version 2
  view stream
on paid
  total += if is_number(data.amount) then data.amount else 0
"""


def blocked(first, last):
    """Events `first` to `last` of the streams. Version 1 fails on the first event of each stream."""
    for number in range(first, last):
        stream, seq = number % STREAMS, number // STREAMS
        yield {"stream": f"s{stream}", "type": "paid", "id": f"{stream}-{seq}",
               "data": {"amount": "a text" if seq == 0 else 1}}


@on_stores("sqlite", "lmdb", "postgres")
class ManyRowsBehindAFailure(Journey):
    def rows(self):
        summary = self.ef("outbox", "report", "--lane", "totals", "--limit", "1", "-o", "json").json()["summary"]
        return summary["pending"] + summary["failed"] + summary["dead"]

    def settle(self, rows):
        """Runs a worker until both versions are live and `rows` rows wait in the lane of the projection."""
        worker = self.start("work")
        wait_until(lambda: [p["state"] for p in self.projection("totals")] == ["live", "live"], "both versions are live")
        wait_until(lambda: self.rows() == rows, f"{rows} rows are in the lane", 300)
        self.assertEqual(0, self.end(worker))

    def seconds(self, *words):
        """The best of three: a busy machine only makes it longer."""
        def once():
            began = time.monotonic()
            self.run_ef(*words)  # doctor reports that the test server does not sync
            return time.monotonic() - began
        return min(once() for _ in range(3))

    def measure(self):
        return {words: self.seconds(*words) for words in
                [("projection", "ls"), ("status",), ("outbox", "report"), ("doctor",)]}

    def test_commands_and_workers_do_not_slow_down_with_the_rows(self):
        self.ef("init")
        self.deploy(V1)
        self.deploy(V2, name="v2.fold")
        self.import_events(blocked(0, FEW), name="few.ndjson")
        self.settle(FEW)
        few = self.measure()
        self.import_events(blocked(FEW, MANY), name="many.ndjson")
        self.settle(MANY)
        many = self.measure()
        for words in few:  # linear is 4 times, quadratic 16 times
            self.assertLess(many[words], 8 * few[words] + 1, f"{words}: {few[words]} s, then {many[words]} s")
        self.other_streams_go_on()
        self.assert_totals()

    def other_streams_go_on(self):
        """A worker that starts now folds an event of another stream and stops when it is told to."""
        worker = self.start("work")
        began = time.monotonic()
        self.ef("event", "append", "other", "--type", "paid", "--data", '{"amount":5}')
        wait_until(lambda: self.run_ef("view", "get", "totals", "other").code == 0, "another stream is folded", 60)
        folded = time.monotonic() - began
        began = time.monotonic()
        self.assertEqual(0, self.end(worker, signal.SIGTERM))
        stopped = time.monotonic() - began
        self.assertLess(folded, 15, "an event of another stream is folded within seconds")
        self.assertLess(stopped, 10, "SIGTERM ends the worker within seconds")
        self.assertNotIn("lease", worker.log.read_text())

    def assert_totals(self):
        v1, v2 = sorted(self.projection("totals"), key=lambda p: p["version"])
        self.assertEqual((0, 0), (v1["unaccounted"], v2["unaccounted"]))
        self.ef("projection", "switch", "totals", "--version", "2")
        per_stream = MANY // STREAMS
        self.assertEqual({**{f"s{n}": {"total": per_stream - 1} for n in range(STREAMS)}, "other": {"total": 5}},
                         self.views("totals"))


if __name__ == "__main__":
    kit.unittest.main()
