"""A journal that was put back from an older copy, and views that are ahead of it."""
import shutil
import time

from support import Case
from test_fold import COUNTER


class Alarm(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("projection", "deploy", self.write("counter.fold", COUNTER))

    def count(self, who, stream="s"):
        self.append(stream, "counted", f'{{"who":"{who}","by":1}}')

    def work(self, leaves=False):
        (self.leaves if leaves else self.ok)("work", "--drain", "--silent")

    def folded(self, who):
        answer = self.run_it("view", "get", "counter", who, "-o", "json")
        return answer.json()["data"]["n"] if answer.code == 0 else 0

    def put_back_an_older_journal(self):
        """Seq 2 of the stream is folded, lost, and another one takes its place."""
        self.count("ada")
        self.work()
        copy = self.dir / "copy"
        shutil.copytree(self.data, copy)
        self.count("ada")
        self.work()
        for path in self.data.glob("journal*"):
            path.unlink()
        for path in copy.glob("journal*"):
            shutil.copy(path, self.data / path.name)
        self.assertEqual(2, self.folded("ada"))
        self.count("bob")
        self.work(leaves=True)

    def failures(self, *more):
        return self.ok("projection", "failures", "counter", "-o", "json", *more).json()

    def test_an_older_journal_is_detected_and_blocks_the_stream(self):
        self.put_back_an_older_journal()
        found, = self.failures()
        self.assertEqual(("hash_mismatch", "s", 2), (found["code"], found["stream"], found["seq"]))
        self.count("bob")
        self.count("cyd", "t")
        self.work(leaves=True)
        self.assertEqual((2, 0, 1), (self.folded("ada"), self.folded("bob"), self.folded("cyd")))
        rows = self.ok("outbox", "report", "-o", "json").json()["rows"]
        self.assertEqual([("counter", 2), ("counter", 3)], [(r["lane"], r["seq"]) for r in rows])
        self.assertIn("is not the event that projection", rows[0]["last_error"])
        self.assertIn("waits: seq 2", rows[1]["last_error"])

    def test_a_skip_accepts_the_event_and_continues(self):
        self.put_back_an_older_journal()
        self.count("bob")
        self.ok("outbox", "skip", "s", "2", "--lane", "counter", "--reason", "an older copy")
        self.work()
        self.assertEqual((2, 1), (self.folded("ada"), self.folded("bob")))
        self.assertEqual([], self.failures())
        self.assertEqual(1, len(self.failures("--all")))
        self.assertEqual([], self.ok("outbox", "report", "-o", "json").json()["rows"])

    def test_a_rebuild_has_the_events_of_the_journal(self):
        self.put_back_an_older_journal()
        self.count("bob")
        self.ok("projection", "rebuild", "counter", "--in-place", "--wait")
        self.assertEqual((1, 2), (self.folded("ada"), self.folded("bob")))
        self.assertEqual([], self.failures())
        # The rows that waited go when it is their time: there is nothing left to do for them.
        end = time.monotonic() + 120
        while self.ok("outbox", "report", "-o", "json").json()["rows"]:
            self.assertLess(time.monotonic(), end)
            self.run_it("work", "--drain", "--silent")
        self.assertEqual((1, 2), (self.folded("ada"), self.folded("bob")))
        self.assertEqual(0, self.ok("projection", "show", "counter", "-o",
                                    "json").json()["unaccounted"])
