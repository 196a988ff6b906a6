"""nats-server with JetStream for the tests, a client of a few lines, and a proxy that loses acknowledgements."""
import json
import signal
import socket
import subprocess
import threading
import time


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

    def make_stream(self, *subjects, retention="limits"):
        answer = self.ask("$JS.API.STREAM.CREATE.EVENTS",
                          {"name": "EVENTS", "subjects": subjects or ["events.>"], "storage": "file",
                           "retention": retention, "max_consumers": -1, "max_msgs": -1,
                           "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "num_replicas": 1,
                           "discard": "old", "duplicate_window": 120000000000})
        assert "error" not in answer, answer

    def delete(self, sequence):
        assert self.ask("$JS.API.STREAM.MSG.DELETE.EVENTS", {"seq": sequence})["success"]

    def publish(self, messages):
        """Each is a subject, a body and headers; all are acknowledged when this returns."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
            stream = s.makefile("rwb")
            stream.readline()
            stream.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                         b"SUB acks.here 1\r\n")
            for subject, body, headers in messages:
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                head = ("NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) +
                        "\r\n").encode()
                stream.write(f"HPUB {subject} acks.here {len(head)} {len(head) + len(body)}\r\n"
                             .encode() + head + body + b"\r\n")
            stream.flush()
            for _ in messages:
                answer = json.loads(self.next_message(stream))
                assert "error" not in answer, answer

    @staticmethod
    def next_message(stream):
        while True:
            line = stream.readline().decode().split()
            if not line:
                raise OSError("closed")
            if line[0] == "PING":
                stream.write(b"PONG\r\n")
                stream.flush()
            elif line[0] == "MSG":
                body = stream.read(int(line[-1]))
                stream.readline()
                return body
            elif line[0] in ("HMSG", "-ERR"):
                raise OSError(" ".join(line))

    def messages(self):
        last = self.ask("$JS.API.STREAM.INFO.EVENTS", {})["state"]["last_seq"]
        return [self.ask("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": n})["message"]
                for n in range(1, last + 1)]


class DeafProxy:
    """Between a client and the broker: what acknowledges a message is lost on the way."""

    def __init__(self, port):
        self.to, self.lost = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.back, args=(server, client), daemon=True).start()
            threading.Thread(target=self.there, args=(client, server), daemon=True).start()

    @staticmethod
    def back(server, client):
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        client.close()

    def there(self, client, server):
        lines = client.makefile("rb")
        try:
            while line := lines.readline():
                words = line.split()
                body = b""
                if words and words[0] in (b"PUB", b"HPUB"):
                    body = lines.read(int(words[-1]) + 2)
                if len(words) > 1 and words[1].startswith(b"$JS.ACK."):
                    self.lost += 1
                else:
                    server.sendall(line + body)
        except OSError:
            pass
        server.close()
