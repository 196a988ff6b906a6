"""shadow_only and inline_then_outbox: appends fold, rows are queued, and the accounts agree at any moment."""
import threading

from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, orders, to_json, wait_until

STREAMS = 500


class Modes(Journey):
    def post(self, events):
        answer = self.http("POST", "/v1/events", "".join(to_json(event) + "\n" for event in events),
                           {"Content-Type": "application/x-ndjson"})
        self.assertEqual(201, answer.status, str(answer))

    def unaccounted(self):
        return [row["unaccounted"] for row in self.http("GET", "/v1/projections").json()]

    def log(self, process):
        return process.log.read_text()


class Shadow(Modes):
    def test_serve_runs_a_shadow_that_leases_compares_and_changes_nothing(self):
        events = list(orders(EVENTS // 5))
        self.write("customers.fold", CUSTOMERS_FOLD)
        process = self.serve("--projections", self.dir, "--mode", "shadow_only", env={"EVERFOLD_LOG_LEVEL": "info"})
        wait_until(lambda: self.http("GET", "/v1/projections/customers").json()["state"] == "live", "it is live")
        for at in range(0, len(events), 1000):
            self.post(events[at:at + 1000])
            self.assertEqual([0], self.unaccounted())
            self.assertEqual(200, self.http("GET", "/readyz?verbose").status)
        wait_until(lambda: f"views agree projection=customers position={len(events)} failed=0" in self.log(process),
                   "the shadow agrees at the last event")
        self.assertNotIn("views differ projection=customers position={len(events)}", self.log(process))
        leases = [row for row in self.http("GET", "/v1/leases").json() if (row["name"] or "").startswith("*:shadow:")]
        self.assertEqual((16, {True}), (len(leases), {row["live"] for row in leases}))
        summary = self.http("GET", "/v1/outbox").json()["summary"]
        self.assertEqual((len(events), 0, 0), tuple(summary[k] for k in ("pending", "failed", "dead")))
        self.end(process)
        self.assertEqual(customer_totals(events), self.customer_views())
        # The rollout goes on with a real worker: it finds everything applied.
        self.ef("work", "--drain")
        self.assertEqual(customer_totals(events), self.customer_views())

    def test_a_failing_event_is_retried_on_counters_of_the_shadow(self):
        mode = {"EVERFOLD_MODE": "shadow_only"}
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD, "--quiet")
        self.ef("work", "--drain")
        rows = [{"stream": "a", "type": "order.placed", "data": {"customer": "x", "amount": amount}}
                for amount in (1, "poison", 2)]
        self.ef("event", "import", self.write_events("e.ndjson", rows), env=mode)
        before = self.ef("outbox", "report", "-o", "json").out
        lines = self.ef("work", "--drain", "-o", "json", env=mode).lines()
        result, ticks = lines[-1], lines[:-1]
        self.assertEqual((1, 1, 1, 0, True), tuple(result[k] for k in ("applied", "failed", "blocked", "dead", "same")))
        self.assertEqual((1, 1), (sum(t["applied"] for t in ticks), sum(t["failed"] for t in ticks)))
        self.assertEqual(before, self.ef("outbox", "report", "-o", "json").out)

        shadow = self.start("work", "--shadow", "-o", "ndjson", log="shadow.log")

        def attempts():
            return sum(line.count('"failed":1') for line in self.log(shadow).splitlines())
        wait_until(lambda: attempts() >= 2, "the shadow retries the event")
        held = self.run_ef("work", "--drain", "--shadow")
        self.assertEqual(4, held.code, str(held))  # a second shadow stands by
        self.end(shadow)
        self.assertEqual(before, self.ef("outbox", "report", "-o", "json").out)

    def test_a_row_of_the_shadow_dies_at_the_last_attempt_of_the_settings(self):
        settings = {"EVERFOLD_RETRY_APPLY_BASE": "50ms", "EVERFOLD_RETRY_APPLY_ATTEMPTS": "2"}
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD, "--quiet")
        self.ef("work", "--drain")
        self.ef("event", "append", "a", "--type", "order.placed", "--data", '{"customer":"x","amount":"poison"}',
                env={"EVERFOLD_MODE": "shadow_only"})
        shadow = self.start("work", "--shadow", "-o", "ndjson", env=settings, log="shadow.log")
        wait_until(lambda: '"dead":1' in self.log(shadow), "the row of the shadow is dead")
        self.end(shadow)
        self.assertEqual(2, sum(line.count('"failed":1') for line in self.log(shadow).splitlines()
                                if '"claimed"' in line), self.log(shadow))


class InlineThenOutbox(Modes):
    def test_the_accounts_agree_while_appends_and_workers_race(self):
        events = list(orders(EVENTS // 10))
        self.write("customers.fold", CUSTOMERS_FOLD)
        self.serve("--projections", self.dir, "--mode", "inline_then_outbox")
        wait_until(lambda: self.http("GET", "/v1/projections/customers").json()["state"] == "live", "it is live")

        def post_all():
            for at in range(0, len(events), 20):
                self.post(events[at:at + 20])
        poster = threading.Thread(target=post_all)
        poster.start()
        polls = 0
        while poster.is_alive():
            self.assertGreaterEqual(min(self.unaccounted()), 0)
            self.assertEqual(200, self.http("GET", "/readyz?verbose").status)
            polls += 1
        poster.join()
        self.assertGreater(polls, 5)
        wait_until(lambda: self.http("GET", "/v1/projections/customers").json()["lag_events"] == 0, "it is drained")
        self.assertEqual(customer_totals(events), self.customer_views())
