"""The HTTP front door as a client, a load balancer and a scraper meet it."""
import json

from kit import Journey


class FrontDoor(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.tokens = {name: self.ef("token", "create", "-o", "json", *words).json()["token"]
                       for name, words in {"read": ["--scope", "read"], "all": ["--scope", "admin"],
                                           "bound": ["--scope", "append,read", "--tenant", "t1"]}.items()}

    def ask(self, method, path, token="all", body=None, **headers):
        auth = {"Authorization": "Bearer " + self.tokens[token]} if token else {}
        return self.http(method, path, body, headers={**auth, **{k.replace("_", "-"): v for k, v in headers.items()}})

    def refused(self, status, code, response):
        problem = response.json()
        self.assertEqual((status, status, code, "urn:everfold:problem:" + code),
                         (response.status, problem["status"], problem["code"], problem["type"]), str(response))
        self.assertNotEqual("invalid argument", problem["title"])

    def test_every_refusal_has_a_code_of_its_own(self):
        self.serve("--hosts", "events.example.org", env={"EVERFOLD_TYPES_STRICT": "true", "EVERFOLD_SERVER_BODY": "2k"})
        event = {"type": "order.placed", "data": {}}
        self.ef("type", "set", "order.placed")
        self.assertEqual(201, self.ask("POST", "/v1/streams/s/events", body=event).status)
        self.refused(401, "unauthorized", self.ask("GET", "/v1/events", None))
        self.refused(401, "unauthorized", self.ask("GET", "/v1/events", None, Authorization="Bearer evf_no"))
        self.refused(403, "forbidden", self.ask("POST", "/v1/streams/s/events", "read", event))
        self.refused(403, "forbidden", self.ask("GET", "/v1/events", "bound", X_Tenant_Id="t2"))
        self.refused(403, "forbidden", self.ask("POST", "/v1/events", "bound", [{**event, "stream": "s", "tenant": "t2"}]))
        self.refused(403, "forbidden", self.ask("GET", "/v1/events", Origin="http://attacker.example"))
        self.refused(404, "not_found", self.ask("GET", "/v1/views/none/x"))
        response = self.ask("DELETE", "/v1/streams/s/events")
        self.refused(405, "method_not_allowed", response)
        self.assertEqual({"GET", "HEAD", "POST", "OPTIONS"}, set(response.headers["Allow"].split(", ")))
        self.refused(409, "seq_conflict", self.ask("POST", "/v1/streams/s/events", body=event, If_Match="7"))
        self.refused(413, "too_large", self.ask("POST", "/v1/streams/s/events", body={**event, "data": "x" * 3000}))
        self.refused(415, "unsupported_media_type", self.ask("POST", "/v1/streams/s/events", body="a,b", Content_Type="text/csv"))
        self.refused(421, "misdirected", self.ask("GET", "/v1/events", Host="attacker.example"))
        self.refused(422, "unknown_type", self.ask("POST", "/v1/streams/s/events", body={**event, "type": "order.lost"}))

    def test_the_command_line_gives_the_codes_of_the_server(self):
        self.serve()
        for token, words, code, exit_code in (("evf_no", ["event", "log"], "unauthorized", 2),
                                              (self.tokens["read"], ["type", "set", "t"], "forbidden", 2),
                                              (self.tokens["read"], ["view", "get", "none", "x"], "not_found", 3)):
            answer = self.run_ef("--server", self.server_url, *words, "-o", "json", env={"EVERFOLD_TOKEN": token})
            self.assertEqual((exit_code, code), (answer.code, json.loads(answer.err)["code"]), str(answer))

    def test_probes_answer_by_address_and_reveal_nothing_to_a_rebound_name(self):
        self.serve("--hosts", "events.example.org")
        for path in ("/livez", "/readyz", "/healthz", "/version", "/metrics"):
            for method in ("GET", "HEAD"):
                for host in ("10.4.5.6:7450", "events.example.org"):
                    self.assertEqual(200, self.ask(method, path, None, Host=host).status, (method, path, host))
        self.assertEqual(200, self.ask("GET", "/readyz", None, Host="pod.default.svc").status)
        self.refused(401, "unauthorized", self.ask("GET", "/metrics", None, Host="attacker.example"))
        self.assertEqual(200, self.ask("GET", "/metrics", "read", Host="pod.default.svc").status)
        self.refused(421, "misdirected", self.ask("GET", "/v1/status", Host="10.4.5.6"))

    def test_without_a_token_a_rebound_name_is_not_this_machine(self):
        self.stores = {"EVERFOLD_SERVER_TOKENS": str(self.dir / "none")}
        self.serve()
        self.assertEqual(200, self.ask("GET", "/metrics", None).status)
        self.refused(401, "unauthorized", self.ask("GET", "/metrics", None, Host="attacker.example"))
        self.refused(421, "misdirected", self.ask("GET", "/v1/status", None, Host="attacker.example"))

    def test_head_and_options_work_wherever_get_does(self):
        self.serve()
        paths = self.ask("GET", "/openapi.json").json()["paths"]
        plain = [p for p, methods in paths.items() if "get" in methods and "{" not in p and "subscribe" not in p]
        self.assertGreater(len(plain), 20)
        for path in ["/"] + plain:
            got, head = self.ask("GET", path), self.ask("HEAD", path)
            self.assertEqual((got.status, b"", got.headers["Content-Type"]),
                             (head.status, head.body, head.headers["Content-Type"]), path)
            self.assertIn("Content-Length", head.headers)
            self.assertIn("HEAD", self.ask("OPTIONS", path).headers["Allow"])
        stream = self.ask("HEAD", "/v1/subscribe/events")
        self.assertEqual((200, "text/event-stream"), (stream.status, stream.headers["Content-Type"]))
        self.refused(401, "unauthorized", self.ask("OPTIONS", "/v1/events", None))
        self.assertNotIn("Allow", self.ask("OPTIONS", "/v1/events", None).headers)
