"""A version or a tenant that is behind or blocked: commands that compare or wait answer at once, and name what blocks."""
import kit
from kit import Journey, on_stores, wait_until

# Version 1 fails on a text; version 2 does not.
V1 = """projection totals version 1
  order by log
  view stream
on paid
  total += data.amount
"""
V2 = """projection totals version 2
  order by log
  view stream
on paid
  total += if is_number(data.amount) then data.amount else 0
"""
EVENTS = 5_000


def payments(count):
    """Event 0 of tenant t is a text, all others are numbers."""
    for number in range(count):
        yield {"tenant": "t" if number % 2 == 0 else "u", "stream": f"s{number % 10}", "type": "paid",
               "id": str(number), "data": {"amount": "a text" if number == 0 else 1}}


@on_stores("sqlite", "lmdb", "postgres")
class ABlockedTenant(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.deploy(V1)
        self.deploy(V2, name="v2.fold")
        self.import_events(payments(EVENTS))
        self.worker = self.start("work")
        wait_until(lambda: all(p["reached"] == EVENTS for p in self.projection("totals")), "both versions are through")
        wait_until(self.failure, "version 1 fails for tenant t")

    def failure(self):
        return self.ef("projection", "failures", "totals", "-o", "json").json()

    def assert_diff_is_blocked(self):
        answer = self.ef("projection", "diff", "totals", "--versions", "2,1", code=4)
        self.assertIn("version 1 (generation 1)", answer.err)
        self.assertIn(f'position 0 for tenant "t", version 2 (generation 2) at {EVENTS}', answer.err)
        self.assertIn(f"{EVENTS} positions behind", answer.err)
        self.assertIn("everfold projection failures", answer.err)
        self.assertNotIn("too fast", answer.err)

    def assert_wait_is_blocked(self):
        answer = self.ef("projection", "wait", "totals", "--tenant", "t", "--timeout", "100s", code=4)
        self.assertIn("blocked", answer.err)
        self.assertIn("a text", answer.err)
        self.ef("projection", "wait", "totals", "--tenant", "t", "--position", "0", "--timeout", "100s")
        self.ef("projection", "wait", "totals", "--tenant", "u", "--timeout", "100s")
        self.ef("projection", "wait", "totals", "--timeout", "100s")

    def assert_status_shows_what_is_blocked(self):
        health = self.ef("status", "-o", "json").json()["health"]
        self.assertIn(health["state"], ("behind", "trouble"))
        self.assertRegex(health["message"], rf"^Projection totals fails for a tenant and (is retried|needs an operator); "
                                             rf"{EVENTS // 2} events of 1 tenant are blocked\.$")
        self.assertIn(f"lag 0 events  failures 1  unaccounted 0  blocked {EVENTS // 2} events of 1 tenant\n",
                      self.ef("status").out)

    def test_diff_and_wait_name_what_blocks(self):
        self.assert_status_shows_what_is_blocked()
        self.assert_diff_is_blocked()
        self.assert_wait_is_blocked()
        self.assertEqual(0, self.end(self.worker))
        self.serve("--workers", "0")
        self.stores = {**self.stores, "EVERFOLD_SERVER": self.server_url}
        self.assert_diff_is_blocked()
        self.assert_wait_is_blocked()


@on_stores("sqlite", "lmdb", "postgres")
class AVersionThatIsBehind(Journey):
    def test_diff_names_the_version_and_the_distance(self):
        self.ef("init")
        self.deploy(V2.replace("version 2", "version 1"))
        self.import_events(payments(7))
        self.ef("work", "--drain")
        self.deploy(V2, name="v2.fold")  # and no worker runs
        answer = self.ef("projection", "diff", "totals", "--versions", "1,2", code=1)
        self.assertIn("version 2 (generation 2) is 7 events behind", answer.err)
        self.assertNotIn("version 1", answer.err)
        self.ef("work", "--drain")
        self.assertEqual("", self.ef("projection", "diff", "totals", "--versions", "1,2").err)


if __name__ == "__main__":
    kit.unittest.main()
