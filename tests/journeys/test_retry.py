"""Events that a projection fails on: what an operator does about them, and what comes of it.

The oracle is Python over the input: which events are poison is known, because this file makes them.
"""
import collections
import decimal
import time

from kit import EVENTS, Journey, orders, on_stores, wait_until

V1 = """projection customers version 1
  view data.customer
  index total

on order.placed
  orders += 1
  total += data.amount

on order.cancelled
  orders -= 1
  total -= data.amount
"""
# Reads amounts that are text, too.
V2 = V1.replace("version 1", "version 2").replace("data.amount", "number(format(\"{}\", data.amount))")
POISON_STREAMS = 300


def poisoned(count, poison, seed=3):
    """`count` events, of which `poison` have an amount that is text. Poison is spread over POISON_STREAMS streams, so
    that each of them has several, and good events wait behind them."""
    made = 0
    step = count // poison
    for number, event in enumerate(orders(count - poison, seed=seed)):
        yield event
        while made < poison and number >= made * step:
            yield {"stream": f"poison-{made % POISON_STREAMS}", "type": "order.placed", "id": f"p{seed}-{made}",
                   "data": {"customer": f"c{made % 500}", "amount": "1.25" if made % 2 else decimal.Decimal("1.25")
                            if made >= POISON_STREAMS else "1.25"}}
            made += 1
    while made < poison:
        yield {"stream": f"poison-{made % POISON_STREAMS}", "type": "order.placed", "id": f"p{seed}-{made}",
               "data": {"customer": f"c{made % 500}", "amount": "1.25"}}
        made += 1


def totals(events, passed=()):
    """customer -> (orders, total), with text amounts read as numbers; `passed` are (stream, seq) that do not count."""
    rows = collections.defaultdict(lambda: [0, decimal.Decimal(0)])
    seqs = collections.Counter()
    for event in events:
        seqs[event["stream"]] += 1
        if (event["stream"], seqs[event["stream"]]) in passed:
            continue
        sign = {"order.placed": 1, "order.cancelled": -1}[event["type"]]
        row = rows[event["data"]["customer"]]
        row[0] += sign
        row[1] += sign * decimal.Decimal(event["data"]["amount"])
    return {customer: tuple(row) for customer, row in rows.items()}


class Retrying(Journey):
    def report(self, *options):
        return self.ef("outbox", "report", "--lane", "customers", *options, "-o", "json").json()

    def counts(self):
        return self.report("--limit", "1")["summary"]

    def state(self, version):
        return [p for p in self.projection("customers") if p["version"] == version][-1]

    def wait_for_failures(self, streams):
        """Until the first poison event of every stream has failed, and nothing is queued."""
        def failed():
            counts = self.counts()
            return counts["failed"] + counts["dead"] >= streams and self.state(1)["state"] == "live"
        wait_until(failed, f"{streams} streams are blocked")

    def assert_well(self):
        summary = self.ef("outbox", "report", "-o", "json").json()["summary"]
        self.assertEqual((0, 0, 0, 0), tuple(summary[k] for k in ("pending", "failed", "dead", "blocked")))
        for p in self.projection("customers"):
            self.assertEqual(0, p["unaccounted"], p)
        self.assertEqual(200, self.http("GET", "/readyz").status)


