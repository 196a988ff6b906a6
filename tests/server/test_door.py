"""The door: who may come in, what a request may look like."""
import socket
import time

from support import Case, Server


def raw(server, data, limit_s=10):
    with socket.create_connection((server.host, server.port), timeout=limit_s) as s:
        s.sendall(data)
        s.settimeout(limit_s)
        out = b""
        try:
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                out += piece
                if b"\r\n\r\n" in out and b"Connection: close" not in out:
                    break
        except (socket.timeout, ConnectionResetError):
            pass
        return out


class Door(Case):
    def test_a_foreign_host_or_origin_is_refused_before_anything_else(self):
        self.refused(421, "bad_input", self.get("/v1/events", Host="attacker.example"))
        self.refused(403, "bad_input", self.get("/v1/events", Origin="http://attacker.example"))
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(200, self.get("/v1/events", Origin=own).status)

    def test_a_name_that_is_none_is_refused_and_one_that_is_stands_beside_the_token(self):
        for bad in ("x" * 65, "a\tb", b"\xff".decode("latin-1")):
            self.refused(400, "bad_input", self.get("/v1/events", Everfold_Actor=bad))
        self.assertEqual("Ann (loopback)", self.get("/v1/whoami", Everfold_Actor="Ann").json()["name"])

    def test_a_length_told_twice_is_refused_and_the_connection_closed(self):
        host = f"Host: 127.0.0.1:{self.server.port}\r\n".encode()
        head = b"POST /v1/streams/x/events HTTP/1.1\r\n" + host
        for framing in (b"Content-Length: 2\r\nContent-Length: 3\r\n",
                        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                        b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n"):
            answer = raw(self.server, head + framing + b"\r\n{}")
            self.assertTrue(answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 413"), answer[:200])

    def test_a_body_that_is_too_large_is_refused(self):
        host = f"Host: 127.0.0.1:{self.server.port}\r\n".encode()
        answer = raw(self.server, b"POST /v1/events HTTP/1.1\r\n" + host +
                     b"Content-Length: 1000000000\r\n\r\n")
        self.assertIn(b"413", answer.split(b"\r\n")[0])

    def test_a_header_is_found_whatever_the_case_of_its_letters(self):
        for name in ("Everfold-Actor", "everfold-actor", "EVERFOLD-ACTOR", "eVERFOLD-aCTOR"):
            answer = self.ask("GET", "/v1/whoami", headers={name: "Ann", "X-Other": "1"})
            self.assertEqual("Ann (loopback)", answer.json()["name"])
        self.refused(403, "bad_input", self.ask("GET", "/v1/events",
                                                headers={"ORIGIN": "http://attacker.example"}))
        self.refused(401, "bad_input", self.ask("GET", "/v1/events",
                                                headers={"AUTHORIZATION": "Bearer evf_no"}))

    def test_what_came_before_on_a_connection_is_forgotten(self):
        """Memory of a request serves the next one."""
        c = self.server.connect()
        for path, status in [("/v1/events?after=x", 400), ("/v1/events?after=1", 200),
                             ("/v1/events", 200), ("/v1/events?wrong=1", 400), ("/v1/whoami", 200),
                             ("/v1/views/none/none", 404), ("/v1/events?limit=1&after=0", 200)]:
            answer = self.ask("GET", path, connection=c, headers={"Everfold-Actor": "Ann"})
            self.assertEqual(status, answer.status, path)
        self.assertEqual("loopback", self.ask("GET", "/v1/whoami", connection=c).json()["name"])
        for body in ("x" * 9000, '{"type":"t","data":{"n":1}}', "", '{"type":"t","data":{}}'):
            answer = self.ask("POST", "/v1/streams/forgotten/events", body, connection=c)
            self.assertEqual(201 if "type" in body else 400, answer.status, body[:40])
        events = self.ask("GET", "/v1/streams/forgotten/events", connection=c).json()
        self.assertEqual([{"n": 1}, {}], [e["data"] for e in events])
        c.close()

    def test_an_unknown_path_and_a_wrong_method(self):
        self.refused(404, "not_found", self.get("/v1/../etc/passwd"))
        answer = self.ask("DELETE", "/v1/outbox")
        self.refused(405, "unsupported", answer)
        self.assertEqual("GET", answer.headers["Allow"])

    def test_many_requests_on_one_connection(self):
        c = self.server.connect()
        for _ in range(200):
            self.assertEqual(200, self.ask("GET", "/livez", connection=c).status)
        c.close()


class Address(Case):
    def test_an_address_that_is_not_loopback_needs_tls(self):
        with self.assertRaises(AssertionError) as caught:
            Server("--listen", "0.0.0.0:0")
        self.assertIn("needs TLS", str(caught.exception))

    def test_an_address_in_use_is_named(self):
        with self.assertRaises(AssertionError) as caught:
            Server("--listen", f"127.0.0.1:{self.server.port}")
        self.assertIn("in use", str(caught.exception))
