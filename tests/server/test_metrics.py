"""/metrics: the exposition format to the letter, and numbers that are true."""
import gzip
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

from support import CUSTOMERS, Case, wait_until

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'^({NAME})(?:\{{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\}})? (\S+)$')
LABELS = {"operation", "code", "outcome", "le", "kind", "status", "destination", "projection", "state",
          "task", "version", "publisher", "class", "reason"}


STRICT = """projection strict version 1
  view data.customer

on order.placed
  share += data.amount / data.count
"""


def parse(text):
    """Strict: HELP, TYPE, then samples of that family only; no family and no series twice."""
    families, series, family = {}, {}, None
    assert text.endswith("\n")
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in families, f"{family} is there twice"
            kind = re.match(rf"^# TYPE {family} (counter|gauge|histogram)$", lines[i + 1])
            assert kind, lines[i + 1]
            families[family] = kind[1]
            assert kind[1] != "counter" or family.endswith("_total"), family
        elif not line.startswith("# TYPE "):
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            base = re.sub("_(bucket|sum|count)$", "", match[1]) if families[family] == "histogram" \
                else match[1]
            assert base == family, f"{match[1]} in the family {family}"
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert {k for k, _ in labels} <= LABELS, labels
            assert (match[1], labels) not in series, f"{line} is there twice"
            series[match[1], labels] = float(match[3])
    return families, series