@on_stores("sqlite", "postgres")
class Recovered(Retrying):
    def test_poison_is_gone_after_a_fixed_version_is_switched_to(self):
        events = list(poisoned(EVENTS, 3_000))
        self.ef("init")
        self.import_events(events)
        self.deploy(V1)
        self.serve("--workers", "1", env={"EVERFOLD_RETRY_APPLY_ATTEMPTS": "2", "EVERFOLD_RETRY_APPLY_BASE": "100ms"})
        wait_until(lambda: self.counts()["dead"] == POISON_STREAMS, "one event of each bad stream is dead")
        before = self.report("--by", "error")
        self.assertEqual(POISON_STREAMS, before["rows"])
        self.assertTrue(all("amount" in g["error"] or "number" in g["error"] for g in before["groups"]), before)

        self.write("fixed.fold", V2)
        self.try_drafts()
        self.ef("projection", "deploy", "fixed.fold", "--switch", "--reason", "amounts that are texts")
        self.assertEqual(["switch", "deploy"], [a["action"] for a in self.ef("audit", "ls", "-o", "json").json()[:2]])
        # Nothing else is needed: rows that only version 1 needed were removed.
        wait_until(lambda: sum(self.counts()[k] for k in ("pending", "failed", "dead")) == 0, "no retry row is left")
        self.assertEqual(totals(events), self.customer_views())
        self.assert_well()

        # Version 1 is still there. Going back files again what it lacks, so nothing is lost silently.
        self.ef("projection", "rollback", "customers")
        self.wait_for_failures(POISON_STREAMS)
        self.assertEqual(0, self.state(1)["unaccounted"])
        self.ef("projection", "switch", "customers", "--version", "2")
        self.ef("projection", "retire", "customers", "--version", "1")
        wait_until(lambda: sum(self.counts()[k] for k in ("pending", "failed", "dead")) == 0, "no retry row is left")
        self.assertEqual(totals(events), self.customer_views())
        self.assert_well()
        self.assertEqual(0, self.ef("projection", "verify", "customers").code)

    def try_drafts(self):
        """A draft that still fails, one that fails on more, and the one that is right; nothing is deployed."""
        before = self.projection("customers")
        wrong = self.write("wrong.fold", V1.replace("version 1", "version 2"))
        tried = self.ef("projection", "try", wrong, "--limit", "1000", "-o", "json", code=1).json()
        self.assertEqual((0, POISON_STREAMS, 0), (tried["applied"], tried["failed"], tried["newly_failed"]))
        self.assertTrue(all(row["error"] in row["message"] for row in tried["rows"]))
        worse = self.write("worse.fold", V2.replace("orders += 1", "orders += data.missing"))
        tried = self.ef("--server", self.server_url, "projection", "try", worse, "-o", "json", code=1).json()
        self.assertEqual((100, 100), (tried["waits"] + tried["failed"], tried["newly_failed"] + tried["failed"]))
        tried = self.ef("projection", "try", "fixed.fold", "--limit", "1000", "-o", "json").json()
        self.assertEqual((POISON_STREAMS, 0, 0, POISON_STREAMS),
                         (tried["applied"], tried["failed"], tried["newly_failed"], tried["streams"]))
        dead = {(row["stream"], row["seq"]) for row in self.report("--limit", "1000", "--status", "dead")["rows"]}
        self.assertEqual(dead, {(row["stream"], row["seq"]) for row in tried["rows"]})
        self.ef("projection", "try", self.write("bad.fold", "projection customers version 2\n  vew stream\n"), code=2)
        self.ef("projection", "try", self.write("other.fold", V2.replace("customers", "strangers")), code=3)
        self.assertEqual([p["version"] for p in before], [p["version"] for p in self.projection("customers")])

    def test_a_version_with_more_blocked_events_is_not_switched_to(self):
        self.ef("init")
        self.import_events(orders(5_000))
        self.deploy(V1)
        self.serve("--workers", "1")
        wait_until(lambda: self.state(1)["lag_events"] == 0, "version 1 has all events")
        worse = self.write("worse.fold", V2.replace("orders += 1", "orders += data.missing"))
        refused = self.ef("projection", "deploy", worse, "--switch", code=4)
        self.assertIn("projection switch customers --generation 2", refused.err)
        self.assertEqual("live", self.state(2)["state"])
        self.assertEqual(1, self.projection("customers")[0]["version"])  # the active one is listed first


