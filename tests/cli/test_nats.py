"""Publishing to JetStream: a real nats-server, killed, restarted and restored from an older copy."""
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from support import Case


class Broker:
    """nats-server with JetStream in a folder, and a client of a few lines."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self):
        self.process = subprocess.Popen(
            ["nats-server", "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd",
             str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                self.ask("$JS.API.INFO", {})
                return
            except (OSError, TimeoutError):
                time.sleep(0.05)
        raise AssertionError("nats-server does not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, subject, question):
        body = json.dumps(question).encode() if question != {} else b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
            stream = s.makefile("rwb")
            stream.readline()
            stream.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                         b"SUB reply.here 1\r\n" +
                         f"PUB {subject} reply.here {len(body)}\r\n".encode() + body + b"\r\n")
            stream.flush()
            while True:
                line = stream.readline().decode().split()
                if not line:
                    raise OSError("closed")
                if line[0] == "PING":
                    stream.write(b"PONG\r\n")
                    stream.flush()
                elif line[0] == "MSG":
                    return json.loads(stream.read(int(line[-1])))
                elif line[0] == "HMSG":
                    raise TimeoutError("no responders")
                elif line[0] == "-ERR":
                    raise OSError(" ".join(line))

    def make_stream(self, subjects="events.>"):
        answer = self.ask("$JS.API.STREAM.CREATE.EVENTS",
                          {"name": "EVENTS", "subjects": [subjects], "storage": "file",
                           "retention": "limits", "max_consumers": -1, "max_msgs": -1,
                           "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "num_replicas": 1,
                           "discard": "old", "duplicate_window": 120000000000})
        assert "error" not in answer, answer

    def messages(self):
        last = self.ask("$JS.API.STREAM.INFO.EVENTS", {})["state"]["last_seq"]
        return [self.ask("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": n})["message"]
                for n in range(1, last + 1)]


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