class Metrics(Case):
    def scrape(self):
        answer = self.get("/metrics")
        self.assertEqual((200, "text/plain; version=0.0.4; charset=utf-8"),
                         (answer.status, answer.headers["Content-Type"]))
        return answer.body.decode()

    def value(self, name, **labels):
        return parse(self.scrape())[1].get(("everfold_" + name, tuple(labels.items())))

    def test_the_format_holds_and_promtool_agrees(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.append("m-1", data={"customer": "c", "amount": 1})
        text = self.scrape()
        families, series = parse(text)
        for name in ("events_appended_total", "append_duration_seconds", "projection_position",
                     "projection_lag_events", "projection_lag_seconds", "projection_state",
                     "projection_blocked_streams", "projection_blocked_events", "projection_blocked_seconds",
                     "projection_events_total", "projection_unaccounted_events", "outbox_pending",
                     "outbox_oldest_timestamp_seconds", "quarantine_events", "leases_held", "subscribers",
                     "projection_batch_events", "projection_batch_duration_seconds",
                     "handler_duration_seconds", "projection_retries_total", "quarantine_total", "large_views_total",
                     "lease_transfers_total", "ticks_total", "tick_duration_seconds", "outbox_claimed_total",
                     "run_events_total", "http_requests_total", "store_head_position", "storage_bytes", "build_info"):
            self.assertIn("everfold_" + name, families)
        self.assertTrue(all(name.startswith("everfold_") for name in families))
        page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
        self.assertEqual([], [name for name in families if f"`{name}`" not in page])
        tools = Path(__file__).parents[2] / "build" / "tools"  # where script/deps puts it
        promtool = shutil.which("promtool", path=f"{os.environ['PATH']}:{tools}")
        if promtool:
            for given, code in ((text, 0), (text.replace("_total", "_totals"), 3)):
                done = subprocess.run([promtool, "check", "metrics"], input=given, text=True,
                                      capture_output=True, timeout=60)
                self.assertEqual((code, ""), (done.returncode, "" if code else done.stdout + done.stderr))

    def test_the_parser_is_strict(self):
        good = '# HELP a_total x\n# TYPE a_total counter\na_total{code="1"} 1\n'
        parse(good)
        for bad in (good + 'a_total{code="1"} 2\n', good + "b 1\n", good.replace("counter", "count"),
                    good.replace('"1"', '1'), good.replace("code", "stream"), good[:-1]):
            with self.assertRaises((AssertionError, KeyError)):
                parse(bad)

    def test_appends_are_counted_by_outcome(self):
        before = {o: self.value("events_appended_total", outcome=o)
                  for o in ("ok", "duplicate", "conflict", "error")}
        count = self.value("append_duration_seconds_count")
        for _ in range(3):
            self.append("count", id="once")
        self.ask("POST", "/v1/streams/count/events", {"type": "t", "data": {}},
                 headers={"If-Match": "7"})
        after = {o: self.value("events_appended_total", outcome=o) for o in before}
        self.assertEqual({"ok": 1, "duplicate": 2, "conflict": 1, "error": 0},
                         {o: after[o] - before[o] for o in before})
        self.assertEqual(4, self.value("append_duration_seconds_count") - count)
        _, series = parse(self.scrape())
        buckets = [v for (n, _), v in series.items() if n == "everfold_append_duration_seconds_bucket"]
        self.assertEqual(sorted(buckets), buckets)
        self.assertEqual(buckets[-1], series["everfold_append_duration_seconds_count", ()])

    def test_publishers_and_runs_are_counted(self):
        self.ask("PUT", "/v1/types/parcel.sent", {"publish": True})
        self.server.ask_as_owner("PUT", "/v1/publishers/post", {"url": f"file:{self.server.dir}/parcels", "types": "parcel.*"})
        for _ in range(2):
            self.append("parcel-1", "parcel.sent")
        wait_until(lambda: self.value("publisher_published_total", publisher="post") == 2)
        self.assertEqual(0, self.value("publisher_failed_total", publisher="post"))
        claimed = wait_until(lambda: self.value("outbox_claimed_total"))
        self.assertGreaterEqual(claimed, 2)
        before = self.value("run_events_total")
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.ask("POST", "/v1/projections/customers:verify", {"reason": "to have a run"})
        wait_until(lambda: self.value("run_events_total") > before)

    def test_a_projection_is_in_one_state_and_its_events_are_counted(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.append("p-1", data={"customer": "x", "amount": 1})
        self.append("p-1", kind="order.other")
        wait_until(lambda: self.value("projection_lag_events", projection="customers") == 0 and
                   self.value("projection_state", projection="customers", state="live") == 1)
        _, series = parse(self.scrape())
        states = [v for (n, labels), v in series.items() if n == "everfold_projection_state"]
        self.assertEqual((1, 6), (sum(states), len(states)))
        head = series["everfold_store_head_position", ()]
        done = sum(v for (n, _), v in series.items() if n == "everfold_projection_events_total")
        self.assertEqual((head, head), (done, series["everfold_projection_position",
                                                     (("projection", "customers"),)]))
        self.assertEqual(0, series["everfold_projection_unaccounted_events",
                                   (("projection", "customers"),)])

    def test_waits_are_counted_by_outcome(self):
        # A tenant of its own: events of the other tests that no program digests are not waited for.
        tenant = {"X-Tenant-Id": "waits"}

        def place():
            return self.ask("POST", "/v1/streams/w-1/events", headers=tenant, body={
                "type": "order.placed", "data": {"customer": "w", "amount": 1}}).json()["token"]

        def look(query):
            return self.ask("GET", "/v1/views/customers/w" + query, headers=tenant).status
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.assertEqual(200, look(f"?at_least={place()}&wait=10s"))
        had = self.value("wait_duration_seconds_count", outcome="ok")
        self.ask("POST", "/v1/projections/customers:pause", {})
        self.assertEqual(504, look(f"?at_least={place()}&wait=10ms"))
        look("")  # asks for nothing, and is not counted
        self.ask("POST", "/v1/projections/customers:resume", {})
        self.assertGreaterEqual(had, 1)
        self.assertEqual((had, 1), (self.value("wait_duration_seconds_count", outcome="ok"),
                                    self.value("wait_duration_seconds_count", outcome="timeout")))

    def test_requests_are_counted_by_operation(self):
        was = self.value("http_requests_total", operation="readEvent", code="4xx") or 0
        self.get("/v1/events/nobody")
        self.assertEqual(was + 1, self.value("http_requests_total", operation="readEvent", code="4xx"))
        self.get("/nowhere")
        self.assertGreaterEqual(self.value("http_requests_total", operation="none", code="4xx"), 1)


class Loaded(Case):
    """S2.56: the numbers are right while there is work, and add up when it is done."""
    EACH, CLIENTS = 60, 6

    def scrape(self):
        return parse(self.get("/metrics").body.decode())[1]

    def place(self, client):
        for i in range(self.EACH):
            self.append(f"l-{client}-{i % 7}", data={"customer": f"c-{i % 5}", "amount": 1, "count": i})

    def test_under_load(self):
        self.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        self.ask("PUT", "/v1/projections/strict", STRICT)
        wait_until(lambda: all(self.get(f"/v1/projections/{p}").json()["state"] == "live"
                               for p in ("customers", "strict")))
        clients = [threading.Thread(target=self.place, args=(n,)) for n in range(self.CLIENTS)]
        for c in clients:
            c.start()
        total, before = self.EACH * self.CLIENTS, {}
        while any(c.is_alive() for c in clients):
            now = self.scrape()
            for key, value in before.items():
                if key[0].endswith(("_total", "_count", "_bucket", "_sum")):
                    self.assertGreaterEqual(now[key], value, key)
            rows = {s: now["everfold_outbox_rows", (("status", s),)] for s in ("pending", "processing", "dead")}
            self.assertTrue(0 <= rows["pending"] + rows["processing"] <= 2 * total and rows["dead"] == 0, rows)
            self.assertLessEqual(now["everfold_events_appended_total", (("outcome", "ok"),)], total)
            before = now
        for c in clients:
            c.join()

        def settled():
            s = self.scrape()
            one = (("projection", "customers"),)
            return s if s["everfold_projection_lag_events", one] == 0 and \
                s["everfold_outbox_pending", (("destination", "*"),)] == 0 else None
        s = wait_until(settled)
        poison = sum(1 for i in range(self.EACH) if i == 0) * self.CLIENTS  # count 0: once a client
        self.assertEqual((total, total), (s["everfold_events_appended_total", (("outcome", "ok"),)],
                                          s["everfold_store_head_position", ()]))
        self.assertEqual(total, s["everfold_append_duration_seconds_count", ()])
        self.assertEqual(total, sum(v for (n, labels), v in s.items() if n == "everfold_projection_events_total"
                                    and ("projection", "customers") in labels))
        self.assertGreaterEqual(s["everfold_projection_batch_events_sum", ()], total)
        self.assertEqual(s["everfold_projection_batch_events_count", ()],
                         s["everfold_handler_duration_seconds_count", ()])
        self.assertLessEqual(s["everfold_handler_duration_seconds_sum", ()],
                             s["everfold_projection_batch_duration_seconds_sum", ()])
        self.assertGreaterEqual(s["everfold_projection_retries_total", (("class", "permanent"),)], poison)
        self.assertEqual(0, s["everfold_projection_retries_total", (("class", "store"),)])
        self.assertEqual(0, s["everfold_quarantine_total", ()])
        self.assertGreaterEqual(s["everfold_outbox_claimed_total", ()], total)
        self.assertEqual(s["everfold_tick_duration_seconds_count", ()],
                         s["everfold_ticks_total", (("outcome", "done"),)])
        self.assertEqual(0, s["everfold_ticks_total", (("outcome", "failed"),)])
        taken = s["everfold_lease_transfers_total", (("reason", "taken"),)]
        held = s["everfold_leases_held", (("kind", "partition"),)]
        given = s["everfold_lease_transfers_total", (("reason", "released"),)]
        self.assertEqual(taken - given, held)
        self.assertEqual(0, s["everfold_lease_transfers_total", (("reason", "lost"),)])


class Gzip(Case):
    def test_a_large_answer_is_made_smaller_for_those_who_take_it(self):
        for _ in range(30):
            self.append("g", data={"text": "x" * 100})
        plain = self.get("/v1/streams/g/events")
        small = self.get("/v1/streams/g/events", Accept_Encoding="deflate, gzip;q=0.8")
        self.assertEqual("gzip", small.headers["Content-Encoding"])
        self.assertEqual(plain.body, gzip.decompress(small.body))
        self.assertLess(len(small.body) * 4, len(plain.body))
        for answer in (plain, self.get("/v1/streams/g/events", Accept_Encoding="gzip;q=0")):
            self.assertEqual((None, "Accept-Encoding"), (answer.headers["Content-Encoding"],
                                                         answer.headers["Vary"]))
        self.assertIsNone(self.get("/livez", Accept_Encoding="gzip").headers["Content-Encoding"])


class AccessLog(Case):
    arguments = ("--access-log",)

    @classmethod
    def setUpClass(cls):
        import os
        os.environ.update(EVERFOLD_LOG_LEVEL="info", EVERFOLD_LOG_FORMAT="json")
        try:
            super().setUpClass()
        finally:
            del os.environ["EVERFOLD_LOG_LEVEL"], os.environ["EVERFOLD_LOG_FORMAT"]

    def test_a_line_for_each_request_with_its_trace(self):
        import json
        trace = "0af7651916cd43dd8448eb211c80319c"
        self.get("/v1/events?limit=1", traceparent=f"00-{trace}-b7ad6b7169203331-01")
        self.get("/v1/events", traceparent="odd\\n")
        lines = wait_until(lambda: [json.loads(x) for x in self.server.said().splitlines()
                                    if '"readLog"' in x][1:] and
                           [json.loads(x) for x in self.server.said().splitlines() if '"readLog"' in x])
        self.assertEqual((trace, "GET", "/v1/events", 200, "loopback"),
                         tuple(lines[0][k] for k in ("trace_id", "method", "path", "status", "who")))
        self.assertEqual("", lines[1]["trace_id"])
