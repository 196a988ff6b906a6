"""The door: who may come in, what a request may look like."""
import socket
import time

from support import Case, Server, wait_until


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
        self.refused(421, "misdirected", self.get("/v1/events", Host="attacker.example"))
        self.refused(403, "forbidden", self.get("/v1/events", Origin="http://attacker.example"))
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(200, self.get("/v1/events", Origin=own).status)

    def test_a_name_that_is_none_is_refused_and_one_that_is_stands_beside_the_token(self):
        for bad in ("x" * 65, "a\tb", b"\xff".decode("latin-1")):
            self.refused(400, "bad_input", self.get("/v1/events", Everfold_Actor=bad))
        self.assertEqual("Ann (loopback)", self.get("/v1/whoami", Everfold_Actor="Ann").json()["name"])

    def test_a_repeated_content_length_is_refused_and_the_connection_closed(self):
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
        self.refused(403, "forbidden", self.ask("GET", "/v1/events",
                                                headers={"ORIGIN": "http://attacker.example"}))
        self.refused(401, "unauthorized", self.ask("GET", "/v1/events",
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
        self.refused(405, "method_not_allowed", answer)
        self.assertEqual("GET, HEAD, OPTIONS", answer.headers["Allow"])

    def test_head_answers_as_get_does_without_the_body(self):
        self.append("head-1", data={"text": "x" * 3000})
        for path in ("/", "/livez", "/readyz", "/version", "/v1/events", "/v1/streams/head-1/events?limit=1",
                     "/v1/projections", "/v1/status", "/v1/views/none/none", "/v1/nothing", "/v1/events?limit=x"):
            c = self.server.connect()
            got = self.ask("GET", path, connection=c)
            head = self.ask("HEAD", path, connection=c)
            self.assertEqual((got.status, b""), (head.status, head.body), path)
            for name in ("Content-Type", "Content-Length", "Everfold-Next", "Everfold-More", "ETag", "Vary",
                         "Content-Security-Policy", "Cache-Control"):
                self.assertEqual(got.headers[name], head.headers[name], (path, name))
            self.assertEqual(200, self.ask("GET", "/livez", connection=c).status)  # nothing was left on the connection
            c.close()

    def test_head_of_a_subscription_ends_and_follows_nothing(self):
        for _ in range(20):
            head = self.ask("HEAD", "/v1/subscribe/events")
            self.assertEqual((200, "text/event-stream", b""), (head.status, head.headers["Content-Type"], head.body))
        self.refused(404, "not_found", self.get("/v1/subscribe/views/none"))
        self.assertEqual(404, self.ask("HEAD", "/v1/subscribe/views/none").status)
        self.append("head-2")
        wait_until(lambda: b"everfold_subscribers 0\n" in self.get("/metrics").body)

    def test_options_lists_the_methods_of_a_path(self):
        for path, allowed in (("/v1/streams/s/events", "GET, HEAD, POST, OPTIONS"), ("/livez", "GET, HEAD, OPTIONS"),
                              ("/v1/outbox:requeue", "POST, OPTIONS"),
                              ("/v1/publishers/p", "GET, HEAD, PUT, DELETE, OPTIONS")):
            answer = self.ask("OPTIONS", path)
            self.assertEqual((204, b""), (answer.status, answer.body), path)
            self.assertEqual(set(allowed.split(", ")), set(answer.headers["Allow"].split(", ")))
        self.refused(404, "not_found", self.ask("OPTIONS", "/v1/nothing"))
        self.refused(403, "forbidden", self.ask("OPTIONS", "/v1/events", headers={"Origin": "http://attacker.example"}))

    def test_many_requests_on_one_connection(self):
        c = self.server.connect()
        for _ in range(200):
            self.assertEqual(200, self.ask("GET", "/livez", connection=c).status)
        c.close()


class Probes(Case):
    """A load balancer, a kubelet and Prometheus call by an address, or by a name of their own."""
    arguments = ("--hosts", "events.example.org")
    OPEN = ("/livez", "/readyz", "/readyz?verbose", "/healthz", "/version")

    def test_probes_answer_whatever_the_host_is(self):
        for path in self.OPEN:
            for host in ("10.1.2.3:7450", "10.1.2.3", "[fd00::7]:7450", "pod.example", "events.example.org", "x" * 300):
                self.assertEqual(200, self.get(path, Host=host).status, (path, host))

    def test_metrics_by_an_address_are_for_this_machine_and_by_another_name_need_a_token(self):
        for host in ("10.1.2.3:7450", "127.0.0.1", "[::1]", "localhost", "events.example.org"):
            self.assertEqual(200, self.get("/metrics", Host=host).status, host)
        self.refused(401, "unauthorized", self.get("/metrics", Host="10.1.2.3", X_Forwarded_For="10.9.9.9",
                                                   Authorization="Bearer evf_no"))

    def test_a_name_that_was_pointed_here_learns_nothing(self):
        """DNS rebinding: the page of attacker.example in a browser on this machine asks us by its own name."""
        verbose = self.get("/readyz?verbose", Host="attacker.example").body.decode()
        self.assertEqual([], [line for line in verbose.splitlines() if ":" in line or any(c.isdigit() for c in line)])
        self.assertIn("at position", self.get("/readyz?verbose", Host="10.1.2.3").body.decode())
        self.refused(401, "unauthorized", self.get("/metrics", Host="attacker.example"))
        for path in ("/v1/events", "/", "/openapi.json", "/nothing"):
            for host in ("attacker.example", "10.1.2.3"):
                self.refused(421, "misdirected", self.get(path, Host=host))
        for path in self.OPEN:
            self.refused(403, "forbidden", self.get(path, Origin="http://attacker.example"))


class Address(Case):
    def test_an_address_that_is_not_loopback_needs_tls(self):
        with self.assertRaises(AssertionError) as caught:
            Server("--listen", "0.0.0.0:0")
        self.assertIn("needs TLS", str(caught.exception))

    def test_an_address_in_use_is_named(self):
        with self.assertRaises(AssertionError) as caught:
            Server("--listen", f"127.0.0.1:{self.server.port}")
        self.assertIn("in use", str(caught.exception))
