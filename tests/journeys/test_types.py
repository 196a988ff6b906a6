"""Event types: what a pattern does, and that no type is called like one."""
import json
import time

import kit
from kit import EVENTS, Journey, on_stores, orders


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


class ManyTypes(Journey):
    def test_a_journal_with_100_000_types_opens_at_once(self):
        self.ef("init")
        self.import_events([{"stream": f"s-{n % 100}", "type": f"t{n:06d}", "id": f"{n}", "data": {}} for n in range(EVENTS)],
                           "--tenant", "mallory", env={"EVERFOLD_TYPES_MAX": str(EVENTS)})
        started = time.monotonic()
        for _ in range(3):
            self.ef("event", "append", "order-1", "--type", "placed", "--data", "{}", "--tenant", "victim")
        self.assertEqual(3, len(self.ef("event", "ls", "order-1", "--tenant", "victim", "-o", "json").json()))
        # 4 opens took more than 100 s of CPU when types were searched one by one.
        self.assertLess(time.monotonic() - started, 20)


class TypeLimitOfSql(Journey):
    STORE = "postgres"

    def append(self, tenant, *kinds):
        """The answers to appends by SQL, each in a transaction of its own."""
        calls = "".join(f"SELECT pg_temp.code_of('{tenant}', '{kind}');" for kind in kinds)
        out = kit.sql(self.stores["EVERFOLD_JOURNAL"], """CREATE FUNCTION pg_temp.code_of(tenant text, type text)
            RETURNS text LANGUAGE plpgsql AS $$
            DECLARE code text; message text;
            BEGIN
                PERFORM everfold.append(tenant, 's', NULL, json_build_object('type', type, 'data', '{}'::json));
                RETURN 'taken';
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS code = PG_EXCEPTION_DETAIL, message = MESSAGE_TEXT;
                RETURN code || ': ' || message;
            END $$;""" + calls)
        return out.splitlines()

    def test_it_holds_and_harms_no_other_append(self):
        self.ef("init", env={"EVERFOLD_TYPES_MAX": "100"})
        self.ef("status")  # a command without the setting leaves it
        answers = self.append("mallory", *(f"bad-{n}" for n in range(60)))
        self.assertEqual(["taken"] * 60, answers)
        self.assertEqual(60, len(self.ef("type", "ls", "-o", "json").json()))
        # Those that wait for a position count too.
        answers = self.append("mallory", *(f"bad-{n}" for n in range(103)))
        self.assertEqual(["taken"] * 100, answers[:100])
        for number, answer in enumerate(answers[100:], 100):
            self.assertEqual(f'unknown_type: event type "bad-{number}" is not registered, and appends of tenant "mallory" '
                             'have created 100 types, which is the limit (types.max): register the type, or raise the limit',
                             answer)
        self.assertEqual(["taken"] * 3, self.append("victim", "good", "better", "bad-5"))
        self.assertEqual(["taken"] * 2, self.append("mallory", "bad-5", "bad-99"))
        self.ef("type", "ls")  # all have their positions
        self.assertIn("types.max", self.ef("event", "append", "s", "--type", "bad-102", "--data", "{}", "--tenant", "mallory",
                                           env={"EVERFOLD_TYPES_MAX": "100"}, code=2).err)
        self.ef("type", "set", "bad-102", "--publish", "no")
        self.assertEqual(["taken"], self.append("mallory", "bad-102"))
        self.ef("partition", "sync", env={"EVERFOLD_TYPES_MAX": "101"})
        self.assertEqual([True, False], [answer == "taken" for answer in self.append("mallory", "bad-100", "bad-101")])


@on_stores("sqlite", "postgres")
class TypeLimit(Journey):
    def test_a_tenant_that_has_created_too_many_types_harms_no_other(self):
        self.ef("init")
        self.serve(env={"EVERFOLD_TYPES_MAX": "100"})

        def append(tenant, kind):
            return self.http("POST", "/v1/streams/s/events", {"type": kind, "data": {}}, {"X-Tenant-Id": tenant})
        answers = [append("mallory", f"bad-{n}") for n in range(103)]
        self.assertEqual([201] * 100 + [422] * 3, [answer.status for answer in answers])
        problem = answers[-1].json()
        self.assertEqual("unknown_type", problem["code"])
        self.assertIn('"bad-102"', problem["detail"])
        self.assertIn("types.max", problem["detail"])
        self.assertEqual(201, append("victim", "good").status)
        self.assertEqual(201, append("mallory", "bad-5").status)
        self.assertEqual(200, self.http("PUT", "/v1/types/bad-102", {"publish": False}).status)
        self.assertEqual(201, append("mallory", "bad-102").status)
