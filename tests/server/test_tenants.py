"""No route and no subscription gives a token of one tenant anything of another one.

Routes come from /openapi.json, so one that is added is in here by itself. Tenant `there` has a canary in each name,
id, value and error that it can make; what `here` and the blank tenant are given is searched for it. Counts are
compared: what `there` does must not change an answer to `here`.
"""
import json
import re
import socket
import tempfile
import time
import unittest
from pathlib import Path

from support import CUSTOMERS, Case, Server, everfold, make_token, wait_until

CANARY = "zebra"
BY_LOG = """projection bylog version 1
  order by log
  view data.customer

on order.placed
  total += data.amount
"""
STRICT = """projection strict version 1
  view data.customer

on order.placed
  total += data.amount / data.count
"""
# Positions and times are the journal's, of all tenants: an event of one's own carries them too.
OF_ALL = {"position", "reached", "as_of", "synced_at", "upper"}


class Tenants(Case):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="everfold-tenants-")
        cls.addClassCleanup(cls.room.cleanup)
        cls.data = Path(cls.room.name) / "data"
        everfold(cls.data, "init")
        make = lambda *a: make_token(cls.data, *a)["token"]  # noqa: E731
        cls.admin = make("--scope", "admin", "--note", CANARY)
        cls.here = make("--scope", "append,read,work,operate,admin", "--tenant", "here")
        cls.blank = make("--scope", "append,read,work,operate,admin", "--tenant", "")
        cls.there = make("--scope", "append,read,operate", "--tenant", "there-" + CANARY)
        cls.server = Server(data=cls.data)
        cls.addClassCleanup(cls.end)
        cls.fill()
        cls.document = cls.server.ask("GET", "/openapi.json", token=cls.admin).json()

    @classmethod
    def fill(cls):
        ask = cls.server.ask
        for name, text in (("customers", CUSTOMERS), ("bylog", BY_LOG), ("strict", STRICT)):
            assert ask("PUT", f"/v1/projections/{name}?reason={CANARY}", text, token=cls.admin).status == 200
        sink = {"url": f"file:{cls.room.name}/{CANARY}"}
        assert ask("PUT", f"/v1/publishers/{CANARY}", sink, token=cls.admin).status in (200, 201)
        cls.placed("mine", cls.here, customer="me", amount=1, count=1)
        cls.placed("ours", cls.blank, customer="us", amount=1, count=1)
        cls.act(0)
        made = ask("POST", "/v1/replay", {"projection": "customers", "reason": CANARY}, token=cls.there)
        assert made.status == 202, made.body
        cls.runs = [made.json()["id"]]
        for act in ("rebuild", "verify"):
            made = ask("POST", f"/v1/projections/customers:{act}", {"reason": CANARY}, token=cls.admin)
            assert made.status in (202, 409), made.body
            if made.status == 202:
                cls.runs.append(made.json()["id"])
            wait_until(lambda: not ask("GET", "/v1/runs?open", token=cls.admin).json())

    @classmethod
    def placed(cls, stream, token, **data):
        made = cls.server.ask("POST", f"/v1/streams/{stream}/events",
                              {"type": "order.placed", "id": f"id-{stream}", "data": data}, token=token)
        assert made.status == 201, made.body

    @classmethod
    def act(cls, number):
        """What `there` does: events, views, failures in a queue and in the order of the log, dead rows, an act."""
        ask, there = cls.server.ask, cls.there
        for i in range(5):
            cls.placed(f"{CANARY}-{number}-{i}", there, customer=f"{CANARY}-{number}-{i}", amount=1, count=i)
        cls.placed(f"{CANARY}-bad-{number}", there, customer=CANARY, amount=f"{CANARY}-value", count=1)
        wait_until(lambda: ask("GET", "/v1/projections/customers/scope", token=there).json()["pending"] <= 1 + number)
        failed = lambda name: len(ask("GET", f"/v1/projections/{name}/failures", token=there).json())  # noqa: E731
        wait_until(lambda: failed("strict") >= 2 * (number + 1) and failed("bylog") == 1)

    def routes(self, names):
        for pattern, operations in self.document["paths"].items():
            for method, operation in operations.items():
                for path in {re.sub(r"\{(\w+)\}", lambda m, n=n: n.get(m[1], CANARY), pattern) for n in names}:
                    yield method.upper(), path, operation

    def paths(self):
        """Each route with names that `there` has, and that `here` has."""
        theirs = {"name": "bylog", "projection": "customers", "id": f"{CANARY}-0-1", "stream": f"{CANARY}-0-1",
                  "type": "order.placed"}
        mine = {**theirs, "name": "strict", "id": "me", "stream": "mine"}
        runs = [{**theirs, "id": run} for run in self.runs]
        return self.routes([theirs, mine, {**theirs, "id": f"id-{CANARY}-0-1", "name": "customers"}, *runs])

    def follow(self, path, token, seconds=0.5):
        """What a subscription from the start gives."""
        s = socket.create_connection((self.server.host, self.server.port), timeout=20)
        path += "?after=0" if path.endswith("/events") else ""  # views are followed from now on
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        got, until = b"", time.monotonic() + seconds
        while time.monotonic() < until:
            s.settimeout(max(0.01, until - time.monotonic()))
            try:
                part = s.recv(65536)
            except TimeoutError:
                break
            got += part
            if not part:
                break
        s.close()
        return got

    def body_of(self, path):
        if ":look" in path or path == "/v1/replay":
            return {"projection": "strict"}
        if "/v1/outbox:" in path or path.endswith(":try"):
            return {"stream": f"{CANARY}-0-0", "seq": 1}
        return {}

    def clean(self, token):
        """Every route with that token; the answers that it got by route."""
        seen = {}
        for method, path, operation in self.paths():
            if operation["x-tenancy"] == "unbound" or "cancel" in path or method in ("PUT", "DELETE"):
                continue
            if "/subscribe/" in path:
                got = self.follow(path, token)
                self.assertIn(b"HTTP/1.1 200", got, path)
                self.assertNotIn(b"there-" + CANARY.encode(), got, path)
                self.assertIsNone(re.search(rb"data: .*" + CANARY.encode(), got), path)
                continue
            if method == "POST" and ("/events" in path or path == "/v1/replay"):
                continue  # what it makes is the caller's own
            body = json.dumps(self.body_of(path)) if method == "POST" else None
            answer = self.server.ask(method, path, body, token=token)
            self.assertNotEqual(403, answer.status, path)
            asked = path + (body or "")
            for word in re.findall(rb"[\w-]*" + CANARY.encode() + rb"[\w-]*", answer.body):
                # A problem may name what was asked for, and nothing else.
                self.assertTrue(answer.status >= 400 and word.decode() in asked, (path, answer.body))
            seen[method + " " + path] = answer
        return seen

    def test_no_route_and_no_subscription_has_a_name_an_id_data_or_an_error_of_another_tenant(self):
        for token in (self.here, self.blank):
            self.assertGreater(len(self.clean(token)), 25)
        mine = self.ask("GET", "/v1/projections/bylog", token=self.there)
        self.assertIn(f"{CANARY}-value".encode(), mine.body)  # the search above would have found it
        self.assertIn(CANARY.encode(), self.follow("/v1/subscribe/events", self.there))

    def test_a_route_about_all_tenants_is_refused_to_a_bound_token(self):
        refused = [(m, p) for m, p, o in self.paths() if o["x-tenancy"] == "unbound"]
        self.assertTrue({("GET", f"/{p}") for p in ("v1/leases", "v1/workers", "v1/partitions", "v1/lanes", "metrics",
                                                   "v1/overview", "v1/tokens")} <= set(refused))
        for token in (self.here, self.blank):
            for method, path in refused:
                answer = self.ask(method, path, "{}" if method in ("POST", "PUT") else None, token=token)
                self.refused(403, "forbidden", answer)

    def test_every_route_declares_what_a_bound_token_gets(self):
        words = {o["x-tenancy"] for _, _, o in self.paths()}
        self.assertEqual({"none", "query", "part", "unbound"}, words)

    @staticmethod
    def without_positions(value):
        if isinstance(value, dict):
            return {k: Tenants.without_positions(v) for k, v in value.items() if k not in OF_ALL}
        return [Tenants.without_positions(v) for v in value] if isinstance(value, list) else value

    def read(self, token):
        out = {}
        for method, path, operation in self.paths():
            if (method != "GET" or operation["x-tenancy"] == "unbound" or "/subscribe/" in path or
                    path in ("/version", "/readyz", "/healthz", "/livez")):
                continue
            answer = self.ask("GET", path, token=token)
            is_json = "json" in answer.headers["Content-Type"]
            out[path] = (answer.status, self.without_positions(answer.json()) if is_json else answer.body)
        return out

    def test_what_one_tenant_does_changes_no_count_of_another(self):
        before = {token: self.read(token) for token in (self.here, self.blank)}
        total = self.ask("GET", "/v1/projections/customers", token=self.admin).json()["views"]
        self.act(1)
        wait_until(lambda: self.ask("GET", "/v1/projections/customers", token=self.admin).json()["views"] > total)
        for token, answers in before.items():
            for path, answer in self.read(token).items():
                self.assertEqual(answers[path], answer, path)

    def test_the_blank_tenant_neither_sees_nor_cancels_runs_and_acts_of_all(self):
        every = self.ask("GET", "/v1/runs", token=self.admin).json()
        self.assertGreaterEqual(len(every), 2)
        self.assertEqual([], [r for r in self.ask("GET", "/v1/runs", token=self.blank).json() if CANARY in json.dumps(r)])
        for run in every:
            if run["tenant"] == "" and run["mode"] != "replay":
                self.refused(404, "not_found", self.ask("GET", f"/v1/runs/{run['id']}", token=self.blank))
                self.refused(404, "not_found", self.ask("POST", f"/v1/runs/{run['id']}:cancel", {}, token=self.blank))
        self.assertTrue(self.ask("GET", "/v1/audit", token=self.admin).json())
        self.assertEqual([], self.ask("GET", "/v1/audit", token=self.blank).json())
        for_all = self.ask("POST", "/v1/replay", {"projection": "customers"}, token=self.admin).json()
        wait_until(lambda: not self.ask("GET", "/v1/runs?open", token=self.admin).json())
        own = self.ask("POST", "/v1/replay", {"projection": "customers"}, token=self.blank)
        self.assertEqual(202, own.status, own.body)
        wait_until(lambda: not self.ask("GET", "/v1/runs?open", token=self.admin).json())
        self.refused(404, "not_found", self.ask("GET", f"/v1/runs/{for_all['id']}", token=self.blank))
        self.assertEqual(200, self.ask("GET", f"/v1/runs/{own.json()['id']}", token=self.blank).status)
        listed = [r["id"] for r in self.ask("GET", "/v1/runs", token=self.blank).json()]
        self.assertEqual([own.json()["id"]], listed)

    def test_a_list_is_filtered_before_it_is_cut(self):
        for stream, token in (("first", self.here), (f"later-{CANARY}", self.there)):
            self.placed(stream, token, customer="x", amount=1, count=0)
            wait_until(lambda: any(f["stream"] == stream for f in
                                   self.ask("GET", "/v1/projections/strict/failures", token=token).json()))
            made = self.ask("POST", "/v1/replay", {"projection": "strict"}, token=token)
            self.assertEqual(202, made.status, made.body)
            wait_until(lambda: not self.ask("GET", "/v1/runs?open", token=self.admin).json())
            wait_until(lambda: self.ask("GET", "/v1/outbox?status=dead&lane=strict", token=token).json()["rows"] or
                       self.ask("GET", "/v1/outbox?status=failed&lane=strict", token=token).json()["rows"])
            self.ask("POST", "/v1/outbox:skip", {"stream": stream, "seq": 1, "lane": "strict",
                                                 "reason": "x"}, token=token)
        for path in ("/v1/runs?limit=1", "/v1/audit?limit=1"):
            newest = self.ask("GET", path, token=self.admin).json()[0]
            self.assertNotEqual("here", newest["tenant"])
            self.assertEqual(["here"], [r["tenant"] for r in self.ask("GET", path, token=self.here).json()], path)
        failures = self.ask("GET", "/v1/projections/strict/failures?limit=1&resolved", token=self.here).json()
        self.assertEqual(["here"], [f["tenant"] for f in failures])


if __name__ == "__main__":
    unittest.main()
