"""top: the overview of a journal on which others work."""
import json
import signal
import time

from support import TIME, interrupt
from terminal import Terminal
from test_work import Counter

TOP_KEYS = ["ts", "mode", "position", "appended_per_second", "outbox", "lanes", "projections",
            "unaccounted", "views_error", "workers", "partitions", "runs", "errors"]
LANE_KEYS = ["lane", "pending", "processing", "failed", "dead", "blocked", "oldest_seconds",
             "blocked_seconds"]
WORKER_KEYS = ["id", "host", "pid", "live", "state", "heartbeat_seconds", "partitions"]


class Top(Counter):
    def once(self):
        return self.ok("top", "--once", "-o", "json").json()

    def files(self):
        """Everything of the stores that is for good."""
        return {p.name: p.read_bytes() for p in self.data.iterdir() if p.name.endswith((".db", ".head"))}

    def wait_until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not happen")
            time.sleep(0.1)

    def hire(self):
        worker = self.start("work", "--silent")
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        self.wait_until(lambda: self.once()["partitions"]["owned"] == 16)
        return worker

    def test_an_object_has_lanes_projections_workers_and_partitions(self):
        self.ok("work", "--drain")
        self.count()
        self.count()
        self.fixture("counter", "s", 1, "dead", "no total", "s", 2, "pending", "")
        self.count()
        found = self.once()
        self.assertEqual(TOP_KEYS, list(found))
        self.assertRegex(found["ts"], TIME)
        lanes = {lane["lane"]: lane for lane in found["lanes"]}
        self.assertEqual({"*", "counter"}, set(lanes))
        self.assertEqual(LANE_KEYS, list(lanes["*"]))
        self.assertEqual((1, 0), (lanes["*"]["pending"], lanes["*"]["dead"]))
        self.assertGreater(lanes["*"]["oldest_seconds"], 0)
        self.assertEqual((1, 1, 1), tuple(lanes["counter"][k] for k in ("pending", "dead", "blocked")))
        self.assertIsNone(lanes["counter"]["oldest_seconds"])
        self.assertGreater(lanes["counter"]["blocked_seconds"], 0)
        self.assertEqual(["counter"], [p["name"] for p in found["projections"]])
        self.assertEqual([], found["workers"])
        self.assertEqual({"count": 16, "owned": 0, "free": 16}, found["partitions"])
        self.assertEqual({"queued": 0, "running": 0}, found["runs"])

    def test_once_is_a_frame_of_plain_text_also_in_a_pipe(self):
        self.ok("work", "--drain")
        self.count()
        out = self.ok("top", "--once").out
        for words in ("everfold top  outbox_apply_only", "position 1", "LANE ", "PROJECTION ",
                      "WORKER ", "no worker is running", "of 16  owned 0  free 16", "counter v1"):
            self.assertIn(words, out)
        self.assertNotIn("\x1b", out)
        self.assertNotIn("q quit", out)
        for width in (20, 60, 100, 160):
            for line in self.ok("top", "--once", env={"COLUMNS": str(width)}).out.splitlines():
                self.assertLessEqual(len(line), width)

    def test_top_changes_nothing_and_claims_nothing(self):
        self.count()
        before = self.files()
        leases = self.ok("lease", "ls", "-o", "json").out
        self.once()
        self.assertEqual(before, self.files())
        self.assertEqual((leases, []), (self.ok("lease", "ls", "-o", "json").out,
                                        self.ok("worker", "ls", "-o", "json").json()))

    def test_top_shows_the_workers_of_other_processes(self):
        self.hire()
        found = self.once()
        self.assertEqual(WORKER_KEYS, list(found["workers"][0]))
        self.assertEqual((1, True, 16), (len(found["workers"]), found["workers"][0]["live"],
                                         found["workers"][0]["partitions"]))

    def test_top_prints_an_object_per_interval_until_it_is_stopped(self):
        process = self.start("top", "--interval", "200ms", "-o", "json")
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        self.count()
        while lines[-1]["position"] == 0:
            lines.append(json.loads(process.stdout.readline()))
            self.assertLess(len(lines), 300)
        self.assertEqual([0, 0], [l["position"] for l in lines[:2]])
        self.assertGreater(lines[-1]["appended_per_second"], 0)
        answer = interrupt(process, signal.SIGTERM)
        self.assertEqual((0, ""), (answer.code, answer.err))

    def test_frames_come_each_interval_without_a_terminal(self):
        process = self.start("top", "--interval", "200ms")
        text = ""
        while text.count("everfold top") < 2:
            text += process.stdout.readline().decode()
        answer = interrupt(process)
        self.assertEqual((0, ""), (answer.code, answer.err))
        self.assertNotIn("\x1b", text)

    def test_the_panel_of_top_fits_every_terminal_size(self):
        self.hire()
        for size in ((60, 20), (100, 30), (160, 50)):
            terminal = Terminal(self, ["top", "--interval", "200ms"], *size)
            before = self.found() or 0
            self.count()
            terminal.shows("^everfold top", f"position {before + 1} ", "of 16  owned 16  free 0",
                           "LANE +PENDING", r"\* +0 +0", f"counter v1 +live +0 +0.0 +1 +0 +0",
                           r"WORKER +PID", "live", "q quit")
            terminal.press("q")
            self.assertEqual(0, terminal.end())
            terminal.is_restored()
            self.assertEqual("", terminal.screen.normal)

    def test_the_panel_ends_on_sigterm(self):
        terminal = Terminal(self, ["top"], 40, 30)
        terminal.shows("q quit", "^everfold top.{27}…\n")  # cut, and its last column is there
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, terminal.end())
        terminal.is_restored()

    def test_top_without_views_shows_the_rest(self):
        for path in self.data.glob("views.db*"):
            path.unlink()
        self.count()
        self.assertEqual((1, [], None), tuple(self.once()[k] for k in
                         ("position", "projections", "views_error")))
        (self.data / "views.db").write_text("this is no database, but it is long enough " * 20)
        self.assertIn("views.db is not an SQLite database", self.once()["views_error"])
        self.assertIn("the views cannot be read: ", self.ok("top", "--once").out)

    def test_what_it_cannot_do_is_refused(self):
        self.refused(2, "top", "--interval", "1ms", saying="--interval")
        self.refused(2, "top", "--interval", "soon", saying="interval")
        self.refused(3, "top", "--once", env={"EVERFOLD_DATA": str(self.dir / "none")},
                     saying="run: everfold init")
