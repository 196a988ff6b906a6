"""Every command says the same on a data directory and through the server that has it."""
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import support
from support import CUSTOMERS, Case, Server, make_token, wait_until

STRICT = """projection strict version 1
  view data.customer

on order.placed
  share += data.amount / data.count
"""
SEED = '{"view_id":"a","data":{"orders":1,"total":2}}\n'


def run(*arguments, stdin=None, env=None):
    return subprocess.run([support.EVERFOLD, *arguments], capture_output=True, text=True, input=stdin,
                          timeout=60, env={**os.environ, **(env or {})})


def masked(text):
    """What differs from one moment to the next, or by who asks: times, what is left of a lease, sizes."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'"(ttl_ms|wal_bytes|store_bytes|free_bytes|lag_seconds|blocked_seconds|seconds|events_per_second)":[\d.]+', r'"\1":N', text)
    text = re.sub(r"\s*\d+(\.\d+)? ([KMG]?B|s)\b", " SIZE", text)
    return re.sub(r"(http|sqlite):[^\s\",]+", "STORE", text)


class Alike(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        cls.server.ask("PUT", "/v1/projections/strict", STRICT)
        for i in range(12):
            cls.server.ask("POST", f"/v1/streams/o-{i % 3}/events",
                           {"type": "order.placed", "id": f"e-{i}", "meta": {"n": i},
                            "data": {"customer": f"c-{i % 4}", "amount": i, "count": i % 5}})
        cls.server.ask("POST", "/v1/streams/x/events", {"type": "order.placed", "data": {"customer": "d"}},
                       headers={"X-Tenant-Id": "other"})
        wait_until(lambda: cls.server.ask("GET", "/v1/views/customers/c-3?current&wait=5s").status == 200)
        wait_until(lambda: len(cls.server.ask("GET", "/v1/projections/strict/failures").json()) >= 3)
        cls.server.ask_as_owner("PUT", "/v1/publishers/shelf", {"url": f"file:{cls.server.dir}/shelf", "types": "order.*",
                                                                "retain_ms": 0, "attempts_max": 3, "paused": True})
        cls.ran = cls.server.ask("POST", "/v1/projections/customers:rebuild",
                                 {"reason": "a test", "no_switch": True}).json()["id"]
        wait_until(lambda: cls.server.ask("GET", f"/v1/runs/{cls.ran}").json()["state"] == "completed")

    def both(self, *arguments, stdin=None):
        """The answer through the server, which is the one on the directory; asked again when something
        has moved between the two."""
        for _ in range(4):
            with ThreadPoolExecutor(2) as pool:
                one = pool.submit(run, *arguments, "--data", str(self.server.data), stdin=stdin)
                there = run(*arguments, "--server", self.server.url, stdin=stdin)
                here = one.result()
            said = [(x.returncode, masked(x.stdout), masked(x.stderr)) for x in (here, there)]
            if said[0] == said[1]:
                break
        self.assertEqual(said[0], said[1], arguments)
        return there

    def test_reading(self):
        reads = [
            "event ls o-1", "event ls o-1 --from-seq 2 --limit 1", "event log --limit 5",
            "event log --after 3 --type order.*", "event log --all-tenants", "event log --tenant other",
            "event show e-4", "type ls", "projection ls", "projection show customers",
            "projection show strict", "projection show customers --tenant other",
            "projection failures strict", "projection wait customers --timeout 5s",
            "projection wait customers --tenant other --timeout 5s", "view get customers c-1",
            "view get customers d --tenant other", "view query customers",
            "view query customers --where total>8 --sort -total --limit 2",
            "view query customers --fields total --explain", "view query customers --count",
            "view explain customers c-1", "view explain customers c-1 --limit 1",
            "view at customers c-1 --position 6", "view export customers",
            "view export customers --all-tenants", "outbox report --status failed",
            "outbox report --lane strict --tenant other", "audit ls", "gaps detect", "run ls", "run ls --open",
            f"run show {self.ran}", f"run watch {self.ran}", "lease ls", "lease ls --kind partition",
            "worker ls", "partition ls", "replay --dry-run", "replay --validate --projection strict",
            "replay --dry-run --stream o-1 --after-seq 1 --from-date 2020-01-01",
            "projection diff customers --generations 1,2", "partition sync --dry-run --count 32", "status",
            "publisher ls", "publisher show shelf",
        ]
        for command in reads:
            for form in ("table", "json") if command != "event ls o-1" else ("table", "json", "ndjson"):
                with self.subTest(command=command, form=form):
                    self.both(*command.split(), "-o", form)

    def test_what_is_refused(self):
        for command, code in (
                ("event ls nobody", 3), ("event show nobody", 3), ("view get customers nobody", 3),
                ("view get nobody x", 3), ("projection show nobody", 3), ("run show nobody", 3),
                ("view query customers --where total>>", 2), ("outbox requeue o-1 99 --lane strict", 3),
                ("event append o-1 --type t --data {} --expected-seq 1", 4),
                ("event append o-1 --type t --data {} --id e-1", 4),
                ("view get customers c-1 --at-least nonsense", 2),
                ("projection switch customers --generation 99", 3), ("publisher show nobody", 3),
                ("publisher rm nobody", 3), ("publisher add shelf --to file:/tmp/everfold-none/own", 4),
                ("publisher add odd --to gopher://x", 2),
                ("projection wait customers --position 9999 --timeout 10ms", 5)):
            for form in ("table", "json"):
                with self.subTest(command=command, form=form):
                    self.assertEqual(code, self.both(*command.split(), "-o", form).returncode)

    def test_what_is_the_same_when_done_twice(self):
        program = self.server.dir / "customers.fold"
        program.write_text(CUSTOMERS)
        lines = self.server.dir / "lines.ndjson"
        lines.write_text("".join(json.dumps({"stream": f"i-{i}", "type": "imported", "id": f"i-{i}",
                                             "data": {}}) + "\n" for i in range(5)))
        run("event", "import", str(lines), "--data", str(self.server.data))
        run("event", "append", "twice", "--type", "t", "--data", "{}", "--id", "twice",
            "--data", str(self.server.data))
        for command in ("event append twice --type t --data {} --id twice", f"event import {lines}",
                        "type set order.placed --intent replay_only --publish no",
                        "type set order.placed --intent projection_and_replay --publish yes",
                        f"projection deploy {program}", "projection pause customers", "partition sync --count 16 --prune",
                        "publisher add own --to file:/tmp/everfold-none/own --types a* --retain 5m --replace",
                        "publisher pause own", "publisher resume own",
                        "outbox requeue-dead --lane strict", "gaps repair"):
            with self.subTest(command=command):
                self.both(*command.split(), "-o", "json")
        done = run("projection", "resume", "customers", "--reason", "enough", "--server", self.server.url)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(("resume", "customers", "enough"), tuple(
            self.get("/v1/audit?limit=1").json()[0][k] for k in ("action", "lane", "reason")))
        wait_until(lambda: self.get("/v1/projections/customers").json()["state"] == "live")

    def test_acts_are_recorded_alike_and_name_the_person(self):
        program = self.server.dir / "noted.fold"
        program.write_text(CUSTOMERS.replace("customers", "noted"))
        done = []
        for where in (("--data", str(self.server.data)), ("--server", self.server.url)):
            for command in (f"projection deploy {program}", "projection pause noted", "projection resume noted",
                            "projection rebuild noted --no-switch --wait --reason why",
                            "projection retire noted --generation 2"):
                ran = run(*command.split(), *where, env={"EVERFOLD_ACTOR": "Ann"})
                self.assertEqual(0, ran.returncode, (command, ran.stderr))
            acts = json.loads(run("audit", "ls", *where, "-o", "json").stdout)
            done.append([(a["action"], a["actor"], a["reason"] or "") for a in acts if a["lane"] == "noted"][:5])
        self.assertEqual([("retire", "Ann", ""), ("rebuild", "Ann", "why"), ("resume", "Ann", ""),
                          ("pause", "Ann", ""), ("deploy", "Ann", "")], done[0])
        self.assertEqual([(act, "Ann (loopback)", why) for act, _, why in done[0]], done[1])

    def test_runs_are_seen_through(self):
        at = json.loads(run("status", "--server", self.server.url, "-o", "json").stdout)["journal"]["position"]
        for command, stdin in (("projection rebuild customers --no-switch --wait", None),
                               ("projection verify customers", None),
                               ("replay --projection customers", None),
                               (f"view seed customers - --position {at}", SEED)):
            with self.subTest(command=command):
                done = run(*command.split(), "--server", self.server.url, "-o", "json", stdin=stdin)
                self.assertEqual(0, done.returncode, done.stderr)
        generation = json.loads(done.stdout)["detail"]["built"]
        done = run("projection", "retire", "customers", "--generation", str(generation), "--server",
                   self.server.url)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_follower_of_the_log(self):
        follower = subprocess.Popen([support.EVERFOLD, "event", "log", "--follow", "--type", "followed",
                                     "-o", "ndjson", "--server", self.server.url],
                                    stdout=subprocess.PIPE, text=True)
        self.append("followed", "followed", {"n": 1})
        self.assertEqual({"n": 1}, json.loads(follower.stdout.readline())["data"])
        follower.terminate()
        follower.communicate(timeout=20)

    def test_what_does_not_go_through_a_server(self):
        for command in ("work --once", "init", "serve"):
            done = run(*command.split(), "--server", self.server.url)
            self.assertEqual(2, done.returncode)
            self.assertIn("cannot be used with --server", done.stderr)
        done = run("status", "--server", self.server.url, "--data", str(self.server.data))
        self.assertEqual(2, done.returncode)
        self.assertIn("--server cannot be combined with --data", done.stderr)
        done = run("status", "--data", str(self.server.data), env={"EVERFOLD_SERVER": "http://127.0.0.1:1"})
        self.assertEqual(0, done.returncode, done.stderr)

    def test_doctor_reports_the_checks_of_the_server(self):
        here = json.loads(run("doctor", "-o", "json", "--data", str(self.server.data)).stdout)
        done = run("doctor", "-o", "json", "--server", self.server.url)
        self.assertEqual(0, done.returncode, done.stderr)
        there = {x["check"]: x for x in json.loads(done.stdout)["checks"]}
        for check in here["checks"]:
            if check["check"] in ("schema", "library", "durability", "outbox", "projections"):
                self.assertEqual(check, there[check["check"]])
        self.assertIn("not checked", there["events"]["detail"])
        for flag in ("--deep", "--accept-head"):
            self.assertEqual(2, run("doctor", flag, "--server", self.server.url).returncode)
        done = run("doctor", "-o", "json", "--server", "http://127.0.0.1:1")
        self.assertEqual((6, "fail"), (done.returncode, json.loads(done.stdout)["checks"][-1]["state"]))

    def test_a_server_that_is_not_there(self):
        done = run("status", env={"EVERFOLD_SERVER": "http://127.0.0.1:1"})
        self.assertEqual((5, True), (done.returncode, "cannot be reached" in done.stderr), done.stderr)
        self.assertIn("the server is named by EVERFOLD_SERVER", done.stderr)
        for url in ("nonsense", "ftp://x", "http://", "http://user@127.0.0.1:1"):
            self.assertEqual(2, run("status", "--server", url).returncode, url)


class Tokens(Case):
    def test_a_token_from_the_environment_or_a_file(self):
        server = Server()
        self.addCleanup(server.stop)
        token = make_token(server.data, "--scope", "read")["token"]
        path = server.dir / "token"
        path.write_text(token + "\n")

        def status(*arguments, **env):
            return run("projection", "ls", "--server", server.url, *arguments, env=env)
        wait_until(lambda: status().returncode == 2)
        self.assertIn("token", status().stderr)
        self.assertEqual(0, status(EVERFOLD_TOKEN=token).returncode)
        self.assertEqual(0, status("--token-file", str(path)).returncode)
        self.assertEqual(0, status(EVERFOLD_TOKEN_FILE=str(path)).returncode)
        self.assertEqual(2, status(EVERFOLD_TOKEN="ef_wrong").returncode)
        self.assertEqual(3, status("--token-file", str(server.dir / "none")).returncode)
        done = run("projection", "pause", "x", "--server", server.url, env={"EVERFOLD_TOKEN": token})
        self.assertEqual((2, True), (done.returncode, "scope operate" in done.stderr), done.stderr)
        for elsewhere in ("192.0.2.1:7450", "localhost.example.org", "127.example.org", "[::2]:7450", "127.1"):
            done = run("status", "--server", "http://" + elsewhere, env={"EVERFOLD_TOKEN": token})
            self.assertEqual((2, True), (done.returncode, "over https only" in done.stderr), done.stderr)
        shown = run("config", "show", "--data", str(server.data), env={"EVERFOLD_TOKEN": token})
        self.assertEqual((0, False), (shown.returncode, token in shown.stdout), shown.stderr)

    def test_tokens_are_made_listed_and_ended_there(self):
        server = Server()
        self.addCleanup(server.stop)

        def token(*arguments, key=None):
            return run("token", *arguments, "--server", server.url, "-o", "json",
                       env={"EVERFOLD_TOKEN": key} if key else None)
        admin = json.loads(token("create", "--scope", "admin", "--note", "first").stdout)
        bound = json.loads(token("create", "--scope", "append,read", "--tenant", "t", "--expires", "90s",
                                 key=admin["token"]).stdout)
        self.assertEqual((["append", "read"], "t", "live"), (bound["scopes"], bound["tenant"], bound["state"]))
        self.assertEqual(200, server.ask("GET", "/v1/events", token=bound["token"]).status)
        listed = token("ls", key=admin["token"])
        self.assertEqual(run("token", "ls", "--data", str(server.data), "-o", "json").stdout, listed.stdout)
        self.assertEqual([admin["id"], bound["id"]], [x["id"] for x in json.loads(listed.stdout)])

        for arguments, key, code, saying in (
                (("ls",), None, 2, "token"), (("ls",), bound["token"], 2, "scope admin"),
                (("create", "--scope", "admin"), bound["token"], 2, "scope admin"),
                (("create", "--scope", "all"), admin["token"], 2, "no scope"),
                (("create", "--scope", "read", "--expires", "99999999h"), admin["token"], 2, "--expires"),
                (("revoke", "nobody"), admin["token"], 3, "nobody"),
                (("revoke", admin["id"]), bound["token"], 2, "scope admin")):
            done = token(*arguments, key=key)
            self.assertEqual((code, True), (done.returncode, saying in done.stderr), (arguments, done.stderr))
        self.assertEqual(listed.stdout, token("ls", key=admin["token"]).stdout)

        ended = json.loads(token("revoke", bound["id"], "--reason", "enough", key=admin["token"]).stdout)
        self.assertEqual("revoked", ended["state"])
        self.assertEqual(401, server.ask("GET", "/v1/events", token=bound["token"]).status)
        acts = server.ask("GET", "/v1/audit?limit=1", token=admin["token"]).json()
        self.assertEqual(("token_revoke", bound["id"], "enough"),
                         tuple(acts[0][k] for k in ("action", "lane", "reason")))
