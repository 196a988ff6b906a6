"""TLS: what it takes, what it refuses, and certificates that change while it runs."""
import hashlib
import http.client
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import Server, everfold, make_token, wait_until


def make_certificate(where, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", str(where / f"{name}.key"), "-out",
                    str(where / f"{name}.crt")], check=True, capture_output=True, timeout=60)


@unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificates")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="everfold-tls-")
        cls.addClassCleanup(cls.room.cleanup)
        cls.at = Path(cls.room.name)
        for name in ("one", "two"):
            make_certificate(cls.at, name)
        cls.data = cls.at / "data"
        everfold(cls.data, "init")
        cls.token = make_token(cls.data, "--scope", "admin")["token"]
        for suffix in ("key", "crt"):
            shutil.copy(cls.at / f"one.{suffix}", cls.at / f"used.{suffix}")
        cls.server = Server("--listen", "0.0.0.0:0", *cls.flags("used", "used"), "--hosts",
                            "127.0.0.1", data=cls.data)
        cls.addClassCleanup(shutil.rmtree, cls.server.dir, True)
        cls.addClassCleanup(lambda: cls.server.stop())

    @classmethod
    def flags(cls, certificate, key):
        return ("--tls-certificate", str(cls.at / f"{certificate}.crt"), "--tls-key",
                str(cls.at / f"{key}.key"))

    def context(self, *trusted):
        context = ssl.create_default_context()
        for name in trusted:
            context.load_verify_locations(self.at / f"{name}.crt")
        return context

    def ask(self, path, context, token=None):
        c = http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=20, context=context)
        c.connect()
        shown = hashlib.sha256(c.sock.getpeercert(True)).digest()
        c.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
        status = c.getresponse().status
        c.close()
        return status, shown

    def test_it_serves_any_address_with_tls_and_a_token(self):
        self.assertTrue(self.server.url.startswith("https://0.0.0.0:"))
        self.assertEqual(401, self.ask("/v1/events", self.context("one", "two"))[0])
        self.assertEqual(200, self.ask("/v1/events", self.context("one", "two"), self.token)[0])
        with self.assertRaises(ssl.SSLError):
            self.ask("/livez", ssl.create_default_context())

    def test_old_versions_of_tls_and_plain_http_get_nothing(self):
        context = self.context("one", "two")
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, OSError)):
            self.ask("/livez", context)
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as s:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            s.settimeout(10)
            try:
                self.assertNotIn(b"HTTP/1.1", s.recv(4096))
            except ConnectionResetError:
                pass

    def test_sighup_changes_the_certificate_and_a_bad_one_is_not_taken(self):
        context = self.context("one", "two")
        first = self.ask("/livez", context)[1]
        shutil.copy(self.at / "two.crt", self.at / "used.crt")
        self.server.process.send_signal(signal.SIGHUP)  # the key is still the other's
        wait_until(lambda: "reload failed" in self.server.said())
        self.assertEqual(first, self.ask("/livez", context)[1])
        shutil.copy(self.at / "two.key", self.at / "used.key")
        self.server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.ask("/livez", context)[1] != first)
        self.assertEqual(200, self.ask("/livez", self.context("two"))[0])

    def test_what_is_wrong_is_named_at_the_start(self):
        bare = self.at / "bare"
        everfold(bare, "init")
        for arguments, data, words in [
                (self.flags("one", "two"), self.data, "not the key of the first certificate"),
                (self.flags("none", "one"), self.data, "server.tls_certificate"),
                (self.flags("one", "none"), self.data, "server.tls_key"),
                (self.flags("one", "one")[:2], self.data, "both or none"),
                (("--listen", "0.0.0.0:0"), self.data, "needs TLS"),
                (("--listen", "0.0.0.0:0", *self.flags("one", "one")), bare, "there is no token")]:
            with self.assertRaises(AssertionError) as caught:
                Server(*arguments, data=data)
            self.assertIn(words, str(caught.exception))
