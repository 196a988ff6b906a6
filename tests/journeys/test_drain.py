"""Import, deploy, drain, query: the first thing that a new user does."""
from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders


@on_stores("sqlite", "lmdb", "postgres")
class Drain(Journey):
    def test_drain_applies_every_event_of_an_imported_journal(self):
        events = list(orders(EVENTS))
        self.ef("init")
        self.import_events(events)
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(events), self.customer_views())
        row, = self.projection("customers")
        self.assertEqual(("live", 0, 0), (row["state"], row["lag_events"], row["unaccounted"]))
