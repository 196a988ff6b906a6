"""Import, deploy, drain, query: the first thing that a new user does."""
from kit import CUSTOMERS_FOLD, EVENTS, WAIT_LIMIT_S, Journey, customer_totals, on_stores, orders, wait_until

IN_LOG_ORDER = CUSTOMERS_FOLD.replace("projection customers version 1", "projection customers_log version 1\n  order by log")


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

    def test_drain_applies_stream_ordered_and_log_ordered_projections(self):
        events = list(orders(EVENTS // 2))
        self.ef("init")
        self.import_events(events)
        self.deploy(CUSTOMERS_FOLD)
        self.deploy(IN_LOG_ORDER, name="log.fold")
        self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(events), self.customer_views())
        self.assertEqual(customer_totals(events), self.customer_views("customers_log"))


class Beside(Journey):
    def test_a_drain_that_ends_first_waits_for_the_other(self):
        events = list(orders(EVENTS // 2))
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.ef("work", "--drain", "--silent")
        self.import_events(events)
        self.deploy(IN_LOG_ORDER, name="log.fold")
        drains = [self.start("work", "--drain", log=f"drain-{n}.log") for n in range(2)]
        wait_until(lambda: any(d.poll() is not None for d in drains), "one drain has ended")
        first = next(d for d in drains if d.poll() is not None)
        self.assertEqual(0, first.returncode, first.log.read_text())
        self.assertEqual(customer_totals(events), self.customer_views())
        self.assertEqual(customer_totals(events), self.customer_views("customers_log"))
        for d in drains:
            self.assertEqual(0, d.wait(timeout=WAIT_LIMIT_S), d.log.read_text())

    def test_a_projection_deployed_during_a_drain_is_drained_too(self):
        events = list(orders(EVENTS))
        self.ef("init")
        self.import_events(events)
        self.deploy(CUSTOMERS_FOLD)
        drain = self.start("work", "--drain")
        self.deploy(IN_LOG_ORDER, name="log.fold")
        in_time = self.projection("customers")[0]["state"] == "catching_up"
        self.assertEqual(0, drain.wait(timeout=WAIT_LIMIT_S), drain.log.read_text())
        if not in_time:  # on a machine so busy that the drain was over before the deployment
            self.ef("work", "--drain", "--silent")
        self.assertEqual(customer_totals(events), self.customer_views())
        self.assertEqual(customer_totals(events), self.customer_views("customers_log"))


class Left(Journey):
    """A drain that cannot apply everything says what is left and exits with 6."""

    def poison(self, text):
        self.ef("init")
        self.deploy(text)
        self.import_events([{"stream": f"order-{n % 50}", "type": "order.placed",
                             "data": {"customer": f"c{n}", "amount": "poison" if n == 60 else 1}} for n in range(1000)])

    def test_failed_rows_that_are_due_later(self):
        self.poison(CUSTOMERS_FOLD)
        answer = self.ef("work", "--drain", code=6)
        last = answer.err.splitlines()[-1]
        self.assertRegex(last, r"not everything is applied: 1 row failed and will be retried, "
                               r"18 events are blocked by failed ones; the next retry is due in \d+ s")
        self.assertEqual(1000 - 19, len(self.views("customers")))
        left = self.ef("work", "--drain", "-o", "json", code=6).lines()[-1]["left"]
        self.assertEqual((0, 0, 1, 18), tuple(left[k] for k in ("queued", "behind", "retrying", "blocked")))

    def test_a_blocked_tenant_of_a_log_ordered_projection(self):
        self.poison(IN_LOG_ORDER)
        answer = self.ef("work", "--drain", code=6)
        self.assertIn("1 tenant of a log-ordered projection is blocked", answer.err)
        self.assertEqual(60, len(self.views("customers_log")))

    def test_a_paused_projection_is_not_waited_for(self):
        self.poison(CUSTOMERS_FOLD)
        self.ef("projection", "pause", "customers")
        self.ef("work", "--drain")
        self.ef("projection", "resume", "customers")
        self.ef("work", "--drain", code=6)

    def test_a_skipped_event_leaves_nothing(self):
        self.poison(CUSTOMERS_FOLD)
        self.ef("work", "--drain", code=6)
        self.ef("outbox", "skip", "order-10", "2", "--lane", "customers", "--reason", "test")
        self.ef("work", "--drain")
        self.assertEqual(999, len(self.views("customers")))
