"""publisher add, ls, show, pause, resume, rm; files and webhooks as their receivers see them."""
import base64
import hashlib
import hmac
import json
import signal
import threading
import time

from receiver import Receiver
from support import ROW_KEYS, TIME, Case, interrupt

KEYS = ["name", "url", "types", "partition_by", "retry_ms", "attempts_max", "retain_ms",
        "timeout_ms", "file_bytes", "file_count", "in_flight", "secret", "allow_private", "paused",
        "pending", "processing", "failed", "dead", "blocked", "kept"]


class Publish(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("type", "set", "sent", "--publish", "yes")

    def receiver(self, *rule):
        receiver = Receiver(*rule)
        self.addCleanup(receiver.end)
        return receiver

    def add(self, url, *words):
        return self.ok("publisher", "add", "out", "--to", url, "-o", "json", *words).json()

    def hook(self, receiver, *words):
        return self.add(receiver.url, "--allow-private", "--retry", "50ms", "--timeout", "500ms",
                        *words)

    def send(self, streams, each):
        lines = "".join(json.dumps({"stream": f"s{s}", "type": "sent", "data": {"n": n}}) + "\n"
                        for n in range(each) for s in range(streams))
        self.ok("event", "import", "-", stdin=lines)

    def work(self, leaves=False):
        return (self.leaves if leaves else self.ok)("work", "--drain", "--no-leasing")

    def shown(self):
        return self.ok("publisher", "show", "out", "-o", "json").json()

    def lines(self, path="out.ndjson"):
        return [json.loads(line) for line in (self.dir / path).read_text().splitlines()]

    def check_order(self, events, streams, each):
        """At least once, none skipped, in order: the first time each is seen."""
        seen = {}
        for event in events:
            row = seen.setdefault(event["subject"], [])
            if event["streamsequence"] not in row:
                row.append(event["streamsequence"])
        self.assertEqual({f"s{s}": list(range(1, each + 1)) for s in range(streams)}, seen)

    # --- definitions --------------------------------------------------------------------------

    def test_a_publisher_is_added_shown_changed_and_removed(self):
        shown = self.add("file:out.ndjson", "--types", "se*", "--attempts", 9)
        self.assertEqual(KEYS, list(shown))
        self.assertEqual((f"file:{self.dir}/out.ndjson", "se*", "stream", 60000, 9, 3600000, False),
                         tuple(shown[k] for k in ("url", "types", "partition_by", "retry_ms",
                                                  "attempts_max", "retain_ms", "paused")))
        self.refused(4, "publisher", "add", "out", "--to", "file:other", saying="--replace")
        self.ok("publisher", "add", "out", "--to", "file:other", "--replace")
        self.assertTrue(self.ok("publisher", "pause", "out", "--reason", "they move", "-o", "json").json()["paused"])
        self.send(1, 2)
        self.assertIn("claimed 2", self.work().out)
        self.assertEqual(2, self.shown()["pending"])
        self.refused(4, "publisher", "rm", "out", saying="2 rows still wait")
        self.assertIn("paused", self.ok("publisher", "ls").out)
        self.assertIn(f"publishers  out  paused  to file:{self.dir}/other  pending 2  failed 0  dead 0",
                      self.ok("status").out)
        said = self.ok("publisher", "rm", "out", "--discard", "--reason", "they closed").err
        self.assertIn("publisher out removed; 2 unpublished rows discarded", said)
        self.assertEqual([("publisher_remove", "out", "they closed"), ("publisher_pause", "out", "they move"),
                          ("publisher_set", "out", None), ("publisher_set", "out", None)],
                         [(a["action"], a["lane"], a["reason"]) for a in self.ok("audit", "ls", "-o", "json").json()])
        self.refused(3, "publisher", "show", "out", saying="not found: publisher")
        self.assertEqual([], self.ok("publisher", "ls", "-o", "json").json())

    def test_what_cannot_be_meant_is_refused(self):
        self.refused(2, "publisher", "add", "bad name", "--to", "file:x", saying="the name 'bad name' has a space")
        for words, saying in ((["--to", "ftp://x"], "is not an address"), ([], "--to URL"),
                              (["--to", "http://127.0.0.1/x"], "is not https"),
                              (["--to", "https://me:pw@example.org/"], "password"),
                              (["--to", "file:x", "--partition-by", "day"], "partition by"),
                              (["--to", "https:///x"], "has no host"),
                              (["--to", "https://example.org:99999/"], "ort number"),
                              (["--to", "file:x", "--types", "a,,b"], "matches no type"),
                              (["--to", "file:x", "--timeout", "0"], "--timeout is 0"),
                              (["--to", "file:x", "--timeout", "1h"], "timeout_ms is 3600000"),
                              (["--to", "file:x", "--retry", "soon"], "retry")):
            self.refused(2, "publisher", "add", "out", *words, saying=saying)
        self.assertEqual([], self.ok("publisher", "ls", "-o", "json").json())

    # --- files --------------------------------------------------------------------------------

    def test_events_come_to_a_file_as_cloudevents(self):
        self.add("file:out.ndjson", "--partition-by", "data.n")
        self.ok("event", "append", "a", "--type", "sent", "--data", '{"n":\n7}', "--meta",
                '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}')
        self.append("a", "kept.back")
        self.assertIn("published 1", self.work().out)
        event, = self.lines()
        self.assertEqual(("1.0", "sent", "a", 1, "7", {"n": 7}),
                         tuple(event[k] for k in ("specversion", "type", "subject",
                                                  "streamsequence", "partitionkey", "data")))
        self.assertEqual(0, self.shown()["pending"])

    def test_stdout_takes_lines_too(self):
        self.add("file:-")
        self.send(2, 2)
        said = self.ok("work", "--drain", "--no-leasing", "--silent").out
        events = [json.loads(line) for line in said.splitlines()]
        self.check_order(events, 2, 2)
        self.assertEqual(0, self.shown()["pending"])

    # --- what was published -------------------------------------------------------------------

    def published(self, *words):
        return self.ok("outbox", "report", "--status", "published", "-o", "json", *words).json()

    def test_published_rows_are_listed_with_their_time(self):
        self.add("file:out.ndjson")
        self.send(3, 2)
        self.append("s0", "sent", "{}", "--tenant", "acme")
        self.append("s0", "other")
        self.assertEqual([], self.published()["rows"])
        self.work()
        report = self.published()
        self.assertEqual(list(range(7, 0, -1)), [r["position"] for r in report["rows"]])
        self.assertIsNone(report["next"])
        row = report["rows"][1]
        self.assertEqual(ROW_KEYS, list(row))
        self.assertEqual(("out", "", "s2", 2, "sent", "published", 0, None, ""),
                         tuple(row[k] for k in ("lane", "tenant", "stream", "seq", "event_type", "status",
                                                "attempt_count", "next_attempt_at", "last_error")))
        self.assertRegex(row["published_at"], TIME)
        self.assertRegex(row["partition"], "^p[0-9]{2}$")
        self.assertGreaterEqual(row["published_at"], row["enqueued_at"])
        self.assertEqual(row["published_at"], row["updated_at"])
        text = self.ok("outbox", "report", "--status", "published", "--limit", "1")
        self.assertRegex(text.out.splitlines()[-1], "^published   lane out  tenant acme  s0 seq 1 .* published 2")
        self.assertIn("more rows follow: continue with --after ", text.err)

    def test_published_rows_are_picked_and_paged(self):
        self.add("file:out.ndjson")
        self.send(3, 2)
        self.append("s0", "sent", "{}", "--tenant", "acme")
        self.work()
        positions = lambda *w: [r["position"] for r in self.published(*w)["rows"]]  # noqa: E731
        self.assertEqual([7], positions("--tenant", "acme"))
        self.assertEqual([4, 1], positions("--stream", "s0"))
        self.assertEqual([7], positions("--stream", "s0", "--tenant", "acme"))
        self.assertEqual([], positions("--types", "order.*"))
        self.assertEqual([], positions("--lane", "*"))
        self.assertEqual(7, len(positions("--lane", "out")))
        seen, after = [], []
        while after is not None:
            page = self.published("--limit", "3", *after)
            seen.append([r["position"] for r in page["rows"]])
            after = page["next"] and ["--after", page["next"]]
        self.assertEqual([[7, 6, 5], [4, 3, 2], [1]], seen)
        self.refused(2, "outbox", "report", "--after", "nonsense", saying="cursor")

    def test_nothing_is_listed_of_a_publisher_that_keeps_nothing(self):
        shown = self.add("file:out.ndjson", "--retain", "0")
        self.assertIsNone(shown["retain_ms"])
        self.send(1, 2)
        self.work()
        self.assertEqual([], self.published()["rows"])

    def test_nothing_is_skipped_when_workers_are_killed(self):
        self.add("file:out.ndjson", "--file-bytes", "20000", "--files", "500")
        for _ in range(3):
            self.send(7, 20)
            worker = self.start("work", "--no-leasing", "--silent")
            end = time.monotonic() + 120
            before = self.written()
            while self.written() == before and time.monotonic() < end:
                time.sleep(0.002)
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self.work()
        files = sorted(self.dir.glob("out.ndjson.*"), key=lambda p: -int(p.suffix[1:]))
        events = [json.loads(line) for path in [*files, self.dir / "out.ndjson"]
                  for line in path.read_text().splitlines()]
        self.check_order(events, 7, 60)

    def written(self):
        return sum(path.stat().st_size for path in self.dir.glob("out.ndjson*"))

    # --- sinks that hang ----------------------------------------------------------------------

    def totals(self):
        answer = self.ok("view", "query", "counts", "-o", "json").json()
        return sum(view["data"]["n"] for view in answer["items"])

    def test_sinks_that_hang_answer_slowly_or_endlessly_delay_no_other_publisher(self):
        sinks = {answer: self.receiver(lambda event, _, answer=answer: answer)
                 for answer in ("hang", "drip", "endless")}
        for name, receiver in sinks.items():
            self.ok("publisher", "add", name, "--to", receiver.url, "--allow-private", "--timeout",
                    "5m", "--in-flight", "2")
        self.add("file:out.ndjson")
        self.ok("projection", "deploy",
                self.write("counts.fold", "projection counts version 1\non sent\n  n += 1\n"))
        worker = self.start("work", "--no-leasing", "--silent")
        begun = time.monotonic()
        while not (sinks["hang"].tried and sinks["drip"].tried) and time.monotonic() < begun + 60:
            self.send(4, 5) # the deliveries hang, and new events follow them
            time.sleep(0.1)
        self.send(4, 25)
        count = self.ok("publisher", "show", "hang", "-o", "json").json()
        count = count["pending"] + count["processing"]
        while time.monotonic() < begun + 200 and not (
                (self.dir / "out.ndjson").exists() and len(self.lines()) == count and
                self.totals() == count and len(sinks["endless"].events()) == count):
            time.sleep(0.05)
        self.assertLess(time.monotonic(), begun + 200, "somebody waited for a sink that hangs")
        self.check_order(self.lines(), 4, count // 4)
        self.check_order(sinks["endless"].events(), 4, count // 4)
        for name in ("hang", "drip"):
            shown = self.ok("publisher", "show", name, "-o", "json").json()
            self.assertEqual((count, 0, 0), (shown["pending"] + shown["processing"],
                                             shown["failed"], shown["dead"]), name)
            self.assertLessEqual(len(sinks[name].tried), 2) # as many as --in-flight lets
        begun = time.monotonic()
        self.assertEqual(0, interrupt(worker).code)
        self.assertLess(time.monotonic(), begun + 100, "a stop waited for a sink that hangs")

    # --- webhooks -----------------------------------------------------------------------------

    def test_a_webhook_gets_signed_events(self):
        receiver = self.receiver()
        self.write("key", "whsec_" + base64.b64encode(b"0123456789").decode() + "\n")
        self.hook(receiver, "--secret-file", "key")
        self.send(5, 4)
        self.work()
        self.assertEqual(20, len(receiver.got))
        self.check_order([event for event, _, _ in receiver.got], 5, 4)
        event, body, headers = receiver.got[0]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(b"0123456789", signed, hashlib.sha256).digest()
        self.assertEqual("v1," + base64.b64encode(digest).decode(), headers["webhook-signature"])
        self.assertEqual(f'{event.get("tenant", "")}/{event["id"]}', headers["webhook-id"])
        self.assertLess(abs(time.time() - int(headers["webhook-timestamp"])), 60)
        self.assertIn("cloudevents+json", headers["Content-Type"])

    def test_what_a_receiver_fails_on_holds_back_its_own_stream_only(self):
        broken = threading.Event()
        broken.set()
        receiver = self.receiver(lambda event, _: 500 if event["subject"] == "s1" and
                                 event["streamsequence"] == 2 and broken.is_set() else 200)
        self.hook(receiver)
        self.send(3, 4)
        self.work(leaves=True)
        self.assertEqual({("s0", n) for n in range(1, 5)} | {("s2", n) for n in range(1, 5)} |
                         {("s1", 1)},
                         {(e["subject"], e["streamsequence"]) for e, _, _ in receiver.got})
        shown = self.shown()
        self.assertEqual((1, 2), (shown["failed"], shown["pending"]))
        report = self.ok("outbox", "report", "--lane", "out", "-o", "json").json()
        self.assertIn("the receiver returned 500", str(report["rows"]))
        broken.clear()
        time.sleep(0.1)
        self.work()
        self.check_order([event for event, _, _ in receiver.got], 3, 4)

    def test_a_redirect_is_a_failure_and_an_endless_answer_is_not_read(self):
        receiver = self.receiver(lambda event, _: {"s0": "redirect", "s1": "endless",
                                                   "s2": "hang"}.get(event["subject"], 200))
        self.hook(receiver, "--attempts", 1)
        self.send(4, 1)
        self.work(leaves=True)
        self.assertEqual({"s1", "s3"}, {e["subject"] for e, _, _ in receiver.got})
        rows = {r["stream"]: r["last_error"] for r in
                self.ok("outbox", "report", "--lane", "out", "-o", "json").json()["rows"]}
        self.assertIn("redirects are not followed", rows["s0"])
        self.assertIn("no complete response within 500 ms", rows["s2"])

    def test_an_address_that_is_not_public_is_not_called(self):
        """Whatever its name is: it is the address that is about to be connected to that is looked at."""
        receiver = self.receiver()
        url = receiver.url.replace("http:", "https:")
        for host in ("127.0.0.1", "localhost"):
            self.ok("publisher", "add", "out", "--to", url.replace("127.0.0.1", host), "--timeout",
                    "500ms", "--replace")
            self.send(1, 1)
            self.assertIn("is not public", self.work(leaves=True).err)
        self.assertEqual([], receiver.tried)
        self.assertEqual(2, self.shown()["pending"] + self.shown()["processing"])
        self.assertEqual(0, self.shown()["failed"])

    def test_a_receiver_that_is_away_or_fails_everything_costs_no_attempts(self):
        receiver = self.receiver(lambda event, _: 503)
        self.hook(receiver, "--attempts", 1)
        self.send(12, 2)
        self.work(leaves=True)
        shown = self.shown()
        self.assertEqual((0, 0, 24), (shown["dead"], shown["failed"],
                                      shown["pending"] + shown["processing"]))
        self.assertLess(len(receiver.tried), 24)
        receiver.rule = lambda event, _: 200
        end = time.monotonic() + 120
        while time.monotonic() < end and len({e["id"] for e in receiver.events()}) < 24:
            self.run_it("work", "--drain", "--no-leasing") # on a busy machine an answer may come too late, and be due again
            time.sleep(0.1)
        self.check_order(receiver.events(), 12, 2)

    def test_a_worker_that_is_killed_and_one_that_hangs_skip_nothing(self):
        receiver = self.receiver(lambda event, _: "hang" if event["data"]["n"] == 3 and
                                 event["subject"] == "s2" and not calm.is_set() else 200)
        calm = threading.Event()
        self.hook(receiver)
        self.send(4, 8)
        worker = self.start("work", "--no-leasing", "--silent")
        end = time.monotonic() + 120
        while len(receiver.got) < 8 and time.monotonic() < end:
            time.sleep(0.01)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        calm.set()
        worker = self.start("work", "--no-leasing", "--silent")
        while (len({e["id"] for e, _, _ in receiver.got}) < 32 or self.shown()["pending"]) and \
                time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(0, interrupt(worker).code)
        self.check_order([event for event, _, _ in receiver.got], 4, 8)
        self.assertEqual(0, self.shown()["pending"])
