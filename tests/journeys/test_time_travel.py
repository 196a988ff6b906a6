"""A view as it was at a position, the events that produced it, a replay, and an older view store that is put back."""
import decimal
import random

from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, orders


class TimeTravel(Journey):
    def setUp(self):
        super().setUp()
        self.events = list(orders(EVENTS))
        self.ef("init")
        self.import_events(self.events)
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain", "--silent")

    def test_a_view_at_a_position_is_what_python_computes_from_the_prefix(self):
        rng = random.Random(3)
        for _ in range(8):
            position = rng.randrange(1, EVENTS)
            past = customer_totals(self.events[:position])
            customer = rng.choice(sorted(past))
            view = self.ef("view", "at", "customers", customer, "--position", position, "-o", "json").json()
            self.assertEqual(past[customer], (view["data"]["orders"], decimal.Decimal(view["data"]["total"])))

    def test_explain_lists_exactly_the_events_of_the_view(self):
        for customer in ("c0", "c17", "c499"):
            listed = self.ef("view", "explain", "customers", customer, "-o", "ndjson").lines()
            expected = [n + 1 for n, e in enumerate(self.events) if e["data"]["customer"] == customer]
            self.assertEqual(expected, [row["position"] for row in listed])

    def test_replay_changes_nothing_that_is_applied(self):
        before = self.ef("projection", "show", "customers", "-o", "json").json()
        self.ef("replay", "--projection", "customers")
        after = self.ef("projection", "show", "customers", "-o", "json").json()
        self.assertEqual((before["digest"], 0), (after["digest"], after["unaccounted"]))
        self.assertEqual(customer_totals(self.events), self.customer_views())

    def test_an_older_view_store_that_is_put_back_is_brought_up_to_date(self):
        views = self.dir / "data" / "views.db"
        kept = {p.name: p.read_bytes() for p in views.parent.glob("views.db*")}
        more = list(orders(20_000, seed=2))
        self.import_events(more, name="more.ndjson")
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(self.events + more), self.customer_views())
        for path in views.parent.glob("views.db*"):
            path.unlink()
        for name, content in kept.items():
            (views.parent / name).write_bytes(content)
        self.assertEqual(customer_totals(self.events), self.customer_views())
        gaps = self.ef("gaps", "detect", "-o", "json").json()["gaps"]
        self.assertEqual(len({e["stream"] for e in more}), len(gaps))
        self.ef("gaps", "repair")
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(self.events + more), self.customer_views())
        self.assertEqual([], self.ef("gaps", "detect", "-o", "json").json()["gaps"])

    def test_a_lost_view_store_is_rebuilt_from_the_journal(self):
        for path in (self.dir / "data").glob("views.db*"):
            path.unlink()
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(self.events), self.customer_views())


class TypesThatAreNotFolded(Journey):
    def test_the_past_of_a_view_has_the_same_events_as_the_view(self):
        self.ef("init")
        self.ef("type", "set", "order.noted", "--intent", "audit_only")
        self.deploy("projection notes version 1\n  view stream\non *\n  events += 1\n")
        self.import_events({"stream": f"s{n % 100}", "type": "order.noted" if n % 3 == 0 else "order.placed", "data": {}}
                           for n in range(3_000))
        self.ef("work", "--drain", "--silent")
        for stream in ("s0", "s1", "s99"):
            now = self.ef("view", "get", "notes", stream, "-o", "json").json()
            past = self.ef("view", "at", "notes", stream, "--position", 3_000, "-o", "json").json()
            self.assertEqual(({"events": 20}, now["data"]), (past["data"], now["data"]))
            listed = self.ef("view", "explain", "notes", stream, "-o", "ndjson").lines()
            self.assertEqual((20, {"order.placed"}), (len(listed), {row["type"] for row in listed}))
