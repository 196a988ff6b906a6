"""Webhook receivers that refuse messages: what one tenant sends must not stop the messages of another."""
import collections
import http.server
import json
import threading

from kit import Journey, wait_until


class Receiver(http.server.ThreadingHTTPServer):
    """Answers `answers[type]` to an event of that type, 204 to others, and keeps what it has accepted."""
    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.answers = threading.Lock(), answers
        self.accepted, self.requests = [], collections.Counter()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            answer = self.server.answers.get(event["type"], 204)
            self.server.requests[event["type"], answer] += 1
            if answer == 204:
                self.server.accepted.append((event["tenant"], event["id"], self.headers["webhook-id"]))
        self.send_response(answer)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Receivers(Journey):
    def start_receiver(self, **answers):
        receiver = Receiver(answers)
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        return receiver

    def publish_to(self, receiver, types, *options):
        self.ef("init")
        for kind in types:
            self.ef("type", "set", kind, "--publish", "yes")
        self.ef("publisher", "add", "hook", "--to", receiver.url, "--allow-private", *options)

    def append(self, tenant, count, kind):
        self.import_events([{"stream": f"{kind}-{n}", "type": kind, "id": f"{kind}-{n}", "data": {}}
                            for n in range(count)], "--tenant", tenant)

    def publisher(self):
        return self.ef("publisher", "ls", "-o", "json").json()[0]

    def test_a_tenant_whose_messages_are_refused_does_not_stop_the_messages_of_another(self):
        receiver = self.start_receiver(bad=422)
        self.publish_to(receiver, ("bad", "good"), "--attempts", "2", "--retry", "100ms")
        self.append("mallory", 300, "bad")
        self.append("victim", 1, "good")
        self.start("work")
        wait_until(lambda: receiver.accepted, "the event of the other tenant arrives", 30)
        wait_until(lambda: self.publisher()["dead"] == 300, "every refused message has used its attempts", 60)
        self.assertEqual([("victim", "good-0", "victim/good-0")], receiver.accepted)
        self.assertEqual(600, receiver.requests["bad", 422])

    def test_a_receiver_that_fails_costs_no_attempts_and_queued_messages_can_be_skipped(self):
        receiver = self.start_receiver(bad=503, good=503)
        self.publish_to(receiver, ("bad", "good"), "--attempts", "2", "--retry", "100ms")
        self.append("mallory", 6, "bad")
        self.append("victim", 1, "good")
        worker = self.start("work")
        wait_until(lambda: sum(receiver.requests.values()) >= 8, "the receiver was tried again", 60)
        self.assertEqual((0, 0), (self.publisher()["failed"], self.publisher()["dead"]))
        for n in range(6):
            rows = self.ef("outbox", "skip", f"bad-{n}", "1", "--tenant", "mallory", "--lane", "hook",
                           "--reason", "the receiver fails on it", "-o", "json")
            self.assertEqual(1, rows.json()["skipped"], str(rows))
        receiver.answers = {"bad": 503}
        wait_until(lambda: receiver.accepted, "the event of the other tenant arrives", 60)
        wait_until(lambda: self.publisher()["pending"] + self.publisher()["processing"] == 0, "nothing is queued", 60)
        self.end(worker)
        self.assertEqual((0, 0), (self.publisher()["failed"], self.publisher()["dead"]))
        self.assertEqual(["good-0"], [accepted[1] for accepted in receiver.accepted])

    def test_pausing_a_publisher_undoes_no_other_change_of_its_settings(self):
        """One client changes the URL 200 times, another pauses and resumes all the while: every change must last until the
        next one."""
        self.ef("init")
        self.serve()
        put = lambda n: self.http_as_owner("PUT", "/v1/publishers/p", {"url": f"https://example.org/{n}", "paused": True})
        self.assertEqual(200, put(0).status)
        done, statuses = threading.Event(), collections.Counter()

        def toggle():
            while not done.is_set():
                for verb in ("resume", "pause"):
                    statuses[self.http("POST", f"/v1/publishers/p:{verb}", {}).status] += 1

        toggler = threading.Thread(target=toggle)
        toggler.start()
        try:
            for n in range(200):
                self.assertEqual(200, put(n).status)
                for _ in range(2):
                    self.assertEqual(f"https://example.org/{n}", self.http("GET", "/v1/publishers/p").json()["url"])
        finally:
            done.set()
            toggler.join()
        self.assertEqual({200}, set(statuses))

    def test_equal_ids_of_two_tenants_have_different_webhook_ids(self):
        receiver = self.start_receiver()
        self.publish_to(receiver, ("good",))
        for tenant in ("a", "b", "a/b"):
            self.append(tenant, 1, "good")
        self.start("work")
        wait_until(lambda: len(receiver.accepted) == 3, "all are delivered", 60)
        self.assertEqual({("a", "good-0", "a/good-0"), ("b", "good-0", "b/good-0"), ("a/b", "good-0", "a%2Fb/good-0")},
                         set(receiver.accepted))
