"""What an operator does over HTTP: programs, poison events, rebuilds, runs; and looks at."""
import contextlib
import sqlite3

from support import CUSTOMERS, Case, Server, wait_until

POISON = """projection strict version {}
  view data.customer

on order.placed
  total += {}
"""


class Operate(Case):
    def deploy(self, name, text):
        return self.ask("PUT", f"/v1/projections/{name}", text)

    def state(self, name):
        return self.get(f"/v1/projections/{name}").json()

    def test_a_program_with_a_mistake_is_not_deployed(self):
        answer = self.deploy("broken", "projection broken version 1\n  view data.x\n\non a\n  y ++ 1\n")
        self.assertEqual(400, answer.status)
        self.assertEqual(5, answer.json()["mistakes"][0]["line"])
        self.assertEqual(404, self.get("/v1/projections/broken").status)
        self.assertIn("the path says", self.refused(400, "bad_input",
                                                    self.deploy("other", CUSTOMERS)))

    def test_a_projection_with_on_error_skip_skips_failed_events(self):
        path = "/v1/projections/lenient"
        text = POISON.format(1, "data.amount").replace("strict", "lenient")
        self.assertEqual("stop", self.ask("PUT", path, text).json()["on_error"])
        self.assertEqual("skip", self.ask("PUT", path + "?on_error=skip", text).json()["on_error"])
        self.assertEqual("skip", self.state("lenient")["on_error"])
        self.assertIn("stop or skip", self.refused(400, "bad_input",
                                                   self.ask("PUT", path + "?on_error=go", text)))
        self.assertEqual("skip", self.state("lenient")["on_error"])

    def test_a_poison_event_is_parked_shown_requeued_and_healed_by_a_new_version(self):
        self.assertEqual(200, self.deploy("strict", POISON.format(1, "data.amount / data.count")).status)
        wait_until(lambda: self.state("strict")["state"] == "live")
        self.append("p-1", data={"customer": "p", "amount": 6, "count": 0})
        self.append("h-1", data={"customer": "h", "amount": 6, "count": 2})
        wait_until(lambda: self.get("/v1/views/strict/h").status == 200)
        row = wait_until(lambda: [r for r in self.get("/v1/outbox?lane=strict").json()["rows"]
                                  if r["status"] == "failed"])[0]
        self.assertEqual(("p-1", 1), (row["stream"], row["seq"]))
        failure = wait_until(lambda: self.get("/v1/projections/strict/failures").json())[0]
        self.assertEqual(("p-1", True), (failure["stream"], failure["open"]))
        self.refused(404, "not_found", self.ask("POST", "/v1/outbox:requeue",
                                                {"stream": "h-1", "seq": 1}))
        self.refused(400, "bad_input", self.ask("POST", "/v1/outbox:skip",
                                                {"stream": "p-1", "seq": 1, "lane": "strict"}))
        skipped = self.ask("POST", "/v1/outbox:skip", {"stream": "p-1", "seq": 1, "lane": "strict",
                                                       "reason": "a test"})
        self.assertEqual(1, skipped.json()["skipped"])
        wait_until(lambda: not self.get("/v1/outbox?lane=strict").json()["rows"])
        acts = [a for a in self.get("/v1/audit").json() if a["action"] == "skip"]
        self.assertEqual(("a test", "loopback"), (acts[0]["reason"], acts[0]["actor"]))

    def test_published_rows_are_listed_with_their_time_page_by_page(self):
        self.assertEqual(200, self.ask("PUT", "/v1/types/sold", {"publish": True}).status)
        self.server.ask_as_owner("PUT", "/v1/publishers/sink", {"url": f"file:{self.server.dir}/sold", "types": "sold"})
        for seq in (1, 2, 3):
            self.append("till", "sold")
        path = "/v1/outbox?status=published&lane=sink&limit=2"
        wait_until(lambda: len(self.get(path + "0").json()["rows"]) == 3)
        first = self.get(path).json()
        rest = self.get(f"{path}&after={first['next']}").json()
        self.assertEqual([3, 2, 1], [r["seq"] for r in first["rows"] + rest["rows"]])
        self.assertIsNone(rest["next"])
        self.assertEqual("published_at", [k for k in first["rows"][0] if k not in ("blocked", "skipped")][-1])
        self.assertTrue(all(r["published_at"] >= r["enqueued_at"] for r in first["rows"]))
        upto = first["rows"][1]["position"]
        self.assertEqual([2, 1], [r["seq"] for r in self.get(f"{path}&upto={upto}").json()["rows"]])
        self.assertEqual([3, 2], [r["seq"] for r in self.get(f"{path}0&from={upto}").json()["rows"]])

    def test_rebuild_switch_and_rollback(self):
        self.deploy("customers", CUSTOMERS)
        for i in range(20):
            self.append(f"c-{i}", data={"customer": "c", "amount": 1})
        wait_until(lambda: self.state("customers")["lag_events"] == 0)
        run = self.ask("POST", "/v1/projections/customers:rebuild", {"reason": "test"})
        self.assertEqual(202, run.status)
        path = "/v1/runs/" + run.json()["id"]
        wait_until(lambda: self.get(path).json()["state"] == "completed")
        self.assertEqual(2, self.state("customers")["generation"])
        back = self.ask("POST", "/v1/projections/customers:rollback", {"reason": "test"})
        self.assertEqual((200, 1), (back.status, back.json()["generation"]))
        verified = self.ask("POST", "/v1/projections/customers:verify", {})
        path = "/v1/runs/" + verified.json()["id"]
        wait_until(lambda: self.get(path).json()["state"] in ("completed", "failed"))
        self.assertEqual("completed", self.get(path).json()["state"])
        self.refused(409, "seq_conflict", self.ask("POST", path + ":cancel", {}))
        self.refused(404, "not_found", self.get("/v1/runs/nobody"))
        self.assertIn(path[9:], [r["id"] for r in self.get("/v1/runs").json()])

    def test_who_works_where(self):
        workers = wait_until(lambda: self.get("/v1/workers").json())
        self.assertEqual(16, len(workers[0]["target_partitions"]))
        wait_until(lambda: all(p["holder"] for p in self.get("/v1/partitions").json()))
        self.assertIn("partition", {lease["kind"] for lease in self.get("/v1/leases").json()})
        self.assertEqual("gap-detect", self.get("/v1/gaps").json()["mode"])
        self.refused(400, "bad_input", self.get("/v1/outbox?status=odd"))

    def test_health(self):
        self.assertEqual(b"ok\n", self.get("/livez").body)
        ready = self.get("/readyz?verbose")
        self.assertEqual(200, ready.status, ready.body)
        for check in (b"[+] journal", b"[+] views", b"[+] integrity", b"[+] progress", b"[+] disk"):
            self.assertIn(check, ready.body)
        self.assertEqual("sqlite", self.get("/version").json()["journal"])

    def test_a_journal_that_was_changed_is_not_ready(self):
        server = Server()
        self.addCleanup(server.stop)
        server.ask("POST", "/v1/streams/s/events", {"type": "order.placed", "data": {"customer": "as it was"}})
        with contextlib.closing(sqlite3.connect(server.data / "journal.db", timeout=20)) as db:
            for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
                db.execute(f"drop trigger {name}")
            db.execute("update event set data = replace(data, 'was', 'is')")
            db.commit()
        server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        ready = wait_until(lambda: (x := server.ask("GET", "/readyz?verbose")).status == 503 and x)
        self.assertIn(b"[-] integrity", ready.body)
        self.assertNotIn(b"as it", ready.body)
