"""Publishing to JetStream: a real nats-server, killed, restarted and restored from an older copy."""
import base64
import json
import os
import shutil
import signal
import threading
import time

from broker import Authority, Broker, Credentials, DeafProxy, Password, Token
from receiver import Receiver
from support import Case, interrupt


class Nats(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("type", "set", "sent", "--publish", "yes")
        self.broker = Broker(self.dir / "broker")
        self.broker.start()
        self.addCleanup(lambda: self.broker.process.poll() is None and self.broker.kill())

    def add(self, *words, port=None):
        self.ok("publisher", "add", "bus", "--to",
                f"nats://127.0.0.1:{port or self.broker.port}/events.{{type}}.{{stream}}",
                "--timeout", "2s", "--allow-private", *words)

    def send(self, streams, each):
        lines = "".join(json.dumps({"stream": f"s.{s}", "type": "sent", "data": {"n": n}}) + "\n"
                        for n in range(each) for s in range(streams))
        self.ok("event", "import", "-", stdin=lines)

    def work(self, leaves=False):
        return (self.leaves if leaves else self.ok)("work", "--drain", "--no-leasing")

    def waiting(self):
        return sum(shown[k] for shown in self.ok("publisher", "ls", "-o", "json").json()
                   for k in ("pending", "processing", "failed", "dead"))

    def wait_until_published(self, work=True):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if work:
                self.run_it("work", "--drain", "--no-leasing")
            if self.waiting() == 0:
                return
            time.sleep(0.2)
        self.fail("it is not published in time")

    def check(self, streams, each):
        """Each event is there, in the order of its stream and, by its id, once."""
        events = []
        for message in self.broker.messages():
            event = json.loads(base64.b64decode(message["data"]))
            self.assertEqual("events.sent.s%2E" + event["subject"][2:], message["subject"])
            events.append(event)
        self.assertEqual(streams * each, len(events))
        self.check_inbox(events, streams, each)

    def check_inbox(self, events, streams, each):
        """What a receiver has that drops by its id what it has had: exactly all, in order."""
        inbox, seen = set(), {}
        for event in events:
            if event["id"] not in inbox:
                inbox.add(event["id"])
                seen.setdefault(event["subject"], []).append(event["streamsequence"])
        self.assertEqual({f"s.{s}": list(range(1, each + 1)) for s in range(streams)}, seen)

    def seqs(self, stream):
        """What the broker has of a stream, in its own order."""
        events = [json.loads(base64.b64decode(message["data"])) for message in self.broker.messages()]
        return [event["streamsequence"] for event in events if event.get("subject") == stream]

    def wait_for_messages(self, count):
        end = time.monotonic() + 120
        while self.broker.last() < count:
            self.assertLess(time.monotonic(), end, "the broker gets no messages")
            time.sleep(0.02)

    def put_back(self, copy):
        """The broker's store is as it was when it was copied."""
        self.broker.kill()
        shutil.rmtree(self.broker.folder)
        os.rename(copy, self.broker.folder)
        self.broker.start()

    def test_events_are_published_once_with_their_ids(self):
        self.broker.make_stream()
        self.add()
        self.send(5, 20)
        self.assertIn("published 100", self.work().out)
        messages = self.broker.messages()
        self.assertEqual(100, len(messages))
        headers = base64.b64decode(messages[0]["hdrs"]).decode()
        self.assertIn("Nats-Msg-Id: /", headers)
        self.assertIn("Nats-Expected-Stream: EVENTS", headers)
        self.check(5, 20)

    def test_what_a_broker_would_get_again_is_kept_for_ten_minutes(self):
        self.add()
        self.assertEqual(600000, self.ok("publisher", "show", "bus", "-o", "json").json()["retain_ms"])

    def test_what_is_no_address_of_a_broker_is_refused(self):
        for url, saying in (("nats://", "is not a NATS address"), ("nats://h/", "is not a subject"),
                            ("nats://h:x/a", "has no valid host"), ("nats://h:99999/a", "has no valid host"),
                            ("nats://[::1/a", "has no valid host"), ("nats://u:p@h/a", "password"),
                            ("nats://h/a.*", "is a pattern"), ("nats://h/a.{x}", "the placeholders are"),
                            ("nats://h/a?x=1", "the keys are ca and creds"), ("nats://h/a?ca=/x", "tls://"),
                            ("tls://h/a?ca=x", "absolute path")):
            self.refused(2, "publisher", "add", "bus", "--to", url, saying=saying)
        self.assertEqual([], self.ok("publisher", "ls", "-o", "json").json())

    def test_without_a_stream_nothing_is_lost(self):
        self.add()
        self.send(2, 2)
        self.work(leaves=True)
        self.broker.make_stream()
        self.wait_until_published()
        self.check(2, 2)

    def test_what_no_stream_takes_waits_by_itself_and_says_why(self):
        self.ok("type", "set", "other", "--publish", "yes")
        self.broker.make_stream("events.sent.>")
        self.add()
        self.send(3, 2)
        self.append("lone", "other")
        self.append("lone", "sent")
        self.work(leaves=True)
        rows = self.ok("outbox", "report", "--lane", "bus", "-o", "json").json()["rows"]
        self.assertEqual([("lone", 1, "failed"), ("lone", 2, "pending")],
                         [(row["stream"], row["seq"], row["status"]) for row in rows])
        self.assertIn("no stream has its subject", rows[0]["last_error"])
        self.assertEqual(6, self.broker.last())

    def test_a_message_that_no_stream_takes_holds_back_its_own_stream_until_one_does(self):
        self.ok("type", "set", "other", "--publish", "yes")
        self.broker.make_stream("events.sent.>")
        self.add("--retry", "500ms")
        for type in ("sent", "other", "sent", "sent"):
            self.append("lone", type)
        self.send(3, 2)
        self.work(leaves=True)
        self.assertEqual([1], self.seqs("lone"))
        self.assertEqual([1, 2], self.seqs("s.2"))
        self.broker.change_stream("events.>")
        self.wait_until_published()
        self.assertEqual([1, 2, 3, 4], self.seqs("lone"))

    def check_held_back(self, **limits):
        """Of a stream whose second event the broker has no room for the first gets in, and the rest when it has."""
        self.ok("type", "set", "other", "--publish", "yes")
        self.broker.make_stream(**limits)
        self.add("--retry", "500ms")
        for type, bytes in (("sent", 10), ("sent", 9000), ("other", 10), ("other", 10)):
            self.append("lone", type, json.dumps({"text": "x" * bytes}))
        self.send(3, 1)
        self.work(leaves=True)
        self.assertEqual([1], self.seqs("lone"))
        self.assertEqual([1], self.seqs("s.2"))
        self.broker.change_stream()
        self.wait_until_published()
        self.assertEqual([1, 2, 3, 4], self.seqs("lone"))

    def test_a_message_that_is_larger_than_the_stream_takes_holds_back_its_own_stream(self):
        self.check_held_back(max_msg_size=5000)

    def test_one_for_which_there_are_not_enough_bytes_left_does(self):
        self.check_held_back(max_bytes=8000, discard="new")

    def test_one_of_which_there_are_enough_by_its_subject_does(self):
        self.check_held_back(max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)

    def test_another_writer_of_the_stream_delays_no_publisher(self):
        self.broker.make_stream()
        self.add()
        self.send(3, 400)
        over = threading.Event()

        def write():
            while not over.is_set():
                self.broker.publish([("events.else", {}, {}) for _ in range(5)])

        other = threading.Thread(target=write)
        other.start()
        try:
            self.wait_until_published()
        finally:
            over.set()
            other.join()
        for s in range(3):
            self.assertEqual(list(range(1, 401)), self.seqs(f"s.{s}"))

    def test_a_trace_goes_along_in_a_header(self):
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.broker.make_stream()
        self.add()
        self.append("s", "sent", "{}", "--meta", json.dumps({"traceparent": trace}))
        self.append("s", "sent")
        self.work()
        traced, plain = (base64.b64decode(m["hdrs"]).decode() for m in self.broker.messages())
        self.assertIn(f"traceparent: {trace}\r\n", traced)
        self.assertNotIn("traceparent", plain)

    def test_a_broker_that_is_killed_and_workers_too(self):
        self.broker.make_stream()
        self.add()
        for _ in range(3):
            self.send(4, 50)
            before = self.broker.last()
            worker = self.start("work", "--no-leasing", "--silent")
            self.wait_for_messages(before + 1)
            self.broker.kill()
            time.sleep(0.2)
            self.broker.start()
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self.wait_until_published()
        self.check(4, 150)

    def test_batches_that_overlap_are_exact_while_worker_and_broker_are_killed(self):
        """Each time some thousand messages are under way, in batches of 1,000, 2,000 and so on."""
        self.broker.make_stream()
        self.add()
        self.send(8, 600)
        for n in range(4):
            worker = self.start("work", "--no-leasing", "--silent")
            self.wait_for_messages(min(4800, self.broker.last() + 1100))
            if n % 2:
                self.broker.kill()
                self.broker.start()
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self.wait_until_published()
        self.check(8, 600)

    def test_what_an_older_copy_of_the_broker_lacks_is_published_again(self):
        self.broker.make_stream()
        self.add()
        self.send(3, 10)
        self.wait_until_published()
        self.broker.kill()
        shutil.copytree(self.broker.folder, self.dir / "copy")
        self.broker.start()
        self.send(3, 10)
        self.wait_until_published()
        self.check(3, 20)
        self.put_back(self.dir / "copy")
        self.assertLess(len(self.broker.messages()), 60)
        self.work()
        self.wait_until_published()
        self.check(3, 20)

    def test_a_broker_that_is_put_back_under_an_idle_worker_gets_what_it_lacks(self):
        self.broker.make_stream()
        self.add("--retain", "15s")
        self.send(1, 2)
        self.wait_until_published()
        self.broker.kill()
        shutil.copytree(self.broker.folder, self.dir / "copy")
        self.broker.start()
        worker = self.start("work", "--no-leasing", "--silent")
        self.send(1, 3)
        self.wait_for_messages(5)
        self.wait_until_published(work=False)
        self.put_back(self.dir / "copy")
        self.assertEqual(2, self.broker.last())
        self.wait_for_messages(5) # nothing new is sent
        self.assertIn("redelivering", interrupt(worker).err)
        self.check_inbox([json.loads(base64.b64decode(m["data"])) for m in self.broker.messages()], 1, 5)

    def test_a_stream_that_is_recreated_under_an_idle_worker_gets_everything(self):
        self.broker.make_stream()
        self.add()
        worker = self.start("work", "--no-leasing", "--silent")
        self.send(2, 3)
        self.wait_for_messages(6)
        self.wait_until_published(work=False)
        self.broker.delete_stream()
        self.broker.make_stream()
        self.wait_for_messages(6) # it is checked every ten seconds
        interrupt(worker)
        self.check(2, 3)

    def test_lost_messages_that_are_no_longer_kept_are_logged_as_errors(self):
        self.broker.make_stream()
        self.add("--retain", "0")
        self.send(2, 3)
        self.wait_until_published()
        self.broker.delete_stream()
        self.broker.make_stream()
        said = self.work().err
        self.assertIn("error", said)
        self.assertIn("more than are retained", said)
        self.assertIn("lost=6", said)

    def test_acknowledgements_that_are_lost_mark_nothing_and_double_nothing(self):
        self.broker.make_stream()
        proxy = DeafProxy(self.broker.port, mute=True)
        self.addCleanup(proxy.close)
        self.add("--timeout", "500ms", port=proxy.port)
        self.send(4, 25)
        self.work(leaves=True)
        self.assertEqual(100, proxy.lost)
        self.assertEqual(100, self.waiting()) # the stream has them all, and no acknowledgement arrived
        proxy.mute = False
        self.wait_until_published()
        self.check(4, 25)

    def test_every_sink_has_all_of_it_while_the_broker_is_killed_and_put_back_under_load(self):
        self.broker.make_stream()
        self.add()
        receiver = Receiver()
        self.addCleanup(receiver.end)
        self.ok("publisher", "add", "hook", "--to", receiver.url, "--allow-private")
        self.ok("publisher", "add", "file", "--to", "file:out.ndjson")
        worker = self.start("work", "--no-leasing", "--silent")
        self.send(4, 10) # before the copy; 12 times 10 in all
        self.wait_until_published(work=False)
        self.broker.kill()
        shutil.copytree(self.broker.folder, self.dir / "copy")
        self.broker.start()
        load = threading.Thread(target=lambda: [self.send(4, 10) for _ in range(10)])
        load.start()
        self.wait_for_messages(80)
        self.broker.kill()
        time.sleep(0.3)
        self.broker.start()
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        worker = self.start("work", "--no-leasing", "--silent")
        self.wait_for_messages(160)
        self.put_back(self.dir / "copy") # its sequence is at 40 again
        load.join()
        self.send(4, 10) # in case all were published before: new events show that the stream was lost
        self.wait_until_published(work=False)
        self.assertEqual(0, interrupt(worker).code)
        self.check(4, 120)
        self.check_inbox(receiver.events(), 4, 120)
        lines = (self.dir / "out.ndjson").read_text().splitlines()
        self.check_inbox([json.loads(line) for line in lines], 4, 120)

    def test_a_broker_at_an_address_that_is_not_public_is_not_connected_to(self):
        self.broker.make_stream()
        for n, host in enumerate(("127.0.0.1", "localhost", "[::1]")):
            self.ok("publisher", "add", "bus", "--to", f"nats://{host}:{self.broker.port}/events.x", "--timeout", "2s", *(["--replace"] if n else []))
            self.append("s", "sent")
            said = self.run_it("work", "--drain", "--no-leasing").err
            self.assertIn("not public", said)
            self.assertIn("allow_private", said)
        self.assertEqual([], list(self.broker.messages()))
        self.ok("publisher", "add", "bus", "--to", f"nats://localhost:{self.broker.port}/events.x", "--timeout", "2s", "--allow-private", "--replace")
        self.ok("work", "--drain", "--no-leasing")
        self.assertEqual(3, len(self.broker.messages()))


class Secure(Case):
    """TLS with an authority of one's own, and whom a broker lets in."""

    def setUp(self):
        super().setUp()
        self.init()
        self.ok("type", "set", "sent", "--publish", "yes")
        self.write("secret", "me:pw\n")

    def published(self, to, *words, authority=None, access=None):
        """How many of one event get to a broker, by an address that begins and ends as `to` says."""
        broker = Broker(self.dir / "broker", authority, access)
        broker.start()
        self.addCleanup(lambda: broker.process.poll() is None and broker.kill())
        broker.make_stream()
        scheme, query = to
        self.ok("publisher", "add", "bus", "--to", f"{scheme}://127.0.0.1:{broker.port}/events.x{query}",
                "--timeout", "2s", "--allow-private", *words)
        self.append("s", "sent")
        said = self.run_it("work", "--drain", "--no-leasing").err
        return len(broker.messages()), said

    def published_by_tls(self, host, known=None, secret="secret"):
        """… to one whose certificate is for `host`, by an authority that is `known`."""
        own = Authority(self.dir / "authority", host)
        return self.published(("tls", f"?ca={(known or own).ca}"), "--secret-file", secret, authority=own,
                              access=Password)

    def test_a_broker_that_shows_its_certificate_and_takes_the_password_is_published_to(self):
        self.assertEqual(1, self.published_by_tls("IP:127.0.0.1")[0])

    def test_one_whose_certificate_is_for_another_host_is_not(self):
        count, said = self.published_by_tls("DNS:elsewhere.example")
        self.assertEqual(0, count)
        self.assertIn("sink unavailable", said)

    def test_a_certificate_of_an_unknown_authority_is_refused(self):
        stranger = Authority(self.dir / "stranger", "IP:127.0.0.1")
        self.assertEqual(0, self.published_by_tls("IP:127.0.0.1", known=stranger)[0])

    def test_a_wrong_password_publishes_nothing_and_says_so(self):
        count, said = self.published_by_tls("IP:127.0.0.1", secret=self.write("wrong", "me:no"))
        self.assertEqual(0, count)
        self.assertIn("Authentication Violation", said)

    def test_a_token_lets_in(self):
        secret = self.write("token", "t0ken\n")
        self.assertEqual(1, self.published(("nats", ""), "--secret-file", secret, access=Token)[0])

    def test_credentials_let_in(self):
        own = Credentials(self.dir / "own")
        self.assertEqual(1, self.published(("nats", f"?creds={own.file}"), access=own)[0])

    def test_credentials_of_another_operator_do_not(self):
        own, other = (Credentials(self.dir / name) for name in ("own", "other"))
        count, said = self.published(("nats", f"?creds={other.file}"), access=own)
        self.assertEqual(0, count)
        self.assertIn("Authentication Violation", said)
