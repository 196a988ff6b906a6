"""Metrics and probes of a worker that is no server."""
import re
import urllib.error

from kit import CUSTOMERS_FOLD, Journey, free_port, orders, wait_until


class WorkerMetrics(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)

    def work(self, *options, **more):
        """Starts `work --metrics-listen` and returns its URL and process."""
        port = free_port()
        process = self.start("work", "--metrics-listen", f"127.0.0.1:{port}", *options, **more)
        url = f"http://127.0.0.1:{port}"

        def answers():
            self.assertIsNone(process.poll(), process.log.read_text())
            try:
                return self.http("GET", "/livez", url=url).status == 200
            except OSError:
                return False
        wait_until(answers, "the worker answers")
        return url, process

    def metric(self, url, name):
        text = self.http("GET", "/metrics", url=url).body.decode()
        found = re.findall(rf"^everfold_{name}(?:\{{[^}}]*\}})? ([0-9.]+)$", text, re.M)
        return sum(map(float, found)) if found else None

    def test_a_publisher_in_work_is_counted_in_its_metrics(self):
        events = list(orders(500))
        for kind in ("order.placed", "order.cancelled"):
            self.ef("type", "set", kind, "--publish", "yes")
        self.ef("publisher", "add", "copy", "--to", f"file:{self.dir}/copy.ndjson")
        self.serve("--workers", "0")
        url, process = self.work()
        self.import_events(events)
        wait_until(lambda: self.metric(url, "publisher_published_total") == 500, "500 published, by the metrics")
        self.assertEqual(500, len((self.dir / "copy.ndjson").read_text().splitlines()))
        wait_until(lambda: self.metric(url, "projection_lag_events") == 0, "no lag")
        self.assertEqual(200, self.http("GET", "/readyz", url=url).status)
        # The server has no publisher in its process, and says nothing of what it published.
        self.assertIsNone(self.metric(self.server_url, "publisher_published_total"))
        # Nothing else is served.
        for path in ("/", "/v1/overview", "/v1/events", "/openapi.json", "/v1/views/customers/c1"):
            self.assertEqual(404, self.http("GET", path, url=url).status, path)
        self.assertEqual(404, self.http("POST", "/v1/outbox:requeue-dead", {}, url=url).status)
        self.assertEqual(0, self.end(process))
        with self.assertRaises(OSError):
            self.http("GET", "/livez", url=url)

    def test_an_address_that_is_not_loopback_is_refused_as_by_serve(self):
        answer = self.ef("work", "--metrics-listen", f"0.0.0.0:{free_port()}", code=2)
        self.assertIn("TLS", answer.err)
        self.assertEqual([], self.ef("worker", "ls", "-o", "json").json())

    def test_it_may_come_from_a_setting_and_is_refused_for_one_tick(self):
        port = free_port()
        self.start("work", env={"EVERFOLD_WORKER_METRICS_LISTEN": f"127.0.0.1:{port}"})

        def answers():
            try:
                return self.http("GET", "/livez", url=f"http://127.0.0.1:{port}").status == 200
            except OSError:
                return False
        wait_until(answers, "the worker answers")
        self.assertIn("--once", self.ef("work", "--once", "--metrics-listen", "127.0.0.1:0", code=2).err)
