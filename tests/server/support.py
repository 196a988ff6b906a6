"""A server of our own for each test class, on a free port of loopback, and a small client."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

EVERFOLD = None
START_S = 60

CUSTOMERS = """projection customers version 1
  view data.customer
  index total

on order.placed
  orders += 1
  total  += data.amount
"""


def everfold(data, *arguments, codes=(0,)):
    """A command on that data directory; its answer. `codes`: the exit codes that are fine."""
    done = subprocess.run([EVERFOLD, *arguments, "--data", str(data)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode not in codes:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return done.stdout


def make_token(data, *arguments):
    return json.loads(everfold(data, "token", "create", "-o", "json", *arguments))


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    def json(self):
        return json.loads(self.body)


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout=20):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Server:
    """everfold serve on a directory of its own; `stop` ends it by its id."""

    token = None  # that requests carry which name none

    def __init__(self, *arguments, data=None, env=None):
        """`data`: another directory; False: none is named."""
        self.dir = Path(tempfile.mkdtemp(prefix="everfold-server-"))
        self.data = data or self.dir / "data"
        where = [] if data is False else ["--data", str(self.data)]
        self.log = open(self.dir / "log", "wb+")
        self.process = subprocess.Popen(
            [EVERFOLD, "serve", *where, "--listen", "127.0.0.1:0", *arguments],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            env={**os.environ, "EVERFOLD_PUBLISH_DIRECTORIES": tempfile.gettempdir(),
                 **({"TMPDIR": str(self.dir)} if data is False else {}), **(env or {})})
        self.url = self.wait_for_url()
        self.host, port = self.url.split("//")[1].rsplit(":", 1)
        self.port = int(port)

    def said(self):
        return (self.dir / "log").read_text(errors="replace")

    def wait_for_url(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            found = re.search(r"everfold serves at (http[^\s\"]+)", self.said())  # a line of text or of JSON
            if found:
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the server did not start: {self.said()}")

    def connect(self, timeout=20):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, connection=None, token=None):
        c = connection or self.connect()
        headers = dict(headers or {})
        if token or self.token:
            headers["Authorization"] = "Bearer " + (token or self.token)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        c.request(method, path, body=body, headers=headers)
        response = c.getresponse()
        answer = Answer(response, response.read())
        if connection is None:
            c.close()
        return answer

    def ask_as_owner(self, method, path, body=None, **named):
        """As the user that runs the server, over its Unix socket."""
        c = SocketConnection(self.data / "server.sock")
        try:
            return self.ask(method, path, body, connection=c, **named)
        finally:
            c.close()

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(timeout=60)
        self.log.close()
        return code


def wait_until(condition, limit_s=60):
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


class Case(unittest.TestCase):
    arguments = ()

    @classmethod
    def make_server(cls):
        return Server(*cls.arguments)

    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()
        cls.addClassCleanup(shutil.rmtree, cls.server.dir, True)
        cls.addClassCleanup(cls.end)

    @classmethod
    def end(cls):
        code = cls.server.stop()
        said = cls.server.said() if cls.server.dir.exists() else ""
        if code != 0 or "Sanitizer" in said:
            raise AssertionError(f"the server ended with {code}: {said}")

    def ask(self, *arguments, **named):
        return self.server.ask(*arguments, **named)

    def get(self, path, **headers):
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def append(self, stream, kind="order.placed", data=None, **more):
        answer = self.ask("POST", f"/v1/streams/{stream}/events",
                          {"type": kind, "data": data or {}, **more})
        self.assertIn(answer.status, (200, 201), answer.body)
        return answer.json()

    def refused(self, status, code, answer):
        problem = answer.json()
        self.assertEqual((status, status, code), (answer.status, problem["status"], problem["code"]),
                         answer.body)
        self.assertEqual("application/problem+json", answer.headers["Content-Type"])
        return problem["detail"]
