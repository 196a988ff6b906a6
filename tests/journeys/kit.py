"""Shared code of the journeys.

A journey does what a user does: it starts from an empty directory, uses the command line, HTTP or SQL only, works on
an ordinary amount of data (100,000 events where volume matters) and compares the result with an oracle that is a few
lines of Python over the same input and shares no code with Everfold.

    @on_stores("sqlite", "lmdb", "postgres")
    class Imported(Journey):
        def test_drain_applies_every_imported_event(self):
            events = list(orders(100_000))
            self.ef("init")
            self.import_events(events)
            ...
            self.assertEqual(totals(events), self.views("customers"))

`on_stores` makes one class per store: Imported_sqlite, Imported_lmdb and so on. `self.stores` holds the options
`--journal` and `--views` of the store; `ef` passes them by the environment, as a user's settings would.
"""
import atexit
import collections
import decimal
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import postgres_server  # noqa: E402

EVERFOLD = None      # path of the binary, set by run.py
TIME_LIMIT_S = 300   # one command
WAIT_LIMIT_S = 120   # one condition; generous, because CI machines are busy
EVENTS = 100_000     # an ordinary amount


# --- input and oracle ------------------------------------------------------------------------------

CUSTOMERS_FOLD = """projection customers version 1
  view data.customer
  index total

on order.placed
  orders += 1
  total += data.amount

on order.cancelled
  orders -= 1
  total -= data.amount
"""


def orders(count, streams=2_000, customers=500, seed=1):
    """`count` events of `streams` orders. Every amount is a decimal with two digits. Ids are given, so that an import
    can be repeated."""
    rng = random.Random(seed)
    placed = {}
    for number in range(count):
        stream = f"order-{rng.randrange(streams)}"
        if stream in placed and rng.random() < 0.3:
            customer, amount = placed.pop(stream)
            kind = "order.cancelled"
        else:
            customer, amount = f"c{rng.randrange(customers)}", rng.randrange(1, 100_000)
            placed[stream] = (customer, amount)
            kind = "order.placed"
        yield {"stream": stream, "type": kind, "id": f"{seed}-{number}",
               "data": {"customer": customer, "amount": decimal.Decimal(amount) / 100}}


def customer_totals(events):
    """The oracle of CUSTOMERS_FOLD: customer -> (orders, total)."""
    totals = collections.defaultdict(lambda: [0, decimal.Decimal(0)])
    for event in events:
        sign = {"order.placed": 1, "order.cancelled": -1}.get(event["type"], 0)
        if sign:
            row = totals[event["data"]["customer"]]
            row[0] += sign
            row[1] += sign * event["data"]["amount"]
    return {customer: tuple(row) for customer, row in totals.items()}


class _Exact(json.JSONEncoder):
    """Writes decimals as plain JSON numbers."""

    def iterencode(self, o, _one_shot=False):
        return super().iterencode(_replace(o), _one_shot)


class _Number(float):
    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = str(text)
        return number

    def __repr__(self):
        return self.text


