"""Tokens: the commands, and every route against every kind of token."""
import json
import os
import re
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

import support
from support import CUSTOMERS, Case, Server, everfold, make_token, wait_until

TOKEN_KEYS = ["id", "scopes", "tenant", "note", "state", "created_at", "expires_at", "revoked_at"]
POISON = """projection strict version 1
  view data.customer

on order.placed
  total += data.amount / data.count
"""
SECRET = "zebra"  # in everything that is the other tenant's


class Commands(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="everfold-token-")
        self.addCleanup(self.dir.cleanup)
        self.data = Path(self.dir.name) / "data"

    def fails(self, *arguments):
        done = subprocess.run([support.EVERFOLD, "token", *arguments, "--data", str(self.data), "-o", "json"],
                              capture_output=True, text=True, timeout=60)
        self.assertNotEqual(0, done.returncode)
        return json.loads(done.stderr)["detail"]

    def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(self):
        everfold(self.data, "init")
        made = make_token(self.data, "--scope", "append,read", "--tenant", "acme", "--note", "shop",
                          "--expires", "90d")
        self.assertEqual(TOKEN_KEYS + ["token"], list(made))
        self.assertRegex(made["token"], r"^evf_[0-9a-f]{16}_[0-9a-f]{48}$")
        self.assertEqual((["append", "read"], "acme", "shop", "live"),
                         tuple(made[k] for k in ("scopes", "tenant", "note", "state")))
        listed = everfold(self.data, "token", "ls", "-o", "json")
        self.assertEqual({k: made[k] for k in TOKEN_KEYS}, json.loads(listed)[0])
        secret = made["token"].split("_")[2]
        self.assertNotIn(secret, listed)
        self.assertNotIn(secret, (self.data / "tokens").read_text())
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.data / "tokens").st_mode))
        gone = json.loads(everfold(self.data, "token", "revoke", made["id"], "--reason", "lost", "-o", "json"))
        self.assertEqual("revoked", gone["state"])
        again = json.loads(everfold(self.data, "token", "revoke", made["id"], "-o", "json"))
        self.assertEqual(gone["revoked_at"], again["revoked_at"])
        self.assertIn("shop", everfold(self.data, "token", "ls"))
        note = json.loads(everfold(self.data, "audit", "ls", "-o", "json"))[-1]
        self.assertEqual(("token_revoke", made["id"], "lost"), tuple(note[k] for k in ("action", "lane", "reason")))

    def test_what_is_wrong_is_named_and_changes_nothing(self):
        self.assertIn("everfold-token-", self.fails("create", "--scope", "read"))  # no such directory
        everfold(self.data, "init")
        for arguments, words in [(("create",), "token create needs --scope"),
                                 (("create", "--scope", "reed"), "no scope 'reed'"),
                                 (("create", "--scope", ""), "needs a scope"),
                                 (("create", "--scope", "read", "--expires", "0"), "--expires is 0"),
                                 (("create", "--scope", "read", "--expires", "soon"), "--expires"),
                                 (("create", "--scope", "read", "--note", "x" * 128), "127 bytes"),
                                 (("revoke", "nobody"), "no token 'nobody'")]:
            self.assertIn(words, self.fails(*arguments))
        self.assertFalse((self.data / "tokens").exists())
        (self.data / "tokens").write_text("{}\n")
        self.assertIn("line 1", self.fails("ls"))

    def test_many_who_make_tokens_at_once_lose_none(self):
        everfold(self.data, "init")
        crowd = [subprocess.Popen([support.EVERFOLD, "token", "create", "--scope", "read", "--data",
                                   str(self.data)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True) for _ in range(16)]
        ids = {p.communicate(timeout=60)[0].split("_")[1] for p in crowd}
        listed = {t["id"] for t in json.loads(everfold(self.data, "token", "ls", "-o", "json"))}
        self.assertEqual((16, ids), (len(ids), listed))


class Matrix(Case):
    """Routes come from /openapi.json: one that is added is in here without anybody's doing."""

    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="everfold-token-")
        cls.addClassCleanup(cls.room.cleanup)
        data = Path(cls.room.name) / "data"
        everfold(data, "init")
        make = lambda *a: make_token(data, *a)["token"]  # noqa: E731
        cls.tokens = {scope: make("--scope", scope) for scope in
                      ("append", "read", "work", "operate", "admin")}
        cls.bound = make("--scope", "append,read,operate", "--tenant", "here")
        cls.other = make("--scope", "append,read,operate", "--tenant", "there")
        cls.expired = make("--scope", "admin", "--expires", "1ms")
        revoked = make_token(data, "--scope", "admin")
        everfold(data, "token", "revoke", revoked["id"])
        cls.revoked = revoked["token"]
        cls.data = data
        cls.server = Server("--access-log", data=data, env={"EVERFOLD_LOG_LEVEL": "info"})
        cls.addClassCleanup(cls.end)
        cls.fill()

    @classmethod
    def fill(cls):
        ask, admin = cls.server.ask, cls.tokens["admin"]
        for name, text in (("customers", CUSTOMERS), ("strict", POISON)):
            assert ask("PUT", f"/v1/projections/{name}", text, token=admin).status == 200
        sink = {"url": f"file:{cls.room.name}/out"}
        assert ask("PUT", "/v1/publishers/sink", sink, token=admin).status in (200, 201)
        everfold(cls.data, "type", "set", "order.placed", "--publish", "yes")
        for count in (0, 2):
            made = ask("POST", f"/v1/streams/{SECRET}-{count}/events",
                       {"type": "order.placed", "id": f"{SECRET}-id-{count}",
                        "data": {"customer": SECRET, "amount": 1, "count": count}}, token=cls.other)
            assert made.status == 201, made.body
        wait_until(lambda: ask("GET", f"/v1/views/customers/{SECRET}", token=cls.other).status == 200)
        wait_until(lambda: ask("GET", "/v1/projections/strict/failures", token=cls.other).json())
        wait_until(lambda: len(ask("GET", "/v1/outbox?status=published", token=cls.other).json()["rows"]) == 2)
        cls.document = ask("GET", "/openapi.json", token=admin).json()

    def routes(self):
        for pattern, operations in self.document["paths"].items():
            path = re.sub(r"\{(\w+)\}", lambda m: "customers" if m[1] in ("name", "projection")
                          else "nobody", pattern)
            for method, operation in operations.items():
                yield method.upper(), path, operation

    def status(self, method, path, **more):
        c = self.server.connect()
        headers = dict(more.get("headers", {}))
        if "token" in more:
            headers["Authorization"] = "Bearer " + more["token"]
        c.request(method, path, body="{}" if method in ("POST", "PUT") else None, headers=headers)
        status = c.getresponse().status  # of a subscription as well: it is not read
        c.close()
        return status

    def test_every_route_with_every_kind_of_token(self):
        count = 0
        for method, path, operation in self.routes():
            needs = [s["token"][0] for s in operation["security"] if s]
            local = {} in operation["security"]
            with self.subTest(method=method, path=path):
                none = self.status(method, path)
                if not needs or local:
                    self.assertNotIn(none, (401, 403, 404, 405))
                    continue
                count += 1
                self.assertEqual(401, none)
                for token in (self.expired, self.revoked, "evf_0_0", self.tokens["read"] + "0",
                              self.tokens["read"][:-1]):
                    self.assertEqual(401, self.status(method, path, token=token))
                wrong = "append" if needs[0] != "append" else "read"
                self.assertEqual(403, self.status(method, path, token=self.tokens[wrong]))
                self.assertEqual(403, self.status(method, path, token=self.bound,
                                                  headers={"X-Tenant-Id": "there"}))
                self.assertNotIn(self.status(method, path, token=self.tokens[needs[0]]),
                                 (401, 403, 405))
        self.assertGreater(count, 25)

    def test_without_a_token_existing_paths_cannot_be_distinguished(self):
        self.assertEqual(self.get("/v1/events").body, self.get("/v1/there/is/nothing").body)
        in_url = self.ask("GET", "/v1/events?access_token=" + self.tokens["admin"])
        self.assertEqual(401, in_url.status)

    def test_data_of_another_tenant_is_not_found(self):
        for path in ("/v1/events/{}", "/v1/streams/{}/events", "/v1/views/customers/{}",
                     "/v1/views/customers/{}/explain", "/v1/runs/{}"):
            there = {"e": f"{SECRET}-id-0", "s": f"{SECRET}-0", "v": SECRET, "r": SECRET}[path[4]]
            foreign = self.ask("GET", path.format(there), token=self.bound)
            unknown = self.ask("GET", path.format("nobody"), token=self.bound)
            self.assertEqual((404, foreign.body.replace(there.encode(), b"nobody")),
                             (foreign.status, unknown.body))
        for act in ("requeue", "skip", "replay"):
            answer = self.ask("POST", f"/v1/outbox:{act}", {"stream": f"{SECRET}-0", "seq": 1,
                                                            "lane": "strict", "reason": "x"},
                              token=self.bound)
            self.assertEqual(404, answer.status, answer.body)

    def test_nothing_of_a_tenant_is_in_an_answer_to_another(self):
        for method, path, operation in self.routes():
            if method != "GET" or "/subscribe/" in path:
                continue
            answer = self.ask(method, path, token=self.bound)
            self.assertNotIn(SECRET.encode(), answer.body, path)
        seen = self.ask("GET", "/v1/outbox", token=self.other)
        self.assertIn(SECRET.encode(), seen.body)  # the sweep above would have found it
        for asked in ("status=published", "status=published&lane=sink", f"status=published&stream={SECRET}-0"):
            answer = self.ask("GET", "/v1/outbox?" + asked, token=self.bound)
            self.assertEqual((200, []), (answer.status, answer.json()["rows"]), asked)
        every = self.ask("GET", "/v1/outbox?status=published", token=self.tokens["read"])
        self.assertIn(SECRET.encode(), every.body)
        self.assertNotIn(SECRET.encode(), self.get("/metrics").body)
        self.assertNotIn(SECRET.encode(), self.get("/readyz?verbose").body)

    def test_an_act_for_all_tenants_needs_a_token_of_all(self):
        for path in ("/v1/projections/customers:rebuild", "/v1/projections/customers:pause",
                     "/v1/outbox:requeue-dead"):
            self.refused(403, "forbidden", self.ask("POST", path, {}, token=self.bound))
        self.refused(403, "forbidden", self.ask("PUT", "/v1/projections/customers", CUSTOMERS,
                                                token=self.bound))
        for path in ("/v1/events", "/v1/views/customers"):
            self.refused(400, "bad_input", self.ask("GET", path + "?all_tenants", token=self.bound))

    def test_a_token_that_is_made_or_revoked_is_known_within_a_second(self):
        made = make_token(self.data, "--scope", "read")
        get = lambda: self.ask("GET", "/v1/events", token=made["token"]).status  # noqa: E731
        wait_until(lambda: get() == 200, 3)
        everfold(self.data, "token", "revoke", made["id"])
        wait_until(lambda: get() == 401, 3)

    def test_a_token_is_accepted_as_soon_as_it_is_made(self):
        for number in range(3):
            made = make_token(self.server.data, "--scope", "read", "--note", f"at once {number}")
            self.assertEqual(200, self.ask("GET", "/v1/events", token=made["token"]).status)

    def test_no_secret_is_in_the_log(self):
        self.ask("GET", "/v1/events", token=self.tokens["admin"])
        said = wait_until(lambda: "operation=readLog" in self.server.said() and self.server.said())
        for token in self.tokens.values():
            self.assertNotIn(token.split("_")[2], said)


