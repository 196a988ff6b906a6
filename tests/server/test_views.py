"""Reading views over HTTP: read your writes, queries, history."""
import json

from support import CUSTOMERS, Case, wait_until

VIEW_KEYS = ["view_type", "version", "tenant", "view_id", "last_event_sequence", "data", "as_of"]


class Views(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        answer = cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        assert answer.status == 200, answer.body

    def placed(self, customer, amount):
        return self.append("order-" + customer, data={"customer": customer, "amount": amount})

    def test_what_was_written_can_be_read_by_its_token(self):
        token = self.placed("ada", 120)["token"]
        view = self.get(f"/v1/views/customers/ada?at_least={token}&wait=10s")
        self.assertEqual((200, VIEW_KEYS), (view.status, list(view.json())))
        self.assertEqual({"orders": 1, "total": 120}, view.json()["data"])
        token = self.placed("ada", 1)["token"]
        view = self.ask("GET", "/v1/views/customers/ada?wait=10s", headers={"Everfold-Token": token})
        self.assertEqual(121, view.json()["data"]["total"])
        self.assertEqual(200, self.get("/v1/views/customers/ada?current&wait=10s").status)

    def test_reads_are_monotonic_over_all_clients(self):
        """Plain reads that come together share what they read by; others go on writing meanwhile."""
        wires = [self.server.connect(timeout=30) for _ in range(12)]
        for total in range(1, 41):
            token = self.placed("seen", 1)["token"]
            shown = self.get(f"/v1/views/customers/seen?at_least={token}&wait=10s").json()["data"]["total"]
            for wire in wires:
                wire.request("GET", "/v1/views/customers/seen")
            seen = [json.loads(wire.getresponse().read())["data"]["total"] for wire in wires]
            self.assertEqual((total, [total] * len(wires)), (shown, seen))
        for wire in wires:
            wire.close()

    def test_a_wait_that_is_too_short_is_504(self):
        self.placed("late", 1)
        self.ask("POST", "/v1/projections/customers:pause", {})
        token = self.placed("late", 1)["token"]
        answer = self.get(f"/v1/views/customers/late?at_least={token}&wait=50ms")
        self.refused(504, "timeout", answer)
        self.ask("POST", "/v1/projections/customers:resume", {})
        self.assertEqual(200, self.get(f"/v1/views/customers/late?at_least={token}&wait=10s").status)

    def test_queries_page_and_say_what_is_wrong(self):
        for i in range(5):
            token = self.placed(f"q{i}", 1000 + i)["token"]
        page = self.get("/v1/views/customers?where=total%20%3E%3D%201000&sort=-total&limit=2"
                        f"&fields=total&at_least={token}&wait=10s").json()
        self.assertEqual([1004, 1003], [v["data"]["total"] for v in page["items"]])
        self.assertEqual(["view_type", "version", "items", "next", "as_of"], list(page))
        from urllib.parse import quote
        rest = self.get("/v1/views/customers?where=total%20%3E%3D%201000&sort=-total&limit=9"
                        f"&fields=total&after={quote(page['next'])}").json()
        self.assertEqual(["q2", "q1", "q0"], [v["view_id"] for v in rest["items"]])
        self.assertIsNone(rest["next"])
        self.assertEqual(5, self.get("/v1/views/customers?where=total%20%3E%3D%201000&count").json()
                         ["count"])
        self.assertIn("plan", self.get("/v1/views/customers?explain").json())
        self.refused(400, "bad_input", self.get("/v1/views/customers?where=total%20%3E"))

    def test_the_past_and_what_made_it(self):
        first = self.placed("past", 5)
        second = self.placed("past", 6)
        wait_until(lambda: self.get("/v1/views/customers/past").json().get("data", {})
                   .get("total") == 11)
        then = self.get(f"/v1/views/customers/past?position={first['position']}").json()
        self.assertEqual(5, then["data"]["total"])
        for freshness in ("current=true", f"at_least={first['token']}", "wait=1s"):
            self.refused(400, "bad_input", self.get(f"/v1/views/customers/past?position=1&{freshness}"))
        wait_until(lambda: [first["position"], second["position"]] ==
                   [e["position"] for e in self.get("/v1/views/customers/past/explain").json()])

    def test_unknown_ones_look_alike(self):
        self.refused(404, "not_found", self.get("/v1/views/nobody/x"))
        self.refused(404, "not_found", self.get("/v1/views/customers/nobody"))
        self.refused(404, "not_found", self.get("/v1/views/nobody"))

    def test_tenants_are_apart(self):
        self.ask("POST", "/v1/streams/t/events",
                 {"type": "order.placed", "data": {"customer": "tina", "amount": 7}},
                 headers={"X-Tenant-Id": "t1"})
        wait_until(lambda: self.get("/v1/views/customers/tina", X_Tenant_Id="t1").status == 200)
        self.assertEqual(404, self.get("/v1/views/customers/tina", X_Tenant_Id="t2").status)
        self.assertEqual(404, self.get("/v1/views/customers/tina").status)
        self.assertEqual(404, self.get("/v1/streams/t/events", X_Tenant_Id="t2").status)
        all_of_them = self.get("/v1/views/customers?all_tenants&sort=-total").json()["items"]
        self.assertIn(("t1", "tina"), [(v["tenant"], v["view_id"]) for v in all_of_them])
        self.refused(400, "bad_input", self.get("/v1/views/customers?all_tenants", X_Tenant_Id="t1"))