def _replace(value):
    if isinstance(value, decimal.Decimal):
        return _Number(value)
    if isinstance(value, dict):
        return {k: _replace(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_replace(v) for v in value]
    return value


def to_json(value):
    return json.dumps(value, cls=_Exact, separators=(",", ":"))


def from_json(text):
    return json.loads(text, parse_float=decimal.Decimal)


# --- servers ---------------------------------------------------------------------------------------

_server = None


def postgres():
    """One PostgreSQL server per test program, on loopback, in a directory of its own."""
    global _server
    if _server is None:
        _server = postgres_server.Server()
        atexit.register(_server.close)
    return _server


def postgres_database(name):
    """Creates an empty database and returns its URL."""
    server = postgres()
    subprocess.run([os.path.join(server.binaries, "psql"), "-qX", server.url, "-c", f"CREATE DATABASE {name}"],
                   check=True, stdin=subprocess.DEVNULL)
    return server.url.rsplit("/", 1)[0] + "/" + name


def sql(url, text):
    """Runs SQL with psql and returns what it prints, unaligned."""
    done = subprocess.run([os.path.join(postgres().binaries, "psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", url, "-f", "-"],
                          input=text, text=True, capture_output=True, timeout=TIME_LIMIT_S)
    if done.returncode:
        raise AssertionError(f"psql: {done.stderr}\n{text[:2000]}")
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, what, limit_s=WAIT_LIMIT_S):
    """Polls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not reached within {limit_s} s: {what}")
        time.sleep(0.05)


# --- the journey -----------------------------------------------------------------------------------

class Answer:
    """What a command printed and its exit code."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def json(self):
        return from_json(self.out)

    def lines(self):
        return [from_json(line) for line in self.out.splitlines()]

    def __str__(self):
        return f"everfold {' '.join(self.words)}\nexit {self.code}\n{self.out[-4000:]}{self.err[-4000:]}"


class Response:
    """An HTTP response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return from_json(self.body)

    def __str__(self):
        return f"HTTP {self.status} {self.body[:4000]!r}"


class Journey(unittest.TestCase):
    maxDiff = 4000
    STORE = "sqlite"

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="everfold-journey-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.stores = self.choose_stores(self.STORE)
        self.server_url = None

    def choose_stores(self, store):
        """Environment variables that select the stores, as a user would set them."""
        if store == "sqlite":
            return {}
        if store == "lmdb":
            return {"EVERFOLD_VIEWS": f"lmdb:{self.dir}/views"}
        if store == "postgres":
            url = postgres_database(f"j{os.getpid()}_{time.monotonic_ns()}")
            return {"EVERFOLD_JOURNAL": url, "EVERFOLD_VIEWS": url}
        raise ValueError(store)

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("EVERFOLD_", "PG"))}
        kept.update({"EVERFOLD_DATA": str(self.dir / "data"), "USER": "traveller", **self.stores, **more})
        return {k: v for k, v in kept.items() if v is not None}

    def run_ef(self, *words, stdin="", env=None):
        """Runs the command and returns the answer, whatever the exit code is."""
        words = [str(w) for w in words]
        done = subprocess.run([EVERFOLD, *words], input=stdin.encode(), capture_output=True, cwd=self.dir,
                              env=self.environment(**(env or {})), timeout=TIME_LIMIT_S)
        return Answer(words, done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"))

    def ef(self, *words, code=0, **more):
        """Runs the command and requires an exit code."""
        answer = self.run_ef(*words, **more)
        self.assertEqual(code, answer.code, str(answer))
        return answer

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_events(self, name, events):
        with open(self.dir / name, "w", encoding="utf-8") as f:
            for event in events:
                f.write(to_json(event) + "\n")
        return self.dir / name

    def import_events(self, events, *options, name="events.ndjson", **more):
        return self.ef("event", "import", self.write_events(name, events), "--quiet", *options, **more)

    def deploy(self, text, *options, name="program.fold"):
        return self.ef("projection", "deploy", self.write(name, text), *options)

    def projection(self, name):
        """All generations of a projection, as `projection ls` lists them."""
        rows = self.ef("projection", "ls", "-o", "json").json()
        return [row for row in rows if row["name"] == name]

    def views(self, projection, *options):
        """view id -> data, by `view export`."""
        rows = self.ef("view", "export", projection, *options).lines()
        return {row["view_id"]: row["data"] for row in rows}

    def customer_views(self, projection="customers"):
        """What `customer_totals` must equal."""
        return {customer: (data["orders"], decimal.Decimal(data["total"]))
                for customer, data in self.views(projection).items()}

    # --- processes

    def start(self, *words, env=None, log=None):
        """Starts a command in the background. It is ended when the test ends. Its output goes to a file, so that no
        pipe can fill or be held open by an orphan."""
        log = self.dir / (log or f"{words[0]}-{time.monotonic_ns()}.log")
        with open(log, "wb") as out:
            process = subprocess.Popen([EVERFOLD, *map(str, words)], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, cwd=self.dir, env=self.environment(**(env or {})))
        process.log = log
        self.addCleanup(self.end, process)
        return process

    def end(self, process, how=signal.SIGTERM):
        """Stops a process that `start` started and returns its exit code."""
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(timeout=WAIT_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"process did not stop: {process.args}\n{process.log.read_text()[-4000:]}")
        return process.returncode

    def serve(self, *options, env=None, ready=True):
        """Starts `serve` on a free port and waits until it answers. Sets `server_url`."""
        port = free_port()
        process = self.start("serve", "--listen", f"127.0.0.1:{port}", *options, env=env, log=f"serve-{port}.log")
        self.server_url = f"http://127.0.0.1:{port}"

        def answers():
            if process.poll() is not None:
                raise AssertionError(f"serve ended with {process.returncode}:\n{process.log.read_text()[-4000:]}")
            try:
                return self.http("GET", "/livez").status == 200
            except OSError:
                return False
        if ready:
            wait_until(answers, "serve answers")
        return process

    def http_as_owner(self, method, path, body=None):
        """One HTTP request as the user that runs the server, over its Unix socket."""
        c = http.client.HTTPConnection("localhost", timeout=TIME_LIMIT_S)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(TIME_LIMIT_S)
        c.sock.connect(str(self.dir / "data" / "server.sock"))
        try:
            c.request(method, path, body and to_json(body), {"Content-Type": "application/json"} if body else {})
            response = c.getresponse()
            return Response(response.status, response.headers, response.read())
        finally:
            c.close()

    def http(self, method, path, body=None, headers=None, url=None):
        """One HTTP request to the server; an error status is a response, not an exception."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = to_json(body)
        if isinstance(body, str):
            body = body.encode()
        request = urllib.request.Request((url or self.server_url) + path, data=body, method=method,
                                         headers={**({"Content-Type": "application/json"} if body else {}),
                                                  **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=TIME_LIMIT_S) as response:
                return Response(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return Response(error.code, error.headers, error.read())


def on_stores(*stores):
    """Class decorator: one class per store instead of the decorated one."""
    def split(case):
        module = sys.modules[case.__module__]
        for store in stores:
            name = f"{case.__name__}_{store}"
            setattr(module, name, type(name, (case,), {"STORE": store, "__module__": case.__module__}))
        return None
    return split