@on_stores("sqlite", "postgres")
class Skipped(Retrying):
    STREAMS = 8

    def import_poison(self):
        """Each of the streams has a good event, a poison event and a good one."""
        self.events = [{"stream": f"s{n}", "type": "order.placed", "id": f"{n}-{seq}",
                        "data": {"customer": f"c{n % 7}", "amount": "9.99" if seq == 2 else 1}}
                       for seq in (1, 2, 3) for n in range(self.STREAMS)]
        self.ef("init")
        self.import_events(self.events)

    def test_a_skip_holds_for_the_blocked_version_and_no_other(self):
        self.import_poison()
        self.deploy(V1)
        self.serve("--workers", "1")
        self.wait_for_failures(self.STREAMS)
        self.deploy(V2, name="fixed.fold")
        wait_until(lambda: self.state(2)["state"] == "live", "version 2 is live")
        # Version 1 is active and blocked; version 2 has the event.
        self.ef("outbox", "skip", "s0", "2", "--lane", "customers", "--reason", "typo")
        refused = self.run_ef("outbox", "skip", "s0", "3", "--lane", "customers", "--reason", "good")
        self.assertIn(refused.code, (3, 4), str(refused))  # it only waits for seq 2, or was applied meanwhile
        wait_until(lambda: not [r for r in self.report("--limit", "1000")["rows"] if r["stream"] == "s0"],
                   "the skipped event is passed")
        self.ef("projection", "switch", "customers", "--version", "2")
        self.assertEqual(totals(self.events), self.customer_views())
        # The leftover of version 1 cannot be skipped any more, and a rebuild of version 2 has everything.
        self.ef("outbox", "skip", "s1", "2", "--lane", "customers", "--reason", "typo", code=3)
        run = self.ef("projection", "rebuild", "customers", "--wait", "-o", "json").json()
        self.assertEqual("completed", run["state"])
        self.assertEqual(totals(self.events), self.customer_views())
        self.assertEqual(0, self.ef("projection", "verify", "customers").code)
        self.assert_well()

    def test_many_dead_rows_are_skipped_by_one_entry_of_the_audit_log(self):
        self.import_poison()
        self.deploy(V1)
        self.ef("work", "--once")
        self.kill_rows()
        dry = self.ef("outbox", "skip-dead", "--lane", "customers", "--all", "--dry-run", "-o", "json").json()
        self.assertEqual(self.STREAMS, dry["skipped"])
        some = self.ef("outbox", "skip-dead", "--lane", "customers", "--stream", "s3", "--reason", "one", "-o",
                       "json").json()
        self.assertEqual(1, some["skipped"])
        groups = self.report("--by", "error")
        self.assertEqual(self.STREAMS - 1, groups["rows"])
        error = groups["groups"][0]["error"]
        none = self.ef("outbox", "skip-dead", "--lane", "customers", "--error", "no such text", "--reason", "x", "-o",
                       "json").json()
        self.assertEqual(0, none["skipped"])
        rest = self.ef("outbox", "skip-dead", "--lane", "customers", "--error", error, "--all", "--reason", "test data",
                       "-o", "json").json()
        self.assertEqual(self.STREAMS - 1, rest["skipped"])
        self.ef("work", "--drain")
        self.assertEqual(totals(self.events, {(f"s{n}", 2) for n in range(self.STREAMS)}), self.customer_views())
        audit = self.ef("audit", "ls", "-o", "json").json()
        skips = [a for a in audit if a["action"] == "skip"]
        self.assertEqual([(self.STREAMS - 1, "test data"), (1, "one")], [(a["rows"], a["reason"]) for a in skips])
        # Every rebuild of the version passes them again.
        self.ef("projection", "rebuild", "customers", "--wait")
        self.assertEqual(totals(self.events, {(f"s{n}", 2) for n in range(self.STREAMS)}), self.customer_views())

    def test_requeue_dead_by_error_counts_first_and_writes_one_audit_entry(self):
        self.import_poison()
        self.deploy(V1)
        self.ef("work", "--once")
        self.kill_rows()
        self.assertEqual(self.STREAMS, self.counts()["dead"])
        dry = self.ef("outbox", "requeue-dead", "--all", "--dry-run", "-o", "json").json()
        self.assertEqual(self.STREAMS, dry["requeued"])
        self.assertEqual(self.STREAMS, self.counts()["dead"])
        done = self.ef("outbox", "requeue-dead", "--lane", "customers", "--all", "--reason", "fixed", "-o",
                       "json").json()
        self.assertEqual(self.STREAMS, done["requeued"])
        self.assertEqual(0, self.counts()["dead"])
        entries = [a for a in self.ef("audit", "ls", "-o", "json").json() if a["action"] == "requeue"]
        self.assertEqual([(self.STREAMS, "fixed")], [(a["rows"], a["reason"]) for a in entries])

    def kill_rows(self):
        """Until every poison event is dead: each replay is an attempt."""
        def dead():
            for row in self.report("--limit", "1000")["rows"]:
                if row["status"] in ("failed", "pending") and row["seq"] == 2:
                    self.run_ef("outbox", "replay", row["stream"], row["seq"], "--lane", "customers")
            return self.counts()["dead"] == self.STREAMS
        wait_until(dead, "all poison events are dead", 200)


