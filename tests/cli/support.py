"""What the tests share: a data directory, the binary, and what it answered."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = None
FIXTURE = None

EVENT_KEYS = ["tenant", "stream", "seq", "position", "id", "type", "schema", "time", "recorded_at",
              "data", "meta"]
APPEND_KEYS = ["stream", "seq", "position", "id", "duplicate", "token"]
ROW_KEYS = ["lane", "tenant", "stream", "seq", "position", "partition", "event_type", "status", "attempt_count",
            "next_attempt_at", "last_error", "enqueued_at", "updated_at", "published_at"]
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"
TIME_LIMIT_S = 120


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def problem(self):
        return json.loads(self.err.splitlines()[-1])


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="everfold-cli-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = self.dir / "data"

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith("EVERFOLD_") and k not in ("NO_COLOR", "COLUMNS", "USER")}
        kept.update({"EVERFOLD_DATA": str(self.data), "USER": "tester"})
        kept.update(more)
        return {k: v for k, v in kept.items() if v is not None}

    def run_it(self, *words, stdin="", env=None, cwd=None):
        done = subprocess.run([BINARY, *map(str, words)], input=stdin.encode(),
                              capture_output=True, env=self.environment(**(env or {})),
                              cwd=cwd or self.dir, timeout=TIME_LIMIT_S)
        err = done.stderr.decode("utf-8", "replace")
        self.assertNotIn("Sanitizer", err)
        self.assertNotIn("runtime error", err)
        return Answer(done.returncode, done.stdout.decode("utf-8"), err)

    def start(self, *words, env=None, before=(), **more):
        return subprocess.Popen([*before, BINARY, *map(str, words)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.environment(**(env or {})),
                                cwd=self.dir, **more)

    def ok(self, *words, **more):
        answer = self.run_it(*words, **more)
        self.assertEqual(0, answer.code, f"{words}: {answer.err}{answer.out}")
        return answer

    def leaves(self, *words, **more):
        """A drain that ends with events that failed, are blocked, or cannot be published."""
        answer = self.run_it(*words, **more)
        self.assertEqual(6, answer.code, f"{words}: {answer.err}{answer.out}")
        self.assertIn("not everything is applied: ", answer.err.splitlines()[-1])
        return answer

    def refused(self, code, *words, saying="", **more):
        answer = self.run_it(*words, **more)
        self.assertEqual(code, answer.code, f"{words}: {answer.err}{answer.out}")
        self.assertEqual("", answer.out)
        self.assertIn(saying, answer.err)
        return answer

    def init(self):
        return self.ok("init")

    def append(self, stream="s", type="t.happened", data="{}", *more):
        return self.ok("event", "append", stream, "--type", type, "--data", data, "-o", "json",
                       *more).json()

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def fixture(self, lane, *words):
        done = subprocess.run([FIXTURE, f"sqlite:{self.data}/journal.db", lane, *map(str, words)],
                              capture_output=True, text=True, env=self.environment(),
                              timeout=TIME_LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout


class Shop(Case):
    """A dozen events folded into three views: the same answers whatever the stores are."""
    PROGRAM = """projection shop version 1
  view data.who
  index total

on bought
  n += 1
  total += data.price
"""
    EXPECTED = [("w2", 4, 26), ("w1", 4, 22), ("w0", 4, 18)]

    def fold_some(self):
        self.ok("init")
        self.ok("projection", "deploy", self.write("shop.fold", self.PROGRAM))
        for i in range(12):
            self.append(f"s{i % 4}", "bought", json.dumps({"who": f"w{i % 3}", "price": i}))
        self.ok("work", "--drain", "--silent")

    def totals(self, *more):
        rows = self.ok("view", "query", "shop", "--sort", "-total", "-o", "ndjson", *more).lines()
        return [(r["view_id"], r["data"]["n"], r["data"]["total"]) for r in rows]

    def check_shop(self):
        self.fold_some()
        self.assertEqual(self.EXPECTED, self.totals())
        self.assertEqual(self.EXPECTED[:1], self.totals("--where", "total > 22"))
        self.assertIn("index", self.ok("view", "query", "shop", "--where", "total > 22",
                                       "--explain").out)
        before = self.ok("projection", "show", "shop", "-o", "json").json()["digest"]
        self.ok("projection", "rebuild", "shop", "--in-place", "--wait")
        self.assertEqual(before, self.ok("projection", "show", "shop", "-o", "json").json()["digest"])
        self.ok("projection", "verify", "shop")
        self.assertEqual(self.EXPECTED, self.totals())


def wait_for_handler(process, number):
    """Until the process handles a signal: before that, the signal ends it as it ends any program."""
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            caught = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
        if caught >> (number - 1) & 1:
            return
        time.sleep(0.02)
    raise AssertionError(f"signal {number} is not handled: {process.args}")


def interrupt(process, number=signal.SIGINT):
    process.send_signal(number)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    return Answer(process.returncode, out.decode(), err.decode())
