"""What the monitor asks for: its files and their policy, the overview, dry runs, pasts, tokens."""
import os
import re

from support import CUSTOMERS, Case, Server, make_token, wait_until

POISON = """projection strict version {}
  view data.customer

upcast order.placed from 1 to 2
  data.count = 2

on order.placed
  total += {}
"""


class Files(Case):
    def test_the_overview_is_the_one_of_the_command_line(self):
        status = self.get("/v1/overview").json()
        self.assertEqual("well", status["health"]["state"])
        self.assertIn("acks survive", status["journal"]["durability"])
        wait_until(lambda: self.get("/v1/history").json())
        scopes = ["append", "read", "work", "operate"]
        self.assertEqual({"name": "loopback", "tenant": None, "scopes": scopes}, self.get("/v1/whoami").json())
        self.assertEqual({"name": f"uid {os.getuid()}", "tenant": None, "scopes": [*scopes, "admin"]},
                         self.server.ask_as_owner("GET", "/v1/whoami").json())

    def names(self):
        page = self.get("/").body.decode()
        return re.findall(r'"(assets/[0-9a-f]{16}/[\w.]+)"', page)

    def test_the_page_is_ours_alone_and_may_load_nothing_else(self):
        page = self.get("/")
        self.assertEqual((200, "text/html; charset=utf-8"), (page.status, page.headers["Content-Type"]))
        policy = dict(part.strip().split(" ", 1) for part in page.headers["Content-Security-Policy"].split(";"))
        self.assertEqual("'none'", policy["default-src"])
        self.assertEqual(("'self'", "'self'", "'self'"),
                         (policy["script-src"], policy["style-src"], policy["connect-src"]))
        self.assertEqual(("'none'",) * 3, (policy["frame-ancestors"], policy["base-uri"], policy["form-action"]))
        self.assertEqual(("nosniff", "no-referrer"),
                         (page.headers["X-Content-Type-Options"], page.headers["Referrer-Policy"]))
        self.assertNotRegex(page.body.decode(), r"<script>|\son\w+=|style=|https?://")

    def test_every_module_that_is_imported_is_there_and_none_comes_from_elsewhere(self):
        seen, todo = set(), self.names()
        self.assertGreater(len(todo), 3)
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            answer = self.get("/" + name)
            self.assertEqual(200, answer.status, name)
            self.assertIn("immutable", answer.headers["Cache-Control"])
            text = answer.body.decode()
            self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://|innerHTML|eval\(")
            folder = name.rsplit("/", 1)[0]
            todo += [f"{folder}/{n}" for n in re.findall(r'from "\./([\w.]+)"', text)]
        self.assertGreater(len(seen), 20)

    def test_a_file_that_is_known_is_not_sent_again_and_one_of_another_build_is_not_there(self):
        for path in ["/", "/" + self.names()[0]]:
            tag = self.get(path).headers["ETag"]
            again = self.get(path, If_None_Match=tag)
            self.assertEqual((304, b""), (again.status, again.body))
        self.refused(404, "not_found", self.get("/assets/0000000000000000/app.js"))
        self.refused(404, "not_found", self.get("/" + self.names()[0].rsplit("/", 1)[0] + "/nothing.js"))
        self.assertEqual(405, self.ask("POST", "/", "{}").status)


class Off(Case):
    @classmethod
    def make_server(cls):
        return Server(env={"EVERFOLD_SERVER_MONITOR": "false"})

    def test_a_monitor_that_is_off_is_not_there(self):
        self.assertIn("server.monitor", self.refused(404, "not_found", self.get("/")))
        self.refused(404, "not_found", self.get("/assets/0/app.js"))
        self.assertEqual(200, self.get("/v1/status").status)


