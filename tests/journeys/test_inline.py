"""inline_apply_only: appends fold, nothing is queued, and no worker ever runs."""
from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders, to_json, wait_until

IN_LOG_ORDER = CUSTOMERS_FOLD.replace("projection customers version 1", "projection customers_log version 1\n  order by log")
BATCH = 1000


class Inline(Journey):
    def choose_stores(self, store):
        return {**super().choose_stores(store), "EVERFOLD_MODE": "inline_apply_only"}

    def check(self, events):
        expected = customer_totals(events)
        for name in ("customers", "customers_log"):
            self.assertEqual(expected, self.customer_views(name))
            row, = self.projection(name)
            self.assertEqual(("live", 0, 0), (row["state"], row["lag_events"], row["unaccounted"]))


@on_stores("sqlite", "postgres")
class Commands(Inline):
    def test_import_and_deploy_without_a_worker(self):
        events = list(orders(EVENTS))
        half = EVENTS // 2
        self.ef("init")
        self.import_events(events[:half])
        for number, text in enumerate((CUSTOMERS_FOLD, IN_LOG_ORDER)):
            answer = self.deploy(text, "-o", "json", name=f"{number}.fold").json()
            self.assertEqual(("live", 0), (answer["state"], answer["lag_events"]))
        self.check(events[:half])
        self.import_events(events[half:], name="rest.ndjson")
        self.check(events)
        self.import_events(events[half:half + 5000], name="again.ndjson")  # duplicates change nothing
        self.check(events)
        self.assertIn("no open failures", self.run_ef("doctor").out)


class Appends(Inline):
    def test_a_view_is_readable_after_each_append(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.deploy(IN_LOG_ORDER, name="log.fold")
        events = list(orders(20, streams=5, customers=3))
        for number, event in enumerate(events, 1):
            self.ef("event", "append", event["stream"], "--type", event["type"], "--data", to_json(event["data"]))
            self.check(events[:number])

    def test_a_failed_event_blocks_its_stream_and_is_retried_by_a_later_append(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)

        def append(stream, customer, amount):
            self.ef("event", "append", stream, "--type", "order.placed", "--data",
                    to_json({"customer": customer, "amount": amount}))
        append("a", "poisoned", "poison")
        append("a", "behind", 1)
        append("b", "other", 1)
        self.assertEqual({"other"}, set(self.views("customers")))
        rows = self.ef("outbox", "report", "-o", "json").json()["rows"]
        self.assertEqual([("a", 1, "failed"), ("a", 2, "pending")], [(r["stream"], r["seq"], r["status"]) for r in rows])
        self.assertNotIn("no open failures", self.ef("doctor").out)

        def retried():
            append("b", "other", 1)
            return self.ef("outbox", "report", "-o", "json").json()["rows"][0]["attempt_count"] > 1
        wait_until(retried, "an append retries the failed event")
        self.ef("outbox", "skip", "a", "1", "--lane", "customers", "--reason", "test")
        append("b", "other", 1)
        self.assertEqual({"other", "behind"}, set(self.views("customers")))


    def test_doctor_names_a_projection_that_nothing_catches_up(self):
        self.ef("init")
        self.import_events(list(orders(100)))
        self.deploy(CUSTOMERS_FOLD, "--quiet")
        self.ef("projection", "deploy", self.write("log.fold", IN_LOG_ORDER), env={"EVERFOLD_MODE": "outbox_apply_only"})
        self.assertIn("customers_log lags by 100 events, and no worker is running", self.ef("doctor").out)
        event, = orders(1, seed=2)  # the next append catches it up
        self.ef("event", "append", event["stream"], "--type", event["type"], "--data", to_json(event["data"]))
        self.assertIn("2 deployed, no open failures", self.ef("doctor").out)


class Served(Inline):
    def test_http_batches_and_a_projection_deployed_later(self):
        events = list(orders(EVENTS))
        half = EVENTS // 2
        self.write("customers.fold", CUSTOMERS_FOLD)
        self.serve("--projections", self.dir, "--mode", "inline_apply_only")

        def post(batch):
            body = "".join(to_json(event) + "\n" for event in batch)
            answer = self.http("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
            self.assertEqual(201, answer.status, str(answer))
            return batch[-1]["data"]["customer"]

        def read(name, customer):
            data = self.http("GET", f"/v1/views/{name}/{customer}").json()["data"]
            return data["orders"], data["total"]
        seen = []
        for at in range(0, half, BATCH):
            seen += events[at:at + BATCH]
            customer = post(events[at:at + BATCH])
            if at % (10 * BATCH) == 0:
                self.assertEqual(customer_totals(seen)[customer], read("customers", customer))
        answer = self.http("PUT", "/v1/projections/customers_log", IN_LOG_ORDER, {"Content-Type": "text/plain"})
        self.assertEqual(200, answer.status, str(answer))
        wait_until(lambda: self.http("GET", "/v1/projections/customers_log").json()["state"] == "live",
                   "serve catches the projection up")
        for at in range(half, EVENTS, BATCH):
            customer = post(events[at:at + BATCH])
            seen += events[at:at + BATCH]
        for name in ("customers", "customers_log"):
            self.assertEqual(customer_totals(seen)[customer], read(name, customer))
        self.assertEqual(200, self.http("GET", "/readyz?verbose").status)
        self.check(events)
