"""Budgets: no event and no request costs others more than its share."""
import time

from kit import Journey, on_stores, wait_until

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
