"""Budgets: no event and no request costs others more than its share."""
import socket
import time
import urllib.parse

from kit import Journey, on_stores

TAGS_FOLD = """projection tags version 1
  view stream

on tagged
  n = count(unique(data.tags))
  same = data.a == data.b
  found = data.a[0] in data.tags
"""


def falling(keys):
    """An object whose keys come in falling order: the worst case of a comparison that looks for the next key."""
    return {f"k{n:05d}": 1 for n in range(keys, 0, -1)}


class FoldBudget(Journey):
    def test_large_nested_objects_are_compared_in_time(self):
        """One event of 960 KB took 100 s, in which the worker lost its leases."""
        self.ef("init")
        self.deploy(TAGS_FOLD)
        objects = [falling(10_000) for _ in range(5)]
        self.import_events([{"stream": "equal", "type": "tagged", "id": "1", "data": {"tags": objects, "a": [{}], "b": [{}]}},
                            {"stream": "pairs", "type": "tagged", "id": "2",
                             "data": {"tags": [], "a": objects[:2], "b": objects[:2]}},
                            {"stream": "small", "type": "tagged", "id": "3", "data": {"tags": [2, 1, 2], "a": [1], "b": [2]}}])
        started = time.monotonic()
        self.ef("work", "--drain", "--silent")
        self.assertLess(time.monotonic() - started, 15)
        self.assertEqual({"equal": {"n": 1, "same": True, "found": False}, "pairs": {"n": 0, "same": True, "found": False},
                          "small": {"n": 2, "same": False, "found": True}}, self.views("tags"))

    def test_a_walk_through_a_large_array_is_charged(self):
        """data.list[i] in a loop is quadratic: it ends as an error of its event, and the next event is applied."""
        self.ef("init")
        self.deploy("projection walk version 1\n  view stream\n\non listed\n  for i in data.indexes\n    total += data.list[i]\n")
        large = list(range(60_000))
        self.import_events([{"stream": "large", "type": "listed", "id": "1", "data": {"list": large, "indexes": large}},
                            {"stream": "small", "type": "listed", "id": "2", "data": {"list": [1, 2], "indexes": [0, 1]}}])
        started = time.monotonic()
        self.ef("work", "--drain", "--silent", code=6)
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual({"small": {"total": 3}}, self.views("walk"))
        rows = self.ef("outbox", "report", "--lane", "walk", "-o", "json").json()
        self.assertIn("more than 1000000 steps", str(rows))


HEAVY = " and ".join(['count(split(pad("",10000,"a"),"a"))>0'] * 40)   # 1.7 KB


class Queries(Journey):
    VIEWS = 3_000

    def prepare(self, **settings):
        self.ef("init")
        self.deploy("projection totals version 1\n  view stream\n\non added\n  total += data.n\n")
        self.import_events([{"stream": f"v-{n}", "type": "added", "id": f"{n}", "data": {"n": n}} for n in range(self.VIEWS)])
        self.ef("work", "--drain", "--silent")
        self.serve(env={f"EVERFOLD_SERVER_{key.upper()}": value for key, value in settings.items()})

    def views_where(self, where, more=""):
        query = urllib.parse.urlencode({"where": where})
        return self.http("GET", f"/v1/views/totals?{query}{more}")

    def check_over_budget(self, answer, word):
        self.assertEqual(422, answer.status, str(answer))
        self.assertEqual("over_budget", answer.json()["code"])
        self.assertIn(word, answer.json()["detail"])


@on_stores("sqlite", "lmdb", "postgres")
class QueryBudget(Queries):
    def test_a_filter_that_takes_too_long_is_ended(self):
        self.prepare(query_time="500ms")
        started = time.monotonic()
        self.check_over_budget(self.views_where(HEAVY), "longer than 500 ms")
        self.assertLess(time.monotonic() - started, 20)
        self.assertEqual(self.VIEWS, self.views_where("total >= 0", "&count=true").json()["count"])

    def test_a_filter_that_takes_too_many_steps_is_ended(self):
        self.prepare(query_steps="200000")
        self.check_over_budget(self.views_where(HEAVY), "more than 200000 steps")
        for path in ("explain", "history", "?position=2999"):
            answer = self.http("GET", f"/v1/views/totals/v-2998/{path}".replace("/?", "?"))
            self.assertEqual(200, answer.status, str(answer))

    def test_looking_into_the_past_has_a_budget(self):
        self.prepare(query_steps="5000")
        for path in ("/explain", "/history", "?position=2999"):
            self.check_over_budget(self.http("GET", f"/v1/views/totals/v-2998{path}"), "more than 5000 steps")


class ClientGone(Queries):
    def test_a_query_ends_when_its_client_has_gone(self):
        self.prepare(query_time="10m", query_steps="1000000000000", threads="2")
        server = urllib.parse.urlsplit(self.server_url)
        query = urllib.parse.urlencode({"where": HEAVY})
        for _ in range(4):
            with socket.create_connection((server.hostname, server.port)) as client:
                client.sendall(f"GET /v1/views/totals?{query} HTTP/1.1\r\nHost: {server.netloc}\r\n\r\n".encode())
        # With two threads, all four have to end before this one is answered. Each would take about half a minute.
        started = time.monotonic()
        self.assertEqual(200, self.views_where("total >= 0", "&count=true").status)
        self.assertLess(time.monotonic() - started, 20)
