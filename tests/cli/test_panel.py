"""The panel of work on a terminal."""
import re
import signal
import sqlite3
import time

from support import TIME_LIMIT_S, interrupt
from terminal import Terminal
from test_work import Counter

SIZES = ((60, 20), (100, 30), (160, 50))


class Panel(Counter):
    def panel(self, *words, size=(100, 30), **more):
        return Terminal(self, ["work", *words], *size, **more)

    def fail_once(self):
        self.ok("event", "append", "bad", "--type", "counted", "--data", '{"who":"ada","by":"x"}')

    def test_the_panel_fits_every_terminal_size(self):
        for _ in range(3):
            self.count()
        self.ok("work", "--drain")
        self.fail_once()
        for size in SIZES:
            terminal = self.panel(size=size)
            terminal.shows("^everfold work  outbox_apply_only  up 0:00:", r"worker \S+-\d+-",
                           "workers 1 live", r"refresh in \d", r"heartbeat \d+ s ago",
                           "acks survive: process crash yes", "applied ", "/s over 10 s", "▁▁▁",
                           "desired 16", "owned 16", "leased 16", "released 0",
                           "queue (idle|working)", "cursor-1 idle",
                           r"counter v1 +live +0 +0.0 +1 +1 +0", r"counter: bad seq 1: ",
                           "q quit  p pause  e errors  [?] help$")
            self.assertTrue(terminal.screen.other)
            self.assertFalse(terminal.screen.cursor)
            terminal.press("q")
            self.assertEqual(0, terminal.end())
            terminal.is_restored()
            self.assertRegex(terminal.screen.normal, r"^\d+ ticks?  claimed ")

    def test_new_events_are_seen_and_counted(self):
        self.ok("work", "--drain")
        terminal = self.panel()
        terminal.shows("owned 16")
        for _ in range(4):
            self.count()
        terminal.shows("claimed 4", "applied 4", "counter v1 +live +0 +0.0 +1 +0 +0", "[▂▃▄▅▆▇█]")
        self.assertEqual(4, self.found())
        terminal.press("\x03")
        self.assertEqual(0, terminal.end())
        terminal.is_restored()
        self.assertIn("applied 4", terminal.screen.normal)

    def test_sigterm_ends_the_panel_and_releases_the_leases(self):
        terminal = self.panel()
        terminal.shows("owned 16")
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, terminal.end())
        terminal.is_restored()
        self.assertEqual([], self.ok("worker", "ls", "-o", "json").json())

    def test_a_signal_that_kills_leaves_the_terminal_as_it_was(self):
        terminal = self.panel()
        terminal.shows("owned 16")
        terminal.process.send_signal(signal.SIGHUP)
        self.assertEqual(-signal.SIGHUP, terminal.end())
        terminal.is_restored()

    def test_a_second_signal_leaves_the_terminal_as_it_was(self):
        terminal = self.panel()
        terminal.shows("owned 16")
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            terminal.process.send_signal(number)
        # Mostly the second finds the first; when two threads take them at once it ends as by one.
        self.assertIn(terminal.end(), (128 + signal.SIGINT, 128 + signal.SIGTERM, 0))
        terminal.is_restored()

    def test_keys_turn_the_pages(self):
        self.fail_once()
        terminal = self.panel(size=(60, 20))
        terminal.shows("counter: bad seq 1: .*…")
        terminal.press("e")
        terminal.shows("ago: counter: bad seq 1: ")
        self.assertNotIn("throughput", terminal.screen.text())
        self.assertIn("needs a number", terminal.screen.text().replace("\n", ""))
        terminal.press("?")
        terminal.shows("q, Ctrl-C  quit", "pause and resume redrawing")
        terminal.press("?")
        terminal.shows("throughput")
        terminal.press("\x1b[A\x1b[5~\x1bOPq")  # an arrow, a page and F1 mean nothing
        self.assertEqual(0, terminal.end())

    def test_the_panel_pauses_and_resumes(self):
        terminal = self.panel()
        terminal.shows("owned 16")
        terminal.press("p")
        terminal.shows("paused$|paused\n")
        frames = terminal.screen.frames
        self.count()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            terminal.read(0.2)
        self.assertEqual(frames, terminal.screen.frames)
        terminal.press("p")
        terminal.shows("applied 1")
        self.assertNotIn("paused", terminal.screen.text())
        terminal.press("q")
        self.assertEqual(0, terminal.end())

    def test_the_panel_follows_the_size_of_the_terminal(self):
        terminal = self.panel(size=(160, 50))
        terminal.shows("owned 16")
        for size in ((60, 20), (100, 30)):
            terminal.resize(*size)
            terminal.shows("owned 16", "q quit  p pause  e errors  [?] help$")

    def test_the_panel_is_drawn_at_most_four_times_a_second(self):
        terminal = self.panel("--interval-ms", "10")
        terminal.shows("owned 16")
        began, frames = time.monotonic(), terminal.screen.frames
        while time.monotonic() < began + 3:
            terminal.read(0.1)
        spent = time.monotonic() - began
        self.assertLessEqual(terminal.screen.frames - frames, spent * 4 + 2)
        self.assertGreater(terminal.screen.frames, frames)

    def test_names_cannot_speak_to_the_terminal(self):
        self.ok("event", "append", "s\x1b[2Jé\u202e", "--type", "counted", "--data",
                '{"who":"ada","by":"x"}')
        terminal = self.panel()
        terminal.shows(re.escape("counter: s\\u001b[2Jé\\u202e seq 1"))

    def test_errors_of_the_stores_are_shown_and_printed_again_at_the_end(self):
        self.ok("work", "--drain")
        terminal = self.panel(env={"EVERFOLD_STORE_BUSY": "200ms"})
        terminal.shows("owned 16")
        store = sqlite3.connect(self.data / "views.db", isolation_level=None)
        self.addCleanup(store.close)
        store.execute("begin immediate")
        self.count()
        terminal.shows(r"queue retrying \(\d+ failures\)", r"\d+ s +queue: ")
        self.assertEqual("", terminal.screen.normal)
        store.execute("rollback")
        terminal.shows("applied 1", "queue idle")
        terminal.press("q")
        self.assertEqual(0, terminal.end())
        terminal.is_restored()
        self.assertIn("everfold: queue: ", terminal.screen.normal)

    def test_no_leasing_has_no_name_among_the_workers(self):
        terminal = self.panel("--no-leasing")
        terminal.shows("worker single worker", "workers 0 live", "owned 16")


