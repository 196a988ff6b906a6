"""Tenants over HTTP: the same streams and customers in each, and none of them sees another's."""
from kit import CUSTOMERS_FOLD, EVENTS, Journey, customer_totals, on_stores, orders, to_json

TENANTS = ("", "acme", "zebra")
BATCH = 2_000


@on_stores("sqlite", "postgres")
class Tenants(Journey):
    def as_tenant(self, name):
        return {"X-Tenant-Id": name} if name else {}

    def append_all(self, tenant, events):
        for first in range(0, len(events), BATCH):
            body = "\n".join(to_json(e) for e in events[first:first + BATCH])
            answer = self.http("POST", "/v1/events", body,
                               {"Content-Type": "application/x-ndjson", **self.as_tenant(tenant)})
            self.assertEqual(201, answer.status, str(answer))

    def totals_of(self, headers):
        """All views of a tenant, page by page."""
        found, after = {}, ""
        while after is not None:
            page = self.http("GET", "/v1/views/customers?limit=200" + (f"&after={after}" if after else ""),
                             headers=headers).json()
            found.update({v["view_id"]: (v["data"]["orders"], v["data"]["total"]) for v in page["items"]})
            after = page["next"]
        return found

    def test_each_tenant_has_its_own_totals_and_a_bound_token_reads_only_them(self):
        self.ef("init")
        self.deploy(CUSTOMERS_FOLD)
        self.serve()
        events = {t: list(orders(EVENTS // 3, seed=n)) for n, t in enumerate(TENANTS)}
        for tenant in TENANTS:
            self.append_all(tenant, events[tenant])
        for tenant in TENANTS:
            current = self.http("GET", "/v1/views/customers?current&wait=30s&limit=1", headers=self.as_tenant(tenant))
            self.assertEqual(200, current.status, str(current))
            self.assertEqual(customer_totals(events[tenant]), self.totals_of(self.as_tenant(tenant)))
        # The same id in another tenant is another event; in the same tenant it is a duplicate.
        again = self.http("POST", "/v1/events", to_json(events["acme"][0]),
                          {"Content-Type": "application/x-ndjson", "X-Tenant-Id": "acme"})
        self.assertEqual((200, True), (again.status, again.json()[0]["duplicate"]))
        token = self.ef("token", "create", "--scope", "read", "--tenant", "acme", "-o", "json").json()["token"]
        bound = {"Authorization": f"Bearer {token}"}
        self.assertEqual(customer_totals(events["acme"]), self.totals_of(bound))
        self.assertEqual(403, self.http("GET", "/v1/views/customers", headers={**bound, "X-Tenant-Id": "zebra"}).status)
        self.assertEqual(403, self.http("POST", "/v1/events", to_json(events["acme"][0]), bound).status)
