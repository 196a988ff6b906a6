"""Moving a journal: `event log` to `event import`, and `journal copy` between stores."""
import contextlib
import os
import signal
import sqlite3
import time

import kit
from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, orders, postgres_database, sql, wait_until

TENANTS = ["", "acme", "globex"]


def tenant_orders(count):
    """Orders of several tenants, interleaved."""
    for number, event in enumerate(orders(count)):
        yield {"tenant": TENANTS[number % len(TENANTS)], **event}


class Copied(Journey):
    def log(self, url):
        """`event log` of a whole journal, as text."""
        return self.ef("event", "log", "--all-tenants", "-o", "ndjson", "--journal", url).out

    def copy(self, source, target, kills):
        """Copies, and kills the command `kills` times on the way."""
        for _ in range(kills):
            before = self.position(target)
            process = self.start("journal", "copy", "--from", source, "--to", target, "--quiet")
            wait_until(lambda: process.poll() is not None or self.position(target) >= before + 5_000,
                       "5,000 events more are copied")
            self.assertIsNone(process.poll(), "the copy ended before it could be killed")
            self.end(process, signal.SIGKILL)
        return self.ef("journal", "copy", "--from", source, "--to", target, "-o", "json").json()

    def position(self, url):
        answer = self.run_ef("status", "-o", "json", "--journal", url, "--views", "memory:")
        return answer.json()["journal"]["position"] if answer.code == 0 else 0

    def test_a_journal_goes_to_postgres_and_back_unchanged(self):
        events = list(tenant_orders(EVENTS))
        self.ef("init")
        self.ef("type", "set", "order.cancelled", "--intent", "projection_and_replay", "--publish", "yes")
        self.ef("type", "set", "order.placed")
        self.ef("type", "set", "order.made", "--alias-of", "order.placed")
        self.import_events(events[:-1])
        self.ef("event", "append", "order-alias", "--type", "order.made", "--id", "alias", "--data",
                '{"customer":"c1","amount":1}', "--time", "2020-01-02T03:04:05Z")
        self.import_events(events[-1:], name="last.ndjson")
        source = f"sqlite:{self.dir}/data/journal.db"
        middle = postgres_database(f"copy{os.getpid()}_{time.monotonic_ns()}")
        target = f"sqlite:{self.dir}/back.db"

        result = self.copy(source, middle, kills=1)
        self.assertEqual((EVENTS + 1, False), (result["position"], result["stopped"]))
        first_hash = result["hash"]
        result = self.copy(middle, target, kills=1)
        self.assertEqual(EVENTS + 1, result["position"])
        self.assertLess(result["copied"], EVENTS, "the second run did not continue after the first")

        first, last = self.log(source), self.log(target)
        self.assertEqual(EVENTS + 1, first.count("\n"))
        self.assertTrue(first == last, "the logs of both ends differ")
        types = [self.ef("type", "ls", "-o", "json", "--journal", url).json() for url in (source, middle, target)]
        self.assertEqual(types[0], types[1])
        self.assertEqual(types[0], types[2])
        # The chain of hashes holds in the copy, and all three have the same head.
        self.assertEqual(first_hash, result["hash"])
        self.assertEqual(first_hash, sql(middle, "SELECT encode(hash, 'hex') FROM everfold.event "
                                         "ORDER BY position DESC LIMIT 1").strip())
        with contextlib.closing(sqlite3.connect(self.dir / "data" / "journal.db")) as db:
            head, = db.execute("SELECT hex(hash) FROM event ORDER BY position DESC LIMIT 1").fetchone()
        self.assertEqual(head.lower(), result["hash"])
        self.ef("doctor", "--deep", env={"EVERFOLD_JOURNAL": target, "EVERFOLD_VIEWS": "memory:"})

        moved = {"EVERFOLD_JOURNAL": target, "EVERFOLD_VIEWS": f"sqlite:{self.dir}/back-views.db"}
        self.stores = moved
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.start("work", "--silent")
        for tenant in TENANTS:
            self.ef("projection", "wait", "customers", "--tenant", tenant, "--timeout", "120s")
        events.append({"tenant": "", "type": "order.placed", "data": {"customer": "c1", "amount": 1}})
        for tenant in TENANTS:
            with self.subTest(tenant=tenant):
                views = {c: (d["orders"], d["total"])
                         for c, d in self.views("customers", "--tenant", tenant).items()}
                self.assertEqual(customer_totals(e for e in events if e["tenant"] == tenant), views)

        # The copy goes on by itself, as a journal of its own; the target of a copy is then refused.
        self.ef("event", "append", "order-new", "--type", "order.placed", "--data", '{"customer":"c1","amount":1}')
        answer = self.ef("journal", "copy", "--from", source, "--to", target, code=4)
        self.assertIn("not a prefix", answer.err)

    def test_a_target_that_is_not_a_prefix_is_left_alone(self):
        self.ef("init")
        self.import_events(orders(1_000))
        other = {"EVERFOLD_DATA": str(self.dir / "other")}
        self.ef("init", env=other)
        self.ef("event", "append", "a", "--type", "t", "--data", "{}", env=other)
        before = self.ef("event", "log", "-o", "ndjson", env=other).out
        target = f"sqlite:{self.dir}/other/journal.db"
        answer = self.ef("journal", "copy", "--to", target, code=4)
        self.assertIn("position 1", answer.err)
        self.assertEqual(before, self.ef("event", "log", "-o", "ndjson", env=other).out)

    def test_the_log_can_be_imported(self):
        events = list(tenant_orders(20_000))
        self.ef("init")
        self.import_events(events)
        exported = self.log(f"sqlite:{self.dir}/data/journal.db")
        self.assertEqual(len(events), exported.count("\n"), "the log has a limit")
        other = {"EVERFOLD_DATA": str(self.dir / "other")}
        self.ef("init", env=other)
        self.ef("event", "import", "-", "--quiet", stdin=exported, env=other)
        again = self.ef("event", "log", "--all-tenants", "-o", "ndjson", env=other)

        def kept(text):
            return [{k: v for k, v in kit.from_json(line).items() if k != "recorded_at"} for line in text.splitlines()]
        self.assertEqual(kept(exported), kept(again.out))

        # A log that does not fit is refused and not renumbered.
        third = {"EVERFOLD_DATA": str(self.dir / "third")}
        self.ef("init", env=third)
        lines = exported.splitlines(keepends=True)
        later = next(i for i, line in enumerate(lines) if kit.from_json(line)["seq"] > 1)
        answer = self.ef("event", "import", "-", stdin=lines[later], env=third, code=4)
        self.assertIn("line 1", answer.err)
        self.assertIn("no events", self.ef("event", "log", env=third).err)
