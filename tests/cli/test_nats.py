"""Publishing to JetStream: a real nats-server, killed, restarted and restored from an older copy."""
import base64
import json
import os
import shutil
import signal
import time

from broker import Broker
from support import Case


class Nats(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("type", "set", "sent", "--publish", "yes")
        self.broker = Broker(self.dir / "broker")
        self.broker.start()
        self.addCleanup(lambda: self.broker.process.poll() is None and self.broker.kill())

    def add(self, *words):
        self.ok("publisher", "add", "bus", "--to",
                f"nats://127.0.0.1:{self.broker.port}/events.{{type}}.{{stream}}", "--timeout",
                "2s", *words)

    def send(self, streams, each):
        lines = "".join(json.dumps({"stream": f"s.{s}", "type": "sent", "data": {"n": n}}) + "\n"
                        for n in range(each) for s in range(streams))
        self.ok("event", "import", "-", stdin=lines)

    def work(self):
        return self.ok("work", "--drain", "--no-leasing")

    def wait_until_published(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.work()
            shown = self.ok("publisher", "show", "bus", "-o", "json").json()
            if shown["pending"] + shown["processing"] + shown["failed"] == 0:
                return
            time.sleep(0.2)
        self.fail("it is not published in time")

    def check(self, streams, each):
        seen = {}
        for message in self.broker.messages():
            event = json.loads(base64.b64decode(message["data"]))
            self.assertEqual("events.sent.s%2E" + event["subject"][2:], message["subject"])
            row = seen.setdefault(event["subject"], [])
            if event["streamsequence"] not in row:
                row.append(event["streamsequence"])
        self.assertEqual({f"s.{s}": list(range(1, each + 1)) for s in range(streams)}, seen)

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

    def test_without_a_stream_nothing_is_lost(self):
        self.add()
        self.send(2, 2)
        self.work()
        self.broker.make_stream()
        self.wait_until_published()
        self.check(2, 2)

    def test_a_broker_that_is_killed_and_workers_too(self):
        self.broker.make_stream()
        self.add()
        for _ in range(3):
            self.send(4, 50)
            worker = self.start("work", "--no-leasing", "--silent")
            time.sleep(0.5)
            self.broker.kill()
            time.sleep(0.2)
            self.broker.start()
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self.wait_until_published()
        self.check(4, 150)

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
        self.broker.kill()
        shutil.rmtree(self.broker.folder)
        os.rename(self.dir / "copy", self.broker.folder)
        self.broker.start()
        self.assertLess(len(self.broker.messages()), 60)
        self.send(3, 1) # what is new shows that something is missing
        self.wait_until_published()
        self.check(3, 21)
