"""Filters, sorting, paging, counting and exports, compared with Python over the same events."""
import decimal
import random

from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders


@on_stores("sqlite", "lmdb", "postgres")
class Query(Journey):
    def rows(self, *options):
        """Every row of a query, page by page."""
        found, after = [], None
        while True:
            page = self.ef("view", "query", "customers", *options, "-o", "json",
                           *(["--after", after] if after else [])).json()
            found += [(v["view_id"], v["data"]["orders"], decimal.Decimal(v["data"]["total"])) for v in page["items"]]
            after = page["next"]
            if after is None:
                return found

    def test_queries_find_what_python_finds(self):
        events = list(orders(EVENTS, customers=5_000, streams=20_000))
        self.ef("init")
        self.import_events(events)
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain", "--silent")
        views = [(c, n, t) for c, (n, t) in customer_totals(events).items()]
        rng = random.Random(7)
        self.assertEqual([v for v in sorted(views) if v[0].startswith("c1")],
                         self.rows("--where", 'starts_with(view_id, "c1")', "--limit", "1000"))
        for _ in range(4):
            low = decimal.Decimal(rng.randrange(100_000, 1_500_000)) / 100
            high = low + 2_000
            most = rng.randrange(5, 40)
            where = f"total > {low} and (orders <= {most} or not (total < {high}))"
            expected = [v for v in views if v[2] > low and (v[1] <= most or v[2] >= high)]
            ordered = sorted(expected, key=lambda v: (v[2], v[0]), reverse=True)
            self.assertEqual(ordered, self.rows("--where", where, "--sort", "-total", "--limit", "500"))
            count = self.ef("view", "query", "customers", "--where", where, "--count", "-o", "json").json()
            self.assertEqual(len(expected), count["count"])
        self.assertEqual(sorted(views), self.rows("--limit", "1000"))
        self.assertEqual(sorted(views), sorted((c, n, t) for c, (n, t) in self.customer_views().items()))
        top = sorted(views, key=lambda v: (v[2], v[0]), reverse=True)[:3]
        self.assertEqual([v[0] for v in top],
                         [v["view_id"] for v in self.ef("view", "query", "customers", "--sort", "-total", "--limit", "3",
                                                        "-o", "json").json()["items"]])
