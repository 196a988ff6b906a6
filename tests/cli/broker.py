"""nats-server with JetStream for the tests, a client of a few lines, ways to be let in, and a proxy that loses acknowledgements."""
import base64
import hashlib
import json
import signal
import socket
import ssl
import subprocess
import threading
import time


def openssl(*words, stdin=None):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, input=stdin).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Password:
    """What the broker is told to want, and what a client says in answer to its nonce."""
    settings = "authorization { user: me, password: pw }\n"

    @staticmethod
    def words(_):
        return {"user": "me", "pass": "pw"}


class Token:
    settings = "authorization { token: t0ken }\n"

    @staticmethod
    def words(_):
        return {"auth_token": "t0ken"}


class Key:
    """An Ed25519 key as NATS writes it: base32 of a kind, 32 bytes and a sum."""
    KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}

    def __init__(self, folder, kind, name=None):
        self.kind, self.file = kind, folder / f"{name or kind}.key"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.file)
        secret = openssl("pkey", "-in", self.file, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-32:]
        prefix = self.KINDS[kind]
        self.public = self.text(bytes([prefix]) + public)
        self.seed = self.text(bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) + secret)

    @staticmethod
    def text(raw):
        crc = 0
        for byte in raw:
            crc ^= byte << 8
            for _ in range(8):
                crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
        return base64.b32encode(raw + crc.to_bytes(2, "little")).decode().rstrip("=")

    def sign(self, data):
        given = self.file.with_suffix(".data")
        given.write_bytes(data)
        return url64(openssl("pkeyutl", "-sign", "-inkey", self.file, "-rawin", "-in", given))

    def vouch(self, other, **claims):
        """A JWT in which this key says who `other` is."""
        payload = {"iat": int(time.time()), "iss": self.public, "name": other.kind, "sub": other.public,
                   "nats": {"type": other.kind, "version": 2, **claims}}
        payload["jti"] = base64.b32encode(hashlib.sha256(json.dumps(payload).encode()).digest()).decode().rstrip("=")
        said = b".".join(url64(json.dumps(part).encode()) for part in
                         ({"typ": "JWT", "alg": "ed25519-nkey"}, payload))
        return (said + b"." + self.sign(said)).decode()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class Credentials:
    """An operator with one account and one user, and the user's credentials in a file."""

    def __init__(self, folder):
        folder.mkdir()
        operator, account, self.user = (Key(folder, kind) for kind in Key.KINDS)
        system = Key(folder, "account", "system") # JetStream does not start without one
        any_number = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage",
                                    "disk_storage", "streams", "consumer"), -1)
        accounts = ", ".join(f"{key.public}: {operator.vouch(key, limits=limits)}" for key, limits in
                             ((account, {**any_number, "wildcards": True}), (system, {"conn": -1, "subs": -1})))
        self.jwt = account.vouch(self.user, subs=-1, data=-1, payload=-1)
        self.settings = (f"operator: {operator.vouch(operator)}\nresolver: MEMORY\n"
                         f"system_account: {system.public}\nresolver_preload: {{ {accounts} }}\n")
        self.file = folder / "user.creds"
        self.file.write_text(f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
                             f"-----BEGIN USER NKEY SEED-----\n{self.user.seed}\n------END USER NKEY SEED------\n")

    def words(self, nonce):
        return {"jwt": self.jwt, "sig": self.user.sign(nonce.encode()).decode()}


class Broker:
    """nats-server with JetStream in a folder, and a client of a few lines. `authority`: it speaks TLS. `access`: whom it
    lets in."""

    def __init__(self, folder, authority=None, access=None):
        self.folder, self.process, self.authority, self.access = folder, None, authority, access
        self.port = free_port()

    def start(self):
        config = self.folder.with_suffix(".conf")
        tls = (f'tls {{ cert_file: "{self.authority.cert}", key_file: "{self.authority.key}" }}\n'
               if self.authority else "")
        config.write_text(tls + (self.access.settings if self.access else ""))
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

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait()

    def stop(self):
        self.kill(signal.SIGTERM)

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        with s.makefile("rb", buffering=0) as stream:
            greeting = json.loads(stream.readline().removeprefix(b"INFO ") or "{}")
        if self.authority:
            context = ssl.create_default_context(cafile=self.authority.ca)
            context.check_hostname = False
            s = context.wrap_socket(s)
        words = {"verbose": False, "headers": True, "no_responders": True}
        if self.access:
            words.update(self.access.words(greeting.get("nonce", "")))
        s.sendall(b"CONNECT " + json.dumps(words).encode() + b"\r\n")
        return s

    def ask(self, subject, question):
        body = json.dumps(question).encode() if question != {} else b""
        with self.connect() as s:
            stream = s.makefile("rwb")
            stream.write(b"SUB reply.here 1\r\n" +
                         f"PUB {subject} reply.here {len(body)}\r\n".encode() + body + b"\r\n")
            stream.flush()
            return json.loads(self.next_message(stream))

    def make_stream(self, *subjects, verb="CREATE", **settings):
        answer = self.ask(f"$JS.API.STREAM.{verb}.EVENTS",
                          {"name": "EVENTS", "subjects": subjects or ["events.>"], "storage": "file",
                           "retention": "limits", "max_consumers": -1, "max_msgs": -1,
                           "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "num_replicas": 1,
                           "discard": "old", "duplicate_window": 120000000000, **settings})
        assert "error" not in answer, answer

    def change_stream(self, *subjects, **settings):
        self.make_stream(*subjects, verb="UPDATE", **settings)

    def delete_stream(self):
        assert self.ask("$JS.API.STREAM.DELETE.EVENTS", {})["success"]

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
        openssl(*make, "-x509", "-days", "2", "-subj", "/CN=test", "-keyout", ca_key, "-out",
                     self.ca)
        openssl(*make, "-subj", "/CN=broker", "-keyout", self.key, "-out", request)
        openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.ca, "-CAkey", ca_key,
                     "-CAcreateserial", "-extfile", names, "-out", self.cert)
