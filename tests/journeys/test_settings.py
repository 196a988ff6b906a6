"""Settings of workers take effect, and those that cannot hold are refused with a reason."""
import http.server
import threading
import time

from kit import CUSTOMERS_FOLD, Journey, customer_totals, orders, wait_until

POISON = """projection picky version 1
  view stream

on order.placed
  n += 1 / (if data.amount == 13 then 0 else 1)
"""
BY_LOG = POISON.replace("projection picky version 1\n", "projection picky version 1\n  order by log\n")


class TakeEffect(Journey):
    def append(self, stream, amount, **more):
        self.ef("event", "append", stream, "--type", "order.placed", "--data", '{"customer":"a","amount":%d}' % amount,
                **more)

    def rows(self, status):
        return self.ef("outbox", "report", "--status", status, "-o", "json").json()["rows"]

    def test_three_attempts_make_a_row_dead_after_three_failures(self):
        self.ef("init")
        self.deploy(POISON)
        self.append("order-1", 13)
        self.start("work", env={"EVERFOLD_RETRY_APPLY_BASE": "20ms", "EVERFOLD_RETRY_APPLY_ATTEMPTS": "3"})
        dead = wait_until(lambda: self.rows("dead"), "the row is dead")
        self.assertEqual([3], [row["attempt_count"] for row in dead])

    def test_delays_grow_by_the_factor_up_to_the_cap(self):
        self.ef("init")
        self.deploy(POISON)
        self.append("order-1", 13)
        begun = time.monotonic()
        # 100, 300, 900, 1000 ms: at the fifth failure 2.3 s have passed.
        self.start("work", env={"EVERFOLD_RETRY_APPLY_BASE": "100ms", "EVERFOLD_RETRY_APPLY_FACTOR": "3",
                                "EVERFOLD_RETRY_APPLY_CAP": "1s", "EVERFOLD_RETRY_APPLY_ATTEMPTS": "5"})
        self.assertEqual([5], [row["attempt_count"] for row in wait_until(lambda: self.rows("dead"), "the row is dead")])
        self.assertGreaterEqual(time.monotonic() - begun, 2.3)

    def test_cursor_retries_end_after_the_attempts_that_are_set(self):
        self.ef("init")
        self.deploy(BY_LOG)
        self.append("order-1", 13)
        env = {"EVERFOLD_RETRY_CURSOR_BASE": "10ms", "EVERFOLD_RETRY_CURSOR_ATTEMPTS": "2"}
        self.start("work", env=env)

        def states():
            shown = self.ef("projection", "show", "picky", "-o", "json", env=env).json()
            return [scope["state"] for scope in shown["scopes"]]
        wait_until(lambda: "failed" in states(), "the tenant has failed")

    def test_a_publisher_gets_the_defaults_of_the_settings(self):
        env = {"EVERFOLD_RETRY_PUBLISH_BASE": "5s", "EVERFOLD_RETRY_PUBLISH_ATTEMPTS": "4"}
        self.ef("init")
        self.ef("publisher", "add", "one", "--to", "file:-", env=env)
        self.ef("publisher", "add", "two", "--to", "file:-", "--retry", "1s", "--attempts", "9", env=env)
        self.ef("publisher", "add", "three", "--to", "file:-")
        self.serve("--workers", "0", env=env)
        self.assertEqual(200, self.http_as_owner("PUT", "/v1/publishers/four", {"url": "file:-"}).status)
        shown = {p["name"]: (p["retry_ms"], p["attempts_max"])
                 for p in self.ef("publisher", "ls", "-o", "json").json()}
        self.assertEqual({"one": (5000, 4), "two": (1000, 9), "three": (60000, 0), "four": (5000, 4)}, shown)

    def test_messages_are_tried_again_at_growing_delays(self):
        tried = []

        class Refuse(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                tried.append(time.monotonic())
                self.send_response(500)
                self.end_headers()

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.ef("init")
        self.ef("type", "set", "order.placed", "--publish", "yes")
        self.ef("publisher", "add", "hook", "--to", f"http://127.0.0.1:{server.server_port}/", "--allow-private",
                "--retry", "100ms", "--attempts", "4")
        self.append("order-1", 1)
        self.start("work", env={"EVERFOLD_RETRY_PUBLISH_FACTOR": "4"})
        wait_until(lambda: self.rows("dead"), "the message is dead")
        self.assertEqual(4, len(tried))
        for least, first, second in zip((0.1, 0.4, 1.6), tried, tried[1:]):
            self.assertGreaterEqual(second - first, least * 0.95)

    def test_small_batches_and_short_leases_fold_everything(self):
        events = list(orders(20_000))
        self.ef("init")
        self.import_events(events[:10_000])
        self.deploy(CUSTOMERS_FOLD)
        self.start("work", env={"EVERFOLD_WORKER_BATCH": "7", "EVERFOLD_WORKER_CATCH_UP_BATCH": "100",
                                "EVERFOLD_WORKER_LEASE_TTL": "3s", "EVERFOLD_WORKER_LEASE_RENEW": "1200ms",
                                "EVERFOLD_WORKER_HEARTBEAT_TTL": "4s", "EVERFOLD_WORKER_POLL_INTERVAL": "200ms"})
        worker = wait_until(lambda: self.ef("worker", "ls", "-o", "json").json(), "a worker")[0]
        self.assertLessEqual(worker["ttl_ms"], 4000)
        self.import_events(events[10_000:], name="more.ndjson")
        wait_until(lambda: self.customer_views() == customer_totals(events), "all events are applied")

    def test_run_batch_takes_effect(self):
        events = list(orders(5000))
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.import_events(events)
        self.ef("work", "--drain", "--silent")
        self.ef("replay", "--projection", "customers", "--from-position", "1", env={"EVERFOLD_WORKER_RUN_BATCH": "13"})
        self.assertEqual(customer_totals(events), self.customer_views())


class Refused(Journey):
    def check_refused(self, *parts, **settings):
        answer = self.ef("config", "check", code=2, env={f"EVERFOLD_{k}": v for k, v in settings.items()})
        for part in parts:
            self.assertIn(part, answer.err)
        # A command that would use them does not begin either.
        self.ef("work", "--once", code=2, env={f"EVERFOLD_{k}": v for k, v in settings.items()})

    def test_what_cannot_hold_is_refused_with_names_and_values(self):
        self.ef("init")
        self.check_refused("worker.lease_renew is 10000ms", "worker.lease_ttl is 10000ms", WORKER_LEASE_RENEW="10s")
        self.check_refused("worker.heartbeat_ttl is 9000ms", "worker.lease_ttl is 10000ms", WORKER_HEARTBEAT_TTL="9s")
        self.check_refused("worker.lease_renew is 6000ms", "worker.heartbeat_ttl is 12000ms",
                           WORKER_LEASE_RENEW="6s", WORKER_HEARTBEAT_TTL="12s")
        self.check_refused("retry.apply.cap is 500ms", "retry.apply.base is 1000ms", RETRY_APPLY_CAP="500ms")
        self.check_refused("retry.cursor.factor is 0", RETRY_CURSOR_FACTOR="0")
        self.check_refused("worker.batch is 0", WORKER_BATCH="0")
        self.check_refused("worker.run_batch is 0", WORKER_RUN_BATCH="0")
        self.check_refused("worker.poll_interval is 0", WORKER_POLL_INTERVAL="0")
        # The values that the requirements name hold together.
        self.ef("config", "check", env={"EVERFOLD_WORKER_LEASE_TTL": "15s", "EVERFOLD_WORKER_LEASE_RENEW": "6s",
                                        "EVERFOLD_WORKER_HEARTBEAT_TTL": "20s", "EVERFOLD_WORKER_BATCH": "250",
                                        "EVERFOLD_RETRY_APPLY_BASE": "250ms", "EVERFOLD_RETRY_APPLY_ATTEMPTS": "5"})

    def test_config_show_says_where_each_came_from(self):
        self.write("a.conf", "[worker]\nlease_ttl = 15s\n[retry]\napply.base = 250ms\n")
        rows = {row["key"]: (row["value"], row["origin"]) for row in
                self.ef("config", "show", "-o", "json", "--config", "a.conf",
                        env={"EVERFOLD_RETRY_CURSOR_ATTEMPTS": "5"}).json()}
        self.assertEqual(("15s", "file"), rows["worker.lease_ttl"])
        self.assertEqual(("5s", "default"), rows["worker.lease_renew"])
        self.assertEqual(("30s", "default"), rows["worker.heartbeat_ttl"])
        self.assertEqual(("250ms", "file"), rows["retry.apply.base"])
        self.assertEqual(("5", "environment"), rows["retry.cursor.attempts"])
