"""An operator who does anything in any order: what he skipped is left out of the versions that he skipped it for, and
nothing else is."""
import collections
import decimal
import os
import random

from kit import Journey, on_stores, orders, wait_until
from test_retry import V1, V2, totals

POISON_STREAMS, EVENTS, STEPS = 30, 20_000, 16


def mixed(seed):
    """Ordinary orders, and streams of four events of which the second and the third have a text for an amount."""
    events = list(orders(EVENTS, seed=seed))
    for stream in range(POISON_STREAMS):
        for seq in range(1, 5):
            events.append({"stream": f"bad-{stream}", "type": "order.placed", "id": f"bad-{stream}-{seq}",
                           "data": {"customer": f"c{stream % 9}", "amount": "2.50" if seq in (2, 3) else 1}})
    return events


def totals_of_version_1(events, skipped):
    """A stream ends before its first event that fails and was not skipped."""
    kept, seqs, ended = [], collections.Counter(), set()
    for event in events:
        stream = event["stream"]
        seqs[stream] += 1
        if stream in ended or (stream, seqs[stream]) in skipped:
            continue
        if isinstance(event["data"]["amount"], str):
            ended.add(stream)
        else:
            kept.append(event)
    return totals(kept)


class Operating(Journey):
    def versions(self):
        return {p["version"]: p for p in self.projection("customers")}

    def rows(self):
        return self.ef("outbox", "report", "--lane", "customers", "--limit", "1000", "-o", "json").json()["rows"]

    def begin(self, events):
        self.ef("init")
        self.import_events(events)
        self.deploy(V1)
        self.serve("--workers", "1", env={"EVERFOLD_RETRY_APPLY_BASE": "200ms", "EVERFOLD_RETRY_APPLY_CAP": "1s"})

    def wait_level(self, version):
        wait_until(lambda: self.versions()[version]["state"] == "live" and self.versions()[version]["lag_events"] == 0,
                   f"version {version} has every event that is not blocked")


@on_stores("sqlite", "postgres")
class LeftOver(Operating):
    def test_a_skip_of_a_paused_version_reaches_no_rebuild_of_the_active_one(self):
        events = mixed(seed=5)
        self.begin(events)
        wait_until(lambda: self.versions()[1]["blocked_streams"] == POISON_STREAMS, "version 1 is blocked")
        self.ef("projection", "deploy", self.write("v2.fold", V2), "--switch")
        run = self.ef("projection", "rebuild", "customers", "-o", "json").json()
        for stream in range(POISON_STREAMS):
            answer = self.run_ef("outbox", "skip", f"bad-{stream}", "2", "--lane", "customers", "--reason", "left over")
            self.assertIn(answer.code, (0, 3, 4), str(answer))
        wait_until(lambda: self.ef("run", "show", run["id"], "-o", "json").json()["state"] == "completed", "it is rebuilt")
        self.assertEqual(totals(events), self.customer_views())
        self.assertEqual(0, self.ef("projection", "verify", "customers").code)


@on_stores("sqlite", "postgres")
class Anything(Operating):
    def act(self, chance, skipped):
        """One action. What cannot be done at the moment is refused, and changes nothing."""
        rows = self.rows()
        row = chance.choice(rows) if rows else None
        what = chance.choice(["requeue", "skip", "skip", "replay", "pause", "resume", "resume", "rebuild", "switch",
                              "rollback"])
        if what in ("requeue", "skip", "replay"):
            if not row:
                return
            answer = self.run_ef("outbox", what, row["stream"], row["seq"], "--lane", "customers",
                                 *([] if what == "replay" else ["--reason", "any"]))
            if what == "skip" and answer.code == 0:
                skipped.add((row["stream"], row["seq"]))
        elif what == "rebuild":
            answer = self.run_ef("projection", "rebuild", "customers")
        elif what == "switch":
            answer = self.run_ef("projection", "switch", "customers", "--version", chance.choice("12"))
        else:
            answer = self.run_ef("projection", what, "customers")
        self.assertIn(answer.code, (0, 1, 3, 4, 5), str(answer))

    def test_random_actions_lose_nothing_and_skip_only_what_was_skipped(self):
        seed = int(os.environ.get("OPERATOR_SEED", "7"))  # script/soak takes others
        steps = int(os.environ.get("OPERATOR_STEPS", STEPS))
        chance, skipped = random.Random(seed), set()
        events = mixed(seed=6)
        self.begin(events)
        wait_until(lambda: self.versions()[1]["blocked_streams"] == POISON_STREAMS, "version 1 is blocked")
        self.deploy(V2, name="v2.fold")
        for step in range(steps):
            self.act(chance, skipped)
            more = [{"stream": f"bad-{step % POISON_STREAMS}", "type": "order.placed", "id": f"more-{step}",
                     "data": {"customer": "late", "amount": 3}}]
            self.import_events(more, name="more.ndjson")
            events += more
        self.run_ef("projection", "resume", "customers")
        wait_until(lambda: not self.ef("run", "ls", "--open", "-o", "json").json(), "no run is open")
        for version, expected in ((2, totals(events)), (1, totals_of_version_1(events, skipped))):
            self.wait_level(version)
            self.run_ef("projection", "switch", "customers", "--version", version)
            self.wait_level(version)
            found = self.customer_views()
            self.assertEqual(expected, {customer: found[customer] for customer in expected}, f"version {version}")
            self.assertEqual(set(expected), {customer for customer, row in found.items() if row != (0, decimal.Decimal(0))}
                             | {customer for customer, row in expected.items() if row == (0, decimal.Decimal(0))})
        good = [r for r in self.rows() if r["status"] in ("failed", "dead") and r["seq"] not in (2, 3)]
        self.assertEqual([], good, "events that version 1 can apply are listed as failed")
        self.assertEqual({0}, {p["unaccounted"] for p in self.projection("customers")})
