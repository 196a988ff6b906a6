"""A slip of the pen is an error that names it, not an empty answer or a failing event."""
import kit
from kit import Journey, on_stores

DYNAMIC = """projection counts version 1
  view data.customer

on order.placed
  view[data.customer] = 1
"""

LITERALS = {
    'day = date_part("epoch", time)': 'date_part has no "epoch"',
    'shown = format("{:.2f}", data.amount)': "format has 0 {} for 1 values; a {} has no width or precision",
    'shown = format("{} {}", data.amount)': "format has 2 {} for 1 values",
    'lines = sort(data.lines, "-qty")': 'sort has no descending order: use reverse(sort(…, "qty"))',
    'name = replace(data.customer, "", "x")': "replace needs a text that is not empty",
}


@on_stores("sqlite", "lmdb", "postgres")
class Typos(Journey):
    def refused(self, *words):
        answer = self.ef("view", "query", "customers", *words, code=2)
        self.assertEqual("", answer.out)
        return answer.err

    def test_a_rebuild_of_one_tenant_is_refused(self):
        self.ef("init")
        self.deploy(kit.CUSTOMERS_FOLD)
        answer = self.ef("projection", "rebuild", "customers", "--tenant", "acme", code=2)
        self.assertIn("--tenant acme cannot be rebuilt alone; omit --tenant", answer.err)
        self.assertEqual([], self.ef("run", "ls", "-o", "json").json())

    def test_a_query_that_names_an_unknown_field_is_an_error(self):
        self.ef("init")
        self.deploy(kit.CUSTOMERS_FOLD)
        self.deploy(DYNAMIC, name="dynamic.fold")
        self.import_events(list(kit.orders(100)))
        self.ef("work", "--drain")
        self.assertIn('where: 1:1: error: no view of this projection has a field "totl"; did you mean "total"?',
                      self.refused("--where", "totl > 1"))
        self.assertIn('sort: 1:1: error: no view of this projection has a field "nosuch"', self.refused("--sort", "-nosuch"))
        self.assertIn('"orderz"; did you mean "orders"?', self.refused("--fields", "total,orderz"))
        self.assertIn('"totl"', self.refused("--where", 'orders > 0 and not (totl > 5)', "--count"))
        for words in (("--where", "total > 0 and view_id != '' and last_event_sequence > 0".replace("'", '"')),
                      ("--sort", "-total,view_id"), ("--fields", "orders,total.deeper")):
            self.ef("view", "query", "customers", *words)
        self.ef("view", "query", "counts", "--where", "whatever > 1", "--sort", "any.thing", "--fields", "at_all")
        self.serve()
        answer = self.http("GET", "/v1/views/customers?where=totl%20%3E%201")
        self.assertEqual((400, "bad_input"), (answer.status, answer.json()["code"]))
        self.assertIn("total", answer.json()["detail"])
        self.assertEqual(200, self.http("GET", "/v1/views/customers?where=total%20%3E%201").status)

    def test_a_field_that_only_seeded_views_have_is_known(self):
        self.ef("init")
        self.deploy(kit.CUSTOMERS_FOLD)
        seed = self.write("views.ndjson", '{"view_id":"old","data":{"legacy":7,"total":1}}\n')
        self.ef("view", "seed", "customers", seed, "--position", "0")
        self.ef("work", "--drain")
        self.ef("projection", "switch", "customers", "--version", "1")
        self.assertEqual(["old"], [v["view_id"] for v in self.ef(
            "view", "query", "customers", "--where", "legacy == 7", "-o", "json").json()["items"]])
        self.assertIn('"legaci"', self.refused("--where", "legaci == 7"))


class Literals(Journey):
    def test_fold_check_finds_literals_that_cannot_work(self):
        for line, message in LITERALS.items():
            path = self.write("p.fold", f"projection p version 1\n  view stream\n\non t\n  {line}\n")
            answer = self.ef("fold", "check", path, code=2)
            self.assertIn(message, answer.out + answer.err)
            self.assertIn("p.fold:5:", answer.out + answer.err)
        good = self.write("p.fold", 'projection p version 1\n  view stream\n\non t\n  a = date_part("day_of_year", time)\n'
                          '  b = format("{}-{}", data.a, data.b)\n  c = sort(data.lines, "qty")\n  d = date_part(data.part, time)\n')
        self.ef("fold", "check", good)
