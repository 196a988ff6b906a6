"""Workers that share a publisher to a webhook: every stream arrives in order while workers are killed, paused, stopped
and started and the number of partitions changes, and streams whose worker stays do not wait for any of it."""
import collections
import http.server
import json
import random
import signal
import threading
import time
import zlib

from kit import Journey, on_stores, to_json, wait_until

STREAMS, SHARES = 40, 16  # SHARES: the partitions of a publisher
ENV = {"EVERFOLD_WORKER_LEASE_TTL": "1500ms"}
BATCH = 256  # messages that a worker has in flight at most, unacknowledged


class Receiver(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.got = threading.Lock(), []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a killed worker closes its connections


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(0.002)
        with self.server.lock:
            self.server.got.append((time.monotonic(), event["subject"], int(event["streamsequence"])))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()


@on_stores("sqlite", "postgres")
class Share(Journey):
    def setUp(self):
        super().setUp()
        self.receiver = Receiver()
        self.addCleanup(self.receiver.server_close)
        self.addCleanup(self.receiver.shutdown)
        self.ef("init")
        self.ef("type", "set", "sent", "--publish", "yes")
        self.add_publisher("500ms")
        self.sent = 0

    def add_publisher(self, timeout):
        """Its leases last for longer than the time-out."""
        self.ef("publisher", "add", "hook", "--to", f"http://127.0.0.1:{self.receiver.server_address[1]}/",
                "--allow-private", "--timeout", timeout, "--replace")

    def worker(self, env=ENV):
        return self.start("work", "--silent", env=env)

    def pending(self):
        row = self.ef("publisher", "ls", "-o", "json").json()[0]
        return row["pending"] + row["processing"]

    def holders(self):
        """partition -> worker, of live leases of the publisher"""
        return {lease["partition"]: lease["holder"] for lease in self.ef("lease", "ls", "-o", "json").json()
                if lease["kind"] == "publisher" and lease["live"]}

    def import_round(self, each):
        self.import_events([{"stream": f"s{s}", "type": "sent", "data": {}} for _ in range(each) for s in range(STREAMS)],
                           name=f"events-{self.sent}.ndjson")
        self.sent += each

    def check_order(self):
        """The first arrivals of each stream are in order and whole. Returns the number of copies."""
        first, copies = collections.defaultdict(list), 0
        with self.receiver.lock:
            for _, stream, seq in self.receiver.got:
                if seq > len(first[stream]):
                    first[stream].append(seq)
                else:
                    copies += 1
        for stream, seqs in first.items():
            self.assertEqual(list(range(1, self.sent + 1)), seqs, stream)
        self.assertEqual(STREAMS, len(first))
        return copies

    def test_streams_arrive_in_order_while_workers_are_killed_and_paused(self):
        seed = time.time_ns() % 1000
        dice, faults = random.Random(seed), 0
        # On a busy machine a short time-out or lease ends, and what was in flight comes twice.
        self.add_publisher("5s")
        workers = [self.worker({}) for _ in range(3)]
        wait_until(lambda: len(set(self.holders().values())) == 3, "three workers share the publisher")
        self.import_round(5)
        self.ef("partition", "sync", "--count", 31)
        self.import_round(5)
        workers.append(self.worker({}))
        self.end(workers.pop(0))
        wait_until(lambda: self.pending() == 0, "what was sent has arrived")
        self.assertEqual(0, self.check_order(), "nothing comes twice while workers start and stop and the count changes")
        for worker in workers:
            self.end(worker)
        self.add_publisher("500ms")
        workers = [self.worker() for _ in range(3)]
        for more in range(8):
            self.import_round(5)
            self.ef("partition", "sync", "--count", 32 + 3 * more)
            time.sleep(dice.random() * 0.5)
            victim = workers.pop(dice.randrange(len(workers)))
            if dice.random() < 0.5:
                victim.kill()
            else:  # longer than its lease; then it goes on with what it had claimed
                victim.send_signal(signal.SIGSTOP)
                threading.Timer(2 + dice.random(), victim.send_signal, [signal.SIGCONT]).start()
            faults += 1
            workers.append(self.worker())
        wait_until(lambda: self.pending() == 0, f"what was sent has arrived (seed {seed})")
        time.sleep(1)  # a worker that was paused has sent what it still had
        self.assertLessEqual(self.check_order(), faults * 2 * BATCH, seed)

    # --- gaps

    def append_on(self, stop):
        """An event of each stream, again and again."""
        while not stop.is_set():
            lines = "".join(to_json({"stream": f"s{s}", "type": "sent", "data": {}}) + "\n" for s in range(STREAMS))
            answer = self.http("POST", "/v1/events", lines, {"Content-Type": "application/x-ndjson"})
            self.assertEqual(2, answer.status // 100, answer)
            self.sent += 1
            stop.wait(0.2)

    def longest_gap(self, change):
        """The longest time between two arrivals of a stream whose worker did not change, while `change` is made."""
        before, began = self.holders(), time.monotonic()
        change()
        time.sleep(3)
        ended, after = time.monotonic(), self.holders()
        stayed = {f"s{s}" for s in range(STREAMS)
                  if before.get(share := zlib.crc32(b"s%d" % s) % SHARES) == after.get(share) is not None}
        times = {stream: [began] for stream in stayed}
        with self.receiver.lock:
            for at, stream, _ in self.receiver.got:
                if stream in stayed and began <= at <= ended:
                    times[stream].append(at)
        return max((b - a for row in times.values() for a, b in zip(row, [*row[1:], ended])), default=0), len(stayed)

    def test_streams_whose_worker_stays_do_not_wait_for_changes(self):
        self.serve(env=ENV)
        stop, workers = threading.Event(), [self.worker()]
        wait_until(lambda: len(set(self.holders().values())) == 2, "two workers share the publisher")
        appender = threading.Thread(target=self.append_on, args=(stop,))
        appender.start()
        try:
            wait_until(lambda: self.receiver.got, "something arrives")
            usual, stayed = self.longest_gap(lambda: None)
            self.assertEqual(STREAMS, stayed)
            for what, change in (("partition sync", lambda: self.ef("partition", "sync", "--count", 31)),
                                 ("a worker starts", lambda: workers.append(self.worker())),
                                 ("a worker stops", lambda: self.end(workers.pop())),
                                 ("a worker is killed", lambda: workers.pop().kill())):
                gap, stayed = self.longest_gap(change)
                self.assertGreater(stayed, 0, what)
                self.assertLess(gap, 1 + usual, f"{what}: {stayed} streams; {usual:.3f} s without a change")
        finally:
            stop.set()
            appender.join()
        wait_until(lambda: self.pending() == 0, "what was sent has arrived")
        self.check_order()
