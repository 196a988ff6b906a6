"""The Unix socket: the server's own user is its administrator there, without a token, and nobody else is."""
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

import support
from support import Case, Server, SocketConnection, everfold, make_token, wait_until

OTHER_UID = 65534


def routes(server):
    """(method, path, scope or None) of every route; names in paths are filled in."""
    for path, methods in server.ask("GET", "/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            scopes = [s for way in operation["security"] for s in way.get("token", [])]
            yield method.upper(), re.sub(r"\{\w+\}", "x", path), scopes[0] if scopes else None


class Socket(Case):
    def path(self):
        return self.server.data / "server.sock"

    def test_it_is_private(self):
        mode = self.path().lstat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(0o600, stat.S_IMODE(mode))

    def test_without_a_token_exactly_the_routes_of_administrators_are_left_to_it(self):
        for method, path, scope in routes(self.server):
            if "subscribe" in path:
                continue
            with self.subTest(method=method, path=path):
                body = {} if method in ("POST", "PUT") else None
                answer = self.ask(method, path, body)
                if scope != "admin":
                    self.assertNotIn(answer.status, (401, 403), answer.body)
                    continue
                detail = self.refused(403, "forbidden", answer)
                self.assertEqual(str(self.path()), answer.headers["Everfold-Socket"])
                self.assertIn(f"--server unix:{self.path()}", detail)
                self.assertIn("create a token with scope admin", detail)
                self.assertNotIn(self.server.ask_as_owner(method, path, body).status, (401, 403))

    def test_what_reaches_files_hosts_or_tokens_is_for_administrators(self):
        self.assertEqual({("PUT", "/v1/publishers/x"), ("DELETE", "/v1/publishers/x"), ("GET", "/v1/tokens"),
                          ("POST", "/v1/tokens"), ("POST", "/v1/tokens/x:revoke")},
                         {(method, path) for method, path, scope in routes(self.server) if scope == "admin"})

    def test_a_secret_is_not_named_by_tcp(self):
        publisher = {"url": "https://example.org/", "secret": "env:EVERFOLD_SECRET_HOOK"}
        self.refused(403, "forbidden", self.ask("PUT", "/v1/publishers/p", publisher))
        self.assertEqual(404, self.get("/v1/publishers/p").status)
        self.assertEqual(200, self.server.ask_as_owner("PUT", "/v1/publishers/p", publisher).status)
        self.assertEqual(f"uid {os.getuid()}", self.get("/v1/audit?limit=1").json()[0]["actor"])

    def test_what_is_forwarded_there_needs_a_token(self):
        for header in ("Forwarded", "X-Forwarded-For"):
            self.assertEqual(401, self.server.ask_as_owner("GET", "/v1/events", headers={header: "192.0.2.7"}).status)
        self.assertEqual(401, self.server.ask_as_owner("GET", "/v1/events", token="evf_no").status)
        self.assertEqual(421, self.server.ask_as_owner("GET", "/v1/events", headers={"Host": "attacker.example"}).status)

    def test_requests_that_wait_and_subscriptions_work_there(self):
        self.append("s-1")
        head = self.get("/v1/status").json()["head"]["position"]
        waiting, following = (SocketConnection(self.path()) for _ in range(2))
        waiting.request("GET", f"/v1/events?after={head}&wait=20s")
        following.request("GET", f"/v1/subscribe/events?after={head}")
        stream = following.getresponse()
        self.assertEqual(200, stream.status)
        self.append("s-2")
        self.assertIn(b'"stream":"s-2"', waiting.getresponse().read())
        wait_until(lambda: b'"stream":"s-2"' in stream.readline())
        for c in (waiting, following):
            c.close()

    @unittest.skipUnless(os.getuid() == 0, "needs root, to be somebody else")
    def test_another_user_gets_no_more_there_than_by_tcp(self):
        server = Server()
        self.addCleanup(shutil.rmtree, server.dir, True)
        self.addCleanup(server.stop)
        script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n" \
                 "s.sendall(f'{sys.argv[2]} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'.encode())\n" \
                 "print(s.makefile('rb').read().decode())"

        def other(line):
            return subprocess.run(["python3", "-c", script, str(server.data / "server.sock"), line], user=OTHER_UID,
                                  group=OTHER_UID, extra_groups=[], capture_output=True, text=True, cwd="/", timeout=60)
        for place in (server.dir, server.data):
            place.chmod(0o755)
        self.assertIn("PermissionError", other("GET /v1/whoami").stderr)
        (server.data / "server.sock").chmod(0o666)
        self.assertIn(f'"name":"uid {OTHER_UID}","scopes":["append","read","work","operate"]', other("GET /v1/whoami").stdout)
        for line in ("GET /v1/tokens", "DELETE /v1/publishers/p", "POST /v1/tokens"):
            self.assertIn("403 Forbidden", other(line).stdout)
        token = server.ask_as_owner("POST", "/v1/tokens", {"scopes": "read"})
        self.assertEqual(201, token.status)
        self.assertIn("401 Unauthorized", other("GET /v1/whoami").stdout)


class Own(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory(prefix="everfold-socket-")
        self.addCleanup(self.room.cleanup)
        self.at = Path(self.room.name)
        self.data = self.at / "data"
        everfold(self.data, "init")

    def serve(self, *arguments, data=None):
        server = Server(*arguments, data=data or self.data)
        self.addCleanup(shutil.rmtree, server.dir, True)
        self.addCleanup(server.stop)
        return server

    def refused_start(self, *arguments, data=None):
        done = subprocess.run([support.EVERFOLD, "serve", "--listen", "127.0.0.1:0", "--data", str(data or self.data), *arguments],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def test_the_own_user_is_administrator_also_when_there_are_tokens(self):
        token = make_token(self.data, "--scope", "read")
        server = self.serve()
        self.assertEqual(401, server.ask("GET", "/v1/status").status)
        self.assertEqual(403, server.ask("GET", "/v1/tokens", token=token["token"]).status)
        self.assertIsNone(server.ask("GET", "/v1/tokens", token=token["token"]).headers["Everfold-Socket"])
        self.assertEqual([token["id"]], [t["id"] for t in server.ask_as_owner("GET", "/v1/tokens").json()])
        self.assertEqual(403, server.ask_as_owner("GET", "/v1/tokens", token=token["token"]).status)
        self.assertEqual(200, server.ask_as_owner("POST", f"/v1/tokens/{token['id']}:revoke", {}).status)

    def test_the_file_of_a_dead_server_is_replaced_and_that_of_a_live_one_is_not(self):
        first = self.serve()
        second = self.serve()  # on the same directory: it says that it has none
        self.assertIn("no Unix socket", second.said())
        self.assertIn("refused without a socket", second.said())
        answer = second.ask("GET", "/v1/tokens")
        self.assertEqual((403, None), (answer.status, answer.headers["Everfold-Socket"]))
        self.assertIn("server.socket", answer.json()["detail"])
        second.stop()
        self.assertEqual(200, first.ask_as_owner("GET", "/v1/tokens").status)
        self.assertIn("another server does", self.refused_start("--socket", str(self.data / "server.sock")))
        first.process.kill()
        first.process.wait()
        third = self.serve()
        self.assertEqual(200, third.ask_as_owner("GET", "/v1/tokens").status)
        third.stop()
        self.assertFalse((self.data / "server.sock").exists())

    def test_another_file_of_that_name_stays(self):
        (self.data / "server.sock").write_text("a file")
        self.assertIn("no Unix socket", self.serve().said())
        self.assertEqual("a file", (self.data / "server.sock").read_text())

    def test_it_can_be_moved_and_switched_off(self):
        server = self.serve("--socket", str(self.at / "here.sock"))
        c = SocketConnection(self.at / "here.sock")
        self.assertEqual(200, server.ask("GET", "/v1/tokens", connection=c).status)
        c.close()
        self.assertFalse((self.data / "server.sock").exists())
        self.serve("--socket", "off")
        self.assertEqual([], list(self.data.glob("*.sock")))

    def test_a_path_that_is_too_long_is_an_error_or_a_warning(self):
        self.assertIn("at most 107", self.refused_start("--socket", "/tmp/" + "x" * 120))
        self.assertIn("cannot listen", self.refused_start("--socket", str(self.at / "missing" / "s.sock")))
        deep = self.at / ("d" * 120)
        everfold(deep, "init")
        self.assertIn("at most 107", self.serve(data=deep).said())

    @unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
    def test_beside_tls_it_is_plain(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=x", "-keyout", str(self.at / "key"), "-out", str(self.at / "crt")],
                       check=True, capture_output=True, timeout=60)
        server = self.serve("--tls-certificate", str(self.at / "crt"), "--tls-key", str(self.at / "key"))
        self.assertEqual(200, server.ask_as_owner("GET", "/v1/tokens").status)

    def test_a_client_that_holds_every_connection_of_the_address_does_not_keep_it_out(self):
        os.environ["EVERFOLD_SERVER_CONNECTIONS"] = "8"
        self.addCleanup(os.environ.pop, "EVERFOLD_SERVER_CONNECTIONS")
        server = self.serve()
        held = [socket.create_connection((server.host, server.port)) for _ in range(12)]
        self.assertEqual(200, server.ask_as_owner("GET", "/v1/tokens").status)
        for s in held:
            s.close()
