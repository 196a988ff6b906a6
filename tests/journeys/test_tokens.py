"""The token file: root writes it for a service with a user of its own, and a file that cannot be read lets nobody in."""
import os
import pwd
import subprocess
import unittest

import kit
from kit import Journey, wait_until

SERVICE_UID = 65534
SERVICE_GID = 65534


class TokenFile(Journey):
    def path(self):
        return self.dir / "data" / "tokens"

    def status(self, token=None):
        auth = {"Authorization": "Bearer " + token} if token else {}
        return self.http("GET", "/v1/status", headers=auth).status

    def create(self):
        return self.ef("token", "create", "--scope", "admin", "-o", "json").json()["token"]

    def test_a_damaged_token_file_admits_only_valid_tokens(self):
        self.ef("init")
        process = self.serve()
        self.assertEqual(200, self.status())            # no token yet: this machine may do everything
        for damage in ("no JSON\n", "", "{}\n"):
            self.path().write_text(damage)
            wait_until(lambda: self.status() == 401, f"refused with {damage!r} in the file")
            self.assertEqual(200, self.http("GET", "/livez").status)
            self.ef("token", "create", "--scope", "read", code=6)   # it does not overwrite what it cannot read
            self.path().unlink()
            wait_until(lambda: self.status() == 200, "open again without a file")
        token = self.create()
        wait_until(lambda: self.status() == 401, "the first token ends it")
        self.path().write_text(self.path().read_text() + "garbage\n")
        wait_until(lambda: self.status() and "token file unreadable" in process.log.read_text().split("readable again")[-1],
                   "a request finds it, and it is logged")
        self.assertEqual((401, 200), (self.status(), self.status(token)))   # what was valid stays valid
        self.assertLess(process.log.read_text().count("token file unreadable"), 6)  # not once per second
        self.end(process)
        ended = self.serve(ready=False)
        self.assertEqual(6, ended.wait(timeout=kit.WAIT_LIMIT_S))
        self.assertIn("is damaged: line 2", ended.log.read_text())

    def test_a_subscription_without_a_token_ends_when_the_file_is_unreadable(self):
        self.ef("init")
        self.serve()
        host, port = self.server_url.split("//")[1].split(":")
        import http.client
        c = http.client.HTTPConnection(host, int(port), timeout=kit.WAIT_LIMIT_S)
        c.request("GET", "/v1/subscribe/events")
        response = c.getresponse()
        self.path().write_text("no JSON\n")
        response.read()                                  # ends
        self.assertEqual(401, self.status())

    @unittest.skipUnless(os.getuid() == 0, "needs root, to be somebody else")
    def test_what_root_creates_in_the_directory_belongs_to_the_service(self):
        self.dir.chmod(0o755)
        data = self.dir / "data"
        data.mkdir()
        os.chown(data, SERVICE_UID, SERVICE_GID)
        for store in ({}, {"EVERFOLD_VIEWS": f"lmdb:{data}/lmdb"}):
            self.stores = store
            self.ef("init")
            self.ef("event", "append", "s", "--type", "t", "--data", "{}")
            self.ef("projection", "deploy", self.write("p.fold", "projection p version 1\n  view stream\n\non t\n  n += 1\n"))
        self.create()
        found = {str(p.relative_to(data)): p.stat().st_uid for p in data.rglob("*")}
        self.assertIn("tokens", found)
        self.assertIn("tokens.lock", found)
        self.assertEqual({SERVICE_UID}, set(found.values()), found)

    @unittest.skipUnless(os.getuid() == 0, "needs root, to be somebody else")
    def test_a_token_that_root_creates_works_at_once_in_the_service(self):
        """A service with DynamicUser=yes, and an operator at a root prompt."""
        self.dir.chmod(0o755)
        data = self.dir / "data"
        data.mkdir()
        os.chown(data, SERVICE_UID, SERVICE_GID)
        if subprocess.run([kit.EVERFOLD, "help"], user=SERVICE_UID, capture_output=True).returncode != 0:
            self.skipTest(f"{pwd.getpwuid(SERVICE_UID).pw_name} cannot run the binary")
        port = kit.free_port()
        with open(self.dir / "service.log", "wb") as log:
            service = subprocess.Popen([kit.EVERFOLD, "serve", "--listen", f"127.0.0.1:{port}"], user=SERVICE_UID,
                                       group=SERVICE_GID, extra_groups=[], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       cwd="/", env=self.environment())
        service.log = self.dir / "service.log"
        self.addCleanup(self.end, service)
        self.server_url = f"http://127.0.0.1:{port}"

        def answers():
            try:
                return self.http("GET", "/livez").status == 200
            except OSError:
                return False
        wait_until(answers, "the service answers")
        self.assertEqual(200, self.status())
        token = self.create()
        wait_until(lambda: self.status() == 401, "the machine is locked out")
        self.assertEqual(200, self.status(token))
        # A file that root wrote by other means: only tokens that were read before are accepted.
        os.chown(self.path(), 0, 0)
        os.utime(self.path())
        wait_until(lambda: self.status() and "token file unreadable" in service.log.read_text(), "it is logged")
        self.assertEqual((401, 200), (self.status(), self.status(token)))