class Answers(Case):
    def test_a_dry_run_of_a_poison_event_changes_nothing(self):
        self.ask("PUT", "/v1/projections/strict", POISON.format(1, "data.amount / (data.count - 2)"))
        self.append("p-1", data={"customer": "p", "amount": 6})
        wait_until(lambda: self.get("/v1/projections/strict/failures").json())
        event = {"stream": "p-1", "seq": 1}
        tried = self.ask("POST", "/v1/projections/strict:try", event).json()
        self.assertEqual(("failed", 8, 2, {"amount": 6, "count": 2, "customer": "p"}, []),
                         (tried["outcome"], tried["line"], tried["schema"], tried["seen"], tried["views"]))
        self.assertNotEqual("well", self.get("/v1/overview").json()["health"]["state"])
        self.ask("PUT", "/v1/projections/strict", POISON.format(2, "data.amount / data.count"))
        done = wait_until(lambda: (t := self.ask("POST", "/v1/projections/strict:try", event).json())
                          ["version"] == 2 and t["outcome"] == "done" and t)
        self.assertEqual(2, done["generation"])
        again = self.ask("POST", "/v1/projections/strict:try", {**event, "generation": 1}).json()
        self.assertEqual("failed", again["outcome"])
        self.refused(404, "not_found", self.ask("POST", "/v1/projections/strict:try", {"stream": "p-1", "seq": 9}))
        self.refused(404, "not_found", self.ask("POST", "/v1/projections/strict:try", {**event, "generation": 9}))

    def test_a_trial_shows_the_view_before_and_after(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.append("c-1", data={"customer": "t", "amount": 5})
        wait_until(lambda: self.get("/v1/views/customers/t").status == 200)
        self.ask("POST", "/v1/projections/customers:pause", {"reason": "to look"})
        self.append("c-1", data={"customer": "t", "amount": 7})
        self.append("c-1", data={"customer": "t", "amount": 8})
        tried = self.ask("POST", "/v1/projections/customers:try", {"stream": "c-1", "seq": 2}).json()
        self.assertEqual(("applied", [{"view_id": "t", "before": {"orders": 1, "total": 5},
                                       "after": {"orders": 2, "total": 12}}]), (tried["outcome"], tried["views"]))
        waits = self.ask("POST", "/v1/projections/customers:try", {"stream": "c-1", "seq": 3}).json()
        self.assertEqual(("waits", 2), (waits["outcome"], waits["next_seq"]))
        self.assertEqual({"orders": 1, "total": 5}, self.get("/v1/views/customers/t").json()["data"])
        self.ask("POST", "/v1/projections/customers:resume", {})
        acts = [a["action"] for a in self.get("/v1/audit").json() if a["lane"] == "customers"]
        self.assertEqual(["resume", "pause", "deploy"], acts[:3])

    def test_a_view_has_a_past(self):
        self.ask("PUT", "/v1/projections/past", CUSTOMERS.replace("customers", "past"))
        for amount in (1, 2, 3):
            self.append("v-1", data={"customer": "v", "amount": amount})
        wait_until(lambda: self.get("/v1/views/past/v").status == 200 and
                   self.get("/v1/views/past/v").json()["data"]["total"] == 6)
        past = self.get("/v1/views/past/v/history").json()
        self.assertEqual([1, 3, 6], [s["after"]["total"] for s in past["steps"]])
        self.assertEqual((None, False), (past["before"], past["more"]))
        last = self.get("/v1/views/past/v/history?limit=1").json()
        self.assertEqual(([6], 3, True), ([s["after"]["total"] for s in last["steps"]],
                                          last["before"]["total"], last["more"]))
        self.refused(404, "not_found", self.get("/v1/views/past/nobody/history"))
        self.refused(400, "bad_input", self.get("/v1/views/past/v/history?limit=1001"))

    def test_a_view_has_its_past_although_another_stream_has_stopped(self):
        self.ask("PUT", "/v1/projections/halted", POISON.format(1, "data.amount / data.n")
                 .replace("strict", "halted"))
        self.append("h-bad", data={"customer": "bad", "amount": 1, "n": 0})
        for n in (1, 2):
            self.append("h-1", data={"customer": "good", "amount": 2, "n": n})
        self.append("h-bad", data={"customer": "good", "amount": 99, "n": 1})  # blocked by the first
        wait_until(lambda: self.get("/v1/views/halted/good").status == 200 and
                   self.get("/v1/views/halted/good").json()["data"]["total"] == 3)
        past = self.get("/v1/views/halted/good/history").json()
        self.assertEqual([2, 3], [s["after"]["total"] for s in past["steps"]])

    def test_a_program_is_a_graph(self):
        self.ask("PUT", "/v1/projections/two", CUSTOMERS.replace("customers", "two"))
        graph = self.get("/v1/projections/two/explain").json()
        self.assertEqual("on order.placed", graph["blocks"][0]["title"])
        self.refused(404, "not_found", self.get("/v1/projections/two/explain?generation=9"))

    def test_streams_are_listed(self):
        self.append("s-1", kind="thing.seen")
        self.assertEqual("s-1", self.get("/v1/streams/s-1").json()["stream"])
        self.refused(404, "not_found", self.get("/v1/streams/nobody"))
        first = self.get("/v1/streams?limit=1").json()
        names = [s["stream"] for s in first["streams"]]
        while first["next"]:
            first = self.get("/v1/streams?limit=1&after=" + first["next"]).json()
            names += [s["stream"] for s in first["streams"]]
        self.assertIn("s-1", names)
        self.assertEqual(len(names), len(set(names)))


class Tokens(Case):
    def test_tokens_are_made_and_ended_by_administrators_only(self):
        admin = make_token(self.server.data, "--scope", "admin")["token"]
        reader = make_token(self.server.data, "--scope", "read")
        bound = make_token(self.server.data, "--scope", "admin", "--tenant", "acme")["token"]
        wait_until(lambda: self.ask("GET", "/v1/whoami", token=reader["token"]).status == 200)
        who = self.ask("GET", "/v1/whoami", token=reader["token"]).json()
        self.assertEqual((["read"], None), (who["scopes"], who["tenant"]))
        for token in (reader["token"], bound):
            self.assertEqual(403, self.ask("GET", "/v1/tokens", token=token).status)
            self.assertEqual(403, self.ask("POST", "/v1/tokens", {"scopes": "admin"}, token=token).status)
        self.assertEqual(403, self.ask("GET", "/v1/overview", token=bound).status)
        self.assertEqual("acme", self.ask("GET", "/v1/whoami", token=bound).json()["tenant"])
        made = self.ask("POST", "/v1/tokens", {"scopes": "read", "expires_seconds": 60, "note": "n"}, token=admin)
        self.assertEqual((201, ["read"]), (made.status, made.json()["scopes"]))
        secret = made.json()["token"]
        self.assertEqual(200, self.ask("GET", "/v1/status", token=secret).status)
        self.assertNotIn(secret.split("_")[2], self.ask("GET", "/v1/tokens", token=admin).body.decode())
        path = f"/v1/tokens/{made.json()['id']}:revoke"
        self.assertEqual("revoked", self.ask("POST", path, {"reason": "over"}, token=admin).json()["state"])
        self.assertEqual(401, self.ask("GET", "/v1/status", token=secret).status)
        self.assertEqual(400, self.ask("POST", "/v1/tokens", {"scopes": "odd"}, token=admin).status)
        self.assertEqual(400, self.ask("POST", "/v1/tokens", {"scopes": "read", "odd": 1}, token=admin).status)
        self.assertEqual(["token_revoke", "token_create"],
                         [a["action"] for a in self.ask("GET", "/v1/audit", token=admin).json()[:2]])
        self.assertEqual(200, self.ask("GET", "/").status)  # the page itself has nothing to hide