class Removed(Case):
    def test_a_token_file_that_is_removed_leaves_the_tokens_valid_and_nothing_else(self):
        token = make_token(self.server.data, "--scope", "read")["token"]
        wait_until(lambda: self.ask("GET", "/v1/events").status == 401)
        self.assertEqual(200, self.ask("GET", "/v1/events", token=token).status)
        file, aside = self.server.data / "tokens", self.server.data / "aside"
        file.rename(aside)
        wait_until(lambda: "was removed" in self.server.said() or self.ask("GET", "/v1/events").status == 200)
        for _ in range(3):
            self.assertEqual(401, self.ask("GET", "/v1/events").status)
            self.assertEqual(200, self.ask("GET", "/v1/events", token=token).status)
        self.assertIn("token file unreadable", self.server.said())
        aside.rename(file)
        wait_until(lambda: self.ask("GET", "/v1/events").status == 401 and "readable again" in self.server.said())
        self.assertEqual(200, self.ask("GET", "/v1/events", token=token).status)


class Open(Case):
    def test_without_any_token_it_says_that_this_machine_is_served_and_where_its_own_user_is(self):
        self.assertIn("no token exists: only loopback connections are accepted; tokens and publishers are for this user and root only, "
                      f"at unix:{self.server.data}/server.sock", self.server.said())
        self.assertEqual(200, self.get("/v1/events").status)
        self.assertEqual(401, self.get("/v1/events", X_Forwarded_For="192.0.2.7").status)
        self.assertEqual(401, self.get("/metrics", X_Forwarded_For="192.0.2.7").status)
