"""view get, query, export, explain, at; over the shop."""
import collections
import decimal
import json

from support import EVENT_KEYS, Case
from test_fold import SHOP

VIEW_KEYS = ["view_type", "version", "tenant", "view_id", "last_event_sequence", "data", "as_of"]


def expected_customers():
    """What customer_orders.fold makes of the shop's month, by hand."""
    views = {}
    for line in (SHOP / "events.ndjson").read_text().splitlines():
        event = json.loads(line, parse_float=decimal.Decimal)
        data = event["data"]
        if event["type"] == "order.placed":
            view = views.setdefault(data["customer_id"], collections.defaultdict(int))
            view["orders"] += 1
            view["total"] += data["amount"]
            at = event["time"].replace("Z", ".000000Z")
            view["recent"] = ((view["recent"] or []) + [{"id": data["order_id"], "at": at}])[-10:]
            view["status"] = "gold" if view["total"] >= 1000 else "new"
        elif event["type"] == "order.cancelled":
            view = views.setdefault(data["customer_id"], collections.defaultdict(int))
            view["orders"] -= 1
            view["total"] -= data["amount"]
        elif event["type"] == "cart.checked_out":
            for item in data["items"]:
                views.setdefault(item["sku"], collections.defaultdict(int))["sold"] += item["qty"]
        elif event["type"] == "customer.erased":
            views.pop(data["customer_id"], None)
    return {k: dict(v) for k, v in views.items()}


