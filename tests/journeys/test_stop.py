"""How workers end: what a supervisor, a terminal or GNU timeout sends leaves no lease behind."""
import http.server
import os
import signal
import subprocess
import threading
import time

import kit
from kit import CUSTOMERS_FOLD, Journey, customer_totals, free_port, orders, wait_until


class Stop(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.events = list(orders(1000))
        self.import_events(self.events)
        # A publisher, so that there are leases of both kinds.
        self.ef("publisher", "add", "copy", "--to", f"file:{self.dir}/copy.ndjson")

    def held(self):
        return [row for row in self.ef("lease", "ls", "-o", "json").json() if row["live"]]

    def is_working(self):
        kinds = {row["kind"] for row in self.held()}
        return {"partition", "publisher"} <= kinds and self.customer_views() == customer_totals(self.events)

    def check_nothing_is_left(self):
        self.assertEqual([], self.held())
        self.assertEqual([], self.ef("worker", "ls", "-o", "json").json())

    def test_two_signals_at_once_are_one_request(self):
        for first, second in [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)]:
            work = self.start("work")
            wait_until(self.is_working, "the worker holds leases")
            work.send_signal(first)
            time.sleep(0.002)
            work.send_signal(second)
            self.assertEqual(0, work.wait(timeout=kit.WAIT_LIMIT_S), work.log.read_text())
            self.check_nothing_is_left()

    def test_gnu_timeout_leaves_no_lease(self):
        log = open(self.dir / "timeout.log", "wb")
        self.addCleanup(log.close)
        for limit_s in (5, 20, 80):  # a busy machine may need longer until the worker works
            done = subprocess.Popen(["timeout", str(limit_s), kit.EVERFOLD, "work"], env=self.environment(), cwd=self.dir,
                                    stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            wait_until(lambda: done.poll() is not None or self.is_working(), "the worker holds leases")
            if done.poll() is None:
                break
        self.assertIsNone(done.poll(), "the worker ended before its time")
        self.assertEqual(124, done.wait(timeout=kit.WAIT_LIMIT_S))
        self.check_nothing_is_left()

    def test_a_signal_to_the_group_and_to_the_process_stops_serve_in_order(self):
        port = free_port()
        with open(self.dir / "serve.log", "wb") as log:
            serve = subprocess.Popen([kit.EVERFOLD, "serve", "--listen", f"127.0.0.1:{port}"], env=self.environment(),
                                     cwd=self.dir, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                     start_new_session=True)
        self.addCleanup(lambda: serve.poll() is None and serve.kill())
        wait_until(self.is_working, "the server's worker holds leases")
        os.killpg(serve.pid, signal.SIGTERM)
        serve.send_signal(signal.SIGTERM)
        self.assertEqual(0, serve.wait(timeout=kit.WAIT_LIMIT_S))
        self.check_nothing_is_left()


class Refuse(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.end_headers()

    def log_message(self, *_):
        pass


class DeadMessage(Journey):
    def test_a_message_that_dies_is_logged_with_its_stream_and_reason(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.ef("init")
        self.ef("type", "set", "order.placed", "--publish", "yes")
        self.ef("publisher", "add", "hook", "--to", f"http://127.0.0.1:{server.server_port}/", "--allow-private",
                "--retry", "10ms", "--attempts", "3")
        self.ef("event", "append", "order-7", "--type", "order.placed", "--data", "{}")
        work = self.start("work", "--log-level", "warn")
        wait_until(lambda: b"message is dead" in work.log.read_bytes(), "the dead message is logged")
        line = next(line for line in work.log.read_text().splitlines() if "message is dead" in line)
        for part in ("publisher=hook", "stream=order-7", "seq=1", "attempts=3", "500"):
            self.assertIn(part, line)
        wait_until(lambda: self.ef("outbox", "report", "--status", "dead", "-o", "json").json(), "the row is dead")
        self.assertEqual(1, work.log.read_text().count("message is dead"))
