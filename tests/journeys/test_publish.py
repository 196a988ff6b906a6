"""Publishers: a file and a webhook receive every event of their types, in the order of each stream, while workers are
killed and the receiver fails. Delivery is at least once: what comes twice is the same message."""
import collections
import http.server
import json
import signal
import threading

from kit import EVENTS, Journey, orders, wait_until


class Receiver(http.server.ThreadingHTTPServer):
    """Answers 503 to every 97th request, as a receiver under load would."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.got, self.count = threading.Lock(), [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.count += 1
            fails = self.server.count % 97 == 0
            if not fails:
                self.server.got.append(json.loads(body))
        self.send_response(503 if fails else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Publish(Journey):
    def check(self, messages, expected):
        """Every event at least once; first deliveries of a stream are in order; copies are equal."""
        first, streams = {}, collections.defaultdict(list)
        for message in messages:
            key = (message["subject"], message["streamsequence"])
            if key in first:
                self.assertEqual(first[key], (message["id"], message["data"]))
            else:
                first[key] = (message["id"], message["data"])
                streams[key[0]].append(int(key[1]))
        self.assertEqual(expected, {value[0] for value in first.values()})
        for stream, seqs in streams.items():
            self.assertEqual(sorted(seqs), seqs, stream)

    def test_a_file_receives_every_event_in_order_though_workers_are_killed(self):
        events = list(orders(EVENTS))
        self.ef("init")
        for kind in ("order.placed", "order.cancelled"):
            self.ef("type", "set", kind, "--publish", "yes")
        self.ef("publisher", "add", "archive", "--to", f"file:{self.dir}/archive.ndjson", "--types", "order.*")
        self.import_events(events)
        archive = self.dir / "archive.ndjson"
        for size in (1_000, 2_000_000):
            worker = self.start("work")
            wait_until(lambda: archive.exists() and archive.stat().st_size > size, f"{size} bytes were published")
            self.end(worker, signal.SIGKILL)
        self.start("work")
        wait_until(lambda: self.ef("publisher", "ls", "-o", "json").json()[0]["pending"] == 0, "everything is published")
        lines = archive.read_text().splitlines()
        self.check([json.loads(line) for line in lines], {e["id"] for e in events})

    def test_a_webhook_that_fails_now_and_then_receives_every_event_in_order(self):
        events = list(orders(5_000, streams=300))
        receiver = Receiver()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        self.ef("init")
        for kind in ("order.placed", "order.cancelled"):
            self.ef("type", "set", kind, "--publish", "yes")
        self.ef("publisher", "add", "hook", "--to", f"http://127.0.0.1:{receiver.server_address[1]}/", "--allow-private",
                "--types", "order.placed", "--retry", "1s")
        self.import_events(events)
        self.start("work")
        wanted = {e["id"] for e in events if e["type"] == "order.placed"}
        wait_until(lambda: wanted <= {m["id"] for m in list(receiver.got)}, "the receiver has every event")
        with receiver.lock:
            self.check(receiver.got, wanted)
