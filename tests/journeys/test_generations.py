"""A program changes while events arrive: build, compare, switch, roll back, rebuild, verify, retire."""
import decimal
import threading

from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders, to_json, wait_until

VERSION_2 = CUSTOMERS_FOLD.replace("version 1", "version 2").replace(
    "  orders += 1\n", "  orders += 1\n  largest = max(largest ?? 0, data.amount)\n")


def largest_amounts(events):
    found = {}
    for event in events:
        if event["type"] == "order.placed":
            customer, amount = event["data"]["customer"], event["data"]["amount"]
            found[customer] = max(found.get(customer, decimal.Decimal(0)), amount)
    return found


@on_stores("sqlite", "lmdb", "postgres")
class Generations(Journey):
    def append_in_background(self, events):
        """Appends by HTTP in batches while the test goes on."""
        def run():
            for first in range(0, len(events), 500):
                body = "\n".join(to_json(e) for e in events[first:first + 500])
                answer = self.http("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
                if answer.status != 201:
                    failures.append(str(answer))
        failures = []
        thread = threading.Thread(target=run)
        thread.start()

        def finish():
            thread.join()
            self.assertEqual([], failures)
        return finish

    def check_active(self, version, events):
        self.ef("projection", "wait", "customers", "--timeout", "120s")
        self.assertEqual(customer_totals(events), self.customer_views())
        active = self.ef("projection", "show", "customers", "-o", "json").json()
        self.assertEqual((version, 0), (active["version"], active["unaccounted"]))

    def test_versions_change_while_events_arrive(self):
        events = list(orders(EVENTS))
        past, during, later = events[:60_000], events[60_000:90_000], events[90_000:]
        self.ef("init")
        self.import_events(past)
        self.deploy(CUSTOMERS_FOLD)
        self.serve()
        self.ef("projection", "wait", "customers", "--timeout", "120s")
        finish = self.append_in_background(during)
        self.deploy(VERSION_2, name="v2.fold")
        self.ef("projection", "rebuild", "customers", "--wait")
        finish()
        self.check_active(1, past + during)
        wait_until(lambda: self.run_ef("projection", "switch", "customers", "--version", "2").code == 0,
                   "version 2 has caught up and is active")
        finish = self.append_in_background(later)
        finish()
        self.check_active(2, events)
        views = self.views("customers")
        self.assertEqual(largest_amounts(events),
                         {c: decimal.Decimal(v["largest"]) for c, v in views.items() if "largest" in v})
        self.ef("projection", "rollback", "customers")
        self.check_active(1, events)
        self.ef("projection", "switch", "customers", "--version", "2")
        self.ef("projection", "verify", "customers")
        self.ef("projection", "rebuild", "customers", "--in-place", "--wait")
        self.check_active(2, events)
        self.ef("projection", "verify", "customers")
        self.ef("projection", "retire", "customers", "--version", "1")
        self.assertEqual({2}, {row["version"] for row in self.projection("customers")})
        self.check_active(2, events)
