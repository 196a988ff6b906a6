"""Server-sent events: a subscriber that reconnects after restarts and kills misses nothing and receives nothing twice."""
import json
import signal
import threading
import time
import urllib.error
import urllib.request

from kit import EVENTS, Journey, on_stores, orders, to_json, wait_until


class Subscriber(threading.Thread):
    """Follows the journal from the beginning. Reconnects with Last-Event-ID until it is told to stop."""

    def __init__(self, journey):
        super().__init__(daemon=True)
        self.journey, self.got, self.last, self.stop, self.connections = journey, [], None, False, 0

    def run(self):
        while not self.stop:
            try:
                self.follow()
            except (OSError, urllib.error.URLError, ValueError):
                time.sleep(0.05)

    def follow(self):
        headers = {"Last-Event-ID": self.last} if self.last else {}
        request = urllib.request.Request(self.journey.server_url + "/v1/subscribe/events?after=0", headers=headers)
        identity = None
        with urllib.request.urlopen(request, timeout=5) as stream:
            self.connections += 1
            for line in stream:
                if self.stop:
                    return
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "id":
                    identity = value
                elif field == "data":
                    event = json.loads(value)
                    self.got.append((event["position"], event["id"]))
                    self.last = identity


@on_stores("sqlite", "postgres")
class Subscribe(Journey):
    def test_a_subscriber_sees_every_event_once_over_restarts(self):
        events = list(orders(EVENTS))
        self.ef("init")
        server = self.serve()
        port = self.server_url.rsplit(":", 1)[1]
        subscriber = Subscriber(self)
        subscriber.start()
        for number, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, None)):
            part = events[number * EVENTS // 4:(number + 1) * EVENTS // 4]
            self.append_batches(part)
            if how is not None:
                self.end(server, how)
                server = self.serve_again(port)
        wait_until(lambda: len(subscriber.got) >= EVENTS, "every event was received")
        time.sleep(0.2)  # a duplicate would come now
        subscriber.stop = True
        self.assertEqual([(n + 1, e["id"]) for n, e in enumerate(events)], subscriber.got)
        self.assertGreaterEqual(subscriber.connections, 4)

    def append_batches(self, events):
        for first in range(0, len(events), 1_000):
            body = "\n".join(to_json(e) for e in events[first:first + 1_000])
            answer = self.http("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
            self.assertEqual(201, answer.status, str(answer))

    def serve_again(self, port):
        process = self.start("serve", "--listen", f"127.0.0.1:{port}")

        def answers():
            self.assertIsNone(process.poll(), process.log.read_text()[-4000:])
            try:
                return self.http("GET", "/livez").status == 200
            except OSError:
                return False
        wait_until(answers, "serve answers again")
        return process