class Shop(Case):
    def setUp(self):
        super().setUp()
        self.init()
        self.ok("projection", "deploy", SHOP / "customer_orders.fold", SHOP / "products.fold")
        self.ok("event", "import", SHOP / "events.ndjson")
        self.ok("work", "--drain")

    def test_a_mistyped_projection_is_answered_with_the_one_that_was_meant(self):
        for words in (["view", "query", "product"], ["view", "get", "product", "x"], ["projection", "show", "prodcuts"],
                      ["projection", "pause", "product"], ["projection", "retire", "product", "--generation", "1"]):
            answer = self.run_it(*words)
            self.assertEqual((3, True), (answer.code, 'did you mean "products"?' in answer.err), answer.err)
        self.assertNotIn("did you mean", self.run_it("view", "query", "something_else").err)

    def test_messages_use_the_singular_for_one(self):
        imported = self.dir / "one.ndjson"
        imported.write_text('{"stream":"s","type":"t","id":"only","data":{}}\n')
        self.assertIn("1 event, 0 duplicates", self.ok("event", "import", imported).out)
        self.assertIn("1 event, 1 duplicate,", self.ok("event", "import", imported).out)

    def query(self, *words):
        return self.ok("view", "query", "customer_orders", *words, "-o", "json").json()

    def ids(self, *words):
        return [v["view_id"] for v in self.query(*words)["items"]]

    def test_every_view_matches_its_events(self):
        lines = self.ok("view", "export", "customer_orders").out.splitlines()
        views = [json.loads(line, parse_float=decimal.Decimal) for line in lines]
        self.assertEqual(expected_customers(), {v["view_id"]: v["data"] for v in views})
        for view in views:
            self.assertEqual(VIEW_KEYS, list(view))
            self.assertEqual(("customer_orders", 2, "", 200), tuple(view[k] for k in
                             ("view_type", "version", "tenant", "as_of")))
        self.assertEqual(sorted(v["view_id"] for v in views), [v["view_id"] for v in views])

    def test_get_answers_one_view(self):
        view = self.ok("view", "get", "customer_orders", "ada", "-o", "json").json()
        self.assertEqual(VIEW_KEYS, list(view))
        self.assertEqual(expected_customers()["ada"]["orders"], view["data"]["orders"])
        self.assertEqual(200, view["as_of"])
        text = self.ok("view", "get", "customer_orders", "ada").out
        self.assertIn("view_id              ada\n", text)

    def test_what_is_not_there_is_not_found(self):
        self.refused(3, "view", "get", "customer_orders", "hal")
        self.refused(3, "view", "get", "nothing", "ada", saying="nothing")
        self.refused(3, "view", "query", "nothing", saying="nothing")
        self.refused(3, "view", "export", "nothing", saying="nothing")
        self.refused(3, "view", "get", "customer_orders", "ada", "--tenant", "other")

    def test_an_answer_can_be_asked_to_be_fresh(self):
        place = self.append("order-900", "order.placed",
                            '{"order_id":"o900","customer_id":"ada","amount":1}')
        words = ("view", "get", "customer_orders", "ada", "-o", "json")
        self.assertEqual(200, self.ok(*words).json()["as_of"])
        self.refused(5, *words, "--current", "--timeout", "30ms")
        self.refused(5, *words, "--at-least", place["token"], "--timeout", "30ms")
        self.ok("work", "--drain")
        self.assertEqual(201, self.ok(*words, "--at-least", place["token"]).json()["as_of"])
        self.assertEqual(201, self.ok(*words, "--current").json()["as_of"])
        self.refused(2, *words, "--at-least", "no token")
        self.refused(2, *words, "--current", "--at-least", place["token"], saying="cannot be combined")
        self.refused(2, *words, "--timeout", "1s", saying="--timeout needs")

    def test_query_filters_and_sorts(self):
        expected = expected_customers()
        gold = [k for k, v in expected.items() if v.get("total", 0) > 1000]
        gold.sort(key=lambda k: -expected[k]["total"])
        self.assertGreater(len(gold), 1)
        answer = self.query("--where", "total > 1000", "--sort", "-total")
        self.assertEqual(["view_type", "version", "items", "next", "as_of"], list(answer))
        self.assertEqual(VIEW_KEYS, list(answer["items"][0]))
        self.assertEqual(gold, [v["view_id"] for v in answer["items"]])
        self.assertEqual(("customer_orders", 2, None, 200), tuple(answer[k] for k in
                         ("view_type", "version", "next", "as_of")))

    def test_query_continues_page_by_page(self):
        seen, after = [], []
        while True:
            page = self.query("--limit", "3", "--sort", "-orders", *after)
            seen += [v["view_id"] for v in page["items"]]
            if page["next"] is None:
                break
            after = ["--after", page["next"]]
        self.assertEqual(self.ids("--sort", "-orders"), seen)
        self.assertIn("--after ", self.ok("view", "query", "customer_orders", "--limit", "3").err)

    def test_query_counts(self):
        expected = sum("sold" in v for v in expected_customers().values())
        answer = self.query("--where", "sold > 0", "--count")
        self.assertEqual({"view_type": "customer_orders", "version": 2, "count": expected,
                          "as_of": 200}, answer)
        self.assertEqual(f"{expected}\n", self.ok("view", "query", "customer_orders", "--where",
                                                  "sold > 0", "--count").out)

    def test_query_gives_only_the_fields_asked_for(self):
        for view in self.query("--fields", "total,status", "--where", "orders > 0")["items"]:
            self.assertEqual({"total", "status"}, set(view["data"]))

    def test_query_explains_itself(self):
        answer = self.query("--where", 'status == "gold"', "--explain")
        self.assertEqual(["view_type", "version", "items", "next", "as_of", "plan", "looked"],
                         list(answer))
        text = self.ok("view", "query", "customer_orders", "--where", 'status == "gold"',
                       "--explain").out
        self.assertIn("status", answer["plan"])
        self.assertIn(f"{answer['looked']} views read", text)

    def test_query_prints_a_view_a_line_with_ndjson(self):
        lines = self.ok("view", "query", "customer_orders", "-o", "ndjson").lines()
        self.assertEqual(self.ids(), [v["view_id"] for v in lines])

    def test_query_is_a_table_of_fields_for_people(self):
        out = self.ok("view", "query", "customer_orders", "--where", "orders > 0").out
        head = out.splitlines()[0].split()
        self.assertEqual("view_id", head[0])
        self.assertEqual({"orders", "total", "status"}, set(head[1:4]))
        self.assertEqual("recent", head[4])
        self.assertRegex(out, r"(?m)^ada ")

    def test_the_table_is_fitted_to_the_terminal(self):
        answer = self.ok("view", "query", "customer_orders", env={"COLUMNS": "30"})
        self.assertLessEqual(max(map(len, answer.out.splitlines())), 30)
        self.assertIn("more fields", answer.err)

    def test_a_query_without_a_match_is_empty(self):
        answer = self.query("--where", "total > 1000000")
        self.assertEqual(([], 2), (answer["items"], answer["version"]))
        self.assertIn("no views", self.ok("view", "query", "customer_orders", "--where",
                                          "total > 1000000").err)

    def test_a_mistake_in_an_expression_has_a_caret(self):
        err = self.refused(2, "view", "query", "customer_orders", "--where", "total >> 1").err
        self.assertIn("^", err)
        self.refused(2, "view", "query", "customer_orders", "--limit", "0", saying="--limit")

    def test_explain_lists_the_events_that_made_it(self):
        events = self.ok("view", "explain", "products", "tea", "-o", "json").json()
        self.assertEqual(EVENT_KEYS, list(events[0]))
        self.assertEqual("product.listed", events[0]["type"])
        self.assertEqual(sorted(e["position"] for e in events), [e["position"] for e in events])
        touching = sum('"sku":"tea"' in line for line in
                       (SHOP / "events.ndjson").read_text().splitlines())
        self.assertEqual(touching, len(events))
        self.assertEqual(2, len(self.ok("view", "explain", "products", "tea", "--limit", "2", "-o",
                                        "ndjson").lines()))

    def test_view_at_shows_the_view_as_of_a_position(self):
        then = self.ok("view", "at", "products", "tea", "--position", "1", "-o", "json").json()
        self.assertEqual(VIEW_KEYS, list(then))
        self.assertEqual(({"name": "Tea", "price": 4.2}, 1), (then["data"], then["as_of"]))
        now = self.ok("view", "at", "products", "tea", "--position", "200", "-o", "json").json()
        self.assertEqual(self.ok("view", "get", "products", "tea", "-o", "json").json()["data"],
                         now["data"])
        self.refused(3, "view", "at", "products", "cup", "--position", "1")
        self.refused(2, "view", "at", "products", "tea", "--position", "0", saying="--position")
        self.refused(2, "view", "at", "products", "tea", saying="needs --position")

    def test_a_position_after_the_end_of_the_journal_is_refused_with_that_end(self):
        end = self.ok("status", "-o", "json").json()["journal"]["position"]
        self.ok("view", "at", "products", "tea", "--position", end)
        self.refused(2, "view", "at", "products", "tea", "--position", end + 1,
                     saying=f"position is {end + 1}, and the journal ends at position {end}")

    def test_tenants_are_apart(self):
        self.ok("event", "append", "p", "--type", "product.listed", "--data",
                '{"sku":"tea","name":"Thee","price":9}', "--tenant", "other")
        self.ok("work", "--drain")
        mine = self.ok("view", "get", "products", "tea", "-o", "json").json()
        theirs = self.ok("view", "get", "products", "tea", "--tenant", "other", "-o", "json").json()
        self.assertEqual(("Tea", "Thee"), (mine["data"]["name"], theirs["data"]["name"]))
        self.assertEqual(1, len(self.ok("view", "export", "products", "--tenant", "other").lines()))
        self.assertEqual(6, len(self.ok("view", "export", "products", "--all-tenants").lines()))
        self.refused(2, "view", "export", "products", "--all-tenants", "--tenant", "other",
                     saying="cannot be combined")