@on_stores("sqlite", "postgres")
class Replayed(Retrying):
    STREAMS = 12

    def test_replay_is_answered_while_other_workers_hold_the_partitions(self):
        self.ef("init")
        self.import_events([{"stream": f"s{n}", "type": "order.placed", "id": f"x{n}",
                             "data": {"customer": "c", "amount": "1"}} for n in range(self.STREAMS)])
        self.deploy(V1)
        self.serve("--workers", "1")
        self.start("work")
        self.wait_for_failures(self.STREAMS)
        for n in range(self.STREAMS):
            before = next(r for r in self.report("--limit", "100")["rows"] if r["stream"] == f"s{n}")
            options = ["--server", self.server_url] if n % 2 else []
            answer = self.ef("outbox", "replay", f"s{n}", "1", "--lane", "customers", *options, "-o", "json", code=1)
            left = answer.json()
            self.assertEqual(1, left["left"], str(answer))
            self.assertGreater(left["rows"][0]["attempt_count"], before["attempt_count"])
            self.assertNotIn("process ended", left["rows"][0]["last_error"])

    def test_a_row_under_retry_never_shows_a_crash_that_did_not_happen(self):
        self.ef("init")
        self.import_events([{"stream": f"s{n}", "type": "order.placed", "id": f"x{n}",
                             "data": {"customer": "c", "amount": "1"}} for n in range(200)])
        self.deploy(V1)
        self.serve("--workers", "1")
        self.wait_for_failures(200)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for row in self.http("GET", "/v1/outbox?lane=customers&limit=200").json()["rows"]:
                self.assertNotIn("process ended", row["last_error"])


@on_stores("sqlite", "postgres")
class AnotherViewStore(Retrying):
    def row_counts(self):
        found = self.counts()
        return found["failed"], found["pending"], found["dead"], found["oldest"]["attempt_count"], found["oldest"]["last_error"]

    def test_a_worker_without_the_projection_leaves_its_retry_rows(self):
        quick = {"EVERFOLD_RETRY_APPLY_BASE": "100ms"}
        self.ef("init")
        self.import_events([{"stream": "s", "type": "order.placed", "id": f"x{n}", "data": {"customer": "c", "amount": amount}}
                            for n, amount in enumerate(["1", 2, 3])])
        self.deploy(V1)
        self.ef("work", "--drain", env=quick, code=6)
        before = self.row_counts()
        self.assertEqual((1, 2), before[:2])
        empty = {**quick, "EVERFOLD_VIEWS": f"sqlite:{self.dir}/empty.db"}
        self.ef("init", env=empty)
        worker = self.start("work", env=empty)
        wait_until(lambda: "retry rows postponed: projection is not in the view store" in worker.log.read_text(),
                   "the worker finds the rows")
        self.assertEqual(0, self.end(worker))
        self.assertEqual(before, self.row_counts())
        # The right view store still has them to retry.
        self.deploy(V2, name="v2.fold")
        self.ef("work", "--drain", env=quick, code=6)
        self.ef("projection", "switch", "customers", "--version", "2")
        self.ef("work", "--drain", env=quick)
        self.assertEqual({"c": {"orders": 3, "total": 6}}, self.views("customers"))
