"""Waiting costs no thread: long polls, slow stores and slow clients leave room for everybody else."""
import os
import re
import socket
import struct
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import CUSTOMERS, Case, Server, everfold, make_token, wait_until

SOON_S = 25  # an answer that waits for nothing, on a busy machine; those that wait do so for 30 s
WAITERS = 300


def send(server, path, token=None):
    """A request whose answer is read later."""
    s = socket.create_connection((server.host, server.port), timeout=60)
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{who}Connection: close\r\n\r\n".encode())
    return s


def read(s):
    out = b""
    while True:
        part = s.recv(65536)
        if not part:
            s.close()
            return int(out[9:12]), out
        out += part


class Waiting(Case):
    @classmethod
    def make_server(cls):
        return Server(env={"EVERFOLD_SERVER_THREADS": "4"})

    def soon(self):
        began = time.monotonic()
        for path in ("/livez", "/readyz", "/version", "/v1/projections", "/v1/events?limit=1"):
            self.assertEqual(200, self.get(path).status, path)
        self.assertLess(time.monotonic() - began, SOON_S)

    def test_long_polls_for_events_take_no_thread(self):
        self.append("poll")
        head = self.get("/v1/status").json()["head"]["position"]
        waiting = [send(self.server, f"/v1/events?after={head + far}&wait=30s") for far in [0, 1000] for _ in range(WAITERS // 2)]
        self.soon()
        began = time.monotonic()
        self.append("poll")
        for s in waiting[:WAITERS // 2]:  # those behind the head are answered by the append
            status, answer = read(s)
            self.assertEqual(200, status)
            self.assertIn(b'"stream":"poll"', answer)
        self.assertLess(time.monotonic() - began, 20)
        self.soon()
        for s in waiting[WAITERS // 2:]:
            s.close()
        self.soon()

    def test_a_wait_for_events_ends_in_time(self):
        began = time.monotonic()
        status, answer = read(send(self.server, "/v1/events?after=99999&wait=700ms"))
        self.assertEqual((200, b"[]"), (status, answer.split(b"\r\n\r\n")[1]))
        self.assertTrue(0.6 < time.monotonic() - began < SOON_S)

    def test_reads_that_wait_for_a_fold_take_no_thread(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        token = self.append("fold", data={"customer": "ann", "amount": 1})["token"]
        wait_until(lambda: self.get("/v1/views/customers/ann").status == 200)
        self.assertEqual(200, self.get(f"/v1/views/customers/ann?at_least={token}&wait=10s").status)
        self.assertEqual(200, self.ask("POST", "/v1/projections/customers:pause", {}).status)
        token = self.append("fold", data={"customer": "ann", "amount": 1})["token"]
        paths = [f"/v1/views/customers/ann?at_least={token}&wait=30s", "/v1/views/customers/ann?current&wait=30s",
                 "/v1/views/customers?current&wait=30s"]
        waiting = [send(self.server, path) for path in paths for _ in range(WAITERS // 3)]
        late = send(self.server, "/v1/views/customers/ann?current&wait=500ms")
        self.soon()
        self.assertEqual(504, read(late)[0])
        began = time.monotonic()
        self.assertEqual(200, self.ask("POST", "/v1/projections/customers:resume", {}).status)
        for s in waiting:
            status, answer = read(s)
            self.assertEqual(200, status, answer)
            self.assertIn(b'"orders":2', answer.replace(b" ", b""))
        self.assertLess(time.monotonic() - began, 20)

    def test_current_does_not_wait_for_what_came_later(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        stop = threading.Event()

        def keep_appending():
            connection = self.server.connect()
            while not stop.is_set():
                self.server.ask("POST", "/v1/streams/busy/events",
                                {"type": "order.placed", "data": {"customer": "bob", "amount": 1}}, connection=connection)

        with ThreadPoolExecutor() as pool:
            pool.submit(keep_appending)
            try:
                for _ in range(20):
                    self.assertEqual(200, self.get("/v1/views/customers?current&wait=20s").status)
            finally:
                stop.set()

    def test_one_token_keeps_a_part_of_the_connections_waiting(self):
        with tempfile.TemporaryDirectory(prefix="everfold-waiting-") as room:
            data = Path(room) / "data"
            everfold(data, "init")
            greedy, other = (make_token(data, "--scope", "read")["token"] for _ in range(2))
            server = Server(data=data, env={"EVERFOLD_SERVER_CONNECTIONS": "100"})
            try:
                waiting = [send(server, "/v1/events?after=99999&wait=20s", greedy) for _ in range(40)]
                answered = set()

                def count_answered(seconds):
                    answered.update(s for s in waiting if s not in answered and self.comes(s, seconds))
                    return len(answered)
                wait_until(lambda: count_answered(0.01) >= 15)
                self.assertEqual(15, count_answered(0.1))  # a quarter of 100 waits
                self.assertEqual(200, server.ask("GET", "/v1/events?after=9&wait=10ms", token=other).status)
                for s in waiting:
                    s.close()
            finally:
                server.stop()

    def gauge(self, name):
        body = self.server.ask("GET", "/metrics").body.decode()
        return int(re.search(rf"^everfold_{name} (\d+)", body, re.MULTILINE)[1])

    def close_and_watch(self, waiting, how):
        """`how` the clients go; their connections and requests are over soon: about a second on an idle machine."""
        wait_until(lambda: self.gauge("http_requests_in_flight") > len(waiting))  # and the one that asks
        self.assertGreater(self.gauge("http_connections"), len(waiting))
        for s in waiting:
            how(s)
        began = time.monotonic()
        wait_until(lambda: self.gauge("http_connections") < 10 and self.gauge("http_requests_in_flight") == 1, 20)
        self.assertLess(time.monotonic() - began, SOON_S)

    def test_long_polls_of_clients_that_have_gone_end(self):
        """Also the pipelined ones, and those that close by a reset; and then there is room for others."""
        def reset(s):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        for how in (socket.socket.close, reset, lambda s: s.shutdown(socket.SHUT_WR)):
            waiting = [send(self.server, "/v1/events?after=99999&wait=30s") for _ in range(500)]
            for s in waiting[::2]:
                s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.close_and_watch(waiting, how)
            self.soon()
        held = [send(self.server, "/livez") for _ in range(3000)]
        for s in held:
            self.assertEqual(200, read(s)[0])

    def test_reads_of_clients_that_have_gone_wait_for_no_fold(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        token = self.append("gone", data={"customer": "eve", "amount": 1})["token"]
        wait_until(lambda: self.get(f"/v1/views/customers/eve?at_least={token}&wait=10s").status == 200)
        self.assertEqual(200, self.ask("POST", "/v1/projections/customers:pause", {}).status)
        try:
            token = self.append("gone", data={"customer": "eve", "amount": 1})["token"]
            paths = [f"/v1/views/customers/eve?at_least={token}&wait=30s", "/v1/views/customers?current&wait=30s"]
            self.close_and_watch([send(self.server, path) for path in paths for _ in range(200)], socket.socket.close)
        finally:
            self.assertEqual(200, self.ask("POST", "/v1/projections/customers:resume", {}).status)

    def half_requests(self, server, address, count):
        out = []
        for _ in range(count):
            s = socket.socket()
            s.settimeout(20)
            s.bind((address, 0))
            s.connect((server.host, server.port))
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: loc")
            out.append(s)
        return out

    def test_half_requests_of_one_address_leave_room_for_others(self):
        server = Server(env={"EVERFOLD_SERVER_CONNECTIONS": "64"})
        try:
            held = self.half_requests(server, "127.0.0.2", 100)
            began = time.monotonic()
            self.assertEqual(200, server.ask("GET", "/livez").status)
            self.assertLess(time.monotonic() - began, SOON_S)
            began = time.monotonic()  # and the address itself comes in again long before server.request
            held += self.half_requests(server, "127.0.0.1", 20)
            wait_until(lambda: self.comes(self.whole_request(server, "127.0.0.2"), 1), 20)
            self.assertLess(time.monotonic() - began, 20)
            for s in held:
                s.close()
        finally:
            server.stop()

    def whole_request(self, server, address):
        s = self.half_requests(server, address, 1)[0]
        try:
            s.sendall(b"alhost\r\nConnection: close\r\n\r\n")
        except OSError:
            pass
        return s

    def test_subscriptions_of_one_token_and_their_memory_are_bounded(self):
        with tempfile.TemporaryDirectory(prefix="everfold-waiting-") as room:
            data = Path(room) / "data"
            everfold(data, "init")
            greedy, other = (make_token(data, "--scope", "read,append")["token"] for _ in range(2))
            server = Server(data=data, env={"EVERFOLD_SERVER_CONNECTIONS": "80"})
            try:
                event = {"type": "big", "data": {"text": "x" * 100000}}
                for i in range(16):
                    made = server.ask("POST", "/v1/events", [{**event, "stream": f"s{i}-{j}", "id": f"{i}-{j}"} for j in range(10)],
                                      token=greedy)
                    self.assertEqual(201, made.status, made.body)
                before = self.memory(server)
                topics = [send(server, f"/v1/subscribe/events?after=0&type=b*{'*' * i}", greedy) for i in range(30)]
                refused = [s for s in topics if self.first_line(s).startswith(b"HTTP/1.1 503")]
                self.assertEqual(10, len(refused))
                self.assertTrue(self.first_line(send(server, "/v1/subscribe/events?after=0", other)).startswith(b"HTTP/1.1 200"))
                if os.environ.get("EVERFOLD_TEST_BUILD") != "asan":  # which frees late
                    self.assertLess(self.memory(server) - before, 20 * 4 << 20)
                for s in topics:
                    s.close()
            finally:
                server.stop()

    def first_line(self, s):
        return s.recv(64)

    def memory(self, server):
        with open(f"/proc/{server.process.pid}/statm") as f:
            return int(f.read().split()[1]) * 4096

    def comes(self, s, seconds=0.3):
        s.settimeout(seconds)
        try:
            return bool(s.recv(1))
        except (TimeoutError, ConnectionResetError):
            return False

    def test_requests_that_wait_are_answered_when_the_server_stops(self):
        server = Server()
        s = send(server, "/v1/events?after=99999&wait=30s")
        wait_until(lambda: b"http_requests_in_flight 2" in server.ask("GET", "/metrics").body)  # and this one
        began = time.monotonic()
        self.assertEqual(0, server.stop())
        self.assertLess(time.monotonic() - began, SOON_S)
        self.assertEqual(200, read(s)[0])