class NoPanel(Counter):
    """Where it does not belong."""

    def test_quiet_silent_json_and_dumb_terminals_have_none(self):
        for words, term in ((["--silent"], "xterm"), (["--quiet"], "xterm"),
                            (["-o", "json"], "xterm"), ([], "dumb")):
            terminal = Terminal(self, ["work", *words], 80, 24, env={"TERM": term})
            terminal.until(lambda: len(self.ok("worker", "ls", "-o", "json").json()) == 1)
            terminal.process.send_signal(signal.SIGINT)
            self.assertEqual(0, terminal.end())
            self.assertEqual(0, terminal.screen.frames)
            self.assertNotIn("throughput", terminal.screen.normal)

    def test_a_window_is_a_line_if_stdout_is_no_terminal(self):
        worker = self.start("work", "--window", "1")
        for _ in range(3):
            self.count()
        lines = [worker.stdout.readline().decode().rstrip("\n") for _ in range(2)]
        end = time.monotonic() + TIME_LIMIT_S
        while self.found() != 3 and time.monotonic() < end:
            time.sleep(0.1)
        answer = interrupt(worker, signal.SIGTERM)
        self.assertEqual((0, ""), (answer.code, answer.err))
        lines += answer.out.splitlines()
        self.assertGreaterEqual(len(lines), 3)
        for line in lines[:-1]:
            self.assertRegex(line, r"^\d{4}-\S+Z  claimed \d+  caught up \d+  applied \d+  ignored "
                                   r"\d+  failed \d+  dead \d+  [\d.]+/s$")
        self.assertRegex(lines[-1], r"^\d+ ticks?  claimed .*  in [\d.]+ s$")
        self.assertNotIn("\x1b", answer.out)
        total = int(re.search(r"applied (\d+)", lines[-1]).group(1))
        self.assertEqual(3, total)
        self.assertLessEqual(sum(int(re.search(r"applied (\d+)", l).group(1)) for l in lines[:-1]), 3)

    def test_without_a_window_only_the_totals_are_printed(self):
        worker = self.start("work")
        self.count()
        for _ in range(600):
            if self.found() == 1:
                break
            time.sleep(0.1)
        answer = interrupt(worker)
        self.assertEqual((0, ""), (answer.code, answer.err))
        self.assertEqual(1, len(answer.out.splitlines()))
        self.assertIn("applied 1", answer.out)

    def test_a_window_has_bounds(self):
        self.refused(2, "work", "--window", "0", saying="--window")
        self.refused(2, "work", "--window", "3601", saying="--window")
