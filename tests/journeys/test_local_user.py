"""Another user of the machine reaches the server's port, and neither files, other hosts nor tokens through it. The user that
runs the server and root do, with the same commands, by the Unix socket."""
import os
import subprocess
import unittest

import kit
from kit import Answer, Journey, wait_until

SERVER_UID, OTHER_UID = 65533, 65534


@unittest.skipUnless(os.getuid() == 0, "needs root, to be two other users")
class LocalUser(Journey):
    def setUp(self):
        super().setUp()
        if subprocess.run([kit.EVERFOLD, "help"], user=OTHER_UID, capture_output=True, cwd="/").returncode != 0:
            self.skipTest("other users cannot run the binary")
        self.dir.chmod(0o755)
        self.data = self.dir / "data"
        self.data.mkdir(mode=0o700)
        os.chown(self.data, SERVER_UID, SERVER_UID)
        port = kit.free_port()
        self.server_url = f"http://127.0.0.1:{port}"
        with open(self.dir / "serve.log", "wb") as log:
            self.server = subprocess.Popen([kit.EVERFOLD, "serve", "--listen", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log, **self.as_user(SERVER_UID))
        self.server.log = self.dir / "serve.log"
        self.addCleanup(self.end, self.server)
        wait_until(self.answers, "the server answers")

    def answers(self):
        if self.server.poll() is not None:
            raise AssertionError(f"serve ended with {self.server.returncode}:\n{self.server.log.read_text()}")
        try:
            return self.http("GET", "/livez").status == 200
        except OSError:
            return False

    def as_user(self, uid, **env):
        return {"user": uid, "group": uid, "extra_groups": [], "cwd": "/", "env": self.environment(**env)}

    def run_as(self, uid, *words, **env):
        done = subprocess.run([kit.EVERFOLD, *map(str, words)], capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=kit.TIME_LIMIT_S, **self.as_user(uid, **{"EVERFOLD_DATA": None, **env}))
        return Answer(words, done.returncode, done.stdout.decode(), done.stderr.decode())

    def through(self, *words):
        return ("--server", self.server_url, *words)

    ADMINISTRATION = [("publisher", "add", "p", "--to", "https://example.org/"),
                      ("publisher", "add", "q", "--to", "https://example.org/", "--secret-env", "EVERFOLD_SECRET_Q"),
                      ("publisher", "rm", "p"), ("token", "ls"), ("token", "create", "--scope", "read")]

    def test_another_user_is_refused_with_a_hint(self):
        self.assertEqual(0, self.run_as(OTHER_UID, *self.through("event", "append", "s", "--type", "t", "--data", "{}")).code)
        for words in self.ADMINISTRATION:
            answer = self.run_as(OTHER_UID, *self.through(*words))
            self.assertEqual(2, answer.code, str(answer))
            self.assertIn(f"--server unix:{self.data}/server.sock, or create a token with scope admin", answer.err)
        self.assertEqual(5, self.run_as(OTHER_UID, "--server", f"unix:{self.data}/server.sock", "token", "ls").code)
        self.assertEqual([], self.http("GET", "/v1/publishers").json())
        self.assertFalse((self.data / "tokens").exists())

    def test_with_a_wider_mode_it_still_gets_no_more_than_by_tcp(self):
        self.data.chmod(0o755)
        (self.data / "server.sock").chmod(0o666)
        way = ("--server", f"unix:{self.data}/server.sock")
        self.assertEqual(0, self.run_as(OTHER_UID, *way, "event", "append", "s", "--type", "t", "--data", "{}").code)
        for words in self.ADMINISTRATION:
            for server in (way, self.through()):
                answer = self.run_as(OTHER_UID, *server, *words)
                self.assertEqual(2, answer.code, str(answer))
        # No user sends a token to a socket of another user, not even root.
        for uid in (OTHER_UID, 0):
            answer = self.run_as(uid, *way, "token", "ls", EVERFOLD_TOKEN="evf_a_b")
            self.assertEqual(2, answer.code)
            self.assertIn("belongs to another user", answer.err)
        self.assertNotIn("evf_a_b", self.server.log.read_text())

    def test_the_servers_user_and_root_use_the_socket_by_themselves(self):
        for uid in (SERVER_UID, 0):
            for words in self.ADMINISTRATION[:-1]:
                answer = self.run_as(uid, *self.through(*words, *(["--reason", "a test"] if "rm" in words else [])))
                self.assertEqual(0, answer.code, str(answer))
            self.assertEqual(0, self.run_as(uid, *self.through("publisher", "rm", "q")).code)
        acts = {(a["action"], a["actor"].split("(")[-1].rstrip(")")) for a in self.http("GET", "/v1/audit").json()}
        self.assertEqual({(act, f"uid {uid}") for act in ("publisher_set", "publisher_remove") for uid in (SERVER_UID, 0)}, acts)

    def test_after_the_first_token_the_socket_is_still_the_way_back(self):
        created = self.run_as(SERVER_UID, *self.through("token", "create", "--scope", "admin", "-o", "json"))
        self.assertEqual(0, created.code, str(created))
        self.assertEqual(2, self.run_as(SERVER_UID, *self.through("token", "ls")).code)  # by TCP a token is needed now
        token = created.json()
        self.assertEqual(0, self.run_as(OTHER_UID, *self.through("token", "ls"), EVERFOLD_TOKEN=token["token"]).code)
        way = ("--server", f"unix:{self.data}/server.sock")
        self.assertEqual(0, self.run_as(SERVER_UID, *way, "token", "revoke", token["id"]).code)
        self.assertEqual(2, self.run_as(OTHER_UID, *self.through("token", "ls"), EVERFOLD_TOKEN=token["token"]).code)

    def test_a_process_that_took_the_port_cannot_redirect_clients_to_its_socket(self):
        """It answers as a server would, and names a socket that it listens on."""
        script = """
import http.server, os, socket, sys, threading
path, port = sys.argv[1], int(sys.argv[2])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        self.send_header("Everfold-Socket", path)
        self.send_header("Content-Length", "0")
        self.end_headers()
s = socket.socket(socket.AF_UNIX)
s.bind(path)
os.chmod(path, 0o666)
s.listen()
def take():
    c, _ = s.accept()
    open(path + ".got", "wb").write(c.recv(65536))
threading.Thread(target=take, daemon=True).start()
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
        trap = self.dir / "trap"
        trap.mkdir()
        os.chown(trap, OTHER_UID, OTHER_UID)
        port = kit.free_port()
        process = subprocess.Popen(["python3", "-c", script, str(trap / "s"), str(port)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.as_user(OTHER_UID))
        process.log = self.server.log
        self.addCleanup(self.end, process)
        url = f"http://127.0.0.1:{port}"

        def listens():
            try:
                return self.http("GET", "/", url=url).status
            except OSError:
                return None
        wait_until(listens, "the other process listens")
        answer = self.run_as(SERVER_UID, "--server", url, "token", "ls")
        self.assertEqual(2, answer.code)
        self.assertIn("belongs to another user", answer.err)
        self.assertFalse((trap / "s.got").exists() and (trap / "s.got").read_bytes())
