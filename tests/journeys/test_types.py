"""Event types: what a pattern does, and that no type is called like one."""
import json

from kit import EVENTS, Journey, orders


class Types(Journey):
    def publish(self):
        return {row["name"]: row["publish"] for row in self.ef("type", "ls", "-o", "json").json()}

    def published(self, name):
        path = self.dir / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_a_pattern_changes_the_types_that_match_and_makes_none(self):
        events = list(orders(EVENTS // 5)) + [{"stream": "cart-1", "type": "cart.opened", "id": "cart", "data": {}}]
        self.ef("init")
        self.ef("type", "set", "order.*", "--publish", "yes", code=3)   # nothing matches yet
        self.import_events(events)
        changed = self.ef("type", "set", "order.*", "--publish", "yes", "-o", "json")
        self.assertEqual(["order.cancelled", "order.placed"], sorted(row["name"] for row in changed.json()))
        self.assertEqual({"order.placed": True, "order.cancelled": True, "cart.opened": False}, self.publish())
        self.ef("publisher", "add", "out", "--to", f"file:{self.dir}/out.ndjson", "--types", "order.*,cart.*")
        more = [{**event, "id": "more-" + event["id"]} for event in events[-3_001:]]
        self.import_events(more)
        self.ef("work", "--drain", "--silent")
        ids = [message["id"] for message in self.published("out.ndjson")]
        expected = {event["id"] for event in more if event["type"].startswith("order.")}
        self.assertLessEqual(expected, set(ids))
        self.assertNotIn("more-cart", ids)
        self.assertEqual(len(ids), len(set(ids)))
        self.ef("type", "set", "*", "--publish", "no")
        self.assertEqual({False}, set(self.publish().values()))

    def test_a_pattern_is_not_a_name(self):
        self.ef("init")
        self.ef("event", "append", "s", "--type", "order.placed", "--data", "{}")
        for words in (["or*er"], ["*.placed*"], ["order.*", "--alias-of", "x"]):
            self.ef("type", "set", *words, code=2)
        self.serve()
        answer = self.http("PUT", "/v1/types/order.*", {"publish": True})
        self.assertEqual((400, "bad_input"), (answer.status, answer.json()["code"]))
        self.ef("--server", self.server_url, "type", "set", "order.*", "--publish", "yes")
        self.assertEqual({"order.placed": True}, self.publish())

    def test_status_of_a_server_does_not_show_the_views_of_the_client(self):
        self.ef("init")
        self.serve()
        for words in ([], ["-o", "json"]):
            out = self.ef("--server", self.server_url, "status", *words).out
            self.assertNotIn("views.db", out)
            self.assertIn(self.server_url, out)
        self.assertEqual(self.server_url, self.ef("--server", self.server_url, "status", "-o", "json").json()["views_url"])
