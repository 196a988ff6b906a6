"""Spans of requests go to a collector, by OTLP over HTTP; and cost nobody anything."""
import http.server
import json
import threading

from support import Case, Server, wait_until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes what is posted, and answers `status`."""

    def __init__(self, status=200):
        outer = self
        self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.bodies.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.http = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def spans(self):
        return [s for _, _, body in self.bodies for r in body["resourceSpans"]
                for scope in r["scopeSpans"] for s in scope["spans"]]


class Trace(Case):
    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.http.shutdown)
        cls.server = Server(env={"OTEL_EXPORTER_OTLP_ENDPOINT": cls.collector.url + "/",
                                 "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k,x-other=o",
                                 "OTEL_SERVICE_NAME": "shop"})
        cls.addClassCleanup(cls.end)

    def found(self, route):
        return wait_until(lambda: [s for s in self.collector.spans() if s["name"] == route])[0]

    def test_a_request_is_a_span_under_its_parent(self):
        self.ask("POST", "/v1/streams/a/events", {"type": "t", "data": {}},
                 headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        span = self.found("POST /v1/streams/{stream}/events")
        self.assertEqual((TRACE, PARENT, 2), (span["traceId"], span["parentSpanId"], span["kind"]))
        self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
        self.assertLess(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        values = {a["key"]: list(a["value"].values())[0] for a in span["attributes"]}
        self.assertEqual(("POST", "201"), (values["http.request.method"],
                                           values["http.response.status_code"]))
        path, headers, body = self.collector.bodies[0]
        self.assertEqual(("/v1/traces", "k", "o"), (path, headers["x-key"], headers["x-other"]))
        self.assertIn({"key": "service.name", "value": {"stringValue": "shop"}},
                      body["resourceSpans"][0]["resource"]["attributes"])

    def test_without_a_parent_it_is_a_root_and_one_that_is_not_sampled_is_not_sent(self):
        self.get("/v1/runs", traceparent=f"00-{TRACE}-{PARENT}-00")
        self.get("/v1/leases")
        span = self.found("GET /v1/leases")
        self.assertNotIn("parentSpanId", span)
        self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
        self.assertEqual([], [s for s in self.collector.spans() if s["name"] == "GET /v1/runs"])
        self.assertRegex(self.get("/metrics").body.decode(),
                         r'everfold_trace_spans_total\{outcome="sent"\} [1-9]')


class Trouble(Case):
    def test_an_unavailable_collector_delays_no_request(self):
        server = Server(env={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"})
        self.assertEqual(200, server.ask("GET", "/v1/events").status)
        wait_until(lambda: b'everfold_trace_spans_total{outcome="failed"} 1' in
                   server.ask("GET", "/metrics").body)
        self.assertEqual(0, server.stop())

    def test_off_there_is_nothing(self):
        self.assertNotIn(b"trace_spans", self.get("/metrics").body)
