"""nats-server with JetStream for the tests, a client of a few lines, and a proxy that loses acknowledgements."""
import json
import signal
import socket
import ssl
import subprocess
import threading
import time


class Broker:
    """nats-server with JetStream in a folder, and a client of a few lines. `authority`: it speaks TLS, and wants
    to be told a user ("me") and a password ("pw")."""

    def __init__(self, folder, authority=None):
        self.folder, self.process, self.authority = folder, None, authority
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self):
        config = self.folder.with_suffix(".conf")
        config.write_text("" if not self.authority else
                          f'tls {{ cert_file: "{self.authority.cert}", key_file: "{self.authority.key}" }}\n'
                          'authorization { user: me, password: pw }\n')
        self.process = subprocess.Popen(
            ["nats-server", "-c", str(config), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd",
             str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                self.ask("$JS.API.INFO", {})
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("nats-server does not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        with s.makefile("rb", buffering=0) as greeting:
            greeting.readline()
        if self.authority:
            context = ssl.create_default_context(cafile=self.authority.ca)
            context.check_hostname = False
            s = context.wrap_socket(s)
        s.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true' +
                  (b',"user":"me","pass":"pw"' if self.authority else b"") + b"}\r\n")
        return s

    def ask(self, subject, question):
        body = json.dumps(question).encode() if question != {} else b""
        with self.connect() as s:
            stream = s.makefile("rwb")
            stream.write(b"SUB reply.here 1\r\n" +
                         f"PUB {subject} reply.here {len(body)}\r\n".encode() + body + b"\r\n")
            stream.flush()
            return json.loads(self.next_message(stream))

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
        with self.connect() as s:
            stream = s.makefile("rwb")
            stream.write(b"SUB acks.here 1\r\n")
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

    def last(self):
        return self.ask("$JS.API.STREAM.INFO.EVENTS", {})["state"]["last_seq"]

    def messages(self):
        return [self.ask("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": n})["message"]
                for n in range(1, self.last() + 1)]


class DeafProxy:
    """Between a client and the broker: what acknowledges a message is lost on the way. A client's word that it has
    had one always is; the broker's, that it has stored one, for as long as `mute` says so."""

    def __init__(self, port, mute=False):
        self.to, self.lost, self.mute = port, 0, mute
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

    def back(self, server, client):
        lines = server.makefile("rb")
        try:
            while line := lines.readline():
                words = line.split()
                body = b""
                if words and words[0] in (b"MSG", b"HMSG"):
                    body = lines.read(int(words[-1]) + 2)
                if self.mute and body.startswith(b'{"stream":'):
                    self.lost += 1
                else:
                    client.sendall(line + body)
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


class Authority:
    """A CA of one's own, and a certificate of it for `host`."""

    def __init__(self, folder, host):
        folder.mkdir()
        self.ca, self.cert, self.key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        ca_key, request, names = folder / "ca.key", folder / "request", folder / "names"
        names.write_text(f"subjectAltName={host}\n")
        make = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.openssl(*make, "-x509", "-days", "2", "-subj", "/CN=test", "-keyout", ca_key, "-out",
                     self.ca)
        self.openssl(*make, "-subj", "/CN=broker", "-keyout", self.key, "-out", request)
        self.openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.ca, "-CAkey", ca_key,
                     "-CAcreateserial", "-extfile", names, "-out", self.cert)

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
